//! Chooses where a policy is evaluated: inline while it is known to be quick, on a blocking thread
//! otherwise.
//!
//! A handover to another thread costs about as much as a small policy. But an evaluation may take
//! until its deadline, and blocks its worker of the runtime meanwhile. So a policy is evaluated
//! inline only after a hundred quick evaluations in a row, and the first slow one ends that: at
//! worst every worker waits for one deadline in a hundred calls. A runtime of one worker evaluates
//! nothing inline. Blocking threads are limited too: more of them would share the same processors,
//! and all would miss a deadline that one alone meets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::clock::Clock;

/// Quick evaluations in a row before a policy is evaluated inline.
const TRUSTED_AFTER: u32 = 100;
/// The longest evaluation that counts as quick.
const QUICK: Duration = Duration::from_millis(10);
/// Concurrent evaluations on blocking threads, per worker of the runtime.
const APART_PER_WORKER: usize = 4;

/// The recent speed of the policy in force, and the slots for evaluating it.
#[derive(Debug)]
pub(super) struct EvaluationSlots {
    /// Whether a worker may evaluate at all.
    inline: bool,
    apart: Semaphore,
    quick: AtomicU32,
}

impl EvaluationSlots {
    /// Sized for the current runtime; outside of one every evaluation uses a blocking thread.
    pub fn new() -> Self {
        let handle = tokio::runtime::Handle::try_current();
        let workers = handle.map_or(1, |handle| handle.metrics().num_workers());
        Self {
            inline: workers > 1,
            apart: Semaphore::new(workers.saturating_mul(APART_PER_WORKER)),
            quick: AtomicU32::new(0),
        }
    }

    /// Resets the record of quick evaluations, because another bundle is in force.
    pub fn forget(&self) {
        self.quick.store(0, Ordering::Relaxed);
    }

    /// Evaluates inline or on a blocking thread.
    pub async fn evaluate<T, F>(&self, clock: &Arc<dyn Clock>, judging: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if self.inline && self.quick.load(Ordering::Relaxed) >= TRUSTED_AFTER {
            let (judged, took) = timed(&**clock, judging);
            self.note(took);
            return judged;
        }
        // The semaphore is never closed; an error would not be a reason to skip the evaluation.
        let _place = self.apart.acquire().await.ok();
        let clock = Arc::clone(clock);
        // INVARIANT: `judge` is total; it turns even an engine's panic into a denial.
        let judged = tokio::task::spawn_blocking(move || timed(&*clock, judging)).await;
        let (judged, took) =
            judged.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        self.note(took);
        judged
    }

    fn note(&self, took: Duration) {
        if took > QUICK {
            self.forget();
        } else if self.quick.load(Ordering::Relaxed) < TRUSTED_AFTER {
            self.quick.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn timed<T>(clock: &dyn Clock, judging: impl FnOnce() -> T) -> (T, Duration) {
    let started = clock.monotonic();
    let judged = judging();
    (judged, clock.monotonic().saturating_sub(started))
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use super::*;
    use crate::domain::time::Timestamp;

    /// A clock that advances by this much at every reading.
    struct Slow(Duration, AtomicU32);

    impl Clock for Slow {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }

        fn monotonic(&self) -> Duration {
            self.0 * self.1.fetch_add(1, Ordering::SeqCst)
        }
    }

    fn clock(step: Duration) -> Arc<dyn Clock> {
        Arc::new(Slow(step, AtomicU32::new(0)))
    }

    async fn is_here(slots: &EvaluationSlots, step: Duration) -> bool {
        let here: ThreadId = std::thread::current().id();
        let there = slots.evaluate(&clock(step), || std::thread::current().id()).await;
        here == there
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_a_policy_that_was_quick_a_hundred_times_is_evaluated_on_the_spot() {
        let slots = EvaluationSlots::new();
        for _ in 0..TRUSTED_AFTER {
            assert!(!is_here(&slots, Duration::from_micros(1)).await);
        }
        assert!(is_here(&slots, Duration::from_micros(1)).await);
        assert!(is_here(&slots, QUICK * 2).await, "nobody can know beforehand");
        assert!(!is_here(&slots, Duration::from_micros(1)).await, "a slow one ends the trust");
        slots.quick.store(TRUSTED_AFTER, Ordering::SeqCst);
        slots.forget();
        assert!(!is_here(&slots, Duration::from_micros(1)).await, "nor is another bundle trusted");
    }

    #[tokio::test]
    async fn a_runtime_of_one_worker_is_never_held_up() {
        let slots = EvaluationSlots::new();
        slots.quick.store(TRUSTED_AFTER, Ordering::SeqCst);
        assert!(!is_here(&slots, Duration::from_micros(1)).await);
    }
}
