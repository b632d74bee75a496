//! Approvals and refusals of held calls.
//!
//! The signed statement is recorded first. Then the call goes down the one road again: it is
//! prepared and judged with every approval counted so far. The signed statement names everything
//! that must still hold at that time.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::answer::{Answer, Fault};
use super::awaiting::{ClientMeans, ClientOfHold};
use super::run::{CallStage, New, Run};
use super::trip::CallSight;
use super::undecided::Undecided;
use super::{AdmittedCall, ResumedHold, Road, Trip, call_span};
use crate::approval::approvers::Purpose;
use crate::approval::proposal::Proposer;
use crate::approval::{Approval, ApprovalRefusal, ApproverVerdict, RefusalReason, SignedApproval};
use crate::domain::call::{CallOrigin, DialectRequest, ToolCall};
use crate::domain::code::{Code, held};
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{Json, Limits};
use crate::domain::sent::SentJson;
use crate::domain::tier::Face;
use crate::domain::time::Timestamp;
use crate::judge::{OTHER_KEY, REFUSED, Resumed};
use crate::ledger::hold::HeldCall;
use crate::ledger::{self, drafts};
use crate::limits::BudgetOutcome;
use crate::tool::{self, Cancel, client};

/// Pause between attempts to judge an approved call while the ledger cannot be written.
const PAUSE: Duration = Duration::from_millis(250);

/// The parties to a call other than its approvers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parties {
    /// The agent, by the name in its manifest.
    pub agent: String,
    /// The owner that the manifest names.
    pub owner: String,
    /// The digest of the agent's manifest.
    pub manifest: Digest,
}

/// An approver's signed statement, as received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApproverStatement<'a> {
    /// The statement.
    pub statement: &'a str,
    /// The armored SSHSIG over the statement.
    pub signature: &'a str,
    /// When the gate received it.
    pub now: Timestamp,
}

/// Completes when the inputs of a check are recorded; fails if they cannot be.
pub type Readying<'a> = Pin<Box<dyn Future<Output = Result<(), ApprovalRefusal>> + Send + 'a>>;

/// Port to the list of approvers: decides whether a statement about this hold is counted, and who
/// signed it. Total and without effect.
pub trait Checker: Send + Sync + std::fmt::Debug {
    /// Records the inputs of the checks, such as the list of approvers.
    fn ready(&self) -> Readying<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Checks statement, signature and signer.
    ///
    /// # Errors
    /// The statement is not counted.
    fn check(
        &self,
        hold: &HeldCall,
        parties: &Parties,
        statement: &ApproverStatement<'_>,
    ) -> Result<CountedApproval, ApprovalRefusal>;

    /// Checks a proposal to replace the held call's arguments with these (canonical), and returns
    /// the proposer.
    ///
    /// # Errors
    /// The proposal is not valid.
    fn propose(
        &self,
        hold: &HeldCall,
        parties: &Parties,
        statement: &ApproverStatement<'_>,
        arguments: &[u8],
    ) -> Result<Proposer, ApprovalRefusal>;
}

/// An approver's statement that is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedApproval {
    /// Who signed it.
    pub approval: Approval,
    /// Approval or refusal.
    pub verdict: ApproverVerdict,
    /// SHA-256 of the list of approvers that admits the signer.
    pub signers: Option<Digest>,
    /// The signature in its canonical encoding, as it is recorded.
    pub signature: String,
}

/// The result of submitting an approver's statement.
#[derive(Debug)]
pub enum CallParties {
    /// The statement is counted, and this is the call's state now: `authorized`, `denied`, `held`
    /// (more approvals are required), `awaited` (a request to a model whose agent is away: it is judged
    /// when the agent asks for the same again), `cancelled` or `unsure` (the ledger did not confirm in
    /// time).
    Counted(&'static str),
    /// The approval is counted, and the call waits for one by a key that is no passkey.
    OtherKey,
    /// The statement is not counted, and nothing changed.
    Refused(ApprovalRefusal),
    /// The call is not held at this gate, or no longer.
    NotHeld,
    /// The ledger cannot be read or written now; the approver may submit the statement again.
    Unavailable(String),
}

impl CallParties {
    /// The report for the list of orders.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let object = |counted: bool, call: &str, detail: &str, message: &str| {
            Json::object([
                ("counted", Json::from(counted)),
                ("call", Json::from(call)),
                ("detail", Json::from(detail)),
                ("message", Json::from(message)),
            ])
        };
        match self {
            Self::Counted(call) => object(true, call, "", ""),
            Self::OtherKey => object(true, "held", OTHER_KEY.0, OTHER_KEY.1),
            Self::Refused(refusal) => {
                object(false, "held", refusal.code(), &refusal.why.to_string())
            }
            Self::NotHeld => object(false, "", "approval.not_held", held::NOT_HELD),
            Self::Unavailable(why) => object(false, "held", "ledger.unavailable", why),
        }
    }
}

impl Road {
    /// Takes an approver's statement about a held call. `None` if the run does not belong to this
    /// gate.
    pub async fn take_statement(
        self: &Arc<Self>,
        run: &RunId,
        call: &CallId,
        (statement, signature): (&str, &str),
    ) -> Option<CallParties> {
        let run = self.runs.of_id(run)?;
        let statement = ApproverStatement { statement, signature, now: self.clock.now() };
        // WHY one at a time per call: two statements about the same hold must see each other.
        let _turn = run.statements.at(call).await;
        Some(self.count_statement(&run, call, &statement).await.unwrap_or_else(|refused| refused))
    }

    async fn count_statement(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
        statement: &ApproverStatement<'_>,
    ) -> Result<CallParties, CallParties> {
        let hold = self.holds.find(run, call).await?.ok_or(CallParties::NotHeld)?;
        if hold.refused.is_some() {
            return Err(CallParties::NotHeld);
        }
        let checker = self.holds.checker().map_err(CallParties::Refused)?;
        checker.ready().await.map_err(|why| CallParties::Unavailable(why.why.to_string()))?;
        let counts =
            checker.check(&hold, &parties(run), statement).map_err(CallParties::Refused)?;
        let waits = self.needs_other_key(&hold, &counts);
        let CountedApproval { approval, verdict, signers, signature } = counts;
        if verdict == ApproverVerdict::Approve {
            second_person(&hold, &approval).map_err(CallParties::Refused)?;
        }
        let signed = SignedApproval { statement: statement.statement.to_owned(), signature };
        let written = drafts::approver_decision(
            &*self.entropy,
            &hold,
            (&approval, verdict, signers),
            &signed,
        );
        match self.ledger.owe(written).await {
            Ok(_) => {}
            // The call ended at the same moment.
            Err(ledger::Error::CallTaken | ledger::Error::RunNotOpen) => {
                return Err(CallParties::NotHeld);
            }
            Err(error) => return Err(CallParties::Unavailable(error.to_string())),
        }
        let state = match self.weigh(run, call).await {
            Ok(Some(decision)) => decision.await.unwrap_or("unsure"),
            Ok(None) => "cancelled",
            // The statement is recorded and takes effect once the ledger can be read.
            Err(_) => {
                self.weigh_soon(run, call);
                "unsure"
            }
        };
        Ok(if waits && state == "held" {
            CallParties::OtherKey
        } else {
            CallParties::Counted(state)
        })
    }

    /// Whether with this approval, too, only passkeys approved a call that needs another key.
    fn needs_other_key(&self, hold: &HeldCall, counted: &CountedApproval) -> bool {
        let mut approvals = hold.granted.clone();
        counted.approval.clone().count(&mut approvals);
        counted.verdict == ApproverVerdict::Approve
            && !self.settings.passkeys.allows(hold.tier, &approvals)
    }

    /// Judges a held call again, with every approval so far. `None` if it is no longer held. Runs
    /// one at a time per call (`run.statements`): otherwise one of two would find the call on the
    /// road and treat it as over.
    ///
    /// # Errors
    /// The ledger cannot be read now.
    async fn weigh(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
    ) -> Result<Option<oneshot::Receiver<&'static str>>, CallParties> {
        let Some(hold) = self.holds.find(run, call).await? else { return Ok(None) };
        Ok(self.weighed(run, hold).await)
    }

    pub(super) async fn weighed(
        self: &Arc<Self>,
        run: &Arc<Run>,
        hold: HeldCall,
    ) -> Option<oneshot::Receiver<&'static str>> {
        let client = match run.models.awaited.lock().of(&hold) {
            ClientOfHold::Unneeded => None,
            ClientOfHold::Waits(client) => Some(client),
            ClientOfHold::Away => return Some(awaited()),
        };
        let call = self.resumed_call(run, &hold, client.as_ref())?;
        let call = match hold.gate_of.clone() {
            Some(of) => call.of_gate(of),
            None => call,
        };
        let slot = self.runs.slots(&call).wait(self.in_force.agents(), &run.opener.name).await;
        if client.as_ref().is_some_and(ClientMeans::is_left) {
            return Some(awaited());
        }
        let fingerprint = self.runs.fingerprint(&call);
        let New { sender, facts, cancel, turn, slot, .. } =
            run.take_up(&call, ((fingerprint, hold.masked), slot), &self.settings.attested)?;
        if let Some(client) = &client {
            client.place.keep(run.listen(call.id()));
        }
        // WHY again: from here on a client that leaves stops its call; one that left before did not.
        if client.as_ref().is_some_and(ClientMeans::is_left) {
            cancel.cancel(tool::LEFT);
        }
        let mut refusals: Vec<LayerReason> = hold.refused.iter().map(refused_by).collect();
        let (mut asks, mut flow) = (None, None);
        if let Some(client) = client {
            run.models.refused(&client.refusals);
            refusals.extend(client.refusals);
            (asks, flow) = (Some(client.is_seen), Some(client.flow));
        }
        let span = call_span(run, &call);
        let (listener, decision) = oneshot::channel();
        let resumed = Resumed {
            salt: hold.salt,
            nonce: hold.nonce,
            layers: hold.layers,
            manifest: run.manifest.digest,
            definition: hold.definition,
            effect: hold.effect,
            approvals: hold.granted,
        };
        let (run, resumed) =
            (Arc::clone(run), Some(ResumedHold { resumed, ends: hold.expires, listener }));
        let asked_by = hold.asked_by.map(Arc::new);
        let sight = CallSight { proposed_by: hold.proposed_by, asks };
        let trip =
            Trip { run, call, refusals, facts, cancel, span, resumed, asked_by, sight, flow };
        self.set_out(AdmittedCall { trip, sender, slot, turn });
        Some(decision)
    }

    /// Judges an approved call as soon as possible: after a restart, or when the ledger is back.
    pub(super) fn weigh_soon(self: &Arc<Self>, run: &Arc<Run>, call: &CallId) {
        let (road, run, call) = (Arc::clone(self), Arc::clone(run), call.clone());
        self.tasks.spawn(async move {
            // Without a bundle in force the judgement would void the approval.
            while road.in_force.engine().is_none() || road.in_turn(&run, &call).await.is_err() {
                if !road.tasks.pause(PAUSE).await {
                    return;
                }
            }
        });
    }

    /// Judges the call once no approver's statement about it is being processed.
    async fn in_turn(self: &Arc<Self>, run: &Arc<Run>, call: &CallId) -> Result<(), CallParties> {
        let _turn = run.statements.at(call).await;
        self.weigh(run, call).await.map(drop)
    }

    /// Handles a held call that was judged again without a recorded decision.
    pub(super) async fn unresumed(
        self: &Arc<Self>,
        run: &Arc<Run>,
        (id, cancel): (&CallId, &Cancel),
        why: &Undecided,
        caller: &watch::Sender<Option<Answer>>,
    ) {
        let (place, over) = match why {
            Undecided::Ledger(ledger::Error::Unknown) => (CallStage::Doubted, true),
            // The hold ended in another way at the same moment.
            Undecided::Ledger(ledger::Error::CallTaken) => (CallStage::Booked, true),
            Undecided::Ledger(_)
            | Undecided::Gate(_)
            | Undecided::Cancelled
            | Undecided::StillHeld => (CallStage::Held, false),
        };
        run.leave_road(id, place, BudgetOutcome::NotRun);
        // WHY only now, when the call is held again: a cancellation from here on finds it among the
        // held calls.
        let cancelled = !over && cancel.ends_a_hold();
        let answer = match why {
            Undecided::Ledger(error) if !cancelled => Err(Fault::of_ledger(error).about(id)),
            Undecided::Gate(condition) if !cancelled => Err(condition.fault().about(id)),
            Undecided::Ledger(_)
            | Undecided::Gate(_)
            | Undecided::Cancelled
            | Undecided::StillHeld => self
                .remembered(run, id)
                .await
                .and_then(|record| self.recalled(run, &record.recalled)),
        };
        match why {
            Undecided::Ledger(_) if over => {}
            _ if cancelled => drop(self.holds.stop(run, id, cancel.why())),
            Undecided::Cancelled | Undecided::StillHeld => self.watch_hold_of(run, id).await,
            // WHY for as long as the hold lasts: the approval takes effect once the gate can decide
            // again.
            Undecided::Ledger(_) | Undecided::Gate(_) => {
                self.watch_hold_of(run, id).await;
                self.weigh_later(run, id);
            }
        }
        caller.send_replace(Some(answer));
    }

    /// Watches the hold's expiry again: it may have passed while the call was judged.
    async fn watch_hold_of(&self, run: &Arc<Run>, id: &CallId) {
        let unread = self.clock.now().plus(self.settings.hold);
        if let Some(expires) = self.holds.expires(run, id, unread).await {
            self.holds.watch(run, id, expires);
        }
    }

    fn weigh_later(self: &Arc<Self>, run: &Arc<Run>, id: &CallId) {
        let (road, run, id) = (Arc::clone(self), Arc::clone(run), id.clone());
        self.tasks.spawn(async move {
            if road.tasks.pause(PAUSE).await {
                road.weigh_soon(&run, &id);
            }
        });
    }

    /// The state of a call, after waiting for at most `wait` while it is held.
    ///
    /// # Errors
    /// As [`Road::call`].
    pub async fn call_within(&self, run: &Arc<Run>, call: &str, wait: Duration) -> Answer {
        let held = || CallId::parse(call).is_some_and(|id| run.is_held(&id));
        let decided = async {
            loop {
                let ended = run.idle.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if !held() {
                    return;
                }
                ended.await;
            }
        };
        tokio::select! {
            biased;
            () = decided => {}
            () = self.tasks.stopping() => {}
            () = tokio::time::sleep(wait) => {}
        }
        self.call(run, call).await
    }

    /// The call of a hold, made of the recorded bytes. `None` if they are not those that the approvers
    /// signed.
    fn resumed_call(
        &self,
        run: &Run,
        hold: &HeldCall,
        client: Option<&ClientMeans>,
    ) -> Option<ToolCall> {
        let asking = CallOrigin {
            run: hold.run,
            id: hold.call.clone(),
            after: hold.after,
            agent: run.opener.name.clone(),
            auth: hold.auth.clone(),
            traceparent: hold.traceparent.clone(),
        };
        // The recorded bytes were parsed when the call was held.
        let (tool, sent) = (hold.tool.as_str(), hold.sent.as_ref().unwrap_or(&hold.args));
        let call = match &hold.asked_in {
            Some(form) => {
                let request = client.map(|client| client.request.clone());
                let request = request.unwrap_or_else(|| DialectRequest::from(form));
                let sent = SentJson::read(sent, &Limits::MODEL).ok()?;
                self.call_of_request(run, asking, (tool, sent), request).ok()?
            }
            // Only a model's answer asks for a tool that the agent runs itself.
            None if tool.starts_with(client::PREFIX) => {
                let model_call = hold.proposed_by.clone().unwrap_or_else(|| hold.call.clone());
                ToolCall::parse(asking, tool, sent).ok()?.proposed(model_call, 0)
            }
            None => ToolCall::parse(asking, tool, sent).ok()?,
        };
        // Of the other faces no entry says which one it was.
        let is_of_models = hold.asked_in.is_some() || tool.starts_with(client::PREFIX);
        let call = call.at(is_of_models.then_some(Face::Llm));
        let call = call.within(hold.step.clone());
        (call.canonical() == hold.args).then(|| call.justified(hold.justification.clone()))
    }
}

/// The result of a statement about a request whose agent is away.
fn awaited() -> oneshot::Receiver<&'static str> {
    let (says, said) = oneshot::channel();
    let _ = says.send("awaited");
    said
}

/// Refuses an approval of a subject that wrote the arguments of the call, or approved it before with a
/// key that counts as much, whatever implements the signature check.
fn second_person(hold: &HeldCall, by: &Approval) -> Result<(), ApprovalRefusal> {
    let subject = || by.subject.clone();
    if hold.granted.iter().any(|granted| granted.is(&by.subject) && !by.replaces(granted)) {
        return Err(Purpose::Approval.refusal(RefusalReason::Repeated(subject())));
    }
    if hold.asked_by.as_ref().is_some_and(|author| author.is(&by.subject)) {
        let own = RefusalReason::Barred(subject(), "changed the arguments of this call");
        return Err(Purpose::Approval.refusal(own));
    }
    Ok(())
}

/// The parties to the calls of this run.
pub(super) fn parties(run: &Run) -> Parties {
    let (agent, owner) = (run.agent.id.clone(), run.agent.owner.clone());
    Parties { agent, owner, manifest: run.agent.manifest }
}

fn refused_by(approval: &Approval) -> LayerReason {
    LayerReason {
        code: Code::PolicyDenied,
        detail: REFUSED.into(),
        message: format!("`{}` refused the call", approval.subject),
        rule: "approval".into(),
    }
}
