//! Budgets of one run: what it used, and what its manifest has against the next call.

use std::collections::VecDeque;
use std::time::Duration;

use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::domain::digest::Digest;
use crate::identity::manifest::Limits;

/// Calls one run may have in all, whatever its manifest says: what we remember of a run is bounded.
pub const CALLS_MAX: u64 = 100_000;

/// What one run used so far.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    calls: u64,
    running: u64,
    errors: u64,
    denied: u64,
    errors_in_row: u64,
    last: Option<(Digest, u64)>,
    recent: VecDeque<Duration>,
}

/// How a call went, for the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Went {
    /// The tool answered.
    Well,
    /// It failed or is unknown.
    Wrong,
    /// It was denied, or held.
    NotRun,
    /// It was stopped before it took effect.
    Stopped,
}

impl Usage {
    /// The usage of a run that is taken up after a restart.
    #[must_use]
    pub fn resumed(calls: u64, errors: u64, denied: u64) -> Self {
        Self { calls, errors, denied, ..Self::default() }
    }

    /// Calls asked for.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls that failed or are unknown.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// Calls that were denied.
    #[must_use]
    pub const fn denied(&self) -> u64 {
        self.denied
    }

    /// Counts one more call and says what the limits have against it.
    ///
    /// `fingerprint` names tool and arguments; `now` is monotonic.
    pub fn begin(&mut self, limits: &Limits, fingerprint: Digest, now: Duration) -> Vec<Reason> {
        let minute = now.saturating_sub(Duration::from_secs(60));
        while self.recent.front().is_some_and(|at| *at <= minute) {
            self.recent.pop_front();
        }
        let repeats = match self.last {
            Some((last, times)) if last == fingerprint => times.saturating_add(1),
            Some(_) | None => 1,
        };
        let rate = u64::try_from(self.recent.len()).unwrap_or(u64::MAX);
        let checks = [
            ("calls", self.calls, Some(limits.calls.unwrap_or(CALLS_MAX).min(CALLS_MAX))),
            ("calls_per_minute", rate, limits.calls_per_minute),
            ("concurrency", self.running, limits.concurrency),
            ("consecutive_errors", self.errors_in_row, limits.consecutive_errors),
            ("repeated_calls", repeats.saturating_sub(1), limits.repeated_calls),
        ];
        let reasons: Vec<Reason> = checks
            .into_iter()
            .filter_map(|(name, used, most)| {
                most.filter(|most| used >= *most).map(|m| over(name, m))
            })
            .collect();
        self.calls = self.calls.saturating_add(1);
        self.running = self.running.saturating_add(1);
        self.last = Some((fingerprint, repeats));
        if limits.calls_per_minute.is_some() {
            self.recent.push_back(now);
        }
        reasons
    }

    /// Takes back a call of which nothing was recorded.
    pub fn forget(&mut self) {
        self.calls = self.calls.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        self.recent.pop_back();
    }

    /// A held call is on the road again: it was counted as not run.
    pub fn take_up(&mut self) {
        self.running = self.running.saturating_add(1);
        self.denied = self.denied.saturating_sub(1);
    }

    /// Counts how a call went.
    pub fn end(&mut self, went: Went) {
        self.running = self.running.saturating_sub(1);
        match went {
            Went::Well => self.errors_in_row = 0,
            Went::Wrong => {
                self.errors = self.errors.saturating_add(1);
                self.errors_in_row = self.errors_in_row.saturating_add(1);
            }
            Went::NotRun => self.denied = self.denied.saturating_add(1),
            // WHY: whoever stops a call says nothing about the tool.
            Went::Stopped => {}
        }
    }
}

fn over(name: &str, most: u64) -> Reason {
    Reason {
        code: Code::LimitExceeded,
        detail: format!("limit.{name}"),
        message: format!("the manifest's limit `{name}: {most}` is reached"),
        rule: format!("manifest.limits.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(reasons: &[Reason]) -> Vec<&str> {
        reasons.iter().map(|r| r.detail.as_str()).collect()
    }

    #[test]
    fn the_third_identical_call_in_a_row_is_refused_when_two_are_allowed() {
        let limits = Limits { repeated_calls: Some(2), ..Limits::default() };
        let (same, other) = (Digest::of(&[b"a"]), Digest::of(&[b"b"]));
        let mut usage = Usage::default();
        let mut begin = |fingerprint| {
            let reasons = usage.begin(&limits, fingerprint, Duration::ZERO);
            usage.end(Went::Well);
            reasons
        };
        assert!(begin(same).is_empty());
        assert!(begin(same).is_empty());
        assert_eq!(details(&begin(same)), ["limit.repeated_calls"]);
        assert!(begin(other).is_empty());
        assert!(begin(same).is_empty());
    }

    #[test]
    fn a_minute_later_the_rate_is_free_again() {
        let limits = Limits { calls_per_minute: Some(1), ..Limits::default() };
        let mut usage = Usage::default();
        let fingerprint = Digest::of(&[b"a"]);
        assert!(usage.begin(&limits, fingerprint, Duration::from_secs(100)).is_empty());
        let again = usage.begin(&limits, fingerprint, Duration::from_secs(159));
        assert_eq!(details(&again), ["limit.calls_per_minute"]);
        assert!(usage.begin(&limits, fingerprint, Duration::from_secs(219)).is_empty());
    }

    #[test]
    fn three_errors_in_a_row_break_the_circuit_and_a_success_closes_it() {
        let limits = Limits { consecutive_errors: Some(2), ..Limits::default() };
        let mut usage = Usage::default();
        let fingerprint = Digest::of(&[b"a"]);
        for _ in 0..2 {
            assert!(usage.begin(&limits, fingerprint, Duration::ZERO).is_empty());
            usage.end(Went::Wrong);
        }
        let third = usage.begin(&limits, fingerprint, Duration::ZERO);
        assert_eq!(details(&third), ["limit.consecutive_errors"]);
    }
}
