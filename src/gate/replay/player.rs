//! Plays a recording: matches every call with a recorded one, or reports that none matches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

use super::Error;
use super::children::{self, Child, Lineage};
use super::drift::{Drift, DriftKind, differences, without};
use super::environment::RecordedClock;
use super::line::ToolList;
use super::matching::{Matching, StepFacts, StepMatch};
use super::messages::matched;
use super::recording::{Recording, StepLocation};
use super::step::RecordedCall;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::pointer::Difference;
use crate::policy::PolicyEngine;

/// The role of arguments.
const ARGS: &str = "args";

/// How a recording is played.
#[derive(Debug)]
pub struct ReplaySettings {
    /// Continue after a drift and collect all of them; otherwise the first one ends the replay.
    pub collect: bool,
    /// The bundles that decide, by digest; `now` decides a step whose own bundle is missing.
    pub engines: BTreeMap<Digest, Arc<dyn PolicyEngine>>,
    /// The bundle that decides everything, if the recorded ones do not.
    pub now: Option<Arc<dyn PolicyEngine>>,
    /// JSON pointers, by tool, to arguments that matching ignores.
    pub volatile: BTreeMap<String, Vec<String>>,
}

/// How far it was played.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// Steps of the recording.
    pub steps: usize,
    /// The steps that the agent made.
    pub made: usize,
    /// Runs without a parent that were opened.
    pub opened: u64,
    /// Calls that ran under break-glass, as they did in the recording.
    pub broken: Vec<BreakGlassUse>,
    /// Every difference, in the order of detection.
    pub drifts: Vec<Drift>,
    /// Why a step could not be read when its call came: nothing is known of later calls.
    pub unread: Option<String>,
}

/// A call that ran under break-glass in the recording and in the replay. No new order was opened
/// for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BreakGlassUse {
    /// The step.
    pub step: u64,
    /// The tool.
    pub tool: String,
    /// The nonce of the recorded order.
    pub nonce: String,
    /// The signers, sorted.
    pub by: Vec<String>,
}

type CallKey = (RunId, CallId);

#[derive(Debug, Default)]
pub(super) struct PlayerState {
    pub(super) matching: Matching,
    pub(super) made: BTreeMap<CallKey, (usize, Arc<RecordedCall>)>,
    pub(super) drifts: Vec<Drift>,
    /// Steps that were overtaken by steps which had their answers.
    pub(super) overtaken: BTreeSet<usize>,
    pub(super) opened: u64,
    pub(super) lineage: Lineage,
    pub(super) broken: Vec<BreakGlassUse>,
    pub(super) stopped: bool,
    unread: Option<String>,
}

/// A call of a model: the place of its run, and its id.
type ModelCall = (usize, String);

/// One recording that is played.
#[derive(Debug)]
pub struct Player {
    pub(super) recording: Recording,
    pub(super) settings: ReplaySettings,
    pub(super) clock: Arc<RecordedClock>,
    pub(super) definitions: BTreeMap<String, Digest>,
    /// The tools that are models.
    models: BTreeSet<String>,
    /// Tool calls of answers, by the run and the call of the model: place in the answer, and step.
    proposals: BTreeMap<ModelCall, Vec<(u64, usize)>>,
    pub(super) state: Mutex<PlayerState>,
    pub(super) changed: Notify,
}

/// The result of matching one call.
pub(super) enum CallMatch {
    Step(usize),
    Wait,
}

impl Player {
    /// A player at the start of its recording. Reads every step once.
    ///
    /// # Errors
    /// A step cannot be read.
    pub fn new(
        recording: Recording,
        settings: ReplaySettings,
        clock: Arc<RecordedClock>,
    ) -> Result<Self, Error> {
        let (mut steps, mut models) = (Vec::new(), BTreeSet::new());
        let mut proposals: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (at, place) in recording.places.iter().enumerate() {
            let StepLocation { run, after, end, .. } = *place;
            let step = recording.step(place)?;
            models.extend(step.is_of_model().then(|| step.tool.clone()));
            if let Some((model_call, index)) = step.proposal() {
                proposals.entry((run, model_call.to_owned())).or_default().push((index, at));
            }
            let known = !place.redacted.iter().any(|role| role == ARGS);
            // Redacted arguments get a key of their own: no call matches them.
            let of = |n: u64| Digest::of(&[b"redacted\0", &n.to_be_bytes()]);
            let args = matched(&step.args, step.is_of_model());
            let key = match known {
                true => key(&settings, (&step.tool, step.form()), &args),
                false => of(place.number),
            };
            steps.push(StepFacts { run, key, after, end });
        }
        // A list in another form has no definitions to compare calls with.
        let definitions = recording.tools.read().map(ToolList::definitions).unwrap_or_default();
        let state = PlayerState { matching: Matching::of(steps), ..PlayerState::default() };
        let (state, changed) = (Mutex::new(state), Notify::new());
        proposals.values_mut().for_each(|all| all.sort_unstable());
        Ok(Self { recording, settings, clock, definitions, models, proposals, state, changed })
    }

    /// The recording being played.
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Takes the step of this call and marks it as answered at once; `None` after the last step.
    /// The caller makes one call at a time.
    pub(super) fn take(&self, call: &ToolCall) -> Result<Option<usize>, LayerReason> {
        let over = {
            let state = self.state.lock();
            !state.stopped && state.matching.remaining().next().is_none()
        };
        if over {
            return Ok(None);
        }
        match self.meet(call)? {
            CallMatch::Step(at) => {
                self.state.lock().matching.answer(at);
                Ok(Some(at))
            }
            CallMatch::Wait => {
                let message = "the call waits for another one, and none is on its way";
                Err(LayerReason::effect_refused("replay", "replay.stopped", message))
            }
        }
    }

    /// Reads one step. If it is unreadable, the replay is over.
    pub(super) fn read(&self, at: usize) -> Option<RecordedCall> {
        let step = self.recording.step(self.recording.places.get(at)?);
        step.inspect_err(|error| self.lose(&mut self.state.lock(), error)).ok()
    }

    /// Ends the replay because a step is unreadable.
    fn lose(&self, state: &mut PlayerState, error: &Error) {
        state.stopped = true;
        state.unread.get_or_insert_with(|| error.to_string());
        self.changed.notify_waiters();
    }

    /// The recorded call that a call repeats, while the call is being processed.
    pub(super) fn step_of(&self, run: &RunId, call: &CallId) -> Option<Arc<RecordedCall>> {
        let state = self.state.lock();
        state.made.get(&(*run, call.clone())).map(|(_, step)| Arc::clone(step))
    }

    /// The tool calls that the recorded answer of this step asked for and that were judged, with their
    /// places in it.
    pub(super) fn proposals_of(&self, step: &RecordedCall) -> Vec<(u64, RecordedCall)> {
        let run = step.run.and_then(|run| children::place_of(&self.recording.children, &run));
        let model_call = (run.map_or(0, |(place, _)| place), step.call.clone());
        let places = self.proposals.get(&model_call).into_iter().flatten();
        places.filter_map(|(index, at)| Some((*index, self.read(*at)?))).collect()
    }

    /// How far it was played, after the last call: steps that were never made are missing.
    #[must_use]
    pub fn finish(&self) -> Played {
        let mut state = self.state.lock();
        let left: Vec<usize> = state.matching.remaining().collect();
        let asked = state.matching.len().saturating_sub(left.len());
        let mut drifts = Vec::new();
        if !state.stopped {
            let of = |step: &usize| self.recording.places.get(*step).map_or(0, |place| place.run);
            for step in left.iter().filter(|step| state.lineage.is_open(of(step))) {
                let drift = self.missing(*step, "was not asked");
                drifts.push(self.of_run(drift));
            }
            drifts.extend(self.absent(&state.lineage));
            state.drifts.append(&mut drifts);
            // A second call of `finish` does not report these drifts again.
            state.stopped = true;
        }
        let PlayerState { matching, opened, broken, drifts, unread, .. } = &*state;
        Played {
            steps: matching.len(),
            made: asked,
            opened: *opened,
            broken: broken.clone(),
            drifts: drifts.clone(),
            unread: unread.clone(),
        }
    }

    /// Counts an opened run without a parent; returns how many there are.
    pub(super) fn count(&self) -> u64 {
        let mut state = self.state.lock();
        state.opened = state.opened.saturating_add(1);
        state.opened
    }

    /// Recorded children that were not opened, although their parent was.
    fn absent(&self, lineage: &Lineage) -> Vec<Drift> {
        let placed = (1_usize..).zip(&self.recording.children);
        let absent = placed
            .filter(|(place, child)| !lineage.is_open(*place) && lineage.is_open(child.parent));
        let drifts = absent.map(|(_, Child { run, agent, .. })| {
            let message = format!("the child run {run} of agent `{agent}` was not opened");
            Drift { run: Some(*run), ..Drift::new(DriftKind::MissingChild, message) }
        });
        drifts.collect()
    }

    /// The place of the recorded run that a run repeats: a run that matches no child is the one
    /// without a parent.
    pub(super) fn place_of(&self, run: &RunId) -> usize {
        children::place_of(&self.recording.children, run).map_or(0, |(place, _)| place)
    }

    /// Adds the child run to a drift.
    fn of_run(&self, drift: Drift) -> Drift {
        let step = drift.step.and_then(|step| usize::try_from(step).ok()?.checked_sub(1));
        let place = step.and_then(|step| self.recording.places.get(step));
        let child = place.and_then(|place| place.run.checked_sub(1));
        let child = child.and_then(|at| self.recording.children.get(at));
        Drift { run: drift.run.or_else(|| child.map(|child| child.run)), ..drift }
    }

    fn place(&self, step: usize) -> (u64, String) {
        let place = self.recording.places.get(step);
        place.map_or((0, String::new()), |place| (place.number, place.tool.clone()))
    }

    fn missing(&self, step: usize, what: &str) -> Drift {
        let (number, tool) = self.place(step);
        let message = format!("step {number} (`{tool}`) {what}");
        Drift::at(DriftKind::Missing, (number, tool), message)
    }

    /// Records a drift; `Err` if it ends the replay.
    pub(super) fn note(&self, state: &mut PlayerState, drift: Drift) -> Result<(), LayerReason> {
        let reason = refusal(&drift);
        state.drifts.push(self.of_run(drift));
        if self.settings.collect {
            return Ok(());
        }
        state.stopped = true;
        self.changed.notify_waiters();
        Err(reason)
    }

    /// Finds the step of this call, and takes it.
    pub(super) fn meet(&self, call: &ToolCall) -> Result<CallMatch, LayerReason> {
        let tool = call.tool().as_str();
        let args = matched(call.args(), self.models.contains(tool));
        let form = form(call);
        // A call that no policy saw has no form in its recording.
        let keys = [form, None].map(|form| key(&self.settings, (tool, form), &args));
        let mut state = self.state.lock();
        if state.stopped {
            return Err(stopped());
        }
        let run = self.place_of(call.run());
        let found = keys.iter().map(|key| state.matching.find(run, key));
        let found = found.into_iter().find(|found| *found != StepMatch::Unknown);
        let step = match found.unwrap_or(StepMatch::Unknown) {
            StepMatch::Wait => return Ok(CallMatch::Wait),
            StepMatch::Step(step) => step,
            StepMatch::Early(step, before) => {
                self.early(&mut state, step, before)?;
                step
            }
            StepMatch::Unknown => self.unknown(&mut state, call)?,
        };
        state.matching.mark_made(step);
        self.whole(&mut state, step, call)?;
        if state.overtaken.remove(&step) {
            let (number, tool) = self.place(step);
            let message =
                format!("step {number} (`{tool}`) was asked after steps that had waited for it");
            let drift = Drift::at(DriftKind::Reordered, (number, tool), message);
            let call = Some(call.id().to_string());
            self.note(&mut state, Drift { call, ..drift })?;
        }
        Ok(CallMatch::Step(step))
    }

    /// A redacted step cannot be answered.
    fn whole(
        &self,
        state: &mut PlayerState,
        step: usize,
        call: &ToolCall,
    ) -> Result<(), LayerReason> {
        let redacted = self.recording.places.get(step).map(|place| place.redacted.as_slice());
        let Some([first, ..]) = redacted else { return Ok(()) };
        let (number, tool) = self.place(step);
        let message = format!(
            "step {number} (`{tool}`) cannot be answered: something of its `{first}` was left out \
             of the recording"
        );
        let drift = Drift::at(DriftKind::Redacted, (number, tool), message);
        let drift = Drift { call: Some(call.id().to_string()), ..drift };
        let reason = refusal(&drift);
        state.matching.answer(step);
        self.changed.notify_waiters();
        self.note(state, drift)?;
        Err(reason)
    }

    /// A step was made, and an earlier one, whose answer the agent had then, was not.
    fn early(
        &self,
        state: &mut PlayerState,
        step: usize,
        before: usize,
    ) -> Result<(), LayerReason> {
        if self.settings.collect {
            // A later call, or the end of the replay, shows whether the earlier step is made at
            // all.
            state.overtaken.insert(before);
            return Ok(());
        }
        let (number, tool) = self.place(step);
        let what = format!("was not asked, and step {number} (`{tool}`), which came after it, was");
        let drift = self.missing(before, &what);
        self.note(state, drift)
    }

    /// A call that matches none of the remaining steps. Returns the expected step if it has the
    /// same tool.
    fn unknown(&self, state: &mut PlayerState, call: &ToolCall) -> Result<usize, LayerReason> {
        let (tool, id) = (call.tool().as_str(), Some(call.id().to_string()));
        let same = |step: &usize| self.place(*step).1 == tool;
        let run = self.place_of(call.run());
        let expected = state.matching.expected(run).find(same);
        let Some(step) = expected else {
            let first = state.matching.expected(run).next();
            let first = first.or_else(|| state.matching.remaining_of(run).next());
            let place = first.map(|step| self.place(step));
            let message = match &place {
                Some((number, other)) => {
                    format!("`{tool}` was called where step {number} (`{other}`) was expected")
                }
                None => format!("`{tool}` was called after the last recorded step"),
            };
            let drift = Drift {
                step: place.map(|(number, _)| number),
                tool: tool.to_owned(),
                run: (run > 0).then(|| *call.run()),
                call: id,
                ..Drift::new(DriftKind::Extra, message)
            };
            let reason = refusal(&drift);
            self.note(state, drift)?;
            return Err(reason);
        };
        let redacted = self.recording.places.get(step).map(|place| place.redacted.as_slice());
        if redacted.is_some_and(|roles| roles.iter().any(|role| role == ARGS)) {
            // The recorded arguments are redacted, so a comparison is impossible.
            return Ok(step);
        }
        let pointers = self.settings.volatile.get(tool).map(Vec::as_slice).unwrap_or_default();
        let recorded = self.recording.places.get(step).map(|place| self.recording.step(place));
        let recorded = recorded.transpose().map_err(|error| {
            self.lose(state, &error);
            stopped()
        })?;
        let is_model = self.models.contains(tool);
        let was = recorded.as_ref().and_then(RecordedCall::form);
        let recorded = recorded.map_or(Json::Null, |step| matched(&step.args, is_model));
        let made = matched(call.args(), is_model);
        let changes = differences(&without(&recorded, pointers), &without(&made, pointers));
        let (number, _) = self.place(step);
        let message = format!("step {number} (`{tool}`) {}", otherwise(&changes, was, form(call)));
        let drift = Drift::at(DriftKind::Arguments, (number, tool.to_owned()), message);
        self.note(state, Drift { call: id, changes, ..drift })?;
        Ok(step)
    }
}

/// In which dialect a model is asked, and what for.
type Form = Option<(Dialect, Operation)>;

/// The form of a call; none if it is one of a tool.
fn form(call: &ToolCall) -> Form {
    call.dialect().map(|request| (request.dialect, request.operation))
}

/// Digest of tool, form and arguments, without the volatile ones.
fn key(settings: &ReplaySettings, (tool, form): (&str, Form), args: &Json) -> Digest {
    let bytes = match settings.volatile.get(tool) {
        Some(pointers) => canonical::bytes(&without(args, pointers)),
        None => canonical::bytes(args),
    };
    let form = form.map_or_else(String::new, |form| named(form) + "\0");
    Digest::of(&[tool.as_bytes(), &[0], form.as_bytes(), &bytes])
}

fn named((dialect, operation): (Dialect, Operation)) -> String {
    format!("{dialect} {operation}")
}

/// How a call differs from the recorded one.
fn otherwise(changes: &[Difference], was: Form, is: Form) -> String {
    if let (Some(was), Some(is)) = (was, is)
        && was != is
    {
        return format!("asked for `{}`, and asks for `{}`", named(was), named(is));
    }
    let streams = |value: Option<&Json>| value == Some(&Json::Bool(true));
    let stream = changes.iter().find(|change| change.at == "/stream" && is.is_some());
    if let Some(Difference { old, new, .. }) = stream
        && streams(old.as_ref()) != streams(new.as_ref())
    {
        return match streams(new.as_ref()) {
            true => "asks for a stream, and the recorded answer came in one piece".to_owned(),
            false => "asks for an answer in one piece, and the recorded one is a stream".to_owned(),
        };
    }
    let paths: Vec<String> =
        changes.iter().take(4).map(|change| format!("`{}`", change.at)).collect();
    format!("has other arguments at {}", paths.join(", "))
}

pub(super) fn stopped() -> LayerReason {
    let message = "the agent has drifted from the recording, and nothing more is answered";
    LayerReason::effect_refused("replay", "replay.stopped", message)
}

pub(super) fn refusal(drift: &Drift) -> LayerReason {
    let detail = format!("replay.{}", drift.kind.as_str());
    LayerReason::effect_refused("replay", &detail, drift.message.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: Form = Some((Dialect::Chat, Operation::Generate));
    const COUNT: Form = Some((Dialect::Messages, Operation::CountTokens));

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &crate::domain::json::Limits::FILE).unwrap()
    }

    #[test]
    fn a_request_has_the_key_of_its_dialect_and_what_it_asks_for() {
        let settings = ReplaySettings {
            collect: false,
            engines: BTreeMap::new(),
            now: None,
            volatile: BTreeMap::from([("m".to_owned(), vec!["/at".to_owned()])]),
        };
        let of = |form, args: &str| key(&settings, ("m", form), &json(args));
        let same = r#"{"model":"m","at":1}"#;
        let messages = Some((Dialect::Messages, Operation::Generate));
        let keys = [CHAT, COUNT, messages, None].map(|form| of(form, same));
        let apart: BTreeSet<_> = keys.iter().collect();
        assert_eq!(apart.len(), keys.len());
        assert_eq!(of(CHAT, same), of(CHAT, r#"{"model":"m","at":2}"#));
    }

    #[test]
    fn a_drift_says_how_a_request_to_a_model_differs() {
        let of = |was: &str, is: &str| differences(&json(was), &json(is));
        let stream = of("{}", r#"{"stream":true,"n":1}"#);
        assert!(otherwise(&stream, CHAT, CHAT).starts_with("asks for a stream, and"));
        let whole = of(r#"{"stream":true}"#, r#"{"stream":false}"#);
        assert!(otherwise(&whole, CHAT, CHAT).starts_with("asks for an answer in one piece, and"));
        assert_eq!(otherwise(&whole, None, None), "has other arguments at `/stream`");
        let null = of("{}", r#"{"stream":false}"#);
        assert_eq!(otherwise(&null, CHAT, CHAT), "has other arguments at `/stream`");
        let form = "asked for `chat generate`, and asks for `messages count_tokens`";
        assert_eq!(otherwise(&[], CHAT, COUNT), form);
    }
}
