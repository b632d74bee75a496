//! A held call and what approvers say of it.
//!
//! Their word goes on the books first; then the call is prepared and judged again with everybody who
//! approved it so far, on the one road. What was signed names everything that must still be so then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::answer::{Answer, Fault};
use super::run::{New, Place, Run};
use super::undecided::Undecided;
use super::{CallRequest, Road, Trip, call_span};
use crate::approval::{Approval, Signed, Word};
use crate::domain::call::{Asking, ToolCall};
use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::ledger::hold::Hold;
use crate::ledger::{self, drafts};
use crate::limits::Went;
use crate::policy::Resumed;
use crate::tool;

/// Between two tries to judge an approved call while the ledger cannot be written.
const PAUSE: Duration = Duration::from_millis(250);

/// Who is concerned by a call besides its approvers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parties {
    /// The agent, by the name of its manifest.
    pub agent: String,
    /// The owner its manifest names.
    pub owner: String,
    /// Its manifest.
    pub manifest: Digest,
}

/// What an approver says, as it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said<'a> {
    /// The statement.
    pub statement: &'a str,
    /// The SSHSIG over it, armored.
    pub signature: &'a str,
    /// When it was heard.
    pub now: Timestamp,
}

/// Why an approver's word does not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// `approval.signature`, `approval.expired`, …
    pub detail: String,
    /// For a person.
    pub message: String,
}

/// The port to whoever knows the approvers: decides whether this word about this hold counts, and whose
/// it is. Total and without effect.
pub trait Checker: Send + Sync + std::fmt::Debug {
    /// Checks statement, signature and signer.
    ///
    /// # Errors
    /// It does not count.
    fn check(&self, hold: &Hold, parties: &Parties, said: &Said<'_>) -> Result<Counts, Refused>;
}

/// An approver's word that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Whose.
    pub approval: Approval,
    /// Which.
    pub word: Word,
    /// SHA-256 of the list of approvers that says so.
    pub signers: Option<Digest>,
    /// The signature in its one spelling, as it goes on the books.
    pub signature: String,
}

/// What became of an approver's word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The word counts, and this is where the call is now: `authorized`, `denied`, `held` (more people
    /// have to approve), `cancelled` or `unsure` (the ledger could not say in time).
    Counted(&'static str),
    /// It does not count, and nothing changed.
    Refused(Refused),
    /// The call is not held here, or not any more.
    NotHeld,
    /// The books cannot be read or written now; it may be said again.
    Unavailable(String),
}

impl Heard {
    /// For a report.
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
            Self::Refused(why) => object(false, "held", &why.detail, &why.message),
            Self::NotHeld => {
                object(false, "", "approval.not_held", "the call does not wait for an approval")
            }
            Self::Unavailable(why) => object(false, "held", "ledger.unavailable", why),
        }
    }
}

impl Road {
    /// From now on, approvals count as this says.
    pub fn trust_approvers(&self, checker: Arc<dyn Checker>) {
        self.checker.store(Arc::new(Some(checker)));
    }

    /// Hears what an approver says of a held call. `None` if the run is not one of this gate.
    pub async fn hear(
        self: &Arc<Self>,
        run: &RunId,
        call: &CallId,
        (statement, signature): (&str, &str),
    ) -> Option<Heard> {
        let run = self.runs.of_id(run)?;
        let said = Said { statement, signature, now: self.clock.now() };
        // One word at a time for one run: two for the same hold must see each other.
        let _turn = run.words.lock().await;
        Some(self.heard(&run, call, &said).await.unwrap_or_else(|heard| heard))
    }

    async fn heard(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
        said: &Said<'_>,
    ) -> Result<Heard, Heard> {
        let hold = self.held(run, call).await?.ok_or(Heard::NotHeld)?;
        if hold.refused.is_some() {
            return Err(Heard::NotHeld);
        }
        let nobody = || {
            let message = "no approvers are configured".to_owned();
            Heard::Refused(Refused { detail: "approval.signer".into(), message })
        };
        let checker = self.checker.load_full().as_ref().clone().ok_or_else(nobody)?;
        let parties = Parties {
            agent: run.agent.id.clone(),
            owner: run.agent.owner.clone(),
            manifest: run.agent.manifest,
        };
        let counts = checker.check(&hold, &parties, said).map_err(Heard::Refused)?;
        let Counts { approval, word, signers, signature } = counts;
        let again = hold.granted.iter().any(|granted| granted.subject == approval.subject);
        if again && word == Word::Approve {
            let message = format!("`{}` has approved this call already", approval.subject);
            return Err(Heard::Refused(Refused { detail: "approval.repeated".into(), message }));
        }
        let signed = Signed { statement: said.statement.to_owned(), signature };
        let written = drafts::word(&*self.entropy, &hold, (&approval, word, signers), &signed);
        match self.ledger.owe(written).await {
            Ok(_) => {}
            // It ended in the same moment.
            Err(ledger::Error::CallTaken | ledger::Error::RunNotOpen) => {
                return Err(Heard::NotHeld);
            }
            Err(error) => return Err(Heard::Unavailable(error.to_string())),
        }
        Ok(match self.weigh(run, call).await {
            Some(told) => Heard::Counted(told.await.unwrap_or("unsure")),
            None => Heard::Counted("cancelled"),
        })
    }

    /// The hold this call is under, if this process thinks so too.
    async fn held(&self, run: &Run, call: &CallId) -> Result<Option<Hold>, Heard> {
        let waits = matches!(run.state.lock().calls.get(call), Some(Place::Held));
        if !waits {
            return Ok(None);
        }
        let hold = self.ledger.hold(run.id(), call).await;
        hold.map_err(|error| Heard::Unavailable(error.to_string()))
    }

    /// Judges a held call again, with everybody who approved it. `None` if it is not held any more.
    async fn weigh(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
    ) -> Option<oneshot::Receiver<&'static str>> {
        let hold = self.held(run, call).await.ok()??;
        let asking = Asking {
            run: hold.run,
            id: hold.call.clone(),
            after: hold.after,
            auth: hold.auth.clone(),
            traceparent: hold.traceparent.clone(),
        };
        // What is on the books was parsed when it was held.
        let call = ToolCall::parse(asking, hold.tool.as_str(), &hold.args).ok()?;
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let fingerprint = self.fingerprint(&call);
        let New { sender, facts, cancel, turn, .. } =
            run.take_up(&call, fingerprint, &self.settings.attested)?;
        let refusals = hold.refused.iter().map(refused_by).collect();
        let span = call_span(run, &call);
        let (tell, told) = oneshot::channel();
        let resumed = Resumed {
            salt: hold.salt,
            nonce: hold.nonce,
            layers: hold.layers,
            manifest: run.manifest.digest,
            definition: hold.definition,
            effect: hold.effect,
            approvals: hold.granted,
        };
        let (run, resumed) = (Arc::clone(run), Some((resumed, tell)));
        self.set_out(
            Trip { run, call, refusals, facts, cancel, span, resumed },
            sender,
            (slot, turn),
        );
        Some(told)
    }

    /// Judges an approved call as soon as that can be done: after a restart, or when the ledger is back.
    pub(super) fn weigh_soon(self: &Arc<Self>, run: &Arc<Run>, call: &CallId) {
        let (road, run, call) = (Arc::clone(self), Arc::clone(run), call.clone());
        self.tasks.spawn(async move {
            // A bundle has to be in force first, or the approval would be void.
            while road.engine.load().is_none() {
                tokio::select! {
                    biased;
                    () = road.stop.cancelled() => return,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
            drop(road.weigh(&run, &call).await);
        });
    }

    /// A held call was judged again, and no decision about it is on the books.
    pub(super) async fn unresumed(
        self: &Arc<Self>,
        run: &Arc<Run>,
        id: &CallId,
        why: &Undecided,
        caller: &watch::Sender<Option<Answer>>,
    ) {
        let (place, over) = match why {
            Undecided::Ledger(ledger::Error::Unknown) => (Place::Doubted, true),
            // The hold ended otherwise in the same moment.
            Undecided::Ledger(ledger::Error::CallTaken) => (Place::Booked, true),
            Undecided::Ledger(_) | Undecided::Cancelled | Undecided::StillHeld => {
                (Place::Held, false)
            }
        };
        run.left(id, place, Went::NotRun);
        let answer = match why {
            Undecided::Ledger(error) => Err(Fault::of_ledger(error).about(id)),
            Undecided::Cancelled | Undecided::StillHeld => {
                self.remembered(run, id).await.and_then(|books| self.recalled(run, &books.recalled))
            }
        };
        match why {
            Undecided::Cancelled => self.cancel_held(run, id, tool::CANCELLED),
            Undecided::StillHeld => self.watch_hold_of(run, id).await,
            Undecided::Ledger(_) if over => {}
            Undecided::Ledger(_) => {
                self.watch_hold_of(run, id).await;
                self.weigh_later(run, id);
            }
        }
        caller.send_replace(Some(answer));
    }

    /// The time of a hold may have run out while it was judged.
    async fn watch_hold_of(self: &Arc<Self>, run: &Arc<Run>, id: &CallId) {
        let expires = match self.ledger.hold(run.id(), id).await {
            Ok(hold) => hold.map(|hold| hold.expires),
            Err(_) => Some(self.clock.now().plus(self.settings.hold)),
        };
        if let Some(expires) = expires {
            self.watch_hold(run, id, expires);
        }
    }

    fn weigh_later(self: &Arc<Self>, run: &Arc<Run>, id: &CallId) {
        let (road, run, id) = (Arc::clone(self), Arc::clone(run), id.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = road.stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            road.weigh_soon(&run, &id);
        });
    }

    /// Ends a held call and asks the same with other arguments, as a call of its own that is judged like
    /// any other. Returns its id.
    ///
    /// # Errors
    /// `call.not_found` if the call is not held, and whatever speaks against the new one.
    pub async fn modify(
        self: &Arc<Self>,
        run: &RunId,
        call: &CallId,
        arguments: &str,
    ) -> Option<Result<CallId, Fault>> {
        let run = self.runs.of_id(run)?;
        let _turn = run.words.lock().await;
        Some(self.modified(&run, call, arguments).await)
    }

    async fn modified(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
        arguments: &str,
    ) -> Result<CallId, Fault> {
        let missing = || {
            Fault::new(Code::CallNotFound, format!("call `{call}` does not wait for an approval"))
        };
        let unread = |heard: Heard| match heard {
            Heard::Unavailable(why) => Fault::new(Code::LedgerUnavailable, why),
            Heard::Counted(_) | Heard::Refused(_) | Heard::NotHeld => missing(),
        };
        let hold = self.held(run, call).await.map_err(unread)?.ok_or_else(missing)?;
        let id = self.fresh(run, call).ok_or_else(missing)?;
        let request = CallRequest {
            tool: hold.tool.to_string(),
            arguments: arguments.as_bytes().to_vec(),
            call_id: id.to_string(),
            traceparent: hold.traceparent.clone(),
        };
        // Before the old one ends: what cannot be read changes nothing.
        self.decode(run, request.clone())?;
        let reason = format!("modified: asked again as `{id}`");
        let ended = ledger::closing::held_ended(*run.id(), call, false, &reason);
        self.ledger.owe(ended).await.map_err(|error| {
            // It ended otherwise in the same moment.
            let over = error == ledger::Error::CallTaken;
            if over { missing() } else { Fault::of_ledger(&error) }
        })?;
        run.unheld(call);
        self.admit(run, request).map(|_walking| id)
    }

    /// A free id that shows where it comes from.
    fn fresh(&self, run: &Run, call: &CallId) -> Option<CallId> {
        let state = run.state.lock();
        let stem: String = call.as_str().chars().take(56).collect();
        let ids = (1..=999_u32).filter_map(|n| CallId::parse(&format!("{stem}.m{n}")));
        ids.into_iter().find(|id| !state.calls.contains_key(id))
    }

    /// How far a call got, after waiting for at most this long while it is held.
    ///
    /// # Errors
    /// As [`Road::call`].
    pub async fn call_within(&self, run: &Arc<Run>, call: &str, wait: Duration) -> Answer {
        let held = || {
            let state = run.state.lock();
            CallId::parse(call).is_some_and(|id| matches!(state.calls.get(&id), Some(Place::Held)))
        };
        let decided = async {
            loop {
                let told = run.idle.notified();
                tokio::pin!(told);
                told.as_mut().enable();
                if !held() {
                    return;
                }
                told.await;
            }
        };
        tokio::select! {
            biased;
            () = decided => {}
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
        self.call(run, call).await
    }
}

fn refused_by(approval: &Approval) -> Reason {
    Reason {
        code: Code::PolicyDenied,
        detail: "approval.refused".into(),
        message: format!("`{}` refused the call", approval.subject),
        rule: "approval".into(),
    }
}
