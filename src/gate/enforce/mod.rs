//! The whole road on one screen. Every face calls this and only this.
//!
//! `prepare → judge → commit → run → settle → release`: the five lines are in [`Road::walk`]. The rest of
//! this folder is what surrounds them: open runs (`run`), what callers are told (`answer`), opening,
//! sealing and expiry (`opening`, `implicit`, `life`), what is asked again (`recall`) or no longer
//! wanted (`cancel`), and the summary of what never got this far (`rejected`).

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use tokio::sync::{RwLock, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

pub use agents::Change;
pub use amend::{Amender, Basis, BasisKind};
pub use answer::{Answer, Fault, Released};
pub use approve::{Checker, Counts, Heard, Parties, Readying, Refused, Said};
pub use backends::Backend;
pub use budget::Bounds;
pub use canary::{CANARY_TOOL, Canary};
pub use control::{Breaker, Follow, Releaser, Told};
pub use delegate::ParentClaim;
pub use implicit::Thread;
pub use modify::{Modified, Other};
pub use opening::{Opened, Opening};
pub use posture::{Challenge, Isolation, Observed, Probe, Report};
pub use prologue::{Fork, Line, Prologue, Recordings};
pub use rehearsal::{Cast, Cue, Entrance, Rehearsal, Told as Recorded};
pub use run::{Run, Sealed};
pub use settings::{Parts, Settings};
pub use tools::ToolView;

use crate::approval::proposal::Proposer;
use crate::clock::{Clock, Entropy};
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::{Course, Reason};
use crate::domain::digest::Salt;
use crate::domain::time::Timestamp;
use crate::identity::manifest::Mode;
use crate::identity::token::RunTokens;
use crate::identity::{IdentityError, Peer};
use crate::judge::Resumed;
use crate::ledger::permit::{Committed, Finished};
use crate::ledger::{self, Ledger, Pending};
use crate::limits::Went;
use crate::limits::shares::{self, Shares};
use crate::policy::PolicyEngine;
use crate::policy::input::RunFacts;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::{Stage, trace};
use crate::tool::toolbox::{self, Toolbox};
use crate::tool::{self, Cancel, ToolExecutor};
use agents::Agents;
use budget::{Budget, InTurn, Spending, went};
use callers::Callers;
use condition::Condition;
use control::Control;
use decided::DecisionLine;
use docket::Docket;
use implicit::Threads;
use large::Large;
use rejected::Rejected;
use run::{Admitted, New, Place, Waiting};
use runs::Runs;
use undecided::{Undecided, became};

mod again;
mod agents;
mod amend;
mod answer;
mod approve;
mod asked;
mod backends;
mod batch;
mod budget;
mod callers;
mod canary;
mod cancel;
mod condition;
mod control;
mod decided;
mod delegate;
mod docket;
mod implicit;
mod judging;
mod keeping;
mod large;
mod life;
mod lineage;
mod modify;
mod opened;
mod opening;
pub mod posture;
mod prologue;
mod recall;
mod rehearsal;
mod rejected;
mod resume;
mod run;
mod runs;
mod settings;
mod tools;
mod undecided;

/// One request to run a tool, not yet admitted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallRequest {
    /// The tool.
    pub tool: String,
    /// UTF-8 JSON.
    pub arguments: Vec<u8>,
    /// The agent's id for the call; empty means minted and no idempotency.
    pub call_id: String,
    /// W3C trace context from the caller.
    pub traceparent: Option<String>,
}

type Engine = Option<Arc<dyn PolicyEngine>>;

/// The gate: the one way to a tool.
pub struct Road {
    settings: Settings,
    ledger: Ledger,
    /// A call keeps the one it was prepared with.
    toolbox: ArcSwap<Toolbox>,
    /// Counts toolboxes that show agents something else than the one before.
    toolbox_version: watch::Sender<u64>,
    tokens: Arc<RunTokens>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
    engine: ArcSwap<Engine>,
    /// Whose approvals count; nobody's while there is none.
    checker: ArcSwap<Option<Arc<dyn Checker>>>,
    /// Whose break-glass statements hold; nobody's while there is none.
    breaker: ArcSwap<Option<Arc<dyn Breaker>>>,
    docket: Docket,
    /// The recording that is replayed, if one is.
    rehearsal: OnceLock<Arc<dyn Rehearsal>>,
    /// The recording that one run goes on from, if one does.
    prologue: OnceLock<Arc<dyn Prologue>>,
    recordings: OnceLock<Arc<dyn Recordings>>,
    /// Read while a decision is made and queued, written while a bundle is activated: a decision
    /// stands before the activation in the ledger if and only if it was made by the old bundle.
    turn: RwLock<()>,
    runs: Runs,
    /// Places of open runs.
    places: Arc<Shares>,
    /// Those that are configured.
    agents: ArcSwap<Agents>,
    threads: Threads,
    rejected: Rejected,
    large: Large,
    control: Control,
    /// Whether the gate passes its own test.
    canary: canary::Trust,
    /// What agents found of ways past the gate.
    posture: posture::Postures,
    budget: Budget,
    callers: Callers,
    slots: Arc<Shares>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Keeps fingerprints of arguments in memory from being guessable outside this process.
    salt: Salt,
}

impl std::fmt::Debug for Road {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Road").field("runs", &self.runs.len()).finish_non_exhaustive()
    }
}

/// Whoever wants to know what comes of a call that is judged again.
type Listener = oneshot::Sender<&'static str>;

/// One admitted call with everything it is judged by.
struct Trip {
    run: Arc<Run>,
    call: ToolCall,
    refusals: Vec<Reason>,
    facts: RunFacts,
    cancel: Cancel,
    span: Span,
    /// The hold it is under, if it was held before.
    resumed: Option<Held>,
    /// The approver who wrote its arguments, if the agent did not.
    asked_by: Option<Arc<Proposer>>,
}

/// What a call that is judged again was held with.
struct Held {
    resumed: Resumed,
    /// When the hold ends.
    ends: Timestamp,
    /// Who wants to know what comes of it.
    tell: Listener,
}

/// A decision on its way to the books, and the executor that prepared its call.
struct Decided {
    pending: Pending<Committed>,
    executor: Option<Arc<dyn ToolExecutor>>,
    spending: Spending,
    line: DecisionLine,
}

impl Road {
    /// The run this token belongs to, if this peer may use it. A sealed run is found too.
    ///
    /// # Errors
    /// `identity.missing`, `run.unknown`.
    pub fn find_run(&self, peer: &Peer, token: &str) -> Result<Arc<Run>, Fault> {
        let hash = self.tokens.hash(token).ok_or(IdentityError::Unknown)?;
        self.runs.find(&hash, &peer.auth("run", None))
    }

    /// Walks one call down the road. The work goes on if the caller hangs up.
    ///
    /// # Errors
    /// Everything that is no result.
    pub async fn execute(self: &Arc<Self>, run: &Arc<Run>, request: CallRequest) -> Answer {
        match self.admit(run, request) {
            Ok(Entry::Wait(waiting)) => self.wait(run, waiting).await,
            Ok(Entry::Recall(call)) => self.recall(run, &call).await,
            Ok(Entry::Told(answer)) => self.give(run, *answer),
            Err(fault) => {
                if fault.receipt.is_none() {
                    self.reject(fault.code);
                }
                Err(fault)
            }
        }
    }

    /// Counts a request that was refused before it was admitted; summaries go on the books.
    pub fn reject(&self, code: Code) {
        self.metrics.rejected(code.as_str());
        self.rejected.count(code, self.clock.now());
    }

    fn admit(self: &Arc<Self>, run: &Arc<Run>, request: CallRequest) -> Result<Entry, Fault> {
        if self.stop.is_cancelled() {
            return Err(Condition::Draining.fault());
        }
        self.pace(&run.opener.name, &run.auth)?;
        let call = self.decode(run, request)?;
        let slot = self.slots.take(self.agents.load().count(), &run.opener.name);
        let window = self.dedupe(run, &call);
        match self.enter(run, call, (slot, window))? {
            Entered::Known(entry) => Ok(entry),
            Entered::Ready(ready) => {
                let waiting = ready.sender.subscribe();
                self.set_out(*ready);
                Ok(Entry::Wait(waiting))
            }
        }
    }

    /// Counts a call as one of its run, unless it is known already. Whoever asked for this sets it out.
    fn enter(
        &self,
        run: &Arc<Run>,
        call: ToolCall,
        (slot, window): (Option<shares::Place>, Option<Duration>),
    ) -> Result<Entered, Fault> {
        self.may_go_on(run, &call)?;
        self.may_ask(run, &call)?;
        let condition = self.condition_of(run, call.tool(), &self.toolbox.load());
        // What the gate is not fit to decide it does not answer from a recording either.
        let recorded = if condition.is_none() { self.prologue(run, &call) } else { None };
        let drifted = match recorded {
            Some(Ok(answer)) => return Ok(Entered::Known(Entry::Told(Box::new(answer)))),
            Some(Err(drift)) => Some(drift),
            None => None,
        };
        let (attested, fingerprint) = (&self.settings.attested, self.fingerprint(&call));
        let entering = ((fingerprint, window), slot, condition);
        let admitted = run.admit(&call, entering, &*self.clock, attested)?;
        let New { sender, mut refusals, facts, cancel, turn, slot } = match admitted {
            Admitted::Join(waiting) => return Ok(Entered::Known(Entry::Wait(waiting))),
            Admitted::Recall(id) => return Ok(Entered::Known(Entry::Recall(call.under(id)))),
            Admitted::New(new) => new,
        };
        refusals.extend(drifted);
        let (run, span) = (Arc::clone(run), call_span(run, &call));
        let trip = Trip { run, call, refusals, facts, cancel, span, resumed: None, asked_by: None };
        Ok(Entered::Ready(Box::new(Ready { trip, sender, slot, turn })))
    }

    /// Walks on a task of its own: the work goes on if whoever asked hangs up.
    fn set_out(self: &Arc<Self>, ready: Ready) {
        let Ready { trip, sender, slot, turn } = ready;
        let (road, span) = (Arc::clone(self), trip.span.clone());
        let walking = async move {
            let _counted = road.metrics.in_flight();
            let (run, id) = (Arc::clone(&trip.run), trip.call.id().clone());
            let walking = Box::pin(road.walk_in_turn(trip, (slot, turn), &sender));
            let walking = AssertUnwindSafe(walking).catch_unwind();
            if walking.await.is_err() {
                // WHY: a panic on the road (an executor's `prepare`) must not leave the run with a
                // call that never ends; dropping `sender` tells whoever waits.
                run.left(&id, Place::Booked, Went::Wrong);
            }
        };
        self.tasks.spawn(walking.instrument(span));
    }

    /// The road. Whatever leaves it is on the books, or nothing happened.
    async fn walk(self: &Arc<Self>, mut trip: Trip, caller: &watch::Sender<Option<Answer>>) {
        let (run, span, cancel) = (Arc::clone(&trip.run), trip.span.clone(), trip.cancel.clone());
        let (id, tool) = (trip.call.id().clone(), trip.call.tool().clone());
        let (held, own) = (trip.resumed.take(), trip.asked_by.is_none());
        let (held, told) = held.map(|Held { resumed, ends, tell }| ((resumed, ends), tell)).unzip();
        let again = told.is_some();
        let (committed, executor, spending) = match self.decide(trip, held).await {
            Ok(Decided { pending, executor, spending, line }) => {
                let committed = self.timed(&span, Stage::Commit, pending.wait()).await;
                if let Ok(made) = &committed {
                    self.made(line, made, &run, (&id, &tool), &span);
                }
                (committed.map_err(Undecided::Ledger), executor, Some(spending))
            }
            Err(undecided) => (Err(undecided), None, None),
        };
        let _ = told.map(|told| told.send(became(&committed)));
        // Before anybody is answered: who asks again at once finds what this call did not need.
        let spending = spending.filter(|_| matches!(committed, Ok(Committed::Permit(_))));
        match committed {
            Ok(Committed::Permit(permit)) => {
                let mcp = permit.prepared().tool().is_some_and(|tool| tool.kind == "mcp");
                let finished = match executor {
                    _ if run.mode == Mode::Simulate => permit.simulated(),
                    Some(executor) => {
                        // WHY: an order may have come between the decision and here.
                        if self.is_stopped(&run, &tool) {
                            cancel.cancel(tool::STOPPED);
                        }
                        let mut spending = spending;
                        spending.iter_mut().for_each(Spending::start);
                        let running = tool::run(&executor, &*self.clock, permit, &cancel);
                        let finished = self.timed(&span, Stage::Tool, running).await;
                        let (ended, observed) = (finished.ended(), finished.observed());
                        spending.into_iter().for_each(|spending| spending.end(ended, observed));
                        finished
                    }
                    None => permit.not_started(),
                };
                self.metrics.outcome(tool.as_str(), finished.ended().outcome.word());
                self.played(&run.id, &id, Some(&finished.ended().outcome));
                let went = went(&finished.ended().outcome, mcp);
                let settling = self.settle(&run, finished, went, caller);
                self.timed(&span, Stage::Settle, settling).await;
            }
            Ok(Committed::Refusal(refusal)) => {
                run.left(&id, Place::Booked, Went::NotRun);
                self.turned_down(&run, (&id, &tool), refusal.alarm(), own);
                caller.send_replace(Some(Err(Fault::from(&refusal))));
            }
            Ok(Committed::Held(held)) => {
                run.left(&id, Place::Held, Went::NotRun);
                self.watch_hold(&run, &id, held.expires());
                if cancel.is_cancelled() {
                    self.cancel_held(&run, &id, cancel.why());
                }
                caller.send_replace(Some(Err(Fault::from(&held))));
            }
            Err(undecided) if again => {
                self.unresumed(&run, (&id, &cancel), &undecided, caller).await;
            }
            Err(undecided) => self.uncommitted(&run, &id, &undecided, caller),
        }
        self.played(&run.id, &id, None);
        if let Some(Err(fault)) = &*caller.borrow() {
            trace::error(&span, fault.code.as_str());
        }
    }

    /// One stage of the road in its own span, its time counted.
    async fn timed<F: Future>(&self, span: &Span, stage: Stage, work: F) -> F::Output {
        let started = self.clock.monotonic();
        let done = work.instrument(trace::stage_span(span, stage)).await;
        self.metrics.stage(stage, self.clock.monotonic().saturating_sub(started));
        done
    }

    /// Prepares and judges, and queues the decision while no bundle can be swapped in between.
    async fn decide(
        self: &Arc<Self>,
        mut trip: Trip,
        held: Option<(Resumed, Timestamp)>,
    ) -> Result<Decided, Undecided> {
        let _turn = self.turn.read().await;
        let toolbox = self.toolbox.load_full();
        let (run, tool) = (Arc::clone(&trip.run), trip.call.tool().clone());
        let fit = || match self.condition_of(&run, &tool, &toolbox) {
            None | Some(Condition::Draining) => Ok(()),
            Some(condition) => Err(Undecided::Gate(condition)),
        };
        fit()?;
        let spending = self.reserve(&mut trip, &toolbox).await.map_err(Undecided::Ledger)?;
        let executor = toolbox::executor(&toolbox, trip.call.tool());
        let cancel = trip.cancel.clone();
        let (resumed, ends) = held.unzip();
        let judged = self.judge(trip, resumed, &toolbox).await;
        // What an operator stops is denied, and that is on the books.
        if cancel.is_cancelled() && !cancel.is_ordered() {
            return Err(Undecided::Cancelled);
        }
        // WHY: it may have waited for its turn since it was approved, and no approval counts after the hold's end.
        let late = ends.is_some_and(|ends| ends <= self.clock.now());
        let course = judged.decision().course();
        if ends.is_some() && (course == Course::Wait || late && course == Course::Run) {
            return Err(Undecided::StillHeld);
        }
        // WHY: again, for judging takes time: what the gate is not fit to decide is neither run nor denied.
        fit()?;
        let line = DecisionLine::of(judged.decision());
        let pending = self.ledger.submit(judged).await.map_err(Undecided::Ledger)?;
        Ok(Decided { pending, executor, spending, line })
    }

    /// Puts the outcome on the books, for as long as it takes; the caller is answered in time.
    async fn settle(
        &self,
        run: &Run,
        finished: Finished,
        went: Went,
        caller: &watch::Sender<Option<Answer>>,
    ) {
        run.not_again(finished.call(), &finished.ended().outcome);
        let Some(finished) = self.settle_later(run, finished, went, caller).await else { return };
        let call = finished.call().clone();
        let id = &call;
        let settling = self.ledger.settle(finished);
        tokio::pin!(settling);
        let settled = match tokio::time::timeout(self.settings.settle_wait, &mut settling).await {
            Ok(settled) => settled,
            Err(_late) => {
                caller.send_replace(Some(Err(answer::unknown_for_now(id))));
                settling.await
            }
        };
        run.left(id, Place::Booked, went);
        let told = caller.borrow().is_some();
        match settled {
            Ok(settled) => {
                let answer = answer::of_settled(settled);
                if let Ok(released) = &answer {
                    self.large.keep(run.id(), run.incognito, released);
                }
                if !told {
                    caller.send_replace(Some(answer));
                }
            }
            Err(_) if !told => {
                caller.send_replace(Some(Err(answer::unknown_for_now(id))));
            }
            Err(_) => {}
        }
    }
}

fn call_span(run: &Run, call: &ToolCall) -> Span {
    let run_id = run.id().to_string();
    trace::call_span(&trace::Call {
        tool: call.tool().as_str(),
        call: call.id().as_str(),
        agent: run.agent(),
        run: &run_id,
        traceparent: call.traceparent(),
    })
}

/// A counted call that has not set out.
struct Ready {
    trip: Trip,
    sender: watch::Sender<Option<Answer>>,
    slot: shares::Place,
    turn: Option<InTurn>,
}

/// What `enter` made of a call.
enum Entered {
    Ready(Box<Ready>),
    Known(Entry),
}

/// What `admit` made of a request.
enum Entry {
    Wait(Waiting),
    Recall(ToolCall),
    Told(Box<Answer>),
}
