//! The ledger: one chain, one writer, and no answer before its entry is durable.
//!
//! `Ledger` is a handle. `submit` turns a judged call into a permit, a refusal or a hold; `settle`
//! turns an outcome into a value that may be released. Both return only once the entry is durable.
//! Behind the handle one task (`sequencer`) owns the chain and writes in batches: each batch takes
//! everything that queued during the previous commit, so there is no timer. The sequencer retries a
//! signed batch with the same bytes until it is durable or this writer is fenced. It never signs
//! another batch for the same place.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{Clock, Entropy};
use crate::domain::id::RunId;
use crate::judge::Judged;
use crate::record::debug_by;
use crate::telemetry::metrics::Metrics;
use drafts::DraftWithPayloads;
use item::{Claim, Completion, Item};
use permit::{Committed, Receipt};
use store::{LeaseKey, Leased, LedgerStore, StoreError, UNTRIED};

mod alerts;
pub mod anchored;
mod applied_orders;
pub mod archive;
pub mod chain;
pub mod closing;
mod delegated;
pub mod drafts;
mod due;
pub mod enrolment;
mod findings;
pub mod fleet;
pub mod flow;
pub mod fuse;
pub mod hold;
pub mod in_force;
mod item;
mod labels;
mod later;
pub mod outgoing;
pub mod permit;
pub mod postgres;
pub mod proofs;
pub mod pruning;
pub mod reader;
mod reading;
pub mod reap;
pub mod recall;
pub mod recover;
mod recovered;
mod refusal;
pub mod retention;
pub(crate) mod rows;
mod schema;
pub mod sequencer;
pub mod spool;
pub mod sqlite;
mod standing;
pub mod store;
pub mod tail;
pub mod time;
pub mod undo;
pub mod vault;
pub mod verify;
pub mod writer_key;

/// Why an entry was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The queue is full; nothing was written.
    #[error("the ledger's queue is full")]
    Overloaded,
    /// Nothing was written, and nothing will be.
    #[error("the ledger cannot be written: {0}")]
    Unavailable(String),
    /// The entry may become durable later; even then the call does not run.
    #[error("the ledger did not confirm in time")]
    Unknown,
    /// The run is not open.
    #[error("the run is not open")]
    RunNotOpen,
    /// The call id is in use, or the call is over.
    #[error("the call is not where this could follow")]
    CallTaken,
    /// Calls of the run are still open.
    #[error("calls of the run are still open")]
    CallsOpen,
}

/// Why a service outside the ledger (a hub, a witness, an authority) did not answer. For people
/// only.
pub type PortError = Box<dyn std::error::Error + Send + Sync>;

/// The state of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerStatus {
    /// Not writing yet, and why.
    Starting(String),
    /// Writing.
    Ready,
    /// A batch is being retried, with the reason. New intents are refused at once.
    Failing(String),
    /// The disk reserve is in use: outcomes are written, new intents are refused.
    Full,
    /// Another writer took the slot. The process ends with code 75.
    Fenced(String),
    /// The storage or the chain cannot be trusted. The process ends.
    Broken(String),
    /// Ended in order.
    Stopped,
}

/// Identity and bounds of a writer.
#[derive(Clone, Debug)]
pub struct LedgerSettings {
    /// `default` on one machine.
    pub tenant: String,
    /// `local`, or `<namespace>/<service account>`.
    pub pool: String,
    /// Host and process, for people.
    pub writer: String,
    /// Version of this program.
    pub version: String,
    /// Host name or pod.
    pub pod: String,
    /// Digest of the image, or `none`.
    pub image_digest: String,
    /// A lease without a commit ends after this (15 s).
    pub lease_term: Duration,
    /// Idle time before a heartbeat (10 s).
    pub heartbeat: Duration,
    /// How long an intent may queue before it is refused (1 s).
    pub queue_wait: Duration,
    /// How long a caller waits for its intent in total (4 s).
    pub commit_wait: Duration,
    /// Intents that may queue.
    pub queue_max: usize,
    /// Facts about the store's durability, recorded in `writer.started`.
    pub durability: Vec<(String, String)>,
    /// Facts about the configuration, recorded in `writer.started`.
    pub configured: Vec<(String, String)>,
    /// The anchor file: the newest head of the fleet log that others have seen.
    pub anchor_file: Option<PathBuf>,
    /// Witnesses to ask, before anything is written, what they have seen of the fleet log.
    pub sights: Vec<fleet::port::WitnessSight>,
    /// Start although the clock is more than a day behind the last entry.
    pub accept_clock_step: bool,
    /// Takes the slot only to close it; `writer.started` records that.
    pub reaping: bool,
    /// Seals payloads before they reach the store or the spool, if there is a key.
    pub vault: Option<Arc<vault::Vault>>,
    /// Makes the keyed digest of the call that a decision records (`mark`); `None`: no mark.
    pub marks: Option<Arc<crate::identity::token::RunTokens>>,
    /// When alerts are raised.
    pub alerts: crate::record::alert::AlertRules,
    /// Which ended calls policies see of a tool; `None`: they see none.
    pub trust: Option<TrustRule>,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        Self {
            tenant: "default".into(),
            pool: "local".into(),
            writer: String::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            pod: "local".into(),
            image_digest: "none".into(),
            lease_term: Duration::from_secs(15),
            heartbeat: Duration::from_secs(10),
            queue_wait: Duration::from_secs(1),
            commit_wait: Duration::from_secs(4),
            queue_max: 1024,
            durability: Vec::new(),
            configured: Vec::new(),
            anchor_file: None,
            sights: Vec::new(),
            accept_clock_step: false,
            reaping: false,
            vault: None,
            marks: None,
            alerts: crate::record::alert::AlertRules::default(),
            trust: None,
        }
    }
}

/// Everything that a writer needs.
pub struct LedgerParts {
    /// Where entries become durable.
    pub store: Arc<dyn LedgerStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids, salts and keys.
    pub entropy: Arc<dyn Entropy>,
    /// Certifies the epoch's key: the enrolment key itself, or a hub that has it.
    pub signer: Arc<dyn enrolment::Certifier>,
    /// The stable key of a log (the fleet log); without one, each epoch makes its own.
    pub log_key: Option<writer_key::LogKeys>,
    /// What this machine remembers of its chain.
    pub journal: Box<dyn spool::Journal>,
    /// Where it remembers its lease.
    pub lease_file: Option<spool::LeaseFile>,
    /// Where to count.
    pub metrics: Arc<Metrics>,
}

debug_by!(LedgerParts);

pub use in_force::Activated;
pub use later::Promised;
pub use reading::{PastReading, SealedReading};
pub use recovered::{
    Delegated, PastAnswer, PastModels, PastRate, PastSpending, PastUsage, RecoveredRun, Unmeasured,
};
pub use standing::TrustRule;

/// A handle on the ledger. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    intents: mpsc::Sender<Item>,
    due: mpsc::Sender<Item>,
    /// Outcomes that may wait for the next batch; at most [`later::OUTSTANDING`].
    later: mpsc::Sender<Item>,
    status: watch::Receiver<LedgerStatus>,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    settings: LedgerSettings,
    store: Arc<dyn LedgerStore>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
    leased: OnceLock<Leased>,
    /// Runs whose payloads must not be stored.
    incognito: RwLock<BTreeSet<RunId>>,
    /// The time until which the slot is certainly held.
    tenure: Arc<fuse::Tenure>,
    /// How calls ended, if policies see that.
    trust: Option<standing::TrustKeeper>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

impl Ledger {
    /// A handle, and the writer, which one task must run (`sequencer::Writer::run`).
    #[must_use]
    pub fn new(settings: LedgerSettings, parts: LedgerParts) -> (Self, sequencer::Writer) {
        let tenure = fuse::Tenure::new(Arc::clone(&parts.clock), settings.lease_term);
        let tenure = Arc::new(tenure);
        let (intents, intents_in) = mpsc::channel(settings.queue_max);
        let (owed, owed_in) = mpsc::channel(settings.queue_max);
        let (later, later_in) = mpsc::channel(later::OUTSTANDING);
        let (status_out, status) = watch::channel(LedgerStatus::Starting(UNTRIED.into()));
        let trust = settings.trust.map(standing::TrustKeeper::new);
        let shared = Arc::new(Shared {
            settings,
            store: Arc::clone(&parts.store),
            clock: Arc::clone(&parts.clock),
            entropy: Arc::clone(&parts.entropy),
            metrics: Arc::clone(&parts.metrics),
            leased: OnceLock::new(),
            incognito: RwLock::default(),
            tenure,
            trust,
        });
        let lanes = later::Lanes::new(intents_in, owed_in, later_in);
        let writer = sequencer::Writer::new(parts, Arc::clone(&shared), lanes, status_out);
        (Self { intents, due: owed, later, status, shared }, writer)
    }

    /// The state of the ledger, with later changes.
    pub fn status(&self) -> watch::Receiver<LedgerStatus> {
        self.status.clone()
    }

    /// The slot, origin and chain being written, once it is known.
    #[must_use]
    pub fn leased(&self) -> Option<&Leased> {
        self.shared.leased.get()
    }

    fn key(&self) -> Result<&LeaseKey, Error> {
        let leased = self.shared.leased.get();
        leased.map(|l| &l.key).ok_or_else(|| Error::Unavailable("no slot is held yet".into()))
    }

    /// Refuses at once an intent that would only queue behind a failing store.
    pub fn open_for_intents(&self) -> Result<(), Error> {
        match &*self.status.borrow() {
            LedgerStatus::Ready => Ok(()),
            LedgerStatus::Starting(why) | LedgerStatus::Failing(why) => {
                Err(Error::Unavailable(why.clone()))
            }
            LedgerStatus::Full => Err(Error::Unavailable("no space is left for new calls".into())),
            LedgerStatus::Fenced(_) => {
                Err(Error::Unavailable("another writer took the slot".into()))
            }
            LedgerStatus::Broken(_) => Err(Error::Unavailable("the ledger is broken".into())),
            LedgerStatus::Stopped => Err(Error::Unavailable("the ledger is closed".into())),
        }
    }

    /// Queues the decision about a call; `Pending::wait` returns the result. Decisions become
    /// durable in the order in which they were queued.
    ///
    /// # Errors
    /// `Overloaded` and `Unavailable`: nothing was written.
    pub async fn submit(&self, judged: Judged) -> Result<Pending<Committed>, Error> {
        self.open_for_intents()?;
        let hold = judged.decision().hold.unwrap_or_default();
        let expires = self.shared.clock.now().plus(hold);
        let about = (self.mark(judged.prepared().call()), expires);
        let mut written = drafts::decided(&*self.shared.entropy, &judged, about);
        self.confine(&mut written)?;
        let queued = tokio::time::timeout(self.shared.settings.queue_wait, self.park(&mut written));
        match queued.await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => return Err(Error::Unavailable(failure.to_string())),
            Err(_late) => return Err(Error::Unavailable("the ledger is too slow".into())),
        }
        let (reply, answer) = oneshot::channel();
        let done = Completion::Judged { judged: Box::new(judged), expires, reply };
        self.offer(written, done, answer)
    }

    /// Queues an entry other than a call: a run opened or sealed, an activation.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_event(&self, written: DraftWithPayloads) -> Result<Pending<Receipt>, Error> {
        self.open_for_intents()?;
        let (reply, answer) = oneshot::channel();
        self.offer(written, Completion::Event { reply: Some(reply) }, answer)
    }

    /// Records an entry that is not a call.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    pub async fn record(&self, written: DraftWithPayloads) -> Result<Receipt, Error> {
        self.submit_event(written)?.wait().await
    }

    /// From now on no payload of this run is stored, only commitments.
    pub fn keep_nothing_of(&self, run: RunId) {
        self.shared.incognito.write().insert(run);
    }

    /// The run is over.
    pub fn forget_incognito(&self, run: &RunId) {
        self.shared.incognito.write().remove(run);
    }

    /// Removes the payloads of an incognito run unless the policy has them kept, and seals the others if there is a key.
    fn confine(&self, written: &mut DraftWithPayloads) -> Result<(), Error> {
        let is_incognito = |run| self.shared.incognito.read().contains(&run);
        if !written.is_audited && written.draft.run.is_some_and(is_incognito) {
            written.payloads.clear();
        }
        let Some(vault) = &self.shared.settings.vault else { return Ok(()) };
        if !written.payloads.is_empty() {
            let chain = self.key()?.chain;
            for row in &mut written.payloads {
                *row = vault.seal(&*self.shared.entropy, &chain, row);
            }
        }
        Ok(())
    }

    /// Stores payloads that are too large for the entry's own transaction, before the entry.
    async fn park(&self, written: &mut DraftWithPayloads) -> Result<(), StoreError> {
        while let Some(at) = written.payloads.iter().position(|p| p.body.len() > drafts::INLINE_MAX)
        {
            let Some(payload) = written.payloads.get(at) else { break };
            let key = self.key().map_err(|e| StoreError::Unavailable(e.to_string()))?;
            self.shared.store.put_payload(key, payload).await?;
            written.payloads.remove(at);
        }
        Ok(())
    }

    fn offer<T>(
        &self,
        written: DraftWithPayloads,
        done: Completion,
        answer: oneshot::Receiver<Result<T, Error>>,
    ) -> Result<Pending<T>, Error> {
        let claim = Claim::default();
        let settings = &self.shared.settings;
        let (queue_wait, commit_wait) = (settings.queue_wait, settings.commit_wait);
        match self.intents.try_send(Item { written, claim: claim.clone(), done }) {
            Ok(()) => Ok(Pending { answer, claim, queue_wait, commit_wait }),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Error::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                Err(Error::Unavailable("the ledger is closed".into()))
            }
        }
    }
}

/// An entry that waits to be recorded.
#[derive(Debug)]
#[must_use = "the caller that queues an intent must wait for its outcome"]
pub struct Pending<T> {
    answer: oneshot::Receiver<Result<T, Error>>,
    claim: Claim,
    queue_wait: Duration,
    commit_wait: Duration,
}

impl<T> Pending<T> {
    /// Waits until the entry is durable, in two steps. While it is only queued it can be withdrawn,
    /// and nothing happened. After that only the store knows.
    ///
    /// # Errors
    /// `Unavailable`: nothing was written. `Unknown`: it may become durable later; an intent is
    /// then followed by `call.failed{not_started}` and never runs. The others: the entry violates a
    /// rule.
    pub async fn wait(mut self) -> Result<T, Error> {
        if let Ok(answered) = tokio::time::timeout(self.queue_wait, &mut self.answer).await {
            return answered.unwrap_or_else(|_| Err(self.abandoned()));
        }
        if self.claim.withdraw() {
            return Err(Error::Unavailable("the ledger is too slow".into()));
        }
        let rest = self.commit_wait.saturating_sub(self.queue_wait);
        if let Ok(answered) = tokio::time::timeout(rest, &mut self.answer).await {
            return answered.unwrap_or(Err(Error::Unknown));
        }
        // After `close` the sequencer's send fails, so a permit cannot be lost in between.
        self.answer.close();
        self.answer.try_recv().unwrap_or(Err(Error::Unknown))
    }

    /// The writer ended with this item: either unwritten or in doubt.
    fn abandoned(&self) -> Error {
        if self.claim.withdraw() {
            Error::Unavailable("the ledger is closed".into())
        } else {
            Error::Unknown
        }
    }
}
