//! Open runs in memory: who may continue them, what they used, which of their calls are in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use super::again::RepeatWindow;
use super::answer::{Answer, Fault};
use super::budget::{self, InTurn};
use super::condition::Condition;
use super::keeping::Keeping;
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
use crate::limits::{Usage, Went};
use crate::policy::input::{AgentFacts, RunFacts};
use crate::tool::Cancel;

/// Names tool and arguments of a call, and says for how long another id is the same call.
pub(super) type CallLikeness = (Digest, Option<Duration>);

/// What an answer in the making looks like to those who wait for it.
pub(super) type PendingAnswer = watch::Receiver<Option<Answer>>;

/// One open run.
pub struct Run {
    pub(super) id: RunId,
    pub(super) manifest: Arc<Manifest>,
    /// The tools that exist for it: of a child, those that exist for its parent too.
    pub(super) grants: Grants,
    /// The run that delegated to it.
    pub(super) parent: Option<Arc<Run>>,
    /// The manifest of the caller that opened it: its own, but for a child that its parent's caller opened.
    pub(super) opener: Arc<Manifest>,
    pub(super) agent: AgentFacts,
    pub(super) auth: CallerAuth,
    pub(super) opened_at: Timestamp,
    pub(super) expires: Option<Timestamp>,
    /// Simulated calls are decided and recorded, and none of them runs.
    pub(super) mode: Mode,
    pub(super) labels: BTreeMap<String, String>,
    /// Nothing of it is stored but commitments.
    pub(super) incognito: bool,
    /// What of it is kept for a replay.
    pub(super) keeping: Keeping,
    /// What it is found by: of an explicit run, the hash of its token.
    pub(super) token: Digest,
    /// One of its calls at a time is walked.
    pub(super) ordered: bool,
    /// Of an implicit run, the thread of work it belongs to.
    pub(super) thread: Option<Digest>,
    pub(super) state: Mutex<RunState>,
    /// Highest `run_seq` of an answer that was released to the run.
    pub(super) released: AtomicU64,
    /// Told whenever a call leaves the road, or comes back to it.
    pub(super) idle: Notify,
    /// Held while an approver's word about a call of the run is heard.
    pub(super) words: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(super) struct RunState {
    pub usage: Usage,
    pub calls: BTreeMap<CallId, CallStage>,
    pub again: RepeatWindow,
    pub in_flight: usize,
    /// Calls that wait for an approval.
    pub held: usize,
    /// Calls on the road that have a place among the held ones.
    pub holding: BTreeSet<CallId>,
    /// The tools of held calls.
    pub held_tools: BTreeMap<CallId, ToolName>,
    /// Calls that were held when the run was taken up after a restart, until somebody asks for the same.
    pub taken_up: BTreeMap<CallId, ToolName>,
    /// When something was last asked of the run, monotonic.
    pub touched: Duration,
    /// No new calls: too many were denied.
    pub suspended: bool,
    /// Denied calls of each tool that the manifest grants.
    pub denied_tools: BTreeMap<ToolName, u64>,
    /// Of an ordered run: told when the call that came last has left the road.
    pub last_in_line: Option<oneshot::Receiver<()>>,
    /// No new calls: the run is being sealed.
    pub closing: bool,
    pub sealed: Option<Sealed>,
    /// Its place among the open runs of all agents.
    pub place: Option<shares::ShareSlot>,
    /// Runs it delegated to.
    pub children: Vec<Weak<Run>>,
}

/// Where a call of the run is.
#[derive(Clone, Debug)]
pub(super) enum CallStage {
    /// On the road, with these bytes.
    OnRoad { fingerprint: Digest, tool: ToolName, answer: PendingAnswer, cancel: Cancel },
    /// On the books, waiting for an approval.
    Held,
    /// On the books.
    Booked,
    /// Its caller was told `ledger.unknown`: it may be on the books, and will never run.
    Doubted,
}

/// A run that was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Entries of the run, `run.opened` and `run.sealed` included.
    pub entries: u64,
    /// Where it is on the books.
    pub receipt: Receipt,
}

/// What admission says about one call.
pub(super) enum Admitted {
    /// New: walk the road.
    New(New),
    /// The same call is on the road: wait with it.
    Join(PendingAnswer),
    /// The books have it, under this id.
    Recall(CallId),
}

/// A call that was counted and begins.
pub(super) struct New {
    /// Where its answer goes.
    pub sender: watch::Sender<Option<Answer>>,
    /// What the limits have against it.
    pub refusals: Vec<LayerReason>,
    pub facts: RunFacts,
    /// Whether somebody asked it to stop.
    pub cancel: Cancel,
    /// Its turn, in an ordered run.
    pub turn: Option<InTurn>,
    /// Its place among the calls of all runs.
    pub slot: shares::ShareSlot,
}

/// How long an open run has had nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// It is sealed, or somebody is sealing it.
    Over,
    /// Calls are on the road or held.
    Busy,
    /// It has this long until it is idle.
    For(Duration),
    /// It was idle for long enough, and is closed to new calls now.
    Closed,
}

impl Run {
    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &RunId {
        &self.id
    }

    /// The agent it runs.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent.id
    }

    /// The seed that ids derive from, if it has one, and when it was opened: what its agent may take for
    /// randomness and time.
    #[must_use]
    pub fn determined(&self) -> Option<(Seed, Timestamp)> {
        self.keeping.seed().map(|seed| (seed, self.keeping.told(self.opened_at)))
    }

    /// The bytes of an id for a call that its agent gave none, if the run has a seed; see `Keeping::call_id`.
    #[must_use]
    pub fn mint(&self, tool: &str, arguments: &[u8]) -> Option<[u8; 16]> {
        self.keeping.call_id(tool, arguments)
    }

    /// Whether it is sealed or being sealed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.lock().closing
    }

    /// Takes up one call: joins it, recalls it, or counts it as new. Without a slot a new one is refused before
    /// anything is counted, and leaves no trace in the run.
    pub(super) fn admit(
        &self,
        asked: &ToolCall,
        (like, slot, condition): (CallLikeness, Option<shares::ShareSlot>, Option<Condition>),
        clock: &dyn Clock,
        attested: &BTreeMap<String, String>,
    ) -> Result<Admitted, Fault> {
        let (call, (fingerprint, window)) = (asked.id(), like);
        let mut state = self.state.lock();
        let now = clock.monotonic();
        state.touched = now;
        let known = state.first(call, like, now);
        match state.calls.get(&known) {
            Some(CallStage::OnRoad { fingerprint: of, answer, .. }) if *of == fingerprint => {
                return Ok(Admitted::Join(answer.clone()));
            }
            Some(CallStage::OnRoad { .. }) => return Err(conflict(call)),
            Some(CallStage::Held | CallStage::Booked | CallStage::Doubted) => {
                return Ok(Admitted::Recall(known));
            }
            None => {}
        }
        if state.closing || self.expires.is_some_and(|expires| expires <= clock.now()) {
            return Err(Fault::new(Code::RunSealed, "the run is sealed").about(call));
        }
        if let Some(condition) = condition {
            return Err(condition.fault().about(call));
        }
        budget::may_enter(self, &state, call)?;
        let slot = slot.ok_or_else(|| budget::no_room(call))?;
        let facts = self.facts(&state.usage, attested);
        let mut refusals = state.usage.begin(&self.manifest.limits, fingerprint, now);
        refusals.extend(self.begin_above(now));
        let (sender, answer) = watch::channel(None);
        let (tool, cancel) = (asked.tool().clone(), Cancel::default());
        let place = CallStage::OnRoad { fingerprint, tool, answer, cancel: cancel.clone() };
        state.calls.insert(call.clone(), place);
        if window.is_some() {
            state.again.note(fingerprint, call, now);
        }
        state.in_flight = state.in_flight.saturating_add(1);
        let turn = self.ordered.then(|| budget::line_up(&mut state));
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
        }
    }

    /// Takes a held call up again. `None` if it is not held, or not any more.
    pub(super) fn take_up(
        &self,
        asked: &ToolCall,
        (fingerprint, slot): (Digest, shares::ShareSlot),
        attested: &BTreeMap<String, String>,
    ) -> Option<New> {
        let call = asked.id();
        let mut state = self.state.lock();
        if !matches!(state.calls.get(call), Some(CallStage::Held)) {
            return None;
        }
        let (sender, answer) = watch::channel(None);
        let (tool, cancel) = (asked.tool().clone(), Cancel::default());
        let place = CallStage::OnRoad { fingerprint, tool, answer, cancel: cancel.clone() };
        state.calls.insert(call.clone(), place);
        state.held = state.held.saturating_sub(1);
        state.in_flight = state.in_flight.saturating_add(1);
        state.usage.take_up();
        self.count_above(Usage::take_up_delegated);
        let turn = self.ordered.then(|| budget::line_up(&mut state));
        let facts = self.facts(&state.usage, attested);
        drop(state);
        self.idle.notify_waiters();
        Some(New { sender, refusals: Vec::new(), facts, cancel, turn, slot })
    }

    /// The call left the road: nothing of it is on the books, so its id is free again.
    pub(super) fn forget(&self, call: &CallId) {
        let mut state = self.state.lock();
        state.holding.remove(call);
        state.again.forget(call);
        let asked = match state.calls.remove(call) {
            Some(CallStage::OnRoad { fingerprint, .. }) => Some(fingerprint),
            Some(CallStage::Held | CallStage::Booked | CallStage::Doubted) | None => None,
        };
        state.usage.forget(asked);
        self.count_above(Usage::forget_delegated);
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.idle.notify_waiters();
    }

    /// The call left the road and is on the books (or in doubt).
    pub(super) fn left(&self, call: &CallId, place: CallStage, went: Went) {
        let mut state = self.state.lock();
        state.holding.remove(call);
        if matches!(place, CallStage::Held) {
            state.held = state.held.saturating_add(1);
        }
        let held = matches!(place, CallStage::Held);
        // It was refused, or nobody knows of it.
        if !held && matches!(went, Went::NotRun) || matches!(place, CallStage::Doubted) {
            state.again.forget(call);
        }
        let before = state.calls.insert(call.clone(), place);
        if let (true, Some(CallStage::OnRoad { tool, .. })) = (held, before) {
            state.held_tools.insert(call.clone(), tool);
        }
        state.usage.end(went);
        self.count_above(Usage::end_delegated);
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.idle.notify_waiters();
    }

    /// A call is over; its outcome is not recorded yet.
    pub(super) fn ended(&self, went: Went) {
        self.state.lock().usage.end(went);
        self.count_above(Usage::end_delegated);
    }

    /// A call that ended is on the books.
    pub(super) fn booked(&self, call: &CallId, place: CallStage) {
        let mut state = self.state.lock();
        state.calls.insert(call.clone(), place);
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.idle.notify_waiters();
    }

    /// Takes a place among the held calls of the run; why there is none. `room`: whether there is some
    /// among those of all runs.
    pub(super) fn hold_place(&self, call: &CallId, most: usize, room: bool) -> Option<LayerReason> {
        let mut state = self.state.lock();
        let held = state.held.saturating_add(state.holding.len());
        if held < most && room {
            state.holding.insert(call.clone());
            return None;
        }
        let message = match room {
            true => {
                format!("{held} calls of this run wait for an approval, no more than {most} may")
            }
            false => "too many calls wait for an approval".to_owned(),
        };
        Some(LayerReason {
            code: Code::LimitExceeded,
            detail: "limit.pending".into(),
            message,
            rule: "approvals.pending".into(),
        })
    }

    /// Calls of this tool that are held, or were when the run was taken up.
    pub(super) fn held_of(&self, tool: &str) -> Vec<CallId> {
        let state = self.state.lock();
        let held = |call: &CallId| matches!(state.calls.get(call), Some(CallStage::Held));
        let now = state.held_tools.iter().filter(|(call, _)| held(call));
        let both: BTreeMap<_, _> = now.chain(&state.taken_up).collect();
        let of = both.into_iter().filter(|(_, of)| of.as_str() == tool);
        of.map(|(call, _)| call.clone()).collect()
    }

    /// A held call ended without running.
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

    /// Something was asked of the run, or ended in it.
    pub(super) fn touch(&self, now: Duration) {
        self.state.lock().touched = now;
    }

    /// How long it has had nothing to do; after `idle` of that it is closed, in the same moment.
    pub(super) fn rest(&self, idle: Duration, now: Duration) -> Rest {
        // WHY: before its own lock. It is looked at again after as long.
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

    /// Whether a call of it, or of a run below it, is on the road or held.
    fn is_busy(&self) -> bool {
        let busy = {
            let state = self.state.lock();
            state.in_flight > 0 || state.held > 0
        };
        busy || self.children().iter().any(|child| child.is_busy())
    }

    /// Waits until this call is not on the road.
    pub(super) async fn off_the_road(&self, call: &CallId) {
        loop {
            let told = self.idle.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if !matches!(self.state.lock().calls.get(call), Some(CallStage::OnRoad { .. })) {
                return;
            }
            told.await;
        }
    }

    /// Waits until no call is on the road.
    pub(super) async fn quiet(&self) {
        loop {
            let told = self.idle.notified();
            if self.state.lock().in_flight == 0 {
                return;
            }
            told.await;
        }
    }

    /// Whether this call waits for an approval.
    pub(super) fn is_held(&self, call: &CallId) -> bool {
        matches!(self.state.lock().calls.get(call), Some(CallStage::Held))
    }

    /// Calls that wait for an approval.
    pub(super) fn held(&self) -> Vec<CallId> {
        let state = self.state.lock();
        let held = state.calls.iter().filter(|(_, place)| matches!(place, CallStage::Held));
        held.map(|(call, _)| call.clone()).collect()
    }

    /// Remembers that this much of the run was released.
    pub(super) fn release(&self, receipt: &Receipt) {
        self.released.fetch_max(receipt.run_seq, Ordering::AcqRel);
    }
}

/// The same id with other bytes.
pub(super) fn conflict(call: &CallId) -> Fault {
    Fault::new(Code::CallConflict, format!("call `{call}` was asked with other bytes")).about(call)
}
