//! Erases payloads in the file, beside a sidecar that may be writing in it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{SqliteLane, before_commit, files, options, rows};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::time::Timestamp;
use crate::ledger::retention::{PayloadKeeper, Residue, StoredPayload};
use crate::ledger::store::{PayloadRow, StoreError};
use crate::ledger::vault::SEALED;

/// A database file, for deleting payloads only.
pub struct SqliteKeeper {
    path: PathBuf,
    lane: SqliteLane,
    /// Bytes to search for in the files after deleting: the salts of the rows, or the first bytes
    /// of sealed rows. Neither occurs anywhere else.
    traces: Mutex<Vec<Vec<u8>>>,
}

impl std::fmt::Debug for SqliteKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SqliteKeeper({})", self.path.display())
    }
}

impl SqliteKeeper {
    /// Opens the file.
    ///
    /// # Errors
    /// The file does not exist, or has another schema.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let options = options(path).create_if_missing(false);
        let keeper = Self {
            path: path.to_owned(),
            lane: SqliteLane::writing(options),
            traces: Mutex::default(),
        };
        keeper.lane.check_version().await?;
        Ok(keeper)
    }

    /// Moves the WAL into the file, as far as readers allow; true if a reader kept some of it.
    async fn checkpoint(&self) -> Result<bool, StoreError> {
        let mut turn = self.lane.take().await?;
        let done = sqlx::query_scalar::<_, i64>("PRAGMA wal_checkpoint(TRUNCATE)");
        let busy = done.fetch_one(&mut turn.conn).await.map_err(|e| before_commit(&e));
        turn.settle(&busy);
        Ok(busy? != 0)
    }

    async fn run(&self, sql: &'static str) -> Result<(), StoreError> {
        let mut turn = self.lane.take().await?;
        let done = sqlx::query(sql).fetch_all(&mut turn.conn).await;
        let done = done.map(drop).map_err(|e| before_commit(&e));
        turn.settle(&done);
        done
    }
}

#[async_trait]
impl PayloadKeeper for SqliteKeeper {
    async fn kept(&self) -> Result<Vec<StoredPayload>, StoreError> {
        let mut turn = self.lane.take().await?;
        let found = sqlx::query(
            "SELECT chain_id, commitment, role, stored_at, length(body) AS bytes, media_type
               FROM payload ORDER BY stored_at, chain_id, commitment",
        )
        .fetch_all(&mut turn.conn)
        .await
        .map_err(|e| before_commit(&e));
        turn.settle(&found);
        let kept = |row| {
            Ok(StoredPayload {
                chain: rows::chain_id(row)?,
                commitment: rows::digest(row, "commitment")?,
                role: rows::get(row, "role")?,
                stored_at: Timestamp::from_millis(rows::get(row, "stored_at")?),
                bytes: rows::unsigned(rows::get(row, "bytes")?)?,
                sealed: rows::get::<String>(row, "media_type")? == SEALED,
            })
        };
        found?.iter().map(kept).collect()
    }

    async fn erase(&self, chain: &ChainId, list: &[Digest]) -> Result<u64, StoreError> {
        let mut turn = self.lane.take().await?;
        let conn = &mut turn.conn;
        let work = async {
            let mut gone = 0_u64;
            for c in list {
                if let Some(row) = rows::payload(conn, chain, c).await? {
                    self.traces.lock().push(trace(&row));
                }
                let delete =
                    sqlx::query("DELETE FROM payload WHERE chain_id = ? AND commitment = ?")
                        .bind(chain.as_bytes().to_vec())
                        .bind(c.as_bytes().to_vec());
                let done = delete.execute(&mut *conn).await.map_err(|e| before_commit(&e))?;
                gone = gone.saturating_add(done.rows_affected());
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
        match self.run("VACUUM").await {
            Err(StoreError::Unavailable(_)) => return Ok(Residue::Some),
            done => done?,
        }
        let busy = self.checkpoint().await?;
        Ok(if busy || self.holds().await? { Residue::Some } else { Residue::None })
    }
}

impl SqliteKeeper {
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
