//! What a player tells the gate: which recorded run a new run repeats, what the policy saw of a
//! call, and where a decision or an outcome differs.

use std::sync::Arc;

use async_trait::async_trait;

use super::children;
use super::convert::{codes, otherwise, reasons, run_facts};
use super::drift::{Drift, DriftKind, differences};
use super::player::{BreakGlassUse, CallMatch, Player, refusal, stopped};
use super::step::{BreakGlassStep, RecordedCall};
use crate::domain::call::ToolCall;
use crate::domain::decision::{LayerReason, Verdict};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::outcome::Outcome;
use crate::enforce::{RecordedAgent, RecordedOpening, RecordedStep, ReplaySession};
use crate::judge::{Judged, Resumed};
use crate::policy::PolicyEngine;
use crate::record::decided;

impl Player {
    fn engine(&self, step: &RecordedCall) -> Option<Arc<dyn PolicyEngine>> {
        let recorded = || self.settings.engines.get(&step.decision.policy?).cloned();
        self.settings.now.clone().or_else(recorded)
    }

    fn manifest(&self, step: &RecordedCall) -> Digest {
        let (children, run) = (&self.recording.children, step.run.as_ref());
        let child = run.and_then(|run| children::place_of(children, run));
        child.map_or(self.recording.header.manifest, |(_, child)| child.manifest)
    }

    fn set(&self, step: &RecordedCall) -> RecordedStep {
        let engine = self.engine(step);
        let layers = engine.as_ref().map(|engine| engine.layers().to_vec()).unwrap_or_default();
        let layers: Vec<_> = layers.into_iter().map(|layer| (layer.layer, layer.digest)).collect();
        let resumed = step.approved.as_ref().map(|approved| Resumed {
            salt: approved.salt,
            nonce: approved.nonce,
            layers,
            manifest: self.manifest(step),
            definition: self.definitions.get(&step.tool).copied(),
            effect: approved.effect,
            approvals: approved.by.clone(),
        });
        let refused = step.ended.lapsed || step.input.is_none();
        RecordedStep {
            now: step.at,
            run_facts: step.input.as_ref().map(|input| run_facts(&input.document)),
            refusals: if refused { reasons(step) } else { Vec::new() },
            resumed,
            break_glass: step.break_glass.as_ref().map(|broken| Arc::new(broken.open())),
            engine,
        }
    }
}

#[async_trait]
impl ReplaySession for Player {
    fn recording(&self) -> Digest {
        self.recording.digest
    }

    fn opened(&self, opening: &RecordedOpening<'_>) -> Result<RecordedAgent, LayerReason> {
        let Some(parent) = &opening.parent else {
            let header = &self.recording.header;
            // The ids of a second run must differ from those of the first.
            let first = self.count() == 1;
            return Ok(RecordedAgent { seed: header.seed, run: first.then_some(header.run) });
        };
        let mut state = self.state.lock();
        if state.stopped {
            return Err(stopped());
        }
        let (children, above) = (&self.recording.children, self.place_of(parent));
        let opened = state.lineage.open(children, (above, opening.manifest), opening.claims);
        let child = opened.and_then(|place| children.get(place.checked_sub(1)?));
        if let Some(child) = child {
            return Ok(RecordedAgent { seed: child.seed, run: Some(child.run) });
        }
        let manifest = opening.manifest.prefixed();
        let message = format!("a child run under the manifest `{manifest}` is not recorded");
        let drift = Drift::new(DriftKind::ExtraChild, message);
        let reason = refusal(&drift);
        self.note(&mut state, drift)?;
        Err(reason)
    }

    async fn recorded_call(&self, call: &ToolCall) -> Result<Box<RecordedStep>, LayerReason> {
        let at = loop {
            let changed = self.changed.notified();
            match self.meet(call)? {
                CallMatch::Step(step) => break step,
                CallMatch::Wait => changed.await,
            }
        };
        let Some(step) = self.read(at) else {
            let message = "the recorded call cannot be read any more";
            return Err(LayerReason::effect_refused("replay", "replay.unreadable", message));
        };
        self.clock.advance(step.at);
        let recorded = self.set(&step);
        let key = (*call.run(), call.id().clone());
        self.state.lock().made.insert(key, (at, Arc::new(step)));
        Ok(Box::new(recorded))
    }

    fn judged(&self, judged: &Judged) {
        let (call, decision) = (judged.prepared().call(), judged.decision());
        let Some(step) = self.step_of(call.run(), call.id()).filter(|step| !step.ended.lapsed)
        else {
            return;
        };
        let now = Json::object([
            ("verdict", Json::from(decision.verdict.as_str())),
            ("enforced", Json::from(decision.enforced)),
            ("reasons", codes(&decided::reasons(&decision.reasons))),
            ("obligations", Json::of(&decided::obligations(&decision.obligations))),
            ("break_glass", nonce(judged.break_glass().map(|open| open.statement.nonce.as_str()))),
        ]);
        let was = step.decision.verdict.map(Verdict::as_str);
        let recorded = Json::object([
            ("verdict", was.map_or(Json::Null, Json::from)),
            ("enforced", Json::from(step.decision.enforced)),
            ("reasons", codes(&step.decision.reasons)),
            ("obligations", Json::of(&step.decision.obligations)),
            ("break_glass", nonce(step.break_glass.as_ref().map(BreakGlassStep::nonce))),
        ]);
        if judged.break_glass().is_some() {
            self.state.lock().broken.extend(again(&step));
        }
        let changes = differences(&recorded, &now);
        if changes.is_empty() {
            return;
        }
        let is = decision.verdict.as_str();
        let why = decision.reasons.first().map(|reason| format!(": {}", reason.message));
        let message = format!(
            "step {} (`{}`) was `{}` and is `{is}`{}",
            step.number,
            step.tool,
            was.unwrap_or_default(),
            why.unwrap_or_default()
        );
        let drift = Drift::at(DriftKind::Decision, (step.number, step.tool.clone()), message);
        let drift = Drift { call: Some(call.id().to_string()), changes, ..drift };
        // The decision of this call stands; only later calls get no answer.
        drop(self.note(&mut self.state.lock(), drift));
    }

    fn over(&self, run: &RunId, call: &CallId, outcome: Option<&Outcome>) {
        let mut state = self.state.lock();
        let Some((at, step)) = state.made.remove(&(*run, call.clone())) else { return };
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

fn nonce(order: Option<&str>) -> Json {
    order.map_or(Json::Null, Json::from)
}

/// Notes a call that runs under break-glass again.
fn again(step: &RecordedCall) -> Option<BreakGlassUse> {
    let broken = step.break_glass.as_ref()?;
    let (nonce, by) = (broken.nonce().to_owned(), broken.by().to_vec());
    Some(BreakGlassUse { step: step.number, tool: step.tool.clone(), nonce, by })
}
