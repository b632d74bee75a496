//! Databases that are not migrated yet, and those that an earlier build made.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::older::{done, gate};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate::ledger::postgres::SCHEMA_VERSION;
use wicketgate_support::pg::{Pg, TestDb};

/// What an administrator does to the database.
pub async fn run(db: &TestDb, sql: &str) {
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
}

/// The first column of what a statement gives.
async fn column(db: &TestDb, sql: &str) -> Vec<String> {
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut admin).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// A gate with this database, whose administrator's URL is in `admin.url`.
pub fn estate(tool: &Tool, db: &TestDb) -> Estate {
    use std::os::unix::fs::PermissionsExt as _;
    let estate = Estate::postgres(tool, &db.writer_url, &db.admin_url, "local");
    let admin = estate.path("admin.url");
    std::fs::write(&admin, &db.admin_url).unwrap();
    std::fs::set_permissions(&admin, std::fs::Permissions::from_mode(0o600)).unwrap();
    estate
}

/// Has this build bring the schema up to date.
pub const MIGRATE: [&str; 6] =
    ["ledger", "migrate", "--admin-url-file", "admin.url", "--writer", "wg_writer=default"];

const COMPLETED: &str = "SELECT count(*)::text FROM ledger.entry WHERE kind = 'call.completed'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_wait_for_the_migration_and_serve_as_soon_as_it_ended() {
    // Roles belong to the whole server: those of another database are the same ones.
    Pg::cluster().database().await;
    let (tool, db) = (Tool::start().await, Pg::cluster().empty_database().await);
    let estates = [estate(&tool, &db), estate(&tool, &db)];
    let mut gates: Vec<_> = estates.iter().map(Estate::start).collect();
    for gate in &gates {
        let why = format!(
            "the database has no schema of a ledger, this build needs {SCHEMA_VERSION}: run `wicketgate ledger migrate`"
        );
        gate.not_ready(&why).await;
    }
    let said = done(&estates[0], &MIGRATE);
    let at = format!("the ledger schema is at version {SCHEMA_VERSION}");
    assert!(said.contains(&format!("{at} (was 0)")), "{said}");
    // Each takes a slot of its own only while the other one has its.
    for gate in &mut gates {
        gate.ready().await;
    }
    for gate in &mut gates {
        let agent = gate.open().await;
        agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
        agent.seal().await.unwrap();
        gate.stop().await;
    }
    assert_eq!(column(&db, "SELECT slot::text FROM ledger.chain ORDER BY 1").await, ["0", "1"]);
    assert_eq!(column(&db, COMPLETED).await, ["2"]);
    let said = done(&estates[0], &MIGRATE);
    assert!(said.contains(&format!("{at} (was {SCHEMA_VERSION})")), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_an_earlier_build_is_refused_by_gates_and_migration_and_left_as_it_is() {
    let (tool, db) = (Tool::start().await, Pg::cluster().database().await);
    let estate = estate(&tool, &db);
    // As an earlier build had noted it.
    run(
        &db,
        "DROP FUNCTION ledger.serves; ALTER TABLE ledger.schema_version DROP COLUMN serves;
         DELETE FROM ledger.schema_version WHERE version > 12; UPDATE ledger.schema_version SET version = 10",
    )
    .await;
    let why = "the database has schema 10, which an earlier build made, and this build begins with schema 12: export \
               the evidence with the build that wrote it, then start with a new database";
    let mut sidecar = estate.start();
    sidecar.not_ready(why).await;
    sidecar.stop().await;
    let refused = gate(&estate, &MIGRATE);
    assert_ne!(refused.code, 0);
    refused.complains(why);
    let noted = "SELECT version::text FROM ledger.schema_version";
    assert_eq!(column(&db, noted).await, ["10"]);
    assert_eq!(column(&db, "SELECT origin FROM ledger.chain").await, Vec::<String>::new());
}

const AGE: &str = "SELECT indexname::text FROM pg_indexes WHERE indexname = 'payload_age'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_of_schema_12_is_upgraded_where_it_is_and_goes_on() {
    let (tool, db) = (Tool::start().await, Pg::cluster().database().await);
    let estate = estate(&tool, &db);
    let mut sidecar = estate.start();
    sidecar.ready().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    // As the first step leaves the schema: what the second one dropped is there, what the later ones
    // made is not, and neither are their numbers.
    run(
        &db,
        "CREATE INDEX payload_age ON ledger.payload (role, stored_at);
         DROP FUNCTION ledger.lone;
         DROP SCHEMA console CASCADE;
         DELETE FROM ledger.schema_version WHERE version > 12",
    )
    .await;
    agent.call("work.do", "b", r#"{"n":2}"#).await.unwrap();
    let said = done(&estate, &MIGRATE);
    assert!(said.contains("the ledger schema is at version 17 (was 12)"), "{said}");
    assert_eq!(column(&db, AGE).await, Vec::<String>::new());
    agent.call("work.do", "c", r#"{"n":3}"#).await.unwrap();
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let mut next = estate.start();
    next.ready().await;
    next.stop().await;
    assert_eq!(column(&db, COMPLETED).await, ["3"]);
    assert_eq!(column(&db, "SELECT ledger.serves()::text").await, ["12"]);
}

/// A hub reads the ledger from its first entry again, so each call gets its hosts; a hub of the build before puts no row
/// without them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_step_to_17_empties_the_index_of_calls_and_takes_no_row_without_hosts() {
    let (tool, db) = (Tool::start().await, Pg::cluster().database().await);
    let estate = estate(&tool, &db);
    run(
        &db,
        "ALTER TABLE console.call DROP COLUMN hosts;
         INSERT INTO console.cursor VALUES ('default', '\\x01', 7, '\\x02', 0);
         DELETE FROM ledger.schema_version WHERE version > 16",
    )
    .await;
    let said = done(&estate, &MIGRATE);
    assert!(said.contains("the ledger schema is at version 17 (was 16)"), "{said}");
    assert_eq!(column(&db, "SELECT next::text FROM console.cursor").await, Vec::<String>::new());
    let nullable = "SELECT is_nullable::text FROM information_schema.columns
        WHERE table_schema = 'console' AND table_name = 'call' AND column_name = 'hosts'";
    assert_eq!(column(&db, nullable).await, ["NO"]);
}
