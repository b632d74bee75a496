//! Statements the operator wrote: the agent chooses one and gives values, nothing else.

use serde_json::json;

use crate::bench::{Bench, number};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_of_the_operator_takes_values_and_nothing_else() {
    let bench = Bench::new().await;
    let answer = bench.call("sql.order", json!({"id": 2})).await.unwrap();
    assert_eq!(answer["rows"], json!([[2, "bob", "99.00"]]));
    let answer =
        bench.call("sql.order", json!({"id": 0, "customer": "x' OR '1'='1"})).await.unwrap();
    assert_eq!(answer["row_count"], 0);
    for args in [json!({"id": "2 OR true"}), json!({}), json!({"id": 1, "query": "SELECT 1"})] {
        let answer = bench.call("sql.order", args).await.unwrap_err();
        let refused = ["arguments.invalid", "effect.refused"];
        assert!(refused.contains(&answer.code.as_str()), "{answer:?}");
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_of_the_operator_may_write_and_all_of_it_happens_or_nothing() {
    let bench = Bench::new().await;
    let orders = || number(&bench.admin_url, "SELECT count(*) FROM orders");
    let add = |id: i64, customer: &str| json!({"query": "add", "params": {"id": id, "customer": customer}});
    let answer = bench.call("sql.books", add(7, "'); DROP TABLE orders; --")).await.unwrap();
    assert_eq!((&answer["rows"], &answer["rows_affected"]), (&json!([[7]]), &json!(1)));
    assert_eq!(answer["tables_queried"], json!(["public.orders"]));
    assert_eq!(orders().await, 4);
    let again = bench.call("sql.books", add(7, "eve")).await.unwrap_err();
    assert_eq!(again.code, "tool.failed");
    assert!(again.message.contains("duplicate key"), "{again:?}");
    assert_eq!(orders().await, 4);
    let renamed = json!({"query": "rename", "params": {"from": "ann", "to": "anne"}});
    assert_eq!(bench.call("sql.books", renamed).await.unwrap()["rows_affected"], 2);
    let all = bench.call("sql.books", json!({"query": "all"})).await.unwrap();
    assert_eq!(all["rows"][0], json!([1, "anne"]));
    for args in [json!({"query": "drop"}), json!({"query": "all", "params": {"id": 1}}), json!({})]
    {
        let answer = bench.call("sql.books", args).await.unwrap_err();
        let refused = ["arguments.invalid", "effect.refused"];
        assert!(refused.contains(&answer.code.as_str()), "{answer:?}");
    }
    let lite = json!({"query": "add", "params": {"id": 7, "customer": "x"}});
    let answer = bench.call("sql.lite_books", lite.clone()).await.unwrap();
    assert_eq!(answer["rows_affected"], 1);
    assert_eq!(bench.call("sql.lite_books", lite).await.unwrap_err().code, "tool.failed");
    let count = bench.call("sql.lite_books", json!({"query": "all"})).await.unwrap();
    assert_eq!(count["rows"], json!([[5]]));
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_with_a_truncated_answer_is_reported_as_done_only_if_it_committed() {
    let bench = Bench::new().await;
    let fill = || bench.call("sql.lite_books", json!({"query": "fill"}));
    let count = async || {
        let all = bench.call("sql.lite_books", json!({"query": "all"})).await.unwrap();
        all["rows"][0][0].clone()
    };
    // Somebody who reads keeps it from being committed, and that shows with the last step alone.
    let file = rusqlite::Connection::open(bench.keeper.path("books.db")).unwrap();
    file.execute_batch("BEGIN; SELECT count(*) FROM orders;").unwrap();
    let kept = fill().await.unwrap_err();
    assert_eq!(kept.code, "tool.failed", "{kept:?}");
    file.execute_batch("COMMIT").unwrap();
    assert_eq!(count().await, 4);
    let done = fill().await.unwrap();
    assert_eq!((&done["row_count"], &done["truncated"]), (&json!(50), &json!(true)), "{done}");
    assert_eq!((&done["rows_affected"], count().await), (&json!(100), json!(104)));
    // On PostgreSQL too what is cut is what is told, and never what is done.
    let touched = bench.call("sql.books", json!({"query": "touch"})).await.unwrap();
    assert_eq!((&touched["row_count"], &touched["truncated"]), (&json!(50), &json!(true)));
    assert_eq!(number(&bench.admin_url, "SELECT count(*) FROM canary").await, 100);
    let done = bench.call("sql.books", json!({"query": "fill"})).await.unwrap();
    assert_eq!((&done["row_count"], &done["truncated"]), (&json!(50), &json!(true)), "{done}");
    assert_eq!(done["rows_affected"], 100);
    assert_eq!(number(&bench.admin_url, "SELECT count(*) FROM orders").await, 103);
    bench.close().await;
}
