//! Counts the unknown credentials that clients showed lately.

use std::collections::VecDeque;
use std::time::Duration;

/// Unknown credentials within [`WINDOW`] before the next client that shows one has to wait.
const FAILURES_MAX: usize = 10;
/// The time that counts.
const WINDOW: Duration = Duration::from_secs(60);

/// The latest failures, by the clock that never steps.
#[derive(Debug, Default)]
pub(super) struct Logins {
    failures: VecDeque<Duration>,
}

impl Logins {
    /// Notes a failure; how long to wait, if there were too many. What is refused for that does not
    /// prolong the wait.
    pub(super) fn failed(&mut self, now: Duration) -> Option<Duration> {
        while self.failures.front().is_some_and(|at| now.saturating_sub(*at) >= WINDOW) {
            self.failures.pop_front();
        }
        if self.failures.len() < FAILURES_MAX {
            self.failures.push_back(now);
            return None;
        }
        let oldest = self.failures.front().copied().unwrap_or(now);
        Some(WINDOW.saturating_sub(now.saturating_sub(oldest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_failures_a_minute_are_answered_and_the_next_one_waits_for_the_oldest() {
        let mut logins = Logins::default();
        let at = Duration::from_secs;
        for second in 0..10 {
            assert_eq!(logins.failed(at(second)), None);
        }
        assert_eq!(logins.failed(at(20)), Some(at(40)));
        assert_eq!(logins.failed(at(59)), Some(at(1)));
        assert_eq!(logins.failed(at(60)), None);
        assert_eq!(logins.failed(at(60)), Some(at(1)));
    }
}
