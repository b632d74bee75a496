//! Takes one call to the judge: prepares it and collects every reason against it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::conversations::JudgementBasis;
use super::trip::CallSight;
use super::{Road, Trip};
use crate::approval::PasskeyScope;
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::{Course, LayerReason, PolicyObligation};
use crate::domain::effect::ToolKind;
use crate::domain::id::CallId;
use crate::domain::tier::Binding;
use crate::judge::conversation::ModelArgs;
use crate::judge::guarding::Direction;
use crate::judge::{
    ArgumentMasks, Criteria, HoldCapacity, Judged, Prepared, RateCapacity, Remade, Resumed, judge,
};
use crate::limits::shares;
use crate::policy::PolicyEngine;
use crate::policy::input::AgentFacts;
use crate::telemetry::Stage;
use crate::tool::toolbox::{self, Toolbox};
use crate::tool::{Cancel, screen};

impl Road {
    /// Prepares a call and has it judged. In a replay the recording supplies everything that
    /// surrounds the call.
    pub(super) async fn judge(
        self: &Arc<Self>,
        trip: Trip,
        resumed: Option<Resumed>,
        toolbox: &Arc<Toolbox>,
    ) -> Judged {
        let Trip { run, call, refusals, mut facts, span, cancel, asked_by, sight, .. } = trip;
        let tool = call.tool().clone();
        // WHY before preparation: only after this match does the recording know which of its calls
        // is being prepared.
        let recorded = self.replaying.recorded_step(&call).await;
        let replayed = recorded.as_ref().and_then(|step| step.as_ref().ok()?.engine.clone());
        let engine = replayed.or_else(|| self.in_force.engine());
        let preparing = async {
            let model = self.messages(&run, &call, engine.as_ref(), toolbox);
            self.prepared(&run, toolbox, call, (model, Vec::new()))
        };
        let prepared = self.timed(&span, Stage::Prepare, preparing).await;
        let passkeys = recorded.as_ref().map_or(self.settings.passkeys, |_| PasskeyScope::All);
        let mut against = self.against(&run, &prepared, &cancel);
        facts.taint = self.taint_of(&run, &prepared);
        let prepared = self.after_reading(&run, prepared);
        let (mut now, mut resumed, mut break_glass) = (self.clock.now(), resumed, None);
        // WHY: in a replay calls follow each other at another pace, and the recording says what was one too many.
        // The gate's own calls count for no rate of a policy.
        let is_live = recorded.is_none() && !prepared.call().is_of_gate();
        match recorded {
            None => {
                against.extend(Resumed::masked_since(resumed.as_ref(), &prepared, &refusals));
                against.extend(refusals);
                break_glass = self.control.break_glass.open_for(&run.agent.id, &tool);
                facts.trust = prepared.tool().and_then(|tool| self.ledger.tool_trust(tool, now));
            }
            Some(Err(drift)) => against.push(drift),
            Some(Ok(mut step)) => {
                step.replace_facts(&mut facts);
                against.extend(beyond(step.refusals, &prepared));
                now = step.now;
                resumed = step.resumed.or(resumed);
                break_glass = step.break_glass;
            }
        }
        let (road, hold) = (Arc::clone(self), self.settings.hold);
        let toolbox = Arc::clone(toolbox);
        let apart = self.settings.judge_apart && prepared.is_ready();
        let judging = move || {
            let id = prepared.call().id().clone();
            let capacity = || road.hold_place(&run, &id);
            let rates = |duties: &[PolicyObligation]| {
                is_live.then(|| run.take_rate((&tool, &id), duties, now))?
            };
            let masks = road.masks(&run, &toolbox, is_live);
            let criteria = Criteria {
                engine: engine.as_ref(),
                agent: &seen(&run.agent, &sight),
                run: &facts,
                refusals: against,
                now,
                hold,
                kept: !run.incognito,
                room: HoldCapacity(&capacity),
                rates: RateCapacity(&rates),
                masks: ArgumentMasks(&masks),
                resumed,
                break_glass,
                asked_by,
                proposed_by: sight.proposed_by,
                passkeys,
            };
            let began = road.clock.monotonic();
            road.counted(judge_messages(&criteria, prepared), began)
        };
        self.evaluated(apart, &span, judging).await
    }

    async fn evaluated(
        &self,
        apart: bool,
        span: &Span,
        judging: impl FnOnce() -> Judged + Send + 'static,
    ) -> Judged {
        let judging = async {
            match apart {
                false => judging(),
                true => self.in_force.evaluation.evaluate(&self.clock, judging).await,
            }
        };
        let judged = self.timed(span, Stage::Judge, judging).await;
        self.noted(judged)
    }

    /// Tells a replay of the decision, and operators of a call that went ahead by break-glass.
    fn noted(&self, judged: Judged) -> Judged {
        self.replaying.judged(&judged);
        self.broke_glass(&judged);
        judged
    }

    /// Reserves a place among the held calls, or says why there is none. It visits every open run.
    fn hold_place(&self, run: &super::Run, call: &CallId) -> Option<LayerReason> {
        let (most, all) = (self.settings.pending_max, self.settings.pending_all_max);
        let (agents, held) = (self.in_force.agents(), self.runs.held_by());
        run.hold_place(call, most, shares::may(all, agents, &held, &run.opener.name))
    }

    fn broke_glass(&self, judged: &Judged) {
        if let Some(open) = judged.break_glass().filter(|_| !self.replaying.is_whole()) {
            tracing::warn!(tool = %judged.prepared().call().tool(), nonce = %open.statement.nonce, "break-glass: a call went ahead without an approver");
            self.metrics.broke_glass();
        }
    }

    /// The messages of a call to a model, compared with those that the run sent before.
    fn messages(
        &self,
        run: &super::Run,
        call: &ToolCall,
        engine: Option<&Arc<dyn PolicyEngine>>,
        toolbox: &Toolbox,
    ) -> Option<ModelArgs> {
        let facts = &toolbox.get(call.tool())?.facts;
        let (policy, definition) = (engine?.digest(), facts.definition);
        let basis = JudgementBasis::of(call, definition, policy);
        let is_model = facts.kind == ToolKind::Model.as_str();
        let mut said = is_model.then(|| run.models.conversations.lock())?;
        said.compare(&*self.entropy, call, basis, !run.incognito)
    }

    /// Makes a call anew with what the policy wants masked.
    fn masks(
        &self,
        run: &super::Run,
        toolbox: &Toolbox,
        is_live: bool,
    ) -> impl Fn(&Criteria<'_>, Prepared, Vec<String>) -> Remade {
        move |criteria, prepared, kinds| {
            let (call, model) = prepared.back_to_call();
            let prepared = self.prepared(run, toolbox, call, (model, kinds));
            let (held, against) = (criteria.resumed.as_ref(), &criteria.refusals);
            let refusal = is_live.then(|| Resumed::masked_since(held, &prepared, against));
            let taint = self.taint_of(run, &prepared);
            let prepared = self.after_reading(run, prepared);
            Remade { prepared, taint, refusal: refusal.flatten() }
        }
    }

    fn after_reading(&self, run: &super::Run, prepared: Prepared) -> Prepared {
        prepared.after_reading(self.runs.marker.private(&run.taint.lock()))
    }

    /// Searches a call, measures how long that takes, and prepares it. `demanded`: the kinds that the policy wants
    /// masked.
    fn prepared(
        &self,
        run: &super::Run,
        toolbox: &Toolbox,
        call: ToolCall,
        (model, demanded): (Option<ModelArgs>, Vec<String>),
    ) -> Prepared {
        let began = self.clock.monotonic();
        let (grant, exceptions) = (run.granted(call.tool()), self.exceptions(call.tool()));
        let screened = screen(toolbox, call, model, (&exceptions, demanded));
        self.metrics.searched(self.clock.monotonic().saturating_sub(began));
        toolbox::prepare(toolbox, grant.as_deref(), screened)
    }

    /// Counts the decision in the metrics; `began` is when the judge did.
    fn counted(&self, judged: Judged, began: Duration) -> Judged {
        let took = self.clock.monotonic().saturating_sub(began);
        let decision = judged.decision();
        let is_model =
            judged.prepared().tool().is_some_and(|tool| tool.kind == ToolKind::Model.as_str());
        let direction = if is_model { Direction::Prompts } else { Direction::Arguments };
        self.metrics.found(direction.as_str(), &judged.prepared().screening().findings);
        let failed = decision.reasons.iter().any(|reason| reason.code == Code::PolicyError);
        // A call that was refused earlier never reached the policy.
        if failed || decision.input.is_some() {
            self.metrics.decision(took, failed);
        }
        if decision.course() == Course::Refuse
            && let Some(reason) = decision.reasons.first()
        {
            self.metrics.denied(reason.code.as_str());
        }
        judged
    }

    /// The reasons of operators' stops, of the configuration and of the agent's isolation against
    /// the call.
    fn against(&self, run: &super::Run, prepared: &Prepared, cancel: &Cancel) -> Vec<LayerReason> {
        let mut against = self.stopped(run, prepared, cancel);
        against.extend(self.in_force.now().agents.against(run));
        against.extend(self.control.posture.against(&run.opener.name, &run.auth));
        against
    }
}

/// The agent, as far as it is known for this call.
fn seen<'a>(agent: &'a AgentFacts, sight: &CallSight) -> Cow<'a, AgentFacts> {
    if !sight.is_observed() {
        return Cow::Borrowed(agent);
    }
    Cow::Owned(AgentFacts { binding: Binding::Observed, ..agent.clone() })
}

/// Judges what is new to the run; and the whole conversation if the call is to be held, or if what
/// is new gives fewer obligations than the messages before it had.
fn judge_messages(criteria: &Criteria<'_>, prepared: Prepared) -> Judged {
    // WHY: approvers decide about the whole call, and what is new to the run changes while it waits.
    if criteria.resumed.is_some() {
        return judge(criteria, prepared.showing_all());
    }
    let judged = judge(criteria, prepared);
    let again = |model: &Arc<ModelArgs>| match judged.decision().course() {
        Course::Refuse => false,
        Course::Wait => true,
        Course::Run => model.lacks(judged.decision()),
    };
    if !judged.prepared().model().is_some_and(again) {
        return judged;
    }
    let (prepared, _) = judged.into_parts();
    judge(criteria, prepared.showing_all())
}

/// The recorded reasons that the preparation does not give by itself.
fn beyond(recorded: Vec<LayerReason>, prepared: &Prepared) -> impl Iterator<Item = LayerReason> {
    recorded.into_iter().filter(|reason| !prepared.refusals().contains(reason))
}
