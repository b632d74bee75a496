//! The gate's own database over TLS: a server that is not who it should be is not written to.

use std::os::unix::fs::PermissionsExt as _;

use sqlx::{Connection as _, PgConnection};
use wicketgate::ledger::postgres::PostgresReader;

use crate::ca::Ca;
use crate::checker::{calls, check};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::pg::Pg;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_is_kept_over_tls_by_a_server_of_the_right_authority_and_name_and_by_no_other() {
    let (ca, stranger, tool) = (Ca::new(), Ca::new(), Tool::start().await);
    ca.called("pg", "IP:127.0.0.1");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(ca.path(""), open).unwrap();
    let pg = tokio::task::spawn_blocking(Pg::own_cluster).await.unwrap();
    let db = pg.database().await;
    pg.speak_tls(&ca.path("pg.pem"), &ca.path("pg.key")).await;
    let verified = |authority: &Ca, host: &str| {
        let url = db.writer_url.replace("127.0.0.1", host);
        url.replace(
            "sslmode=disable",
            &format!("sslmode=verify-full&sslrootcert={}", authority.shown("ca.pem")),
        )
    };
    for (refusals, authority, host) in [(1, &stranger, "127.0.0.1"), (2, &ca, "localhost")] {
        let estate = Estate::postgres(&tool, &verified(authority, host), &db.admin_url, "local");
        let mut sidecar = estate.start();
        crate::until("the server to be hung up on", || async {
            pg.log().matches("could not accept SSL connection").count() >= refusals
        })
        .await;
        sidecar.not_ready("ledger: ").await;
        sidecar.kill();
    }
    let estate = Estate::postgres(&tool, &verified(&ca, "127.0.0.1"), &db.admin_url, "local");
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let clear = "SELECT count(*) FILTER (WHERE NOT ssl), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl \
        JOIN pg_stat_activity USING (pid) WHERE usename = 'wg_writer'";
    let (plain, secured): (i64, i64) = sqlx::query_as(clear).fetch_one(&mut admin).await.unwrap();
    assert!(plain == 0 && secured > 0, "{plain} in the clear, {secured} over TLS");
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_of_tls_checks_what_it_says_and_no_more() {
    let (ca, stranger) = (Ca::new(), Ca::new());
    ca.called("pg", "IP:127.0.0.1");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(ca.path(""), open).unwrap();
    let pg = tokio::task::spawn_blocking(Pg::own_cluster).await.unwrap();
    let db = pg.database().await;
    let connects = async |mode: &str, authority: &Ca, host: &str| {
        let root = authority.shown("ca.pem");
        let url = db.reader_url.replace("127.0.0.1", host);
        let url = url.replace("sslmode=disable", &format!("sslmode={mode}&sslrootcert={root}"));
        PostgresReader::connect(&url).await.is_ok()
    };
    for (mode, good) in [("disable", true), ("prefer", true), ("require", false)] {
        assert_eq!(connects(mode, &ca, "127.0.0.1").await, good, "{mode} without TLS");
    }
    pg.speak_tls(&ca.path("pg.pem"), &ca.path("pg.key")).await;
    for (mode, known, named) in [
        ("disable", true, true),
        ("allow", true, true),
        ("prefer", true, true),
        ("require", true, true),
        ("verify-ca", false, true),
        ("verify-full", false, false),
    ] {
        assert!(connects(mode, &ca, "127.0.0.1").await, "{mode}");
        assert_eq!(connects(mode, &stranger, "127.0.0.1").await, known, "{mode}, a stranger's");
        assert_eq!(connects(mode, &ca, "localhost").await, named, "{mode}, another's");
    }
    assert!(!connects("verify-none", &ca, "127.0.0.1").await, "no mode at all");
}

#[test]
fn a_remote_database_needs_verification_or_accept_unverified_server() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tool = runtime.block_on(Tool::start());
    for (more, url, good) in [
        ("", "postgres://u@db.example/d", false),
        ("", "postgres://u@db.example/d?sslmode=require", false),
        ("", "postgres://u@db.example/d?sslmode=verify-full", true),
        ("accepted", "postgres://u@db.example/d?sslmode=require", true),
        ("", "postgres://u@127.0.0.1/d", true),
    ] {
        let estate = Estate::postgres(&tool, url, "", "local");
        if more == "accepted" {
            estate.configure(|config| {
                config["ledger"]["postgres"]["accept_unverified_server"] = true.into();
            });
        }
        let ran = estate.try_run(&["config", "check", "wicketgate.yaml"]);
        let said = ran.text();
        assert_eq!(ran.code == 0, good, "{url}: {said}");
        assert_eq!(said.contains("the server is not verified"), !good, "{url}: {said}");
    }
}
