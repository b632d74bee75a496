//! A database that gates of an older build wrote: one ended in order, one was killed.

use std::path::Path;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::older::{self, LEFT_POSTGRES, done};
use crate::sidecar::Estate;
use crate::support::pg::{Pg, TestDb};
use crate::tool::Tool;

/// The database as the older gates left it.
async fn restored() -> TestDb {
    // Roles belong to the whole server: those of another database are the same ones.
    Pg::cluster().database().await;
    let db = Pg::cluster().empty_database().await;
    let text = std::fs::read_to_string(Path::new(LEFT_POSTGRES).join("ledger.sql")).unwrap();
    run(&db, &text).await;
    db
}

/// What an administrator says to the database.
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

/// A gate of this build over this database, with what one of the older gates was served with.
fn estate(tool: &Tool, db: &TestDb, left: &str) -> Estate {
    let estate = Estate::postgres(tool, &db.writer_url, &db.admin_url, "local");
    older::furnish(&estate, LEFT_POSTGRES, tool);
    let state = if left == "killed" { "state-killed" } else { "state" };
    estate.configure(|config| {
        config["state"] = state.into();
        config["ledger"]["postgres"]["url"] = db.writer_url.as_str().into();
        config["hub"] = serde_json::json!({"reader_url_file": "reader.url"});
    });
    let private = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(estate.path(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(estate.path(name), mode).unwrap();
    };
    private("reader.url", &db.reader_url);
    private("admin.url", &db.admin_url);
    estate
}

/// Has this build bring the schema up to date.
pub const MIGRATE: [&str; 6] =
    ["ledger", "migrate", "--admin-url-file", "admin.url", "--writer", "wg_writer=default"];

const LEAVES: &str =
    "SELECT encode(chain_id, 'hex') || ' ' || seq || ' ' || encode(leaf_hash, 'hex')
    FROM ledger.entry ORDER BY 1";
const COMPLETED: &str = "SELECT count(*)::text FROM ledger.entry WHERE convert_from(body, 'UTF8') LIKE '%\"call.completed\"%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_wait_for_the_migration_and_go_on_with_the_database_of_the_ones_before_them() {
    let (tool, db) = (Tool::start().await, restored().await);
    let before = column(&db, LEAVES).await;
    let estates = [estate(&tool, &db, "ended"), estate(&tool, &db, "killed")];
    let mut gates: Vec<_> = estates.iter().map(Estate::start).collect();
    for gate in &gates {
        gate.not_ready("the database has schema 10, this build needs 11").await;
    }
    let said = done(&estates[0], &MIGRATE);
    assert!(said.contains("11"), "{said}");
    for gate in &mut gates {
        gate.ready().await;
        let agent = gate.open().await;
        agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
        let refused = agent.call("work.other", "b", "{}").await.unwrap_err();
        assert_eq!(refused.code, "policy.denied");
        agent.seal().await.unwrap();
        gate.stop().await;
    }
    let after = column(&db, LEAVES).await;
    assert!(before.iter().all(|leaf| after.contains(leaf)), "what an older gate wrote is another");
    // Each wrote on in the slot that was its own.
    assert_eq!(column(&db, "SELECT slot::text FROM ledger.chain ORDER BY 1").await, ["0", "1"]);
    // Four calls ran at each of the older gates, and one since.
    assert_eq!(column(&db, COMPLETED).await, ["10"]);
    let keys =
        ["state", "state-killed"].map(|at| format!("enrolment-key {at}/enrolment.key.pub\n"));
    std::fs::write(estates[0].path("trust.txt"), keys.concat()).unwrap();
    let verify = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"];
    let verified = done(&estates[0], &verify);
    assert_eq!(verified.matches("VALID wicketgate.dev/").count(), 2, "{verified}");
}
