//! What an agent asks SQLite and gets.

use serde_json::json;

use crate::bench::Bench;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_questions_are_answered() {
    let bench = Bench::new().await;
    for (sql, rows) in [
        ("SELECT a FROM t LIMIT 1", json!([["one"]])),
        (
            "SELECT * FROM Orders WHERE id < 3 ORDER BY id",
            json!([[1, "ann", 10.5, "aGk="], [2, "bob", 99, null]]),
        ),
        ("SELECT id FROM orders WHERE customer = 'big'", json!([["9007199254740993"]])),
        (
            "SELECT o.customer, count(*) FROM orders o LEFT JOIN t ON t.a = o.customer GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1",
            json!([["ann", 2]]),
        ),
        ("WITH x AS (SELECT * FROM orders) SELECT count(*) FROM x", json!([[4]])),
        (
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 4) SELECT sum(x) FROM c",
            json!([[10]]),
        ),
        ("SELECT value FROM json_each('[1, 2]')", json!([[1], [2]])),
        ("SELECT '{\"a\": 5}' ->> '$.a', json_extract('[7]', '$[0]')", json!([[5, 7]])),
        ("SELECT customer FROM order_names WHERE id = 2", json!([["bob"]])),
        ("SELECT count(*) FROM order_names", json!([[4]])),
        ("SELECT strftime('%Y', '2026-11-20'), upper('a') || 'b'", json!([["2026", "Ab"]])),
        (
            "SELECT rank() OVER (ORDER BY id) FROM orders WHERE customer LIKE 'a%'",
            json!([[1], [2]]),
        ),
    ] {
        let answer = bench.ask("sql.lite", sql).await;
        assert_eq!(answer.expect(sql)["rows"], rows, "{sql}");
    }
    for (sql, params) in [
        ("SELECT customer FROM orders WHERE id = ?", json!([2])),
        ("SELECT customer FROM orders WHERE id = $1", json!([2])),
        ("SELECT customer FROM orders WHERE id = ?2 AND ?1", json!([true, 2])),
    ] {
        let answer =
            bench.call("sql.lite", json!({"query": sql, "params": params})).await.expect(sql);
        assert_eq!(answer["rows"], json!([["bob"]]), "{sql}");
        assert_eq!(answer["tables_queried"], json!(["orders"]));
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_be_too_much_is_cut_stopped_or_refused() {
    let bench = Bench::new().await;
    let count = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c";
    let many = bench.ask("sql.lite", &format!("{count}) SELECT x FROM c")).await.unwrap();
    assert_eq!((&many["row_count"], &many["truncated"]), (&json!(50), &json!(true)));
    let endless =
        bench.ask("sql.lite", &format!("{count}) SELECT count(*) FROM c")).await.unwrap_err();
    assert_eq!(endless.code, "tool.failed");
    assert!(endless.message.contains("longer than it may"), "{endless:?}");
    let large = bench.ask("sql.lite", "SELECT randomblob(1000000000)").await.unwrap_err();
    assert_eq!(large.code, "tool.failed");
    assert!(large.message.contains("too big"), "{large:?}");
    let wide = bench.ask("sql.lite", "SELECT hex(randomblob(100000))").await.unwrap();
    assert_eq!((&wide["row_count"], &wide["truncated"]), (&json!(0), &json!(true)));
    // Each of these is one step of the machine, and would go on for minutes.
    let (long, part) = ("hex(zeroblob(1000000))", "hex(zeroblob(500000)) || '1'");
    for sql in [
        format!("SELECT instr({long}, {part})"),
        format!("SELECT length(replace({long}, {part}, '')) - 2000000"),
        format!("SELECT length(ltrim({long}, {part}))"),
    ] {
        assert_eq!(bench.ask("sql.lite", &sql).await.expect(&sql)["rows"], json!([[0]]), "{sql}");
    }
    let pattern = format!("SELECT {long} LIKE '%{}1'", "0".repeat(300));
    let pattern = bench.ask("sql.lite", &pattern).await.unwrap_err();
    assert!(pattern.message.contains("pattern too complex"), "{pattern:?}");
    let patch = bench.ask("sql.lite", "SELECT json_patch('{}', '{}')").await.unwrap_err();
    assert_eq!(patch.detail, "sql.function");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_itself_refuses_what_the_parser_would_have_missed() {
    // A list of tables that names a view: what it reads is the operator's business. One it does not
    // name stays closed, through whatever leads to it.
    let bench = Bench::new().await;
    let file = rusqlite::Connection::open(bench.keeper.path("books.db")).unwrap();
    file.execute_batch(
        "DROP VIEW order_names; CREATE VIEW order_names AS SELECT password AS customer FROM secrets",
    )
    .unwrap();
    let answer = bench.ask("sql.lite", "SELECT customer FROM order_names").await.unwrap_err();
    assert_eq!(answer.code, "tool.failed");
    assert!(answer.message.contains("prohibited"), "{answer:?}");
    bench.close().await;
}
