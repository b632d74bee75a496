//! Creates, upgrades and checks the schema of the file.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use sqlx::sqlite::SqliteConnection;

use super::numbers::call_digest;
use super::result_codes::before_commit;
use super::rows::sql;
use crate::ledger::rows::DatabaseRow as _;
use crate::ledger::schema::{SQLITE, Step};
use crate::ledger::store::StoreError;

/// The schemas that this build knows: the oldest that it can upgrade, and the newest.
const OLDEST: u64 = SQLITE.oldest();
const VERSION: u64 = SQLITE.newest();

/// Creates the schema or, if the caller may, upgrades it; each step in its own transaction.
pub(super) fn migrate(conn: &mut Connection, upgrades: bool) -> Result<(), StoreError> {
    let found = found(conn)?;
    let known = (OLDEST..=VERSION).contains(&found);
    if found != 0 && (!known || !upgrades && found != VERSION) {
        return Err(StoreError::Broken(unread(found)));
    }
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let digest = |context: &rusqlite::functions::Context<'_>| {
        context.get::<String>(0).map(|call| call_digest(&call))
    };
    let failed = |e: rusqlite::Error| before_commit(&e);
    conn.create_scalar_function("call_digest", 1, flags, digest).map_err(failed)?;
    for step in SQLITE.after(found) {
        take(conn, step)?;
    }
    Ok(())
}

/// Takes one step, unless another process took it meanwhile.
fn take(conn: &Connection, step: Step) -> Result<(), StoreError> {
    let run = |text: &str| conn.execute_batch(text).map_err(|e| before_commit(&e));
    // WHY: a table that others reference can be rebuilt only without enforcement, and inside a
    // transaction this pragma has no effect.
    run("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")?;
    if found(conn)? < step.version {
        run(step.text)?;
        run(&format!("PRAGMA user_version = {}", step.version))?;
    }
    run("COMMIT; PRAGMA foreign_keys = ON")
}

fn found(conn: &Connection) -> Result<u64, StoreError> {
    let found = conn.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    found.map(u64::from).map_err(|e| before_commit(&e))
}

/// Checks that the file has the schema of this build.
///
/// # Errors
/// [`StoreError::Broken`], with the remedy.
pub(super) async fn check_version(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let found = sql("PRAGMA user_version").one(conn).await?.number("user_version")?;
    if found == VERSION { Ok(()) } else { Err(StoreError::Broken(unread(found))) }
}

/// Why this build does not use a file of this schema, with the remedy.
fn unread(found: u64) -> String {
    if found == 0 {
        "it has no schema of a ledger: no gate has written in it yet".to_owned()
    } else if found > VERSION {
        format!(
            "its schema {found} is newer than this build ({VERSION}): use the build that wrote it"
        )
    } else if found < OLDEST {
        format!(
            "its schema {found} was made by an earlier build, and this build begins with schema {OLDEST}: export the \
             evidence with the build that wrote it, then start with a new state directory"
        )
    } else {
        format!(
            "its schema is {found}, this build needs {VERSION}: start the gate of this build on it once"
        )
    }
}
