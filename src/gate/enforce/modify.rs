//! An approver's replacement arguments for a held call. They become a new call, which is judged
//! like any other and held for another approver.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{Answer, Fault};
use super::approve::{ApproverStatement, CallParties, parties};
use super::request::malformed;
use super::run::Run;
use super::{AdmittedCall, CallExtras, CallRequest, Entered, Road};
use crate::approval::ApprovalRefusal;
use crate::domain::code::{Code, held};
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::ledger;
use crate::ledger::closing::MODIFIED;
use crate::tool::guard::as_judged;

/// How long an approver waits for the decision about the new call.
const DECIDED_WITHIN: Duration = Duration::from_millis(1200);

/// An approver's proposal, as received.
#[derive(Clone, Copy, Debug)]
pub struct Other<'a> {
    /// The new arguments, JSON.
    pub arguments: &'a str,
    /// The signed proposal.
    pub statement: &'a str,
    /// The armored SSHSIG over the proposal.
    pub signature: &'a str,
}

/// The result of an accepted proposal.
#[derive(Clone, Debug)]
pub struct Modified {
    /// The id of the new call.
    pub id: CallId,
    /// Its state: `held`, `denied`, or `unsure` if it was not decided in time.
    pub call: &'static str,
    /// The reason, if it was denied.
    pub why: Option<Fault>,
}

impl Modified {
    fn of(id: CallId, answer: Option<Answer>) -> Self {
        let (call, why) = match answer {
            Some(Err(fault)) if fault.code == Code::CallHeld => ("held", None),
            Some(Err(fault)) => ("denied", Some(fault)),
            // The new call cannot have run, because it waits for another approver.
            Some(Ok(_)) | None => ("unsure", None),
        };
        Self { id, call, why }
    }

    /// The report for the list of orders.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let why = self.why.as_ref();
        let detail = why.map_or("", |fault| fault.code.as_str());
        Json::object([
            ("asked", Json::from(self.id.as_str())),
            ("call", Json::from(self.call)),
            ("detail", Json::from(detail)),
            ("message", Json::from(why.map_or("", |fault| fault.message.as_str()))),
        ])
    }
}

impl Road {
    /// Ends a held call and starts a new one with other arguments. The new call is judged like any
    /// other and runs only if another approver approves it.
    ///
    /// # Errors
    /// `call.not_found` if the call is not held; `operator.forbidden` if the proposal is not a
    /// valid one of an approver about this call; and every refusal of the new call.
    pub async fn modify(
        self: &Arc<Self>,
        run: &RunId,
        call: &CallId,
        other: Other<'_>,
    ) -> Option<Result<Modified, Fault>> {
        let run = self.runs.of_id(run)?;
        let _turn = run.statements.at(call).await;
        Some(self.modified(&run, call, other).await)
    }

    async fn modified(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
        other: Other<'_>,
    ) -> Result<Modified, Fault> {
        let missing = || Fault::new(Code::CallNotFound, held::NOT_HELD);
        let unread = |refusal: CallParties| match refusal {
            CallParties::Unavailable(why) => Fault::new(Code::LedgerUnavailable, why),
            CallParties::Counted(_)
            | CallParties::OtherKey
            | CallParties::Refused(_)
            | CallParties::NotHeld => missing(),
        };
        let hold = self.holds.find(run, call).await.map_err(unread)?.ok_or_else(missing)?;
        // A call that an approver refused can only be denied.
        if hold.refused.is_some() {
            return Err(missing());
        }
        if hold.asked_in.is_some() {
            let message = "the request of an agent to a model is not changed by others: refuse it, and let the agent ask otherwise";
            return Err(Fault::new(Code::OperatorForbidden, message).detail("approval.dialect"));
        }
        let Other { arguments, statement, signature } = other;
        let id = run.fresh(call, "m").ok_or_else(missing)?;
        let request = CallRequest {
            tool: hold.tool.to_string(),
            arguments: arguments.as_bytes().to_vec(),
            call_id: id.to_string(),
            traceparent: hold.traceparent.clone(),
            justification: hold.justification.clone(),
            face: None,
        };
        // WHY before the old call ends: invalid arguments must change nothing.
        let asked = self.decode(run, request)?;
        // WHY: what runs is exactly what the proposer signed.
        let exceptions = self.exceptions(asked.tool());
        if as_judged(&self.in_force.toolbox(), &asked, (&exceptions, &[])).is_some() {
            let message = "the arguments hold a secret that the gate masks, and masked ones are not those of the signature: \
                           leave the secret out";
            return Err(malformed("approval.masked", message.to_owned()));
        }
        let proposal = ApproverStatement { statement, signature, now: self.clock.now() };
        let checker = self.holds.checker();
        if let Ok(checker) = &checker {
            let unwritten = |refusal: ApprovalRefusal| {
                Fault::new(Code::LedgerUnavailable, refusal.why.to_string())
            };
            checker.ready().await.map_err(unwritten)?;
        }
        let proposed = checker.and_then(|checker| {
            checker.propose(&hold, &parties(run), &proposal, asked.canonical())
        });
        let by = proposed.map_err(|refusal| {
            Fault::new(Code::OperatorForbidden, refusal.why.to_string()).detail(refusal.code())
        })?;
        let slot =
            Some(self.runs.slots(&asked).wait(self.in_force.agents(), &run.opener.name).await);
        let Entered::Ready(mut ready) =
            self.enter(run, asked, (slot, None), CallExtras::default())?
        else {
            return Err(missing());
        };
        ready.trip.asked_by = Some(Arc::new(by));
        let reason = format!("{MODIFIED}`{id}`");
        if let Err(error) = self.holds.end(run, call, &reason).await {
            self.turn_back(*ready);
            // The hold ended in another way at the same moment.
            let over = error == ledger::Error::CallTaken;
            return Err(if over { missing() } else { Fault::of_ledger(&error) });
        }
        // The new call counts for the rates of its own decision.
        run.state.lock().rates.forget(call);
        let mut answer = ready.sender.subscribe();
        self.set_out(*ready);
        let decided = tokio::time::timeout(DECIDED_WITHIN, answer.wait_for(Option::is_some)).await;
        let decided = decided.ok().and_then(Result::ok).and_then(|answer| answer.clone());
        Ok(Modified::of(id, decided))
    }

    /// Withdraws a call that has not started. The next call in the queue still waits for the one
    /// before it.
    fn turn_back(&self, ready: AdmittedCall) {
        ready.trip.run.forget(ready.trip.call.id());
        if let Some(turn) = ready.turn {
            self.tasks.spawn(turn.given_up());
        }
    }
}

impl Run {
    /// A free id that shows which call it belongs to.
    pub(super) fn fresh(&self, call: &CallId, mark: &str) -> Option<CallId> {
        let state = self.state.lock();
        let stem: String = call.as_str().chars().take(56).collect();
        let mut ids = (1..=999_u32).filter_map(|n| CallId::parse(&format!("{stem}.{mark}{n}")));
        ids.find(|id| !state.calls.contains_key(id))
    }
}
