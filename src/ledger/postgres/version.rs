//! Whether the schema of a database is one that this build goes on with.

use sqlx::postgres::PgConnection;

use super::errors::{Failure, nothing_written};
use super::migrate::{SCHEMA_VERSION, newer};
use super::rows;
use super::writer::only;
use crate::ledger::store::StoreError;

/// Asks the server.
///
/// # Errors
/// The schema is older than this build's, or newer and no longer for its gates.
pub(super) async fn check(conn: &mut PgConnection) -> Result<(), Failure> {
    let found = asked(conn, "SELECT ledger.version()::bigint AS number").await?;
    if found == SCHEMA_VERSION {
        return Ok(());
    }
    let why = if found > SCHEMA_VERSION {
        // WHY: gates are replaced one after the other, behind a schema that was brought up to date before.
        let serves = asked(conn, "SELECT ledger.serves()::bigint AS number").await?;
        newer(found, serves)
    } else {
        Some(format!(
            "the database has schema {found}, this build needs {SCHEMA_VERSION}: run `wicketgate ledger migrate`"
        ))
    };
    why.map_or(Ok(()), |why| Err(Failure::Final(StoreError::Unavailable(why))))
}

async fn asked(conn: &mut PgConnection, sql: &'static str) -> Result<u64, Failure> {
    let rows = sqlx::raw_sql(sql).fetch_all(conn).await.map_err(|e| nothing_written(&e))?;
    only(&rows).and_then(|row| rows::number(row, "number")).map_err(Failure::Final)
}
