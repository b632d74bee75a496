//! The whole road on one screen. Every face calls this module and no other.
//!
//! `admit → judge → commit → run → settle`: `Road::walk`. One value ([`Parts`]) builds all parts of the road;
//! each part has a file: the rules in force (`in_force`), open runs (`runs`), rates and pools (`budget`), held
//! calls (`holds`), operators' orders (`control`) and recordings (`replaying`). The other files surround the steps:
//! opening, sealing and expiry (`opening`, `implicit`, `life`), repeated requests (`recall`), cancellation
//! (`cancel`), and answers to callers (`answer`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tracing::{Instrument as _, Span};

pub use agents::{Agents, AgentsUpdate};
pub use amend::{Amender, Basis, BasisKind};
pub use answer::{Answer, Fault, Released};
pub use approve::{ApproverStatement, CallParties, Checker, CountedApproval, Parties, Readying};
pub use asking::{ModelFault, ModelReply, ModelRequest, OfferedModel};
pub use awaiting::AskUnderway;
pub use backends::Backend;
pub use budget::Bounds;
pub use canary::{CANARY_TOOL, Canary};
pub use control::{Backlog, Breaker, Commands, Control, Follow, Releaser, StateReporter, Stops};
pub use delegate::ParentClaim;
pub use flowing::{FlowPart, Flowing};
pub use follow::{AnswerProgress, Follower, Milestone};
pub use fork::{Fork, ForkPrefix, RecordedAnswer, RecordedLabels, Recordings};
pub use holds::Signers;
pub use implicit::Thread;
pub use in_force::Policy;
pub use managed::{ManagedStep, ManagedTerms, ManagedTool, OfferedNames, StepView, ToolStep};
pub use modify::{Modified, Other};
pub use opening::{OpenedRun, Opening};
pub use posture::{Challenge, Isolation, Observed, PostureReport, Probe};
pub use replay_session::{
    RecordedAgent, RecordedOpening, RecordedRunFacts as Recorded, RecordedStep, ReplaySession,
};
pub use replaying::Replaying;
pub use request::CallRequest;
pub use run::{Run, Sealed};
pub use run_view::RunView;
pub use settings::{FlowSettings, Parts, Settings};
pub use tools::ToolView;
pub use words::{ModelWords, without_receipts};

use crate::clock::{Clock, Entropy};
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::Course;
use crate::domain::time::Timestamp;
use crate::identity::manifest::Mode;
use crate::identity::{IdentityError, Peer};
use crate::judge::Resumed;
use crate::ledger::flow::FlowSender;
use crate::ledger::permit::{Committed, Finished, Permit};
use crate::ledger::{self, Ledger};
use crate::limits::{BudgetOutcome, shares};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::{Stage, trace};
use crate::tool;
use crate::tool::toolbox;
use budget::{Budget, budget_outcome};
use condition::Condition;
use conversations::SentMessages;
use decided::DecisionLine;
use holds::Holds;
use in_force::InForce;
use run::{Admitted, CallStage, New};
use runs::Runs;
use tasks::Tasks;
use trip::{
    AdmittedCall, CallExtras, Entered, Entry, Means, Passage, QueuedDecision, ResumedHold, Trip,
    call_span,
};
use undecided::{Undecided, decision_name};

mod again;
mod agents;
mod amend;
mod answer;
mod approve;
mod ask_facts;
mod asking;
mod awaiting;
mod backends;
mod batch;
mod budget;
mod bypassed;
mod callers;
mod canary;
mod cancel;
mod condition;
mod control;
mod conversations;
mod decided;
mod delegate;
mod denied_asks;
mod denied_before;
mod evaluation;
mod flowing;
mod follow;
mod fork;
mod given;
mod hold_turns;
mod holds;
mod implicit;
mod in_force;
mod judging;
mod keeping;
mod large;
mod life;
mod likeness;
mod lineage;
mod listening;
mod managed;
mod modify;
mod opened;
mod opening;
pub mod posture;
mod proposals;
mod rates;
mod read_back;
mod recall;
mod rejected;
mod replay_session;
mod replaying;
mod request;
mod resume;
mod run;
mod run_view;
mod runs;
mod searched;
mod settings;
mod shown;
mod sight;
mod taint;
mod tasks;
mod tools;
mod trip;
mod undecided;
mod words;

/// The gate: the one way to a tool. `Road::walk` is its five steps; each part has a file.
pub struct Road {
    settings: Settings,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
    in_force: InForce,
    runs: Runs,
    budget: Budget,
    holds: Holds,
    control: Control,
    replaying: Replaying,
    tasks: Tasks,
}

impl std::fmt::Debug for Road {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Road").field("runs", &self.runs.len()).finish_non_exhaustive()
    }
}

impl Road {
    /// The run of this token, if this peer may use it. Finds sealed runs too.
    ///
    /// # Errors
    /// `identity.missing`, `run.unknown`.
    pub fn find_run(&self, peer: &Peer, token: &str) -> Result<Arc<Run>, Fault> {
        let hash = self.runs.tokens.hash(token).ok_or(IdentityError::Unknown)?;
        self.runs.find(&hash, &peer.auth("run", None))
    }

    /// Takes one call down the road. The work continues if the caller disconnects.
    ///
    /// # Errors
    /// A fault for everything that is not a result.
    pub async fn execute(self: &Arc<Self>, run: &Arc<Run>, request: CallRequest) -> Answer {
        let entry = self.admit(run, request);
        self.answered(run, entry).await
    }

    /// Waits for the answer of an admitted call.
    async fn answered(self: &Arc<Self>, run: &Arc<Run>, entry: Result<Entry, Fault>) -> Answer {
        match entry {
            Ok(Entry::Wait(listening)) => {
                let answer = run.wait(listening.answer()).await;
                listening.end();
                answer
            }
            Ok(Entry::Recall(call)) => self.recall(run, &call).await,
            Ok(Entry::Answered(answer)) => run.give(*answer),
            Err(fault) => {
                if fault.receipt.is_none() {
                    self.budget.reject(fault.code);
                }
                Err(fault)
            }
        }
    }

    /// Counts a request that was refused before admission; a summary is recorded periodically.
    pub fn reject(&self, code: Code) {
        self.budget.reject(code);
    }

    fn admit(self: &Arc<Self>, run: &Arc<Run>, request: CallRequest) -> Result<Entry, Fault> {
        if self.tasks.is_stopping() {
            return Err(Condition::Draining.fault());
        }
        self.budget.pace(&run.opener.name, &run.auth)?;
        let call = self.decode(run, request)?;
        self.set_off(run, call, CallExtras { spends: true, ..CallExtras::default() })
    }

    /// Counts a call in its run and starts it; of a known call, returns the way to its answer.
    fn set_off(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: ToolCall,
        extras: CallExtras,
    ) -> Result<Entry, Fault> {
        let slot = self.runs.slots(&call).take(self.in_force.agents(), &run.opener.name);
        let window = self.dedupe(run, &call);
        match self.enter(run, call, (slot, window), extras)? {
            Entered::Known(entry) => Ok(entry),
            Entered::Ready(ready) => {
                let id = ready.trip.call.id().clone();
                // A call that has not set out is on the road.
                let listening = run.listen(&id);
                self.set_out(*ready);
                listening.map(Entry::Wait).ok_or_else(|| answer::unknown_for_now(&id))
            }
        }
    }

    /// Counts a new call in its run; `set_out` then starts it. For a known call, returns the way to
    /// its answer.
    fn enter(
        &self,
        run: &Arc<Run>,
        call: ToolCall,
        (slot, window): (Option<shares::ShareSlot>, Option<Duration>),
        extras: CallExtras,
    ) -> Result<Entered, Fault> {
        let like = self.runs.likeness(&call, window);
        if extras.spends {
            run.models.governed.lock().come(like.fingerprint);
        }
        self.budget.may_go_on(run, &call)?;
        self.budget.check_tool_denials(run, &call)?;
        let condition = self.condition_of(run, call.tool(), &self.in_force.toolbox());
        let is_draining = |condition: &Condition| matches!(condition, Condition::Draining);
        let condition = condition.filter(|now| !(call.is_of_gate() && is_draining(now)));
        // A gate that cannot decide a call does not answer it from a recording either.
        let recorded = if condition.is_none() { self.answer_from_fork(run, &call) } else { None };
        let drifted = match recorded {
            Some(Ok(answer)) => return Ok(Entered::Known(Entry::Answered(Box::new(answer)))),
            Some(Err(drift)) => Some(drift),
            None => None,
        };
        let entering = (like, slot, condition);
        let admitted = run.admit(&call, entering, &*self.clock, &self.settings.attested)?;
        let New { sender, mut refusals, facts, cancel, turn, slot } = match admitted {
            Admitted::Join(listening) => return Ok(Entered::Known(Entry::Wait(listening))),
            Admitted::Other(at) => return self.join(&call, &at),
            Admitted::Recall(id) => return Ok(Entered::Known(Entry::Recall(call.under(id)))),
            Admitted::New(new) => new,
        };
        refusals.extend(drifted);
        let CallExtras { refusals: against, sight, flow, spends } = extras;
        // WHY only now: a request that was not admitted, or that repeats a call, spends nothing.
        let sight = if spends { self.sight(run, &like.fingerprint) } else { sight };
        if sight.asks.is_some() {
            run.models.refused(&against);
        }
        refusals.extend(against);
        let (run, span) = (Arc::clone(run), call_span(run, &call));
        let (resumed, asked_by) = (None, None);
        let trip =
            Trip { run, call, refusals, facts, cancel, span, resumed, asked_by, sight, flow };
        Ok(Entered::Ready(Box::new(AdmittedCall { trip, sender, slot, turn })))
    }

    /// Runs the call on a task of its own, so that the work continues if the caller disconnects.
    fn set_out(self: &Arc<Self>, ready: AdmittedCall) {
        let AdmittedCall { trip, sender, slot, turn } = ready;
        let (road, span) = (Arc::clone(self), trip.span.clone());
        let walking = async move {
            let _counted = road.metrics.in_flight();
            let (run, id) = (Arc::clone(&trip.run), trip.call.id().clone());
            let walking = Box::pin(road.walk_in_turn(trip, (slot, turn), &sender));
            let walking = AssertUnwindSafe(walking).catch_unwind();
            if walking.await.is_err() {
                // WHY: a panic on the road (an executor's `prepare`) must not leave a call in the
                // run that never ends. Dropping `sender` wakes the waiting callers.
                run.leave_road(&id, CallStage::Booked, BudgetOutcome::Wrong);
            }
        };
        self.tasks.spawn(walking.instrument(span));
    }

    /// The road. A call that leaves it is recorded, or has had no effect.
    async fn walk(self: &Arc<Self>, mut trip: Trip, caller: &watch::Sender<Option<Answer>>) {
        let (held, listener) = trip.resumed.take().map(ResumedHold::split).unzip();
        let (at, own, flow) = (Passage::of(&trip), trip.asked_by.is_none(), trip.flow.take());
        // WHY boxed: the facts of a run make it larger than futures may be.
        let committed = match Box::pin(self.decide(trip, held)).await {
            Ok(decided) => self.commit(&at, decided).await,
            Err(undecided) => Err(undecided),
        };
        let again = listener.map(|listener| listener.send(decision_name(&committed))).is_some();
        let (run, id) = (&at.run, &at.id);
        match committed {
            Ok((Committed::Permit(permit), means)) => {
                run.permitted(id);
                let checking = self.checking(&at, &permit);
                let ended = self.run(&at, permit, means, flow).await;
                let (finished, outcome) = match checking {
                    Some(checking) => self.checked(&at, checking, ended).await,
                    None => ended,
                };
                let settling = self.settle(run, finished, outcome, caller);
                self.timed(&at.span, Stage::Settle, settling).await;
            }
            // WHY the means are dropped before the caller is answered: an immediate next request
            // finds the budget that this call did not use.
            Ok((Committed::Refusal(refusal), _)) => {
                run.leave_road(id, CallStage::Booked, BudgetOutcome::NotRun);
                self.budget.turned_down(run, (id, &at.tool), refusal.alarm(), own);
                caller.send_replace(Some(Err(Fault::from(&refusal))));
            }
            Ok((Committed::Held(held), _)) => {
                run.leave_road(id, CallStage::Held, BudgetOutcome::NotRun);
                self.holds.watch(run, id, held.expires());
                if at.cancel.ends_a_hold() {
                    drop(self.holds.stop(run, id, at.cancel.why()));
                }
                caller.send_replace(Some(Err(Fault::from(&held))));
            }
            Err(undecided) if again => {
                self.unresumed(run, (id, &at.cancel), &undecided, caller).await;
            }
            Err(undecided) => self.uncommitted(run, id, &undecided, caller),
        }
        self.replaying.over(&run.id, id, None);
        if let Some(Err(fault)) = &*caller.borrow() {
            trace::error(&at.span, fault.code.as_str());
        }
    }

    /// Runs one stage of the road in its own span and measures its time.
    async fn timed<F: Future>(&self, span: &Span, stage: Stage, work: F) -> F::Output {
        let started = self.clock.monotonic();
        let done = work.instrument(trace::stage_span(span, stage)).await;
        self.metrics.stage(stage, self.clock.monotonic().saturating_sub(started));
        done
    }

    /// Prepares and judges a call, and queues the decision. The rules in force cannot be replaced
    /// in between.
    async fn decide(
        self: &Arc<Self>,
        mut trip: Trip,
        held: Option<(Resumed, Timestamp)>,
    ) -> Result<QueuedDecision, Undecided> {
        let _order = self.in_force.deciding().await;
        let toolbox = self.in_force.toolbox();
        let (run, tool) = (Arc::clone(&trip.run), trip.call.tool().clone());
        let fit = || match self.condition_of(&run, &tool, &toolbox) {
            None | Some(Condition::Draining) => Ok(()),
            Some(condition) => Err(Undecided::Gate(condition)),
        };
        fit()?;
        let spending = self.budget.reserve(&mut trip, &toolbox).await.map_err(Undecided::Ledger)?;
        let executor = toolbox::executor(&toolbox, trip.call.tool());
        let cancel = trip.cancel.clone();
        let (resumed, ends) = held.unzip();
        let judged = self.judge(trip, resumed, &toolbox).await;
        // A call that an operator stops is denied, and the denial is recorded.
        if cancel.is_cancelled() && !cancel.is_ordered() {
            return Err(Undecided::Cancelled);
        }
        // WHY: the call may have waited for its turn since it was approved, and no approval counts
        // after the end of the hold.
        let late = ends.is_some_and(|ends| ends <= self.clock.now());
        let course = judged.decision().course();
        if ends.is_some() && (course == Course::Wait || late && course == Course::Run) {
            return Err(Undecided::StillHeld);
        }
        // WHY again: judging takes time, and a gate that cannot decide must neither run nor deny
        // the call.
        fit()?;
        let line = DecisionLine::of(judged.decision());
        let messages = SentMessages::of(&judged);
        let pending = self.ledger.submit(judged).await.map_err(Undecided::Ledger)?;
        Ok(QueuedDecision { pending, means: Means { executor, spending }, line, messages })
    }

    /// Waits until the decision is durable. Drops the means of a call that is not permitted, which
    /// returns its reservation.
    async fn commit(
        &self,
        at: &Passage,
        decided: QueuedDecision,
    ) -> Result<(Committed, Option<Means>), Undecided> {
        let QueuedDecision { pending, means, line, messages } = decided;
        let committed = self.timed(&at.span, Stage::Commit, pending.wait()).await;
        let committed = committed.map_err(Undecided::Ledger)?;
        if let Some(messages) = messages {
            at.run.models.conversations.lock().remember(messages);
        }
        self.made(line, &committed, &at.run, (&at.id, &at.tool), &at.span);
        let permitted = matches!(committed, Committed::Permit(_));
        Ok((committed, permitted.then_some(means)))
    }

    /// Spends the permit: runs the tool, unless the call is simulated or stopped.
    async fn run(
        &self,
        at: &Passage,
        mut permit: Permit,
        means: Option<Means>,
        flow: Option<FlowSender>,
    ) -> (Finished, BudgetOutcome) {
        let mcp = permit.prepared().tool().is_some_and(|tool| tool.kind == "mcp");
        let finished = match means {
            _ if at.run.mode == Mode::Simulate => permit.simulated(),
            Some(Means { executor: Some(executor), mut spending }) => {
                // WHY: an order may have arrived since the decision.
                if self.is_stopped(&at.run, permit.prepared()) {
                    at.cancel.cancel(tool::STOPPED);
                }
                permit.spare(self.off_upstreams(permit.prepared()));
                spending.start();
                let with = (&at.cancel, flow);
                let running = tool::run(&executor, &*self.clock, permit, with);
                let finished = self.timed(&at.span, Stage::Tool, running).await;
                spending.end(finished.ended(), finished.observed());
                finished
            }
            Some(Means { executor: None, .. }) | None => permit.not_started(),
        };
        let outcome = &finished.ended().outcome;
        self.looked_through(at, &finished);
        self.metrics.outcome(at.tool.as_str(), outcome.as_str());
        if let Some(usage) = &finished.observed().usage {
            self.metrics.model_tokens(at.tool.as_str(), usage.input_tokens, usage.output_tokens);
        }
        self.replaying.over(&at.run.id, &at.id, Some(outcome));
        let charged = budget_outcome(outcome, mcp);
        (finished, charged)
    }

    /// Records the outcome, for as long as that takes; the caller is answered in time.
    async fn settle(
        &self,
        run: &Run,
        finished: Finished,
        outcome: BudgetOutcome,
        caller: &watch::Sender<Option<Answer>>,
    ) {
        run.not_again(finished.call(), &finished.ended().outcome);
        let Some(finished) = self.settle_later(run, finished, outcome, caller).await else {
            return;
        };
        let id = &finished.call().clone();
        let unknown = || caller.send_replace(Some(Err(answer::unknown_for_now(id))));
        let mut settling = std::pin::pin!(self.bring_and_settle(run, finished));
        // WHY lazily, and after the first look: what is computed of a large answer is no wait for the ledger.
        let late = async { tokio::time::sleep(self.settings.settle_wait).await };
        let settled = tokio::select! {
            biased;
            settled = &mut settling => settled,
            () = late => { unknown(); settling.await }
        };
        run.leave_road(id, CallStage::Booked, outcome);
        let answered = caller.borrow().is_some();
        match settled {
            Ok(settled) => {
                let unstored = run.incognito || settled.withholds();
                let answer = answer::of_settled(settled);
                if let Ok(released) = &answer {
                    self.runs.large.keep(run.id(), unstored, released);
                }
                if !answered {
                    caller.send_replace(Some(answer));
                }
            }
            Err(_) if !answered => drop(unknown()),
            Err(_) => {}
        }
    }
}
