//! Ledger time: the later of the machine's clock and the newest entry's time.
//!
//! Every window of the gate (bundle, manifest, approvers, orders, holds, runs) is judged by it. A
//! clock that is set back revives nothing that has ended, not even after a restart, because the
//! newest entry is on the chain.

use std::time::Duration;

use parking_lot::Mutex;

use super::Shared;
use super::recover::{StartRefusal, broken};
use super::store::{EntryRange, Leased};
use crate::clock::Clock;
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::record::chain::ClockStep;
use crate::record::{Entry, Kind};

/// If the clock is this far behind the last entry, an operator must confirm that it is right.
const CLOCK_STEP_MAX_MS: i64 = 24 * 3600 * 1000;

/// A clock that never shows a time before the newest entry that it knows.
#[derive(Debug)]
pub struct LedgerTime<C> {
    clock: C,
    /// The newest entry's time, and the monotonic time at which this clock learned it.
    newest: Mutex<Option<(Timestamp, Duration)>>,
}

impl<C: Clock> LedgerTime<C> {
    /// The time of this clock, until an entry is later.
    pub const fn of(clock: C) -> Self {
        Self { clock, newest: Mutex::new(None) }
    }

    /// WHY half: while the clock is behind, time must go on, or no hold and no run would ever end.
    /// It must go slower than the clock, or the clock would never catch up.
    fn at_least(&self, newest: Option<(Timestamp, Duration)>) -> Option<Timestamp> {
        let (at, since) = newest?;
        Some(at.plus(self.clock.monotonic().saturating_sub(since) / 2))
    }
}

impl<C: Clock> Clock for LedgerTime<C> {
    fn now(&self) -> Timestamp {
        let newest = *self.newest.lock();
        let clock = self.clock.now();
        self.at_least(newest).map_or(clock, |least| least.max(clock))
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn reached(&self, at: Timestamp) {
        let mut newest = self.newest.lock();
        if self.at_least(*newest).is_none_or(|least| least < at) {
            *newest = Some((at, self.clock.monotonic()));
        }
    }
}

/// Milliseconds by which the clock is behind the newest entry, if it is; from then on it shows
/// ledger time.
///
/// # Errors
/// It is more than a day behind, and no operator accepted that.
pub(super) async fn behind(
    shared: &Shared,
    leased: &Leased,
    (newest, size): (Option<&Entry>, Seq),
) -> Result<Option<i64>, StartRefusal> {
    let Some(newest) = newest else { return Ok(None) };
    let behind = newest.ts.millis().saturating_sub(shared.clock.now().millis()).max(0);
    if behind > CLOCK_STEP_MAX_MS && !shared.settings.accept_clock_step {
        let accepted = accepted_step(shared, leased, size).await?;
        if behind > accepted.saturating_add(CLOCK_STEP_MAX_MS) {
            return Err(broken(format!(
                "the clock is {behind} ms behind the last entry: set it, or, if it is right now, start once with \
                 `--accept-clock-step`"
            )));
        }
    }
    shared.clock.reached(newest.ts);
    Ok((behind > 0).then_some(behind))
}

/// The milliseconds by which the clock was behind when the last writer started. An operator
/// accepted them then, so they need no second confirmation. 0 if it was not behind.
async fn accepted_step(shared: &Shared, leased: &Leased, size: Seq) -> Result<i64, StartRefusal> {
    let kinds = [Kind::ClockStep.as_str(), Kind::WriterStarted.as_str()];
    let found = shared.store.select(&leased.key, EntryRange::Lone(&kinds, size, 1)).await?;
    let entry = found.last().and_then(|row| Entry::parse(&row.body).ok());
    let delta = entry.and_then(|entry| Some(entry.draft.get::<ClockStep>()?.delta_ms.0));
    Ok(delta.filter(|delta| *delta < 0).map_or(0, i64::saturating_neg))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// A wall clock that may be set, beside one that only goes on.
    #[derive(Default)]
    struct Set(AtomicI64, AtomicU64);

    impl Clock for Set {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.0.load(Ordering::SeqCst))
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.1.load(Ordering::SeqCst))
        }
    }

    proptest! {
        /// Steps of the wall clock, time that passes, and entries that are written: it never goes back, is never
        /// before an entry or the clock, and is the clock again once that has caught up.
        #[test]
        fn it_is_never_before_an_entry_or_the_clock_and_never_goes_back(
            steps in proptest::collection::vec((-400_000_000_i64..400_000_000, 0_u64..10_000, any::<bool>()), 1..40)
        ) {
            let time = LedgerTime::of(Set::default());
            let (mut entry, mut before) = (i64::MIN, i64::MIN);
            for (step, passed, writes) in steps {
                let wall = time.clock.0.fetch_add(step, Ordering::SeqCst).saturating_add(step);
                time.clock.1.fetch_add(passed, Ordering::SeqCst);
                let now = time.now().millis();
                prop_assert!(now >= wall && now >= entry);
                prop_assert!(entry == i64::MIN || now >= before || now == wall);
                if writes {
                    time.reached(time.now());
                    entry = now;
                }
                before = entry;
            }
            let behind = time.now().millis().saturating_sub(time.clock.now().millis());
            let pass = behind.saturating_mul(2).unsigned_abs().saturating_add(2);
            time.clock.0.fetch_add(i64::try_from(pass).unwrap(), Ordering::SeqCst);
            time.clock.1.fetch_add(pass, Ordering::SeqCst);
            prop_assert_eq!(time.now(), time.clock.now());
        }
    }
}
