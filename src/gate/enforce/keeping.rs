//! What of a run is kept for a replay: the tools its agent was shown, and a seed for what is minted for it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::RecordedAgent;
use super::prologue::{Fork, ForkPrefix};
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

/// The mode of a run that is answered from a recording (`OpenRunRequest.mode`, `run.opened.replay.mode`).
pub(super) const REPLAY: &str = "replay";

/// How one run is kept.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    keep: Keep,
    /// What it is a replay of.
    recording: Option<Digest>,
    seed: Option<Seed>,
    /// The id it has to have.
    pub run: Option<RunId>,
    /// Where it goes on from.
    fork: Option<(Fork, Arc<dyn ForkPrefix>)>,
    /// Of such a run, where its opening is on the books.
    opening: OnceLock<Receipt>,
    /// How often each call was given an id.
    minted: Mutex<BTreeMap<Digest, u64>>,
}

impl Keeping {
    /// What is minted for the run derives from it.
    pub const fn seed(&self) -> Option<Seed> {
        self.seed
    }

    /// That of a run that walks the road.
    pub fn of(keep: Keep, seed: Option<Seed>) -> Self {
        Self { keep, seed, ..Self::default() }
    }

    /// That of a run that is a replay of this one.
    pub fn replayed(recording: Digest, RecordedAgent { seed, run }: RecordedAgent) -> Self {
        Self { recording: Some(recording), seed, run, ..Self::default() }
    }

    /// That of a run that goes on from a recording.
    pub fn forked(prologue: Arc<dyn ForkPrefix>) -> Self {
        let fork = prologue.fork();
        Self { seed: fork.seed, fork: Some((fork, prologue)), ..Self::default() }
    }

    /// What it goes on from, if it does.
    pub fn prologue(&self) -> Option<&dyn ForkPrefix> {
        self.fork.as_ref().map(|(_, prologue)| prologue.as_ref())
    }

    /// Whether it goes on from a recording.
    pub const fn is_fork(&self) -> bool {
        self.fork.is_some()
    }

    /// The opening of a run is on the books: what it goes on from is told.
    pub fn put_open(&self, run: &RunId, receipt: &Receipt) {
        if let Some(prologue) = self.prologue() {
            drop(self.opening.set(receipt.clone()));
            prologue.opened(run);
        }
    }

    /// Of a run that goes on from a recording, where its opening is on the books.
    pub fn opening(&self) -> Option<&Receipt> {
        self.opening.get()
    }

    /// When the agent is told that the run was opened.
    pub fn told(&self, opened_at: Timestamp) -> Timestamp {
        self.fork.as_ref().map_or(opened_at, |(fork, _)| fork.opened_at)
    }

    /// The id of the run that is opened.
    pub fn run_id(&self, drawn: impl FnOnce() -> [u8; 16]) -> RunId {
        // WHY: a fork has the seed of another run, and must not have its id.
        let seed = self.seed.filter(|_| !self.is_fork());
        let seeded = || seed.map(|seed| RunId::from_random(seed.derive("run", &[])));
        self.run.or_else(seeded).unwrap_or_else(|| RunId::from_random(drawn()))
    }

    /// The bytes of the id of a call that its agent gave none: which of the calls with this tool and these
    /// arguments it is decides, so that calls side by side have the same ids again. `None`: draw them.
    pub fn call_id(&self, tool: &str, arguments: &[u8]) -> Option<[u8; 16]> {
        let seed = self.seed?;
        let asked = Digest::of(&[tool.as_bytes(), &[0], arguments]);
        let mut minted = self.minted.lock();
        let count = minted.entry(asked).or_default();
        *count = count.saturating_add(1);
        Some(seed.derive("call", &[asked.as_bytes(), &count.to_be_bytes()]))
    }

    /// What `run.opened` says of it: also the time that the agent is told it was opened at.
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
            clock: self.told(opened_at),
            mode,
            recording: recording.map(TaggedDigest),
            run: fork.map(|fork| fork.run),
        };
        (Some(replay), self.seed.map(|seed| seed.to_string().into()))
    }
}

impl Keeping {
    /// The tools that the agent of a run is shown, for the recording of it: canonical JSON. `None`: the run
    /// is not recorded.
    pub(super) fn tools(&self, grants: &Grants, toolbox: &Toolbox) -> Option<Vec<u8>> {
        if self.keep == Keep::Nothing {
            return None;
        }
        let granted = grants.all().iter().filter_map(|grant| toolbox.get(&grant.name));
        Some(described::write(granted))
    }
}
