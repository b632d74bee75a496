//! The taint of runs on the road: what a call would carry, what an answer brings to the runs of its caller,
//! and what lingers of a run that is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard};

use super::Road;
use super::callers::{CallerKey, key};
use super::fork::{RecordedAnswer, RecordedLabels};
use super::run::Run;
use crate::control::Row;
use crate::domain::call::CallerAuth;
use crate::domain::effect::ToolKind;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::outcome::Outcome;
use crate::domain::taint::Label;
use crate::judge::Prepared;
use crate::ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::permit::{Finished, Settled};
use crate::policy::flow::{FlowFloor, TaintFacts};
use crate::record::call::TaintLabel;
use crate::record::run::TaintCleared;
use crate::record::{Draft, List};
use crate::taint::Taint;

/// How long an order waits until the answers before it are recorded. WHY bounded: answers that come behind
/// it wait too.
const CLEAR_WITHIN: Duration = Duration::from_secs(5);

/// What the gate does about calls of runs that have read something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSettings {
    /// What it demands, whatever the policy says.
    pub floor: FlowFloor,
    /// How long labels of a run that is over stay with its caller. If they do not stay at all, no run
    /// shares labels with another one that its caller has open.
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
        if taint.labels().is_empty() || until <= now {
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

/// The open runs of each caller. WHY: opening another run is free, so what one of them reads counts for all.
#[derive(Debug, Default)]
pub(super) struct RunsOfCallers {
    open: Mutex<BTreeMap<CallerKey, Vec<Weak<Run>>>>,
    /// Taken to read while an answer brings labels and until its entry is recorded, to write while an
    /// order clears them: in memory the two follow each other as in the ledger. An answer without labels
    /// does not wait for it.
    order: RwLock<()>,
}

fn caller(run: &Run) -> CallerKey {
    key(&run.opener.name, &run.auth)
}

impl RunsOfCallers {
    /// Adds a run that was opened.
    pub fn opened(&self, run: &Arc<Run>) {
        self.open.lock().entry(caller(run)).or_default().push(Arc::downgrade(run));
    }

    /// Forgets a run that was sealed.
    pub fn sealed(&self, run: &Run) {
        let (mut open, caller) = (self.open.lock(), caller(run));
        let Some(runs) = open.get_mut(&caller) else { return };
        runs.retain(|one| one.upgrade().is_some_and(|one| one.id != run.id));
        if runs.is_empty() {
            open.remove(&caller);
        }
    }

    fn of(&self, caller: &CallerKey) -> Vec<Arc<Run>> {
        let open = self.open.lock();
        open.get(caller).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Holds back orders that clear labels, while an answer brings some and until it is recorded; `None` if such an
    /// order is being carried out.
    pub fn try_answering(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.order.try_read().ok()
    }
}

/// What an agent reads of an outcome.
fn text(outcome: &Outcome) -> &[u8] {
    match outcome {
        Outcome::Completed { result, .. } => result,
        Outcome::Failed { message, .. } => message.as_bytes(),
        Outcome::Unknown { .. } | Outcome::Cancelled { .. } => &[],
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

    /// Brings the labels of an answer into every run that may learn of it: its own, those above, and the
    /// others that the callers of these have open.
    pub(super) fn brought(&self, run: &Run, finished: &Finished) {
        let labels = &finished.observed().labels;
        if labels.is_empty() {
            return;
        }
        let place = (*finished.run(), finished.call().clone());
        self.bring(run, place, labels, text(&finished.ended().outcome));
    }

    /// Records an outcome behind the labels that it brings, in the order that the ledger has of it and of orders that
    /// clear labels.
    pub(super) async fn bring_and_settle(
        &self,
        run: &Run,
        finished: Finished,
    ) -> Result<Settled, ledger::Error> {
        if finished.observed().labels.is_empty() {
            return self.ledger.settle(finished).await;
        }
        let _order = self.runs.of_callers.order.read().await;
        self.brought(run, &finished);
        self.ledger.settle(finished).await
    }

    /// The same as [`Self::brought`] for an answer that a forked run gets from its recording.
    pub(super) fn brought_again(&self, run: &Run, line: &RecordedAnswer) {
        let RecordedAnswer::Ended(outcome, Some(RecordedLabels { call, labels })) = line else {
            return;
        };
        if let Some(prefix) = run.keeping.fork_prefix() {
            self.bring(run, (prefix.fork().run, call.clone()), labels, text(outcome));
        }
    }

    fn bring(&self, run: &Run, place: (RunId, CallId), labels: &[Label], answer: &[u8]) {
        let own = run.taint.lock().own_words(&self.runs.marker);
        let source = self.runs.marker.source(place, labels, (answer, &own));
        let (mut learnt, mut callers, mut others) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let mut give = |run: &Run, others: &mut Vec<Arc<Run>>| {
            for reader in std::iter::once(run).chain(run.above()) {
                if learnt.insert(reader.id) {
                    reader.taint.lock().bring(&source);
                    let caller = caller(reader);
                    if !callers.contains(&caller) {
                        others.extend(self.open_of(&caller));
                        callers.insert(caller);
                    }
                }
            }
        };
        give(run, &mut others);
        // Each caller and each run once, however they are connected.
        while let Some(other) = others.pop() {
            give(&other, &mut others);
        }
    }

    fn open_of(&self, caller: &CallerKey) -> Vec<Arc<Run>> {
        match self.settings.taint.linger.is_zero() {
            true => Vec::new(),
            false => self.runs.of_callers.of(caller),
        }
    }

    /// The taint that a new run of this caller begins with.
    pub(super) fn taint_at_opening(
        &self,
        (agent, auth): (&str, &CallerAuth),
        parent: Option<&Run>,
    ) -> Taint {
        let caller = key(agent, auth);
        let lingers = self.runs.lingering.of(&caller, self.clock.monotonic());
        let open = self.open_of(&caller);
        let runs = parent.into_iter().chain(open.iter().map(AsRef::as_ref));
        let read: Vec<Taint> = runs.filter_map(|run| run.taint.lock().shared()).collect();
        // The newest last: the oldest marks are forgotten first.
        Taint::inherited(lingers.iter().chain(&read))
    }

    /// Adds to a run that others know of now what its caller's runs had read by then: an answer that came
    /// while the opening was recorded did not find it.
    pub(super) fn catch_up_on_taint(&self, run: &Run) {
        let caller = (run.opener.name.as_str(), &run.auth);
        let read = self.taint_at_opening(caller, run.parent.as_deref());
        run.taint.lock().add(&read);
        let taint = run.taint.lock().clone();
        run.above().for_each(|above| above.taint.lock().add(&taint));
    }

    /// Keeps the taint of a run that is over for its caller's next runs.
    pub(super) fn linger(&self, run: &Run) {
        let taint = run.taint.lock().clone();
        self.linger_for((&run.opener.name, &run.auth), &taint);
    }

    /// The same for a run that no client can continue.
    pub(super) fn linger_for(&self, caller: (&str, &CallerAuth), taint: &Taint) {
        self.linger_so_long(caller, taint, self.settings.taint.linger);
    }

    /// The same for what is left of the time.
    pub(super) fn linger_so_long(
        &self,
        (agent, auth): (&str, &CallerAuth),
        taint: &Taint,
        left: Duration,
    ) {
        let now = self.clock.monotonic();
        let until = now.saturating_add(left);
        self.runs.lingering.add(key(agent, auth), taint, now, until);
    }

    /// Takes the labels of an open run away, and what lingers for its caller, once that is recorded. An
    /// order that was carried out before changes nothing: the run may have read something since.
    pub(super) async fn clear_taint(&self, row: &Row, id: &RunId) -> Json {
        let known = |known: bool| ("known", Json::from(known));
        // WHY: an answer is recorded either before this order, or after it and brings its labels.
        let order = self.runs.of_callers.order.write();
        let Ok(_order) = tokio::time::timeout(CLEAR_WITHIN, order).await else {
            let why = "answers of this gate are still being recorded: give the order again";
            return Json::object([("error", Json::from(why))]);
        };
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
