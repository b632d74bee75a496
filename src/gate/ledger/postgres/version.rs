//! Whether this build can use a database's schema.

use super::errors::{Failure, nothing_written};
use super::link::PostgresLink;
use super::values::Values;
use crate::ledger::schema::POSTGRES;
use crate::ledger::store::StoreError;

/// The schema this build reads and writes.
pub const SCHEMA_VERSION: u64 = POSTGRES.newest();

/// Checks the server's schema.
///
/// # Errors
/// The schema is older than this build's, or newer and no longer for its gates.
pub(super) async fn check(link: &mut PostgresLink) -> Result<(), Failure> {
    let found = match asked(link, "SELECT ledger.version()::bigint AS number").await {
        Err(error) if error.code().is_some_and(|code| code.code() == "3F000") => 0,
        answer => answer.map_err(|e| nothing_written(&e))?,
    };
    let serves = serves(link, found).await.map_err(|e| nothing_written(&e))?;
    refusal(found, serves).map_or(Ok(()), |why| Err(Failure::Final(StoreError::Unavailable(why))))
}

/// The oldest schema whose gates work with the one that was found.
pub(super) async fn serves(
    link: &mut PostgresLink,
    found: u64,
) -> Result<u64, tokio_postgres::Error> {
    match found > SCHEMA_VERSION {
        true => asked(link, "SELECT ledger.serves()::bigint AS number").await,
        false => Ok(found),
    }
}

/// Why this build cannot use a schema, with the remedy; `serves` is the oldest schema whose gates
/// can.
fn refusal(found: u64, serves: u64) -> Option<String> {
    if let Some(why) = never(found, serves) {
        return Some(why);
    }
    (found < SCHEMA_VERSION).then(|| {
        let has = match found {
            0 => "no schema of a ledger".to_owned(),
            found => format!("schema {found}"),
        };
        format!("the database has {has}, this build needs {SCHEMA_VERSION}: run `wicketgate ledger migrate`")
    })
}

/// Why `migrate` of this build cannot help with a schema.
pub(super) fn never(found: u64, serves: u64) -> Option<String> {
    if serves > SCHEMA_VERSION {
        // WHY: gates are replaced one after the other, after the schema was upgraded.
        return Some(format!(
            "the database has schema {found}, which serves gates of schema {serves} and newer: it is newer than \
             this build ({SCHEMA_VERSION})"
        ));
    }
    let oldest = POSTGRES.oldest();
    (1..oldest).contains(&found).then(|| {
        format!(
            "the database has schema {found}, which an earlier build made, and this build begins with schema {oldest}: \
             export the evidence with the build that wrote it, then start with a new database"
        )
    })
}

/// The one number that a query returns.
pub(super) async fn asked(
    link: &mut PostgresLink,
    sql: &str,
) -> Result<u64, tokio_postgres::Error> {
    let rows = link.rows(sql, &Values::new()).await?;
    let number: Option<i64> = rows.first().map(|row| row.try_get("number")).transpose()?.flatten();
    Ok(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
}
