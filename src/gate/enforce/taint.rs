//! The taint of runs on the road: what a call would carry, what an answer brings, and what lingers of a
//! run that is over.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::Road;
use super::callers::{CallerKey, key};
use super::run::Run;
use crate::control::Row;
use crate::domain::call::CallerAuth;
use crate::domain::effect::ToolKind;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::outcome::Outcome;
use crate::domain::taint::Label;
use crate::judge::Prepared;
use crate::judge::guarding::Direction;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::permit::Finished;
use crate::policy::flow::{FlowFloor, TaintFacts};
use crate::record::call::TaintLabel;
use crate::record::run::TaintCleared;
use crate::record::{Draft, List};
use crate::taint::Taint;

/// What the gate does about calls of runs that have read something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSettings {
    /// What it demands, whatever the policy says.
    pub floor: FlowFloor,
    /// How long labels of a run that is over stay with its caller.
    pub linger: Duration,
}

impl Default for FlowSettings {
    fn default() -> Self {
        Self { floor: FlowFloor::default(), linger: Duration::from_secs(900) }
    }
}

/// What lingers of sealed runs, by caller, and until when (monotonic).
#[derive(Debug, Default)]
pub(super) struct LingeringTaint(Mutex<BTreeMap<CallerKey, (Taint, Duration)>>);

impl LingeringTaint {
    fn add(&self, caller: CallerKey, taint: &Taint, now: Duration, until: Duration) {
        if taint.labels().is_empty() {
            return;
        }
        let mut all = self.0.lock();
        all.retain(|_, (_, until)| *until > now);
        let (known, end) = all.entry(caller).or_default();
        known.add(taint);
        *end = until.max(*end);
    }

    fn of(&self, caller: &CallerKey, now: Duration) -> Option<Taint> {
        let all = self.0.lock();
        all.get(caller).filter(|(_, until)| *until > now).map(|(taint, _)| taint.clone())
    }

    fn forget(&self, caller: &CallerKey) {
        self.0.lock().remove(caller);
    }
}

impl Road {
    /// What the run has read, and what of that is in this call. Keeps the agent's own words.
    pub(super) fn taint_of(&self, run: &Run, prepared: &Prepared) -> TaintFacts {
        let floor = self.settings.taint.floor;
        let is_model = |kind: &str| kind == ToolKind::Model.as_str();
        // What a run has read goes to its model, which is part of the agent.
        if prepared.tool().is_none_or(|tool| is_model(&tool.kind)) {
            return TaintFacts {
                labels: run.taint.lock().labels().clone(),
                floor,
                ..TaintFacts::default()
            };
        }
        let call = prepared.call();
        {
            let mut taint = run.taint.lock();
            if taint.labels().is_empty() {
                taint.keep(call.canonical());
                return TaintFacts { floor, ..TaintFacts::default() };
            }
        }
        let marks = self.runs.marker.call(call);
        let mut taint = run.taint.lock();
        let facts = taint.facts(&marks, floor);
        taint.note(&marks, call.canonical().len());
        facts
    }

    /// Counts what was found in an answer, and brings its labels into its run and into every run above.
    pub(super) fn brought(&self, run: &Run, finished: &Finished) {
        self.metrics.found(Direction::Results.as_str(), &finished.observed().findings);
        let labels = &finished.observed().labels;
        if labels.is_empty() {
            return;
        }
        let answer = match &finished.ended().outcome {
            Outcome::Completed { result, .. } => result.as_slice(),
            Outcome::Failed { message, .. } => message.as_bytes(),
            Outcome::Unknown { .. } | Outcome::Cancelled { .. } => &[],
        };
        let own = run.taint.lock().own_words(&self.runs.marker);
        let place = (*finished.run(), finished.call().clone());
        let source = self.runs.marker.source(place, labels, (answer, &own));
        for run in std::iter::once(run).chain(run.above()) {
            run.taint.lock().bring(&source);
        }
    }

    /// The taint that a new run of this caller begins with.
    pub(super) fn taint_at_opening(
        &self,
        (agent, auth): (&str, &CallerAuth),
        parent: Option<&Run>,
    ) -> Taint {
        let lingers = self.runs.lingering.of(&key(agent, auth), self.clock.monotonic());
        let above = parent.map(|parent| parent.taint.lock().clone());
        Taint::inherited(above.iter().chain(&lingers))
    }

    /// Keeps the taint of a run that is over for its caller's next runs.
    pub(super) fn linger(&self, run: &Run) {
        let taint = run.taint.lock().clone();
        self.linger_for((&run.opener.name, &run.auth), &taint);
    }

    /// The same for a run that no client can continue.
    pub(super) fn linger_for(&self, (agent, auth): (&str, &CallerAuth), taint: &Taint) {
        let now = self.clock.monotonic();
        let until = now.saturating_add(self.settings.taint.linger);
        self.runs.lingering.add(key(agent, auth), taint, now, until);
    }

    /// Takes the labels of an open run away, and what lingers for its caller, once that is recorded. An
    /// order that was carried out before changes nothing: the run may have read something since.
    pub(super) async fn clear_taint(&self, row: &Row, id: &RunId) -> Json {
        let known = |known: bool| ("known", Json::from(known));
        let Some(run) = self.runs.of_id(id) else { return Json::object([known(false)]) };
        if run.taint.lock().cleared() >= row.seq {
            return Json::object([known(true)]);
        }
        let labels: Vec<Label> = run.taint.lock().labels().keys().copied().collect();
        let given = &row.given;
        let entry = TaintCleared {
            auth: given.auth.as_str().into(),
            labels: labels.iter().copied().collect(),
            order: row.seq.into(),
            reason: given.reason.as_str().into(),
            roles: given.roles.iter().map(|role| role.as_str().into()).collect(),
            subject: given.subject.as_str().into(),
        };
        let draft = Draft { run: Some(*id), ..Draft::of(entry) };
        if let Err(error) = self.ledger.record(DraftWithPayloads::bare(draft)).await {
            return Json::object([("error", Json::from(error.to_string()))]);
        }
        tracing::warn!(run = %id, order = row.seq, by = %given.subject, "an operator cleared the labels of a run");
        run.taint.lock().clear(row.seq);
        self.runs.lingering.forget(&key(&run.opener.name, &run.auth));
        Json::object([known(true), ("labels", Json::of(&labels))])
    }
}

/// The labels that a run begins with, in the form of `run.opened`; `None` if there are none.
pub(super) fn at_opening(taint: &Taint) -> Option<List<TaintLabel, 4, 1>> {
    List::some(taint.labels().iter().map(|(label, origin)| TaintLabel {
        call: origin.call.clone(),
        label: *label,
        run: Some(origin.run),
    }))
}
