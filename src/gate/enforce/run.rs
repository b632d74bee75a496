//! Open runs in memory: which callers may continue them, what they used, their calls in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::again::RepeatWindow;
use super::answer::{Answer, Fault};
use super::budget::{self, InTurn};
use super::condition::Condition;
use super::follow::AnswerProgress;
use super::hold_turns::HoldTurns;
use super::implicit::Rest;
use super::keeping::Keeping;
use super::likeness::CallLikeness;
use super::listening::Listening;
use super::rates::Rates;
use super::sight::RunModels;
use crate::clock::Clock;
use crate::domain::call::{CallerAuth, ToolCall};
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::identity::lineage::Grants;
use crate::identity::manifest::{Manifest, Mode};
use crate::ledger::permit::Receipt;
use crate::limits::shares;
use crate::limits::{BudgetOutcome, Usage};
use crate::policy::input::{AgentFacts, RunFacts};
use crate::record::debug_by;
use crate::taint::Taint;
use crate::tool::Cancel;

/// The channel on which callers wait for an answer.
pub(super) type PendingAnswer = watch::Receiver<Option<Answer>>;

/// One open run.
pub struct Run {
    pub(super) id: RunId,
    pub(super) manifest: Arc<Manifest>,
    /// The granted tools; for a child, only those that its parent has too.
    pub(super) grants: Grants,
    /// The run that delegated to it.
    pub(super) parent: Option<Arc<Run>>,
    /// The manifest of the caller that opened it. It differs from the run's own only for a child
    /// that its parent's caller opened.
    pub(super) opener: Arc<Manifest>,
    pub(super) agent: AgentFacts,
    pub(super) auth: CallerAuth,
    pub(super) opened_at: Timestamp,
    pub(super) expires: Option<Timestamp>,
    /// In `Mode::Simulate`, calls are decided and recorded and never run.
    pub(super) mode: Mode,
    pub(super) labels: BTreeMap<String, String>,
    /// Only commitments of the run are stored.
    pub(super) incognito: bool,
    /// What is kept of the run for a replay.
    pub(super) keeping: Keeping,
    /// The key that finds the run; for an explicit run, the hash of its token.
    pub(super) token: Digest,
    /// Whether its calls are processed one at a time.
    pub(super) ordered: bool,
    /// For an implicit run, its thread of work.
    pub(super) thread: Option<Digest>,
    pub(super) state: Mutex<RunState>,
    /// What the run has read.
    pub(super) taint: Mutex<Taint>,
    /// What the run and its models said to each other.
    pub(super) models: RunModels,
    /// Highest `run_seq` of an answer that was released to the run.
    pub(super) released: AtomicU64,
    /// Notified whenever a call leaves the road, returns to it or is permitted while it is followed.
    pub(super) idle: Notify,
    /// The number of followers of its calls.
    pub(super) followers: AtomicUsize,
    /// Taken while an approver's statement about a held call is processed.
    pub(super) statements: HoldTurns,
}

debug_by!(Run: id);

#[derive(Debug, Default)]
pub(super) struct RunState {
    pub usage: Usage,
    pub calls: BTreeMap<CallId, CallStage>,
    pub again: RepeatWindow,
    pub in_flight: usize,
    /// Calls that wait for an approval.
    pub held: usize,
    /// Calls on the road that have reserved a place among the held calls.
    pub holding: BTreeSet<CallId>,
    /// The tools of held calls.
    pub held_tools: BTreeMap<CallId, ToolName>,
    /// Calls that were held when the run was resumed after a restart, or when the client of a
    /// request to a model went away, until a client requests the same call.
    pub taken_up: BTreeMap<CallId, ToolName>,
    /// When the run was last used (monotonic).
    pub touched: Duration,
    /// Takes no new calls after too many denials.
    pub suspended: bool,
    /// The calls that count for the rates of policies.
    pub rates: Rates,
    /// Denied calls of each tool that the manifest grants.
    pub denied_tools: BTreeMap<ToolName, u64>,
    /// For an ordered run: resolves when the last call in the queue has left the road.
    pub last_in_line: Option<oneshot::Receiver<()>>,
    /// Takes no new calls, because the run is being sealed.
    pub closing: bool,
    pub sealed: Option<Sealed>,
    /// Its share of the limit of open runs.
    pub place: Option<shares::ShareSlot>,
    /// The child runs.
    pub children: Vec<Weak<Run>>,
}

/// The stage of a call of the run.
#[derive(Clone, Debug)]
pub(super) enum CallStage {
    /// On the road. Boxed: a run keeps the stage of every call that it had.
    OnRoad(Box<CallOnRoad>),
    /// Recorded, and waiting for an approval.
    Held,
    /// Recorded.
    Booked,
    /// Its caller received `ledger.unknown`: it may be recorded, and will never run.
    Doubted,
}

/// A call on the road.
#[derive(Clone, Debug)]
pub(super) struct CallOnRoad {
    /// Identifies its tool and arguments.
    pub fingerprint: Digest,
    /// As [`CallLikeness::pattern`].
    pub pattern: Digest,
    /// The kinds of which every finding in its arguments is masked, where they were masked before it came on the road:
    /// its requests name others.
    pub masked: Vec<String>,
    pub tool: ToolName,
    pub answer: PendingAnswer,
    /// How many requests wait for that.
    pub listeners: Arc<AtomicUsize>,
    pub cancel: Cancel,
    /// Its permission was recorded while the run had a follower.
    pub permitted: bool,
    /// The newest recorded progress of its answer.
    pub progress: Option<AnswerProgress>,
}

/// A run that was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Entries of the run, `run.opened` and `run.sealed` included.
    pub entries: u64,
    /// The receipt of `run.sealed`.
    pub receipt: Receipt,
}

/// The result of admitting one call.
pub(super) enum Admitted {
    /// A new call, to be taken down the road.
    New(New),
    /// The same call is on the road: wait for its answer.
    Join(Listening),
    /// A call with other arguments is on the road under this id. It is the same one if these are masked.
    Other(Box<CallOnRoad>),
    /// The ledger has the call under this id.
    Recall(CallId),
}

/// A call that was counted and starts now.
pub(super) struct New {
    /// The channel for its answer.
    pub sender: watch::Sender<Option<Answer>>,
    /// The refusals of the run's limits.
    pub refusals: Vec<LayerReason>,
    pub facts: RunFacts,
    /// The call's cancellation, by its caller or by an operator.
    pub cancel: Cancel,
    /// Its place in the queue of an ordered run.
    pub turn: Option<InTurn>,
    /// Its share of the limit of calls on the road.
    pub slot: shares::ShareSlot,
}

impl Run {
    /// The run's id.
    pub const fn id(&self) -> &RunId {
        &self.id
    }

    /// The agent of the run.
    pub fn agent(&self) -> &str {
        &self.agent.id
    }

    /// The seed that ids derive from, if there is one, and the opening time: the values its agent
    /// may use as randomness and time.
    #[must_use]
    pub fn determined(&self) -> Option<(Seed, Timestamp)> {
        self.keeping.seed().map(|seed| (seed, self.keeping.opening_time(self.opened_at)))
    }

    /// The bytes of an id for a call to which its agent gave none, if the run has a seed; see
    /// `Keeping::call_id`.
    #[must_use]
    pub fn mint(&self, tool: &str, arguments: &[u8]) -> Option<[u8; 16]> {
        self.keeping.call_id(tool, arguments)
    }

    /// Whether the run is sealed or being sealed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.lock().closing
    }

    /// Admits one call: joins it, recalls it, or counts it as new. Without a slot a new call is
    /// refused before anything is counted, and leaves no trace in the run.
    pub(super) fn admit(
        &self,
        asked: &ToolCall,
        (like, slot, condition): (CallLikeness, Option<shares::ShareSlot>, Option<Condition>),
        clock: &dyn Clock,
        attested: &BTreeMap<String, String>,
    ) -> Result<Admitted, Fault> {
        let (call, fingerprint) = (asked.id(), like.fingerprint);
        let mut state = self.state.lock();
        let now = clock.monotonic();
        state.touched = now;
        let known = state.first(call, (fingerprint, like.window), now);
        match state.calls.get(&known) {
            Some(CallStage::OnRoad(same)) if same.fingerprint == fingerprint => {
                return Ok(Admitted::Join(same.listen()));
            }
            Some(CallStage::OnRoad(other)) => return Ok(Admitted::Other(other.clone())),
            Some(CallStage::Held | CallStage::Booked | CallStage::Doubted) => {
                return Ok(Admitted::Recall(known));
            }
            None => {}
        }
        let is_over = state.closing || self.expires.is_some_and(|expires| expires <= clock.now());
        // A call of the gate belongs to one that the run still waits for.
        if is_over && !asked.is_of_gate() {
            return Err(Fault::of(Code::RunSealed).about(call));
        }
        if let Some(condition) = condition {
            return Err(condition.fault().about(call));
        }
        if !asked.is_of_gate() {
            budget::may_enter(self, &state, call)?;
        }
        let slot = slot.ok_or_else(|| budget::no_room(call))?;
        let facts = self.facts(&state.usage, attested);
        let mut refusals = self.count(&mut state.usage, (asked, like.pattern), now);
        refusals.extend(self.begin_above(now));
        self.within_an_answer(asked, &mut refusals);
        let (sender, answer) = watch::channel(None);
        let (tool, cancel) = (asked.tool().clone(), Cancel::default());
        let place = CallStage::on_road((fingerprint, like.pattern), tool, answer, &cancel);
        state.calls.insert(call.clone(), place);
        if like.window.is_some() {
            state.again.note(fingerprint, call, now);
        }
        state.in_flight = state.in_flight.saturating_add(1);
        let turn = self.is_in_line(asked).then(|| budget::line_up(&mut state));
        Ok(Admitted::New(New { sender, refusals, facts, cancel, turn, slot }))
    }

    fn facts(&self, usage: &Usage, attested: &BTreeMap<String, String>) -> RunFacts {
        RunFacts {
            id: self.id,
            mode: self.mode.as_str().to_owned(),
            incognito: self.incognito,
            opened_at: self.opened_at,
            calls: usage.calls(),
            errors: usage.errors(),
            denied: usage.denied(),
            cost: usage.cost(),
            pools: Vec::new(),
            labels: self.labels.clone(),
            attested: attested.clone(),
            taint: Default::default(),
            trust: None,
            searched: None,
        }
    }

    /// Puts a held call back on the road. `None` if it is not held, or no longer.
    pub(super) fn take_up(
        &self,
        asked: &ToolCall,
        ((fingerprint, masked), slot): ((Digest, Vec<String>), shares::ShareSlot),
        attested: &BTreeMap<String, String>,
    ) -> Option<New> {
        let call = asked.id();
        let mut state = self.state.lock();
        if !matches!(state.calls.get(call), Some(CallStage::Held)) {
            return None;
        }
        let (sender, answer) = watch::channel(None);
        let (tool, cancel) = (asked.tool().clone(), Cancel::default());
        let place = CallStage::on_road((fingerprint, fingerprint), tool, answer, &cancel);
        state.calls.insert(call.clone(), place.after_masking(masked));
        state.held = state.held.saturating_sub(1);
        state.in_flight = state.in_flight.saturating_add(1);
        state.usage.take_up();
        self.count_above(Usage::take_up_delegated);
        let turn = self.is_in_line(asked).then(|| budget::line_up(&mut state));
        let facts = self.facts(&state.usage, attested);
        drop(state);
        self.idle.notify_waiters();
        Some(New { sender, refusals: Vec::new(), facts, cancel, turn, slot })
    }

    /// Removes a call that left the road without a record; its id becomes free again.
    pub(super) fn forget(&self, call: &CallId) {
        let mut state = self.state.lock();
        state.holding.remove(call);
        state.rates.forget(call);
        state.again.forget(call);
        let asked = match state.calls.remove(call) {
            Some(CallStage::OnRoad(forgotten)) => Some(forgotten.pattern),
            Some(CallStage::Held | CallStage::Booked | CallStage::Doubted) | None => None,
        };
        state.usage.forget(asked);
        self.count_above(Usage::forget_delegated);
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.idle.notify_waiters();
    }

    /// Stores the stage of a call that left the road recorded or in doubt.
    pub(super) fn leave_road(&self, call: &CallId, place: CallStage, outcome: BudgetOutcome) {
        let mut state = self.state.lock();
        state.holding.remove(call);
        if matches!(place, CallStage::Held) {
            state.held = state.held.saturating_add(1);
        }
        let held = matches!(place, CallStage::Held);
        // The call was refused, or may not be recorded.
        if !held && matches!(outcome, BudgetOutcome::NotRun) || matches!(place, CallStage::Doubted)
        {
            state.again.forget(call);
        }
        let before = state.calls.insert(call.clone(), place);
        if let (true, Some(CallStage::OnRoad(before))) = (held, before) {
            state.held_tools.insert(call.clone(), before.tool);
        }
        state.usage.end(outcome);
        self.count_above(Usage::end_delegated);
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.idle.notify_waiters();
    }

    /// Counts a call that is over; its outcome is not recorded yet.
    pub(super) fn ended(&self, outcome: BudgetOutcome) {
        self.state.lock().usage.end(outcome);
        self.count_above(Usage::end_delegated);
    }

    /// Marks a call that ended as recorded.
    pub(super) fn booked(&self, call: &CallId, place: CallStage) {
        let mut state = self.state.lock();
        state.calls.insert(call.clone(), place);
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.idle.notify_waiters();
    }

    /// Calls of this tool that are held, or were when their client last knew.
    pub(super) fn held_of(&self, tool: &str) -> Vec<CallId> {
        let state = self.state.lock();
        let held = |call: &CallId| matches!(state.calls.get(call), Some(CallStage::Held));
        let now = state.held_tools.iter().filter(|(call, _)| held(call));
        let both: BTreeMap<_, _> = now.chain(&state.taken_up).collect();
        let of = both.into_iter().filter(|(_, of)| of.as_str() == tool);
        of.map(|(call, _)| call.clone()).collect()
    }

    /// Marks a held call as ended without running.
    pub(super) fn unheld(&self, call: &CallId) {
        let mut state = self.state.lock();
        let before = state.calls.insert(call.clone(), CallStage::Booked);
        if matches!(before, Some(CallStage::Held)) {
            state.held = state.held.saturating_sub(1);
        }
        state.held_tools.remove(call);
        state.again.forget(call);
        drop(state);
        self.idle.notify_waiters();
    }

    /// Notes activity in the run.
    pub(super) fn touch(&self, now: Duration) {
        self.state.lock().touched = now;
    }

    /// How long the run has been idle; once that reaches `idle`, closes it in the same step.
    pub(super) fn rest(&self, idle: Duration, now: Duration) -> Rest {
        // WHY before its own lock: children are locked before their parent. A busy child delays the
        // next look by `idle`.
        let busy = self.children().iter().any(|child| child.is_busy());
        let mut state = self.state.lock();
        if state.closing {
            return Rest::Over;
        }
        if state.in_flight > 0 || state.held > 0 {
            return Rest::Busy;
        }
        if busy {
            return Rest::For(idle);
        }
        let left = state.touched.saturating_add(idle).saturating_sub(now);
        if left.is_zero() {
            state.closing = true;
            return Rest::Closed;
        }
        Rest::For(left)
    }

    /// Whether a call of this run or of a run below it is on the road or held.
    fn is_busy(&self) -> bool {
        let busy = {
            let state = self.state.lock();
            state.in_flight > 0 || state.held > 0
        };
        busy || self.children().iter().any(|child| child.is_busy())
    }

    /// Waits until this call is off the road.
    pub(super) async fn off_the_road(&self, call: &CallId) {
        loop {
            let ended = self.idle.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !matches!(self.state.lock().calls.get(call), Some(CallStage::OnRoad(_))) {
                return;
            }
            ended.await;
        }
    }

    /// Waits until no call is on the road.
    pub(super) async fn quiet(&self) {
        loop {
            let ended = self.idle.notified();
            if self.state.lock().in_flight == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Whether this call waits for an approval.
    pub(super) fn is_held(&self, call: &CallId) -> bool {
        matches!(self.state.lock().calls.get(call), Some(CallStage::Held))
    }

    /// The calls that wait for an approval.
    pub(super) fn held(&self) -> Vec<CallId> {
        let state = self.state.lock();
        let held = state.calls.iter().filter(|(_, place)| matches!(place, CallStage::Held));
        held.map(|(call, _)| call.clone()).collect()
    }

    /// Advances the highest `run_seq` released to the run.
    pub(super) fn release(&self, receipt: &Receipt) {
        self.released.fetch_max(receipt.run_seq, Ordering::AcqRel);
    }
}

/// The fault for an id that was used before with other bytes.
pub(super) fn conflict(call: &CallId) -> Fault {
    Fault::of(Code::CallConflict).about(call)
}
