//! The ledger in memory: the reference for the other stores, and the simulation's disk.
//!
//! Nothing survives the process; clones share one store, so a "restarted" writer finds what the
//! previous one left.

pub mod orders;
mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

use wicketgate_crypto::range::Node;
use wicketgate_gate::ledger::fleet;
use wicketgate_gate::ledger::store::{
    AnchorRow, Batch, EntryRange, EntryRow, FleetView, HeadRow, LeaseKey, LeaseRequest, Leased,
    LedgerStore, PayloadRef, PayloadRow, Restart, StoreError,
};
use wicketgate_record::domain::digest::Digest;
use wicketgate_record::domain::id::{ChainId, Epoch, RunId, Seq};
use wicketgate_record::{Entry, Kind};

/// The step before which the store asks [`Faults`].
#[derive(Clone, Copy, Debug)]
pub enum StoreStep<'a> {
    /// A slot is about to be taken.
    Lease(&'a LeaseRequest),
    /// A batch is about to be appended.
    Append(&'a Batch),
    /// A payload is about to be stored.
    PutPayload(&'a PayloadRow),
}

/// What goes wrong, if anything.
#[derive(Clone, Debug)]
pub enum InjectedFault {
    /// Nothing.
    Proceed,
    /// The step fails like this and is not done.
    Refuse(StoreError),
    /// The step is done but fails like this: its answer is lost.
    ApplyThenFail(StoreError),
    /// The step is done this much later (tokio's clock).
    Delay(Duration),
}

/// Chooses a fault before every write.
pub trait Faults: Send + Sync + 'static {
    /// Called once per write, before anything is done.
    fn before(&self, step: StoreStep<'_>) -> InjectedFault;
}

impl<F: Fn(StoreStep<'_>) -> InjectedFault + Send + Sync + 'static> Faults for F {
    fn before(&self, step: StoreStep<'_>) -> InjectedFault {
        self(step)
    }
}

/// The store. Cheap to clone; clones are the same store.
#[derive(Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<MemoryState>>,
    faults: Arc<Mutex<Option<Arc<dyn Faults>>>>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} chains)", self.state.lock().chains.len())
    }
}

#[derive(Default)]
struct MemoryState {
    chains: BTreeMap<ChainId, MemoryChain>,
}

struct MemoryChain {
    tenant: String,
    pool: String,
    slot: u64,
    n: u64,
    retired: bool,
    anchors: BTreeMap<Seq, AnchorRow>,
    epoch: Epoch,
    secret: Digest,
    replaced: Option<Digest>,
    until: Instant,
    term: Duration,
    stopped: bool,
    head: HeadRow,
    entries: Vec<EntryRow>,
    payloads: BTreeMap<Digest, PayloadRow>,
    checkpoints: BTreeMap<Seq, String>,
    open_runs: BTreeSet<RunId>,
    subtrees: BTreeMap<Node, Digest>,
}

impl MemoryChain {
    fn slot_name(&self) -> String {
        format!("{}/{}", self.pool, self.slot)
    }

    fn origin(&self) -> String {
        if self.pool == fleet::POOL {
            let first = fleet::origin(&self.tenant);
            return if self.n == 0 { first } else { format!("{first}/{}", self.n) };
        }
        format!("wicketgate.dev/{}/{}/{}", self.tenant, self.slot_name(), self.n)
    }

    fn select(&self, wanted: impl Fn(&EntryRow) -> bool) -> Vec<EntryRow> {
        self.entries.iter().filter(|entry| wanted(entry)).cloned().collect()
    }

    fn range(&self, range: EntryRange<'_>) -> Vec<EntryRow> {
        match range {
            EntryRange::From(from, limit) => {
                let skip = usize::try_from(from).unwrap_or(usize::MAX);
                let take = usize::try_from(limit).unwrap_or(usize::MAX);
                self.entries.iter().skip(skip).take(take).cloned().collect()
            }
            EntryRange::Run(run) => self.select(|e| e.run.as_ref() == Some(run)),
            EntryRange::Call(run, call) => {
                self.select(|e| e.run.as_ref() == Some(run) && e.call.as_ref() == Some(call))
            }
            EntryRange::Lone(kinds, before, limit) => {
                let mut last = self.select(|e| {
                    e.run.is_none() && e.seq < before && kinds.contains(&e.kind.as_str())
                });
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                last.split_off(last.len().saturating_sub(limit))
            }
        }
    }
}

impl MemoryState {
    fn held(&mut self, key: &LeaseKey) -> Result<&mut MemoryChain, StoreError> {
        self.chains
            .get_mut(&key.chain)
            .filter(|c| c.epoch == key.epoch && c.secret == Digest::of(&[&key.secret]))
            .ok_or_else(|| StoreError::Conflict("the lease is lost".into()))
    }

    /// The slot to take: this request's own (if retried), the previous one, the lowest free one.
    fn free_slot(&self, request: &LeaseRequest, now: Instant) -> Option<ChainId> {
        let mine = Digest::of(&[&request.secret]);
        let before = request.previous.as_ref().map(|key| Digest::of(&[&key.secret]));
        let mut slots: Vec<(&ChainId, &MemoryChain)> = self
            .chains
            .iter()
            .filter(|(_, c)| c.tenant == request.tenant && c.pool == request.pool && !c.retired)
            .collect();
        let known = request.previous.as_ref().map(|key| key.chain);
        slots.sort_by_key(|(id, chain)| (Some(**id) != known, chain.slot));
        let find = |wanted: &dyn Fn(&MemoryChain) -> bool| {
            slots.iter().find(|(_, chain)| wanted(chain)).map(|(id, _)| **id)
        };
        find(&|c| c.secret == mine)
            .or_else(|| find(&|c| Some(c.secret) == before))
            .or_else(|| find(&|c| c.until <= now || c.stopped))
    }

    fn take(&mut self, request: &LeaseRequest, now: Instant) -> Result<Leased, StoreError> {
        let secret = Digest::of(&[&request.secret]);
        let before = request.previous.as_ref().map(|key| Digest::of(&[&key.secret]));
        let until = now.checked_add(request.term).unwrap_or(now);
        let mut same_writer = false;
        let id = match self.free_slot(request, now) {
            Some(id) => id,
            None => self.create(request, secret, until)?,
        };
        let chain = self
            .chains
            .get_mut(&id)
            .ok_or_else(|| StoreError::Broken(format!("chain {id} vanished")))?;
        if let Some(before) = before {
            same_writer = chain.secret == before
                || (chain.secret == secret && chain.replaced == Some(before));
        }
        if chain.secret != secret {
            chain.replaced = Some(chain.secret);
        }
        chain.epoch = chain.epoch.saturating_add(1);
        chain.secret = secret;
        chain.until = until;
        chain.term = request.term;
        // `writer.stopped` frees a slot in its own epoch only.
        chain.stopped = false;
        Ok(Leased {
            key: LeaseKey { chain: id, epoch: chain.epoch, secret: request.secret },
            slot: chain.slot_name(),
            origin: chain.origin(),
            same_writer,
            head: chain.head.clone(),
        })
    }

    /// Makes a chain in epoch 0, for [`State::take`] to raise.
    fn create(
        &mut self,
        request: &LeaseRequest,
        secret: Digest,
        until: Instant,
    ) -> Result<ChainId, StoreError> {
        if self.chains.contains_key(&request.chain) {
            return Err(StoreError::Unavailable(format!("chain {} exists", request.chain)));
        }
        let slot = self
            .chains
            .values()
            .filter(|c| c.tenant == request.tenant && c.pool == request.pool)
            .map(|c| c.slot.saturating_add(1))
            .max()
            .unwrap_or(0);
        if request.pool == fleet::POOL && slot > 0 {
            let why = "another process is recording in the fleet log";
            return Err(StoreError::Conflict(why.into()));
        }
        let head = empty(&request.chain);
        let chain = MemoryChain {
            tenant: request.tenant.clone(),
            pool: request.pool.clone(),
            slot,
            n: 0,
            retired: false,
            anchors: BTreeMap::new(),
            epoch: 0,
            secret,
            replaced: None,
            until,
            term: request.term,
            stopped: false,
            head,
            entries: Vec::new(),
            payloads: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            open_runs: BTreeSet::new(),
            subtrees: BTreeMap::new(),
        };
        self.chains.insert(request.chain, chain);
        Ok(request.chain)
    }

    fn append(
        &mut self,
        key: &LeaseKey,
        expected: &HeadRow,
        batch: &Batch,
    ) -> Result<(), StoreError> {
        let chain = self.held(key)?;
        let now = Instant::now();
        let until = now.checked_add(chain.term).unwrap_or(now);
        if chain.head == batch.head {
            chain.until = until;
            return Ok(());
        }
        if chain.head.size != expected.size || chain.head.hash != expected.hash {
            return Err(StoreError::Conflict("the head moved".into()));
        }
        chain.until = until;
        let completed = batch.completed(expected);
        chain.subtrees.extend(completed.into_iter().map(|done| (done.node, done.hash)));
        for entry in &batch.entries {
            if let Some(run) = entry.run {
                if entry.kind == Kind::RunOpened.as_str() {
                    chain.open_runs.insert(run);
                } else if entry.kind == Kind::RunSealed.as_str() {
                    chain.open_runs.remove(&run);
                }
            }
            chain.stopped = entry.kind == Kind::WriterStopped.as_str();
            chain.entries.push(entry.clone());
        }
        for (_, payload) in &batch.payloads {
            chain.payloads.entry(payload.commitment).or_insert_with(|| payload.clone());
        }
        chain.checkpoints.insert(batch.head.size, batch.head.checkpoint.clone());
        chain.head = batch.head.clone();
        Ok(())
    }
}

fn empty(chain: &ChainId) -> HeadRow {
    let hash = Entry::genesis_prev(chain);
    HeadRow { size: 0, hash, frontier: Vec::new(), checkpoint: String::new() }
}

/// Whether these bytes are an entry about this log.
fn about(body: &[u8], log: &str) -> bool {
    let entry = Entry::parse(body).ok();
    entry.is_some_and(|entry| entry.draft.body.log() == Some(log))
}

impl MemoryState {
    fn fleets(&self, tenant: &str) -> impl Iterator<Item = &MemoryChain> {
        let fleet = |c: &&MemoryChain| c.tenant == tenant && c.pool == fleet::POOL;
        let mut fleets: Vec<&MemoryChain> = self.chains.values().filter(fleet).collect();
        fleets.sort_by_key(|c| c.n);
        fleets.into_iter()
    }

    fn said(&self, tenant: &str, log: &str, kind: &str) -> Option<EntryRow> {
        let entries = self.fleets(tenant).flat_map(|fleet| &fleet.entries);
        entries.filter(|e| e.kind == kind && about(&e.body, log)).last().cloned()
    }

    fn view(&mut self, key: &LeaseKey, before: Option<&ChainId>) -> Result<FleetView, StoreError> {
        let mine = self.held(key)?;
        let (tenant, log) = (mine.tenant.clone(), mine.origin());
        let forgotten =
            before.is_some_and(|id| self.chains.get(id).is_none_or(|chain| chain.tenant != tenant));
        let fleet = self.fleets(&tenant).find(|c| !c.retired).map(|c| (c.origin(), c.head.size));
        let kinds = ["chain.enrolled", "chain.checkpoint", "chain.retired"];
        let said = kinds.iter().filter_map(|kind| self.said(&tenant, &log, kind));
        Ok(FleetView { fleet, forgotten, entries: said.map(|row| row.body).collect() })
    }

    fn restart(&mut self, key: &LeaseKey, next: &Restart) -> Result<(), StoreError> {
        let old = self.held(key)?;
        let mut chain = MemoryChain {
            tenant: old.tenant.clone(),
            pool: old.pool.clone(),
            slot: old.slot,
            n: next.n,
            retired: false,
            anchors: BTreeMap::new(),
            epoch: next.key.epoch,
            secret: Digest::of(&[&next.key.secret]),
            replaced: None,
            until: old.until,
            term: old.term,
            stopped: false,
            head: empty(&next.key.chain),
            entries: Vec::new(),
            payloads: BTreeMap::new(),
            subtrees: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            open_runs: BTreeSet::new(),
        };
        let in_place = next.key.chain == key.chain;
        let same = next.key == *key && old.head.size == 0;
        if next.n <= old.n || chain.origin() != next.origin || (in_place && !same) {
            return Err(StoreError::Unavailable("malformed restart".into()));
        }
        next.batch.check(&chain.head)?;
        chain.head = next.batch.head.clone();
        chain.entries.clone_from(&next.batch.entries);
        chain.checkpoints.insert(chain.head.size, chain.head.checkpoint.clone());
        let last = chain.entries.last();
        chain.stopped = last.is_some_and(|e| e.kind == Kind::WriterStopped.as_str());
        if !in_place {
            old.retired = true;
            old.epoch = old.epoch.saturating_add(1);
        }
        self.chains.insert(next.key.chain, chain);
        Ok(())
    }
}

impl MemoryStore {
    /// An empty store without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on asks `faults` before every write, for all clones.
    pub fn set_faults(&self, faults: impl Faults) {
        *self.faults.lock() = Some(Arc::new(faults));
    }

    /// Nothing goes wrong any more.
    pub fn clear_faults(&self) {
        *self.faults.lock() = None;
    }

    /// Whether a text stands in any entry or payload.
    #[must_use]
    pub fn holds(&self, text: &str) -> bool {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        let state = self.state.lock();
        state.chains.values().any(|chain| {
            chain.entries.iter().any(|row| has(&row.body))
                || chain.payloads.values().any(|row| has(&row.body))
        })
    }

    /// Erases a payload and its salt; `true` if it was stored.
    #[must_use]
    pub fn erase(&self, chain: &ChainId, commitment: &Digest) -> bool {
        let mut state = self.state.lock();
        state.chains.get_mut(chain).is_some_and(|c| c.payloads.remove(commitment).is_some())
    }

    async fn write<T>(
        &self,
        step: StoreStep<'_>,
        apply: impl FnOnce(&mut MemoryState) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let faults = self.faults.lock().clone();
        match faults.map_or(InjectedFault::Proceed, |faults| faults.before(step)) {
            InjectedFault::Proceed => apply(&mut self.state.lock()),
            InjectedFault::Refuse(error) => Err(error),
            InjectedFault::ApplyThenFail(error) => apply(&mut self.state.lock()).and(Err(error)),
            InjectedFault::Delay(duration) => {
                tokio::time::sleep(duration).await;
                apply(&mut self.state.lock())
            }
        }
    }

    fn held<T>(
        &self,
        key: &LeaseKey,
        read: impl FnOnce(&MemoryChain) -> T,
    ) -> Result<T, StoreError> {
        self.state.lock().held(key).map(|chain| read(chain))
    }

    fn read<T: Default>(&self, chain: &ChainId, read: impl FnOnce(&MemoryChain) -> T) -> T {
        self.state.lock().chains.get(chain).map(read).unwrap_or_default()
    }
}

#[async_trait]
impl LedgerStore for MemoryStore {
    async fn lease(&self, request: &LeaseRequest) -> Result<Leased, StoreError> {
        self.write(StoreStep::Lease(request), |state| state.take(request, Instant::now())).await
    }

    async fn append(
        &self,
        key: &LeaseKey,
        expected: &HeadRow,
        batch: &Arc<Batch>,
    ) -> Result<(), StoreError> {
        batch.check(expected)?;
        self.write(StoreStep::Append(batch), |state| state.append(key, expected, batch)).await
    }

    async fn put_payload(&self, key: &LeaseKey, payload: &PayloadRow) -> Result<(), StoreError> {
        self.write(StoreStep::PutPayload(payload), |state| {
            let chain = state.held(key)?;
            chain.payloads.entry(payload.commitment).or_insert_with(|| payload.clone());
            Ok(())
        })
        .await
    }

    async fn release(&self, key: &LeaseKey) -> Result<(), StoreError> {
        self.state.lock().held(key).map(|chain| chain.until = Instant::now())
    }

    async fn head(&self, key: &LeaseKey) -> Result<HeadRow, StoreError> {
        self.held(key, |chain| chain.head.clone())
    }

    async fn select(
        &self,
        key: &LeaseKey,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.held(key, |chain| chain.range(range))
    }

    async fn open_runs(&self, key: &LeaseKey) -> Result<Vec<RunId>, StoreError> {
        self.held(key, |chain| chain.open_runs.iter().copied().collect())
    }

    async fn payload(
        &self,
        key: &LeaseKey,
        at: &PayloadRef,
    ) -> Result<Option<PayloadRow>, StoreError> {
        self.held(key, |chain| chain.payloads.get(&at.commitment).cloned())
    }

    async fn fleet_view(
        &self,
        key: &LeaseKey,
        before: Option<&ChainId>,
    ) -> Result<FleetView, StoreError> {
        self.state.lock().view(key, before)
    }

    async fn signed_at(&self, key: &LeaseKey, size: Seq) -> Result<Option<String>, StoreError> {
        self.held(key, |chain| chain.checkpoints.get(&size).cloned())
    }

    async fn fleet_leaves(
        &self,
        key: &LeaseKey,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<Digest>, StoreError> {
        let mut state = self.state.lock();
        let tenant = state.held(key)?.tenant.clone();
        let fleet = state.fleets(&tenant).find(|c| !c.retired);
        let rows =
            fleet.map(|fleet| fleet.range(EntryRange::From(from, limit))).unwrap_or_default();
        Ok(rows.iter().map(|row| row.leaf).collect())
    }

    async fn put_anchor(&self, key: &LeaseKey, anchor: &AnchorRow) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.held(key)?.anchors.insert(anchor.size, anchor.clone());
        Ok(())
    }

    async fn restart(&self, key: &LeaseKey, next: &Restart) -> Result<(), StoreError> {
        self.state.lock().restart(key, next)
    }
}
