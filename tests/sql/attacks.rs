//! Attacks on both engines: nothing of them happens, and each leaves one refusal on the books.

use serde_json::json;

use crate::bench::Bench;

/// Statements that must never reach PostgreSQL, and the detail of their refusal.
fn postgres(canary: &str) -> Vec<(String, &'static str)> {
    let plain = [
        ("SELECT 1; DROP TABLE t", "sql.multi_statement"),
        ("COMMIT; DROP TABLE t", "sql.multi_statement"),
        ("/*! DROP TABLE t */ SELECT 1; -- ", "sql.multi_statement"),
        ("SELECT U&'\\0041'; DELETE FROM t", "sql.multi_statement"),
        ("SELECT $q$ $q$; DELETE FROM t; SELECT $q$ $q$", "sql.multi_statement"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "sql.not_select"),
        ("SET TRANSACTION READ WRITE", "sql.not_select"),
        ("RESET ROLE", "sql.not_select"),
        ("SET ROLE postgres", "sql.not_select"),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "sql.not_select"),
        ("EXPLAIN (ANALYZE, BUFFERS) SELECT pg_sleep(100)", "sql.not_select"),
        ("COPY t TO '/tmp/x'", "sql.not_select"),
        ("DECLARE c CURSOR FOR SELECT 1", "sql.not_select"),
        ("NOTIFY x, 'y'", "sql.not_select"),
        ("LISTEN x", "sql.not_select"),
        ("CREATE TEMP TABLE x(a int)", "sql.not_select"),
        ("SELECT * INTO TEMP x FROM t", "sql.not_select"),
        ("LOAD 'x'", "sql.not_select"),
        ("DO $$ BEGIN DELETE FROM t; END $$", "sql.not_select"),
        ("SELECT * FROM t FOR UPDATE", "sql.not_select"),
        ("SELECT lo_from_bytea(0, 'x')", "sql.function"),
        ("SELECT pg_read_file('/etc/passwd')", "sql.function"),
        ("SELECT pg_ls_dir('/')", "sql.function"),
        ("SELECT pg_notify('c', 'x')", "sql.function"),
        ("SELECT pg_advisory_lock(1)", "sql.function"),
        ("SELECT pg_sleep(100000)", "sql.function"),
        ("SELECT nextval('s')", "sql.function"),
        ("SELECT nextval('public.s')", "sql.function"),
        ("SELECT set_config('statement_timeout', '0', false)", "sql.function"),
        ("SELECT query_to_xml('SELECT public.touch()', true, true, '')", "sql.function"),
        ("SELECT touch()", "sql.function"),
        ("SELECT public.touch()", "sql.function"),
        ("SELECT public.lower(1)", "sql.function"),
        ("SELECT * FROM public.touch()", "sql.function"),
        ("SELECT ('select password from public.secret_table'::text).ts_stat", "sql.function"),
        ("SELECT (100000).pg_sleep", "sql.function"),
        ("SELECT (77::bigint).pg_advisory_lock", "sql.function"),
        ("SELECT * FROM secret_table", "sql.relation"),
        ("SELECT (SELECT password FROM secret_table LIMIT 1)", "sql.relation"),
        ("SELECT * FROM secrets", "sql.relation"),
        ("SELECT * FROM allowed_view_that_was_redefined", "sql.relation"),
        ("SELECT * FROM pg_catalog.pg_authid", "sql.relation"),
        ("SELECT * FROM pg_stat_activity", "sql.relation"),
        ("WITH t AS (SELECT * FROM secret_table) SELECT * FROM t", "sql.relation"),
        ("", "sql.parse"),
        ("SELECT 'a' OPERATOR(public.+) 'b'", "sql.syntax"),
    ];
    let mut all: Vec<_> = plain.into_iter().map(|(sql, detail)| (sql.to_owned(), detail)).collect();
    all.push((format!("COPY (SELECT 'x') TO PROGRAM 'touch {canary}'"), "sql.not_select"));
    all.push((format!("SELECT lo_export(1, '{canary}')"), "sql.function"));
    all
}

/// More of them, each refused before anything is sent, whatever for.
const MORE: &[&str] = &[
    "TABLE secret_table",
    "(SELECT * FROM secret_table)",
    "SELECT 1 UNION ALL SELECT length(password) FROM secret_table",
    "VALUES ((SELECT password FROM secret_table))",
    "SELECT * FROM t, LATERAL (SELECT * FROM secret_table) AS s",
    "SELECT * FROM ONLY secret_table",
    "SELECT * FROM \"secret_table\"",
    "SELECT * FROM public.secret_table",
    "SELECT * FROM information_schema.tables",
    "SELECT a FROM t WHERE EXISTS (SELECT FROM secret_table)",
    "SELECT a FROM t ORDER BY (SELECT max(password) FROM secret_table)",
    "SELECT CASE WHEN (SELECT count(*) FROM secret_table) > 0 THEN 1 END",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_reload_conf()",
    "SELECT current_setting('data_directory')",
    "SELECT setval('s', 1)",
    "SELECT dblink('host=127.0.0.1', 'DELETE FROM t')",
    "SELECT txid_current()",
    "SELECT count(*) FROM t WHERE pg_sleep(1) IS NULL",
    "INSERT INTO t VALUES ('x')",
    "UPDATE t SET a = 'x'",
    "DELETE FROM t",
    "MERGE INTO t USING orders ON false WHEN NOT MATCHED THEN INSERT VALUES ('x')",
    "TRUNCATE t",
    "LOCK TABLE t",
    "BEGIN",
    "PREPARE x AS SELECT 1",
    "EXECUTE x",
    "CALL touch()",
    "VACUUM",
    "GRANT ALL ON t TO public",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "SELECT 1;;SELECT 2",
    "SELECT 'it''s; --'; DROP TABLE t; --'",
];

/// The same for SQLite.
fn sqlite(canary: &str) -> Vec<(String, &'static str)> {
    vec![
        (format!("ATTACH 'file:{canary}?mode=rwc' AS n"), "sql.attach"),
        (format!("ATTACH '{canary}' AS n"), "sql.attach"),
        (format!("VACUUM INTO '{canary}'"), "sql.not_select"),
        (format!("SELECT writefile('{canary}', 'y')"), "sql.function"),
        ("SELECT readfile('/etc/passwd')".into(), "sql.function"),
        ("SELECT sql FROM sqlite_master".into(), "sql.relation"),
        ("SELECT fts3_tokenizer('x', x'00')".into(), "sql.function"),
        ("SELECT load_extension('x')".into(), "sql.function"),
        ("CREATE TEMP TABLE x(a)".into(), "sql.not_select"),
        ("EXPLAIN SELECT 1".into(), "sql.not_select"),
        ("PRAGMA query_only = off".into(), "sql.not_select"),
        ("SELECT * FROM pragma_database_list".into(), "sql.relation"),
        ("SELECT * FROM pragma_table_info('t')".into(), "sql.function"),
        ("DELETE FROM t".into(), "sql.not_select"),
        ("SELECT * FROM secret_table".into(), "sql.relation"),
        ("SELECT * FROM secrets".into(), "sql.relation"),
        (
            "WITH order_names AS (SELECT * FROM secret_table) SELECT * FROM order_names".into(),
            "sql.relation",
        ),
        ("SELECT 1; DELETE FROM t".into(), "sql.multi_statement"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_an_attack_happens_and_each_is_refused_for_its_own_reason() {
    let bench = Bench::new().await;
    let canary = bench.keeper.path("canary").display().to_string();
    let (before, file) =
        (bench.state().await, std::fs::read(bench.keeper.path("books.db")).unwrap());
    let mut refused = 0;
    let tools = [("sql.pg", postgres(&canary)), ("sql.lite", sqlite(&canary))];
    for (tool, attacks) in tools {
        for (sql, detail) in attacks {
            let answer = bench.ask(tool, &sql).await.expect_err(&sql);
            let told = (answer.code.as_str(), answer.detail.as_str());
            assert_eq!(told, ("effect.refused", detail), "{sql}");
            refused += 1;
        }
    }
    for sql in MORE {
        let answer = bench.ask("sql.pg", sql).await.expect_err(sql);
        assert_eq!(answer.code, "effect.refused", "{sql}: {answer:?}");
        refused += 1;
    }
    // What a parameter holds is a value, whatever it looks like.
    let args = json!({"query": "SELECT * FROM t WHERE a = $1", "params": ["1; DROP TABLE t"]});
    assert_eq!(bench.call("sql.pg", args).await.unwrap()["row_count"], 0);
    assert_eq!(bench.state().await, before);
    assert_eq!(std::fs::read(bench.keeper.path("books.db")).unwrap(), file);
    assert!(!std::path::Path::new(&canary).exists());
    let summary = bench.close().await;
    assert_eq!(summary["calls"]["denied"], refused, "{summary}");
    assert_eq!(summary["calls"]["completed"], 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_or_operator_in_the_shadow_of_one_that_is_allowed_is_not_reached() {
    let bench = Bench::new().await;
    // `public` has a `lower(int)` that writes, and a `+` of texts that writes.
    for sql in ["SELECT lower(1)", "SELECT 'a'::text + 'b'::text"] {
        let answer = bench.ask("sql.pg", sql).await.expect_err(sql);
        assert_eq!(answer.code, "tool.failed", "{answer:?}");
        assert!(answer.message.contains("does not exist"), "{answer:?}");
    }
    assert_eq!(bench.state().await[3], 0, "rows of the canary");
    bench.close().await;
}
