//! How far a backtest is, for a person at a terminal.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::{Clock as _, SystemClock};
use crate::evidence::backtest::Watch;
use crate::evidence::progress::Line;

/// Between two writings of the line.
const EVERY: Duration = Duration::from_millis(200);
/// Characters of the bar.
const BAR: u64 = 20;

/// A person who waits, if there is one.
pub(super) struct Bar {
    line: Line,
    clock: SystemClock,
    shown: Cell<Option<Duration>>,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self { line: Line::new(false), clock: SystemClock::new(), shown: Cell::new(None) }
    }
}

impl Watch for Bar {
    fn at(&self, read: u64, all: u64, inputs: u64) {
        let now = self.clock.monotonic();
        let late = self.shown.get().is_none_or(|shown| now.saturating_sub(shown) >= EVERY);
        if late {
            self.shown.set(Some(now));
            self.line.show(&line(read, all, inputs, now));
        }
    }
}

/// `[#####---------------]  25%  125000 decisions  4100/s  1m 31s left`
fn line(read: u64, all: u64, inputs: u64, took: Duration) -> String {
    let all = all.max(1);
    let read = read.min(all);
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let done = usize::try_from(read.saturating_mul(BAR) / all).unwrap_or_default();
    let open = usize::try_from(BAR).unwrap_or_default().saturating_sub(done);
    let percent = read.saturating_mul(100) / all;
    let rate = inputs.saturating_mul(1000) / millis;
    let left = match all.saturating_sub(read).saturating_mul(millis).checked_div(read) {
        None => "?".to_owned(),
        Some(left) => {
            let seconds = left / 1000;
            format!("{}m {:02}s", seconds / 60, seconds % 60)
        }
    };
    let bar = format!("{}{}", "#".repeat(done), "-".repeat(open));
    format!("[{bar}] {percent:>3}%  {inputs} decisions  {rate}/s  {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_how_fast_and_how_long() {
        let quarter = line(250, 1000, 100, Duration::from_secs(10));
        assert_eq!(quarter, "[#####---------------]  25%  100 decisions  10/s  0m 30s left");
        assert!(line(0, 0, 0, Duration::ZERO).contains("? left"));
        assert!(line(2000, 1000, 7, Duration::from_secs(1)).contains("100%"));
    }
}
