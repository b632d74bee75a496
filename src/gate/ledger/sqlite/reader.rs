//! Reads the file: works beside a live writer, and writes nothing.

use std::path::Path;

use async_trait::async_trait;

use super::rows::{self, sql};
use super::schema::check_version;
use super::{SqliteLane, fleet, on_lane, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{
    AnchorRow, ChainRow, EntryRange, EntryRow, LedgerReader, PayloadRef, PayloadRow, StoreError,
    Subtree, Volume,
};

/// A database file, read-only.
#[derive(Debug)]
pub struct SqliteReader {
    lane: SqliteLane,
}

/// A read never leaves anything in doubt.
fn settled(error: StoreError) -> StoreError {
    match error {
        StoreError::Unknown(why) => StoreError::Unavailable(why),
        other @ (StoreError::Conflict(_)
        | StoreError::Unavailable(_)
        | StoreError::Full(_)
        | StoreError::Broken(_)) => other,
    }
}

/// Borrows the connection for one read.
macro_rules! read {
    ($self:ident, $conn:ident => $work:expr) => {
        async { on_lane!($self.lane, $conn => $work) }.await.map_err(settled)
    };
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
        let query = sql(
            "SELECT c.chain_id, tenant AS tenant_id, pool || '/' || slot AS slot, origin, epoch,
                    size, hash AS head_hash, frontier, checkpoint
               FROM chain c JOIN head h ON h.chain_id = c.chain_id ORDER BY origin",
        );
        read!(self, conn => query.all(conn))?.iter().map(DatabaseRow::chain).collect()
    }

    async fn select(
        &self,
        chain: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        read!(self, conn => rows::entries(conn, chain, range))
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        let query = sql("SELECT c.chain_id FROM run r JOIN chain c ON c.no = r.chain
              WHERE r.run_id = ? ORDER BY origin LIMIT 1");
        let query = query.text(&run.to_string());
        read!(self, conn => query.maybe(conn))?.map(|row| row.chain_id()).transpose()
    }

    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError> {
        read!(self, conn => rows::open_runs(conn, chain))
    }

    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        let query = sql("WITH own AS MATERIALIZED (SELECT no << 40 AS base FROM chain WHERE chain_id = ?1)
              SELECT id & 1099511627775 AS seq, leaf AS leaf_hash FROM stored_entry
               WHERE id >= (SELECT base + ?2 FROM own) AND id < (SELECT base + min(?3, 1 << 40) FROM own)
               ORDER BY id");
        let query = query.bytes(chain.as_bytes()).number(from).number(to);
        read!(self, conn => query.all(conn))?.iter().map(DatabaseRow::leaf).collect()
    }

    async fn subtrees(
        &self,
        chain: &ChainId,
        height: u32,
        from: u64,
        to: u64,
    ) -> Result<Vec<Subtree>, StoreError> {
        let query = sql("SELECT idx, hash FROM subtree
                          WHERE chain_id = ? AND height = ? AND idx >= ? AND idx < ? ORDER BY idx");
        let query = query.bytes(chain.as_bytes()).number(height.into()).number(from).number(to);
        read!(self, conn => query.all(conn))?.iter().map(|row| row.subtree(height)).collect()
    }

    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        read!(self, conn => rows::checkpoints(conn, chain, at_least, limit))
    }

    async fn volumes(&self) -> Result<Vec<Volume>, StoreError> {
        read!(self, conn => subtrees::volumes(conn))
    }

    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[PayloadRef],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        read!(self, conn => rows::payloads(conn, chain, list))
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

    async fn newest_in_fleet_log(
        &self,
        tenant: &str,
        log: &str,
        kind: &str,
    ) -> Result<Option<EntryRow>, StoreError> {
        read!(self, conn => fleet::newest_about(conn, tenant, log, kind))
    }
}
