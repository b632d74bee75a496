//! How much of a busy machine filling takes.
//!
//! Nothing on the road waits for the index, but both use the same cores. While cores idle, filling takes a part of what
//! idles; while calls use all of them, it takes a fiftieth of a core, and the index falls behind, as it says. For a
//! minute after somebody has looked something up, it is not held back.

use std::time::Duration;

use parking_lot::Mutex;

/// Thousandths of a core that filling may always use.
const LEAST: u64 = 20;
/// Of what idles, filling takes this part.
const OF_SPARE: u64 = 4;
/// How long filling is not held back after a request.
const ASKED: Duration = Duration::from_secs(60);
/// How long a round is followed by none at most: by then the machine may idle.
const REST_MAX: Duration = Duration::from_secs(10);
/// A whole core, in thousandths.
const CORE: u64 = 1000;

/// When the index is filled next, and how far. All times are of a monotonic clock.
#[derive(Debug, Default)]
pub struct FillPace(Mutex<PaceState>);

#[derive(Clone, Copy, Debug)]
struct PaceState {
    asked: Option<Duration>,
    rests_until: Duration,
    /// Thousandths of a core that the last round was allowed.
    share: u64,
}

impl Default for PaceState {
    fn default() -> Self {
        Self { asked: None, rests_until: Duration::ZERO, share: CORE }
    }
}

impl PaceState {
    fn is_asked(&self, now: Duration) -> bool {
        self.asked.is_some_and(|at| now.saturating_sub(at) < ASKED)
    }
}

impl FillPace {
    /// Somebody looks something up.
    pub fn asked(&self, now: Duration) {
        self.0.lock().asked = Some(now);
    }

    /// How many of at most so many entries the round that begins now reads; `None`: it is too early for one.
    pub fn round(&self, now: Duration, most: u64) -> Option<u64> {
        let state = *self.0.lock();
        if state.is_asked(now) {
            return Some(most);
        }
        let part = most.saturating_mul(state.share).checked_div(CORE).unwrap_or(most);
        (now >= state.rests_until).then_some(part.max(1))
    }

    /// A round began and ended, and meanwhile so many thousandths of a core were idle.
    pub fn worked(&self, (began, ended): (Duration, Duration), spare: u64) {
        let mut state = self.0.lock();
        state.share = spare.checked_div(OF_SPARE).unwrap_or(CORE).clamp(LEAST, CORE);
        let worked = ended.saturating_sub(began).as_micros();
        let rest = worked.saturating_mul(u128::from(CORE.saturating_sub(state.share)));
        let rest = rest.checked_div(u128::from(state.share)).unwrap_or_default();
        let rest = Duration::from_micros(u64::try_from(rest).unwrap_or(u64::MAX));
        state.rests_until = ended.saturating_add(rest.min(REST_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 20_000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_busy_machine_gives_filling_a_fiftieth_of_a_core() {
        let pace = FillPace::default();
        assert_eq!(pace.round(ms(0), MOST), Some(MOST), "the first round reads on at once");
        pace.worked((ms(0), ms(100)), 0);
        assert_eq!(pace.round(ms(4_999), MOST), None);
        assert_eq!(pace.round(ms(5_000), MOST), Some(400));
        // Over any number of rounds it stays at that.
        let (mut now, mut worked) = (ms(5_000), Duration::ZERO);
        while now < ms(100_000) {
            if pace.round(now, MOST).is_some() {
                pace.worked((now, now + ms(10)), 0);
                worked += ms(10);
            }
            now += ms(10);
        }
        assert!(worked <= ms(95_000) / 50, "{worked:?}");
        assert!(worked >= ms(95_000) / 60, "{worked:?}");
    }

    #[test]
    fn an_idle_machine_holds_nothing_back() {
        let pace = FillPace::default();
        pace.worked((ms(0), ms(100)), 4 * CORE);
        assert_eq!(pace.round(ms(100), MOST), Some(MOST));
        pace.worked((ms(100), ms(200)), u64::MAX);
        assert_eq!(pace.round(ms(200), MOST), Some(MOST));
    }

    #[test]
    fn whoever_looks_something_up_makes_filling_go_on_for_a_minute() {
        let pace = FillPace::default();
        pace.worked((ms(0), ms(1_000)), 0);
        assert_eq!(pace.round(ms(2_000), MOST), None);
        pace.asked(ms(2_000));
        assert_eq!(pace.round(ms(2_001), MOST), Some(MOST));
        pace.worked((ms(2_001), ms(3_000)), 0);
        assert_eq!(pace.round(ms(61_999), MOST), Some(MOST));
        assert_eq!(pace.round(ms(62_000), MOST), Some(400), "it has rested since");
    }
}
