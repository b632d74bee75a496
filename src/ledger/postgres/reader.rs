//! Reading as `ledger_reader`: row-level security decides which tenants are seen.

use async_trait::async_trait;
use sqlx::postgres::PgRow;

use super::lane::{Lane, Options, Purpose, connect_options};
use super::literal::{bytes, text, text_array};
use super::{rows, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::store::{
    AnchorRow, ChainRow, EntryRow, LedgerReader, PayloadRow, StoreError, Subtree, Volume,
};

/// How long one read may take: a whole chain's hashes are more than a writer ever asks for.
const STATEMENT: std::time::Duration = std::time::Duration::from_secs(30);

/// A database, read through one connection.
pub struct PostgresReader {
    lane: Lane,
}

impl std::fmt::Debug for PostgresReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresReader")
    }
}

impl PostgresReader {
    /// Connects, and checks that the schema is the one this build reads.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or the schema is another.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = Options { statement: STATEMENT, call: STATEMENT, ..Options::default() };
        let reader = Self { lane: Lane::new(connect_options(url)?, options) };
        reader.lane.anew().await?;
        Ok(reader)
    }

    async fn rows(&self, sql: &str) -> Result<Vec<PgRow>, StoreError> {
        self.lane.run(sql, Purpose::Read).await
    }

    async fn kept(&self, origin: &str, rest: &str) -> Result<Vec<AnchorRow>, StoreError> {
        let sql = format!(
            "SELECT a.size, a.note, a.tokens FROM ledger.anchor a
               JOIN ledger.chain c ON c.chain_id = a.chain_id WHERE c.origin = {} AND {rest}",
            text(origin),
        );
        let found = self.rows(&sql).await?;
        let read = |row| {
            let size = rows::number(row, "size")?;
            AnchorRow::read(size, rows::get(row, "note")?, &rows::get::<String>(row, "tokens")?)
        };
        found.iter().map(read).collect()
    }

    async fn select(&self, chain: &ChainId, rest: &str) -> Result<Vec<EntryRow>, StoreError> {
        let chain = bytes(chain.as_bytes());
        let columns = rows::ENTRY;
        let sql = format!("SELECT {columns} FROM ledger.entry WHERE chain_id = {chain} AND {rest}");
        self.rows(&sql).await?.iter().map(rows::entry).collect()
    }
}

#[async_trait]
impl LedgerReader for PostgresReader {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        let found = self
            .rows(
                "SELECT c.chain_id, tenant_id, pool || '/' || slot AS slot, origin, epoch, size,
                        head_hash, frontier, checkpoint
                   FROM ledger.chain c JOIN ledger.head h ON h.chain_id = c.chain_id
                  ORDER BY origin COLLATE \"C\"",
            )
            .await?;
        let chain = |row| {
            Ok(ChainRow {
                chain: rows::chain_id(row)?,
                tenant: rows::get(row, "tenant_id")?,
                slot: rows::get(row, "slot")?,
                origin: rows::get(row, "origin")?,
                epoch: rows::number(row, "epoch")?,
                head: rows::head(row)?,
            })
        };
        found.iter().map(chain).collect()
    }

    async fn entries(
        &self,
        chain: &ChainId,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.select(chain, &format!("seq >= {from} ORDER BY seq LIMIT {limit}")).await
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        let sql = format!(
            "SELECT c.chain_id FROM ledger.chain c WHERE EXISTS
               (SELECT 1 FROM ledger.entry e WHERE e.chain_id = c.chain_id AND e.run_id = '{run}')
              ORDER BY origin COLLATE \"C\" LIMIT 1"
        );
        self.rows(&sql).await?.first().map(rows::chain_id).transpose()
    }

    /// Read off the entries: the table that writers keep of open runs is not a reader's.
    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError> {
        let id = bytes(chain.as_bytes());
        let sql = format!(
            "SELECT o.run_id::text AS run_id FROM ledger.entry o
              WHERE o.chain_id = {id} AND o.kind = 'run.opened' AND NOT EXISTS
                (SELECT 1 FROM ledger.entry s WHERE s.chain_id = {id} AND s.run_id = o.run_id
                    AND s.kind = 'run.sealed')
              ORDER BY run_id"
        );
        let found = self.rows(&sql).await?;
        found.iter().map(|row| rows::run_id(&rows::get::<String>(row, "run_id")?)).collect()
    }

    async fn run_entries(&self, chain: &ChainId, run: &RunId) -> Result<Vec<EntryRow>, StoreError> {
        self.select(chain, &format!("run_id = '{run}' ORDER BY seq")).await
    }

    async fn entries_of(
        &self,
        chain: &ChainId,
        kinds: &[&str],
    ) -> Result<Vec<EntryRow>, StoreError> {
        let kinds = text_array(kinds.iter().map(|kind| Some(*kind)), "text");
        self.select(chain, &format!("run_id IS NULL AND kind = ANY ({kinds}) ORDER BY seq")).await
    }

    async fn leaf_hashes(&self, chain: &ChainId, size: Seq) -> Result<Vec<Digest>, StoreError> {
        let chain = bytes(chain.as_bytes());
        let sql = format!(
            "SELECT leaf_hash FROM ledger.entry WHERE chain_id = {chain} AND seq < {size} ORDER BY seq"
        );
        self.rows(&sql).await?.iter().map(|row| rows::digest(row, "leaf_hash")).collect()
    }

    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        let found = self.rows(&subtrees::select_leaves(chain, from, to)).await?;
        let read = |row| Ok((rows::number(row, "seq")?, rows::digest(row, "leaf_hash")?));
        found.iter().map(read).collect()
    }

    async fn subtrees(
        &self,
        chain: &ChainId,
        height: u32,
        from: u64,
        to: u64,
    ) -> Result<Vec<Subtree>, StoreError> {
        let found = self.rows(&subtrees::select(chain, height, from, to)).await?;
        found.iter().map(|row| subtrees::read(row, height)).collect()
    }

    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        let sql = format!(
            "SELECT size, note FROM ledger.checkpoint WHERE chain_id = {} AND size >= {at_least}
              ORDER BY size LIMIT {limit}",
            bytes(chain.as_bytes()),
        );
        let found = self.rows(&sql).await?;
        found.iter().map(|row| Ok((rows::number(row, "size")?, rows::get(row, "note")?))).collect()
    }

    async fn volumes(&self) -> Result<Vec<Volume>, StoreError> {
        self.rows(subtrees::VOLUMES).await?.iter().map(subtrees::volume).collect()
    }

    async fn payload(&self, chain: &ChainId, c: &Digest) -> Result<Option<PayloadRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM ledger.payload WHERE chain_id = {} AND commitment = {}",
            rows::PAYLOAD,
            bytes(chain.as_bytes()),
            bytes(c.as_bytes()),
        );
        self.rows(&sql).await?.first().map(rows::payload).transpose()
    }

    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[Digest],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<String> = list.iter().map(|c| bytes(c.as_bytes())).collect();
        let sql = format!(
            "SELECT {} FROM ledger.payload WHERE chain_id = {} AND commitment IN ({})",
            rows::PAYLOAD,
            bytes(chain.as_bytes()),
            names.join(", "),
        );
        self.rows(&sql).await?.iter().map(rows::payload).collect()
    }

    async fn checkpoint(
        &self,
        chain: &ChainId,
        at_least: Seq,
    ) -> Result<Option<(Seq, String)>, StoreError> {
        let sql = format!(
            "SELECT size, note FROM ledger.checkpoint WHERE chain_id = {} AND size >= {at_least}
              ORDER BY size LIMIT 1",
            bytes(chain.as_bytes()),
        );
        let found = self.rows(&sql).await?;
        let read = |row| Ok((rows::number(row, "size")?, rows::get(row, "note")?));
        found.first().map(read).transpose()
    }

    async fn anchors(
        &self,
        origin: &str,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<AnchorRow>, StoreError> {
        self.kept(origin, &format!("a.size >= {from} ORDER BY a.size LIMIT {limit}")).await
    }

    async fn newest_anchor(&self, origin: &str) -> Result<Option<AnchorRow>, StoreError> {
        Ok(self.kept(origin, "true ORDER BY a.size DESC LIMIT 1").await?.pop())
    }

    async fn fleet_said(
        &self,
        tenant: &str,
        log: &str,
        kind: &str,
    ) -> Result<Option<EntryRow>, StoreError> {
        let sql = format!(
            "SELECT e.seq, e.prev_hash, e.leaf_hash, e.run_id::text AS run_id, e.call_id, e.kind, e.body
               FROM ledger.fleet_said s JOIN ledger.entry e ON e.chain_id = s.chain_id AND e.seq = s.seq
              WHERE s.tenant_id = {} AND s.log = {} AND s.kind = {}",
            text(tenant),
            text(log),
            text(kind),
        );
        self.rows(&sql).await?.first().map(rows::entry).transpose()
    }
}
