//! Gates that are replaced one after the other, behind a database that was brought up to date first.

use crate::older::{done, gate};
use crate::postgres::{MIGRATE, estate, run};
use crate::tool::Tool;
use wicketgate::ledger::postgres::SCHEMA_VERSION;
use wicketgate_support::pg::Pg;

/// What the migration of a build to come would note: its schema, and the oldest whose gates go on with it.
fn noted(schema: u64, serves: u64) -> String {
    format!("INSERT INTO ledger.schema_version (version, serves) VALUES ({schema}, {serves})")
}

/// Ends the connections of every gate of this database.
const GATES_ENDED: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'wicketgate' AND pid <> pg_backend_pid()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_goes_on_with_a_newer_schema_that_serves_it_and_waits_behind_one_that_does_not() {
    let (tool, db) = (Tool::start().await, Pg::cluster().database().await);
    let estate = estate(&tool, &db);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    let (next, after) = (SCHEMA_VERSION + 1, SCHEMA_VERSION + 2);
    run(&db, &noted(next, SCHEMA_VERSION)).await;
    agent.call("work.do", "b", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    // Whoever goes back by one version runs the older migration again: it has nothing to do.
    let said = done(&estate, &MIGRATE);
    assert!(said.contains(&next.to_string()), "{said}");
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "c", r#"{"n":1}"#).await.unwrap();
    // Each new connection asks: a migration that serves the running gates no longer ends theirs.
    run(&db, &noted(after, next)).await;
    run(&db, GATES_ENDED).await;
    assert!(agent.call("work.do", "d", r#"{"n":1}"#).await.is_err());
    assert_eq!(tool.count(), 3);
    sidecar.stop().await;
    let mut sidecar = estate.start();
    let why = format!(
        "the database has schema {after}, which serves gates of schema {next} and newer: it is newer than this build \
         ({SCHEMA_VERSION})"
    );
    sidecar.not_ready(&why).await;
    assert!(crate::agent::Agent::try_open(&estate.socket(), &estate.receipts).await.is_err());
    sidecar.stop().await;
    let refused = gate(&estate, &MIGRATE);
    assert_ne!(refused.code, 0);
    refused.complains(&why);
    assert_eq!(tool.count(), 3);
}
