//! The port to durable storage: a compare-and-swap log with payloads, nothing more.
//!
//! The caller enforces the writer's rules: a store never invents, reorders or rewrites bytes. What
//! a method calls durable **is** durable when it returns `Ok`. A driver error that does not prove
//! *conflict* or *not written* is `Unknown`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use super::anchored::{AnchorRow, FleetView, Restart, next_origin};
use crate::crypto::merkle::{self, Frontier};
use crate::crypto::range::Node;
use crate::crypto::tiles;
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::{CallId, ChainId, Epoch, RunId, Seq};
use crate::record::{Entry, debug_by};

/// The status before the first try.
pub const UNTRIED: &str = "not started";

pub use crate::verify::entries::{EntryRow, HeadRow};

pub use super::reader::{ChainRow, KEPT, LedgerReader, PAYLOADS_MAX, Pruner, Pruning, Volume};

/// Why the store failed a request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written: another writer moved the head or took the slot (`WG001`).
    #[error("fenced: {0}")]
    Conflict(String),
    /// Nothing was written, and the same bytes may be tried again.
    #[error("not written: {0}")]
    Unavailable(String),
    /// Nothing was written because there is no space; the same bytes may be tried again.
    #[error("not written, no space: {0}")]
    Full(String),
    /// The write may or may not have happened: read the head, or try the same bytes again.
    #[error("unknown: {0}")]
    Unknown(String),
    /// The storage can no longer be trusted in this process (fsync failed, corrupt): stop.
    #[error("storage failed: {0}")]
    Broken(String),
}

impl StoreError {
    /// `conflict`, `unavailable`, `full`, `unknown` or `broken`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "conflict",
            Self::Unavailable(_) => "unavailable",
            Self::Full(_) => "full",
            Self::Unknown(_) => "unknown",
            Self::Broken(_) => "broken",
        }
    }

    /// What went wrong, without its meaning for a write: for readers.
    pub fn reason(&self) -> &str {
        match self {
            Self::Conflict(why)
            | Self::Unavailable(why)
            | Self::Full(why)
            | Self::Unknown(why)
            | Self::Broken(why) => why,
        }
    }
}

/// The request of a starting writer.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    /// Tenant, `default` on one machine.
    pub tenant: String,
    /// The pool of slots: `local-<random>` in a SQLite file, else as configured: `local`, or
    /// `<namespace>/<service account>`. Slots are `<pool>/<k>`.
    pub pool: String,
    /// The writer, for people: host name and process id.
    pub writer: String,
    /// The lease this machine held before, if it remembers one.
    pub previous: Option<LeaseKey>,
    /// The secret of the new lease; the store keeps its SHA-256 only.
    pub secret: [u8; 32],
    /// Id for a chain that has to be made because no slot is free.
    pub chain: ChainId,
    /// How long the lease lasts without a commit.
    pub term: Duration,
}

/// The proof with every write: the chain, its epoch and the secret of its lease.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseKey {
    /// The chain of the slot.
    pub chain: ChainId,
    /// The fencing token.
    pub epoch: Epoch,
    /// Only the holder knows it.
    pub secret: [u8; 32],
}

debug_by!(LeaseKey: chain, epoch);

/// A slot that was taken: its epoch is raised, and every older writer is fenced.
#[derive(Clone, Debug)]
pub struct Leased {
    /// To be shown with every write.
    pub key: LeaseKey,
    /// `local/0`: the pool and the slot's number in it.
    pub slot: String,
    /// Name of the log: `wicketgate.dev/<tenant>/<slot>/<n>`.
    pub origin: String,
    /// Whether the request had the previous lease's secret, so that this is the same writer
    /// restarted.
    pub same_writer: bool,
    /// The head as the store has it.
    pub head: HeadRow,
}

/// One payload as it is stored; erasing it erases the salt with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PayloadRow {
    /// The commitment in its entry.
    pub commitment: Digest,
    /// The salt that protects the commitment from guessing.
    pub salt: Salt,
    /// `args`, `result`, `policy_input`, …
    pub role: String,
    /// `application/json`.
    pub media_type: String,
    /// The exact bytes.
    pub body: Vec<u8>,
}

/// How a payload is named to a store: by a commitment, and by an entry that has it. Payloads are
/// stored beside their entries, so without an entry a store may have to search the whole chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadRef {
    /// An entry that commits to it; any entry of the same call does.
    pub entry: Option<Seq>,
    /// The commitment.
    pub commitment: Digest,
}

impl PayloadRef {
    /// The payload that the entry with this place commits to.
    pub const fn of(entry: Seq, commitment: &Digest) -> Self {
        Self { entry: Some(entry), commitment: *commitment }
    }

    /// A payload whose entry is not known.
    pub const fn anywhere(commitment: &Digest) -> Self {
        Self { entry: None, commitment: *commitment }
    }
}

/// Entries that become durable together, with the payloads they commit to and the signed head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Entries, linked, in order; never empty.
    pub entries: Vec<EntryRow>,
    /// Payloads of at most 16 KiB each, in the order of the entries that commit to them, each with
    /// the place of its entry.
    pub payloads: Vec<(Seq, PayloadRow)>,
    /// The head after the last entry.
    pub head: HeadRow,
}

/// One root of a completed subtree, as it is stored: derived from the leaves, never trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subtree {
    /// The node. Heights are 8, 16, 24 and 32; 0 for leaf hashes kept after pruning.
    pub node: Node,
    /// Its root.
    pub hash: Digest,
}

impl Batch {
    /// The subtrees of heights 8, 16, 24 and 32 that this batch completes after `expected`; later
    /// proofs are built from them. Empty if the frontier of `expected` does not fit its size.
    pub fn completed(&self, expected: &HeadRow) -> Vec<Subtree> {
        let mut done = Vec::new();
        let Some(mut frontier) = Frontier::from_bytes(expected.size, &expected.frontier) else {
            return done;
        };
        for entry in &self.entries {
            frontier.push_telling(entry.leaf, &mut |node, hash| {
                if node.height.is_multiple_of(tiles::HEIGHT)
                    && node.height / tiles::HEIGHT < tiles::LEVELS
                {
                    done.push(Subtree { node, hash });
                }
            });
        }
        done
    }

    /// The epoch that linked its last entry and signed its checkpoint: earlier than that of the
    /// lease when a spool is replayed. `None` if the entry cannot be read.
    #[must_use]
    pub fn signed_in(&self) -> Option<Epoch> {
        let last = self.entries.last()?;
        Entry::parse(&last.body).ok().map(|entry| entry.epoch)
    }

    /// Checks that the batch continues `expected`: gapless, linked, hashed, and ending in its head.
    ///
    /// Every store calls this first, so that a caller's mistake is refused in the same way
    /// everywhere and never reaches a disk.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], naming the first flaw; nothing was written.
    pub fn check(&self, expected: &HeadRow) -> Result<(), StoreError> {
        let flaw = |what: String| Err(StoreError::Unavailable(format!("malformed batch: {what}")));
        if self.entries.is_empty() {
            return flaw("no entries".into());
        }
        let (mut seq, mut prev) = (expected.size, expected.hash);
        for entry in &self.entries {
            if entry.seq != seq || entry.prev != prev {
                return flaw(format!("entry {} does not follow {seq}", entry.seq));
            }
            if entry.leaf != merkle::leaf_hash(&entry.body) {
                return flaw(format!("leaf hash of entry {seq}"));
            }
            (seq, prev) = (seq.saturating_add(1), entry.leaf);
        }
        if self.head.size != seq || self.head.hash != prev {
            return flaw("head is not that of the last entry".into());
        }
        Ok(())
    }
}

/// The row of an entry with these bytes.
pub(super) fn row_of(entry: &Entry, leaf: Digest, body: Vec<u8>) -> EntryRow {
    EntryRow {
        seq: entry.seq,
        prev: entry.prev,
        leaf,
        run: entry.draft.run,
        call: entry.draft.call.clone(),
        kind: entry.draft.kind().as_str().to_owned(),
        body,
    }
}

/// Which entries of a chain are read.
#[derive(Clone, Copy, Debug)]
pub enum EntryRange<'a> {
    /// Those from this one on, at most so many.
    From(Seq, u32),
    /// Those of a run.
    Run(&'a RunId),
    /// Those of a call.
    Call(&'a RunId, &'a CallId),
    /// Those outside of runs of these kinds before this one; of them the last ones, at most so
    /// many. No other entry is read for them.
    Lone(&'a [&'a str], Seq, u32),
}

/// The operations of a writer. Every method shows the lease; a lost lease is `Conflict`.
#[async_trait]
pub trait LedgerStore: Send + Sync + 'static {
    /// Checks that a commit will be durable; returns the settings for `writer.started`.
    ///
    /// A schema of another version or a setting that loses commits is `Unavailable`.
    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError> {
        Ok(Vec::new())
    }

    /// Takes a slot by raising its epoch: the previous one if the request has its secret, else the
    /// lowest whose lease has expired or whose last entry is `writer.stopped`, else a new one.
    ///
    /// Repeating it after `Unknown` may take a second epoch, which loses nothing.
    async fn lease(&self, request: &LeaseRequest) -> Result<Leased, StoreError>;

    /// Appends the batch if the head is still `expected` (size and hash) in this epoch, with its
    /// payloads and the new head, in one transaction; renews the lease.
    ///
    /// Idempotent: if the head is already exactly `batch.head` in this epoch, it returns `Ok`.
    async fn append(
        &self,
        key: &LeaseKey,
        expected: &HeadRow,
        batch: &Arc<Batch>,
    ) -> Result<(), StoreError>;

    /// Stores one payload before the entry that commits to it (payloads over 16 KiB). Idempotent.
    async fn put_payload(&self, key: &LeaseKey, payload: &PayloadRow) -> Result<(), StoreError>;

    /// Ends the lease now, so that the slot is free. The last entry is `writer.stopped`.
    async fn release(&self, key: &LeaseKey) -> Result<(), StoreError>;

    /// The head of this chain.
    async fn head(&self, key: &LeaseKey) -> Result<HeadRow, StoreError>;

    /// These entries of this chain, ascending.
    async fn select(
        &self,
        key: &LeaseKey,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError>;

    /// Entries of this chain with `from <= seq`, ascending, at most `limit`.
    async fn tail(
        &self,
        key: &LeaseKey,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.select(key, EntryRange::From(from, limit)).await
    }

    /// Runs of this chain that have `run.opened` and no `run.sealed`.
    async fn open_runs(&self, key: &LeaseKey) -> Result<Vec<RunId>, StoreError>;

    /// All entries of a run, ascending.
    async fn run_entries(&self, key: &LeaseKey, run: &RunId) -> Result<Vec<EntryRow>, StoreError> {
        self.select(key, EntryRange::Run(run)).await
    }

    /// All entries of a call, ascending.
    async fn call_entries(
        &self,
        key: &LeaseKey,
        run: &RunId,
        call: &CallId,
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.select(key, EntryRange::Call(run, call)).await
    }

    /// A payload of this chain, unless it was erased or never stored.
    async fn payload(
        &self,
        key: &LeaseKey,
        at: &PayloadRef,
    ) -> Result<Option<PayloadRow>, StoreError>;

    /// What fleet logs of the tenant in this storage record about the log of this lease, and
    /// whether `before`, a chain this machine remembers, is in this storage at all.
    async fn fleet_view(
        &self,
        _key: &LeaseKey,
        _before: Option<&ChainId>,
    ) -> Result<FleetView, StoreError> {
        Ok(FleetView::default())
    }

    /// The checkpoint this chain had at exactly this size, if one was committed there.
    async fn signed_at(&self, _key: &LeaseKey, _size: Seq) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Leaf hashes of the tenant's fleet log from `from` on, ascending, at most `limit`.
    async fn fleet_leaves(
        &self,
        _key: &LeaseKey,
        _from: Seq,
        _limit: u32,
    ) -> Result<Vec<Digest>, StoreError> {
        Ok(Vec::new())
    }

    /// Keeps the cosignatures and stamps over a head of this log; replaces those of the same size.
    async fn put_anchor(&self, _key: &LeaseKey, _anchor: &AnchorRow) -> Result<(), StoreError> {
        Err(StoreError::Unavailable("this store keeps no anchors".into()))
    }

    /// Retires the chain of this lease for good and begins the next one of its slot with its first
    /// entries, all or nothing. An empty chain takes the next name instead.
    async fn restart(&self, _key: &LeaseKey, _next: &Restart) -> Result<(), StoreError> {
        Err(StoreError::Unavailable("this store restarts no chain".into()))
    }

    /// After a failed write: frees the reserve for outcomes. `true` if some was freed.
    async fn relieve(&self) -> bool {
        false
    }

    /// Fills the reserve for outcomes; new intents wait for that. `false` if there is not enough
    /// space.
    ///
    /// # Errors
    /// Any other reason why it is not full.
    async fn replenish(&self) -> Result<bool, StoreError> {
        Ok(true)
    }
}
