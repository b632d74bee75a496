//! A database that freezes, dies, comes back, or wants to see a password.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::bench::{Bench, own};
use crate::until;
use wicketgate_support::pg::Pg;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_freezes_or_dies_is_a_failed_call_and_never_a_hang() {
    let pg = Pg::own_cluster();
    let bench = Bench::on(&pg, |mut tools| {
        tools.iter_mut().for_each(|tool| tool["timeout_ms"] = json!(3000));
        tools
    })
    .await;
    let ask = || bench.ask("sql.pg", "SELECT a FROM t LIMIT 1");
    assert_eq!(ask().await.unwrap()["rows"], json!([["one"]]));
    pg.freeze();
    let frozen = ask().await.unwrap_err();
    assert_eq!(frozen.code, "tool.failed", "{frozen:?}");
    let fresh = ask().await.unwrap_err();
    assert_eq!(fresh.code, "tool.failed", "{fresh:?}");
    // A write may have happened, and nobody says otherwise.
    let add = json!({"query": "add", "params": {"id": 70, "customer": "x"}});
    let write = bench.call("sql.books", add).await.unwrap_err();
    assert_eq!(write.code, "call.unknown", "{write:?}");
    pg.thaw();
    assert_eq!(ask().await.unwrap()["rows"], json!([["one"]]));
    pg.stop_immediate();
    let dead = ask().await.unwrap_err();
    assert_eq!(dead.code, "tool.failed", "{dead:?}");
    assert!(!dead.message.contains("password"), "{dead:?}");
    pg.start();
    assert_eq!(ask().await.unwrap()["rows"], json!([["one"]]));
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timed_out_statement_stops_on_the_server() {
    let bench = Bench::on(Pg::cluster(), |mut tools| {
        // The gate's own deadline comes first.
        let mut slow = tools[0].clone();
        slow["name"] = json!("sql.slow");
        slow["timeout_ms"] = json!(700);
        slow["sql"]["statement_timeout_ms"] = json!(700);
        let mut sibling = slow.clone();
        sibling["name"] = json!("sql.slow_named");
        sibling["sql"] = json!({"engine": "postgres", "url_file": "reader.url",
            "private_addresses": ["127.0.0.0/8"], "queries": {"wait": {"text": "SELECT pg_sleep(600)"}}});
        tools.extend([slow, sibling]);
        tools
    })
    .await;
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000) AS x";
    assert_eq!(bench.ask("sql.slow", endless).await.unwrap_err().code, "tool.failed");
    assert_eq!(bench.call("sql.slow_named", json!({})).await.unwrap_err().code, "tool.failed");
    until("the server to stop", || async { bench.busy("reader").await == 0 }).await;
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_database_password_authenticates_and_a_wrong_one_does_not() {
    let pg = Pg::own_cluster();
    let bench =
        Bench::with_roles(&pg, &[("wrong", "PASSWORD 'another-password'", "")], |mut tools| {
            let mut wrong = tools[0].clone();
            wrong["name"] = json!("sql.wrong");
            wrong["sql"]["url_file"] = json!("wrong.url");
            tools.push(wrong);
            tools
        })
        .await;
    // From here on the server asks: only its owner is trusted.
    let rules = bench.keeper.path("pg_hba.conf");
    let text = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(&rules, text).unwrap();
    std::fs::set_permissions(bench.keeper.path(""), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    own(&bench.admin_url, &format!("ALTER SYSTEM SET hba_file = '{}'", rules.display())).await;
    pg.stop_immediate();
    pg.start();
    let right = bench.ask("sql.pg", "SELECT a FROM t LIMIT 1").await.unwrap();
    assert_eq!(right["rows"], json!([["one"]]));
    let wrong = bench.ask("sql.wrong", "SELECT a FROM t").await.unwrap_err();
    assert_eq!(wrong.code, "tool.failed");
    assert!(wrong.message.contains("authentication failed"), "{wrong:?}");
    for secret in ["reader-password-1", "wrong-password-1"] {
        assert!(!wrong.message.contains(secret) && !bench.sidecar.said().contains(secret));
    }
    bench.close().await;
}
