//! What a gate replays: a whole recording, the prefix of one run, or nothing.

use std::sync::Arc;

use super::fork::{ForkPrefix, Recordings, begin, refuse};
use super::keeping::{Keeping, REPLAY};
use super::opened::claims;
use super::replay_session::{RecordedOpening, RecordedStep, ReplaySession};
use super::run::Run;
use super::{Opening, answer::Fault};
use crate::clock::Entropy;
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::outcome::Outcome;
use crate::domain::seed::Seed;
use crate::identity::manifest::{Keep, Manifest};
use crate::judge::Judged;
use crate::record::decided::clip;

/// The recordings of a gate. By default there are none.
#[derive(Clone, Default)]
pub struct Replaying {
    /// The recording that is replayed as a whole; the gate takes everything around its calls from
    /// it.
    pub whole: Option<Arc<dyn ReplaySession>>,
    /// The recorded prefix that one run continues from.
    pub fork: Option<Arc<dyn ForkPrefix>>,
    /// The recordings that agents may name as the origin of a fork.
    pub recordings: Option<Arc<dyn Recordings>>,
}

impl std::fmt::Debug for Replaying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, fork) = (self.whole.is_some(), self.fork.is_some());
        f.debug_struct("Replaying")
            .field("whole", &whole)
            .field("fork", &fork)
            .finish_non_exhaustive()
    }
}

impl Replaying {
    /// Whether the gate replays a whole recording.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The recorded step of this call; `None` if the gate replays nothing.
    pub(super) async fn recorded_step(
        &self,
        call: &ToolCall,
    ) -> Option<Result<Box<RecordedStep>, LayerReason>> {
        Some(self.whole.as_ref()?.recorded_call(call).await)
    }

    /// Reports a decision to the replay session.
    pub(super) fn judged(&self, judged: &Judged) {
        if let Some(whole) = &self.whole {
            whole.judged(judged);
        }
    }

    /// Reports the end of a call to the replay session.
    pub(super) fn over(&self, run: &RunId, call: &CallId, outcome: Option<&Outcome>) {
        if let Some(whole) = &self.whole {
            whole.over(run, call, outcome);
        }
    }

    /// What is kept of the run being opened: as its manifest requires, or more if the agent asks
    /// for it.
    pub(super) async fn keeping(
        &self,
        entropy: &dyn Entropy,
        opening: &Opening,
        manifest: &Manifest,
        parent: Option<&Run>,
    ) -> Result<Keeping, Fault> {
        let asked = match Keep::parse(&opening.replay) {
            Some(keep) => keep,
            None if opening.replay.is_empty() => Keep::Nothing,
            None => {
                let mode = clip(&opening.replay, 32);
                let message = format!("replay `{mode}` is neither `record` nor `deterministic`");
                return refuse("run.replay", message);
            }
        };
        if let Some(whole) = &self.whole {
            return replayed(&**whole, opening, manifest, parent);
        }
        if let Some(forked) = self.forking(opening, manifest).await? {
            return Ok(forked);
        }
        if opening.mode == REPLAY || !opening.recording.is_empty() {
            let message = "this gate replays no whole recording; `wicketgate run replay` starts one that \
                           does";
            return refuse("run.mode", message);
        }
        let keep = asked.max(manifest.replay.keep);
        if keep != Keep::Nothing && opening.incognito {
            let message = "a run of which nothing is stored cannot be recorded";
            return refuse("run.replay", message);
        }
        let seed = (keep == Keep::Deterministic).then(|| {
            let mut bytes = [0_u8; 8];
            entropy.fill(&mut bytes);
            Seed::from_random(bytes)
        });
        Ok(Keeping::of(keep, seed))
    }

    /// What is kept of the run being opened, if it continues from a recording: that of the gate, or
    /// one that its agent names. A child run never does.
    async fn forking(
        &self,
        opening: &Opening,
        manifest: &Manifest,
    ) -> Result<Option<Keeping>, Fault> {
        let at = opening.fork_at;
        if opening.parent.is_some() {
            return match at {
                0 => Ok(None),
                _ => refuse("run.fork_at", "a child run goes on from no recording"),
            };
        }
        if let Some(prefix) = &self.fork {
            return begin(Arc::clone(prefix), opening, manifest).map(Some);
        }
        if at == 0 {
            return Ok(None);
        }
        let Some(recordings) = &self.recordings else {
            let message = "no run goes on from a recording here: `replay.recordings` names none";
            return refuse("run.fork_at", message);
        };
        let Some(recording) = Digest::parse(&opening.recording).filter(|_| opening.mode == REPLAY)
        else {
            let message = "a run goes on with mode `replay` and from the recording it names";
            return refuse("run.recording", message);
        };
        let prefix = recordings.fork_prefix(&recording, at).await;
        let prefix = prefix.or_else(|why| refuse("run.recording", why))?;
        begin(prefix, opening, manifest).map(Some)
    }
}

/// What is kept of a run at a gate that replays a whole recording: that of the matching recorded
/// run.
fn replayed(
    whole: &dyn ReplaySession,
    opening: &Opening,
    manifest: &Manifest,
    parent: Option<&Run>,
) -> Result<Keeping, Fault> {
    if opening.fork_at > 0 {
        return refuse("run.fork_at", "this gate replays all of the recording");
    }
    let (named, recording) = (&opening.recording, whole.recording());
    if !named.is_empty() && Digest::parse(named) != Some(recording) {
        let message = format!("this gate replays `{}` and no other", recording.prefixed());
        return refuse("run.recording", message);
    }
    let opened = RecordedOpening {
        parent: parent.map(|parent| parent.id),
        manifest: manifest.digest,
        claims: &claims(opening),
    };
    let agent = whole.opened(&opened);
    let agent = agent
        .map_err(|drift| Fault::new(Code::EffectRefused, drift.message).detail(drift.detail))?;
    Ok(Keeping::replayed(recording, agent))
}
