//! One processor for all processes of a run.
//!
//! The helper sets an affinity mask on itself. The command and its processes inherit it, and the
//! filter refuses the call that would change it. This needs no privilege and no control groups.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Error;

/// The processor for the next run, in turn among those that this process may use.
pub fn next() -> usize {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let allowed = allowed();
    let turn = TURN.fetch_add(1, Ordering::Relaxed).checked_rem(allowed.len());
    // If the system reports none, the first is tried, and a helper that cannot use it ends the run.
    turn.and_then(|turn| allowed.get(turn)).copied().unwrap_or_default()
}

/// The processors this thread may run on.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Restricts this thread and its children to this processor.
///
/// # Errors
/// The thread may not run there.
pub(super) fn hold(cpu: usize) -> Result<(), Error> {
    let mut one = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        one.set(cpu);
    }
    sched_setaffinity(None, &one).map_err(|e| Error::Processor { cpu, source: e.into() })
}

/// Whether this thread may use several processors, or can gain them.
pub(super) fn is_wide() -> bool {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    // The kernel uses the processors of the mask that exist.
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
        // Other tests of this process take turns too; all eight on one processor would mean no
        // turns.
        assert!(allowed.len() == 1 || taken.iter().any(|cpu| *cpu != taken[0]), "{taken:?}");
    }
}
