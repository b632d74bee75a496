//! The environment of a replay: tools that answer from the recording and reach nothing, and its
//! clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::answer;
use super::player::Player;
use super::recording::Recording;
use crate::catalog::model::ModelFace;
use crate::clock::{Clock, SystemClock};
use crate::domain::call::ToolCall;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::outcome::{FailureClass, Outcome, Unmasked};
use crate::domain::time::Timestamp;
use crate::judge::prepared::PreparedResource;
use crate::ledger::flow::Flow;
use crate::ledger::permit::Permit;
use crate::tool::ToolExecutor;
use crate::tool::scrub::Scrub;
use crate::tool::toolbox::{Toolbox, described};

/// The wall clock of a recording: the time of the latest call made again.
#[derive(Debug)]
pub struct RecordedClock {
    wall: AtomicI64,
    monotonic: SystemClock,
}

impl RecordedClock {
    /// A clock at this time.
    pub fn at(time: Timestamp) -> Self {
        Self { wall: AtomicI64::new(time.millis()), monotonic: SystemClock::new() }
    }

    /// Sets the clock forward to this time; never back.
    pub fn advance(&self, to: Timestamp) {
        self.wall.fetch_max(to.millis(), Ordering::AcqRel);
    }
}

impl Clock for RecordedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::Acquire))
    }

    fn monotonic(&self) -> Duration {
        self.monotonic.monotonic()
    }
}

/// The executor behind every tool of a replay.
struct ReplayExecutor {
    player: Arc<Player>,
    /// How agents may ask the tool in dialects, if it is a model that they may ask so.
    face: Option<ModelFace>,
}

#[async_trait]
impl ToolExecutor for ReplayExecutor {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let step = self.player.step_of(call.run(), call.id());
        let input = step.as_ref().and_then(|step| step.input.as_ref());
        let Some((effect, input)) = input.and_then(|i| Some((i.document.effect.clone()?, i)))
        else {
            return Ok((Effect::None, Box::new(())));
        };
        let findings = input.document.findings.clone();
        Ok((Effect::Recorded { effect, findings }, Box::new(())))
    }

    fn model_face(&self) -> Option<&ModelFace> {
        self.face.as_ref()
    }

    async fn stream(&self, permit: &Permit, flow: Flow<'_>, _: &Scrub) -> Unmasked {
        match &self.face {
            Some(face) => answer::play(&self.player, face, permit, flow).await,
            None => self.execute(permit).await,
        }
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        let call = permit.call();
        let step = self.player.step_of(call.run(), call.id());
        step.and_then(|step| step.outcome()).map(Outcome::again).unwrap_or_else(|| {
            Unmasked::Failed {
                class: FailureClass::NotStarted,
                started: false,
                message: "the recording has no outcome of this call".into(),
            }
        })
    }
}

/// The tools that the agent was shown, answering from the recording.
///
/// # Errors
/// The recording has an invalid tool.
pub fn toolbox(recording: &Recording, player: &Arc<Player>) -> Result<Toolbox, String> {
    let executor = |face| {
        Arc::new(ReplayExecutor { player: Arc::clone(player), face }) as Arc<dyn ToolExecutor>
    };
    let tools = described::read(&recording.tools, &executor)?;
    Ok(Toolbox::of(tools, Scrub::new(&[])))
}
