//! Plays a recording: says of every call which recorded one it is, and where it is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Error;
use super::drift::{Drift, Kind, differences, without};
use super::matching::{Found, Known, Matching};
use super::props::RecordedClock;
use super::recording::{Place, Recording, Step};
use super::said::{codes, otherwise, reasons, told};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::Reason;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::outcome::Outcome;
use crate::enforce::{Cast, Cue, Rehearsal};
use crate::ledger::drafts;
use crate::policy::{Judged, PolicyEngine, Resumed};

/// The role of arguments.
const ARGS: &str = "args";

/// How a recording is played.
#[derive(Debug)]
pub struct Manner {
    /// Go on after a drift, and collect all of them; else the first one ends it.
    pub collect: bool,
    /// The bundles that decide, by digest; of a step whose own is not there, `now`'s.
    pub engines: BTreeMap<Digest, Arc<dyn PolicyEngine>>,
    /// The bundle that decides everything, if it is not the recorded ones.
    pub now: Option<Arc<dyn PolicyEngine>>,
    /// JSON pointers, by tool, of arguments that do not count.
    pub volatile: BTreeMap<String, Vec<String>>,
}

/// How far it was played.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// Steps of the recording.
    pub steps: usize,
    /// Those that were asked for.
    pub asked: usize,
    /// Runs that were opened.
    pub opened: u64,
    /// Everything that was otherwise, in the order in which it was noticed.
    pub drifts: Vec<Drift>,
}

type Key = (RunId, CallId);

#[derive(Debug, Default)]
struct State {
    matching: Matching,
    asked: BTreeMap<Key, (usize, Arc<Step>)>,
    drifts: Vec<Drift>,
    /// Steps that others were asked before, which had their answers.
    overtaken: BTreeSet<usize>,
    opened: u64,
    stopped: bool,
}

/// One recording that is played.
#[derive(Debug)]
pub struct Player {
    recording: Recording,
    manner: Manner,
    clock: Arc<RecordedClock>,
    definitions: BTreeMap<String, Digest>,
    state: Mutex<State>,
    changed: Notify,
}

/// What is found of one call.
enum Met {
    Step(usize),
    Wait,
}

impl Player {
    /// A player at the beginning of its recording. Reads every step once.
    ///
    /// # Errors
    /// A step cannot be read.
    pub fn new(
        recording: Recording,
        manner: Manner,
        clock: Arc<RecordedClock>,
    ) -> Result<Self, Error> {
        let mut steps = Vec::new();
        for place in &recording.places {
            let Place { after, end, .. } = *place;
            let step = recording.step(place)?;
            let known = !place.redacted.iter().any(|role| role == ARGS);
            // What nobody knows, no call is the same as.
            let of = |n: u64| Digest::of(&[b"redacted\0", &n.to_be_bytes()]);
            let key = if known { key(&manner, &step.tool, &step.args) } else { of(place.number) };
            steps.push(Known { key, after, end });
        }
        let tools = recording.tools.get("tools").and_then(Json::as_array).unwrap_or_default();
        let text =
            |tool: &Json, name: &str| tool.get(name).and_then(Json::as_str).map(str::to_owned);
        let definition =
            |tool: &Json| Some((text(tool, "name")?, Digest::parse(&text(tool, "definition")?)?));
        let definitions = tools.iter().filter_map(definition).collect();
        let state = State { matching: Matching::of(steps), ..State::default() };
        let (state, changed) = (Mutex::new(state), Notify::new());
        Ok(Self { recording, manner, clock, definitions, state, changed })
    }

    /// What is played.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Takes up the step of this call and has it answered at once; `None`: every step was asked for. Whoever
    /// takes steps like this takes one at a time.
    pub(super) fn take(&self, call: &ToolCall) -> Result<Option<usize>, Reason> {
        let over = {
            let state = self.state.lock();
            !state.stopped && state.matching.left().next().is_none()
        };
        if over {
            return Ok(None);
        }
        match self.meet(call)? {
            Met::Step(at) => {
                self.state.lock().matching.answer(at);
                Ok(Some(at))
            }
            Met::Wait => {
                let message = "the call waits for another one, and none is on its way";
                Err(Reason::effect_refused("replay", "replay.stopped", message))
            }
        }
    }

    /// One step, if it can still be read.
    pub(super) fn read(&self, at: usize) -> Option<Step> {
        self.recording.step(self.recording.places.get(at)?).ok()
    }

    /// The recorded call that a call is, while it is on the road.
    pub(super) fn step_of(&self, run: &RunId, call: &CallId) -> Option<Arc<Step>> {
        let state = self.state.lock();
        state.asked.get(&(*run, call.clone())).map(|(_, step)| Arc::clone(step))
    }

    /// How far it was played, once nothing more is asked: what was never asked is missing then.
    #[must_use]
    pub fn finish(&self) -> Played {
        let mut state = self.state.lock();
        let left: Vec<usize> = state.matching.left().collect();
        let asked = state.matching.len().saturating_sub(left.len());
        if !state.stopped {
            for step in left {
                let drift = self.missing(step, "was not asked");
                state.drifts.push(drift);
            }
            // What is told now is not told again.
            state.stopped = true;
        }
        let (steps, opened) = (state.matching.len(), state.opened);
        Played { steps, asked, opened, drifts: state.drifts.clone() }
    }

    fn place(&self, step: usize) -> (u64, String) {
        let place = self.recording.places.get(step);
        place.map_or((0, String::new()), |place| (place.number, place.tool.clone()))
    }

    fn missing(&self, step: usize, what: &str) -> Drift {
        let (number, tool) = self.place(step);
        let message = format!("step {number} (`{tool}`) {what}");
        let (kind, call, changes) = (Kind::Missing, None, Vec::new());
        Drift { kind, step: Some(number), tool, call, message, changes }
    }

    /// Takes note of a drift; whether the replay is over with it.
    fn note(&self, state: &mut State, drift: Drift) -> Result<(), Reason> {
        let reason = refusal(&drift);
        state.drifts.push(drift);
        if self.manner.collect {
            return Ok(());
        }
        state.stopped = true;
        self.changed.notify_waiters();
        Err(reason)
    }

    /// Finds the step of this call, and takes it up.
    fn meet(&self, call: &ToolCall) -> Result<Met, Reason> {
        let tool = call.tool().as_str();
        let key = key(&self.manner, tool, call.args());
        let mut state = self.state.lock();
        if state.stopped {
            let message = "the agent has drifted from the recording, and nothing more is answered";
            return Err(Reason::effect_refused("replay", "replay.stopped", message));
        }
        let step = match state.matching.find(&key) {
            Found::Wait => return Ok(Met::Wait),
            Found::Step(step) => step,
            Found::Early(step, before) => {
                self.early(&mut state, step, before)?;
                step
            }
            Found::Unknown => self.unknown(&mut state, call)?,
        };
        state.matching.ask(step);
        self.whole(&mut state, step, call)?;
        if state.overtaken.remove(&step) {
            let (number, tool) = self.place(step);
            let message =
                format!("step {number} (`{tool}`) was asked after steps that had waited for it");
            let (kind, call) = (Kind::Reordered, Some(call.id().to_string()));
            let drift =
                Drift { kind, step: Some(number), tool, call, message, changes: Vec::new() };
            self.note(&mut state, drift)?;
        }
        Ok(Met::Step(step))
    }

    /// A step of which something was left out cannot be answered.
    fn whole(&self, state: &mut State, step: usize, call: &ToolCall) -> Result<(), Reason> {
        let redacted = self.recording.places.get(step).map(|place| place.redacted.as_slice());
        let Some([first, ..]) = redacted else { return Ok(()) };
        let (number, tool) = self.place(step);
        let message = format!(
            "step {number} (`{tool}`) cannot be answered: something of its `{first}` was left out \
             of the recording"
        );
        let (kind, call) = (Kind::Redacted, Some(call.id().to_string()));
        let drift = Drift { kind, step: Some(number), tool, call, message, changes: Vec::new() };
        let reason = refusal(&drift);
        state.matching.answer(step);
        self.changed.notify_waiters();
        self.note(state, drift)?;
        Err(reason)
    }

    /// A step was asked for, and another one, whose answer the agent had then, was not.
    fn early(&self, state: &mut State, step: usize, before: usize) -> Result<(), Reason> {
        if self.manner.collect {
            // Whether it comes later or never is told when that is known.
            state.overtaken.insert(before);
            return Ok(());
        }
        let (number, tool) = self.place(step);
        let what = format!("was not asked, and step {number} (`{tool}`), which came after it, was");
        let drift = self.missing(before, &what);
        self.note(state, drift)
    }

    /// A call that is none of those that are left: the one it should have been, if it is the same tool.
    fn unknown(&self, state: &mut State, call: &ToolCall) -> Result<usize, Reason> {
        let (tool, id) = (call.tool().as_str(), Some(call.id().to_string()));
        let same = |step: &usize| self.place(*step).1 == tool;
        let expected = state.matching.expected().find(same);
        let Some(step) = expected else {
            let first = state.matching.expected().next().or_else(|| state.matching.left().next());
            let place = first.map(|step| self.place(step));
            let message = match &place {
                Some((number, other)) => {
                    format!("`{tool}` was called where step {number} (`{other}`) was expected")
                }
                None => format!("`{tool}` was called after the last recorded step"),
            };
            let drift = Drift {
                kind: Kind::Extra,
                step: place.map(|(number, _)| number),
                tool: tool.to_owned(),
                call: id,
                message,
                changes: Vec::new(),
            };
            let reason = refusal(&drift);
            self.note(state, drift)?;
            return Err(reason);
        };
        let redacted = self.recording.places.get(step).map(|place| place.redacted.as_slice());
        if redacted.is_some_and(|roles| roles.iter().any(|role| role == ARGS)) {
            // Whether they are others nobody can tell.
            return Ok(step);
        }
        let pointers = self.manner.volatile.get(tool).map(Vec::as_slice).unwrap_or_default();
        let recorded = self.recording.places.get(step).map(|place| self.recording.step(place));
        let recorded = recorded.and_then(Result::ok).map_or(Json::Null, |step| step.args);
        let changes = differences(&without(&recorded, pointers), &without(call.args(), pointers));
        let (number, _) = self.place(step);
        let paths: Vec<String> =
            changes.iter().take(4).map(|change| format!("`{}`", change.at)).collect();
        let message =
            format!("step {number} (`{tool}`) has other arguments at {}", paths.join(", "));
        let (kind, tool) = (Kind::Arguments, tool.to_owned());
        self.note(state, Drift { kind, step: Some(number), tool, call: id, message, changes })?;
        Ok(step)
    }

    fn engine(&self, step: &Step) -> Option<Arc<dyn PolicyEngine>> {
        let policy = step.decided("policy").and_then(Json::as_str).and_then(Digest::parse);
        let recorded = || self.manner.engines.get(&policy?).cloned();
        self.manner.now.clone().or_else(recorded)
    }

    fn set(&self, step: &Step) -> Cue {
        let engine = self.engine(step);
        let layers = engine.as_ref().map(|engine| engine.layers().to_vec()).unwrap_or_default();
        let layers: Vec<_> = layers.into_iter().map(|layer| (layer.layer, layer.digest)).collect();
        let resumed = step.approved.as_ref().map(|approved| Resumed {
            salt: approved.salt,
            nonce: approved.nonce.clone(),
            layers,
            manifest: self.recording.header.manifest,
            definition: self.definitions.get(&step.tool).copied(),
            effect: approved.effect.clone(),
            approvals: approved.by.clone(),
        });
        let refused = step.lapsed() || step.input.is_none();
        Cue {
            now: step.at,
            told: step.input.as_ref().map(told),
            refusals: if refused { reasons(step) } else { Vec::new() },
            resumed,
            engine,
        }
    }
}

#[async_trait]
impl Rehearsal for Player {
    fn recording(&self) -> Digest {
        self.recording.digest
    }

    fn opened(&self) -> Cast {
        let mut state = self.state.lock();
        state.opened = state.opened.saturating_add(1);
        let header = &self.recording.header;
        // A second run is another run: its ids must not be those of the first.
        let first = state.opened == 1;
        Cast { seed: header.seed, run: first.then_some(header.run) }
    }

    async fn cue(&self, call: &ToolCall) -> Result<Box<Cue>, Reason> {
        let at = loop {
            let told = self.changed.notified();
            match self.meet(call)? {
                Met::Step(step) => break step,
                Met::Wait => told.await,
            }
        };
        let Some(step) = self.read(at) else {
            let message = "the recorded call cannot be read any more";
            return Err(Reason::effect_refused("replay", "replay.unreadable", message));
        };
        self.clock.advance(step.at);
        let cue = self.set(&step);
        let key = (*call.run(), call.id().clone());
        self.state.lock().asked.insert(key, (at, Arc::new(step)));
        Ok(Box::new(cue))
    }

    fn judged(&self, judged: &Judged) {
        let (call, decision) = (judged.prepared().call(), judged.decision());
        let Some(step) = self.step_of(call.run(), call.id()).filter(|step| !step.lapsed()) else {
            return;
        };
        let now = Json::object([
            ("verdict", Json::from(decision.verdict.as_str())),
            ("enforced", Json::from(decision.enforced)),
            ("reasons", codes(Some(&drafts::reasons(&decision.reasons)))),
            ("obligations", drafts::obligations(&decision.obligations)),
        ]);
        let of = |name: &str| step.decided(name).cloned().unwrap_or(Json::Null);
        let recorded = Json::object([
            ("verdict", of("verdict")),
            ("enforced", of("enforced")),
            ("reasons", codes(step.decided("reasons"))),
            ("obligations", of("obligations")),
        ]);
        let changes = differences(&recorded, &now);
        if changes.is_empty() {
            return;
        }
        let (was, is) = (of("verdict"), decision.verdict.as_str());
        let why = decision.reasons.first().map(|reason| format!(": {}", reason.message));
        let message = format!(
            "step {} (`{}`) was `{}` and is `{is}`{}",
            step.number,
            step.tool,
            was.as_str().unwrap_or_default(),
            why.unwrap_or_default()
        );
        let (kind, tool) = (Kind::Decision, step.tool.clone());
        let call = Some(call.id().to_string());
        let drift = Drift { kind, step: Some(step.number), tool, call, message, changes };
        // The call is decided as it is; only what comes after it is not answered any more.
        drop(self.note(&mut self.state.lock(), drift));
    }

    fn over(&self, run: &RunId, call: &CallId, outcome: Option<&Outcome>) {
        let mut state = self.state.lock();
        let Some((at, step)) = state.asked.remove(&(*run, call.clone())) else { return };
        if let (Some(outcome), Some(recorded)) = (outcome, step.outcome())
            && let Some(drift) = otherwise(&step, call, &recorded, outcome)
        {
            drop(self.note(&mut state, drift));
        }
        state.matching.answer(at);
        drop(state);
        self.changed.notify_waiters();
    }
}

/// Names tool and arguments, without what is volatile.
fn key(manner: &Manner, tool: &str, args: &Json) -> Digest {
    let bytes = match manner.volatile.get(tool) {
        Some(pointers) => canonical::bytes(&without(args, pointers)),
        None => canonical::bytes(args),
    };
    Digest::of(&[tool.as_bytes(), &[0], &bytes])
}

fn refusal(drift: &Drift) -> Reason {
    let detail = format!("replay.{}", drift.kind.as_str());
    Reason::effect_refused("replay", &detail, drift.message.as_str())
}
