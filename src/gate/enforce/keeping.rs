//! What is kept of a run for a replay: the tools its agent saw, and a seed for the ids minted for
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::RecordedAgent;
use super::fork::{Fork, ForkPrefix};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::identity::lineage::Grants;
use crate::identity::manifest::Keep;
use crate::ledger::permit::Receipt;
use crate::record::run::{Replay, ReplayMode};
use crate::record::{TaggedDigest, Text};
use crate::tool::toolbox::{Toolbox, described};

/// The mode of a run that is answered from a recording (`OpenRunRequest.mode`,
/// `run.opened.replay.mode`).
pub(super) const REPLAY: &str = "replay";

/// What is kept of one run, and the recording it replays or forks from.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    keep: Keep,
    /// The recording that the run replays.
    recording: Option<Digest>,
    seed: Option<Seed>,
    /// The id that the run must have.
    pub run: Option<RunId>,
    /// The fork point, and the recorded prefix before it.
    fork: Option<(Fork, Arc<dyn ForkPrefix>)>,
    /// For a fork, the receipt of the recorded opening.
    opening: OnceLock<Receipt>,
    /// How often each call was given an id.
    minted: Mutex<BTreeMap<Digest, u64>>,
}

impl Keeping {
    /// The seed of all ids minted for the run.
    pub const fn seed(&self) -> Option<Seed> {
        self.seed
    }

    /// Whether the exact bytes of streamed answers are kept: a replay plays them.
    pub fn keeps_streams(&self) -> bool {
        self.keep != Keep::Nothing
    }

    /// For a run that is neither a replay nor a fork.
    pub fn of(keep: Keep, seed: Option<Seed>) -> Self {
        Self { keep, seed, ..Self::default() }
    }

    /// For a run that is taken up after a restart. Its ids come from no seed any more: how many were
    /// minted is not known.
    pub fn taken_up(replay: Option<&Replay>) -> Self {
        let recorded = replay.is_some_and(|replay| {
            matches!(replay.mode, ReplayMode::Record | ReplayMode::Deterministic)
        });
        Self { keep: if recorded { Keep::Record } else { Keep::Nothing }, ..Self::default() }
    }

    /// For a run that replays a run of this recording.
    pub fn replayed(recording: Digest, RecordedAgent { seed, run }: RecordedAgent) -> Self {
        Self { recording: Some(recording), seed, run, ..Self::default() }
    }

    /// For a run that continues from a recording.
    pub fn forked(prefix: Arc<dyn ForkPrefix>) -> Self {
        let fork = prefix.fork();
        Self { seed: fork.seed, fork: Some((fork, prefix)), ..Self::default() }
    }

    /// The recorded prefix that the run continues from, for a fork.
    pub fn fork_prefix(&self) -> Option<&dyn ForkPrefix> {
        self.fork.as_ref().map(|(_, prefix)| prefix.as_ref())
    }

    /// Whether the run continues from a recording.
    pub const fn is_fork(&self) -> bool {
        self.fork.is_some()
    }

    /// Stores the receipt of a fork's recorded opening, and notifies the fork prefix.
    pub fn put_open(&self, run: &RunId, receipt: &Receipt) {
        if let Some(prefix) = self.fork_prefix() {
            drop(self.opening.set(receipt.clone()));
            prefix.opened(run);
        }
    }

    /// For a fork, the receipt of the recorded opening.
    pub fn opening(&self) -> Option<&Receipt> {
        self.opening.get()
    }

    /// The opening time that the agent receives: that of the recorded run for a fork.
    pub fn opening_time(&self, opened_at: Timestamp) -> Timestamp {
        self.fork.as_ref().map_or(opened_at, |(fork, _)| fork.opened_at)
    }

    /// The id of the run to open.
    pub fn run_id(&self, drawn: impl FnOnce() -> [u8; 16]) -> RunId {
        // WHY: a fork has the seed of another run, and must not have its id.
        let seed = self.seed.filter(|_| !self.is_fork());
        let seeded = || seed.map(|seed| RunId::from_random(seed.derive("run", &[])));
        self.run.or_else(seeded).unwrap_or_else(|| RunId::from_random(drawn()))
    }

    /// The bytes of an id for a call to which its agent gave none. They depend on the tool, the
    /// arguments and the number of such calls before it, so that concurrent calls get the same ids
    /// in a replay. `None`: draw random bytes.
    pub fn call_id(&self, tool: &str, arguments: &[u8]) -> Option<[u8; 16]> {
        let seed = self.seed?;
        let asked = Digest::of(&[tool.as_bytes(), &[0], arguments]);
        let mut minted = self.minted.lock();
        let count = minted.entry(asked).or_default();
        *count = count.saturating_add(1);
        Some(seed.derive("call", &[asked.as_bytes(), &count.to_be_bytes()]))
    }

    /// The members of `run.opened` about the replay, with the opening time that the agent receives.
    pub fn facts(&self, opened_at: Timestamp) -> (Option<Replay>, Option<Text>) {
        let mode = match (&self.recording, self.keep) {
            _ if self.is_fork() => ReplayMode::Fork,
            (Some(_), _) => ReplayMode::Replay,
            (None, Keep::Nothing) => return (None, None),
            (None, Keep::Record) => ReplayMode::Record,
            (None, Keep::Deterministic) => ReplayMode::Deterministic,
        };
        let fork = self.fork.as_ref().map(|(fork, _)| fork);
        let recording = fork.map(|fork| fork.recording).or(self.recording);
        let replay = Replay {
            at: fork.map(|fork| fork.at.into()),
            clock: self.opening_time(opened_at),
            mode,
            recording: recording.map(TaggedDigest),
            run: fork.map(|fork| fork.run),
        };
        (Some(replay), self.seed.map(|seed| seed.to_string().into()))
    }
}

impl Keeping {
    /// The tools that the agent of a run sees, as canonical JSON for the recording. `None` if the
    /// run is not recorded.
    pub(super) fn tools(&self, grants: &Grants, toolbox: &Toolbox) -> Option<Vec<u8>> {
        if self.keep == Keep::Nothing {
            return None;
        }
        let granted = grants.all().iter().filter_map(|grant| toolbox.get(&grant.name));
        Some(described::write(granted))
    }
}
