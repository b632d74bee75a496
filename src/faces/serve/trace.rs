//! What the gate's own loop did for one request of an agent, as the ledger has it: in the answer to the
//! request, and later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::problem::ShownReceipt;
use crate::domain::id::CallId;
use crate::enforce::{Answer, Fault, Road, Run, StepView};
use crate::identity::manifest::Mode;

/// What the gate's loop did for one request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ManagedTrace {
    /// The request: its `Idempotency-Key`, or the id that the gate gave it.
    pub request_id: String,
    /// The run, a UUID.
    pub run_id: String,
    /// The model that answered last, by its own account.
    pub model: String,
    /// How often the model was asked.
    pub iterations: u32,
    /// `end`: the model asked for no more tools. `iterations`: it did, and the gate asks no more often. `unfinished`: the
    /// client left, or the gate was ended. Else the code of the problem that ended the request.
    pub stopped: String,
    /// `enforce`; `observe` if a decision was recorded and not enforced; `simulate`.
    pub policy_mode: String,
    /// The tool calls, in order.
    pub tools_used: Vec<UsedTool>,
    /// The tables that the tools queried, sorted.
    pub tables_queried: Vec<String>,
    /// The entries that record how the calls of the model and of the tools ended, in order.
    pub receipts: Vec<ShownReceipt>,
}

/// One tool call of the loop.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsedTool {
    /// The tool.
    pub name: String,
    /// The id of the call.
    pub call_id: String,
    /// `allow`, `deny` or `require_approval`.
    pub verdict: String,
    /// The code of its problem; empty if it gave a result.
    pub code: String,
    /// The tool's own status, or the finer code of the problem.
    pub status: String,
    /// The entry that records how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ShownReceipt>,
}

/// Calls that answered other steps than those of their own ids: they had waited for an approver.
pub(super) type AnsweredBy = BTreeMap<CallId, CallId>;

/// The id of a step that asks the model, by its number from 1.
pub(super) fn model_step(request: &CallId, number: u32) -> Option<CallId> {
    CallId::parse(&format!("{request}-m{number}"))
}

/// The id of a tool call of such a step, by its place from 0.
pub(super) fn tool_step(step: &CallId, place: usize) -> Option<CallId> {
    CallId::parse(&format!("{step}-t{}", place.saturating_add(1)))
}

/// The tool calls of a model's answer.
pub(super) fn tool_calls(answer: &Value) -> &[Value] {
    let calls = answer.pointer("/choices/0/message/tool_calls").and_then(Value::as_array);
    calls.map(Vec::as_slice).unwrap_or_default()
}

/// The text of a model's answer.
pub(super) fn content(answer: &Value) -> &str {
    answer.pointer("/choices/0/message/content").and_then(Value::as_str).unwrap_or_default()
}

/// What the loop did for this request; `None` if this run had no such request.
pub(super) async fn of_request(
    road: &Arc<Road>,
    run: &Arc<Run>,
    request: &CallId,
    answered_by: &AnsweredBy,
) -> Result<Option<ManagedTrace>, Fault> {
    let mut trace = Tracing::of(run, request);
    for number in 1..=u32::MAX {
        let Some(id) = model_step(request, number) else { break };
        let step = road.step(run, &id).await?;
        let Some(step) = step.filter(|step| step.parent.as_ref() == Some(request)) else { break };
        let asked = trace.asked(number, &step);
        let mut made = 0_usize;
        for place in 0..asked {
            let Some(own) = tool_step(&id, place) else { break };
            let call = answered_by.get(&own).unwrap_or(&own);
            if let Some(step) = road.step(run, call).await? {
                made = made.saturating_add(1);
                trace.used(call, &step);
            }
        }
        if asked > 0 && made == 0 {
            "iterations".clone_into(&mut trace.trace.stopped);
        }
    }
    let tables = trace.tables.into_iter().collect();
    let found = trace.trace.iterations > 0;
    Ok(found.then_some(ManagedTrace { tables_queried: tables, ..trace.trace }))
}

/// A trace that is being put together.
struct Tracing {
    trace: ManagedTrace,
    tables: BTreeSet<String>,
}

impl Tracing {
    fn of(run: &Run, request: &CallId) -> Self {
        let simulates = run.view().mode == Mode::Simulate;
        let trace = ManagedTrace {
            request_id: request.to_string(),
            run_id: run.id().to_string(),
            model: String::new(),
            iterations: 0,
            stopped: String::new(),
            policy_mode: if simulates { "simulate" } else { "enforce" }.to_owned(),
            tools_used: Vec::new(),
            tables_queried: Vec::new(),
            receipts: Vec::new(),
        };
        Self { trace, tables: BTreeSet::new() }
    }

    /// Adds a step that asked the model; how many tool calls its answer has.
    fn asked(&mut self, number: u32, step: &StepView) -> usize {
        self.both(step);
        self.trace.iterations = number;
        if let Some(model) = &step.model {
            self.trace.model.clone_from(model);
        }
        let (stopped, asked) = match &step.answer {
            Ok(released) => {
                let answer = serde_json::from_slice(released.result()).unwrap_or(Value::Null);
                let calls = tool_calls(&answer).len();
                let as_text = || step.has_tools_text && super::llm::asks_as_text(content(&answer));
                let asked = if calls == 0 && as_text() { 1 } else { calls };
                (if asked == 0 { "end" } else { "unfinished" }, asked)
            }
            Err(fault) => (fault.code.as_str(), 0),
        };
        stopped.clone_into(&mut self.trace.stopped);
        asked
    }

    fn used(&mut self, call: &CallId, step: &StepView) {
        self.both(step);
        self.tables.extend(step.tables.iter().cloned());
        let (code, status) = match &step.answer {
            Ok(released) => (String::new(), released.status().to_owned()),
            Err(fault) => (fault.code.to_string(), fault.detail.clone()),
        };
        self.trace.tools_used.push(UsedTool {
            name: step.tool.clone(),
            call_id: call.to_string(),
            verdict: step.verdict.to_owned(),
            code,
            status,
            receipt: receipt(&step.answer),
        });
    }

    fn both(&mut self, step: &StepView) {
        self.trace.receipts.extend(receipt(&step.answer));
        if !step.enforced && self.trace.policy_mode == "enforce" {
            "observe".clone_into(&mut self.trace.policy_mode);
        }
    }
}

fn receipt(answer: &Answer) -> Option<ShownReceipt> {
    let receipt = match answer {
        Ok(released) => Some(released.receipt()),
        Err(fault) => fault.receipt.as_ref(),
    };
    receipt.map(ShownReceipt::of)
}
