//! How often something happened within the last minute.

use std::collections::VecDeque;
use std::time::Duration;

/// What rates are counted over.
pub const MINUTE: Duration = Duration::from_secs(60);
/// Times that are remembered at most: no limit is greater.
const TIMES_MAX: usize = 1_000_000;

/// The times of the last minute, ascending, of a monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Window {
    times: VecDeque<Duration>,
}

impl Window {
    /// Notes one more.
    pub fn note(&mut self, now: Duration) {
        self.pass(now);
        if self.times.len() < TIMES_MAX {
            self.times.push_back(now);
        }
    }

    /// Takes the last one back.
    pub fn take_back(&mut self) {
        self.times.pop_back();
    }

    /// How many there were in the minute before `now`.
    pub fn count(&mut self, now: Duration) -> u64 {
        self.pass(now);
        u64::try_from(self.times.len()).unwrap_or(u64::MAX)
    }

    /// How long until there are fewer than `most`, if there are not yet.
    pub fn until_below(&mut self, most: u64, now: Duration) -> Option<Duration> {
        let over = self.count(now).checked_sub(most)?;
        let last = self.times.get(usize::try_from(over).ok()?)?;
        Some(last.saturating_add(MINUTE).saturating_sub(now))
    }

    fn pass(&mut self, now: Duration) {
        let minute = now.saturating_sub(MINUTE);
        while self.times.front().is_some_and(|at| now >= MINUTE && *at <= minute) {
            self.times.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_later_nothing_is_left() {
        let (at, mut window) = (Duration::from_secs, Window::default());
        for second in [0, 10, 20] {
            window.note(at(second));
        }
        assert_eq!(window.count(at(59)), 3);
        assert_eq!(window.until_below(3, at(59)), Some(at(1)));
        assert_eq!(window.until_below(1, at(59)), Some(at(21)));
        assert_eq!(window.until_below(4, at(59)), None);
        assert_eq!(window.count(at(60)), 2);
        assert_eq!(window.until_below(3, at(60)), None);
        window.take_back();
        assert_eq!(window.count(at(60)), 1);
        assert_eq!(window.count(at(99)), 0);
    }
}
