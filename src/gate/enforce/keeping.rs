//! What of a run is kept for a replay: the tools its agent was shown, and a seed for what is minted for it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::answer::Fault;
use super::opened::claims;
use super::prologue::{Fork, Prologue};
use super::run::Run;
use super::{Cast, Entrance, Opening, Road};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::identity::lineage::Grants;
use crate::identity::manifest::{Keep, Manifest};
use crate::ledger::permit::Receipt;
use crate::record::decided::clip;
use crate::record::run::{Replay, ReplayMode};
use crate::record::{TaggedDigest, Text};
use crate::tool::toolbox::described;

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
    fork: Option<(Fork, Arc<dyn Prologue>)>,
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

    /// That of a run that goes on from a recording.
    pub fn forked(prologue: Arc<dyn Prologue>) -> Self {
        let fork = prologue.fork();
        Self { seed: fork.seed, fork: Some((fork, prologue)), ..Self::default() }
    }

    /// What it goes on from, if it does.
    pub fn prologue(&self) -> Option<&dyn Prologue> {
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

impl Road {
    /// How the run that is opened is kept: as its manifest says, or more if the agent asks for it.
    pub(super) async fn keeping(
        &self,
        opening: &Opening,
        manifest: &Manifest,
        parent: Option<&Run>,
    ) -> Result<Keeping, Fault> {
        let refuse = |detail: &str, message: String| {
            Err(Fault::new(Code::RequestMalformed, message).detail(detail))
        };
        let asked = match Keep::parse(&opening.replay) {
            Some(keep) => keep,
            None if opening.replay.is_empty() => Keep::Nothing,
            None => {
                let word = clip(&opening.replay, 32);
                return refuse(
                    "run.replay",
                    format!("replay `{word}` is neither `record` nor `deterministic`"),
                );
            }
        };
        if let Some(rehearsal) = self.rehearsal.get() {
            if opening.fork_at > 0 {
                return refuse("run.fork_at", "this gate replays all of the recording".to_owned());
            }
            let (named, recording) = (&opening.recording, rehearsal.recording());
            if !named.is_empty() && Digest::parse(named) != Some(recording) {
                return refuse(
                    "run.recording",
                    format!("this gate replays `{}` and no other", recording.prefixed()),
                );
            }
            let entrance = Entrance {
                parent: parent.map(|parent| parent.id),
                manifest: manifest.digest,
                claims: &claims(opening),
            };
            let cast = rehearsal.opened(&entrance).map_err(|drift| {
                Fault::new(Code::EffectRefused, drift.message).detail(drift.detail)
            })?;
            let Cast { seed, run } = cast;
            let recording = Some(recording);
            return Ok(Keeping { recording, seed, run, ..Keeping::default() });
        }
        if let Some(forked) = self.forking(opening, manifest).await? {
            return Ok(forked);
        }
        if opening.mode == REPLAY || !opening.recording.is_empty() {
            let message = "this gate replays no whole recording; `wicketgate run replay` starts one that \
                           does";
            return refuse("run.mode", message.to_owned());
        }
        let keep = asked.max(manifest.replay.keep);
        if keep != Keep::Nothing && opening.incognito {
            let message = "a run of which nothing is stored cannot be recorded";
            return refuse("run.replay", message.to_owned());
        }
        let seed = (keep == Keep::Deterministic).then(|| {
            let mut bytes = [0_u8; 8];
            self.entropy.fill(&mut bytes);
            Seed::from_random(bytes)
        });
        Ok(Keeping { keep, seed, ..Keeping::default() })
    }

    /// The tools that the agent of a run is shown, for the recording of it: canonical JSON. `None`: the run
    /// is not recorded.
    pub(super) fn kept_tools(&self, keeping: &Keeping, grants: &Grants) -> Option<Vec<u8>> {
        if keeping.keep == Keep::Nothing {
            return None;
        }
        let toolbox = self.toolbox.load();
        let granted = grants.all().iter().filter_map(|grant| toolbox.get(&grant.name));
        Some(described::write(granted))
    }
}
