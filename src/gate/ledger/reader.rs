//! The port for readers outside the writer, and for pruning, which needs a record.

use async_trait::async_trait;

use super::store::{
    AnchorRow, EntryRange, EntryRow, HeadRow, PayloadRef, PayloadRow, StoreError, Subtree,
};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Epoch, RunId, Seq};

/// No chain has so many entries: ids of SQLite have 40 bits for them.
const CHAIN_MAX: Seq = 1 << 40;

/// One chain as a reader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainRow {
    /// The chain.
    pub chain: ChainId,
    /// Its tenant.
    pub tenant: String,
    /// `local/0`.
    pub slot: String,
    /// The log's name.
    pub origin: String,
    /// Its current epoch.
    pub epoch: Epoch,
    /// Its head.
    pub head: HeadRow,
}

/// How much of something a ledger holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    /// `entries`, `payloads`, `checkpoints` or `subtrees`.
    pub what: &'static str,
    /// Rows.
    pub rows: u64,
    /// Bytes of the content, without the database's overhead.
    pub bytes: u64,
    /// Bytes on disk with indexes, if the database knows; for the whole file on SQLite, `None`.
    pub disk: Option<u64>,
}

/// Drops entries that a recorded pruning covers. Opened only to prune.
#[async_trait]
pub trait Pruner: Send + Sync + 'static {
    /// Drops the entries `from .. to` of the chain and the payloads they commit to. Keeps the
    /// entries that introduce keys, policies and manifests, and the leaf hashes of the dropped
    /// tiles. `entry` is the place where the fleet log records the pruning; the database refuses
    /// unless it does. Returns how many entries it dropped.
    ///
    /// It is safe to repeat, so an interrupted pruning can be completed.
    async fn prune(&self, pruning: &Pruning) -> Result<u64, StoreError>;
}

/// A pruning as the fleet log records it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pruning {
    /// The chain.
    pub chain: ChainId,
    /// The fleet log's chain.
    pub fleet: ChainId,
    /// Where the fleet log has the `retention.pruned`.
    pub entry: Seq,
    /// First entry to go.
    pub from: Seq,
    /// First entry to stay: a multiple of 256.
    pub to: Seq,
}

/// Kinds that pruning keeps: later entries could not be checked without them.
pub const KEPT: [&str; 5] =
    ["chain.genesis", "writer.started", "policy.activated", "manifest.bound", "anchor.observed"];

/// The most payloads in one request.
pub const PAYLOADS_MAX: usize = 256;

/// What an auditor's tools need: read everything, write nothing, hold no lease.
#[async_trait]
pub trait LedgerReader: Send + Sync + 'static {
    /// Every chain this reader may see, by origin.
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError>;

    /// These entries of a chain, ascending.
    async fn select(
        &self,
        chain: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError>;

    /// Entries with `from <= seq`, ascending, at most `limit`.
    async fn entries(
        &self,
        chain: &ChainId,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.select(chain, EntryRange::From(from, limit)).await
    }

    /// The chain a run is in, if any.
    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError>;

    /// Runs of a chain that have `run.opened` and no `run.sealed`.
    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError>;

    /// All entries of a run, ascending.
    async fn run_entries(&self, chain: &ChainId, run: &RunId) -> Result<Vec<EntryRow>, StoreError> {
        self.select(chain, EntryRange::Run(run)).await
    }

    /// Entries of these kinds that belong to no run, ascending.
    async fn entries_of(
        &self,
        chain: &ChainId,
        kinds: &[&str],
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.select(chain, EntryRange::Lone(kinds, CHAIN_MAX, u32::MAX)).await
    }

    /// Leaf hashes `0 .. size`, in order.
    async fn leaf_hashes(&self, chain: &ChainId, size: Seq) -> Result<Vec<Digest>, StoreError> {
        Ok(self.leaves(chain, 0, size).await?.into_iter().map(|(_, leaf)| leaf).collect())
    }

    /// Leaf hashes of the stored entries with `from <= seq < to`, ascending.
    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError>;

    /// Stored subtrees of this height with `from <= index < to`, ascending. They are derived and
    /// may be missing: the caller checks its result against a signed root.
    async fn subtrees(
        &self,
        _chain: &ChainId,
        _height: u32,
        _from: u64,
        _to: u64,
    ) -> Result<Vec<Subtree>, StoreError> {
        Ok(Vec::new())
    }

    /// Stored checkpoints with `size >= at_least`, ascending, at most `limit`.
    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError>;

    /// What the ledger holds of each kind of row, counted now.
    async fn volumes(&self) -> Result<Vec<Volume>, StoreError> {
        Ok(Vec::new())
    }

    /// A payload, unless it was erased or never stored.
    async fn payload(
        &self,
        chain: &ChainId,
        at: &PayloadRef,
    ) -> Result<Option<PayloadRow>, StoreError> {
        Ok(self.payloads(chain, std::slice::from_ref(at)).await?.pop())
    }

    /// The stored payloads among these, in no order; payloads that were erased or never stored are
    /// left out. A caller asks for at most [`PAYLOADS_MAX`] at once and bounds their total size.
    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[PayloadRef],
    ) -> Result<Vec<PayloadRow>, StoreError>;

    /// The smallest stored checkpoint with `size >= at_least`: its size and note.
    async fn checkpoint(
        &self,
        chain: &ChainId,
        at_least: Seq,
    ) -> Result<Option<(Seq, String)>, StoreError> {
        Ok(self.checkpoints(chain, at_least, 1).await?.pop())
    }

    /// Cosignatures and stamps over heads of this log with `size >= from`, ascending, at most
    /// `limit`.
    async fn anchors(
        &self,
        _origin: &str,
        _from: Seq,
        _limit: u32,
    ) -> Result<Vec<AnchorRow>, StoreError> {
        Ok(Vec::new())
    }

    /// Cosignatures and stamps over the largest anchored head of this log.
    async fn newest_anchor(&self, _origin: &str) -> Result<Option<AnchorRow>, StoreError> {
        Ok(None)
    }

    /// The newest entry of this kind about a log in the tenant's fleet logs.
    async fn newest_in_fleet_log(
        &self,
        _tenant: &str,
        _log: &str,
        _kind: &str,
    ) -> Result<Option<EntryRow>, StoreError> {
        Ok(None)
    }
}
