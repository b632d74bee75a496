//! The fork prefix: the recorded answers before a step, for a run that continues live from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Error;
use super::convert::reasons;
use super::environment::RecordedClock;
use super::flaw::ReplayObstacle;
use super::player::{Played, Player, ReplaySettings};
use super::recording::Recording;
use super::step::RecordedCall;
use crate::domain::call::ToolCall;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::taint::{Label, LabelOrigin};
use crate::enforce::{Fork, ForkPrefix, RecordedAnswer, RecordedLabels};

#[derive(Debug, Default)]
struct ForkState {
    begun: bool,
    run: Option<RunId>,
    /// Why a step could not be answered: no later call is answered, and none runs.
    broken: Option<LayerReason>,
    /// The calls so far, each with its digest and step.
    answered: BTreeMap<CallId, (Digest, usize)>,
}

/// The steps of a recording before the first live one.
#[derive(Debug)]
pub struct Forked {
    player: Player,
    at: u64,
    labels: BTreeMap<Label, LabelOrigin>,
    state: Mutex<ForkState>,
}

impl Forked {
    /// The steps before `at`, counted from 1. One more than the number of steps means all of them.
    ///
    /// # Errors
    /// There is no such step. Or an earlier step was still running when a later one was made, so
    /// the agent did not reach `at` with every earlier call answered. Or a child was opened before
    /// `at`, which the live run would not open again. Or a step cannot be read.
    pub fn new(
        mut recording: Recording,
        at: u64,
        volatile: BTreeMap<String, Vec<String>>,
    ) -> Result<Self, Error> {
        let run = recording.header.run;
        let refused = |why| Error::Run { run, why };
        let steps = recording.places.len();
        let before = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
        let before = before.filter(|before| *before <= steps);
        let before = before.ok_or_else(|| refused(ReplayObstacle::NoStep { steps, at }))?;
        let (prefix, live) = recording.places.split_at(before);
        let last = prefix.iter().max_by_key(|place| place.end);
        let mut own = live.iter().filter(|place| place.run == 0);
        let early = own.find(|place| last.is_some_and(|last| place.after < last.end));
        if let (Some(last), Some(early)) = (last, early) {
            let (early, last) = (early.number, last.number);
            return Err(refused(ReplayObstacle::Between { early, last }));
        }
        let mut labels = BTreeMap::new();
        for place in prefix {
            // WHY: the answer of a model leaves as it comes, and what it asked for has to be judged.
            let step = recording.step(place)?;
            if step.form().is_some() {
                return Err(refused(ReplayObstacle::Dialect { at, step: place.number }));
            }
            for label in &step.ended.labels {
                let call = CallId::parse(&step.call);
                let origin = call.map(|call| LabelOrigin { run, call });
                labels.entry(*label).or_insert(origin);
            }
        }
        if let Some(child) = recording.children.iter().find(|child| child.before < at) {
            return Err(refused(ReplayObstacle::ChildBefore { child: child.run, at }));
        }
        recording.places.truncate(before);
        recording.children.clear();
        let settings =
            ReplaySettings { collect: false, engines: BTreeMap::new(), now: None, volatile };
        let clock = Arc::new(RecordedClock::at(recording.header.opened_at));
        let player = Player::new(recording, settings, clock)?;
        let labels = labels.into_iter().filter_map(|(label, origin)| Some((label, origin?)));
        Ok(Self { player, at, labels: labels.collect(), state: Mutex::default() })
    }

    /// The recording of these steps.
    pub const fn recording(&self) -> &Recording {
        self.player.recording()
    }

    /// The live run, once it was opened.
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        self.state.lock().run
    }

    /// How far it was played, after the last call.
    #[must_use]
    pub fn finish(&self) -> Played {
        self.player.finish()
    }

    /// The answer that the agent received for this step.
    fn line(&self, at: usize) -> Result<RecordedAnswer, LayerReason> {
        let refuse =
            |why: &str| Err(LayerReason::effect_refused("replay", "replay.unreadable", why));
        let Some(step) = self.player.read(at) else {
            return refuse("the recorded call cannot be read any more");
        };
        line(&step).map_or_else(|| refuse("the recording does not say how the call ended"), Ok)
    }
}

fn line(step: &RecordedCall) -> Option<RecordedAnswer> {
    if let Some(outcome) = step.outcome() {
        let labels = step.ended.labels.clone();
        let call = CallId::parse(&step.call).filter(|_| !labels.is_empty());
        return Some(RecordedAnswer::Ended(
            outcome,
            call.map(|call| RecordedLabels { call, labels }),
        ));
    }
    let denied = Some(reasons(step)).filter(|reasons| !reasons.is_empty());
    denied.map(RecordedAnswer::Denied)
}

fn asked(call: &ToolCall) -> Digest {
    Digest::of(&[call.tool().as_str().as_bytes(), &[0], call.canonical()])
}

impl ForkPrefix for Forked {
    fn fork(&self) -> Fork {
        let recording = self.player.recording();
        let header = &recording.header;
        Fork {
            recording: recording.digest,
            run: header.run,
            at: self.at,
            manifest: header.manifest,
            seed: header.seed,
            opened_at: header.opened_at,
        }
    }

    fn labels(&self) -> BTreeMap<Label, LabelOrigin> {
        self.labels.clone()
    }

    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        !std::mem::replace(&mut state.begun, true)
    }

    fn opened(&self, run: &RunId) {
        self.state.lock().run = Some(*run);
        self.player.count();
    }

    fn next(&self, call: &ToolCall) -> Result<Option<RecordedAnswer>, LayerReason> {
        // One call at a time: each is answered before the next one is matched.
        let mut state = self.state.lock();
        if let Some((known, at)) = state.answered.get(call.id()) {
            if *known != asked(call) {
                let message = format!("call `{}` was asked with other bytes", call.id());
                return Err(LayerReason::effect_refused("replay", "replay.call", message));
            }
            return self.line(*at).map(Some);
        }
        if let Some(why) = &state.broken {
            return Err(why.clone());
        }
        let Some(at) = self.player.take(call)? else { return Ok(None) };
        let line = self.line(at).inspect_err(|why| state.broken = Some(why.clone()))?;
        state.answered.insert(call.id().clone(), (asked(call), at));
        Ok(Some(line))
    }

    fn recorded_answer(&self, call: &CallId) -> Option<RecordedAnswer> {
        let at = self.state.lock().answered.get(call)?.1;
        self.line(at).ok()
    }
}
