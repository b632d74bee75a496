//! One recorded call, read from its line and checked against the commitments of its entries.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Deserializer};

use super::flaw::Flaw;
use super::line::PayloadCommitment;
use super::messages::StoredParts;
use crate::approval::break_glass::{BreakGlassStatement, Open, ROLE, SignedBreakGlass};
use crate::approval::{Approval, MalformedStatement, Statement as _};
use crate::domain::canonical;
use crate::domain::decision::Verdict;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::digest::{Digest, Salt};
use crate::domain::effect::EffectKind;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::members::Mismatch;
use crate::domain::outcome::{FailureClass, Outcome};
use crate::domain::taint::Label;
use crate::domain::time::Timestamp;
use crate::ledger::drafts::stream_parts;
use crate::policy::input::{BreakGlassInput, Document, broken};
use crate::record::call::{Obligation, Reason};
use crate::record::{Hex, Kind, List, Nonce};
use crate::tool::client;

/// One recorded call.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct RecordedCall {
    /// From 1, in the order of decisions.
    #[serde(rename = "n")]
    pub number: u64,
    /// The run it belongs to; `None` is the header's run.
    pub run: Option<RunId>,
    /// The id of the call.
    #[serde(default)]
    pub(super) call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments; null if part of them is redacted.
    #[serde(default)]
    pub args: Json,
    /// The time the policy saw, or the entry's time if no policy was asked.
    pub at: Timestamp,
    /// The decision.
    pub decision: Judgement,
    /// Roles of redacted payloads.
    #[serde(default)]
    pub redacted: Vec<String>,
    /// What the policy saw; `None` if no policy was asked.
    pub input: Option<StepInput>,
    /// Who approved it, if it was held and then ran.
    pub approved: Option<Approved>,
    /// The break-glass order under which it ran without an approver, if it did.
    pub break_glass: Option<BreakGlassStep>,
    /// How it ended.
    pub ended: End,
    /// The result that the agent received, if the call completed.
    pub result: Option<String>,
    /// The events of a streamed answer, exactly as they left.
    pub stream: Option<String>,
    /// What the gate saw of the model that answered in a dialect.
    #[serde(default)]
    pub(super) answered: ModelAnswered,
    /// Highest `run_seq` that had been answered when the call was made.
    pub(super) after: u64,
    /// `run_seq` of its last entry.
    pub(super) end: u64,
    payloads: Vec<PayloadCommitment>,
    /// How its arguments are stored, if that is in parts.
    pub(super) stored: Option<StoredParts>,
}

/// What the gate saw of the model that answered a request in a dialect.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub(super) struct ModelAnswered {
    /// The model, by its own account.
    pub model: Option<String>,
    /// The upstream that counted the tokens.
    pub upstream: Option<String>,
    /// The HTTP status of the last upstream that was asked; a word if it did not answer.
    pub status: Option<String>,
}

/// The decision of a recorded call.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Judgement {
    /// What it was.
    pub verdict: Option<Verdict>,
    /// Whether it was enforced.
    pub enforced: bool,
    /// Its reasons.
    pub reasons: List<Reason>,
    /// Obligations on the result.
    pub obligations: List<Obligation>,
    /// The bundle that decided.
    pub policy: Option<Digest>,
}

/// What the policy saw.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "Json")]
pub struct StepInput {
    /// The complete input, which the entry commits to.
    json: Json,
    /// The members that the replay needs.
    pub document: Document,
}

impl TryFrom<Json> for StepInput {
    type Error = Mismatch;

    fn try_from(json: Json) -> Result<Self, Mismatch> {
        let document = json.read()?;
        Ok(Self { json, document })
    }
}

/// How a recorded call ended, as its last entry records it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct End {
    /// The kind of that entry.
    pub kind: String,
    /// Whether the call was held and never ran: an approver refused it, or none came in time.
    #[serde(default)]
    pub lapsed: bool,
    /// The labels that its answer brought into the run.
    #[serde(default)]
    pub labels: Vec<Label>,
    class: Option<FailureClass>,
    started: Option<bool>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    cause: String,
    #[serde(default)]
    reason: String,
}

/// How a held call came to run.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Approved {
    /// Who approved it.
    pub by: Vec<Approval>,
    /// The nonce of the hold.
    pub nonce: Nonce,
    /// The salt of its arguments.
    #[serde(deserialize_with = "salt")]
    pub salt: Salt,
    /// The keyed digest of its effect.
    pub effect: Option<Digest>,
}

fn salt<'de, D: Deserializer<'de>>(from: D) -> Result<Salt, D::Error> {
    Hex::deserialize(from).map(|salt| salt.0)
}

/// The break-glass order of one call, from its entry and its payloads.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "OrderForm")]
pub struct BreakGlassStep {
    order: OrderForm,
    statement: BreakGlassStatement,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct OrderForm {
    signed: SignedBreakGlass,
    by: Vec<String>,
    signers: Digest,
}

impl TryFrom<OrderForm> for BreakGlassStep {
    type Error = MalformedStatement;

    fn try_from(order: OrderForm) -> Result<Self, MalformedStatement> {
        let statement = BreakGlassStatement::parse(order.signed.statement.as_bytes())?;
        Ok(Self { order, statement })
    }
}

impl RecordedCall {
    /// Whether every payload matches the commitment of its entry.
    pub(super) fn is_bound(&self) -> Result<(), Flaw> {
        let args = self.stored.as_ref().map_or(&self.args, |stored| &stored.args);
        let mut bodies = BTreeMap::from([("args", canonical::bytes(args))]);
        if let Some(stored) = &self.stored {
            bodies.insert("conversation", stored.conversation.bytes());
            bodies.extend(stored.apart().map(|(name, text)| (name, text.as_bytes().to_vec())));
        }
        let mut redacted: BTreeSet<&str> = self.redacted.iter().map(String::as_str).collect();
        if redacted.contains("args") {
            bodies.remove("args");
        }
        let input = self.input.as_ref().map(|input| canonical::bytes(&input.json));
        bodies.extend(input.map(|input| ("policy_input", input)));
        bodies.extend(self.result.as_ref().map(|result| ("result", result.clone().into_bytes())));
        let mut streamed: VecDeque<&[u8]> =
            self.stream.iter().flat_map(|stream| stream_parts(stream.as_bytes())).collect();
        let order = self.break_glass.as_ref().map(|broken| broken.order.signed.bytes());
        bodies.extend(order.map(|order| ("approval", order)));
        self.names_its_order()?;
        for payload in &self.payloads {
            if redacted.remove(payload.role.as_str()) {
                payload.holds_parts()?;
                continue;
            }
            let message = || self.stored.as_ref()?.message(&self.args, &payload.c);
            let member = || self.stored.as_ref()?.member(&payload.c);
            let body = match payload.role.as_str() {
                "message" => message().map(|message| canonical::bytes(&message)),
                "offer" | "instructions" => member().and_then(|member| bodies.remove(member)),
                "stream" => streamed.pop_front().map(<[u8]>::to_vec),
                role => bodies.remove(role),
            };
            payload.holds(&body.ok_or_else(|| Flaw::NoPayload(payload.role.clone()))?)?;
        }
        let unbound = (!streamed.is_empty()).then_some("stream");
        match bodies.into_keys().chain(redacted).chain(unbound).next() {
            Some(role) => Err(Flaw::Unbound(role.to_owned())),
            None => Ok(()),
        }
    }

    /// The commitment to its payload of this role.
    pub(super) fn committed(&self, role: &str) -> Option<Digest> {
        self.all_committed(role).next()
    }

    /// The commitments to its payloads of this role.
    pub(super) fn all_committed(&self, role: &str) -> impl Iterator<Item = Digest> {
        self.payloads.iter().filter(move |one| one.role == role).map(|one| one.c)
    }

    /// What the policy saw of its effect.
    fn effect(&self, member: &str) -> Option<&str> {
        self.input.as_ref()?.document.effect.as_ref()?.get(member)?.as_str()
    }

    /// Whether its tool is a model.
    #[must_use]
    pub fn is_of_model(&self) -> bool {
        self.stored.is_some() || self.effect("kind") == Some(EffectKind::Model.as_str())
    }

    /// The dialect and the operation, if a model was asked in a dialect and a policy saw it.
    #[must_use]
    pub fn form(&self) -> Option<(Dialect, Operation)> {
        Dialect::parse(self.effect("dialect")?).zip(Operation::parse(self.effect("operation")?))
    }

    /// The call of the model whose answer asked for this one, and the place among the tool calls of
    /// that answer, if an answer did.
    #[must_use]
    pub fn proposal(&self) -> Option<(&str, u64)> {
        self.tool.starts_with(client::PREFIX).then(|| client::proposal(&self.call)).flatten()
    }

    /// The status and the form with which the answer began before it was recorded how it ended: whether
    /// it streams. `None` if none began. `asked`: whether a stream was asked for.
    pub(super) fn head(&self, asked: bool) -> Option<(u16, bool)> {
        if self.stream.is_some() {
            return Some((200, true));
        }
        let status = self.answered.status.as_deref().and_then(|status| status.parse().ok());
        if Kind::parse(&self.ended.kind) == Some(Kind::CallCompleted) {
            return Some((status.unwrap_or(200), false));
        }
        let status = status?;
        if (200..300).contains(&status) {
            // A stream begins before its first event; an answer in one piece after its end.
            return asked.then_some((status, true));
        }
        (self.ended.class == Some(FailureClass::ToolError)).then_some((status, false))
    }

    /// Whether the policy saw the recorded break-glass order, or no order if none is recorded.
    fn names_its_order(&self) -> Result<(), Flaw> {
        let input = self.input.as_ref();
        let Some(seen) = input.and_then(|input| input.document.break_glass.as_ref()) else {
            return Ok(());
        };
        let order = self.break_glass.as_ref().map(|order| broken(&order.open()));
        if *seen == BreakGlassInput::from(order.as_ref()) { Ok(()) } else { Err(Flaw::BreakGlass) }
    }

    /// The outcome that the agent received, if the call ran.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let End { class, started, message, status, cause, reason, .. } = self.ended.clone();
        #[expect(clippy::wildcard_enum_match_arm, reason = "no other kind ends a call that ran")]
        match Kind::parse(&self.ended.kind)? {
            Kind::CallCompleted => {
                Some(Outcome::Completed { result: self.result.clone()?.into_bytes(), status })
            }
            Kind::CallFailed => {
                Some(Outcome::Failed { class: class?, started: started.unwrap_or(true), message })
            }
            Kind::CallUnknown => Some(Outcome::Unknown { cause }),
            Kind::CallCancelled => Some(Outcome::Cancelled { reason }),
            _ => None,
        }
    }
}

impl BreakGlassStep {
    /// The order as it was when the call ran. A replay does not check its signatures again: the
    /// order counts for this call only.
    #[must_use]
    pub fn open(&self) -> Open {
        let by = self.order.by.iter().map(|subject| Approval {
            subject: subject.clone(),
            roles: vec![ROLE.to_owned()],
            key: String::new(),
            key_kind: None,
            origin: None,
        });
        Open {
            statement: self.statement.clone(),
            by: by.collect(),
            quorum: self.order.by.len(),
            signers: self.order.signers,
            signed: self.order.signed.clone(),
        }
    }

    /// The nonce of the order.
    pub fn nonce(&self) -> &str {
        &self.statement.nonce
    }

    /// Who signed it, sorted.
    pub fn by(&self) -> &[String] {
        &self.order.by
    }
}
