//! Takes one call to the judge: prepares it and collects every reason against it.

use std::sync::Arc;
use std::time::Duration;

use super::{Road, Trip};
use crate::domain::code::Code;
use crate::domain::decision::Course;
use crate::domain::id::ToolName;
use crate::judge::{Criteria, HoldCapacity, Judged, Resumed, judge};
use crate::limits::shares;
use crate::telemetry::Stage;
use crate::tool::Cancel;
use crate::tool::toolbox::{self, Toolbox};

impl Road {
    /// Prepares a call and has it judged. In a replay the recording supplies everything that
    /// surrounds the call.
    pub(super) async fn judge(
        self: &Arc<Self>,
        trip: Trip,
        resumed: Option<Resumed>,
        toolbox: &Toolbox,
    ) -> Judged {
        let Trip { run, call, refusals, mut facts, span, cancel, asked_by, .. } = trip;
        let tool = call.tool().clone();
        // WHY before preparation: only after this match does the recording know which of its calls
        // is being prepared.
        let recorded = self.replaying.recorded_step(&call).await;
        let grant = run.grants.get(call.tool());
        let preparing = async { toolbox::prepare(toolbox, grant, call) };
        let prepared = self.timed(&span, Stage::Prepare, preparing).await;
        let mut against = self.against(&run, &tool, &cancel);
        let (mut engine, mut now, mut resumed) =
            (self.in_force.engine(), self.clock.now(), resumed);
        let mut break_glass = None;
        match recorded {
            None => {
                against.extend(refusals);
                break_glass = self.control.break_glass.open_for(&run.agent.id, &tool);
            }
            Some(Err(drift)) => against.push(drift),
            Some(Ok(mut step)) => {
                step.replace_facts(&mut facts);
                let refused = |reason: &_| prepared.refusals().contains(reason);
                against.extend(step.refusals.into_iter().filter(|reason| !refused(reason)));
                now = step.now;
                resumed = step.resumed.or(resumed);
                break_glass = step.break_glass;
                engine = step.engine.or(engine);
            }
        }
        let (refusals, settings) = (against, &self.settings);
        let (hold, apart) = (settings.hold, settings.judge_apart && prepared.is_ready());
        let (most, all) = (settings.pending_max, settings.pending_all_max);
        let road = Arc::clone(self);
        let judging = move || {
            let id = prepared.call().id().clone();
            // Evaluated only for a call that is about to be held, because it visits every open run.
            let capacity = || {
                let (agents, held) = (road.in_force.agents(), road.runs.held_by());
                run.hold_place(&id, most, shares::may(all, agents, &held, &run.opener.name))
            };
            let criteria = Criteria {
                engine: engine.as_ref(),
                agent: &run.agent,
                run: &facts,
                refusals,
                now,
                hold,
                kept: !run.incognito,
                room: HoldCapacity(&capacity),
                resumed,
                break_glass,
                asked_by,
            };
            let began = road.clock.monotonic();
            let judged = judge(&criteria, prepared);
            road.counted(&judged, road.clock.monotonic().saturating_sub(began));
            judged
        };
        let judging = async {
            if apart {
                self.in_force.evaluation.evaluate(&self.clock, judging).await
            } else {
                judging()
            }
        };
        let judged = self.timed(&span, Stage::Judge, judging).await;
        self.replaying.judged(&judged);
        if let Some(open) = judged.break_glass().filter(|_| !self.replaying.is_whole()) {
            tracing::warn!(tool = %judged.prepared().call().tool(), nonce = %open.statement.nonce, "break-glass: a call went ahead without an approver");
            self.metrics.broke_glass();
        }
        judged
    }

    /// Counts the decision in the metrics; `took` is the time of the judge.
    fn counted(&self, judged: &Judged, took: Duration) {
        let decision = judged.decision();
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
    }

    /// The reasons of operators' stops, of the configuration and of the agent's isolation against
    /// the call.
    fn against(
        &self,
        run: &super::Run,
        tool: &ToolName,
        cancel: &Cancel,
    ) -> Vec<crate::domain::decision::LayerReason> {
        let mut against = self.stopped(run, tool, cancel);
        against.extend(self.in_force.now().agents.against(run));
        against.extend(self.control.posture.against(&run.opener.name, &run.auth));
        against
    }
}
