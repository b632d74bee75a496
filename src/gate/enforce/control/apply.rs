//! Applies an order to calls on the road, and reports truthfully what it did.
//!
//! `Revoke` and `Kill` reach calls in every state. An undecided call is denied. A permitted call
//! that has not begun ends cancelled. A running call ends cancelled if its tool only reads, and
//! unknown otherwise. A held call ends cancelled. The report lists the calls that have not ended
//! within the bound as left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Control;
use super::switches::OrderSubject;
use crate::approval::{ApprovalRefusal, SignedApproval};
use crate::control::{Action, Order, OrderReport, Row, Target};
use crate::domain::code::Code;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::json::Json;
use crate::enforce::Road;
use crate::enforce::answer::Answer;
use crate::enforce::modify::Other;
use crate::enforce::run::{CallStage, PendingAnswer, Run};
use crate::ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::control::{ControlApplied, LeftCall, StoppedAs, StoppedCall};
use crate::record::{Draft, TaggedDigest, Text};
use crate::tool::{self, Cancel};

/// How long an order waits for the calls that it stops. The operator's report is due within a
/// second.
const BOUND: Duration = Duration::from_millis(800);
/// Stopped calls that one entry names; all are counted.
const NAMED_MAX: usize = 256;
/// Remaining calls that one entry names; all are counted.
const LEFT_MAX: usize = 64;

/// A call that was on the road when the order came.
struct AffectedCall {
    run: RunId,
    call: CallId,
    answer: PendingAnswer,
    cancel: Cancel,
}

/// Everything that an order affects.
#[derive(Default)]
pub(super) struct Reach {
    calls: Vec<AffectedCall>,
    held: Vec<(Arc<Run>, CallId)>,
    runs: Vec<Arc<Run>>,
    /// Calls that may continue, because the order only suspends.
    spared: usize,
}

impl Reach {
    /// Collects the affected calls of one run: all of them, or those to this tool.
    fn take(&mut self, run: &Arc<Run>, tool: Option<&ToolName>, stops: bool, seal: bool) {
        let mut state = run.state.lock();
        if seal && state.sealed.is_none() {
            state.closing = true;
            self.runs.push(Arc::clone(run));
        }
        for (call, place) in &state.calls {
            match place {
                CallStage::OnRoad(at) if tool.is_some_and(|tool| *tool != at.tool) => {}
                CallStage::OnRoad(_) if !stops => self.spared = self.spared.saturating_add(1),
                CallStage::OnRoad(at) => {
                    at.cancel.cancel(tool::STOPPED);
                    let (answer, cancel) = (at.answer.clone(), at.cancel.clone());
                    self.calls.push(AffectedCall {
                        run: run.id,
                        call: call.clone(),
                        answer,
                        cancel,
                    });
                }
                CallStage::Held => {
                    let of = state.held_tools.get(call);
                    if stops && tool.is_none_or(|tool| of == Some(tool)) {
                        self.held.push((Arc::clone(run), call.clone()));
                    }
                }
                CallStage::Booked | CallStage::Doubted => {}
            }
        }
    }
}

/// The effect of an order.
#[derive(Default)]
struct OrderEffect {
    stopped: Vec<StoppedCall>,
    left: Vec<LeftCall>,
    spared: usize,
    sealed: usize,
}

impl OrderEffect {
    /// Adds the end of a call. `ended`: stopped in this way, ended by itself, or (`None`) not in
    /// time.
    fn note(&mut self, run: &RunId, call: &CallId, ended: Option<Option<StoppedAs>>) {
        match ended {
            Some(Some(how)) => {
                self.stopped.push(StoppedCall { call: call.clone(), how, run: *run });
            }
            Some(None) => {}
            None => self.left.push(LeftCall { call: call.clone(), run: *run }),
        }
    }

    /// The entry that records the effect.
    fn applied(self, seq: u64, action: Action, target: &Target) -> ControlApplied {
        let left = self.left.len().saturating_add(self.spared);
        let (kind, name) = (target.recorded(), target.name());
        ControlApplied {
            left: left.into(),
            left_calls: (!self.left.is_empty())
                .then(|| self.left.into_iter().take(LEFT_MAX).collect()),
            runs_sealed: self.sealed.into(),
            stopped_count: self.stopped.len().into(),
            stopped: self.stopped.into_iter().take(NAMED_MAX).collect(),
            ..ControlApplied::idle(seq, action.into(), (kind, &name))
        }
    }
}

impl AffectedCall {
    /// How the call was stopped, or `None` if it ended by itself. Waits until it leaves the road.
    async fn ended(&mut self) -> Option<StoppedAs> {
        match self.answer.wait_for(Option::is_some).await {
            Ok(answer) => how(answer.as_ref()?, &self.cancel),
            // The call was lost on the road, so its outcome is unknown.
            Err(_) => Some(StoppedAs::Unknown),
        }
    }
}

/// How a call was stopped; `None` if it ended by itself at the same moment.
fn how(answer: &Answer, cancel: &Cancel) -> Option<StoppedAs> {
    let Err(fault) = answer else { return None };
    if fault.code == Code::CallHeld {
        return Some(StoppedAs::Unheld);
    }
    match (cancel.began(), fault.code) {
        (true, Code::CallCancelled) => Some(StoppedAs::Cancelled),
        (true, Code::CallUnknown) => Some(StoppedAs::Unknown),
        (false, Code::CallCancelled) => Some(StoppedAs::NeverStarted),
        (false, _) => cancel.was_denied().then_some(StoppedAs::NeverStarted),
        (true, _) => None,
    }
}

impl Road {
    /// Obeys one order, in list order. On return, every affected call has been asked to stop. A
    /// separate task waits for them, then records and reports the effect.
    pub(super) async fn apply_order(self: &Arc<Self>, row: Row) {
        self.control.release.saw(&row);
        if let Some(Order::Switch { action, target }) = &row.order {
            self.control.commands.stops.write().stop(&row, *action, target);
        }
        self.carry_out(row).await;
    }

    /// As [`Self::obey`], for an order that the switches already contain.
    pub(super) async fn carry_out(self: &Arc<Self>, row: Row) {
        self.control.progress.lock().begin(row.seq);
        let road = Arc::clone(self);
        match &row.order {
            None => {
                let done = error("this build does not know the order");
                self.tasks.spawn(async move { road.control.report(row.seq, done).await });
            }
            Some(Order::Switch { action: Action::Reinstate, .. }) => {
                // An unsigned reinstatement: the check of an empty statement refuses it.
                let signed = SignedApproval { statement: String::new(), signature: String::new() };
                self.tasks.spawn(async move { road.loosen_row(&row, &signed).await });
            }
            Some(Order::Loosen(signed)) => {
                let signed = signed.clone();
                self.tasks.spawn(async move { road.loosen_row(&row, &signed).await });
            }
            Some(Order::Switch { action, target }) => {
                let (action, target) = (*action, target.clone());
                // Checked first: carrying out the order may end the target.
                let unknown = self.unknown(&target);
                let reach = self.stop_what(action, &target, true);
                tracing::warn!(order = row.seq, action = action.as_str(), kind = target.kind(), name = %target.name(), "applying an operator's order");
                self.tasks.spawn(async move {
                    let done = road.finish(Some(&row), (action, &target), reach).await;
                    // Without an entry the effect is not recorded, so there is nothing to report.
                    if let Ok(done) = done {
                        road.control.report(row.seq, reporting(&done, unknown)).await;
                    }
                });
            }
            Some(
                Order::BreakGlass(_)
                | Order::CloseBreakGlass { .. }
                | Order::ReviewBreakGlass { .. },
            ) => {
                self.break_glass_row(&row);
            }
            Some(Order::Propose { .. } | Order::Publish { .. } | Order::Activate { .. }) => {
                self.tasks.spawn(async move {
                    let done = road.amend(&row).await;
                    road.control.report(row.seq, done).await;
                });
            }
            Some(Order::ClearTaint { run }) => {
                let run = *run;
                self.tasks.spawn(async move {
                    let done = road.clear_taint(&row, &run).await;
                    road.control.report(row.seq, done).await;
                });
            }
            Some(Order::EndException { order }) => self.end_exception_row(&row, *order),
            Some(Order::ApproverStatement { .. } | Order::Modify { .. }) => {
                self.tasks.spawn(async move {
                    // For a call of another gate the report stays empty.
                    let done = road.approval_row(&row).await;
                    let done = done.unwrap_or_else(|| Json::object::<&str>([]));
                    road.control.report(row.seq, done).await;
                });
            }
        }
    }

    /// Submits an approver's statement, or an approver's other arguments, about a held call.
    async fn approval_row(self: &Arc<Self>, row: &Row) -> Option<Json> {
        match row.order.as_ref()? {
            Order::ApproverStatement { run, call, statement, signature } => {
                Some(self.take_statement(run, call, (statement, signature)).await?.to_json())
            }
            Order::Modify { run, call, arguments, statement, signature } => {
                let other = Other { arguments, statement, signature };
                Some(match self.modify(run, call, other).await? {
                    Ok(modified) => modified.to_json(),
                    Err(fault) => Json::object([
                        ("error", Json::from(fault.message.as_str())),
                        ("code", Json::from(fault.code.as_str())),
                        ("detail", Json::from(fault.detail.as_str())),
                    ]),
                })
            }
            Order::Switch { .. }
            | Order::Loosen(_)
            | Order::BreakGlass(_)
            | Order::CloseBreakGlass { .. }
            | Order::ReviewBreakGlass { .. }
            | Order::ClearTaint { .. }
            | Order::EndException { .. }
            | Order::Propose { .. }
            | Order::Publish { .. }
            | Order::Activate { .. } => None,
        }
    }

    /// Asks every call that the order affects to stop. `seal`: the order's runs take no new calls
    /// from now on.
    pub(super) fn stop_what(&self, action: Action, target: &Target, seal: bool) -> Reach {
        let mut reach = Reach::default();
        let stops = match action {
            Action::Revoke | Action::Kill => true,
            Action::Suspend => false,
            Action::Reinstate => return reach,
        };
        let needed = self.settings.manifest_threshold;
        let tool = if let Target::Tool(tool) = target { Some(tool) } else { None };
        // An order about a tool or about the policy in force affects all runs: it stops their calls
        // and seals no run.
        let rules = self.in_force.now();
        let falls = rules.policy.as_ref().is_some_and(|policy| policy.falls_with(target));
        let of_all = tool.is_some() || falls;
        for run in self.runs.all() {
            let named = OrderSubject::run(&run).is(target, needed);
            if named || of_all {
                reach.take(&run, tool, stops, stops && seal && named);
            }
        }
        reach
    }

    /// Waits for the affected calls to stop, and records the effect.
    pub(super) async fn finish(
        self: &Arc<Self>,
        row: Option<&Row>,
        (action, target): (Action, &Target),
        reach: Reach,
    ) -> Result<ControlApplied, ledger::Error> {
        let end = Instant::now() + BOUND;
        let Reach { mut calls, held, runs, spared } = reach;
        let mut ending = Vec::new();
        for (run, call) in held {
            let unheld = self.holds.stop(&run, &call, tool::STOPPED);
            ending.push((run.id, call, unheld));
        }
        let mut effect = OrderEffect { spared, ..OrderEffect::default() };
        for affected in &mut calls {
            let ended = timeout_at(end, affected.ended()).await.ok();
            effect.note(&affected.run, &affected.call, ended);
        }
        for (run, call, unheld) in ending {
            let ended = timeout_at(end, unheld).await.ok().and_then(Result::ok);
            effect.note(&run, &call, ended.map(|unheld| unheld.then_some(StoppedAs::Unheld)));
        }
        // Sealed after the held calls, so that the ledger shows this order as their end.
        let mut sealing = Vec::new();
        for run in runs {
            let road = Arc::clone(self);
            let why = if action == Action::Kill { "killed" } else { "revoked" };
            sealing.push(self.tasks.spawn(async move { road.seal_at_last(&run, why).await }));
        }
        for run in sealing {
            effect.sealed =
                effect.sealed.saturating_add(usize::from(timeout_at(end, run).await.is_ok()));
        }
        // Decisions made before the order must stand before it in the ledger.
        drop(timeout_at(end, self.in_force.replacing()).await);
        // An order of the switch file has no number.
        let seq = row.map_or(0, |row| row.seq);
        let applied = named_by(row, effect.applied(seq, action, target));
        let entry = DraftWithPayloads::bare(Draft::of(applied.clone()));
        self.ledger.owe(entry).await.map(|_| applied)
    }

    /// Carries out a row that amends the policy.
    async fn amend(self: &Arc<Self>, row: &Row) -> Json {
        match &self.control.commands.amender {
            Some(amender) => amender.amend(self, row).await,
            None => Json::object([
                ("error", Json::from("`policy.amendments` is off at this gate")),
                ("code", Json::from("amendment.off")),
            ]),
        }
    }
}

impl Control {
    /// Reports the effect of an order to the list; retries until it succeeds or the gate stops.
    pub(super) async fn report(&self, seq: u64, done: Json) {
        let Some(follow) = &self.commands.follow else { return };
        let (origin, at) = (follow.origin.clone(), self.clock.now());
        let report = OrderReport { seq, origin, at, done };
        let mut pause = Duration::from_millis(50);
        while let Err(error) = follow.orders.report(&report).await {
            tracing::warn!(order = seq, %error, "the outcome of an operator's order could not be reported yet");
            if !self.tasks.pause(pause).await {
                return;
            }
            pause = pause.saturating_mul(2).min(Duration::from_secs(1));
        }
        self.progress.lock().end(seq);
        self.wake.notify_one();
    }
}

pub(super) fn error(why: &str) -> Json {
    Json::object([("error", Json::from(why))])
}

/// The report of an order that does not count.
pub(super) fn refused(refusal: &ApprovalRefusal) -> Json {
    Json::object([
        ("error", Json::from(refusal.why.to_string())),
        ("detail", Json::from(refusal.code())),
    ])
}

/// Adds to `control.applied` the operator named by the row. An order that only stops is not signed.
fn named_by(row: Option<&Row>, applied: ControlApplied) -> ControlApplied {
    let Some(row) = row else { return applied };
    let given = &row.given;
    ControlApplied {
        row: Some(TaggedDigest(row.digest)),
        subject: Some(Text::clip(&given.subject, 256)),
        auth: Some(Text::clip(&given.auth, 64)),
        signature: Some("unsigned row".into()),
        expires: given.expires,
        ..applied
    }
}

/// The report of an obeyed order. If the target does not exist here, the report says so and lists
/// similar names.
pub(super) fn reporting(applied: &ControlApplied, unknown: Option<Vec<String>>) -> Json {
    let mut done = Json::of(applied);
    if let (Json::Object(members), Some(near)) = (&mut done, unknown) {
        members.insert("known".into(), Json::from(false));
        members.insert("near".into(), near.into_iter().map(Json::from).collect());
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decision::LayerReason;
    use crate::enforce::answer::Fault;

    #[test]
    fn what_a_denial_is_called_says_nothing_of_who_denied() {
        let mut fault = Fault::new(Code::PolicyDenied, "no").detail("control.killed");
        fault.reasons =
            vec![LayerReason { detail: "control.killed".into(), ..LayerReason::no_allow() }];
        let (answer, cancel): (Answer, _) = (Err(fault), Cancel::default());
        cancel.cancel(tool::STOPPED);
        assert_eq!(how(&answer, &cancel), None);
        cancel.deny();
        assert_eq!(how(&answer, &cancel), Some(StoppedAs::NeverStarted));
    }
}
