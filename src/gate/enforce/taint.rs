//! The taint of runs on the road: what a call would carry, what an answer brings to the runs of its caller,
//! and what lingers of a run that is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
use crate::domain::taint::{Label, LabelOrigin};
use crate::judge::Prepared;
use crate::ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::permit::{Finished, Settled};
use crate::policy::flow::{FlowFloor, TaintFacts};
use crate::record::call::TaintLabel;
use crate::record::run::TaintCleared;
use crate::record::{Draft, List};
use crate::taint::{Reading, ReadingCopy, SharedReading, add_labels};

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

/// What the runs of one caller have read. WHY: opening another run is free, so what one of them reads counts for
/// all.
#[derive(Debug, Default)]
struct CallerTaint {
    /// What any of them has read. It lingers after the last one.
    shared: SharedReading,
    /// Open runs that know all of it.
    sharing: usize,
    /// Open runs whose labels an order cleared: each knows only what was read since.
    apart: BTreeMap<RunId, SharedReading>,
    /// Other callers with a run above one of its open runs, and above how many of them.
    above: BTreeMap<CallerKey, usize>,
    /// How long it lingers once none is open (monotonic).
    until: Duration,
}

impl CallerTaint {
    fn readings(&self) -> impl Iterator<Item = &SharedReading> {
        std::iter::once(&self.shared).chain(self.apart.values())
    }

    fn is_over(&self, now: Duration) -> bool {
        self.sharing == 0 && self.apart.is_empty() && self.until <= now
    }

    /// Puts a run apart that knows no more than this, whether it shared what the others know or was apart before.
    fn cleared(&mut self, run: RunId, reading: &SharedReading) {
        if self.apart.insert(run, Arc::clone(reading)).is_some() {
            return;
        }
        self.sharing = self.sharing.saturating_sub(1);
        if self.sharing == 0 {
            // What the cleared runs know is all that is left.
            let left: Vec<ReadingCopy> = self.apart.values().map(|one| one.lock().copy()).collect();
            let mut shared = Reading::default();
            left.iter().for_each(|one| shared.add(one));
            self.shared = Arc::new(Mutex::new(shared));
        }
    }
}

/// What the runs of each caller have read.
#[derive(Debug, Default)]
pub(super) struct TaintOfCallers {
    callers: Mutex<BTreeMap<CallerKey, CallerTaint>>,
    /// Taken to read while an answer brings labels and until its entry is recorded, to write while an
    /// order clears them: in memory the two follow each other as in the ledger. An answer without labels
    /// does not wait for it.
    order: RwLock<()>,
}

fn caller(run: &Run) -> CallerKey {
    key(&run.opener.name, &run.auth)
}

/// The callers of the runs above, each once, without the run's own.
fn callers_above(run: &Run) -> BTreeSet<CallerKey> {
    let own = caller(run);
    run.above().map(caller).filter(|above| *above != own).collect()
}

impl TaintOfCallers {
    /// Does this with what the runs of the caller have read, and forgets what lingers no longer.
    fn with<T>(
        &self,
        caller: CallerKey,
        now: Duration,
        what: impl FnOnce(&mut CallerTaint) -> T,
    ) -> T {
        let mut callers = self.callers.lock();
        callers.retain(|_, one| !one.is_over(now));
        what(callers.entry(caller).or_default())
    }

    /// The labels of a run that is being opened. They linger until it is: it must know what its entry says.
    fn labels(
        &self,
        caller: &CallerKey,
        now: Duration,
        until: Duration,
    ) -> BTreeMap<Label, LabelOrigin> {
        let mut callers = self.callers.lock();
        let Some(known) = callers.get_mut(caller).filter(|one| !one.is_over(now)) else {
            return BTreeMap::new();
        };
        known.until = known.until.max(until);
        known.shared.lock().labels().clone()
    }

    /// Adds what a run has read to what the others have, and lets it know that; unless an order had cleared its
    /// labels.
    fn opened(&self, run: &Run, now: Duration) {
        let above = callers_above(run);
        let mut taint = run.taint.lock();
        let read = taint.copy();
        self.with(caller(run), now, |known| {
            for above in above {
                let below = known.above.entry(above).or_default();
                *below = below.saturating_add(1);
            }
            known.shared.lock().add(&read);
            if taint.cleared() > 0 {
                known.apart.insert(run.id, Arc::clone(taint.reading()));
            } else {
                known.sharing = known.sharing.saturating_add(1);
                taint.share(&known.shared);
            }
        });
    }

    /// Forgets a run that was sealed. What it has read lingers until then.
    fn sealed(&self, run: &Run, now: Duration, until: Duration) {
        let above = callers_above(run);
        self.with(caller(run), now, |known| {
            known.until = known.until.max(until);
            if known.apart.remove(&run.id).is_none() {
                known.sharing = known.sharing.saturating_sub(1);
            }
            known.above.retain(|caller, below| {
                *below = below.saturating_sub(usize::from(above.contains(caller)));
                *below > 0
            });
        });
    }

    /// What the runs of these callers have read, and of those above them, however they are connected.
    fn reached(&self, from: impl IntoIterator<Item = CallerKey>, all: &mut Vec<SharedReading>) {
        let known = self.callers.lock();
        let (mut left, mut done): (Vec<_>, BTreeSet<_>) = (Vec::from_iter(from), BTreeSet::new());
        while let Some(caller) = left.pop() {
            let Some(one) = known.get(&caller).filter(|_| !done.contains(&caller)) else {
                continue;
            };
            all.extend(one.readings().cloned());
            left.extend(one.above.keys().cloned());
            done.insert(caller);
        }
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
                labels: run.taint.lock().labels(),
                floor,
                ..TaintFacts::default()
            };
        }
        let call = prepared.call();
        {
            let mut taint = run.taint.lock();
            if taint.reading().lock().labels().is_empty() {
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
        let _order = self.runs.taint.order.read().await;
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
        let source = self.runs.marker.source(place, labels, answer);
        let source = run.taint.lock().unsaid(&self.runs.marker, source);
        for reading in self.readers(run) {
            reading.lock().bring(&source);
        }
    }

    /// What the runs of callers have read, unless each run is judged by what it read itself.
    fn of_callers(&self) -> Option<&TaintOfCallers> {
        (!self.settings.taint.linger.is_zero()).then_some(&self.runs.taint)
    }

    /// What those have read who learn of an answer to this run, each once.
    fn readers(&self, run: &Run) -> Vec<SharedReading> {
        let runs = || std::iter::once(run).chain(run.above());
        let mut all: Vec<_> = runs().map(|one| Arc::clone(one.taint.lock().reading())).collect();
        if let Some(callers) = self.of_callers() {
            callers.reached(runs().map(caller), &mut all);
        }
        all.sort_by_key(Arc::as_ptr);
        all.dedup_by(|one, other| Arc::ptr_eq(one, other));
        all
    }

    /// What a new run knows of its parent's reading and of `recorded`, the labels of what it is a fork of.
    pub(super) fn inherited(parent: Option<&Run>, recorded: Option<&ReadingCopy>) -> Reading {
        let of_parent = parent.map(|run| run.taint.lock().copy());
        let mut reading = Reading::default();
        of_parent.iter().chain(recorded).for_each(|one| reading.add(one));
        reading
    }

    /// The labels of a new run of this caller that has inherited this, in the form of `run.opened`; `None` if there
    /// are none.
    pub(super) fn labels_at_opening(
        &self,
        (agent, auth): (&str, &CallerAuth),
        inherited: &Reading,
    ) -> Option<List<TaintLabel, 4, 1>> {
        let now = self.clock.monotonic();
        let until = now.saturating_add(self.settings.taint.linger);
        let mut labels = self.runs.taint.labels(&key(agent, auth), now, until);
        add_labels(&mut labels, inherited.labels());
        List::some(labels.into_iter().map(|(label, origin)| {
            let LabelOrigin { run, call } = origin;
            TaintLabel { call, label, run: Some(run) }
        }))
    }

    /// Lets a run that others know of now share what its caller's runs read, and the runs above know what it
    /// knows.
    pub(super) fn share_taint(&self, run: &Run) {
        if let Some(callers) = self.of_callers() {
            callers.opened(run, self.clock.monotonic());
        }
        if run.parent.is_none() {
            return;
        }
        let known = run.taint.lock().copy();
        self.readers(run).iter().for_each(|reading| reading.lock().add(&known));
    }

    /// The same for a new run: its parent may have read something while the opening was recorded.
    pub(super) fn share_new_taint(&self, run: &Run) {
        if let Some(parent) = &run.parent {
            let read = parent.taint.lock().copy();
            run.taint.lock().reading().lock().add(&read);
        }
        self.share_taint(run);
    }

    /// Keeps what a run that is over has read for its caller's next runs.
    pub(super) fn linger(&self, run: &Run) {
        if let Some(callers) = self.of_callers() {
            let now = self.clock.monotonic();
            callers.sealed(run, now, now.saturating_add(self.settings.taint.linger));
        }
    }

    /// The same for what a run of an earlier process has read, for what is left of the time.
    pub(super) fn linger_so_long(
        &self,
        (agent, auth): (&str, &CallerAuth),
        read: &ReadingCopy,
        left: Duration,
    ) {
        if read.labels().is_empty() || left.is_zero() {
            return;
        }
        let now = self.clock.monotonic();
        self.runs.taint.with(key(agent, auth), now, |known| {
            known.shared.lock().add(read);
            known.until = known.until.max(now.saturating_add(left));
        });
    }

    /// Takes the labels of an open run away, and what lingers for its caller, once that is recorded. An
    /// order that was carried out before changes nothing: the run may have read something since.
    pub(super) async fn clear_taint(&self, row: &Row, id: &RunId) -> Json {
        let known = |known: bool| ("known", Json::from(known));
        // WHY: an answer is recorded either before this order, or after it and brings its labels.
        let order = self.runs.taint.order.write();
        let Ok(_order) = tokio::time::timeout(CLEAR_WITHIN, order).await else {
            let why = "answers of this gate are still being recorded: give the order again";
            return Json::object([("error", Json::from(why))]);
        };
        let Some(run) = self.runs.of_id(id) else { return Json::object([known(false)]) };
        if run.taint.lock().cleared() >= row.seq {
            return Json::object([known(true)]);
        }
        let labels: Vec<Label> = run.taint.lock().labels().into_keys().collect();
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
        let mut taint = run.taint.lock();
        taint.clear(row.seq);
        if let Some(callers) = self.of_callers() {
            let apart = |known: &mut CallerTaint| known.cleared(run.id, taint.reading());
            callers.with(caller(&run), self.clock.monotonic(), apart);
        }
        drop(taint);
        Json::object([known(true), ("labels", Json::of(&labels))])
    }
}
