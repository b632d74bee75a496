//! Erases payloads in the file, beside a sidecar that may be writing in it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteRow;

use super::rows::{Statement, sql};
use super::{SqliteLane, files, options};
use crate::domain::id::ChainId;
use crate::ledger::retention::{PayloadEraser, Residue, StoredPayload};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{PayloadRow, StoreError};
use crate::ledger::vault::SEALED;

/// How often a checkpoint is tried while another one is under way.
const TRIES: u32 = 40;
/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// A database file, for deleting payloads only.
#[derive(Debug)]
pub struct SqliteEraser {
    path: PathBuf,
    lane: SqliteLane,
    /// Bytes to search for in the files after deleting: the salts of the rows, or the first bytes
    /// of sealed rows. Neither occurs anywhere else.
    traces: Mutex<Vec<Vec<u8>>>,
}

impl SqliteEraser {
    /// Opens the file.
    ///
    /// # Errors
    /// The file does not exist, or has another schema.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let options = options(path).create_if_missing(false);
        let eraser = Self {
            path: path.to_owned(),
            lane: SqliteLane::writing(options),
            traces: Mutex::default(),
        };
        eraser.lane.check_version().await?;
        Ok(eraser)
    }

    /// Moves the WAL into the file, as far as readers allow; true if a reader kept some of it.
    async fn checkpoint(&self) -> Result<bool, StoreError> {
        for _ in 0..TRIES {
            let found = self.all(sql("PRAGMA wal_checkpoint(TRUNCATE)")).await?;
            let Some(row) = found.first() else { return Ok(false) };
            if let Some(left) = is_left(row.integer("busy")?, row.integer("log")?) {
                return Ok(left);
            }
            // WHY again: SQLite waits for readers here, and not for another checkpoint, such as the
            // gate's own. What is taken for a trace then would rewrite the whole file for nothing.
            tokio::time::sleep(PAUSE).await;
        }
        Ok(true)
    }

    /// Runs a statement without a limit of time: it may rewrite the whole file.
    async fn all(&self, statement: Statement) -> Result<Vec<SqliteRow>, StoreError> {
        let mut turn = self.lane.take().await?;
        let found = statement.all(&mut turn.conn).await;
        turn.settle(&found);
        found
    }
}

#[async_trait]
impl PayloadEraser for SqliteEraser {
    async fn kept(&self) -> Result<Vec<StoredPayload>, StoreError> {
        let query = sql(
            "SELECT chain_id, commitment, role, stored_at AS stored, length(body) AS bytes, media_type,
                    place FROM payload ORDER BY stored_at, chain_id, commitment",
        );
        let stored = |row: &SqliteRow| {
            Ok(StoredPayload { row: Some(row.integer("place")?), ..row.stored_payload()? })
        };
        self.all(query).await?.iter().map(stored).collect()
    }

    async fn erase(&self, _chain: &ChainId, list: &[StoredPayload]) -> Result<u64, StoreError> {
        let mut turn = self.lane.take().await?;
        let conn = &mut turn.conn;
        let work = async {
            let mut gone = 0_u64;
            for kept in list {
                let Some(place) = kept.row else { continue };
                // The number of a deleted row may be that of another payload now.
                let (table, id) = match place {
                    0.. => ("stored_payload WHERE id = ?1 AND commitment = ?2", place),
                    _ => {
                        ("large_payload WHERE id = ?1 AND commitment = ?2", place.saturating_neg())
                    }
                };
                let statement = |text: String| {
                    sql(AssertSqlSafe(text)).integer(id).bytes(kept.commitment.as_bytes())
                };
                let select = statement(format!(
                    "SELECT commitment, salt, role, media_type, body FROM {table}"
                ));
                let rows = select.all(conn).await?;
                for row in &rows {
                    self.traces.lock().push(trace(&row.payload()?));
                }
                let delete = statement(format!("DELETE FROM {table}"));
                gone = gone.saturating_add(delete.count(conn).await?);
            }
            Ok(gone)
        };
        let gone = work.await;
        turn.settle(&gone);
        gone
    }

    async fn scrub(&self, anew: bool) -> Result<Residue, StoreError> {
        // `secure_delete` zeroed the deleted cells, but the WAL still holds older pages.
        self.checkpoint().await?;
        if !anew && !self.holds().await? {
            return Ok(Residue::None);
        }
        // WHY: when SQLite moves a row between pages, the old page may keep a stale copy that
        // `secure_delete` misses. Only rewriting the file removes it.
        match self.all(sql("VACUUM")).await {
            Err(StoreError::Unavailable(_)) => return Ok(Residue::Some),
            done => drop(done?),
        }
        let busy = self.checkpoint().await?;
        Ok(if busy || self.holds().await? { Residue::Some } else { Residue::None })
    }
}

impl SqliteEraser {
    async fn holds(&self) -> Result<bool, StoreError> {
        let (path, traces) = (self.path.clone(), self.traces.lock().clone());
        if traces.is_empty() {
            return Ok(false);
        }
        let looked = tokio::task::spawn_blocking(move || {
            let log = files::beside(&path, "-wal");
            Ok(contains(&path, &traces)? || contains(&log, &traces)?)
        });
        let failed = |e: std::io::Error| StoreError::Unavailable(e.to_string());
        let lost = |_| StoreError::Unavailable("the search was lost".into());
        looked.await.map_err(lost)?.map_err(failed)
    }
}

/// Whether a checkpoint with this answer left some of the WAL; `None`: another one was under way, and it
/// did nothing.
fn is_left(busy: i64, log: i64) -> Option<bool> {
    (busy == 0 || log >= 0).then_some(busy != 0)
}

fn trace(row: &PayloadRow) -> Vec<u8> {
    if row.media_type == SEALED {
        row.body.iter().take(64).copied().collect()
    } else {
        row.salt.to_vec()
    }
}

/// Whether a file contains any of these byte strings. False if the file does not exist.
fn contains(path: &Path, traces: &[Vec<u8>]) -> std::io::Result<bool> {
    const PIECE: usize = 1 << 20;
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let longest = traces.iter().map(Vec::len).max().unwrap_or(0);
    let mut window: Vec<u8> = Vec::new();
    loop {
        let keep = window.len().saturating_sub(longest.saturating_sub(1));
        window.drain(..keep);
        let most = u64::try_from(PIECE).unwrap_or(u64::MAX);
        if file.by_ref().take(most).read_to_end(&mut window)? == 0 {
            return Ok(false);
        }
        if traces.iter().any(|trace| found(&window, trace)) {
            return Ok(true);
        }
    }
}

/// Looks for the first byte, then compares: fast enough for a file of some gigabytes.
fn found(mut text: &[u8], wanted: &[u8]) -> bool {
    let Some(first) = wanted.first() else { return false };
    while let Some(at) = text.iter().position(|byte| byte == first) {
        let Some(rest) = text.get(at..) else { return false };
        if rest.starts_with(wanted) {
            return true;
        }
        text = rest.get(1..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_did_nothing_is_told_from_one_that_readers_hindered() {
        for (busy, log, expected) in [
            (0, 0, Some(false)),
            (0, -1, Some(false)),
            (1, 4, Some(true)),
            (1, 0, Some(true)),
            (1, -1, None),
        ] {
            assert_eq!(is_left(busy, log), expected, "busy {busy}, log {log}");
        }
    }
}
