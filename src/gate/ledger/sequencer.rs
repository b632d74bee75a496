//! The one task that owns the chain: takes queued items, links, signs, commits, answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::chain::{Chain, Moment, Placed};
use super::drafts::{self, DraftWithPayloads};
use super::enrolment::Certifier;
use super::item::{Claim, Completion, Item};
use super::later::Lanes;
use super::permit::{Committed, Receipt, Settled};
use super::spool::{Journal, LeaseFile};
use super::store::{Batch, EntryRow, HeadRow, LeaseKey, LeaseRequest, PayloadRow, StoreError};
use super::tail::TailError;
use super::writer_key::{LogKeys, WriterKey};
use super::{Error, LedgerParts, LedgerStatus, RecoveredRun, Shared, closing, recover};
use crate::domain::id::{Epoch, Seq};
use crate::record::Draft;
use crate::record::alert::{AlertKind, AlertSeverity};
use crate::record::chain::{Heartbeat, WriterStopped};
use crate::record::debug_by;

/// Entries of one batch at most.
const BATCH_ENTRIES: usize = 1024;
/// Payload bytes at which a batch is full.
const BATCH_BYTES: usize = 1024 * 1024;
/// Longest pause between two tries of one batch.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A writer that has not started yet.
pub struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) signer: Arc<dyn Certifier>,
    /// A key that outlives this epoch, if the log has one.
    pub(super) log_key: Option<LogKeys>,
    pub(super) journal: Box<dyn Journal>,
    pub(super) lease_file: Option<LeaseFile>,
    /// A request to the store without an answer yet.
    pub(super) request: Option<LeaseRequest>,
    /// The key of an epoch whose certificate was requested.
    pub(super) introducing: Option<(Epoch, WriterKey)>,
    lanes: Lanes,
    status: watch::Sender<LedgerStatus>,
}

debug_by!(Writer);

/// A writer that holds a slot and its chain. Its one task owns the fields.
pub(super) struct Sequencer {
    pub(super) shared: Arc<Shared>,
    pub(super) key: LeaseKey,
    pub(super) origin: Arc<str>,
    pub(super) chain: Chain,
    pub(super) head: HeadRow,
    pub(super) signing: WriterKey,
    pub(super) journal: Option<Box<dyn Journal>>,
    pub(super) status: watch::Sender<LedgerStatus>,
    /// Entries that the sequencer itself must write: the ends of permits without a receiver.
    pub(super) backlog: VecDeque<Item>,
    /// The status while the reserve for outcomes is not full: at the start, and after it was spent.
    pub(super) short: Option<LedgerStatus>,
    /// The journal could not keep the last batch.
    pub(super) forgetful: bool,
}

/// Why a writer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It stopped on request, and `writer.stopped` is recorded.
    Stopped,
    /// Another writer took the slot: exit 75.
    Fenced(String),
    /// The storage or the chain cannot be trusted.
    Broken(String),
}

/// A built batch with its waiting callers.
struct Built {
    batch: Batch,
    waiting: Vec<(Completion, Placed)>,
    alerts: RaisedAlerts,
}

/// The alerts in a batch.
type RaisedAlerts = Vec<(AlertKind, AlertSeverity)>;

impl Writer {
    pub(super) fn new(
        parts: LedgerParts,
        shared: Arc<Shared>,
        lanes: Lanes,
        status: watch::Sender<LedgerStatus>,
    ) -> Self {
        let LedgerParts { signer, log_key, journal, lease_file, .. } = parts;
        let (request, introducing) = (None, None);
        Self { shared, signer, log_key, journal, lease_file, request, introducing, lanes, status }
    }

    /// Takes a slot, recovers its chain, hands over the open runs, then writes until `stop`.
    ///
    /// Retries a store that is unreachable for as long as it takes; `status` has the reason.
    pub async fn run(
        mut self,
        stop: CancellationToken,
        recovered: oneshot::Sender<Vec<RecoveredRun>>,
    ) -> Ending {
        let mut pause = Duration::from_millis(20);
        let (mut sequencer, runs) = loop {
            match recover::start(&mut self).await {
                Ok(started) => break started,
                Err(recover::StartRefusal::Later(why)) => {
                    self.shared.store.relieve().await;
                    self.status.send_replace(LedgerStatus::Starting(why));
                }
                Err(recover::StartRefusal::Never(ending)) => {
                    self.refuse_all(&ending);
                    return ending;
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ending::Stopped,
                () = tokio::time::sleep(pause) => {}
            }
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        };
        while let Err(why) = self.shared.count_ended(&sequencer.key).await {
            self.status.send_replace(LedgerStatus::Starting(why.reason().to_owned()));
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ending::Stopped,
                () = tokio::time::sleep(pause) => {}
            }
        }
        sequencer.status = self.status.clone();
        sequencer.publish();
        drop(recovered.send(runs));
        let ending = sequencer.serve(&mut self.lanes, &stop).await;
        self.refuse_all(&ending);
        ending
    }

    /// As [`Self::run`], in its own task, for a caller that waits for the end.
    #[must_use]
    pub fn spawn(
        self,
        stop: CancellationToken,
        recovered: oneshot::Sender<Vec<RecoveredRun>>,
    ) -> JoinHandle<Ending> {
        tokio::spawn(self.run(stop, recovered))
    }

    fn refuse_all(&mut self, ending: &Ending) {
        self.status.send_replace(match ending {
            Ending::Stopped => LedgerStatus::Stopped,
            Ending::Fenced(why) => LedgerStatus::Fenced(why.clone()),
            Ending::Broken(why) => LedgerStatus::Broken(why.clone()),
        });
        self.lanes.close();
    }

    pub(super) fn status(&self) -> watch::Sender<LedgerStatus> {
        self.status.clone()
    }
}

impl Sequencer {
    async fn serve(&mut self, lanes: &mut Lanes, stop: &CancellationToken) -> Ending {
        loop {
            let heartbeat = self.shared.settings.heartbeat;
            let mut work: Vec<Item> = self.backlog.drain(..).collect();
            if work.is_empty() {
                tokio::select! {
                    biased;
                    () = lanes.next(&mut work) => {}
                    () = stop.cancelled() => {
                        lanes.take_waiting(&mut work);
                        if work.is_empty() {
                            return self.finish().await;
                        }
                    }
                    () = self.whole_again(), if self.short.is_some() => continue,
                    () = tokio::time::sleep(heartbeat) => work.push(self.heartbeat()),
                }
            }
            lanes.take_waiting(&mut work);
            gather(&mut work, lanes);
            let queued = lanes.intents.len().saturating_add(lanes.due.len());
            self.shared.metrics.queue_depth(i64::try_from(queued).unwrap_or(i64::MAX));
            let built = match self.build(work) {
                Ok(built) => built,
                Err(ending) => return ending,
            };
            if built.batch.entries.is_empty() {
                continue;
            }
            if let Err(ending) = self.commit(built, Some(stop)).await {
                return ending;
            }
        }
    }

    fn heartbeat(&self) -> Item {
        let open_runs = self.chain.tails().len().into();
        event(DraftWithPayloads::bare(Draft::of(Heartbeat { open_runs, rejected: None })))
    }

    /// Writes the last entry of an orderly end, and releases the slot.
    async fn finish(&mut self) -> Ending {
        let last =
            event(DraftWithPayloads::bare(Draft::of(WriterStopped { reason: "stopped".into() })));
        let built = match self.build(vec![last]) {
            Ok(built) => built,
            Err(ending) => return ending,
        };
        // WHY: an end that cannot be written in time must not hang the process; the lease runs out
        // instead.
        let done = tokio::time::timeout(Duration::from_secs(3), self.commit(built, None)).await;
        match done {
            Ok(Ok(())) => {
                drop(self.shared.store.release(&self.key).await);
                Ending::Stopped
            }
            Ok(Err(ending)) => ending,
            Err(_late) => Ending::Stopped,
        }
    }

    pub(super) fn moment(&self) -> Moment {
        let mono = u64::try_from(self.shared.clock.monotonic().as_micros()).unwrap_or(u64::MAX);
        Moment { wall: self.shared.clock.now(), mono }
    }

    /// Links and places every permitted entry, and answers the refused ones.
    fn build(&mut self, work: Vec<Item>) -> Result<Built, Ending> {
        let mut entries: Vec<EntryRow> = Vec::with_capacity(work.len());
        let mut payloads: Vec<(Seq, PayloadRow)> = Vec::new();
        let mut waiting = Vec::with_capacity(work.len());
        let mut alerts = Vec::new();
        for item in work {
            if !item.claim.take() {
                continue;
            }
            let moment = self.moment();
            match self.chain.extend(item.written.draft, moment) {
                Ok((row, placed)) => {
                    self.shared.clock.reached(self.chain.last());
                    entries.push(row);
                    payloads.extend(item.written.payloads.into_iter().map(|row| (placed.seq, row)));
                    waiting.push((item.done, placed));
                    self.raise(moment, &mut entries, &mut alerts);
                }
                Err(misfit) => item.done.refuse(misfit.into()),
            }
        }
        let checkpoint = match self.signing.checkpoint(self.chain.size(), self.chain.root()) {
            Ok(checkpoint) => checkpoint,
            Err(why) => {
                // The chain in memory is ahead of the signed one, so no entry may follow.
                let why = format!("the log's key cannot sign: {why}");
                for (done, _) in waiting {
                    done.refuse(Error::Unavailable(why.clone()));
                }
                return Err(Ending::Broken(why));
            }
        };
        let head = self.chain.head(checkpoint);
        Ok(Built { batch: Batch { entries, payloads, head }, waiting, alerts })
    }

    /// Adds the alerts that the entry placed last asks for. WHY here: every entry passes here, so an alert needs no other
    /// caller, and it is durable exactly if its cause is.
    fn raise(&mut self, moment: Moment, entries: &mut Vec<EntryRow>, alerts: &mut RaisedAlerts) {
        for alert in self.chain.due_alerts(&self.shared.settings.alerts) {
            let raised = (alert.alert, alert.severity);
            // An alert belongs to no run and is short: nothing refuses it.
            if let Ok((row, _)) = self.chain.extend(Draft::of(alert), moment) {
                entries.push(row);
                alerts.push(raised);
            }
        }
    }

    /// Makes a signed batch durable: retries the same bytes until it is, or until this writer is
    /// fenced.
    async fn commit(
        &mut self,
        built: Built,
        stop: Option<&CancellationToken>,
    ) -> Result<(), Ending> {
        let Built { batch, waiting, alerts } = built;
        let mut batch = Arc::new(batch);
        let mut pause = Duration::from_millis(20);
        let mut doubtful = false;
        let started = self.shared.clock.monotonic();
        loop {
            let tried = self.try_once(&mut batch).await;
            if let Err(failure) = &tried {
                self.shared.metrics.ledger_error(failure.as_str());
            }
            let why = match tried {
                Ok(()) => break,
                Err(StoreError::Conflict(why)) => {
                    let error = if doubtful {
                        Error::Unknown
                    } else {
                        Error::Unavailable("another writer took the slot".into())
                    };
                    for (done, _) in waiting {
                        done.refuse(error.clone());
                    }
                    return Err(Ending::Fenced(why));
                }
                Err(StoreError::Broken(why)) => return Err(Ending::Broken(why)),
                Err(StoreError::Full(why) | StoreError::Unavailable(why)) => why,
                Err(StoreError::Unknown(why)) => {
                    doubtful = true;
                    why
                }
            };
            // WHY whatever the error: a quota, a mapped file and a rewritten file each report a
            // full disk under another name.
            self.shared.store.relieve().await;
            self.short = Some(LedgerStatus::Full);
            self.status.send_replace(LedgerStatus::Failing(why));
            if stop.is_some_and(CancellationToken::is_cancelled) {
                // The batch stays in doubt; the next writer closes it.
                return Err(Ending::Stopped);
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
        // WHY the first try: a batch that was in doubt and then found durable did not renew the
        // lease later.
        self.shared.tenure.renewed(started);
        let took = self.shared.clock.monotonic().saturating_sub(started);
        self.shared.metrics.commit(took, u32::try_from(batch.entries.len()).unwrap_or(u32::MAX));
        alerts.iter().for_each(|(alert, severity)| self.shared.metrics.alert(*alert, *severity));
        self.head = batch.head.clone();
        if let Some(keeper) = &self.shared.trust {
            keeper.take(&batch.entries);
        }
        self.replenish().await;
        self.publish();
        self.answer(waiting);
        Ok(())
    }

    /// One try: journal and store in parallel; the store's answer decides.
    async fn try_once(&mut self, batch: &mut Arc<Batch>) -> Result<(), StoreError> {
        let Some(mut journal) = self.journal.take() else {
            return self.shared.store.append(&self.key, &self.head, batch).await;
        };
        if !journal.waits() {
            let appended = self.shared.store.append(&self.key, &self.head, batch).await;
            if appended.is_ok() {
                self.forgetful = journal.keep(&self.key, batch).is_err();
            }
            self.journal = Some(journal);
            return appended;
        }
        let (key, kept) = (self.key.clone(), Arc::clone(batch));
        let keeping = tokio::task::spawn_blocking(move || {
            let result = journal.keep(&key, &kept);
            (journal, result)
        });
        let appending = self.shared.store.append(&self.key, &self.head, batch);
        let (kept, appended) = tokio::join!(keeping, appending);
        let (mut journal, result) =
            kept.map_err(|_| StoreError::Broken("the spool's thread panicked".into()))?;
        if appended.is_ok() && result.is_ok() {
            // If this line is lost in a crash, recovery treats the batch as unknown and looks it
            // up.
            drop(journal.settled(&self.key.chain, batch.head.size));
        }
        self.journal = Some(journal);
        self.forgetful = result.is_err();
        appended
    }

    /// Refills the reserve for outcomes. Intents accepted before that could end without a recorded
    /// outcome.
    async fn replenish(&mut self) {
        if self.short.is_some() {
            self.short = match self.shared.store.replenish().await {
                Ok(true) => None,
                Ok(false) => Some(LedgerStatus::Full),
                Err(why) => Some(LedgerStatus::Failing(why.to_string())),
            };
        }
    }

    /// Retries that until the reserve is full.
    async fn whole_again(&mut self) {
        while self.short.is_some() {
            tokio::time::sleep(PAUSE_MAX).await;
            self.replenish().await;
            self.publish();
        }
    }

    fn publish(&self) {
        let next = if let Some(short) = &self.short {
            short.clone()
        } else if self.forgetful {
            LedgerStatus::Failing("the spool cannot be written".into())
        } else {
            LedgerStatus::Ready
        };
        self.status.send_if_modified(|now| {
            let changed = *now != next;
            if changed {
                *now = next;
            }
            changed
        });
    }

    /// The batch is durable: this is the only place that mints tokens.
    fn answer(&mut self, waiting: Vec<(Completion, Placed)>) {
        for (done, placed) in waiting {
            let binding = match &done {
                Completion::Judged { judged, .. } => Some(judged.binding()),
                Completion::Finished { finished, .. } => finished.binding(),
                Completion::Event { .. } => None,
            };
            let receipt = Receipt {
                origin: Arc::clone(&self.origin),
                chain: self.key.chain,
                seq: placed.seq,
                leaf: placed.leaf,
                run_seq: placed.run_seq,
                binding,
            };
            match done {
                Completion::Judged { judged, expires, reply } => {
                    let committed = Committed::mint(*judged, expires, receipt, &self.shared.tenure);
                    // The caller already has `ledger.unknown`, so the call must not run or wait for
                    // an approval.
                    let written = match reply.send(Ok(committed)) {
                        Err(Ok(Committed::Permit(permit))) => {
                            drafts::ended(&*self.shared.entropy, &permit.not_started())
                        }
                        Err(Ok(Committed::Held(held))) => {
                            closing::held_ended(*held.run(), held.call(), false, "not_started")
                        }
                        Ok(()) | Err(Ok(Committed::Refusal(_)) | Err(_)) => continue,
                    };
                    self.backlog.push_back(event(written));
                }
                Completion::Finished { finished, reply } => {
                    drop(reply.send(Ok(Settled::mint(*finished, receipt))));
                }
                Completion::Event { reply } => drop(reply.map(|reply| reply.send(Ok(receipt)))),
            }
        }
    }

    /// Writes these events now; recovery builds and commits entries the same way as normal work.
    pub(super) async fn write(&mut self, events: Vec<DraftWithPayloads>) -> Result<(), Ending> {
        let built = self.build(events.into_iter().map(event).collect())?;
        if built.batch.entries.is_empty() { Ok(()) } else { self.commit(built, None).await }
    }
}

fn event(written: DraftWithPayloads) -> Item {
    Item { written, claim: Claim::default(), done: Completion::Event { reply: None } }
}

/// Takes everything else in the queues, outcomes first, without waiting.
fn gather(work: &mut Vec<Item>, lanes: &mut Lanes) {
    let mut bytes = work.iter().map(weight).fold(0_usize, usize::saturating_add);
    for lane in [&mut lanes.due, &mut lanes.intents] {
        while work.len() < BATCH_ENTRIES && bytes < BATCH_BYTES {
            let Ok(item) = lane.try_recv() else { break };
            bytes = bytes.saturating_add(weight(&item));
            work.push(item);
        }
    }
}

fn weight(item: &Item) -> usize {
    item.written.payloads.iter().map(|p| p.body.len()).fold(0, usize::saturating_add)
}

impl From<TailError> for Error {
    fn from(misfit: TailError) -> Self {
        match misfit {
            TailError::RunNotOpen | TailError::RunOpen => Self::RunNotOpen,
            TailError::Call(_) => Self::CallTaken,
            TailError::CallsOpen | TailError::DelegatesOpen => Self::CallsOpen,
            TailError::TooLong => Self::Unavailable(misfit.to_string()),
        }
    }
}
