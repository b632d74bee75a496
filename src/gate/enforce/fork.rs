//! Forks: a run that continues a recorded one. Up to the fork point, its agent is answered from the
//! recording, and those answers are not calls of this run. From there on every call takes the road.
//!
//! The opening names the recording, the run and the step, and is recorded before anything is
//! answered. Nothing of the recording is executed, counted or decided again. A request that departs
//! from it before the fork point is a call of this run, and is denied.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::answer::{self, Answer, Fault};
use super::keeping::Keeping;
use super::{Opening, Road, Run};
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::outcome::Outcome;
use crate::domain::seed::Seed;
use crate::domain::taint::{Label, LabelOrigin};
use crate::domain::time::Timestamp;
use crate::identity::manifest::Manifest;

/// The origin of a forked run, as its opening states it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fork {
    /// SHA-256 of the recording.
    pub recording: Digest,
    /// The recorded run.
    pub run: RunId,
    /// The first step that the recording does not answer, counted from 1.
    pub at: u64,
    /// The manifest of both runs.
    pub manifest: Digest,
    /// The seed of the recorded run, if it had one; ids of repeated calls derive from it.
    pub seed: Option<Seed>,
    /// When the recorded run was opened; the agent may use it as the time.
    pub opened_at: Timestamp,
}

/// The answer that the agent received when the call was recorded.
#[derive(Clone, PartialEq, Debug)]
pub enum RecordedAnswer {
    /// The call ran and ended with this outcome, which brought these labels into the recorded run.
    Ended(Outcome, Option<RecordedLabels>),
    /// The call was denied or not approved.
    Denied(Vec<LayerReason>),
}

/// What the answer of a recorded call brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedLabels {
    /// The recorded call.
    pub call: CallId,
    /// Its labels.
    pub labels: Vec<Label>,
}

/// Port to the recordings that agents may name when they open a run.
#[async_trait]
pub trait Recordings: Send + Sync + 'static {
    /// The steps of this recording before step `at`, for one run.
    ///
    /// # Errors
    /// The reason no run may continue from there, for a human reader.
    async fn fork_prefix(&self, recording: &Digest, at: u64)
    -> Result<Arc<dyn ForkPrefix>, String>;
}

/// Port to the recorded prefix of a forked run.
pub trait ForkPrefix: Send + Sync + std::fmt::Debug + 'static {
    /// The origin of the run.
    fn fork(&self) -> Fork;

    /// The labels that its answers bring, each with the recorded call that brought it first.
    fn labels(&self) -> BTreeMap<Label, LabelOrigin>;

    /// Claims the prefix for one run; false if another run has claimed it.
    fn begin(&self) -> bool;

    /// Notifies the prefix that the run is recorded.
    fn opened(&self, run: &RunId);

    /// The recorded answer to this call; `None` if the prefix is exhausted and the call is the
    /// run's own.
    ///
    /// # Errors
    /// The call departs from the recording before the fork point. It is refused, and so is every
    /// later call.
    fn next(&self, call: &ToolCall) -> Result<Option<RecordedAnswer>, LayerReason>;

    /// The answer that this call received from the prefix, if any.
    fn recorded_answer(&self, call: &CallId) -> Option<RecordedAnswer>;
}

impl Road {
    /// The recording's answer to this call of a forked run. `None` if the call is the run's own or
    /// is recorded already.
    pub(super) fn answer_from_fork(
        &self,
        run: &Run,
        call: &ToolCall,
    ) -> Option<Result<Answer, LayerReason>> {
        let prefix = run.keeping.fork_prefix()?;
        let receipt = run.keeping.opening()?;
        let (known, suspended) = {
            let state = run.state.lock();
            (state.calls.contains_key(call.id()), state.suspended)
        };
        // A run that is over is refused at admission.
        let over = run.is_over() || run.expires.is_some_and(|end| end <= self.clock.now());
        if known || over {
            return None;
        }
        let mut against: Vec<LayerReason> = self.stopped_answer(run, call).into_iter().collect();
        against.extend(suspended.then(|| {
            LayerReason::effect_refused("replay", "replay.suspended", "the run was suspended")
        }));
        if let Some(reason) = against.into_iter().next() {
            return Some(Err(reason));
        }
        match prefix.next(call).transpose()? {
            Ok(line) => {
                self.brought_again(run, &line);
                run.touch(self.clock.monotonic());
                Some(Ok(answer::of_recorded(call.id(), line, receipt)))
            }
            Err(drift) => Some(Err(drift)),
        }
    }
}

impl Run {
    /// The answer that the run's fork prefix gave to a call of this id.
    pub(super) fn recorded(&self, call: &CallId) -> Option<Answer> {
        let receipt = self.keeping.opening()?;
        let line = self.keeping.fork_prefix()?.recorded_answer(call)?;
        Some(answer::of_recorded(call, line, receipt))
    }
}

/// Claims the prefix for a new run, if the opening fits the recording.
pub(super) fn begin(
    prefix: Arc<dyn ForkPrefix>,
    opening: &Opening,
    manifest: &Manifest,
) -> Result<Keeping, Fault> {
    let fork = prefix.fork();
    let named = &opening.recording;
    if !named.is_empty() && Digest::parse(named) != Some(fork.recording) {
        let message = format!("this gate continues from `{}`", fork.recording.prefixed());
        return refuse("run.recording", message);
    }
    if ![0, fork.at].contains(&opening.fork_at) {
        return refuse("run.fork_at", format!("this gate continues from step {}", fork.at));
    }
    if manifest.digest != fork.manifest {
        let under = fork.manifest.prefixed();
        let message = format!("the recorded run was opened under the manifest `{under}`");
        return refuse("run.manifest", message);
    }
    if opening.incognito {
        let message = "a run of which nothing is stored cannot go on from a recording";
        return refuse("run.recording", message);
    }
    if !prefix.begin() {
        let message = "one run goes on from the recording, and it was opened already";
        return refuse("run.recording", message);
    }
    Ok(Keeping::forked(prefix))
}

pub(super) fn refuse<T>(detail: &str, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(Code::RequestMalformed, message).detail(detail))
}
