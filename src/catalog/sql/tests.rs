//! Accepted and refused SQL of agents; no test here reaches a database.

use super::*;

fn allowed() -> Allowed {
    let pair = |schema: &str, table: &str| (schema.to_owned(), table.to_owned());
    Allowed {
        tables: [
            pair("public", "t"),
            pair("public", "orders"),
            pair("public", "customers"),
            pair("sales", "orders_2026"),
            pair("stats", "*"),
        ]
        .into(),
        functions: ["public.distance".to_owned()].into(),
    }
}

fn lite() -> Allowed {
    let tables = ["t", "orders", "customers"].map(|table| ("main".to_owned(), table.to_owned()));
    Allowed { tables: tables.into(), functions: BTreeSet::new() }
}

fn pg(text: &str) -> Result<Statement, StatementRefusal> {
    free_form(Engine::Postgres, &allowed(), text)
}

fn sqlite(text: &str) -> Result<Statement, StatementRefusal> {
    free_form(Engine::Sqlite, &lite(), text)
}

fn detail(read: Result<Statement, StatementRefusal>) -> &'static str {
    read.map_or_else(
        |refused| refused.detail,
        |statement| {
            assert!(!statement.writes);
            "allowed"
        },
    )
}

#[test]
fn what_people_ask_a_database_is_taken() {
    for text in [
        "SELECT 1",
        "select a from t limit 1;",
        "SELECT * FROM t WHERE a = $1",
        "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.total > 10.5",
        "SELECT count(*), sum(total) FROM public.orders GROUP BY customer_id HAVING count(*) > 1",
        "WITH big AS (SELECT * FROM orders WHERE total > $1) SELECT * FROM big ORDER BY total DESC LIMIT 5",
        "WITH orders AS (SELECT * FROM orders WHERE total > 1) SELECT id FROM orders",
        "SELECT id, row_number() OVER (PARTITION BY customer_id ORDER BY total) FROM orders",
        "SELECT id, sum(total) OVER w FROM orders WINDOW w AS (ORDER BY id)",
        "SELECT note->>'city', note#>>'{a,b}', note @> '{\"a\": 1}' FROM orders",
        "SELECT * FROM t WHERE a LIKE '%x%' AND b ILIKE 'y_' OR c IN (1, 2, 3)",
        "SELECT total::text, CAST(id AS bigint), '2026-01-01'::date FROM orders",
        "SELECT date_trunc('month', placed_at), extract(year FROM placed_at) FROM orders",
        "SELECT now() - INTERVAL '7 days', CURRENT_DATE",
        "SELECT * FROM orders WHERE placed_at BETWEEN DATE '2026-01-01' AND now()",
        "SELECT coalesce(a, 'none'), nullif(b, ''), CASE WHEN c > 1 THEN 'x' ELSE 'y' END FROM t",
        "SELECT a FROM t UNION ALL SELECT b FROM t EXCEPT SELECT c FROM t",
        "SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer_id)",
        "SELECT g FROM generate_series(1, 10) AS g",
        "SELECT x FROM orders, jsonb_array_elements(note) AS x",
        "SELECT unnest(ARRAY[1, 2, 3])",
        "VALUES (1, 'a'), (2, 'b')",
        "SELECT string_agg(name, ', ' ORDER BY name) FILTER (WHERE id > 1) FROM customers",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM orders",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5) SELECT * FROM c",
        "SELECT DISTINCT ON (customer_id) * FROM orders ORDER BY customer_id, placed_at DESC",
        "SELECT /* the total */ sum(total) -- of all\nFROM orders",
        "SELECT 'it''s', E'tab\\there', $$dollar$$ FROM t",
        "SELECT * FROM t ORDER BY a NULLS LAST OFFSET 5 FETCH FIRST 3 ROWS ONLY",
        "SELECT placed_at AT TIME ZONE 'UTC', position('a' IN name) FROM orders, customers",
        "SELECT substring(name FROM 1 FOR 2), trim(BOTH ' ' FROM name) FROM customers",
        "SELECT * FROM customers WHERE id = ANY($1)",
        "SELECT public.distance(a, b) FROM t",
        "SELECT * FROM stats.daily LEFT JOIN LATERAL (SELECT 1 AS n) AS l ON true",
        "SELECT \"a\" FROM \"t\" AS \"T\" WHERE \"T\".\"a\" ~* '^x'",
    ] {
        let read = pg(text);
        assert!(read.is_ok(), "{text}: {read:?}");
    }
    for text in [
        "SELECT a FROM t LIMIT 1",
        "SELECT * FROM t WHERE a = ? AND b = ?",
        "SELECT * FROM T WHERE a = ?1",
        "SELECT strftime('%Y', placed_at), json_extract(note, '$.a'), note ->> '$.b' FROM orders",
        "SELECT o.id, c.name FROM orders o LEFT JOIN customers c USING (id) WHERE c.name GLOB 'A*'",
        "SELECT group_concat(name, ', ') FROM customers",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5) SELECT x FROM c",
        "SELECT value FROM json_each('[1, 2]')",
        "SELECT id, rank() OVER (ORDER BY total) FROM orders",
        "SELECT date('now', '-7 days'), ifnull(a, 0), x'00ff' FROM t",
    ] {
        let read = sqlite(text);
        assert!(read.is_ok(), "{text}: {read:?}");
    }
}

#[test]
fn what_is_sent_names_every_table_completely() {
    let read =
        pg("SELECT t.a FROM t, SALES.Orders_2026 s WHERE s.id IN (SELECT id FROM orders)").unwrap();
    assert_eq!(read.relations, ["public.orders", "public.t", "sales.orders_2026"]);
    for name in [r#""public"."t""#, r#""sales"."orders_2026""#, r#""public"."orders""#] {
        assert!(read.text.contains(name), "{}", read.text);
    }
    let read = pg("WITH orders AS (SELECT * FROM orders) SELECT lower(a) FROM orders").unwrap();
    assert_eq!(read.text.matches(r#""public"."orders""#).count(), 1, "{}", read.text);
    assert_eq!((read.functions, read.parts), (vec!["lower".to_owned()], vec!["orders".to_owned()]));
    let read = pg("SELECT a -- ; DROP TABLE t\n FROM t /* $3 */ WHERE b = $2").unwrap();
    assert!(!read.text.contains("DROP") && !read.text.contains('3'), "{}", read.text);
    assert_eq!(read.params, 2);
    assert_eq!(sqlite("SELECT a FROM Orders").unwrap().relations, ["orders"]);
}

#[test]
fn what_is_no_select_is_refused_and_says_so() {
    for text in [
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
        "RESET ROLE",
        "SET ROLE postgres",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "WITH x AS (UPDATE t SET a = 1 RETURNING *) SELECT * FROM x",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "EXPLAIN (ANALYZE, BUFFERS) SELECT pg_sleep(100)",
        "EXPLAIN SELECT 1",
        "COPY (SELECT 'x') TO PROGRAM 'touch /tmp/x'",
        "COPY t TO '/tmp/x'",
        "COPY t FROM STDIN",
        "DECLARE c CURSOR FOR SELECT 1",
        "FETCH ALL FROM c",
        "NOTIFY x, 'y'",
        "LISTEN x",
        "CREATE TEMP TABLE x(a int)",
        "LOAD 'x'",
        "DO $$ BEGIN PERFORM 1; END $$",
        "CALL p()",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "BEGIN",
        "COMMIT",
        "LOCK TABLE t",
        "VACUUM",
        "ANALYZE t",
        "TRUNCATE t",
        "DROP TABLE t",
        "GRANT ALL ON t TO public",
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "MERGE INTO t USING orders ON true WHEN MATCHED THEN DELETE",
        "SELECT * INTO x FROM t",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM (SELECT * FROM t FOR SHARE) AS s",
        "TABLE t",
    ] {
        assert_eq!(detail(pg(text)), "sql.not_select", "{text}");
    }
    for text in [
        "VACUUM INTO '/tmp/exfil.db'",
        "CREATE TEMP TABLE x(a)",
        "EXPLAIN SELECT 1",
        "PRAGMA query_only = off",
        "REINDEX",
        "REPLACE INTO t VALUES (1)",
        "SAVEPOINT s",
    ] {
        assert_eq!(detail(sqlite(text)), "sql.not_select", "{text}");
    }
    assert_eq!(detail(sqlite("ATTACH 'file:/tmp/x.db?mode=rwc' AS n")), "sql.attach");
    assert_eq!(detail(sqlite("DETACH n")), "sql.attach");
}

#[test]
fn more_than_one_statement_is_refused_however_it_is_hidden() {
    for text in [
        "SELECT 1; DROP TABLE t",
        "SELECT 1;;",
        ";SELECT 1",
        "SELECT 1; --",
        "/*! DROP TABLE t */ SELECT 1; -- ",
        "SELECT U&'\\0041'; DELETE FROM t",
        "SELECT $$;$$; COMMIT",
        "SELECT E'\\''; DROP TABLE t; --'",
        "COMMIT; DROP TABLE t",
    ] {
        assert_eq!(detail(pg(text)), "sql.multi_statement", "{text}");
    }
    // A second statement inside a text, a comment or a name does not count.
    for text in
        ["SELECT ';' FROM t", "SELECT 1 /* ; DROP */", "SELECT $x$ ; $$ ; $x$", "SELECT 1 AS \";\""]
    {
        assert_eq!(detail(pg(text)), "allowed", "{text}");
    }
}

#[test]
fn a_field_of_an_expression_is_refused_like_the_call_that_it_may_be() {
    for name in [
        "('select a from secret'::text).ts_stat",
        "(0.01).pg_sleep",
        "('pg_authid'::text).to_regclass",
        "(ARRAY['x'])[1].ts_stat",
        "(t).row_to_json",
        "(t).b.c",
        "((0.01)).\"pg_sleep\"",
    ] {
        for text in [
            format!("SELECT {name}"),
            format!("SELECT a FROM t WHERE b = (SELECT {name} LIMIT 1)"),
            format!("SELECT lower({name}) FROM t"),
            format!("SELECT a FROM t ORDER BY {name}"),
        ] {
            assert_eq!(detail(pg(&text)), "sql.function", "{text}");
        }
    }
    assert!(
        pg("SELECT (string_to_array(a, ','))[1], (array_agg(a))[1:2] FROM t GROUP BY a").is_ok()
    );
}

#[test]
fn names_that_the_server_would_truncate_and_keywords_that_are_calls_are_refused() {
    for long in ["p".repeat(63), "\u{e4}".repeat(31) + "p"] {
        let (a, b) = (format!("{long}1"), format!("{long}2"));
        for text in [
            format!(
                "SELECT (SELECT {a}.ts_stat FROM unnest(ARRAY[$1]) AS {b}(c)) FROM (SELECT 1 AS ts_stat) AS {a}"
            ),
            format!("WITH {a} AS (SELECT 1 AS ts_stat) SELECT {a}.ts_stat FROM {a}"),
            format!("SELECT x.\"{a}\" FROM (SELECT 1 AS \"{b}\") AS x"),
            format!("SELECT 1 AS {a}"),
        ] {
            assert_eq!(detail(pg(&text)), "sql.syntax", "{text}");
        }
        assert_eq!(detail(pg(&format!("SELECT 1 AS {long}"))), "allowed");
    }
    for name in [
        "current_role",
        "current_user",
        "session_user",
        "user",
        "current_schema",
        "current_catalog",
        "CURRENT_ROLE",
    ] {
        for text in [
            format!("SELECT {name}"),
            format!("SELECT a FROM t WHERE a = {name}"),
            format!("SELECT {name} AS a FROM t ORDER BY {name}"),
        ] {
            assert_eq!(detail(pg(&text)), "sql.function", "{text}");
        }
    }
    assert_eq!(detail(pg("SELECT \"user\" FROM t")), "allowed");
}

#[test]
fn functions_that_do_more_than_compute_are_refused() {
    for name in [
        "lo_export(1, '/tmp/x')",
        "lo_from_bytea(0, 'x')",
        "pg_read_file('/etc/passwd')",
        "\"pg_read_file\"('/etc/passwd')",
        "pg_catalog.pg_read_file('/etc/passwd')",
        "PG_READ_FILE('/etc/passwd')",
        "pg_ls_dir('/')",
        "pg_notify('c', 'x')",
        "pg_advisory_lock(1)",
        "pg_sleep(100000)",
        "nextval('s')",
        "setval('s', 1)",
        "set_config('statement_timeout', '0', false)",
        "query_to_xml('DELETE FROM t', true, true, '')",
        "ts_stat('SELECT 1')",
        "dblink('host=x', 'SELECT 1')",
        "public.lower('x')",
        "pg_terminate_backend(1)",
        "txid_current()",
        "current_setting('data_directory')",
        "version()",
        "inet_server_addr()",
        "pg_stat_file('x')",
        "database_to_xml(true, true, '')",
        "cursor_to_xml('c', 1, true, true, '')",
        "has_table_privilege('t', 'select')",
    ] {
        for text in [
            format!("SELECT {name}"),
            format!("SELECT * FROM {name} AS f"),
            format!("SELECT a FROM t WHERE b = (SELECT {name} LIMIT 1)"),
            format!("SELECT count(*) FILTER (WHERE {name} IS NULL) FROM t"),
            format!("SELECT a FROM t ORDER BY {name}"),
            format!("SELECT a FROM t LIMIT {name}"),
        ] {
            assert_eq!(detail(pg(&text)), "sql.function", "{text}");
        }
    }
    for name in [
        "readfile('/etc/passwd')",
        "writefile('/tmp/x', 'y')",
        "fts3_tokenizer('x', x'00')",
        "load_extension('x')",
        "edit('x')",
        "sqlite_version()",
        "\"load_extension\"('x')",
    ] {
        assert_eq!(detail(sqlite(&format!("SELECT {name}"))), "sql.function", "{name}");
    }
    assert_eq!(detail(sqlite("SELECT * FROM pragma_table_info('t')")), "sql.function");
}

#[test]
fn tables_that_are_not_listed_are_refused_wherever_they_stand() {
    for text in [
        "SELECT * FROM secret_table",
        "SELECT * FROM public.secret_table",
        "SELECT (SELECT password FROM secret_table LIMIT 1)",
        "SELECT * FROM t JOIN secret_table ON true",
        "SELECT * FROM t, LATERAL (SELECT * FROM secret_table) s",
        "SELECT * FROM t WHERE a IN (SELECT a FROM secret_table)",
        "SELECT a FROM t UNION SELECT password FROM secret_table",
        "WITH x AS (SELECT * FROM secret_table) SELECT * FROM x",
        // The name belongs to a part of another query, or to a later one.
        "SELECT * FROM (WITH secret_table AS (SELECT 1) SELECT 1) x, secret_table",
        "WITH x AS (SELECT * FROM secret_table), secret_table AS (SELECT 1) SELECT * FROM x",
        "WITH secret_table AS (SELECT 1) SELECT * FROM public.secret_table",
        "WITH secret_table AS (SELECT * FROM secret_table) SELECT * FROM secret_table",
        "SELECT * FROM pg_catalog.pg_authid",
        "SELECT * FROM pg_class",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM other.t",
        "SELECT * FROM db.public.t",
        "SELECT * FROM \"T\"",
        "SELECT a FROM t ORDER BY (SELECT password FROM secret_table LIMIT 1)",
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM secret_table) THEN 1 END",
    ] {
        // An unlisted name without a schema is taken for one of `stats`, where everything may be read.
        let mut own = allowed();
        own.tables.remove(&("stats".to_owned(), "*".to_owned()));
        assert_eq!(detail(free_form(Engine::Postgres, &own, text)), "sql.relation", "{text}");
    }
    let secret = pg("SELECT * FROM secret_table").unwrap();
    assert_eq!(secret.relations, ["stats.secret_table"]);
    for text in [
        "SELECT sql FROM sqlite_master",
        "SELECT * FROM temp.t",
        "SELECT * FROM sqlite_schema",
        "SELECT * FROM \"sqlite_master\"",
        "SELECT * FROM main.secret",
        "SELECT * FROM [secret]",
    ] {
        let read = detail(sqlite(text));
        assert!(["sql.relation", "sql.syntax"].contains(&read), "{text}: {read}");
    }
}

#[test]
fn what_is_not_understood_or_could_be_read_differently_is_refused() {
    for (text, code) in [
        ("", "sql.parse"),
        ("   ", "sql.parse"),
        ("-- nothing", "sql.parse"),
        ("SELECT", "allowed"),
        ("SELECT 1 +", "sql.parse"),
        ("SELECT 'x", "sql.parse"),
        ("SELECT \0 1", "sql.parse"),
        ("SELECT a OPERATOR(pg_catalog.+) b FROM t", "sql.syntax"),
        ("SELECT 'pg_authid'::regclass", "sql.syntax"),
        ("SELECT CAST('x' AS pg_catalog.regproc)", "sql.syntax"),
        ("SELECT regclass 'pg_authid'", "sql.syntax"),
        ("SELECT 1::\"regclass\"", "sql.syntax"),
        ("SELECT 1::pg_catalog.\"regclass\"::text", "sql.syntax"),
        ("SELECT 1::\"pg_catalog\".\"regrole\"", "sql.syntax"),
        ("SELECT CAST('{x}' AS pg_catalog.\"regnamespace\"[])", "sql.syntax"),
        ("SELECT \"a\"\"b\" FROM t", "sql.syntax"),
        ("SELECT * FROM t TABLESAMPLE SYSTEM (10)", "sql.syntax"),
        ("WITH pg_authid AS (SELECT 1) SELECT * FROM pg_authid", "sql.syntax"),
        ("SELECT * FROM t WHERE a = :name", "sql.params"),
        ("SELECT * FROM t WHERE a = $0", "sql.params"),
        ("SELECT * FROM t WHERE a = $101", "sql.params"),
    ] {
        let read = detail(pg(text));
        let either = read == code
            || (text == "SELECT" && read == "sql.parse")
            || (code == "sql.params" && read == "sql.parse")
            || (text.contains("regclass '") && read == "sql.parse");
        assert!(either, "{text}: {read}");
    }
    assert_eq!(detail(sqlite("SELECT a FROM t WHERE a = ? AND b = ?2")), "sql.params");
}

#[test]
fn a_text_never_leaves_its_quotes() {
    for text in [r"a'b", r"a''b", r"a\'b", r"\", r"'; DROP TABLE t; --", r"''", r"'''"] {
        let quoted = text.replace('\'', "''");
        let Ok(read) = pg(&format!("SELECT a FROM t WHERE b = '{quoted}'")) else { continue };
        // It is one text: the statement contains it whole.
        let sent = read.text.split_once("b = '").unwrap().1;
        assert_eq!(sent.strip_suffix('\'').unwrap(), quoted, "{}", read.text);
    }
    assert!(pg("SELECT a FROM t WHERE b = 'it''s'").is_ok());
}

#[test]
fn a_statement_that_nests_or_grows_without_end_is_refused_and_ends_nothing() {
    let deep = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    let long = format!("SELECT 1{}", "+1".repeat(30_000));
    let wide = format!("SELECT {}1", "1,".repeat(30_000));
    let union = format!("SELECT 1{}", " UNION SELECT 1".repeat(4_000));
    let not = format!("SELECT {}true", "NOT ".repeat(15_000));
    let case = format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(500), " END".repeat(500));
    for text in [deep, long, wide, union, not, case] {
        let read = detail(pg(&text));
        assert!(["sql.parse", "sql.too_large"].contains(&read), "{read}");
    }
    // The longest chain that is taken.
    let chain = format!("SELECT a FROM t WHERE {}a = 1", "a = 1 OR ".repeat(900));
    assert_eq!(detail(pg(&chain)), "allowed");
    let list = format!("SELECT a FROM t WHERE a IN ({}1)", "1, ".repeat(1_500));
    assert_eq!(detail(pg(&list)), "allowed");
}

#[test]
fn an_operators_statement_may_write_and_says_what() {
    let read = |text: &str| read::named(Engine::Postgres, "public", text);
    let insert = read("INSERT INTO orders (id, total) VALUES ($1, $2) RETURNING id;").unwrap();
    assert_eq!((insert.kind, insert.writes, insert.params), ("insert", true, 2));
    assert_eq!(insert.relations, ["public.orders"]);
    assert!(!insert.text.ends_with(';'));
    let hidden =
        read("WITH d AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM d").unwrap();
    assert_eq!((hidden.kind, hidden.writes), ("select", true));
    assert_eq!(hidden.relations, ["public.orders"]);
    let plain = read("SELECT lower(name) FROM sales.c JOIN t USING (id)").unwrap();
    assert_eq!((plain.kind, plain.writes), ("select", false));
    assert_eq!((plain.relations.len(), plain.functions), (2, vec!["lower".to_owned()]));
    for text in ["DROP TABLE t", "SELECT 1; SELECT 2", "COPY t TO STDOUT", "SET ROLE x", ""] {
        assert!(read(text).is_err(), "{text}");
    }
}
