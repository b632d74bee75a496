//! A run that goes on where a recorded one is left: what its agent is answered up to there is read from the
//! recording and is no call of this run. From there on every call walks the road.
//!
//! Its opening says which recording, which run and which step, and is on the books before anything is
//! answered. Nothing of the recording is executed, counted or decided here; what departs from it before that
//! step is a call, and is denied.

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
use crate::domain::time::Timestamp;
use crate::identity::manifest::Manifest;
use crate::tool::Cancel;

/// Where a run comes from: what its opening says of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fork {
    /// SHA-256 of the recording.
    pub recording: Digest,
    /// The recorded run.
    pub run: RunId,
    /// The first step that is not answered from the recording, from 1.
    pub at: u64,
    /// The manifest of both runs.
    pub manifest: Digest,
    /// The seed of the recorded run, if it had one: what its agent does again derives from it.
    pub seed: Option<Seed>,
    /// What the agent may take for the time: when the recorded run was opened.
    pub opened_at: Timestamp,
}

/// What the agent was answered when the call was recorded.
#[derive(Clone, PartialEq, Debug)]
pub enum RecordedAnswer {
    /// It ran, and ended like this.
    Ended(Outcome),
    /// It was denied, or nobody approved it.
    Denied(Vec<LayerReason>),
}

/// The port to the recordings that agents may name when they open a run.
#[async_trait]
pub trait Recordings: Send + Sync + 'static {
    /// The steps of this recording before step `at`, for one run.
    ///
    /// # Errors
    /// Why no run goes on from there, for a person.
    async fn prologue(&self, recording: &Digest, at: u64) -> Result<Arc<dyn ForkPrefix>, String>;
}

/// The port to the recording that a run goes on from.
pub trait ForkPrefix: Send + Sync + std::fmt::Debug + 'static {
    /// Where the run comes from.
    fn fork(&self) -> Fork;

    /// One run begins with it; false: another one did.
    fn begin(&self) -> bool;

    /// The run is on the books.
    fn opened(&self, run: &RunId);

    /// What the agent was answered to this call; `None`: everything before the fork was answered, and the
    /// call is the run's own.
    ///
    /// # Errors
    /// It is not what the agent did then, before the fork: the call is refused, and so is every later one.
    fn next(&self, call: &ToolCall) -> Result<Option<RecordedAnswer>, LayerReason>;

    /// What was answered to this call, if it was.
    fn told(&self, call: &CallId) -> Option<RecordedAnswer>;
}

impl Road {
    /// What the recording answers to this call of a run that goes on from it; `None`: the call is the run's
    /// own, or on the books already.
    pub(super) fn prologue(
        &self,
        run: &Run,
        call: &ToolCall,
    ) -> Option<Result<Answer, LayerReason>> {
        let prologue = run.keeping.prologue()?;
        let receipt = run.keeping.opening()?;
        let (known, suspended) = {
            let state = run.state.lock();
            (state.calls.contains_key(call.id()), state.suspended)
        };
        // A run that is over says so itself.
        let over = run.is_over() || run.expires.is_some_and(|end| end <= self.clock.now());
        if known || over {
            return None;
        }
        let mut against = self.stopped(run, call.tool(), &Cancel::default());
        against.extend(suspended.then(|| {
            LayerReason::effect_refused("replay", "replay.suspended", "the run was suspended")
        }));
        if let Some(reason) = against.into_iter().next() {
            return Some(Err(reason));
        }
        match prologue.next(call).transpose()? {
            Ok(line) => {
                run.touch(self.clock.monotonic());
                Some(Ok(answer::of_recorded(call.id(), line, receipt)))
            }
            Err(drift) => Some(Err(drift)),
        }
    }
}

impl Run {
    /// What the recording that the run goes on from answered to a call of this id.
    pub(super) fn recorded(&self, call: &CallId) -> Option<Answer> {
        let receipt = self.keeping.opening()?;
        let line = self.keeping.prologue()?.told(call)?;
        Some(answer::of_recorded(call, line, receipt))
    }
}

/// One run begins with these steps, if it is one that may.
pub(super) fn begin(
    prologue: Arc<dyn ForkPrefix>,
    opening: &Opening,
    manifest: &Manifest,
) -> Result<Keeping, Fault> {
    let fork = prologue.fork();
    let named = &opening.recording;
    if !named.is_empty() && Digest::parse(named) != Some(fork.recording) {
        let message = format!("this gate goes on from `{}`", fork.recording.prefixed());
        return refuse("run.recording", message);
    }
    if ![0, fork.at].contains(&opening.fork_at) {
        return refuse("run.fork_at", format!("this gate goes on from step {}", fork.at));
    }
    if manifest.digest != fork.manifest {
        let under = fork.manifest.prefixed();
        let message = format!("the recorded run is one under the manifest `{under}`");
        return refuse("run.manifest", message);
    }
    if opening.incognito {
        let message = "a run of which nothing is stored cannot go on from a recording";
        return refuse("run.recording", message);
    }
    if !prologue.begin() {
        let message = "one run goes on from the recording, and it was opened already";
        return refuse("run.recording", message);
    }
    Ok(Keeping::forked(prologue))
}

pub(super) fn refuse<T>(detail: &str, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(Code::RequestMalformed, message).detail(detail))
}
