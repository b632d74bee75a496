//! A token bucket: a rate of requests per second, and a burst.

use std::time::Duration;

/// How fast a caller may ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Requests per second, in the long run; at least 1.
    pub per_second: u64,
    /// Requests at once after a rest; at least 1.
    pub burst: u64,
}

const NANOS: u128 = 1_000_000_000;

/// The state of one rate. Starts full.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// When it is full again, nanoseconds of a monotonic clock.
    full_at: u128,
}

impl Bucket {
    /// A full one.
    pub const fn full() -> Self {
        Self { full_at: 0 }
    }

    /// Takes one request out; else when trying again makes sense. `now` is monotonic.
    ///
    /// # Errors
    /// It is empty: how long until it is not.
    pub fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let one = NANOS / u128::from(rate.per_second.max(1));
        let whole = one.saturating_mul(u128::from(rate.burst.max(1)));
        let from = self.full_at.max(now.as_nanos());
        let after = from.saturating_add(one);
        let wait = after.saturating_sub(now.as_nanos()).saturating_sub(whole);
        if wait > 0 {
            return Err(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)));
        }
        self.full_at = after;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_so_many_each_second() {
        let rate = Rate { per_second: 10, burst: 3 };
        let mut bucket = Bucket::full();
        let mut passed = |from: u64, to: u64| {
            let instants = (from..to).map(Duration::from_millis);
            instants.filter(|now| bucket.take(rate, *now).is_ok()).count()
        };
        assert_eq!(passed(5_000, 5_001), 1);
        assert_eq!(passed(5_001, 5_050), 2, "the rest of the burst");
        assert_eq!(
            passed(5_050, 6_000),
            9,
            "ten each second, the first 100 ms after the burst began"
        );
        assert_eq!(passed(60_000, 60_050), 3, "a rest fills it again, and no more than full");
    }

    #[test]
    fn a_refusal_by_the_rate_limit_says_how_long_to_wait() {
        let rate = Rate { per_second: 2, burst: 1 };
        let mut bucket = Bucket::full();
        let now = Duration::from_secs(9);
        assert_eq!(bucket.take(rate, now), Ok(()));
        let wait = bucket.take(rate, now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(500));
        assert_eq!(bucket.take(rate, now + wait), Ok(()));
    }
}
