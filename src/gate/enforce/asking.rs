//! Requests to models in a dialect of their own: the way of the model faces into the road.
//!
//! A request is a call of a granted tool of kind `model`; its arguments are the body as the agent
//! sent it. The answer may leave piece by piece while the call runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Road;
use super::answer::{Fault, Released};
use super::ask_facts;
use super::condition::Condition;
use super::flowing::Flowing;
use super::given;
use super::managed::ManagedStep;
use super::proposals::Offered;
use super::request::{malformed, unread};
use super::run::Run;
use super::sight::OTHER_ANSWERED;
use crate::catalog::llm::ask::{self, Ask, AskError, AskReading, Edits, OfferedKind, Restored};
use crate::catalog::model::ModelFace;
use crate::domain::call::{DialectRequest, ToolCall};
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::effect::{AskFacts, ToolKind};
use crate::domain::id::ToolName;
use crate::domain::json::{Json, Limits};
use crate::domain::sent::{DialectReading, SentJson};
use crate::domain::tier::Face;
use crate::identity::client_tools::UnknownTools;
use crate::identity::instructions::{self, InstructionBlock};
use crate::identity::manifest::Grant;
use crate::identity::models;
use crate::ledger::flow::FlowHead;
use crate::telemetry::trace;
use crate::tool::toolbox::Toolbox;

/// Tools that are neither granted nor listed and that a refusal names. WHY a bound: a request may offer
/// hundreds of thousands, and a run remembers its refusals.
const UNLISTED_NAMED_MAX: usize = 8;
/// Bytes of a header for the provider. WHY a bound: the entry of a held request names it whole, and its
/// approvers see it.
const HEADER_BYTES_MAX: usize = 4096;

/// One request to a model, as an agent sent it.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The protocol.
    pub dialect: Dialect,
    /// What is asked for.
    pub operation: Operation,
    /// Whether the provider's preview API is asked for (`?beta=true` of `messages`).
    pub beta: bool,
    /// The body, as it was read.
    pub body: SentJson,
    /// Headers for the provider, with names in lower case: `anthropic-version`, `anthropic-beta`,
    /// `openai-beta`, `user-agent`. Others of the agent go nowhere.
    pub headers: Vec<(String, String)>,
    /// The agent's id for the call; if empty, the gate mints one and the call is not idempotent.
    pub call_id: String,
    /// W3C trace context from the caller.
    pub traceparent: Option<String>,
    /// The step of the gate's own loop that it is, if it is one.
    pub managed: Option<ManagedStep>,
}

/// How a model's answer reaches the agent.
#[derive(Debug)]
pub enum ModelReply {
    /// In one piece, after its outcome is durable.
    Whole(Released, Vec<(String, String)>),
    /// As it comes.
    Begun(Flowing),
}

/// Why there is no answer, and the head of the provider's, if it answered with an error.
#[derive(Debug)]
pub struct ModelFault {
    /// The fault.
    pub fault: Fault,
    /// The provider's own status and headers.
    pub upstream: Option<FlowHead>,
}

impl From<Fault> for Box<ModelFault> {
    fn from(fault: Fault) -> Self {
        Self::new(ModelFault { fault, upstream: None })
    }
}

/// A model that a run may ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferedModel {
    /// The id that agents ask for.
    pub id: String,
    /// The dialects in which it may be asked.
    pub dialects: Vec<Dialect>,
}

/// What the gate knows of a request before it is judged.
#[derive(Debug, Default)]
pub(super) struct AskSeen {
    /// The reasons against it.
    pub refusals: Vec<LayerReason>,
    /// Whether the model and the instructions are those of the manifest.
    pub is_seen: bool,
    /// What policies see of that.
    pub facts: AskFacts,
}

/// A request that was read, and the tool that takes it.
pub(super) struct ReadRequest {
    tool: ToolName,
    reading: Arc<AskReading>,
    /// What it offers to the model, by name.
    pub offered: BTreeMap<String, Offered>,
    pub seen: AskSeen,
    /// How long it, or a tool call of its answer, waits for an approver.
    pub hold_wait: Duration,
}

impl Road {
    /// The models that the tools of a run offer in any dialect, in the order of their ids.
    pub fn models(&self, run: &Run) -> Vec<OfferedModel> {
        let toolbox = self.in_force.toolbox();
        let mut models: BTreeMap<String, BTreeSet<Dialect>> = BTreeMap::new();
        for (_, face) in model_faces(run, &toolbox) {
            for (id, dialect) in face.offers() {
                models.entry(id.to_owned()).or_default().insert(dialect);
            }
        }
        let offered = models.into_iter();
        offered
            .map(|(id, dialects)| OfferedModel { id, dialects: dialects.into_iter().collect() })
            .collect()
    }

    /// Reads a request, and makes it the call that asks for it.
    pub(super) fn read_ask(
        &self,
        run: &Run,
        request: &ModelRequest,
    ) -> Result<(ToolCall, ReadRequest), Fault> {
        if self.tasks.is_stopping() {
            return Err(Condition::Draining.fault());
        }
        self.budget.pace(&run.opener.name, &run.auth)?;
        takes_models(run)?;
        bounded(&request.headers)?;
        let toolbox = self.in_force.toolbox();
        let mut read = self.read_request(run, request, &toolbox)?;
        let facts = std::mem::take(&mut read.seen.facts);
        let call = self.model_call(run, request, (&read, facts))?;
        Ok((call, read))
    }

    fn model_call(
        &self,
        run: &Run,
        request: &ModelRequest,
        (read, facts): (&ReadRequest, AskFacts),
    ) -> Result<ToolCall, Fault> {
        let named = (request.dialect.as_str(), request.body.text());
        let id = self.call_id(run, &request.call_id, named)?;
        let traceparent = request.traceparent.clone();
        let traceparent = traceparent.filter(|context| trace::valid_traceparent(context));
        let in_dialect = DialectRequest {
            dialect: request.dialect,
            operation: request.operation,
            beta: request.beta,
            headers: request.headers.clone(),
            facts,
            reading: Some(DialectReading::of(Arc::clone(&read.reading))),
        };
        let asking = run.origin(id, traceparent);
        let named = (read.tool.as_str(), read.reading.sent().clone());
        let call = self.call_of_request(run, asking, named, in_dialect);
        let step = request.managed.as_ref().map(ManagedStep::as_recorded);
        let call = call.map(|call| call.within(step));
        call.map(|call| call.at(Some(Face::Llm))).map_err(|error| unread(&error))
    }

    /// Reads the request, finds its tool and compares it with the manifest.
    fn read_request(
        &self,
        run: &Run,
        request: &ModelRequest,
        toolbox: &Toolbox,
    ) -> Result<ReadRequest, Fault> {
        let model = request.body.value().get("model").and_then(Json::as_str);
        let model =
            model.ok_or_else(|| malformed("model.argument", "`model` is missing".into()))?;
        let (tool, face) = model_tool(run, toolbox, (request.dialect, model))?;
        let form = (request.dialect, request.operation);
        let reading = AskReading::of(form, request.body.clone(), &face.rules);
        let hold_wait = face.hold_wait;
        let ask = match reading.asked() {
            Ok(ask) => ask,
            // A request of another shape is no call; what the gate does not let pass is a denial on
            // record, which the executor words.
            Err(error) if error.detail() == "model.argument" => {
                return Err(malformed(error.detail(), error.to_string()));
            }
            Err(_denied) => {
                let (seen, offered) = (AskSeen::default(), BTreeMap::new());
                return Ok(ReadRequest {
                    tool,
                    reading: Arc::new(reading),
                    offered,
                    seen,
                    hold_wait,
                });
            }
        };
        let managed = request.managed.as_ref();
        let provider = face.provider(request.dialect, &ask.model);
        let mut seen = seen(run, ask, provider, managed);
        match run.models.given.lock().upstream(&tool, &ask.remote_state) {
            Ok(upstream) => seen.facts.upstream = upstream,
            Err(unknown) => seen.refusals.push(given::unknown(unknown)),
        }
        let (offered, edits) = self.offered(run, toolbox, (ask, managed), &mut seen);
        // What is edited is another text, and is read anew: the reading is always that of the text.
        let reading = match edits {
            Some(edits) => {
                AskReading::of(form, edited(&request.body, form.0, &edits)?, &face.rules)
            }
            None => reading,
        };
        Ok(ReadRequest { tool, reading: Arc::new(reading), offered, seen, hold_wait })
    }

    /// What the request offers to the model, and what must be changed in it.
    fn offered(
        &self,
        run: &Run,
        toolbox: &Toolbox,
        (ask, managed): (&Ask, Option<&ManagedStep>),
        seen: &mut AskSeen,
    ) -> (BTreeMap<String, Offered>, Option<Edits>) {
        let classified = match managed {
            Some(step) => of_the_loop(toolbox, ask, step),
            None => ask::classify(ask, &governed(run, toolbox, ask), &clients(run)),
        };
        let unknown = classified.iter().filter(|tool| tool.kind == OfferedKind::Unknown);
        let strips = run.manifest.unknown_tools == UnknownTools::Strip;
        seen.facts.offered = ask_facts::tools(&classified, strips);
        seen.facts.bypassed = self.bypassed(run, ask);
        let mut edits = ask.edits.clone();
        match run.manifest.unknown_tools {
            UnknownTools::Strip => edits.strip_tools.extend(unknown.map(|tool| tool.place)),
            UnknownTools::Deny => {
                let names: Vec<&str> = unknown.map(|tool| tool.name.as_str()).collect();
                seen.refusals.extend(unlisted(&names));
            }
        }
        let said = run.models.proposals.lock();
        // WHY by the id alone: some clients give a call of an unknown tool another name. WHY results
        // too: the call may stand in a response that the provider remembers.
        let calls = ask.calls.iter().map(|call| call.id.as_str());
        let results = ask.results.iter().map(|result| result.id.as_str());
        let again: BTreeSet<&str> = calls.chain(results).collect();
        edits.restore = again
            .into_iter()
            .filter_map(|id| said.denied(id))
            .filter(|denied| !denied.is_another(&ask.calls))
            .map(|denied| Restored {
                id: denied.id.clone(),
                name: denied.name.clone(),
                arguments: denied.arguments.clone(),
                custom: denied.custom,
                result: denied.words.clone(),
            })
            .collect();
        drop(said);
        let offered = classified.into_iter().map(|tool| {
            let offered = match tool.kind {
                OfferedKind::Governed(name) => {
                    ToolName::parse(&name).map_or(Offered::Unknown, Offered::Governed)
                }
                OfferedKind::Client(_) => Offered::Client,
                // The provider runs it; a call of it comes to no agent.
                OfferedKind::Hosted | OfferedKind::Unknown => Offered::Unknown,
            };
            (tool.name, offered)
        });
        (offered.collect(), (edits != Edits::default()).then_some(edits))
    }
}

/// The request with these edits.
fn edited(sent: &SentJson, dialect: Dialect, edits: &Edits) -> Result<SentJson, Fault> {
    let text = ask::upstream_body(sent.text(), dialect, edits)
        .map_err(|error: AskError| malformed(error.detail(), error.to_string()))?;
    SentJson::read(&text, &Limits::MODEL).map_err(|error| unread(&error))
}

/// The reasons against offered tools that are neither granted nor listed.
fn unlisted(names: &[&str]) -> Vec<LayerReason> {
    let named = names.iter().take(UNLISTED_NAMED_MAX).map(|name| {
        format!("the request offers tool `{name}`, which is neither granted nor one of `spec.client_tools`")
    });
    let more = names.len().saturating_sub(UNLISTED_NAMED_MAX);
    let more = (more > 0).then(|| format!("the request offers {more} more tools that are neither"));
    let reason = |message: String| LayerReason {
        code: Code::ManifestMismatch,
        detail: "manifest.tools".to_owned(),
        message,
        rule: "manifest".to_owned(),
    };
    named.chain(more).map(reason).collect()
}

/// Refuses headers that no entry could name.
fn bounded(headers: &[(String, String)]) -> Result<(), Fault> {
    let Some((name, value)) = headers.iter().find(|(_, value)| value.len() > HEADER_BYTES_MAX)
    else {
        return Ok(());
    };
    let bytes = value.len();
    let message = format!(
        "the header `{name}` has {bytes} bytes; at most {HEADER_BYTES_MAX} go to a provider"
    );
    Err(malformed("model.header", message))
}

/// Refuses a run whose manifest switches the model faces off: another face opened it.
fn takes_models(run: &Run) -> Result<(), Fault> {
    if run.manifest.binding.faces.contains(&Face::Llm) {
        return Ok(());
    }
    let message = "the manifest switches the face `llm` off; add it to `spec.binding.faces`";
    Err(Fault::new(Code::BindingInsufficient, message).detail("binding.face"))
}

/// The tools of kind `model` that the run is granted, and that speak a dialect.
fn model_faces<'a>(
    run: &'a Run,
    toolbox: &'a Toolbox,
) -> impl Iterator<Item = (&'a ToolName, &'a ModelFace)> {
    run.grants.all().iter().filter_map(|grant| {
        let tool =
            toolbox.get(&grant.name).filter(|tool| tool.facts.kind == ToolKind::Model.as_str())?;
        Some((&grant.name, tool.executor.model_face()?))
    })
}

/// The tool that takes a request for this model in this dialect.
pub(super) fn model_tool<'a>(
    run: &'a Run,
    toolbox: &'a Toolbox,
    (dialect, model): (Dialect, &str),
) -> Result<(ToolName, &'a ModelFace), Fault> {
    let mut speaking =
        model_faces(run, toolbox).filter(|(_, face)| face.speaks(dialect)).peekable();
    let first = speaking.peek().copied();
    let fitting = speaking.find(|(_, face)| face.serves(dialect, model));
    // WHY the first if none fits: its denial is recorded, and says that the model is unknown.
    let (name, face) = fitting.or(first).ok_or_else(|| {
        let message =
            format!("no tool that this agent is granted takes requests in `{}`", dialect.as_str());
        Fault::new(Code::ToolNotGranted, message).detail("model.dialect")
    })?;
    Ok((name.clone(), face))
}

/// Compares a request with the manifest of its run.
fn seen(run: &Run, ask: &Ask, provider: Option<&str>, managed: Option<&ManagedStep>) -> AskSeen {
    let manifest = &run.manifest;
    // WHY: the gate wrote these itself, and the entry has their digest.
    let own = managed.and_then(|step| step.tools_text.as_deref());
    let blocks: Vec<InstructionBlock<'_>> = ask
        .instructions
        .iter()
        .filter(|block| own != Some(block.text.as_str()))
        .map(|block| InstructionBlock { place: block.place, text: &block.text })
        .collect();

    let mut refusals = Vec::new();
    if let Some(other) = run.models.other.lock().clone() {
        refusals.push(LayerReason {
            code: Code::ManifestMismatch,
            detail: OTHER_ANSWERED.to_owned(),
            message: format!("model `{other}` answered the request before, and `spec.model.responded` does not list it"),
            rule: "manifest".to_owned(),
        });
    }
    if let Err(mismatch) = models::model(manifest, &ask.model, provider) {
        refusals.extend(mismatch.reasons);
    }
    let matched = instructions::check(manifest, &blocks);
    let facts = ask_facts::instructions(&blocks, matched.as_ref().ok());
    if let Err(mismatch) = matched {
        refusals.extend(mismatch.reasons);
    }
    let demands = !manifest.instructions.is_empty() && !manifest.model_names.is_empty();
    AskSeen { is_seen: refusals.is_empty() && demands, refusals, facts }
}

/// The granted tools as agents see them, by which offered tools are known: those that have the name
/// of one.
fn governed(run: &Run, toolbox: &Toolbox, ask: &Ask) -> Vec<ask::GovernedTool> {
    let is_offered = |grant: &&Grant| {
        ask.offered.iter().any(|tool| ask::is_governed_name(&tool.name, grant.name.as_str()))
    };
    // WHY those only: each schema is read again.
    let shown = |grant: &Grant| {
        let tool = toolbox.get(&grant.name)?;
        Some(ask::GovernedTool {
            name: grant.name.to_string(),
            description: tool.description.clone(),
            schema: Json::parse(&tool.input_schema, &Limits::FILE).ok()?,
        })
    };
    run.grants.all().iter().filter(is_offered).filter_map(shown).collect()
}

/// The tools of a step of the gate's loop: granted ones, under the names that the gate gave them.
fn of_the_loop(toolbox: &Toolbox, ask: &Ask, step: &ManagedStep) -> Vec<ask::ClassifiedTool> {
    let granted = step.tools.iter().filter_map(|(offered, name)| {
        let tool = toolbox.get(name)?;
        Some(ask::GovernedTool {
            name: offered.clone(),
            description: tool.description.clone(),
            schema: Json::parse(&tool.input_schema, &Limits::FILE).ok()?,
        })
    });
    let mut classified = ask::classify(ask, &granted.collect::<Vec<_>>(), &[]);
    for tool in &mut classified {
        if let OfferedKind::Governed(name) = &mut tool.kind
            && let Some(inward) = step.tools.get(name.as_str())
        {
            *name = inward.to_string();
        }
    }
    classified
}

/// The tools of the manifest that the agent runs itself.
fn clients(run: &Run) -> Vec<ask::PinnedClientTool> {
    let tools = run.manifest.client_tools.iter();
    tools
        .map(|tool| ask::PinnedClientTool { name: tool.name.clone(), definition: tool.definition })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_unknown_tools_is_a_few_reasons() {
        let names: Vec<String> = (0..20_u64).map(|n| format!("t{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(unlisted(&[]).is_empty());
        assert_eq!(unlisted(&names[..8]).len(), 8);
        let reasons = unlisted(&names);
        assert_eq!(reasons.len(), 9);
        assert!(reasons[0].message.contains("`t0`"), "{reasons:?}");
        assert_eq!(reasons[8].message, "the request offers 12 more tools that are neither");
        assert!(reasons.iter().all(|reason| reason.code == Code::ManifestMismatch));
    }
}
