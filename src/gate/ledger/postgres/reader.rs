//! Reads as `ledger_reader`: row-level security decides which tenants are visible.

use async_trait::async_trait;

use super::lane::PostgresLane;
use super::values::Values;
use super::{rows, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{
    AnchorRow, ChainRow, EntryRange, EntryRow, LedgerReader, PayloadRef, PayloadRow, StoreError,
    Subtree, Volume,
};

/// The time limit of one read; a whole chain's hashes are more than a writer ever reads.
const STATEMENT: std::time::Duration = std::time::Duration::from_secs(30);

/// A database, read through one connection.
#[derive(Debug)]
pub struct PostgresReader {
    lane: PostgresLane,
}

impl PostgresReader {
    /// Connects, and checks that this build reads the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or has another schema.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Ok(Self { lane: PostgresLane::connect(url, STATEMENT).await? })
    }

    /// `rest` goes on from `$2`.
    async fn kept(&self, rest: &str, values: Values<'_>) -> Result<Vec<AnchorRow>, StoreError> {
        let sql = format!(
            "SELECT a.size, a.note, a.tokens FROM ledger.anchor a
               JOIN ledger.chain c ON c.chain_id = a.chain_id WHERE c.origin = $1 AND {rest}",
        );
        self.lane.read(&sql, values).await?.iter().map(DatabaseRow::anchor).collect()
    }

    /// `rest` goes on from `$2`.
    async fn found(&self, rest: &str, values: Values<'_>) -> Result<Vec<EntryRow>, StoreError> {
        let columns = rows::ENTRY;
        let sql = format!("SELECT {columns} FROM ledger.entry WHERE chain_id = $1 AND {rest}");
        self.lane.read(&sql, values).await?.iter().map(DatabaseRow::entry).collect()
    }
}

/// `$1`: a chain.
fn of(chain: &ChainId) -> Values<'_> {
    Values::new().bytes(chain.as_bytes())
}

#[async_trait]
impl LedgerReader for PostgresReader {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        let sql = "SELECT c.chain_id, tenant_id, pool || '/' || slot AS slot, origin, epoch, size,
                    head_hash, frontier, checkpoint
               FROM ledger.chain c JOIN ledger.head h ON h.chain_id = c.chain_id
              ORDER BY origin COLLATE \"C\"";
        self.lane.read(sql, Values::new()).await?.iter().map(DatabaseRow::chain).collect()
    }

    async fn select(
        &self,
        chain: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let values = of(chain);
        let (rest, values) = match range {
            EntryRange::From(from, limit) => {
                ("seq >= $2 ORDER BY seq LIMIT $3", values.number(from).number(limit.into()))
            }
            EntryRange::Run(run) => ("run_id = $2 ORDER BY seq", values.uuid(run.uuid())),
            EntryRange::Call(run, call) => (
                "run_id = $2 AND call_id = $3 ORDER BY seq",
                values.uuid(run.uuid()).text(call.as_str()),
            ),
            EntryRange::Lone(kinds, before, limit) => {
                let values = values.all_text(kinds.iter().copied());
                let last =
                    "run_id IS NULL AND kind = ANY ($2) AND seq < $3 ORDER BY seq DESC LIMIT $4";
                let mut rows = self.found(last, values.number(before).number(limit.into())).await?;
                rows.reverse();
                return Ok(rows);
            }
        };
        self.found(rest, values).await
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        let sql = "SELECT c.chain_id FROM ledger.chain c WHERE EXISTS
               (SELECT 1 FROM ledger.entry e WHERE e.chain_id = c.chain_id AND e.run_id = $1)
              ORDER BY origin COLLATE \"C\" LIMIT 1";
        let found = self.lane.read(sql, Values::new().uuid(run.uuid())).await?;
        found.first().map(DatabaseRow::chain_id).transpose()
    }

    /// Derived from the entries: a reader has no access to the writers' table of open runs.
    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError> {
        let sql = "SELECT o.run_id::text AS run_id FROM ledger.entry o
              WHERE o.chain_id = $1 AND o.kind = 'run.opened' AND NOT EXISTS
                (SELECT 1 FROM ledger.entry s WHERE s.chain_id = $1 AND s.run_id = o.run_id
                    AND s.kind = 'run.sealed')
              ORDER BY run_id";
        self.lane.read(sql, of(chain)).await?.iter().map(DatabaseRow::run_id).collect()
    }

    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        let sql =
            "SELECT seq, leaf_hash FROM ledger.entry WHERE chain_id = $1 AND seq >= $2 AND seq < $3
                    ORDER BY seq";
        let found = self.lane.read(sql, of(chain).number(from).number(to)).await?;
        found.iter().map(DatabaseRow::leaf).collect()
    }

    async fn subtrees(
        &self,
        chain: &ChainId,
        height: u32,
        from: u64,
        to: u64,
    ) -> Result<Vec<Subtree>, StoreError> {
        let sql = "SELECT idx, hash FROM ledger.subtree WHERE chain_id = $1 AND height = $2
                      AND idx >= $3 AND idx < $4 ORDER BY idx";
        let values = of(chain).number(height.into()).number(from).number(to);
        self.lane.read(sql, values).await?.iter().map(|row| row.subtree(height)).collect()
    }

    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        let sql = "SELECT size, note FROM ledger.checkpoint WHERE chain_id = $1 AND size >= $2
              ORDER BY size LIMIT $3";
        let found = self.lane.read(sql, of(chain).number(at_least).number(limit.into())).await?;
        found.iter().map(DatabaseRow::note).collect()
    }

    async fn volumes(&self) -> Result<Vec<Volume>, StoreError> {
        let found = self.lane.read(subtrees::VOLUMES, Values::new()).await?;
        found.iter().map(subtrees::volume).collect()
    }

    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[PayloadRef],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let columns = rows::PAYLOAD;
        let sql = format!(
            "SELECT {columns} FROM ledger.payload WHERE chain_id = $1 AND commitment = ANY ($2)"
        );
        let values = of(chain).all_bytes(list.iter().map(|at| at.commitment.as_bytes().as_slice()));
        self.lane.read(&sql, values).await?.iter().map(DatabaseRow::payload).collect()
    }

    async fn anchors(
        &self,
        origin: &str,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<AnchorRow>, StoreError> {
        let values = Values::new().text(origin).number(from).number(limit.into());
        self.kept("a.size >= $2 ORDER BY a.size LIMIT $3", values).await
    }

    async fn newest_anchor(&self, origin: &str) -> Result<Option<AnchorRow>, StoreError> {
        let values = Values::new().text(origin);
        Ok(self.kept("true ORDER BY a.size DESC LIMIT 1", values).await?.pop())
    }

    async fn newest_in_fleet_log(
        &self,
        tenant: &str,
        log: &str,
        kind: &str,
    ) -> Result<Option<EntryRow>, StoreError> {
        let sql = "SELECT e.seq, e.prev_hash, e.leaf_hash, e.run_id::text AS run_id, e.call_id, e.kind, e.body
               FROM ledger.fleet_said s JOIN ledger.entry e ON e.chain_id = s.chain_id AND e.seq = s.seq
              WHERE s.tenant_id = $1 AND s.log = $2 AND s.kind = $3";
        let values = Values::new().text(tenant).text(log).text(kind);
        self.lane.read(sql, values).await?.first().map(DatabaseRow::entry).transpose()
    }
}
