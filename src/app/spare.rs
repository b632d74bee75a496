//! How much of the machine idles.

use std::time::Duration;

/// Thousandths of a core.
const CORE: u128 = 1000;
/// Linux counts processor time in hundredths of a second for programs.
const TICK: Duration = Duration::from_millis(10);

/// Measures what idles from one look to the next.
pub(super) struct SpareCores {
    /// Cores that this process may use, of its affinity and its control group.
    cores: u32,
    before: Option<CpuSample>,
}

#[derive(Clone, Copy)]
struct CpuSample {
    /// Of a monotonic clock.
    at: Duration,
    /// Processor time of this process.
    own: Duration,
    /// Time that the machine's cores idled; `None`: the machine does not tell.
    idle: Option<Duration>,
}

impl CpuSample {
    fn at(at: Duration) -> Self {
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let own = Duration::try_from(own).unwrap_or_default();
        let idle = std::fs::read_to_string("/proc/stat").ok().and_then(|text| idle_time(&text));
        Self { at, own, idle }
    }
}

/// The time that all cores idled, out of `/proc/stat` (proc_stat(5)).
fn idle_time(stat: &str) -> Option<Duration> {
    let mut all = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let (idle, waiting) = (all.nth(3)?.parse::<u32>().ok()?, all.next()?.parse::<u32>().ok()?);
    TICK.checked_mul(idle.checked_add(waiting)?)
}

impl SpareCores {
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cores: u32::try_from(cores).unwrap_or(u32::MAX), before: None }
    }

    /// Thousandths of a core that idled since the last look, now being this time of a monotonic clock: of those that this
    /// process may use, what it did not use, and no more than idled on the machine. The first look finds nothing idle.
    pub fn look(&mut self, now: Duration) -> u64 {
        let now = CpuSample::at(now);
        let before = self.before.replace(now);
        before.map_or(0, |before| between((before, now), self.cores))
    }
}

fn between((before, now): (CpuSample, CpuSample), cores: u32) -> u64 {
    let span = now.at.saturating_sub(before.at);
    let left = span.saturating_mul(cores).saturating_sub(now.own.saturating_sub(before.own));
    let idle = now.idle.zip(before.idle).map(|(now, then)| now.saturating_sub(then));
    of_a_core(idle.map_or(left, |idle| idle.min(left)), span)
}

fn of_a_core(idle: Duration, span: Duration) -> u64 {
    let part = idle.as_micros().saturating_mul(CORE).checked_div(span.as_micros());
    part.map_or(0, |part| u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read_as_linux_writes_it() {
        let stat =
            "cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0\ncpu0 1 2 3 4 5\n";
        assert_eq!(idle_time(stat), Some(Duration::from_millis((46_828_483 + 16_683) * 10)));
        for wrong in ["", "cpu", "cpu  1 2 3", "cpu  1 2 3 x 5", "intr 1 2 3 4 5", "cpu0 1 2 3 4 5"]
        {
            assert_eq!(idle_time(wrong), None, "{wrong:?}");
        }
    }

    fn sample(at: u64, own: u64, idle: Option<u64>) -> CpuSample {
        let ms = Duration::from_millis;
        CpuSample { at: ms(at), own: ms(own), idle: idle.map(ms) }
    }

    #[test]
    fn spare_is_what_neither_this_process_nor_another_used() {
        let of = |own: u64, idle: Option<u64>| {
            let then = sample(1_000, 500, idle.map(|_| 7_000));
            between((then, sample(2_000, 500 + own, idle.map(|idle| 7_000 + idle))), 2)
        };
        assert_eq!(of(0, Some(8_000)), 2_000, "of eight cores that idle, this process may use two");
        assert_eq!(of(1_500, Some(8_000)), 500);
        assert_eq!(of(0, Some(100)), 100, "others use the machine");
        assert_eq!(of(2_000, Some(8_000)), 0);
        assert_eq!(of(1_500, None), 500, "where the machine does not tell");
        let now = sample(1_000, 500, Some(7_000));
        assert_eq!(between((now, now), 2), 0, "no time has passed");
    }

    #[test]
    fn a_look_counts_the_time_that_this_process_used() {
        let mut spare = SpareCores { cores: 1, before: None };
        assert_eq!(spare.look(Duration::ZERO), 0, "nothing to compare with");
        let own = spare.before.unwrap().own;
        while CpuSample::at(Duration::ZERO).own < own + Duration::from_millis(30) {
            std::hint::black_box(0);
        }
        assert_eq!(spare.look(Duration::from_millis(30)), 0, "it used its only core all the time");
    }
}
