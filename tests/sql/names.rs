//! What an agent's SELECT names, as PostgreSQL understands it: nothing that was not judged is read or called. The
//! statements are generated; what the server makes of them is asked from the server.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::bench::Bench;

/// Functions of one argument (or of any row) that an agent must not reach; each is called where `x.name` is no column.
const CALLS: [&str; 16] = [
    "ts_stat",
    "pg_sleep",
    "current_setting",
    "pg_advisory_lock",
    "pg_try_advisory_xact_lock",
    "pg_ls_dir",
    "pg_read_file",
    "lo_get",
    "lo_create",
    "lo_unlink",
    "pg_cancel_backend",
    "pg_stat_file",
    "currval",
    "to_regclass",
    "pg_column_size",
    "record_out",
];

/// Where `x` comes from, and what stands before the statement.
const SOURCES: [(&str, &str); 18] = [
    ("", "unnest(ARRAY[$1]) AS x"),
    ("", "unnest(ARRAY[$1]) x"),
    ("", "unnest(ARRAY[$1]) WITH ORDINALITY AS x"),
    ("", "unnest(ARRAY[$1]) AS x(c)"),
    ("", "unnest(ARRAY[$1], ARRAY[1]) AS x"),
    ("", "generate_series(1, 2) AS x"),
    ("", "lower('a') AS x"),
    ("", "json_array_elements('[1]') AS x"),
    ("", "jsonb_each('{\"k\": 1}') AS x"),
    ("", "(SELECT $1::text AS c) AS x"),
    ("", "(VALUES ($1)) AS x"),
    ("", "(SELECT * FROM t) AS x"),
    ("", "public.t AS x"),
    ("", "order_names x"),
    ("", "t CROSS JOIN LATERAL (SELECT t.a) AS x"),
    ("WITH x AS (SELECT $1::text AS c) ", "x"),
    ("WITH RECURSIVE x(c) AS (SELECT 1 UNION ALL SELECT c + 1 FROM x WHERE c < 3) ", "x"),
    ("", "(t AS y CROSS JOIN orders AS o) AS x"),
];

/// Where `x.name` stands.
const PLACES: [&str; 16] = [
    "SELECT {} FROM {S}",
    "SELECT 1 FROM {S} WHERE {} IS NULL",
    "SELECT 1 FROM {S} ORDER BY {}",
    "SELECT count(*) FROM {S} GROUP BY {}",
    "SELECT count({}) FROM {S}",
    "SELECT count(*) FILTER (WHERE {} IS NULL) FROM {S}",
    "SELECT CASE WHEN {} IS NULL THEN 1 END FROM {S}",
    "SELECT row_number() OVER (PARTITION BY {}) FROM {S}",
    "SELECT rank() OVER w FROM {S} WINDOW w AS (ORDER BY {})",
    "SELECT (SELECT {}) FROM {S}",
    "SELECT coalesce({}::text, 'a') FROM {S}",
    "SELECT 1 FROM {S} JOIN t AS z ON {} IS NULL",
    "SELECT 1 FROM {S} WHERE 1 IN (SELECT 1 FROM t AS z WHERE {} IS NULL)",
    "SELECT 1 FROM {S}, LATERAL (SELECT {} AS d) AS z",
    "SELECT ARRAY[{}::text] FROM {S}",
    "SELECT DISTINCT ON ({}) 1 FROM {S}",
];

/// Statements that agents write, all of which run.
const PLAIN: &[&str] = &[
    "SELECT o.id, o.customer FROM orders AS o",
    "SELECT orders.id FROM orders",
    "SELECT public.orders.id FROM public.orders",
    "SELECT O.ID FROM Orders O",
    "SELECT o.\"id\" FROM orders AS o",
    "SELECT o.* FROM orders AS o",
    "SELECT o.id, t.a FROM orders AS o JOIN t ON t.a = o.customer",
    "SELECT o.id FROM orders AS o LEFT JOIN t AS x ON x.a = o.customer WHERE x.a IS NULL",
    "SELECT a.id, b.id FROM orders AS a JOIN orders AS b ON a.customer = b.customer AND a.id < b.id",
    "SELECT s.customer, s.n FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) AS s",
    "SELECT s.count FROM (SELECT count(*) FROM orders) AS s",
    "SELECT s.customer FROM (SELECT * FROM orders) AS s WHERE s.total > 5",
    "SELECT s.id FROM (SELECT o.* FROM orders AS o) AS s",
    "SELECT s.c FROM (SELECT customer FROM orders) AS s(c)",
    "WITH big AS (SELECT * FROM orders WHERE total > 5) SELECT big.customer FROM big",
    "WITH big AS (SELECT id, total FROM orders) SELECT b.id FROM big AS b ORDER BY b.total",
    "WITH a AS (SELECT id FROM orders), b AS (SELECT a.id FROM a) SELECT b.id FROM b",
    "WITH c(n) AS (VALUES (1), (2)) SELECT c.n FROM c",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT c.x + 1 FROM c WHERE c.x < 4) SELECT sum(c.x) FROM c",
    "SELECT v.column1 FROM (VALUES (1), (2)) AS v",
    "SELECT v.a, v.b FROM (VALUES (1, 'x')) AS v(a, b)",
    "SELECT g.g FROM generate_series(1, 3) AS g",
    "SELECT g.n FROM generate_series(1, 3) AS g(n)",
    "SELECT g.day::date FROM generate_series(now(), now() + interval '2 days', interval '1 day') AS g(day)",
    "SELECT u.u FROM unnest(ARRAY[1, 2]) AS u",
    "SELECT u.v, u.n FROM unnest(ARRAY['a']) WITH ORDINALITY AS u(v, n)",
    "SELECT u.ordinality FROM unnest(ARRAY['a']) WITH ORDINALITY AS u",
    "SELECT e.key, e.value FROM jsonb_each('{\"a\": 1}') AS e",
    "SELECT e.value->>'a' FROM json_array_elements('[{\"a\": 1}]') AS e",
    "SELECT o.id, e.key FROM orders AS o, LATERAL jsonb_each_text(o.note) AS e",
    "SELECT o.note->>'city' FROM orders AS o WHERE o.note @> '{\"city\": \"Bonn\"}'",
    "SELECT lower(o.customer) FROM orders AS o WHERE upper(o.customer) LIKE 'A%'",
    "SELECT o.customer, sum(o.total) FROM orders AS o GROUP BY o.customer HAVING sum(o.total) > 1 ORDER BY 2",
    "SELECT o.id, rank() OVER (PARTITION BY o.customer ORDER BY o.total DESC) FROM orders AS o",
    "SELECT o.id, sum(o.total) OVER w FROM orders AS o WINDOW w AS (ORDER BY o.id)",
    "SELECT count(*) FILTER (WHERE o.total > 5) FROM orders AS o",
    "SELECT string_agg(o.customer, ', ' ORDER BY o.customer) FROM orders AS o",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY o.total) FROM orders AS o",
    "SELECT array_agg(DISTINCT o.customer) FROM orders AS o",
    "SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM orders AS p WHERE p.customer = o.customer AND p.id <> o.id)",
    "SELECT o.id FROM orders AS o WHERE o.id IN (SELECT p.id FROM orders AS p)",
    "SELECT o.id FROM orders AS o WHERE o.total > ALL (SELECT 1)",
    "SELECT (SELECT max(p.total) FROM orders AS p WHERE p.customer = o.customer) FROM orders AS o",
    "SELECT extract(year FROM o.placed_at)::int FROM orders AS o",
    "SELECT date_trunc('day', o.placed_at)::date FROM orders AS o",
    "SELECT o.placed_at AT TIME ZONE 'Europe/Berlin' FROM orders AS o",
    "SELECT trim(o.customer), substring(o.customer FROM 1 FOR 2), position('n' IN o.customer) FROM orders AS o",
    "SELECT overlay(o.customer PLACING 'x' FROM 1 FOR 1) FROM orders AS o",
    "SELECT o.customer SIMILAR TO 'a%' FROM orders AS o",
    "SELECT o.customer LIKE 'a!%' ESCAPE '!' FROM orders AS o",
    "SELECT o.customer ILIKE 'A%' FROM orders AS o",
    "SELECT o.total::numeric(12,1)::text FROM orders AS o",
    "SELECT cast(o.customer AS varchar(10)) FROM orders AS o",
    "SELECT coalesce(o.total, 0), nullif(o.customer, 'x'), greatest(o.id, 2) FROM orders AS o",
    "SELECT CASE o.customer WHEN 'ann' THEN 1 ELSE 2 END FROM orders AS o",
    "SELECT o.customer FROM orders AS o UNION SELECT x.a FROM t AS x ORDER BY 1",
    "SELECT o.id FROM orders AS o WHERE o.placed_at > now() - interval '100 years'",
    "SELECT round(avg(o.total), 2) FROM orders AS o",
    "SELECT grouping(o.customer), count(*) FROM orders AS o GROUP BY ROLLUP (o.customer)",
    "SELECT n.customer FROM order_names AS n",
    "SELECT n.id, o.total FROM order_names AS n JOIN orders AS o USING (id)",
    "SELECT row_to_json(o) FROM orders AS o",
    "SELECT json_agg(s) FROM (SELECT o.id, o.customer FROM orders AS o) AS s",
    "SELECT o.ctid IS NOT NULL FROM orders AS o",
    "SELECT regexp_replace(o.customer, 'n+', 'm') FROM orders AS o",
    "SELECT o.id FROM orders AS o WHERE (o.id, o.customer) IN ((1, 'ann'))",
    "SELECT split_part(o.customer, 'n', 1), length(o.customer) FROM orders AS o ORDER BY o.id LIMIT 1 OFFSET 1",
    "SELECT o.customer || '-' || o.id::text FROM orders AS o",
];

/// What the server's own plan of a text calls, read in another way than the gate reads it.
async fn planned(admin: &mut PgConnection, sql: &str) -> BTreeSet<String> {
    let explain = format!("EXPLAIN (VERBOSE, COSTS OFF) {sql}");
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(explain)).fetch_all(admin).await.expect(sql);
    let lines: Vec<String> = rows.iter().map(|row| row.get::<String, _>(0)).collect();
    let texts = Regex::new("'(?:[^']|'')*'").unwrap();
    let calls = Regex::new(r"([a-z_][a-z0-9_.]*)\(").unwrap();
    let text = texts.replace_all(&lines.join("\n"), "''").to_lowercase();
    calls.captures_iter(&text).map(|seen| seen[1].to_owned()).collect()
}

fn generated() -> Vec<String> {
    let mut all = Vec::new();
    for (s, (with, source)) in SOURCES.iter().enumerate() {
        for (p, place) in PLACES.iter().enumerate() {
            // Every source in every place, and the functions in turn; then each in quotes.
            let name = CALLS[(s * 5 + p) % CALLS.len()];
            let quoted = (s + p) % 3 == 0;
            let called = if quoted { format!("x.\"{name}\"") } else { format!("x.{name}") };
            all.push(format!("{with}{}", place.replace("{}", &called).replace("{S}", source)));
        }
    }
    for name in CALLS {
        all.push(format!("SELECT public.t.{name} FROM public.t"));
        all.push(format!("SELECT ({name}).c FROM t AS {name}"));
        all.push(format!("SELECT t.{name} FROM t, (SELECT 1 AS {name}) AS x"));
        all.push(format!("SELECT x.{name} FROM (SELECT 1 AS {name}) AS x, (SELECT x.{name} FROM unnest(ARRAY['a']) AS x) AS y"));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_generated_statement_calls_a_function_that_was_not_judged() {
    let bench = Bench::new().await;
    let statements = generated();
    assert!(statements.len() >= 300, "{}", statements.len());
    let before = bench.state().await;
    let mut agent = None;
    for (number, sql) in statements.iter().enumerate() {
        // A tool that was denied a hundred times is suspended for the run.
        let agent = match number % 50 {
            0 => agent.insert(bench.sidecar.open().await),
            _ => agent.as_mut().unwrap(),
        };
        let params = if sql.contains("$1") { json!(["SELECT public.touch()"]) } else { json!([]) };
        let args = json!({"query": sql, "params": params}).to_string();
        let asked = agent.call("sql.pg", &format!("g{number}"), &args).await;
        let refused = asked.expect_err(sql);
        let why = (refused.code.as_str(), refused.detail.as_str());
        // Where the server knows no such call either, it says so.
        let unknown = refused.code == "tool.failed";
        assert!(
            matches!(why, ("effect.refused", "sql.column" | "sql.function" | "sql.syntax"))
                || unknown,
            "{sql}: {refused:?}"
        );
    }
    assert_eq!(bench.state().await, before, "nothing of it happened");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_write_runs_and_its_plan_calls_only_what_is_allowed() {
    let bench = Bench::new().await;
    let mut admin = PgConnection::connect(&bench.admin_url).await.unwrap();
    let allowed: BTreeSet<&str> = wicketgate::catalog::sql::POSTGRES.iter().copied().collect();
    // Syntax and types that look like calls, and what the server writes for LIKE … ESCAPE and SIMILAR TO.
    let looks = ["numeric", "varying", "row", "like_escape", "similar_to_escape"];
    assert!(PLAIN.len() >= 60, "{}", PLAIN.len());
    for sql in PLAIN {
        bench.ask("sql.pg", sql).await.expect(sql);
        for name in planned(&mut admin, sql).await {
            assert!(
                allowed.contains(name.as_str()) || looks.contains(&name.as_str()),
                "{sql}: {name}"
            );
        }
    }
    bench.close().await;
}

/// Where `o` comes from, with the columns `id`, `customer` and `total`, and what stands before the statement.
const ORDERS: [(&str, &str); 18] = [
    ("", "orders AS o"),
    ("", "public.orders AS o"),
    ("", "orders AS o(id, customer, total)"),
    ("", "(SELECT * FROM orders) AS o"),
    ("WITH w AS (SELECT * FROM orders) ", "w AS o"),
    (
        "WITH a AS (SELECT * FROM orders), b AS (SELECT a.* FROM a JOIN t ON t.a = a.customer) ",
        "b AS o",
    ),
    // A name of the statement's own hides a table's, here and only where it is in scope.
    ("WITH orders AS (SELECT 1 AS id, a AS customer, 2.0 AS total FROM t) ", "orders AS o"),
    ("WITH orders AS (SELECT 1 AS id, a AS customer, 2.0 AS total FROM t) ", "public.orders AS o"),
    ("WITH t AS (SELECT p.*, p.customer AS a FROM orders AS p) ", "t AS o"),
    (
        "",
        "(WITH orders AS (SELECT 1 AS id, a AS customer, 2.0 AS total FROM t) SELECT * FROM orders) AS o",
    ),
    (
        "WITH RECURSIVE r AS (SELECT id, customer, total FROM orders UNION \
         SELECT r.id + 1, r.customer, r.total FROM r WHERE r.id < 3) ",
        "r AS o",
    ),
    ("", "orders AS o JOIN t AS x ON x.a = o.customer"),
    ("", "t AS x JOIN LATERAL (SELECT * FROM orders AS p WHERE p.customer = x.a) AS o ON true"),
    (
        "",
        "(SELECT 1 AS id, x.a AS customer, 1.5 AS total FROM t AS x UNION ALL SELECT id, customer, total FROM orders) AS o",
    ),
    (
        "",
        "(SELECT p.* FROM orders AS p WHERE EXISTS (SELECT 1 FROM t WHERE t.a = p.customer)) AS o",
    ),
    ("", "generate_series(1, 2) AS g(n) JOIN orders AS o ON o.id = g.n"),
    ("", "(VALUES (1, 'ann', 2.5)) AS o(id, customer, total)"),
    ("", "(SELECT p.id, x.a AS customer, p.total FROM orders AS p, t AS x) AS o"),
];

/// What is read from there, and what else.
const READ: [&str; 18] = [
    "SELECT o.id FROM {S}",
    "SELECT o.* FROM {S}",
    "SELECT count(*) FROM {S} WHERE o.total > 1",
    "SELECT o.customer, sum(o.total) FROM {S} GROUP BY o.customer",
    "SELECT o.id FROM {S} ORDER BY o.total DESC LIMIT 2",
    "SELECT o.id FROM {S} WHERE o.customer IN (SELECT t.a FROM t)",
    "SELECT o.id FROM {S} WHERE EXISTS (SELECT 1 FROM public.t WHERE public.t.a = o.customer)",
    "SELECT (SELECT max(p.id) FROM orders AS p WHERE p.customer = o.customer) FROM {S}",
    "SELECT o.id FROM {S} UNION SELECT length(z.a) FROM t AS z",
    "SELECT o.id FROM {S} EXCEPT SELECT p.id FROM orders AS p",
    "SELECT s.n FROM (SELECT count(*) AS n FROM {S}) AS s",
    "SELECT o.id, rank() OVER (PARTITION BY o.customer ORDER BY o.total) FROM {S}",
    "SELECT CASE WHEN o.total > 1 THEN o.customer ELSE 'x' END FROM {S}",
    "SELECT q.customer FROM {S} JOIN orders AS q ON q.customer = o.customer",
    "SELECT o.id FROM {S} LEFT JOIN t AS z ON z.a = o.customer WHERE z.a IS NULL",
    "SELECT o.customer FROM {S} GROUP BY o.customer HAVING count(*) > (SELECT count(*) FROM t)",
    "SELECT DISTINCT ON (o.customer) o.id FROM {S} ORDER BY o.customer, o.id",
    "SELECT o.id FROM {S} WHERE o.total >= ALL (SELECT p.total FROM public.orders AS p)",
];

/// Every relation in the server's plan of a text.
async fn read(admin: &mut PgConnection, sql: &str) -> BTreeSet<String> {
    fn walk(node: &Value, found: &mut BTreeSet<String>) {
        if let Some(name) = node["Relation Name"].as_str() {
            found.insert(format!("{}.{name}", node["Schema"].as_str().unwrap()));
        }
        let below = node["Plans"].as_array().into_iter().flatten();
        below.for_each(|node| walk(node, found));
    }
    let explain = format!("EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {sql}");
    let row = sqlx::raw_sql(sqlx::AssertSqlSafe(explain)).fetch_one(admin).await.expect(sql);
    let plan: Value = row.get(0);
    let mut found = BTreeSet::new();
    walk(&plan[0]["Plan"], &mut found);
    found
}

/// Policy sees relations, and the answer names them. What a name means is the server's to say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_every_generated_statement_the_relations_that_were_judged_are_those_of_the_plan() {
    let bench = Bench::new().await;
    let mut admin = PgConnection::connect(&bench.admin_url).await.unwrap();
    let agent = bench.sidecar.open().await;
    let mut asked = 0;
    for (with, source) in ORDERS {
        for place in READ {
            let sql = format!("{with}{}", place.replace("{S}", source));
            let args = json!({"query": sql}).to_string();
            let answer = agent.call("sql.pg", &format!("r{asked}"), &args).await;
            let answer: Value = serde_json::from_str(&answer.expect(&sql)).unwrap();
            let told: Vec<String> =
                serde_json::from_value(answer["tables_queried"].clone()).expect(&sql);
            let (told, planned) = (BTreeSet::from_iter(told), read(&mut admin, &sql).await);
            // A part that nothing refers to is judged, and not in the plan.
            let unused = with.starts_with("WITH orders") && source == "public.orders AS o";
            assert!(
                told == planned || unused && told.is_superset(&planned),
                "{sql}: {told:?} {planned:?}"
            );
            asked += 1;
        }
    }
    assert!(asked >= 300, "{asked}");
    bench.close().await;
}

/// The gate reads columns before each statement: one that is gone is no function, and one that came is a column.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_that_is_dropped_while_the_gate_runs_becomes_no_call() {
    let bench = Bench::new().await;
    // Of any row there is a function of this name.
    let (add, drop) = ("ADD COLUMN pg_column_size int", "DROP COLUMN pg_column_size");
    let sql = "SELECT o.pg_column_size FROM orders AS o";
    crate::bench::own(&bench.admin_url, &format!("ALTER TABLE orders {add}")).await;
    assert_eq!(bench.ask("sql.pg", sql).await.unwrap()["row_count"], 3);
    crate::bench::own(&bench.admin_url, &format!("ALTER TABLE orders {drop}")).await;
    let refused = bench.ask("sql.pg", sql).await.unwrap_err();
    assert_eq!(refused.code, "tool.failed", "{refused:?}");
    assert!(refused.message.contains("has the column `pg_column_size`"), "{refused:?}");
    bench.close().await;
}

/// Views, row security and partitions read more than the statement says; that is the owner's doing and runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_owner_put_behind_a_table_is_no_surprise_to_the_second_lock() {
    let bench = Bench::new().await;
    let owner = format!(
        "CREATE OR REPLACE VIEW order_names AS SELECT o.id, initcap(o.customer) AS customer FROM orders AS o \
           JOIN secret_table ON length(password) > 0; \
         DROP TABLE t; CREATE TABLE t (a text) PARTITION BY LIST (a); \
         CREATE TABLE t_one PARTITION OF t FOR VALUES IN ('one'); INSERT INTO t VALUES ('one'); \
         GRANT SELECT ON t TO reader_{0}; \
         ALTER TABLE orders ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY own ON orders FOR SELECT TO reader_{0} USING (starts_with(customer, 'a'))",
        bench.suffix
    );
    crate::bench::own(&bench.admin_url, &owner).await;
    let rows = async |sql: &str| bench.ask("sql.pg", sql).await.expect(sql)["row_count"].clone();
    assert_eq!(rows("SELECT n.customer FROM order_names AS n").await, 3);
    assert_eq!(rows("SELECT x.a FROM t AS x").await, 1);
    assert_eq!(rows("SELECT o.id FROM orders AS o").await, 2);
    bench.close().await;
}

/// A statement that calls what the operator listed is judged like any other: only the body is the operator's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_of_the_operator_does_not_open_the_second_lock() {
    let bench = Bench::on(wicketgate_support::pg::Pg::cluster(), |mut tools| {
        tools.push(crate::bench::pg_tool(
            "sql.more",
            "reader.url",
            json!({"tables": ["public.t", "public.orders"], "functions": ["public.twice"]}),
        ));
        tools
    })
    .await;
    let create =
        "CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT abs($1) * 2'";
    crate::bench::own(&bench.admin_url, create).await;
    let rows = bench.ask("sql.more", "SELECT public.twice(o.id) FROM orders AS o ORDER BY 1").await;
    assert_eq!(rows.unwrap()["rows"], json!([[2], [4], [6]]));
    // The array is one of rows, so nothing in it has the column that its alias seems to give.
    for name in ["record_out", "pg_column_size", "hash_record", "num_nulls", "row_to_json"] {
        let sql = format!(
            "SELECT {name}.{name}::text, public.twice(o.id) FROM orders AS o, LATERAL unnest(ARRAY[o]) AS {name}"
        );
        let refused = bench.ask("sql.more", &sql).await.expect_err(&sql);
        assert!(refused.message.contains("was not judged"), "{sql}: {refused:?}");
    }
    bench.close().await;
}
