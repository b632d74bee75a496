//! How much the file holds.

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::rows::sql;
use super::unreadable;
use crate::ledger::rows::{DatabaseRow, malformed};
use crate::ledger::store::{StoreError, Volume};

/// Counts the stored rows; the size of the file is listed with the entries.
pub(super) async fn volumes(conn: &mut SqliteConnection) -> Result<Vec<Volume>, StoreError> {
    const COUNTS: [(&str, &str); 4] = [
        (
            "entries",
            "SELECT count(*) AS n, coalesce(sum(length(body) + 80
               + coalesce(length(call_id), 0) + length(kind)), 0) AS b FROM stored_entry",
        ),
        (
            "payloads",
            "SELECT count(*) AS n, coalesce(sum(length(body) + 80 + length(role)
               + length(media_type)), 0) AS b FROM (
               SELECT role, media_type, body FROM stored_payload
                UNION ALL SELECT role, media_type, body FROM large_payload)",
        ),
        (
            "checkpoints",
            "SELECT count(*) AS n, coalesce(sum(length(note) + 32), 0) AS b FROM (
               SELECT note FROM stored_entry WHERE note IS NOT NULL
                UNION ALL SELECT note FROM kept_checkpoint)",
        ),
        ("subtrees", "SELECT count(*) AS n, coalesce(sum(length(hash) + 28), 0) AS b FROM subtree"),
    ];
    let mut found = Vec::new();
    for (what, text) in COUNTS {
        let row = sql(text).one(conn).await?;
        found.push(Volume { what, rows: row.number("n")?, bytes: row.number("b")?, disk: None });
    }
    let mut disk = 1_i64;
    for pragma in ["PRAGMA page_count", "PRAGMA page_size"] {
        let row = sql(pragma).one(conn).await?;
        disk = disk.saturating_mul(row.try_get(0).map_err(|e| unreadable(&e))?);
    }
    let disk = Some(u64::try_from(disk).map_err(|_| malformed("number"))?);
    found.push(Volume { what: "file", rows: 0, bytes: 0, disk });
    Ok(found)
}
