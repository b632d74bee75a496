//! The operator's side: who may see and order what, which calls are held and why, and the outcome
//! of each order.
//!
//! One `OperatorApi` serves every way in (HTTP on the operators' listener, gRPC beside it, the
//! hub). It reads held calls from the ledger and passes orders to `control`; it never touches the
//! road. Only the configuration of this process says what an operator may do: nothing a client
//! sends can widen it. Every order becomes an entry of the chain this process writes.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Entropy};
use crate::control::Orders;
use crate::domain::code::Code;
use crate::domain::id::{ChainId, Seq};
use crate::domain::time::Timestamp;
use crate::evidence::scores::ScoreReader;
use crate::identity::IdentityError;
use crate::index::{FillPace, Index};
use crate::ledger::Ledger;
use crate::ledger::store::{LedgerReader, StoreError};
use crate::ledger::vault::Vault;
use crate::record::trust::TrustWindow;
use crate::serve::problem::Problem;
use crate::session::{MemorySessions, SessionStore};

pub mod alerts;
mod amendments;
mod apart;
pub mod api;
pub mod approval_queue;
mod approvals;
mod audits;
pub mod backtests;
pub mod break_glass;
pub mod credential;
mod earlier;
pub mod enrolment;
mod erasure_requests;
mod erasures;
mod escape;
pub mod evidence;
pub mod exports;
pub mod grpc;
mod health;
pub mod http;
pub(crate) mod live;
mod logins;
mod loosening;
pub mod operators;
mod orders;
pub mod own_keys;
mod policies;
mod sealed_runs;
pub mod search;
pub mod standing;
pub mod token_review;
pub mod view;
pub mod webhook;

pub use escape::{spelled_out, visible};

use approval_queue::{Chain, OpenRuns};
use credential::ShownCredential;
use logins::Logins;
use operators::{Operator, Operators, Right};

/// How long an order waits for the gates' answers before the operator gets the partial ones.
const REPORTS_WITHIN: Duration = Duration::from_secs(2);
/// The same for an amendment: every gate tries the bundle in a child process, up to ten seconds.
const AMENDED_WITHIN: Duration = Duration::from_secs(12);
/// A gate that has not reported for this long refuses T2 and T3 by itself, so an order does not
/// wait for it.
const FRESH: Duration = Duration::from_secs(5);

/// Why a part from the composition root cannot be used: an error of that part's own module.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Counts a request that was refused.
pub type Reject = Arc<dyn Fn(Code) + Send + Sync>;

/// What the operator API is built from.
pub struct OperatorParts {
    /// The operators and their rights.
    pub operators: Operators,
    /// Reads held calls.
    pub reader: Arc<dyn LedgerReader>,
    /// The list of orders.
    pub orders: Arc<dyn Orders>,
    /// Records every order.
    pub ledger: Ledger,
    /// Opens encrypted payloads.
    pub vault: Option<Arc<Vault>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The source of nonces.
    pub entropy: Arc<dyn Entropy>,
    /// Counts refusals.
    pub reject: Reject,
    /// The tenant whose runs it shows; it shows no other tenant's.
    pub tenant: String,
}

crate::record::debug_by!(OperatorParts: tenant);

/// Answers operators' requests, whichever listener they came in by.
pub struct OperatorApi {
    operators: ArcSwap<Operators>,
    reader: Arc<dyn LedgerReader>,
    orders: Arc<dyn Orders>,
    ledger: Ledger,
    vault: Option<Arc<Vault>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    reject: Reject,
    tenant: String,
    logins: Mutex<Logins>,
    queue: tokio::sync::Mutex<OpenRuns>,
    break_glass: std::sync::OnceLock<break_glass::BreakGlassParts>,
    evidence: std::sync::OnceLock<Arc<evidence::EvidenceService>>,
    index: std::sync::OnceLock<Index>,
    pace: FillPace,
    scores: tokio::sync::Mutex<ScoreReader>,
    score_window: std::sync::OnceLock<TrustWindow>,
    sessions: std::sync::OnceLock<Arc<dyn SessionStore>>,
    backtests: std::sync::OnceLock<Arc<backtests::Backtests>>,
    /// Cancelled when this process ends: long work that can be repeated gives up.
    closing: CancellationToken,
    feed: Arc<live::Feed>,
    health: health::HealthSource,
    approvers: std::sync::OnceLock<own_keys::ReadApprovers>,
    /// Work that goes on after its client has disconnected.
    tasks: TaskTracker,
}

crate::record::debug_by!(OperatorApi: tenant);

impl OperatorApi {
    /// An operator API that has read nothing from the ledger yet.
    pub fn new(parts: OperatorParts) -> Self {
        let OperatorParts {
            operators,
            reader,
            orders,
            ledger,
            vault,
            clock,
            entropy,
            reject,
            tenant,
        } = parts;
        let logins = Mutex::new(Logins::default());
        let queue = tokio::sync::Mutex::new(OpenRuns::default());
        let (break_glass, evidence) = (std::sync::OnceLock::new(), std::sync::OnceLock::new());
        Self {
            operators: ArcSwap::from_pointee(operators),
            reader,
            orders,
            ledger,
            vault,
            clock,
            entropy,
            reject,
            tenant,
            logins,
            queue,
            break_glass,
            evidence,
            index: std::sync::OnceLock::new(),
            pace: FillPace::default(),
            scores: tokio::sync::Mutex::default(),
            score_window: std::sync::OnceLock::new(),
            sessions: std::sync::OnceLock::new(),
            backtests: std::sync::OnceLock::new(),
            closing: CancellationToken::new(),
            feed: Arc::default(),
            health: health::HealthSource::default(),
            approvers: std::sync::OnceLock::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Replaces all operators it knows by these.
    pub fn set_operators(&self, operators: Operators) {
        self.operators.store(Arc::new(operators));
    }

    /// Keeps the sessions of its console here, instead of in the memory of this process. Only a call before the console
    /// is served has an effect.
    pub fn share_sessions(&self, store: Arc<dyn SessionStore>) {
        drop(self.sessions.set(store));
    }

    /// Where the sessions of its console are kept.
    pub fn sessions(&self) -> Arc<dyn SessionStore> {
        let memory = || Arc::new(MemorySessions::new(Arc::clone(&self.clock))) as Arc<_>;
        Arc::clone(self.sessions.get_or_init(memory))
    }

    /// Waits until all begun work is done: bundles sent, erasures deleted. A backtest is given up.
    pub async fn finished(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The operator with this credential, if it has the right. Every unknown credential gets the
    /// same answer.
    ///
    /// # Errors
    /// `identity.missing`, `operator.forbidden`, or `limit.exceeded` once too many were refused.
    pub fn admit(&self, shown: &ShownCredential, right: Right) -> Result<Operator, Problem> {
        let who = self.identify(shown)?;
        self.permit(&who, right)?;
        Ok(who)
    }

    /// The operator with this credential.
    ///
    /// # Errors
    /// `identity.missing`, or `limit.exceeded` once too many were refused.
    pub fn identify(&self, shown: &ShownCredential) -> Result<Operator, Problem> {
        self.known(shown).ok_or_else(|| self.turned_away(shown.stranger()))
    }

    /// As [`Self::identify`], where an unknown credential is no guess: one that was known before.
    pub fn known(&self, shown: &ShownCredential) -> Option<Operator> {
        let who = self.operators.load().identify(shown, self.clock.now())?;
        crate::serve::places::proved();
        Some(who)
    }

    /// Whether this operator has the right.
    ///
    /// # Errors
    /// `operator.forbidden`.
    pub(crate) fn permit(&self, who: &Operator, right: Right) -> Result<(), Problem> {
        if who.may(right) {
            return Ok(());
        }
        let message = format!("this needs one of the roles {}", right.roles());
        Err(self.refused(Code::OperatorForbidden, "operator.role", message))
    }

    /// The tenant whose runs it shows.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Randomness.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    /// WHY: the limit never applies to a valid credential; otherwise a third party that reaches the
    /// listener could keep operators from their switches by guessing.
    fn turned_away(&self, why: IdentityError) -> Problem {
        let wait = self.logins.lock().failed(self.clock.monotonic());
        self.refuse(unknown(why, wait))
    }

    /// Counts a refusal.
    pub(crate) fn refuse(&self, problem: Problem) -> Problem {
        (self.reject)(problem.code);
        problem
    }

    /// Makes and counts a refusal.
    fn refused(&self, code: Code, detail: &str, message: impl Into<String>) -> Problem {
        self.refuse(Problem::new(code, detail, message))
    }

    /// When the last held call of a chain expires, having read at least so many of its entries;
    /// `None` if none is held.
    ///
    /// # Errors
    /// The ledger cannot be read, or the reader is behind.
    pub async fn held_until(
        &self,
        chain: &ChainId,
        size: Seq,
    ) -> Result<Option<Timestamp>, Problem> {
        let open_runs = self.look().await?;
        let read = open_runs.chain(chain).filter(|chain| chain.size() >= size);
        let lagging = || Problem::new(Code::LedgerUnavailable, "", "the reader is behind");
        read.map(Chain::held_until).ok_or_else(lagging)
    }

    /// Reads new entries of the ledger.
    async fn look(&self) -> Result<tokio::sync::MutexGuard<'_, OpenRuns>, Problem> {
        let mut open_runs = self.queue.lock().await;
        self.read_on(&mut open_runs).await?;
        Ok(open_runs)
    }

    /// Reads new entries into the approval queue and the live feed.
    async fn read_on(&self, open_runs: &mut OpenRuns) -> Result<(), StoreError> {
        open_runs.look(&*self.reader, &self.tenant, self.vault.as_deref()).await?;
        let waiting = open_runs.requests();
        let alerts = open_runs.chains().flat_map(Chain::alerts).filter(|one| one.is_told());
        self.feed.alerted(alerts.map(|one| one.at).collect());
        self.feed.publish(&mut open_runs.fresh, waiting);
        Ok(())
    }

    /// What runs and calls do.
    pub(crate) const fn feed(&self) -> &Arc<live::Feed> {
        &self.feed
    }

    /// Reads new entries for those who follow the live feed: a few times a second, whatever their number. What fails is
    /// tried again.
    pub(crate) async fn follow(&self) {
        if !self.feed.turn(self.clock.monotonic()) {
            return;
        }
        if let Ok(mut open_runs) = self.queue.try_lock() {
            drop(self.read_on(&mut open_runs).await);
        }
    }
}

/// The refusal of an unknown credential, with a wait after too many of them.
fn unknown(why: IdentityError, wait: Option<Duration>) -> Problem {
    match wait {
        None => why.into(),
        Some(wait) => {
            let message = "too many requests with unknown credentials";
            let problem = Problem::new(Code::LimitExceeded, "operator.logins", message);
            problem.after(wait)
        }
    }
}

/// The store did not answer.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let message = format!("the store does not answer: {}", error.as_str());
        Self::new(Code::LedgerUnavailable, "", message)
    }
}
