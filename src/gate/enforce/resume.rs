//! Resumes or seals the runs that were open when the previous writer ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Road;
use super::callers::{CallerKey, key};
use super::control::Backlog;
use super::hold_turns::HoldTurns;
use super::keeping::Keeping;
use super::lineage::ChildSlot;
use super::rates::Rates;
use super::run::{CallStage, Run, RunState};
use super::sight::RunModels;
use crate::domain::call::CallerAuth;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::domain::taint::{Label, LabelOrigin, ToolRoles};
use crate::domain::tier::Binding;
use crate::domain::time::Timestamp;
use crate::identity::manifest::{Manifest, Mode};
use crate::ledger::{PastReading, PastSpending, RecoveredRun, SealedReading, closing};
use crate::limits::{BudgetShare, Usage};
use crate::record::Kind;
use crate::record::calls::Phase;
use crate::record::run::{Delegate, Implicit, ReplayMode, RunOpened, Setting};
use crate::taint::{ReadingCopy, Taint};
use crate::tool::Toolbox;

use super::opening::{agent_facts, grants, token_of};

impl Road {
    /// Resumes the runs that were open when this writer last ended. Seals a run whose manifest is
    /// no longer in force, and the runs below it. Then obeys the orders that arrived while the gate
    /// was down.
    pub async fn resume(self: &Arc<Self>, recovered: Vec<RecoveredRun>, backlog: Backlog) {
        let sealed = self.sealed_lately(&recovered).await;
        self.take_up(recovered, &sealed);
        self.catch_up(backlog).await;
    }

    /// What runs had read whose labels linger, or that were sealed while one of these was open; waits until the
    /// ledger can be read.
    async fn sealed_lately(&self, recovered: &[RecoveredRun]) -> Vec<SealedReading> {
        let linger = self.settings.taint.linger;
        if linger.is_zero() {
            return Vec::new();
        }
        let linger = i64::try_from(linger.as_millis()).unwrap_or(i64::MAX);
        let opened = recovered.iter().map(|found| found.opened.ts.millis()).min();
        loop {
            let since = self.clock.now().millis().saturating_sub(linger);
            let since = opened.map_or(since, |opened| since.min(opened));
            match self.ledger.sealed_since(Timestamp::from_millis(since)).await {
                Ok(sealed) => return sealed,
                Err(error) => {
                    tracing::warn!(%error, "what sealed runs had read cannot be read yet");
                }
            }
            if !self.tasks.pause(Duration::from_millis(500)).await {
                return Vec::new();
            }
        }
    }

    fn take_up(self: &Arc<Self>, mut recovered: Vec<RecoveredRun>, sealed: &[SealedReading]) {
        let rules = self.in_force.now();
        if !self.settings.taint.linger.is_zero() {
            share(&mut recovered, sealed, &rules.toolbox);
        }
        sealed.iter().filter(|one| !one.is_cleared).for_each(|one| self.linger_since(one));
        let manifests = rules.agents.manifests();
        let (mut taken, mut left) = (BTreeMap::new(), Remainder::default());
        for found in in_order(recovered) {
            let implicit = opened(&found).and_then(|opened| opened.implicit);
            if implicit == Some(Implicit::Session) {
                left.add(found, "session_lost", None);
                continue;
            }
            // WHY sealed: which steps of its recording were answered is unknown now, and a step
            // that the recording should answer must not run.
            if is_fork(&found) {
                left.add(found, "recording_lost", None);
                continue;
            }
            let above = opened(&found).and_then(|opened| opened.parent);
            let parent: Option<Arc<Run>> = above.and_then(|id| taken.get(&id).cloned());
            let now = self.clock.monotonic();
            let resumed = match above.is_some() == parent.is_some() {
                true => resumed(&found, manifests, parent.clone(), now),
                false => None,
            };
            match resumed {
                Some(mut run) => {
                    self.remember(&mut run, &found, &rules.toolbox);
                    let run = Arc::new(run);
                    if run.incognito {
                        self.ledger.keep_nothing_of(run.id);
                    }
                    self.share_taint(&run);
                    self.runs.insert(&run);
                    taken.insert(run.id, Arc::clone(&run));
                    if let Some(parent) = parent {
                        parent.reserve_recovered_child().settle(&run);
                    }
                    for (call, expires) in found.held() {
                        self.holds.watch(&run, call, expires);
                    }
                    for call in found.decided_holds() {
                        self.weigh_soon(&run, call);
                    }
                    self.watch_wall(&run);
                    self.watch_idle(&run);
                }
                None => left.add(found, "orphaned", parent.as_ref()),
            }
        }
        let sealed = left.families.iter().flat_map(|family| &family.runs);
        sealed.for_each(|(found, _)| self.linger_after(found, &rules.toolbox));
        left.families.into_iter().for_each(|family| self.seal_left(family));
    }

    /// Keeps the labels of a run that was sealed before the start for its caller, as long as they linger.
    fn linger_since(&self, sealed: &SealedReading) {
        let SealedReading { agent, auth, reading, sealed_at, is_cleared: _ } = sealed;
        let over = self.clock.now().millis().saturating_sub(sealed_at.millis());
        let over = Duration::from_millis(u64::try_from(over).unwrap_or_default());
        let left = self.settings.taint.linger.saturating_sub(over);
        self.linger_so_long((agent, auth), &ReadingCopy::recovered(reading.labels()), left);
    }

    /// Keeps the labels of a recovered run for its caller, in case no client can continue it.
    fn linger_after(&self, found: &RecoveredRun, toolbox: &Toolbox) {
        let read = ReadingCopy::recovered(recovered_labels(found, toolbox));
        for (agent, auth) in callers(found) {
            self.linger_so_long((&agent, &auth), &read, self.settings.taint.linger);
        }
    }

    /// Seals a run whose opening may have become durable after its caller received an error; no
    /// client has its token. Its parent is not sealed before it.
    pub(super) fn seal_stray(&self, id: RunId, parent: Option<ChildSlot>) {
        let ledger = self.ledger.clone();
        self.tasks.spawn(async move {
            drop(ledger.owe(closing::sealing(id, "not_started")).await);
            drop(parent);
        });
    }

    /// Restores the state that the run's limits use: consecutive errors, cost at current prices,
    /// and denials.
    fn remember(&self, run: &mut Run, found: &RecoveredRun, toolbox: &Toolbox) {
        let bounds = &self.budget.bounds;
        run.ordered = bounds.ordered.contains(&run.manifest.name);
        let past = &found.past;
        let own = Some(&past.spending).filter(|_| run.mode == Mode::Enforce);
        let all = own.into_iter().chain([&past.delegated.spending]);
        let spent = all
            .map(|spending| spent(spending, toolbox))
            .fold(BudgetShare::default(), BudgetShare::plus);
        let granted = past.denied.iter().filter(|(tool, _)| run.granted(tool).is_some());
        let granted: BTreeMap<_, _> = granted.map(|(tool, times)| (tool.clone(), *times)).collect();
        let labels = recovered_labels(found, toolbox);
        *run.taint.get_mut() = Taint::recovered(labels, past.cleared);
        let state = run.state.get_mut();
        state.place = Some(self.runs.places.keep(&run.opener.name));
        let held = found.held().filter_map(|(call, _)| past.held.get_key_value(call));
        state.held_tools = held.map(|(call, tool)| (call.clone(), tool.clone())).collect();
        state.taken_up = state.held_tools.clone();
        state.usage = std::mem::take(&mut state.usage).after(past.errors_in_row, spent);
        state.rates = Rates::recovered(&past.rates);
        let calls = self.budget.callers.calls(&run.manifest.name, &run.auth);
        state.usage = std::mem::take(&mut state.usage).having_delegated(past.delegated.calls);
        state.usage = std::mem::take(&mut state.usage).among(calls);
        state.denied_tools = granted;
        if let Some(most) = bounds.denials_max {
            // A suspension survives the restart: the same denials lead to it again.
            let first = past.denials.front().map_or(0, |at| at.millis());
            for at in &past.denials {
                let since = u64::try_from(at.millis().saturating_sub(first)).unwrap_or(0);
                state.suspended |= state.usage.denied_at(most, Duration::from_millis(since));
            }
            state.usage.forget_denials();
        }
        if let Some(at) = past.alarmed {
            let suspended = self.budget.remember_alarm(run, at);
            run.state.get_mut().suspended |= suspended;
        }
    }

    /// Seals recovered runs that no client can continue, children before their parents.
    fn seal_left(&self, family: RunFamily) {
        let ledger = self.ledger.clone();
        self.tasks.spawn(async move {
            for (found, reason) in family.runs.into_iter().rev() {
                for (call, _) in found.held() {
                    drop(ledger.owe(closing::held_ended(found.run, call, false, reason)).await);
                }
                drop(ledger.owe(closing::sealing(found.run, reason)).await);
            }
            drop(family.reservation);
        });
    }
}

/// The labels of what a recovered run has read.
fn recovered_labels(found: &RecoveredRun, toolbox: &Toolbox) -> BTreeMap<Label, LabelOrigin> {
    let mut reading = found.past.reading.clone();
    reading.add(&lost(found, toolbox));
    reading.labels()
}

/// What the answers of calls whose end was lost may have brought: they may have been released.
fn lost(found: &RecoveredRun, toolbox: &Toolbox) -> PastReading {
    let mut reading = PastReading::default();
    for (call, tool) in &found.past.lost {
        let roles = toolbox.get(tool).map_or_else(ToolRoles::default, |tool| tool.facts.roles);
        for label in roles.labels() {
            let origin = LabelOrigin { run: found.run, call: call.clone() };
            reading.bring(label, origin, Seq::MAX);
        }
    }
    reading
}

/// The caller of a run. WHY several: the entry does not say which of the agents above opened a run for another one.
fn callers(found: &RecoveredRun) -> Vec<(String, CallerAuth)> {
    let Some(opened) = opened(found) else { return Vec::new() };
    let auth = CallerAuth::from(&opened.auth);
    let above = opened.delegation.iter().flat_map(|list| list.iter()).map(|one| &one.id);
    let agents = std::iter::once(&opened.agent).chain(above).map(ToString::to_string);
    agents.map(|agent| (agent, auth.clone())).collect()
}

/// What the runs of one caller had read.
#[derive(Default)]
struct CallerReading {
    /// What counts for each of them.
    stands: PastReading,
    /// What counts for those that were open when it was read.
    ever: PastReading,
}

/// Adds to each recovered run what the other runs of its caller had read.
fn share(recovered: &mut [RecoveredRun], sealed: &[SealedReading], toolbox: &Toolbox) {
    let keys = |found: &RecoveredRun| {
        callers(found).iter().map(|(agent, auth)| key(agent, auth)).collect::<Vec<_>>()
    };
    let mut read: BTreeMap<CallerKey, CallerReading> = BTreeMap::new();
    for SealedReading { agent, auth, reading, .. } in sealed {
        read.entry(key(agent, auth)).or_default().ever.collect(reading);
    }
    for found in &*recovered {
        let lost = lost(found, toolbox);
        for caller in keys(found) {
            let all = read.entry(caller).or_default();
            all.stands.add(&found.past.reading);
            all.stands.add(&lost);
            all.ever.collect(&found.past.reading);
        }
    }
    for found in recovered {
        for all in keys(found).iter().filter_map(|caller| read.get(caller)) {
            found.past.reading.add(&all.stands);
            found.past.reading.learn(&all.ever, found.opened.seq);
        }
    }
}

/// The cost of earlier calls: the measured usage where it is known, otherwise the maximum, at
/// current prices.
fn spent(spending: &PastSpending, toolbox: &Toolbox) -> BudgetShare {
    let measured = BudgetShare { tokens: spending.tokens, cost: spending.cost_micro_usd };
    let others = spending.unmeasured.iter().filter_map(|(tool, calls)| {
        let tool = toolbox.get(tool)?;
        let flat = tool.facts.cost_micro_usd.unwrap_or(0).saturating_mul(calls.calls);
        // Each call may have had all the bytes: the estimate errs on the high side.
        let most = tool.executor.most(&Json::Null, calls.args_bytes);
        Some(most.map_or(BudgetShare { tokens: 0, cost: flat }, |most| BudgetShare {
            tokens: most.tokens.saturating_mul(calls.calls),
            cost: most.cost_micro_usd.unwrap_or(0).saturating_mul(calls.calls),
        }))
    });
    others.fold(measured, BudgetShare::plus)
}

/// A run that cannot be resumed, with the runs below it; parents precede their children.
struct RunFamily {
    runs: Vec<(RecoveredRun, &'static str)>,
    /// A slot in a resumed parent, which is not sealed before these runs are.
    reservation: Option<ChildSlot>,
}

/// All runs that cannot be resumed.
#[derive(Default)]
struct Remainder {
    families: Vec<RunFamily>,
    /// The family of each run, by index.
    of: BTreeMap<RunId, usize>,
}

impl Remainder {
    fn add(&mut self, found: RecoveredRun, reason: &'static str, parent: Option<&Arc<Run>>) {
        let above = opened(&found).and_then(|opened| opened.parent);
        let place = above.and_then(|above| self.of.get(&above).copied());
        self.of.insert(found.run, place.unwrap_or(self.families.len()));
        match place.and_then(|place| self.families.get_mut(place)) {
            Some(family) => family.runs.push((found, reason)),
            None => {
                let reservation = parent.map(Run::reserve_recovered_child);
                self.families.push(RunFamily { runs: vec![(found, reason)], reservation });
            }
        }
    }
}

/// By time of opening: the last run of a thread is the one that continues; an earlier one was being
/// sealed.
fn in_order(mut recovered: Vec<RecoveredRun>) -> Vec<RecoveredRun> {
    recovered.sort_by_key(|found| found.opened.seq);
    recovered
}

fn is_fork(found: &RecoveredRun) -> bool {
    let replay = opened(found).and_then(|opened| opened.replay.as_ref());
    replay.is_some_and(|replay| replay.mode == ReplayMode::Fork)
}

fn opened(found: &RecoveredRun) -> Option<&RunOpened> {
    found.opened.draft.get()
}

/// Rebuilds a run from its entries, if its manifest is still in force.
fn resumed(
    found: &RecoveredRun,
    manifests: &[Arc<Manifest>],
    parent: Option<Arc<Run>>,
    now: Duration,
) -> Option<Run> {
    let opened = opened(found)?;
    let hash = Digest::parse(opened.token_hash.as_deref()?)?;
    let thread = opened.implicit.map(|_| hash);
    let digest = opened.manifest.0;
    let manifest = manifests.iter().find(|m| m.digest == digest)?;
    let claimed = opened.delegate == Some(Delegate::Claimed);
    let opener = parent.as_ref().filter(|_| claimed).map_or(manifest, |parent| &parent.opener);
    let pair = |label: &Setting| (label.k.to_string(), label.v.to_string());
    let (mut errors, mut denied) = (0_u64, 0_u64);
    let mut calls = BTreeMap::new();
    for (call, phase) in found.calls.iter() {
        let place = match phase {
            Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_) => CallStage::Held,
            Phase::Authorized | Phase::Over(_) => CallStage::Booked,
        };
        match phase {
            Phase::Over(Kind::CallFailed | Kind::CallUnknown) => errors = errors.saturating_add(1),
            Phase::Over(Kind::CallDenied) => denied = denied.saturating_add(1),
            Phase::Held(_)
            | Phase::Approved(_)
            | Phase::Refused(_)
            | Phase::Authorized
            | Phase::Over(_) => {}
        }
        calls.insert(call.clone(), place);
    }
    let held = found.held().count();
    let asked = u64::try_from(calls.len()).unwrap_or(u64::MAX);
    let usage = Usage::resumed(asked, errors, denied);
    // WHY: an earlier version recorded `claimed` for runs of a face that carries no claims.
    let of_models = opened.labels.iter().any(|label| label.k == "face" && label.v == "llm");
    let carries = thread.is_none() || of_models;
    let binding = if carries { opened.binding } else { Binding::Unclaimed };
    Some(Run {
        id: found.run,
        manifest: Arc::clone(manifest),
        grants: grants(manifest, parent.as_deref()),
        opener: Arc::clone(opener),
        agent: agent_facts(manifest, binding, parent.as_deref()),
        parent,
        auth: CallerAuth::from(&opened.auth),
        opened_at: found.opened.ts,
        expires: opened.expires,
        // WHY: a run with an unknown mode must run nothing.
        mode: if opened.mode == "enforce" { Mode::Enforce } else { Mode::Simulate },
        labels: opened.labels.iter().map(pair).collect(),
        incognito: opened.incognito.is_some(),
        // WHY: how many ids were minted from the seed is unknown after a restart; random ids never
        // clash.
        keeping: Keeping::taken_up(opened.replay.as_ref()),
        ordered: false,
        token: thread.map_or(hash, |thread| token_of(&thread, &found.run)),
        thread,
        taint: Mutex::default(),
        models: RunModels::recovered(&found.past.models, manifest),
        state: Mutex::new(RunState { usage, calls, held, touched: now, ..RunState::default() }),
        released: AtomicU64::new(found.last_seq),
        idle: Notify::new(),
        followers: AtomicUsize::new(0),
        statements: HoldTurns::default(),
    })
}
