//! The end of a call that may be recorded and released: what the guard let through of it.

use std::time::Duration;

use crate::domain::outcome::{Ended, FailureClass, Outcome, SIMULATED};

/// How a call ended, with nothing in it that the guard keeps back. A permit is spent with it and with
/// nothing else.
///
/// Only the guard makes it of what a tool answered (the tidy test confines the constructor).
#[derive(Debug)]
#[must_use]
pub struct ClearedOutcome {
    ended: Ended,
    withholds: bool,
}

impl ClearedOutcome {
    /// What the guard cleared. `withholds`: the answer is released and not stored.
    pub(crate) const fn of(ended: Ended, withholds: bool) -> Self {
        Self { ended, withholds }
    }

    /// The end of a call that no tool answered: the gate's own words.
    pub(crate) const fn unanswered(outcome: Outcome) -> Self {
        Self { ended: Ended { outcome, took: Duration::ZERO, attempts: 0 }, withholds: false }
    }

    /// The end of a call of a simulated run.
    pub(super) fn simulated() -> Self {
        Self::unanswered(Outcome::Cancelled { reason: SIMULATED.to_owned() })
    }

    /// The end of a call whose caller no longer waited when it could start.
    pub(super) fn not_started() -> Self {
        Self::unanswered(Outcome::Failed {
            class: FailureClass::NotStarted,
            started: false,
            message: "the caller had been answered before the call was recorded".into(),
        })
    }

    /// The end, and whether the answer is not stored.
    pub(super) fn into_parts(self) -> (Ended, bool) {
        (self.ended, self.withholds)
    }
}
