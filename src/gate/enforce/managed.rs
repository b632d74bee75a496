//! The steps of the loop in which the gate itself asks a model and runs the tools that the model asks
//! for. Each step is a call like any other: the same checks, the same entries. Its id follows from the
//! id of the agent's request, so a repeated request repeats no step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Road;
use super::answer::{Answer, Fault};
use super::asking::model_tool;
use super::condition::Condition;
use super::proposals::{arguments, is_held};
use super::request::CallRequest;
use super::run::Run;
use super::tools::ToolView;
use super::trip::{CallExtras, Entry};
use crate::domain::call::LoopStep;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::dialect::Dialect;
use crate::domain::digest::Digest;
use crate::domain::effect::ToolKind;
use crate::domain::id::{CallId, ToolName};
use crate::domain::tier::Face;
use crate::identity::callers::{TextTools, offered_name};

/// Tool calls of one answer that run at the same time, in a run without a limit of its own.
const TOGETHER_MAX: usize = 8;

/// The tools that a step offers, by the name that the model reads.
pub type OfferedNames = Arc<BTreeMap<String, ToolName>>;

/// A tool that the loop offers.
#[derive(Clone, PartialEq, Debug)]
pub struct ManagedTool {
    /// The name that the model reads.
    pub offered: String,
    /// The tool.
    pub tool: ToolView,
}

/// How the gate runs the loop of one request.
#[derive(Clone, PartialEq, Debug)]
pub struct ManagedTerms {
    /// How often it asks the model, at most.
    pub iterations_max: u32,
    /// What it offers.
    pub tools: Vec<ManagedTool>,
    /// How the model gets to know the tools; `None`: it has tool calls of its own.
    pub as_text: Option<TextTools>,
    /// Tool calls that run at the same time.
    pub together: usize,
    /// How long a tool call waits for an approver.
    pub hold_wait: Duration,
}

/// A request to a model that is a step of the loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedStep {
    /// The request of the agent.
    pub parent: CallId,
    /// What the step offers.
    pub tools: OfferedNames,
    /// The instructions that the gate added, by which a model without tool calls knows the tools.
    pub tools_text: Option<Arc<str>>,
}

impl ManagedStep {
    /// As entries have it.
    pub(super) fn as_recorded(&self) -> LoopStep {
        let tools_text = self.tools_text.as_ref().map(|text| Digest::of(&[text.as_bytes()]));
        LoopStep { parent: self.parent.clone(), tools_text }
    }
}

/// A tool call that a model asks the gate for.
#[derive(Clone, Debug)]
pub struct ToolStep {
    /// The request of the agent.
    pub parent: CallId,
    /// The id of the step.
    pub id: CallId,
    /// The name that the model wrote.
    pub name: String,
    /// The arguments that it wrote.
    pub arguments: String,
    /// What was offered.
    pub tools: OfferedNames,
    /// How long the call waits for an approver.
    pub hold_wait: Duration,
    /// W3C trace context of the request.
    pub traceparent: Option<String>,
}

/// One step as the ledger has it.
#[derive(Clone, Debug)]
pub struct StepView {
    /// The tool.
    pub tool: String,
    /// The request of the agent that it is a step of.
    pub parent: Option<CallId>,
    /// Whether the gate offered its tools as instructions.
    pub has_tools_text: bool,
    /// The newest verdict.
    pub verdict: &'static str,
    /// Whether that is enforced.
    pub enforced: bool,
    /// The model that answered.
    pub model: Option<String>,
    /// The tables that were queried.
    pub tables: Vec<String>,
    /// What the call is answered.
    pub answer: Answer,
}

impl Road {
    /// How the gate runs the loop of this run's agent with this model; `None` if it runs none.
    ///
    /// # Errors
    /// `run.sealed`; no granted tool takes such requests.
    pub fn managed(&self, run: &Arc<Run>, model: &str) -> Result<Option<ManagedTerms>, Fault> {
        let Some(config) = self.in_force.managed(&run.manifest.name) else { return Ok(None) };
        let toolbox = self.in_force.toolbox();
        let (_, face) = model_tool(run, &toolbox, (Dialect::Chat, model))?;
        let as_text = face.lacks_tools(model).then_some(config.text_tools);
        let offers = as_text != Some(TextTools::Never);
        let is_offered = |tool: &ToolView| {
            let is_method = tool.kind == ToolKind::Mcp.as_str() && tool.shown.is_none();
            !is_method && tool.kind != ToolKind::Model.as_str() && config.takes(&tool.name)
        };
        let shown = if offers { self.list_tools(run)? } else { Vec::new() };
        let tools = shown.into_iter().filter(is_offered).map(|tool| {
            let offered = offered_name(&tool.name);
            ManagedTool { offered, tool }
        });
        let limit = run.manifest.limits.concurrency.and_then(|limit| usize::try_from(limit).ok());
        // WHY: calls that set out together may arrive in another order.
        let limit = if run.ordered { Some(1) } else { limit };
        Ok(Some(ManagedTerms {
            iterations_max: config.iterations_max,
            tools: tools.collect(),
            as_text,
            together: limit.unwrap_or(TOGETHER_MAX).clamp(1, TOGETHER_MAX),
            hold_wait: face.hold_wait,
        }))
    }

    /// Runs a tool call that a model asks the gate for, and waits for an approver for a while. The same
    /// that was held before is asked for, not made again. Gives the id of the call too.
    ///
    /// # Errors
    /// A fault for everything that is not a result.
    pub async fn execute_step(
        self: &Arc<Self>,
        run: &Arc<Run>,
        step: ToolStep,
    ) -> (CallId, Answer) {
        let hold_wait = step.hold_wait;
        let (arguments, mut refusals) = arguments(&step.arguments);
        let tool = match step.tools.get(&step.name) {
            Some(tool) => tool.to_string(),
            None => {
                refusals.push(not_offered(&step.name));
                step.name.clone()
            }
        };
        let like = Digest::of(&[tool.as_bytes(), b"\0", &arguments]);
        let waits = match run.has(&step.id) {
            true => None,
            false => match self.held_before(run, &like, (&tool, &arguments)).await {
                Ok(waits) => waits,
                Err(fault) => return (step.id, Err(fault)),
            },
        };
        let (id, answer) = match waits {
            Some(waits) => (waits, None),
            None => {
                let id = step.id.clone();
                let entry = self.admit_step(run, (step, tool), (arguments, refusals));
                (id, Some(Box::pin(self.answered(run, entry)).await))
            }
        };
        let answer = match answer {
            Some(answer) if !answer.as_ref().is_err_and(is_held) => answer,
            Some(_) | None => Box::pin(self.call_within(run, id.as_str(), hold_wait)).await,
        };
        if answer.as_ref().is_err_and(is_held) {
            run.models.proposals.lock().waits(like, &id);
        }
        (id, answer)
    }

    /// The call with this tool and these arguments that waited for an approver before.
    async fn held_before(
        &self,
        run: &Arc<Run>,
        like: &Digest,
        (tool, arguments): (&str, &[u8]),
    ) -> Result<Option<CallId>, Fault> {
        let waits = run.models.proposals.lock().waited(like);
        match waits {
            Some(waits) => Ok(Some(waits)),
            None => self.held_like(run, tool, arguments).await,
        }
    }

    fn admit_step(
        self: &Arc<Self>,
        run: &Arc<Run>,
        (step, tool): (ToolStep, String),
        (arguments, refusals): (Vec<u8>, Vec<LayerReason>),
    ) -> Result<Entry, Fault> {
        if self.tasks.is_stopping() {
            return Err(Condition::Draining.fault());
        }
        self.budget.pace(&run.opener.name, &run.auth)?;
        let ToolStep { parent, id, traceparent, .. } = step;
        let request = CallRequest {
            tool,
            arguments,
            call_id: id.to_string(),
            traceparent,
            justification: None,
            face: Some(Face::Llm),
        };
        let call = self.decode(run, request)?.within(Some(LoopStep { parent, tools_text: None }));
        self.set_off(run, call, CallExtras { refusals, spends: true, ..CallExtras::default() })
    }

    /// One step as the ledger has it; `None` if the run has no such call, or if it is on the road.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn step(&self, run: &Arc<Run>, call: &CallId) -> Result<Option<StepView>, Fault> {
        if !run.has(call) {
            return Ok(None);
        }
        let unread = |error| Fault::unread(&error).about(call);
        let Some(step) = self.ledger.step(run.id(), call).await.map_err(unread)? else {
            return Ok(None);
        };
        let answer = self.recalled(run, &step.recalled);
        Ok(Some(StepView {
            tool: step.tool.map(|tool| tool.to_string()).unwrap_or_default(),
            parent: step.parent,
            has_tools_text: step.has_tools_text,
            verdict: step.verdict.map_or("", |verdict| verdict.as_str()),
            enforced: step.enforced,
            model: step.model,
            tables: step.tables,
            answer,
        }))
    }
}

/// The reason against a tool call whose name was not offered.
fn not_offered(name: &str) -> LayerReason {
    LayerReason {
        code: Code::ToolNotGranted,
        detail: "managed.tools".to_owned(),
        message: format!("the model asks for tool `{name}`, which it was not offered"),
        rule: "managed".to_owned(),
    }
}
