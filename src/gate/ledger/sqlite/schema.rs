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

/// Creates or upgrades the schema, each step in its own transaction.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    let failed = |e: rusqlite::Error| before_commit(&e);
    let found = conn.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let found = u64::from(found.map_err(failed)?);
    if found != 0 && !(OLDEST..=VERSION).contains(&found) {
        return Err(StoreError::Broken(unread(found)));
    }
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let digest = |context: &rusqlite::functions::Context<'_>| {
        context.get::<String>(0).map(|call| call_digest(&call))
    };
    conn.create_scalar_function("call_digest", 1, flags, digest).map_err(failed)?;
    for Step { version, text, .. } in SQLITE.after(found) {
        // WHY: a table that others reference can be rebuilt only without enforcement, and inside a
        // transaction this pragma has no effect.
        let text = format!(
            "PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE; {text}; PRAGMA user_version = {version}; \
             COMMIT; PRAGMA foreign_keys = ON;"
        );
        conn.execute_batch(&text).map_err(failed)?;
    }
    Ok(())
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
