//! One processor for all processes of a run.
//!
//! A mask that the helper sets on itself: whatever it becomes and starts inherits it, and the filter does not
//! admit the call that would change it. It needs no privilege and no control groups.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Error;

/// The processor that the next run gets: one after the other of those this process may use itself.
pub fn next() -> usize {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let allowed = allowed();
    let turn = TURN.fetch_add(1, Ordering::Relaxed).checked_rem(allowed.len());
    // Where the system says none the first is tried, and a helper that cannot have it ends the run.
    turn.and_then(|turn| allowed.get(turn)).copied().unwrap_or_default()
}

/// The processors this thread may run on.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Leaves this thread, and all it starts, only this one.
///
/// # Errors
/// It may not run there.
pub(super) fn hold(cpu: usize) -> Result<(), Error> {
    let mut one = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        one.set(cpu);
    }
    sched_setaffinity(None, &one).map_err(|e| Error::Processor { cpu, source: e.into() })
}

/// Whether this thread has several, or may take them.
pub(super) fn is_wide() -> bool {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    // The kernel takes of a mask what is there.
    allowed().len() > 1 || sched_setaffinity(None, &all).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_take_turns_on_the_processors_of_the_gate() {
        let allowed = allowed();
        let taken: Vec<usize> = (0..8).map(|_| next()).collect();
        assert!(taken.iter().all(|cpu| allowed.contains(cpu)), "{taken:?} of {allowed:?}");
        // Others of this process take turns meanwhile; all eight on one would be no turns.
        assert!(allowed.len() == 1 || taken.iter().any(|cpu| *cpu != taken[0]), "{taken:?}");
    }
}
