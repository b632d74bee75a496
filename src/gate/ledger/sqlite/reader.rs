//! Reads the file: works beside a live writer, and writes nothing.

use std::path::Path;

use async_trait::async_trait;

use super::rows::{self, EntryRange};
use super::{SqliteLane, before_commit, bounded, check_version, fleet, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::store::{
    AnchorRow, ChainRow, EntryRow, LedgerReader, PayloadRow, StoreError, Subtree, Volume,
};

/// A database file, read-only.
pub struct SqliteReader {
    lane: SqliteLane,
}

impl std::fmt::Debug for SqliteReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteReader")
    }
}

/// Borrows the connection for one read; a read never leaves anything in doubt.
macro_rules! read {
    ($self:ident, $conn:ident => $work:expr) => {{
        let mut turn = $self.lane.take().await?;
        let $conn = &mut turn.conn;
        let answer = bounded($work).await.map_err(|error| match error {
            StoreError::Unknown(why) => StoreError::Unavailable(why),
            other @ (StoreError::Conflict(_)
            | StoreError::Unavailable(_)
            | StoreError::Full(_)
            | StoreError::Broken(_)) => other,
        });
        turn.settle(&answer);
        answer
    }};
}

impl SqliteReader {
    /// Opens the file for reading.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it does not exist, [`StoreError::Broken`] if this build does
    /// not read its schema.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        // WHY: a read-only handle must not set the journal mode; it uses the existing one.
        let reader = Self { lane: SqliteLane::reading(super::connection(path).read_only(true)) };
        read!(reader, conn => check_version(conn))?;
        Ok(reader)
    }
}

#[async_trait]
impl LedgerReader for SqliteReader {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        read!(self, conn => async {
            let rows = sqlx::query(
                "SELECT c.chain_id, tenant, pool || '/' || slot AS slot, origin, epoch, size, hash,
                        frontier, checkpoint
                   FROM chain c JOIN head h ON h.chain_id = c.chain_id ORDER BY origin",
            )
            .fetch_all(conn)
            .await
            .map_err(|e| before_commit(&e))?;
            let chain = |row| {
                Ok(ChainRow {
                    chain: rows::chain_id(row)?,
                    tenant: rows::get(row, "tenant")?,
                    slot: rows::get(row, "slot")?,
                    origin: rows::get(row, "origin")?,
                    epoch: rows::unsigned(rows::get(row, "epoch")?)?,
                    head: rows::head(row)?,
                })
            };
            rows.iter().map(chain).collect()
        })
    }

    async fn entries(
        &self,
        chain: &ChainId,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<EntryRow>, StoreError> {
        read!(self, conn => rows::entries(conn, chain, EntryRange::From(from, limit)))
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        read!(self, conn => async {
            let row = sqlx::query(
                "SELECT c.chain_id FROM chain c WHERE EXISTS
                   (SELECT 1 FROM entry e WHERE e.chain_id = c.chain_id AND e.run_id = ?)
                  ORDER BY origin LIMIT 1",
            )
            .bind(run.to_string())
            .fetch_optional(conn)
            .await
            .map_err(|e| before_commit(&e))?;
            row.as_ref().map(rows::chain_id).transpose()
        })
    }

    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError> {
        read!(self, conn => async {
            let rows = sqlx::query("SELECT run_id FROM open_run WHERE chain_id = ? ORDER BY run_id")
                .bind(chain.as_bytes().to_vec())
                .fetch_all(conn)
                .await
                .map_err(|e| before_commit(&e))?;
            rows.iter().map(|row| rows::run_id(&rows::get::<String>(row, "run_id")?)).collect()
        })
    }

    async fn run_entries(&self, chain: &ChainId, run: &RunId) -> Result<Vec<EntryRow>, StoreError> {
        read!(self, conn => rows::entries(conn, chain, EntryRange::Run(run)))
    }

    async fn entries_of(
        &self,
        chain: &ChainId,
        kinds: &[&str],
    ) -> Result<Vec<EntryRow>, StoreError> {
        read!(self, conn => rows::entries(conn, chain, EntryRange::Lone(kinds)))
    }

    async fn leaf_hashes(&self, chain: &ChainId, size: Seq) -> Result<Vec<Digest>, StoreError> {
        read!(self, conn => async {
            let rows = sqlx::query(
                "SELECT leaf FROM entry WHERE chain_id = ? AND seq < ? ORDER BY seq",
            )
            .bind(chain.as_bytes().to_vec())
            .bind(rows::signed(size)?)
            .fetch_all(conn)
            .await
            .map_err(|e| before_commit(&e))?;
            rows.iter().map(|row| rows::digest(row, "leaf")).collect()
        })
    }

    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        read!(self, conn => subtrees::leaves(conn, chain, from, to))
    }

    async fn subtrees(
        &self,
        chain: &ChainId,
        height: u32,
        from: u64,
        to: u64,
    ) -> Result<Vec<Subtree>, StoreError> {
        read!(self, conn => subtrees::read(conn, chain, height, from, to))
    }

    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        read!(self, conn => subtrees::checkpoints(conn, chain, at_least, limit))
    }

    async fn volumes(&self) -> Result<Vec<Volume>, StoreError> {
        read!(self, conn => subtrees::volumes(conn))
    }

    async fn payload(&self, chain: &ChainId, c: &Digest) -> Result<Option<PayloadRow>, StoreError> {
        read!(self, conn => rows::payload(conn, chain, c))
    }

    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[Digest],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        read!(self, conn => rows::payloads(conn, chain, list))
    }

    async fn checkpoint(
        &self,
        chain: &ChainId,
        at_least: Seq,
    ) -> Result<Option<(Seq, String)>, StoreError> {
        read!(self, conn => async {
            let row = sqlx::query(
                "SELECT size, note FROM checkpoint WHERE chain_id = ? AND size >= ?
                  ORDER BY size LIMIT 1",
            )
            .bind(chain.as_bytes().to_vec())
            .bind(rows::signed(at_least)?)
            .fetch_optional(conn)
            .await
            .map_err(|e| before_commit(&e))?;
            let Some(row) = row else { return Ok(None) };
            Ok(Some((rows::unsigned(rows::get(&row, "size")?)?, rows::get(&row, "note")?)))
        })
    }

    async fn anchors(
        &self,
        origin: &str,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<AnchorRow>, StoreError> {
        read!(self, conn => fleet::anchors(conn, origin, from, limit, false))
    }

    async fn newest_anchor(&self, origin: &str) -> Result<Option<AnchorRow>, StoreError> {
        Ok(read!(self, conn => fleet::anchors(conn, origin, 0, 1, true))?.pop())
    }

    async fn fleet_said(
        &self,
        tenant: &str,
        log: &str,
        kind: &str,
    ) -> Result<Option<EntryRow>, StoreError> {
        read!(self, conn => fleet::said(conn, tenant, log, kind))
    }
}
