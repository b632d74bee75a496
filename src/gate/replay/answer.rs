//! Plays the recorded answer of a model that was asked in a dialect.
//!
//! A streamed answer is played from the events that left when it was recorded, byte for byte. All of
//! them are its end: they leave once the outcome is durable. Its tool calls are proposed again before,
//! so that each is decided and recorded, and what the run does next counts as observed. The answer is
//! played only if every tool call in it may leave as it is.

use hyper::body::Bytes;
use serde::Deserialize;

use super::player::Player;
use super::step::RecordedCall;
use crate::catalog::llm::answer::{self, AnswerError, AnswerRules, AnsweredCall, DENIED_NAME};
use crate::catalog::llm::ask::{self, AskError};
use crate::catalog::llm::framing;
use crate::catalog::model::ModelFace;
use crate::domain::call::DialectRequest;
use crate::domain::canonical;
use crate::domain::dialect::Operation;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{FailureClass, Outcome, Unmasked, Usage};
use crate::ledger::flow::{Clearance, Flow, FlowStopped, ProposedCall};
use crate::ledger::permit::Permit;
use crate::record::decided;
use crate::tool::{LEFT, client};

/// Why a recorded answer cannot be played.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unplayable {
    #[error("the recording has no outcome of this call")]
    NoOutcome,
    #[error("the request asks for a stream, and the recorded answer came in one piece")]
    Whole,
    #[error("the request asks for an answer in one piece, and the recorded one is a stream")]
    Streamed,
    #[error("the policy now asks for other obligations, and recorded events cannot be changed")]
    Obligations,
    #[error("the recorded request cannot be read: {0}")]
    Ask(#[from] AskError),
    #[error("the recorded answer cannot be read: {0}")]
    Answer(#[from] AnswerError),
    #[error("the tool call `{0}` left in the recorded answer, and may not leave now")]
    Denied(String),
    #[error("the tool call `{0}` left in the recorded answer with other arguments than it has now")]
    Arguments(String),
    #[error("a tool call of the recorded answer could not be decided")]
    Undecided,
    #[error(transparent)]
    Stopped(#[from] FlowStopped),
}

impl Unplayable {
    /// The outcome of the call.
    fn outcome(&self) -> Unmasked {
        match self {
            Self::Stopped(FlowStopped::Left) => Unmasked::Cancelled { reason: LEFT.to_owned() },
            Self::Stopped(FlowStopped::Unrecorded) | Self::Undecided => {
                Unmasked::Unknown { cause: "unrecorded".to_owned() }
            }
            Self::NoOutcome
            | Self::Whole
            | Self::Streamed
            | Self::Obligations
            | Self::Ask(_)
            | Self::Answer(_)
            | Self::Denied(_)
            | Self::Arguments(_) => Unmasked::Failed {
                class: FailureClass::Protocol,
                started: false,
                message: self.to_string(),
            },
        }
    }
}

/// Plays the recorded answer to a permitted request.
pub(super) async fn play(
    player: &Player,
    face: &ModelFace,
    permit: &Permit,
    flow: Flow<'_>,
) -> Unmasked {
    let call = permit.call();
    let step = player.step_of(call.run(), call.id());
    let (Some(step), Some(request)) = (step, call.dialect()) else {
        return Unplayable::NoOutcome.outcome();
    };
    let played = Playing { player, face, permit, request, step: &step }.play(flow).await;
    played.unwrap_or_else(|why| why.outcome())
}

/// One recorded answer on its way.
struct Playing<'a> {
    player: &'a Player,
    face: &'a ModelFace,
    permit: &'a Permit,
    request: &'a DialectRequest,
    step: &'a RecordedCall,
}

/// A tool call of the recorded answer.
struct RecordedProposal {
    asked: ProposedCall,
    /// The arguments with which it left; `None` if it was denied.
    left: Option<String>,
}

impl Playing<'_> {
    async fn play(&self, mut flow: Flow<'_>) -> Result<Unmasked, Unplayable> {
        let outcome = self.step.outcome().ok_or(Unplayable::NoOutcome)?;
        self.fits(&outcome)?;
        let proposals = self.proposals()?;
        let asked = proposals.iter().map(|one| one.asked.clone()).collect();
        let cleared = flow.propose(asked).await?;
        if cleared.len() != proposals.len() {
            return Err(Unplayable::Undecided);
        }
        for (proposal, clearance) in proposals.iter().zip(&cleared) {
            proposal.may_leave(clearance)?;
        }
        self.observe();
        if let Some(head) = self.step.head(self.asks_for_stream()) {
            flow.head(head, Vec::new()).await?;
        }
        if let Some(events) = &self.step.stream {
            let events = Bytes::from(events.clone());
            // An answer that broke off has no end: what left of it is a piece.
            match outcome {
                Outcome::Completed { .. } => flow.end(events).await?,
                Outcome::Failed { .. } | Outcome::Unknown { .. } | Outcome::Cancelled { .. } => {
                    flow.piece(events).await?;
                }
            }
        }
        Ok(outcome.again())
    }

    fn asks_for_stream(&self) -> bool {
        self.request.operation == Operation::Generate
            && framing::streams(self.request.dialect, self.permit.call().args())
    }

    /// Whether the recorded answer has the form that is asked for, and is what the policy lets leave.
    fn fits(&self, outcome: &Outcome) -> Result<(), Unplayable> {
        let asked = self.asks_for_stream();
        match &self.step.stream {
            Some(_) if !asked => return Err(Unplayable::Streamed),
            None if asked && matches!(outcome, Outcome::Completed { .. }) => {
                return Err(Unplayable::Whole);
            }
            Some(_) => {}
            None => return Ok(()),
        }
        let now = Json::of(&decided::obligations(self.permit.obligations()));
        if now == Json::of(&self.step.decision.obligations) {
            Ok(())
        } else {
            Err(Unplayable::Obligations)
        }
    }

    /// Notes which model answered, and where: the run may refer to what it gave there.
    fn observe(&self) {
        let answered = &self.step.answered;
        let usage = answered.upstream.as_ref().map(|upstream| Usage {
            upstream: upstream.clone(),
            input_tokens: 0,
            output_tokens: 0,
            // A replay costs nothing.
            cost_micro_usd: Some(0),
            estimated: false,
            cached_input_tokens: 0,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
        });
        self.permit.observe(|seen| {
            seen.usage = usage;
            seen.model.clone_from(&answered.model);
        });
    }

    /// The tool calls of the recorded answer, in their order.
    fn proposals(&self) -> Result<Vec<RecordedProposal>, Unplayable> {
        let mut steps = self.player.proposals_of(self.step);
        let mut proposals = Vec::new();
        for call in self.calls()? {
            let denied = DenialWords::read(&call);
            let is_it = |step: &RecordedCall| match &denied {
                Some(denied) => step.call == denied.call,
                None => step.tool == client::road_name(&call.name) && left(step).is_some(),
            };
            let at = steps.iter().position(|(_, step)| is_it(step));
            match (at.map(|at| steps.remove(at)), denied) {
                (Some((index, step)), denied) => {
                    let name = denied.map_or_else(|| call.name.clone(), |denied| denied.tool);
                    let AnsweredCall { id, custom, .. } = call;
                    let asked = proposed(&step, (index, id, name, custom));
                    proposals.push(RecordedProposal { asked, left: left(&step) });
                }
                // It was denied without a call of its own: the same was asked for before.
                (None, Some(_)) => {}
                // A tool of the gate.
                (None, None) => proposals.push(RecordedProposal::of_gate(call)),
            }
        }
        // What was denied as text, or in an answer that broke off, has no id for the agent.
        proposals.extend(steps.into_iter().map(|(index, step)| {
            let name = step.tool.strip_prefix(client::PREFIX).unwrap_or(&step.tool).to_owned();
            let asked = proposed(&step, (index, String::new(), name, false));
            RecordedProposal { asked, left: left(&step) }
        }));
        Ok(proposals)
    }

    /// The tool calls in the result.
    fn calls(&self) -> Result<Vec<AnsweredCall>, Unplayable> {
        let (Some(result), Operation::Generate) = (&self.step.result, self.request.operation)
        else {
            return Ok(Vec::new());
        };
        let (call, DialectRequest { dialect, operation, .. }) = (self.permit.call(), self.request);
        let asked = ask::read(*dialect, *operation, call.args(), call.sent(), &self.face.rules)?;
        let hosted_allowed = asked.hosted().into_iter().collect();
        let rules = AnswerRules { hosted_allowed, ..AnswerRules::default() };
        let answer = answer::whole(*dialect, result.as_bytes(), rules)?;
        Ok(answer.calls().to_vec())
    }
}

impl RecordedProposal {
    fn of_gate(call: AnsweredCall) -> Self {
        let AnsweredCall { index, id, name, arguments, custom } = call;
        let left = Some(arguments.clone());
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        Self { asked: ProposedCall { index, id, name, arguments, custom }, left }
    }

    /// Whether the tool call may leave now as it left then.
    fn may_leave(&self, clearance: &Clearance) -> Result<(), Unplayable> {
        let name = || self.asked.name.clone();
        match (clearance, &self.left) {
            (Clearance::Undecided, _) => Err(Unplayable::Undecided),
            (Clearance::Denied(_), Some(_)) => Err(Unplayable::Denied(name())),
            (Clearance::Allowed(cleared), Some(left))
                if cleared.arguments().unwrap_or(&self.asked.arguments) != left =>
            {
                Err(Unplayable::Arguments(name()))
            }
            // One that was denied stays so in the recorded answer.
            (Clearance::Allowed(_) | Clearance::Denied(_), _) => Ok(()),
        }
    }
}

/// The arguments with which a tool call of an answer left, if it did.
fn left(step: &RecordedCall) -> Option<String> {
    match step.outcome()? {
        Outcome::Completed { result, .. } => String::from_utf8(result).ok(),
        Outcome::Failed { .. } | Outcome::Unknown { .. } | Outcome::Cancelled { .. } => None,
    }
}

/// The tool call as the model asked for it. WHY not always as it left: there it may be masked.
fn proposed(
    step: &RecordedCall,
    (index, id, name, custom): (u64, String, String, bool),
) -> ProposedCall {
    let same = |text: &String| {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).is_ok_and(|args| args == step.args)
    };
    let arguments = left(step).filter(same).unwrap_or_else(|| canonical::text(&step.args));
    ProposedCall { index, id, name, arguments, custom }
}

/// What a denied tool call says in the answer.
#[derive(Deserialize)]
struct DenialWords {
    tool: String,
    call: String,
}

/// The text of a custom tool.
#[derive(Deserialize)]
struct CustomInput {
    input: String,
}

impl DenialWords {
    fn read(call: &AnsweredCall) -> Option<Self> {
        if call.name != DENIED_NAME {
            return None;
        }
        let parse = |text: &str| Json::parse(text.as_bytes(), &Limits::ARGUMENTS).ok();
        let json = parse(&call.arguments)?;
        if call.custom {
            return parse(&json.read::<CustomInput>().ok()?.input)?.read().ok();
        }
        json.read().ok()
    }
}
