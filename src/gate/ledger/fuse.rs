//! How long a permit is valid: as long as this gate certainly holds its slot, and its call has time
//! left.
//!
//! A gate that was stopped (SIGSTOP, a paused machine) continues where it stopped. By then another
//! gate may hold its slot and have closed its calls as unknown, so every executor checks the fuse
//! immediately before bytes leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::domain::outcome::{FailureClass, Unmasked};
use crate::record::debug_by;

/// The usable part of a lease, in fifths: the storage's clock may run faster than ours.
const USABLE_FIFTHS: u32 = 4;

/// The time until which this gate certainly holds its slot.
pub struct Tenure {
    clock: Arc<dyn Clock>,
    usable: Duration,
    /// Milliseconds of the clock's monotonic time.
    until: AtomicU64,
}

debug_by!(Tenure: until);

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Tenure {
    /// Nothing is held yet.
    pub fn new(clock: Arc<dyn Clock>, term: Duration) -> Self {
        let usable = term.saturating_mul(USABLE_FIFTHS) / 5;
        Self { clock, usable, until: AtomicU64::new(0) }
    }

    /// The lease was renewed by a request that was sent at this time (monotonic).
    pub fn renewed(&self, asked: Duration) {
        self.until.fetch_max(millis(asked.saturating_add(self.usable)), Ordering::Release);
    }

    /// The fuse of a call that has this long from now on.
    #[must_use]
    pub fn fuse(self: &Arc<Self>, within: Duration) -> Fuse {
        let ends = self.clock.monotonic().saturating_add(within);
        Fuse(Some((Arc::clone(self), ends)))
    }
}

/// The permit has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the permit of the call had ended before anything was sent: nothing was done")]
pub struct Late;

impl Late {
    /// The outcome of a call that sent nothing.
    #[must_use]
    pub fn outcome(self) -> Unmasked {
        let (class, message) = (FailureClass::NotStarted, self.to_string());
        Unmasked::Failed { class, started: false, message }
    }
}

/// The end of one permit; checked where bytes leave.
#[derive(Clone, Debug, Default)]
pub struct Fuse(Option<(Arc<Tenure>, Duration)>);

impl Fuse {
    /// For work that is not an agent's call: it never expires.
    pub const fn never() -> Self {
        Self(None)
    }

    /// Checked immediately before bytes leave, again for each message of a call.
    ///
    /// # Errors
    /// [`Late`]: nothing more may be sent.
    pub fn redeem(&self) -> Result<(), Late> {
        let Some((tenure, ends)) = &self.0 else { return Ok(()) };
        let now = tenure.clock.monotonic();
        let held = millis(now) < tenure.until.load(Ordering::Acquire);
        if held && now < *ends { Ok(()) } else { Err(Late) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    /// A clock that shows the milliseconds it is set to, and whose wall clock stands still.
    #[derive(Debug, Default)]
    pub(crate) struct Hand(pub(crate) AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn a_permit_ends_with_four_fifths_of_a_lease_that_is_not_renewed_and_with_the_time_of_its_call()
    {
        let hand = Arc::new(Hand::default());
        let at = |ms: u64| hand.0.store(ms, Ordering::SeqCst);
        let clock: Arc<dyn Clock> = Arc::<Hand>::clone(&hand);
        let tenure = Arc::new(Tenure::new(clock, Duration::from_millis(1000)));
        let call = tenure.fuse(Duration::from_millis(5000));
        assert_eq!(call.redeem(), Err(Late), "no lease was ever held");
        tenure.renewed(Duration::ZERO);
        for (ms, valid) in [(0, true), (799, true), (800, false), (900, false)] {
            at(ms);
            assert_eq!(call.redeem().is_ok(), valid, "{ms}");
        }
        tenure.renewed(Duration::from_millis(4900));
        // A late answer to an earlier renewal must not shorten the tenure.
        tenure.renewed(Duration::from_millis(100));
        for (ms, valid) in [(4901, true), (4999, true), (5000, false)] {
            at(ms);
            assert_eq!(call.redeem().is_ok(), valid, "{ms}");
            assert!(Fuse::never().redeem().is_ok());
        }
    }
}
