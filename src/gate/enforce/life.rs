//! A run from `run.opened` to `run.sealed`, and the construction and drain of the gate.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::amend::Basis;
use super::answer::Fault;
use super::budget::Budget;
use super::control::Control;
use super::holds::{Holds, Signers};
use super::in_force::{InForce, Policy, Rules};
use super::run::{Run, Sealed};
use super::runs::Runs;
use super::tasks::Tasks;
use super::{Parts, Road};
use crate::clock::Clock;
use crate::domain::code::Code;
use crate::domain::time::Timestamp;
use crate::identity::manifest::Manifest;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::permit::Receipt;
use crate::ledger::{self, Ledger, closing};
use crate::policy::PolicyEngine;
use crate::record::chain::ManifestBound;
use crate::record::{Draft, TaggedDigest};

/// The interval at which the wall clock is checked for a jump forward.
const LOOK: Duration = Duration::from_secs(5);

impl Road {
    /// Updates the metrics of open runs and held calls.
    pub fn count(&self) {
        self.metrics.open_runs(self.runs.open().len());
        self.metrics.held_calls(self.runs.held());
    }

    /// The gate over these parts. It serves once a policy is activated and the ledger is ready.
    pub fn new(parts: Parts) -> Arc<Self> {
        let tasks = Tasks::default();
        let runs = Runs::new(&parts);
        let budget = Budget::new(&parts, &tasks);
        let holds = Holds::new(&parts, &tasks);
        let control = Control::new(&parts, &tasks);
        let Parts { settings, ledger, toolbox, agents, clock, entropy, metrics, replaying, .. } =
            parts;
        Arc::new(Self {
            settings,
            ledger,
            clock,
            entropy,
            metrics,
            in_force: InForce::new(toolbox, agents),
            runs,
            budget,
            holds,
            control,
            replaying,
            tasks,
        })
    }

    /// Why the gate cannot do all its work: operators' orders, its self-test, or the isolation of
    /// its agents.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = self.control.reasons();
        reasons.extend(self.control.self_test_reasons());
        reasons.extend(self.control.posture.reasons(&self.in_force.now().agents));
        reasons
    }

    /// Replaces the components that check signatures, after the configured list of people changed.
    pub fn replace_signers(&self, signers: Signers) {
        self.holds.replace(signers);
    }

    /// The operators' orders at this gate.
    pub const fn control(&self) -> &Control {
        &self.control
    }

    /// The ledger that the gate writes.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The bundle in force.
    #[must_use]
    pub fn engine(&self) -> Option<Arc<dyn PolicyEngine>> {
        self.in_force.engine()
    }

    /// Layers of the bundle in force that only observe at present, and until when.
    pub fn observing(&self) -> Vec<(&'static str, Timestamp)> {
        let now = self.clock.now();
        self.engine().map(|engine| engine.observing(now)).unwrap_or_default()
    }

    /// When the bundle in force expires, if it does, and whether it has expired.
    #[must_use]
    pub fn policy_ends(&self) -> Option<(Timestamp, bool)> {
        let until = self.engine().as_ref().and_then(|engine| engine.valid_until())?;
        Some((until, until <= self.clock.now()))
    }

    /// The number of open runs, and of calls on the road.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.runs.len(), self.runs.on_road())
    }

    /// Puts a policy in force: every earlier decision precedes `policy.activated` in the ledger,
    /// and every later one follows it. `basis`: why the bundle may be put in force where amendments
    /// are required.
    ///
    /// # Errors
    /// The ledger's error. The old policy stays in force, except after `Unknown`: the activation
    /// may be recorded, and then no decision by the old policy may follow it.
    pub async fn activate(
        &self,
        policy: Policy,
        basis: Option<Basis>,
    ) -> Result<Receipt, ledger::Error> {
        let written = policy.activated(basis);
        let order = self.in_force.replacing().await;
        let recorded = self.ledger.record(written).await;
        // WHY: if the write is in doubt, the new policy must take effect. Every decision it makes
        // stands behind the activation in the chain, and cannot become durable without it.
        if matches!(recorded, Ok(_) | Err(ledger::Error::Unknown)) {
            let rules = Rules { policy: Some(policy), ..Rules::clone(&self.in_force.now()) };
            self.in_force.replace(&order, rules);
        }
        recorded
    }

    /// Records that this manifest is in force for its agent.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn bind_manifest(&self, manifest: &Manifest) -> Result<Receipt, ledger::Error> {
        self.ledger.record(Self::binding(manifest)).await
    }

    /// The entry that records a manifest as in force for its agent.
    pub(super) fn binding(manifest: &Manifest) -> DraftWithPayloads {
        DraftWithPayloads::bare(Draft::of(ManifestBound {
            agent: manifest.name.as_str().into(),
            binding: manifest.binding.minimum.as_str().into(),
            digest: TaggedDigest(manifest.digest),
            version: manifest.version.to_string().into(),
        }))
    }

    /// Seals the run: waits for its calls, seals the runs below it, cancels held calls, writes
    /// `run.sealed`.
    ///
    /// Sealing a sealed run returns the first result again.
    ///
    /// # Errors
    /// `ledger.*`: the run stays closed to new calls, and the caller may seal it again.
    pub async fn seal_run(self: &Arc<Self>, run: &Arc<Run>) -> Result<Sealed, Fault> {
        let (road, run) = (Arc::clone(self), Arc::clone(run));
        let sealing = self.tasks.spawn(async move { road.seal(&run, "requested").await });
        sealing.await.unwrap_or_else(|_| Err(Fault::new(Code::LedgerUnknown, "sealing was lost")))
    }

    pub(super) async fn seal(&self, run: &Arc<Run>, reason: &str) -> Result<Sealed, Fault> {
        {
            let mut state = run.state.lock();
            if let Some(sealed) = &state.sealed {
                return Ok(sealed.clone());
            }
            state.closing = true;
        }
        run.close();
        run.quiet().await;
        self.seal_children(run, reason).await?;
        for call in run.held() {
            match self.holds.end(run, &call, "run sealed").await {
                Ok(()) => {}
                // The hold expired at the same moment, and that is recorded.
                Err(ledger::Error::CallTaken) => run.unheld(&call),
                Err(error) => return Err(Fault::of_ledger(&error)),
            }
        }
        let receipt = match self.ledger.record(closing::sealing(run.id, reason)).await {
            // An earlier attempt was in doubt and is recorded.
            Err(ledger::Error::RunNotOpen) => self.ledger.seal_of(&run.id).await,
            recorded => recorded,
        };
        let receipt = receipt.map_err(|e| Fault::of_ledger(&e))?;
        let sealed = Sealed { entries: receipt.run_seq.saturating_add(1), receipt };
        // Two tasks may have sealed it at once; the run is removed only once.
        if run.state.lock().sealed.replace(sealed.clone()).is_none() {
            self.linger(run);
            self.ledger.forget_incognito(&run.id);
            self.in_force.toolbox().forget(&run.id);
            self.runs.sealed(run);
        }
        run.idle.notify_waiters();
        Ok(sealed)
    }

    /// Seals the runs below, so that no run outlives its parent in the ledger.
    async fn seal_children(&self, run: &Arc<Run>, reason: &str) -> Result<(), Fault> {
        // A stop of the parent stops its children too. Any other end leaves them without a parent.
        let stopped = matches!(reason, "killed" | "revoked");
        let reason = if stopped { reason } else { "parent_sealed" };
        let children = run.children();
        let sealing = children.iter().map(|child| Box::pin(self.seal(child, reason)));
        let sealed = futures_util::future::join_all(sealing).await;
        sealed.into_iter().try_for_each(|sealed| sealed.map(drop))
    }

    /// Seals the run; retries until it succeeds or the gate stops.
    pub(super) async fn seal_at_last(&self, run: &Arc<Run>, reason: &str) {
        let mut pause = Duration::from_millis(100);
        while self.seal(run, reason).await.is_err() {
            if !self.tasks.pause(pause).await {
                return;
            }
            pause = pause.saturating_mul(2).min(Duration::from_secs(5));
        }
    }

    /// Seals the run when its wall time is over.
    pub(super) fn watch_wall(self: &Arc<Self>, run: &Arc<Run>) {
        let Some(expires) = run.expires else { return };
        // WHY weak: every run has such an end, a day away unless a manifest says otherwise. These
        // tasks must keep neither a dropped road alive nor a sealed run.
        let (road, run) = (Arc::downgrade(self), Arc::downgrade(run));
        let (tasks, clock) = (self.tasks.clone(), Arc::clone(&self.clock));
        self.tasks.spawn(async move {
            if tasks.unless_stopping(reached(&*clock, expires, &run)).await
                && let (Some(road), Some(run)) = (road.upgrade(), run.upgrade())
            {
                road.seal_at_last(&run, "wall_seconds").await;
            }
        });
    }

    /// Records the summary of rejected requests periodically, until the gate stops.
    pub fn summarise(self: &Arc<Self>) {
        let road = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut over = false;
            while !over {
                over = !road.tasks.pause(road.settings.reject_period).await;
                for written in road.budget.rejected.take() {
                    drop(road.ledger.record(written).await);
                }
            }
        });
    }

    /// Takes no new work and waits for the calls on the road. Seals implicit runs; explicit runs
    /// stay open for the next process.
    pub async fn drain(self: &Arc<Self>) {
        self.tasks.stop();
        loop {
            let open = self.runs.open().into_iter().filter(|run| run.thread.is_some());
            let sealing: Vec<_> = open.collect();
            let last = sealing.is_empty();
            for run in sealing {
                let road = Arc::clone(self);
                // A run that cannot be sealed now stays open, and the next process seals it.
                self.tasks.spawn(async move { drop(road.seal(&run, "drain").await) });
            }
            self.tasks.over().await;
            // One more round: a run may have been opened as the gate stopped.
            if last {
                self.budget.close().await;
                return;
            }
        }
    }

    /// The runs that are open now.
    pub fn open_runs(&self) -> Vec<Arc<Run>> {
        self.runs.open()
    }
}

/// Waits until the wall clock shows `at`, but never longer than the current distance: a clock that
/// is set back does not prolong the wait. A clock that jumps forward, as after a suspended machine,
/// is noticed within [`LOOK`]. So is the end of a run that the gate forgot, and with it the wait.
pub(super) async fn reached(clock: &dyn Clock, at: Timestamp, run: &Weak<Run>) {
    let left = at.millis().saturating_sub(clock.now().millis());
    let mut left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
    while !left.is_zero() && clock.now() < at && run.strong_count() > 0 {
        let pause = left.min(LOOK);
        tokio::time::sleep(pause).await;
        left = left.saturating_sub(pause);
    }
}
