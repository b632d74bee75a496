//! What an agent asks PostgreSQL and gets.

use serde_json::json;

use crate::bench::Bench;
use crate::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_questions_are_answered_with_types_that_readers_keep() {
    let bench = Bench::new().await;
    let answer = bench.ask("sql.pg", "SELECT * FROM orders ORDER BY id LIMIT 1").await.unwrap();
    assert_eq!(
        answer["rows"],
        json!([[1, "ann", "10.50", "2026-11-20T10:00:00Z", {"city": "Bonn"}]])
    );
    assert_eq!(answer["columns"][2], json!({"name": "total", "type": "numeric"}));
    assert_eq!((&answer["row_count"], &answer["truncated"]), (&json!(1), &json!(false)));
    assert_eq!(answer["tables_queried"], json!(["public.orders"]));
    for (sql, rows) in [
        ("SELECT a FROM t LIMIT 1", json!([["one"]])),
        (
            "SELECT count(*) FROM orders o JOIN t ON true WHERE o.note->>'city' = 'Bonn';",
            json!([[2]]),
        ),
        (
            "WITH big AS (SELECT * FROM orders WHERE total > 5) SELECT customer FROM big ORDER BY 1",
            json!([["ann"], ["bob"]]),
        ),
        (
            "SELECT customer, row_number() OVER (ORDER BY total DESC) FROM orders WHERE id < 3",
            json!([["bob", 1], ["ann", 2]]),
        ),
        (
            "SELECT 9007199254740993, 1.5::float8, true, NULL, 'x'::bytea",
            json!([["9007199254740993", 1.5, true, null, "eA=="]]),
        ),
        (
            "SELECT extract(year FROM placed_at)::int FROM orders WHERE customer LIKE 'b%'",
            json!([[2026]]),
        ),
        (
            "SELECT date_trunc('day', placed_at)::date FROM orders WHERE id = 1",
            json!([["2026-11-20"]]),
        ),
        (
            "SELECT customer FROM order_names WHERE id IN (SELECT max(id) FROM orders)",
            json!([["ann"]]),
        ),
        ("SELECT x FROM generate_series(1, 3) AS x WHERE x BETWEEN 2 AND 3", json!([[2], [3]])),
        (
            "SELECT string_agg(DISTINCT customer, ', ' ORDER BY customer) FROM orders",
            json!([["ann, bob"]]),
        ),
        ("SELECT note @> '{\"city\": \"Kiel\"}' FROM orders WHERE id = 2", json!([[true]])),
        ("VALUES (1, 'a''b')", json!([[1, "a'b"]])),
        ("SELECT /* c */ ARRAY[1,2]::text -- end", json!([["{1,2}"]])),
        (
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 4) SELECT sum(x) FROM c",
            json!([[10]]),
        ),
    ] {
        let answer = bench.ask("sql.pg", sql).await;
        assert_eq!(answer.expect(sql)["rows"], rows, "{sql}");
    }
    let params = json!({"query": "SELECT id FROM orders WHERE customer = $1 AND total > $2 ORDER BY id",
        "params": ["ann", 5]});
    assert_eq!(bench.call("sql.pg", params).await.unwrap()["rows"], json!([[1]]));
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_judges_what_the_parser_found() {
    let bench = Bench::new().await;
    let ask = |sql: &str, params: serde_json::Value| json!({"query": sql, "params": params});
    let plain = ask("SELECT a FROM T WHERE a = $1", json!(["one"]));
    assert_eq!(bench.call("sql.judged", plain).await.unwrap()["row_count"], 1);
    for (sql, params) in [
        ("SELECT a FROM t", json!([])),
        ("SELECT lower(a) FROM t WHERE a = $1", json!(["one"])),
        ("SELECT a FROM t, orders WHERE a = $1", json!(["one"])),
    ] {
        let answer = bench.call("sql.judged", ask(sql, params)).await.expect_err(sql);
        assert_eq!(answer.code, "policy.denied", "{sql}: {answer:?}");
        assert!(answer.message.contains("only the plain table"), "{sql}: {answer:?}");
    }
    let wrong = ask("SELECT a FROM t WHERE a = $1", json!([]));
    let answer = bench.call("sql.judged", wrong).await.unwrap_err();
    assert_eq!(answer.detail, "sql.params");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_that_a_statement_read_are_recorded_and_the_evidence_is_valid() {
    let bench = Bench::new().await;
    bench.ask("sql.pg", "SELECT * FROM orders, t").await.unwrap();
    bench.agent.seal().await.unwrap();
    let bundle = bench.keeper.export(&bench.agent.run.clone(), "exported", &[]);
    let entries = std::fs::read_to_string(bundle.join("ledger/entries.jsonl")).unwrap();
    let told = r#""tables_queried":["public.orders","public.t"]"#;
    assert!(entries.contains(told), "{entries}");
    let report = bench.keeper.verify(&bundle);
    let failed: Vec<_> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["outcome"] == "INVALID")
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(crate::keeper::outcome(&report, "P1").0, "VALID", "{report}");
    let all = crate::keeper::whole(&bundle);
    for secret in ["reader-password-1", "postgres://"] {
        assert!(!crate::keeper::holds(&all, secret), "{secret} is in the bundle");
        assert!(!bench.sidecar.said().contains(secret), "{secret} is in the log");
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_be_too_much_is_cut_and_says_so() {
    let bench = Bench::new().await;
    let peak = || {
        let status = std::fs::read_to_string(format!(
            "/proc/{}/status",
            bench.sidecar.pid().as_raw_nonzero().get()
        ));
        let status = status.unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    bench.ask("sql.pg", "SELECT 1").await.unwrap();
    let before = peak();
    let many = bench.ask("sql.pg", "SELECT x FROM generate_series(1, 1000000) AS x").await.unwrap();
    assert_eq!((&many["row_count"], &many["truncated"]), (&json!(50), &json!(true)));
    let exact = bench.ask("sql.pg", "SELECT x FROM generate_series(1, 50) AS x").await.unwrap();
    assert_eq!((&exact["row_count"], &exact["truncated"]), (&json!(50), &json!(false)));
    let wide = "SELECT repeat('x', 10000) FROM generate_series(1, 40)";
    let wide = bench.ask("sql.pg", wide).await.unwrap();
    assert_eq!((&wide["row_count"], &wide["truncated"]), (&json!(6), &json!(true)));
    let huge =
        bench.ask("sql.pg", "SELECT repeat('x', 100000000) FROM generate_series(1, 5)").await;
    // A slow machine may not make it in time; then it is an error, and no less bounded.
    match huge {
        Ok(huge) => assert_eq!((&huge["row_count"], &huge["truncated"]), (&json!(0), &json!(true))),
        Err(refused) => assert_eq!(refused.code, "tool.failed"),
    }
    assert!(peak() - before < 64 * 1024, "{} KiB before, {} KiB after", before, peak());
    assert_eq!(bench.ask("sql.pg", "SELECT 1").await.unwrap()["rows"], json!([[1]]));
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_without_end_is_stopped_on_the_server() {
    let bench = Bench::new().await;
    let endless =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
    let answer = bench.ask("sql.pg", endless).await.unwrap_err();
    assert_eq!(answer.code, "tool.failed");
    assert!(answer.message.contains("57014"), "{answer:?}");
    until("the server to stop", || async { bench.busy("reader").await == 0 }).await;
    // The session is as good as new.
    assert_eq!(bench.ask("sql.pg", "SELECT 1").await.unwrap()["rows"], json!([[1]]));
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_error_is_reported_and_the_next_statement_is_answered() {
    let bench = Bench::new().await;
    for (sql, says) in [
        ("SELECT no_such_column FROM t", "no_such_column"),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT 'x'::int", "invalid input syntax"),
    ] {
        let answer = bench.ask("sql.pg", sql).await.expect_err(sql);
        assert_eq!(answer.code, "tool.failed");
        assert!(answer.message.contains(says), "{answer:?}");
        assert_eq!(bench.ask("sql.pg", "SELECT 1").await.unwrap()["row_count"], 1);
    }
    bench.close().await;
}
