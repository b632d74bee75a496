//! What a gate that replays a recording knows of a call before it is judged: the road is the same, and the
//! world beside it is the recorded one.

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
use crate::policy::input::{PoolInput, RunFacts};

/// A run that is to be opened at a replaying gate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecordedOpening<'a> {
    /// The run it is a child of.
    pub parent: Option<RunId>,
    /// SHA-256 of its manifest.
    pub manifest: Digest,
    /// What tells it from others under that manifest, in the words of `run.opened`.
    pub claims: &'a Json,
}

/// The recorded run that it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedAgent {
    /// The seed of the recorded run, if it had one.
    pub seed: Option<Seed>,
    /// The recorded run, whose id it has; of a run without a parent only the first has it.
    pub run: Option<RunId>,
}

/// What a policy was told of the run when the call was recorded.
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
}

/// One recorded call, as it is brought before the judge again.
#[derive(Debug)]
pub struct RecordedStep {
    /// The time the policy is told.
    pub now: Timestamp,
    /// What it was told of the run; `None` if no policy was asked.
    pub told: Option<RecordedRunFacts>,
    /// What limits, switches and executors said against the call, or approvers.
    pub refusals: Vec<LayerReason>,
    /// Who approved it, if it was held.
    pub resumed: Option<Resumed>,
    /// The break-glass order under which it ran. It stands for this call alone, and opens nothing.
    pub break_glass: Option<Arc<Open>>,
    /// The bundle that decided, if it is not the one in force.
    pub engine: Option<Arc<dyn PolicyEngine>>,
}

/// The port to a recording that is replayed. Nothing is lost if it is never told an end: it only waits.
#[async_trait]
pub trait ReplaySession: Send + Sync + 'static {
    /// SHA-256 of the recording.
    fn recording(&self) -> Digest;

    /// A run is opened.
    ///
    /// # Errors
    /// It is a child, and no recorded one: it is not opened.
    fn opened(&self, entrance: &RecordedOpening<'_>) -> Result<RecordedAgent, LayerReason>;

    /// Finds the recorded call this one is. Waits while calls that ended before it in the recording are
    /// being answered.
    ///
    /// # Errors
    /// Why it is none: the call is refused.
    async fn cue(&self, call: &ToolCall) -> Result<Box<RecordedStep>, LayerReason>;

    /// A decision was made; it is not on the books yet.
    fn judged(&self, judged: &Judged);

    /// The call is over, and how it ended if it ran. Told again, it changes nothing.
    fn over(&self, run: &RunId, call: &CallId, outcome: Option<&Outcome>);
}

impl RecordedStep {
    /// What the policy is told of the run, as it was recorded.
    pub(super) fn tell(&mut self, facts: &mut RunFacts) {
        let Some(told) = self.told.take() else { return };
        let RecordedRunFacts { calls, errors, denied, cost, pools, attested } = told;
        (facts.calls, facts.errors, facts.denied, facts.cost) = (calls, errors, denied, cost);
        (facts.pools, facts.attested) = (pools, attested);
    }
}
