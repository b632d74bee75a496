//! How far a backtest is, how fast, and how long it will take.

use std::time::Duration;

use crate::cli::progress::{Progress, bar};
use crate::domain::plural::many;
use crate::evidence::backtest::BacktestProgress;

impl BacktestProgress for Progress {
    fn at(&self, read: u64, all: u64, inputs: u64) {
        self.show(|took| line(read, all, inputs, took));
    }
}

/// `[#####---------------]  25%  125000 decisions  4100/s  1m 31s left`
fn line(read: u64, all: u64, inputs: u64, took: Duration) -> String {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = inputs.saturating_mul(1000) / millis;
    let left = match all.saturating_sub(read).saturating_mul(millis).checked_div(read) {
        None => "?".to_owned(),
        Some(left) => {
            let seconds = left / 1000;
            format!("{}m {:02}s", seconds / 60, seconds % 60)
        }
    };
    format!("{}  {}  {rate}/s  {left} left", bar(read, all), many(inputs, "decision"))
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
