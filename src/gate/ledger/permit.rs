//! The tokens of a call's way through the gate: each step is a type that only the step before can
//! make.
//!
//! Fields are private to this file, constructors to `ledger`. Only a durable allow makes a
//! `Permit`, and only a durable entry makes a reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::flow::LeftStream;
use super::fuse::{Fuse, Tenure};
use super::outgoing::ClearedOutcome;
pub use super::refusal::Refusal;
use crate::domain::call::ToolCall;
use crate::domain::decision::{Course, LayerReason, PolicyObligation, Verdict};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq, ToolName};
use crate::domain::outcome::{Ended, FailureClass, Observed, Outcome};
use crate::domain::tier::{Binding, Tier};
use crate::domain::time::Timestamp;
use crate::judge::Judged;
use crate::judge::prepared::Prepared;

/// The position of a recorded entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Name of the log.
    pub origin: Arc<str>,
    /// The chain.
    pub chain: ChainId,
    /// The entry.
    pub seq: Seq,
    /// Its leaf hash.
    pub leaf: Digest,
    /// Its place in the run, for entries of a run.
    pub run_seq: u64,
    /// How the model and instructions behind the call are known, for entries of a decided call.
    pub binding: Option<Binding>,
}

/// Proof that this call may run, and that the decision which allows it is durable. The decision is
/// an allow, or a refusal by layers that only observe.
///
/// Neither `Clone` nor `Default`: one permit runs one call, once.
#[derive(Debug)]
#[must_use = "an unused permit is an allowed call with no outcome"]
pub struct Permit {
    prepared: Prepared,
    verdict: Verdict,
    obligations: Vec<PolicyObligation>,
    receipt: Receipt,
    observed: Mutex<Observed>,
    /// Upstreams of models that are not asked.
    spared: Vec<String>,
    fuse: Fuse,
    /// Whether an answer left while the call ran.
    flows: AtomicBool,
    /// What left of that answer.
    stream: Box<Mutex<LeftStream>>,
}

impl Permit {
    pub(super) fn mint(judged: Judged, receipt: Receipt, tenure: &Arc<Tenure>) -> Self {
        let (prepared, decision) = judged.into_parts();
        let fuse = tenure.fuse(prepared.tool().map_or(Duration::ZERO, |tool| tool.timeout));
        let (verdict, obligations) = (decision.verdict, decision.obligations);
        let (flows, stream) = (AtomicBool::new(false), Box::default());
        let observed = Mutex::default();
        let spared = Vec::new();
        Self { prepared, verdict, obligations, receipt, observed, spared, fuse, flows, stream }
    }

    /// The call that was allowed.
    pub fn call(&self) -> &ToolCall {
        self.prepared.call()
    }

    /// The call, opened and resolved, for the executor that prepared it.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// The verdict of the policy: `Allow`, or in observe mode the verdict that would have applied.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The end of the permit; checked where bytes leave.
    pub const fn fuse(&self) -> &Fuse {
        &self.fuse
    }

    /// What must also happen.
    pub fn obligations(&self) -> &[PolicyObligation] {
        &self.obligations
    }

    /// The position of the entry that allows the call.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Keeps what the executor observed. The call's last entry includes it even if the call is
    /// stopped half way.
    pub(crate) fn observe(&self, see: impl FnOnce(&mut Observed)) {
        see(&mut self.observed.lock());
    }

    /// Has the executor pass over these upstreams of models.
    pub(crate) fn spare(&mut self, upstreams: Vec<String>) {
        self.spared = upstreams;
    }

    /// Whether the executor passes over this upstream of models.
    pub(crate) fn spares(&self, upstream: &str) -> bool {
        self.spared.iter().any(|spared| spared == upstream)
    }

    /// Notes that the answer leaves while the call runs.
    pub(super) fn flows(&self) {
        self.flows.store(true, Ordering::Relaxed);
    }

    /// Whether a part of the answer left.
    pub(crate) fn has_left(&self) -> bool {
        self.stream.lock().has_left()
    }

    /// Keeps what left of the answer; the call's last entry has it.
    pub(super) fn keep_stream(&self, left: LeftStream) {
        *self.stream.lock() = left;
    }

    /// Spends the permit: the call ended like this.
    pub(crate) fn finish(self, cleared: ClearedOutcome) -> Finished {
        let (ended, withholds) = cleared.into_parts();
        // What a tool makes of a secret may hold it in a form that is not found.
        let withholds = withholds || self.prepared.screening().withheld.is_some();
        let call = self.prepared.call();
        // WHY never with a flow: its end proves that the outcome is durable.
        let inert = !self.flows.into_inner()
            && self.prepared.tool().is_some_and(|tool| tool.tier == Tier::T0 && tool.read_only);
        let is_done = matches!(ended.outcome, Outcome::Completed { .. });
        let (left, events) = self.stream.into_inner().of(is_done).unzip();
        let observed = Observed { stream: left, ..self.observed.into_inner() };
        Finished {
            inert,
            run: *call.run(),
            call: call.id().clone(),
            tool: call.tool().clone(),
            authorized: self.receipt,
            ended,
            observed,
            stream: events.flatten(),
            withholds,
            is_audited: self.obligations.iter().any(PolicyObligation::is_audit),
        }
    }

    /// Spends the permit of a call in a simulated run: the call does not run.
    pub(crate) fn simulated(self) -> Finished {
        self.finish(ClearedOutcome::simulated())
    }

    /// Spends a permit whose caller no longer waits for it: the call never starts.
    pub(crate) fn not_started(self) -> Finished {
        self.finish(ClearedOutcome::not_started())
    }
}

/// A permitted call that is over; its outcome must be recorded.
#[derive(Debug)]
#[must_use = "an outcome that is not settled leaves a call unexplained"]
pub struct Finished {
    run: RunId,
    call: CallId,
    tool: ToolName,
    authorized: Receipt,
    ended: Ended,
    observed: Observed,
    inert: bool,
    stream: Option<Vec<u8>>,
    withholds: bool,
    is_audited: bool,
}

impl Finished {
    /// The same call with an outcome that the storage cannot keep: the result is lost for good.
    pub(super) fn lost(mut self) -> Self {
        self.ended.outcome = Outcome::Unknown { cause: "result_lost".into() };
        self.stream = None;
        self
    }

    /// The same call, of which the check of what it did failed: its result is not released.
    pub(crate) fn unverified(mut self, message: String) -> Self {
        let class = FailureClass::Unverified;
        self.ended.outcome = Outcome::Failed { class, started: true, message };
        self.stream = None;
        self
    }

    /// How the model and instructions behind the call are known.
    pub(super) const fn binding(&self) -> Option<Binding> {
        self.authorized.binding
    }

    /// Whether the tool only reads and is of tier T0: losing its outcome changes nothing.
    pub(super) const fn inert(&self) -> bool {
        self.inert
    }

    /// The run.
    pub const fn run(&self) -> &RunId {
        &self.run
    }

    /// The call.
    pub const fn call(&self) -> &CallId {
        &self.call
    }

    /// The tool.
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// How it ended.
    pub const fn ended(&self) -> &Ended {
        &self.ended
    }

    /// What its executor saw.
    pub const fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Whether its answer is committed to and not stored.
    pub const fn withholds(&self) -> bool {
        self.withholds
    }

    /// Whether the policy has its payloads kept, even if the run is incognito.
    pub const fn is_audited(&self) -> bool {
        self.is_audited
    }

    /// The exact bytes that left while it ran, if they are kept for a replay.
    pub fn stream(&self) -> Option<&[u8]> {
        self.stream.as_deref()
    }
}

/// The recorded outcome of a permitted call.
#[derive(Debug)]
#[must_use]
pub struct Settled {
    finished: Finished,
    receipt: Receipt,
}

impl Settled {
    pub(super) fn mint(finished: Finished, receipt: Receipt) -> Self {
        Self { finished, receipt }
    }

    /// How it ended.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.finished.ended.outcome
    }

    /// The call.
    #[must_use]
    pub const fn call(&self) -> &CallId {
        &self.finished.call
    }

    /// Whether its answer is committed to and not stored.
    #[must_use]
    pub const fn withholds(&self) -> bool {
        self.finished.withholds
    }

    /// The position of the entry that records the outcome.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// The position of the entry that allows the call.
    #[must_use]
    pub const fn authorized(&self) -> &Receipt {
        &self.finished.authorized
    }

    /// The outcome, to be encoded.
    pub(crate) fn into_outcome(self) -> (CallId, Outcome, Receipt) {
        (self.finished.call, self.finished.ended.outcome, self.receipt)
    }
}

/// A read-only T0 tool has answered. Its authorisation is recorded; its outcome is queued.
#[derive(Debug)]
#[must_use]
pub struct Pledged {
    call: CallId,
    outcome: Outcome,
    authorized: Receipt,
}

impl Pledged {
    pub(super) fn mint(finished: &Finished) -> Self {
        Self {
            call: finished.call.clone(),
            outcome: finished.ended.outcome.clone(),
            authorized: finished.authorized.clone(),
        }
    }

    /// The outcome, to be encoded, and the position of the entry that allows the call.
    pub(crate) fn into_outcome(self) -> (CallId, Outcome, Receipt) {
        (self.call, self.outcome, self.authorized)
    }
}

/// A call that waits for an approval; its hold is recorded.
#[derive(Debug)]
#[must_use]
pub struct Held {
    run: RunId,
    call: CallId,
    reasons: Vec<LayerReason>,
    expires: Timestamp,
    receipt: Receipt,
}

impl Held {
    pub(super) fn mint(judged: Judged, expires: Timestamp, receipt: Receipt) -> Self {
        let (prepared, decision) = judged.into_parts();
        let call = prepared.call();
        let (run, call) = (*call.run(), call.id().clone());
        Self { run, call, reasons: decision.reasons, expires, receipt }
    }

    /// The run.
    #[must_use]
    pub const fn run(&self) -> &RunId {
        &self.run
    }

    /// The call.
    #[must_use]
    pub const fn call(&self) -> &CallId {
        &self.call
    }

    /// Why it waits.
    #[must_use]
    pub fn reasons(&self) -> &[LayerReason] {
        &self.reasons
    }

    /// When it stops waiting.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// The position of the entry that records the hold.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// The durable decision about a judged call.
#[derive(Debug)]
#[must_use]
pub enum Committed {
    /// It may run.
    Permit(Permit),
    /// It may not.
    Refusal(Refusal),
    /// It waits.
    Held(Held),
}

impl Committed {
    /// The recorded verdict.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::Permit(permit) => permit.verdict,
            Self::Refusal(_) => Verdict::Deny,
            Self::Held(_) => Verdict::RequireApproval,
        }
    }

    /// Where the decision is recorded.
    pub const fn receipt(&self) -> &Receipt {
        match self {
            Self::Permit(permit) => &permit.receipt,
            Self::Refusal(refusal) => refusal.receipt(),
            Self::Held(held) => &held.receipt,
        }
    }

    /// Whether that verdict is enforced: false for a refusal by layers that only observe.
    #[must_use]
    pub const fn enforced(&self) -> bool {
        match self {
            Self::Permit(permit) => matches!(permit.verdict, Verdict::Allow),
            Self::Refusal(_) | Self::Held(_) => true,
        }
    }

    pub(super) fn mint(
        judged: Judged,
        expires: Timestamp,
        receipt: Receipt,
        tenure: &Arc<Tenure>,
    ) -> Self {
        match judged.decision().course() {
            Course::Run => Self::Permit(Permit::mint(judged, receipt, tenure)),
            Course::Refuse => Self::Refusal(Refusal::mint(judged, receipt)),
            Course::Wait => Self::Held(Held::mint(judged, expires, receipt)),
        }
    }
}

/// The recorded state of a call that an agent repeats; made only from stored entries.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Recalled {
    call: CallId,
    state: RecalledState,
    receipt: Receipt,
}

/// How far a recalled call got.
#[derive(Clone, PartialEq, Debug)]
pub enum RecalledState {
    /// Denied, for these reasons as the agent receives them.
    Denied(Vec<LayerReason>),
    /// Waiting, until this instant.
    Held(Vec<LayerReason>, Timestamp),
    /// Allowed, and no outcome yet.
    Running,
    /// Over, with the result if its payload is still stored.
    Ended(Outcome),
    /// Completed, and the result is no longer available.
    ResultUnavailable,
    /// Held too long.
    Expired,
    /// Cancelled while held.
    Cancelled(String),
}

impl Recalled {
    pub(super) const fn mint(call: CallId, state: RecalledState, receipt: Receipt) -> Self {
        Self { call, state, receipt }
    }

    /// The call.
    #[must_use]
    pub const fn call(&self) -> &CallId {
        &self.call
    }

    /// How far it got.
    #[must_use]
    pub const fn state(&self) -> &RecalledState {
        &self.state
    }

    /// The position of the entry that records its latest state.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}
