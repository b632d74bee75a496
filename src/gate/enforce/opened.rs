//! The `run.opened` entry: what the gate knows about the run, and what the agent claims.

use super::delegate::Proof;
use super::opening::{Handle, Opening};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::identity::Caller;
use crate::identity::manifest::Mode;
use crate::policy::input::AgentFacts;
use crate::record::call::TaintLabel;
use crate::record::run::{Delegate, Delegator, Replay, RunOpened, Setting};
use crate::record::{List, TaggedDigest, Text, True};
use crate::telemetry::trace;

/// The runs above, in the form of `run.opened`; `None` if there are none.
fn delegation(agent: &AgentFacts) -> Option<List<Delegator, 16, 1>> {
    List::some(agent.delegation.iter().map(|above| Delegator {
        id: above.id.as_str().into(),
        manifest: TaggedDigest(above.manifest),
        run: above.run,
        version: above.version.as_str().into(),
    }))
}

/// The facts that `run.opened` states about a run.
pub(super) struct Opens<'a> {
    pub caller: &'a Caller,
    pub opening: &'a Opening,
    pub agent: &'a AgentFacts,
    pub mode: Mode,
    pub handle: &'a Handle,
    pub proof: Option<Proof>,
    pub expires: Option<Timestamp>,
}

impl Opens<'_> {
    pub(super) fn entry(
        &self,
        (replay, seed): (Option<Replay>, Option<Text>),
        taint: Option<List<TaintLabel, 4, 1>>,
    ) -> RunOpened {
        let Self { caller, opening, agent, handle, .. } = self;
        let manifest = &caller.manifest;
        let Claimed { labels, model, instructions } = claimed(opening);
        let (implicit, thread) = handle.thread_facts();
        let trace = opening.traceparent.as_deref().filter(|t| trace::valid_traceparent(t));
        let delegates = manifest.delegates.len();
        RunOpened {
            agent: manifest.name.as_str().into(),
            auth: (&caller.auth).into(),
            binding: agent.binding,
            delegate: self.proof.and_then(|proof| Delegate::parse(proof.as_str())),
            delegates: (delegates > 0).then(|| delegates.into()),
            delegation: delegation(agent),
            expires: self.expires,
            implicit,
            incognito: True::when(opening.incognito),
            instructions,
            labels,
            manifest: TaggedDigest(manifest.digest),
            mode: self.mode.as_str().into(),
            model,
            parent: agent.delegation.last().map(|parent| parent.run),
            replay,
            seed,
            taint,
            thread,
            token_hash: Some(handle.hash().hex().into()),
            traceparent: trace.map(Text::from),
            version: manifest.version.to_string().into(),
        }
    }
}

/// The agent's claims about itself.
#[derive(serde::Serialize)]
struct Claimed {
    instructions: List<Text>,
    labels: List<Setting>,
    model: Text,
}

fn claimed(opening: &Opening) -> Claimed {
    Claimed {
        instructions: opening.instructions.iter().take(16).map(|i| Text::clip(i, 80)).collect(),
        labels: opening.labels.iter().map(|(k, v)| Setting::of(k, v)).collect(),
        model: Text::clip(&opening.model, 128),
    }
}

/// The claims as one value; a replay finds the recorded run by it.
pub(super) fn claims(opening: &Opening) -> Json {
    Json::of(&claimed(opening))
}
