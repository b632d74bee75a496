//! A run between the runs above it, which delegated to it, and the runs below it.
//!
//! Lock order: a task that locks two runs locks the lower one first, then the one above.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::run::Run;
use crate::domain::decision::LayerReason;
use crate::domain::time::Timestamp;
use crate::limits::{BudgetShare, LimitOwner, Spend, Usage};
use crate::policy::input::Delegator;

/// A child's slot in its parent, held from the child's opening until it is sealed. The parent is
/// not sealed while the slot exists, so that in the ledger a child is opened and sealed while its
/// parent is open.
#[derive(Debug)]
pub(super) struct ChildSlot {
    parent: Arc<Run>,
}

impl ChildSlot {
    pub const fn parent(&self) -> &Arc<Run> {
        &self.parent
    }

    /// Registers the recorded child with its parent, which closes it when the parent is closed.
    pub fn settle(self, child: &Arc<Run>) {
        let mut state = self.parent.state.lock();
        // Occasionally removes dropped children, so that the list does not grow without bound.
        if state.children.len().is_power_of_two() {
            state.children.retain(|child| child.strong_count() > 0);
        }
        state.children.push(Arc::downgrade(child));
        let closing = state.closing;
        drop(state);
        if closing {
            child.close();
        }
    }
}

impl Drop for ChildSlot {
    fn drop(&mut self) {
        let mut state = self.parent.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.parent.idle.notify_waiters();
    }
}

impl Run {
    /// The runs above it, its parent first.
    pub(super) fn above(&self) -> impl Iterator<Item = &Run> {
        std::iter::successors(self.parent.as_deref(), |run| run.parent.as_deref())
    }

    /// The delegation chain that entries and policies state for a child of this run.
    pub(super) fn delegation_below(&self) -> Vec<Delegator> {
        let mut delegation = self.agent.delegation.clone();
        delegation.push(Delegator {
            id: self.agent.id.clone(),
            version: self.agent.version.clone(),
            manifest: self.agent.manifest,
            run: self.id,
        });
        delegation
    }

    /// A slot for a child, unless the run is over. `now` is the wall clock.
    pub(super) fn reserve_child(self: &Arc<Self>, now: Timestamp) -> Option<ChildSlot> {
        let mut state = self.state.lock();
        if state.closing || self.expires.is_some_and(|expires| expires <= now) {
            return None;
        }
        state.in_flight = state.in_flight.saturating_add(1);
        Some(ChildSlot { parent: Arc::clone(self) })
    }

    /// A slot for a child recovered from the previous process, whatever the state of this run.
    pub(super) fn reserve_recovered_child(self: &Arc<Self>) -> ChildSlot {
        let mut state = self.state.lock();
        state.in_flight = state.in_flight.saturating_add(1);
        drop(state);
        ChildSlot { parent: Arc::clone(self) }
    }

    /// The child runs that still exist.
    pub(super) fn children(&self) -> Vec<Arc<Run>> {
        self.state.lock().children.iter().filter_map(Weak::upgrade).collect()
    }

    /// Stops taking new calls, in this run and in the runs below it.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.children().iter().for_each(|child| child.close());
    }

    /// Whether a run above it was suspended for its denials.
    pub(super) fn suspended_above(&self) -> bool {
        self.above().any(|run| run.state.lock().suspended)
    }

    /// Counts one more call in every run above, and returns the refusals of their limits.
    pub(super) fn begin_above(&self, now: Duration) -> Vec<LayerReason> {
        let mut reasons = Vec::new();
        for run in self.above() {
            let (whose, limits) = (run.as_delegator(), &run.manifest.limits);
            let mut state = run.state.lock();
            // Activity below keeps this run from becoming idle.
            state.touched = state.touched.max(now);
            reasons.extend(state.usage.begin_delegated(whose, limits, now));
        }
        reasons
    }

    /// Updates the usage of every run above.
    pub(super) fn count_above(&self, count: impl Fn(&mut Usage)) {
        self.above().for_each(|run| count(&mut run.state.lock().usage));
    }

    /// Reserves the maximum cost of a call in this run and in every run above, or nothing in any of
    /// them.
    ///
    /// # Errors
    /// The first `cost_usd` or `tokens` limit that is reached.
    pub(super) fn spend(&self, wanted: Spend) -> Result<BudgetShare, LayerReason> {
        let limits = &self.manifest.limits;
        let spent = self.state.lock().usage.spend(LimitOwner::Own, limits, wanted)?;
        for (i, run) in self.above().enumerate() {
            let (whose, limits) = (run.as_delegator(), &run.manifest.limits);
            let taken = run.state.lock().usage.spend(whose, limits, wanted);
            if let Err(reason) = taken {
                let before = std::iter::once(self).chain(self.above()).take(i.saturating_add(1));
                before.for_each(|run| run.state.lock().usage.unspend(spent));
                return Err(reason);
            }
        }
        Ok(spent)
    }

    /// Returns the part of a reservation that was not used.
    pub(super) fn unspend(&self, spent: BudgetShare) {
        self.state.lock().usage.unspend(spent);
        self.count_above(|usage| usage.unspend(spent));
    }

    /// Adds usage beyond the reservation.
    pub(super) fn overspend(&self, spent: BudgetShare) {
        self.state.lock().usage.overspend(spent);
        self.count_above(|usage| usage.overspend(spent));
    }

    fn as_delegator(&self) -> LimitOwner<'_> {
        LimitOwner::Delegator { agent: &self.agent.id, run: &self.id }
    }
}
