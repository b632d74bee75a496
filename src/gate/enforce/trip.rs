//! One call on the road: the values that each step passes to the next.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tracing::Span;

use super::answer::Answer;
use super::budget::{InTurn, Spending};
use super::conversations::SentMessages;
use super::decided::DecisionLine;
use super::listening::Listening;
use super::run::Run;
use crate::approval::proposal::Proposer;
use crate::domain::call::ToolCall;
use crate::domain::decision::LayerReason;
use crate::domain::dialect::Dialect;
use crate::domain::id::{CallId, ToolName};
use crate::domain::time::Timestamp;
use crate::judge::Resumed;
use crate::ledger::Pending;
use crate::ledger::flow::FlowSender;
use crate::ledger::permit::Committed;
use crate::limits::shares;
use crate::policy::input::RunFacts;
use crate::telemetry::trace;
use crate::tool::{Cancel, ToolExecutor};

/// The channel for the result of a call that is judged again.
pub(super) type Listener = oneshot::Sender<&'static str>;

/// One admitted call with everything it is judged by.
pub(super) struct Trip {
    pub run: Arc<Run>,
    pub call: ToolCall,
    pub refusals: Vec<LayerReason>,
    pub facts: RunFacts,
    pub cancel: Cancel,
    pub span: Span,
    /// The hold that the call resumes from, if it was held before.
    pub resumed: Option<ResumedHold>,
    /// The approver who wrote its arguments, if the agent did not.
    pub asked_by: Option<Arc<Proposer>>,
    /// What the gate saw of the models behind it.
    pub sight: CallSight,
    /// The way of its answer, if that may leave while it runs.
    pub flow: Option<FlowSender>,
}

/// What the gate saw of the models behind a call.
#[derive(Clone, Debug, Default)]
pub(super) struct CallSight {
    /// The call of a model whose answer asks for exactly this call.
    pub proposed_by: Option<CallId>,
    /// The call asks a model: whether its model and instructions are those of the manifest.
    pub asks: Option<bool>,
}

impl CallSight {
    /// Whether the call counts as observed.
    pub fn is_observed(&self) -> bool {
        self.proposed_by.is_some() || self.asks == Some(true)
    }
}

/// What a call brings besides itself.
#[derive(Debug, Default)]
pub(super) struct CallExtras {
    /// Reasons against it.
    pub refusals: Vec<LayerReason>,
    pub sight: CallSight,
    pub flow: Option<FlowSender>,
    /// The agent itself makes the call: it spends a proposal, if it is a new one.
    pub spends: bool,
}

/// The hold of a call that is judged again.
pub(super) struct ResumedHold {
    pub resumed: Resumed,
    /// When the hold ends.
    pub ends: Timestamp,
    /// The channel for the result.
    pub listener: Listener,
}

impl ResumedHold {
    pub fn split(self) -> ((Resumed, Timestamp), Listener) {
        ((self.resumed, self.ends), self.listener)
    }
}

/// The facts about a call that the steps after the judge need.
pub(super) struct Passage {
    pub run: Arc<Run>,
    pub id: CallId,
    pub tool: ToolName,
    pub cancel: Cancel,
    pub span: Span,
    /// As [`CallSight::asks`].
    pub asks: Option<bool>,
    /// The dialect, if it is a request in one.
    pub dialect: Option<Dialect>,
}

impl Passage {
    pub fn of(trip: &Trip) -> Self {
        Self {
            run: Arc::clone(&trip.run),
            id: trip.call.id().clone(),
            tool: trip.call.tool().clone(),
            cancel: trip.cancel.clone(),
            span: trip.span.clone(),
            asks: trip.sight.asks,
            dialect: trip.call.dialect().map(|request| request.dialect),
        }
    }
}

/// The resources of a permitted call: the executor that prepared it, and its reservation.
pub(super) struct Means {
    pub executor: Option<Arc<dyn ToolExecutor>>,
    pub spending: Spending,
}

/// A decision that is being made durable.
pub(super) struct QueuedDecision {
    pub pending: Pending<Committed>,
    pub means: Means,
    pub line: DecisionLine,
    /// The messages of a call to a model.
    pub messages: Option<SentMessages>,
}

pub(super) fn call_span(run: &Run, call: &ToolCall) -> Span {
    let run_id = run.id().to_string();
    trace::call_span(&trace::Call {
        tool: call.tool().as_str(),
        call: call.id().as_str(),
        agent: run.agent(),
        run: &run_id,
        traceparent: call.traceparent(),
    })
}

/// A counted call that has not started.
pub(super) struct AdmittedCall {
    pub trip: Trip,
    pub sender: watch::Sender<Option<Answer>>,
    pub slot: shares::ShareSlot,
    pub turn: Option<InTurn>,
}

/// The result of `enter`.
pub(super) enum Entered {
    Ready(Box<AdmittedCall>),
    Known(Entry),
}

/// The result of `admit`.
pub(super) enum Entry {
    Wait(Listening),
    Recall(ToolCall),
    Answered(Box<Answer>),
}
