//! Replays of a whole recording: every call takes the same road, and the recording supplies
//! everything that surrounds the call.

use std::sync::Arc;

use async_trait::async_trait;

use crate::approval::break_glass::Open;
use crate::domain::call::ToolCall;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::outcome::Outcome;
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::judge::{Judged, Resumed};
use crate::policy::PolicyEngine;
use crate::policy::flow::TaintInput;
use crate::policy::input::{FirewallInput, PoolInput, RunFacts, ToolTrust};

/// A run that is being opened at a replaying gate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecordedOpening<'a> {
    /// The parent of the run, if it is a child.
    pub parent: Option<RunId>,
    /// SHA-256 of its manifest.
    pub manifest: Digest,
    /// The claims that distinguish it from other runs under that manifest, in the form of
    /// `run.opened`.
    pub claims: &'a Json,
}

/// The recorded run that a new run replays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedAgent {
    /// The seed of the recorded run, if it had one.
    pub seed: Option<Seed>,
    /// The recorded run whose id it takes. Of the runs without a parent, only the first takes it.
    pub run: Option<RunId>,
}

/// The run facts that the policy received when the call was recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedRunFacts {
    /// `input.run.calls`.
    pub calls: u64,
    /// `input.run.errors`.
    pub errors: u64,
    /// `input.history.denied`.
    pub denied: u64,
    /// `input.run.cost`.
    pub cost: u64,
    /// `input.pools`.
    pub pools: Vec<PoolInput>,
    /// `input.context.attested`.
    pub attested: std::collections::BTreeMap<String, String>,
    /// `input.taint`; `None`: the version of the input had none.
    pub taint: Option<TaintInput>,
    /// `input.tool.trust`.
    pub trust: Option<ToolTrust>,
    /// `input.firewall`; `None`: the input did not tell.
    pub searched: Option<FirewallInput>,
}

/// One recorded call, as it is judged again.
#[derive(Debug)]
pub struct RecordedStep {
    /// The recorded time, which the policy receives.
    pub now: Timestamp,
    /// The recorded run facts; `None` if no policy was evaluated.
    pub run_facts: Option<RecordedRunFacts>,
    /// The recorded refusals of limits, switches, executors and approvers.
    pub refusals: Vec<LayerReason>,
    /// The recorded approvals, if the call was held.
    pub resumed: Option<Resumed>,
    /// The break-glass order under which the call ran. It applies to this call only and opens
    /// nothing.
    pub break_glass: Option<Arc<Open>>,
    /// The bundle that decided, if it is not the one in force.
    pub engine: Option<Arc<dyn PolicyEngine>>,
}

/// Port to the recording being replayed. It loses nothing if an end is never reported; it only
/// waits.
#[async_trait]
pub trait ReplaySession: Send + Sync + 'static {
    /// SHA-256 of the recording.
    fn recording(&self) -> Digest;

    /// Matches a new run to a recorded run.
    ///
    /// # Errors
    /// The run is a child without a recorded counterpart; it is not opened.
    fn opened(&self, opening: &RecordedOpening<'_>) -> Result<RecordedAgent, LayerReason>;

    /// Matches this call to a recorded call. Waits while calls that ended earlier in the recording
    /// are still being answered.
    ///
    /// # Errors
    /// Why no recorded call matches; the call is refused.
    async fn recorded_call(&self, call: &ToolCall) -> Result<Box<RecordedStep>, LayerReason>;

    /// Reports a decision, which is not recorded yet.
    fn judged(&self, judged: &Judged);

    /// Reports that the call is over, with its outcome if it ran. Idempotent.
    fn over(&self, run: &RunId, call: &CallId, outcome: Option<&Outcome>);
}

impl RecordedStep {
    /// Puts the recorded run facts in place of the current ones.
    pub(super) fn replace_facts(&mut self, facts: &mut RunFacts) {
        let Some(recorded) = self.run_facts.take() else { return };
        let RecordedRunFacts {
            calls,
            errors,
            denied,
            cost,
            pools,
            attested,
            taint,
            trust,
            searched,
        } = recorded;
        (facts.calls, facts.errors, facts.denied, facts.cost) = (calls, errors, denied, cost);
        (facts.pools, facts.attested, facts.trust) = (pools, attested, trust);
        facts.searched = searched;
        facts.taint.recorded = Some(taint.unwrap_or_else(TaintInput::none));
    }
}
