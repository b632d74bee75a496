//! Shows the progress of long work: a bar on a terminal, a line every few seconds elsewhere,
//! nothing with `--json`.

use std::io::IsTerminal as _;
use std::time::Duration;

use parking_lot::Mutex;

use super::output::{is_json, note};
use crate::clock::{Clock as _, SystemClock};
use crate::evidence::progress::ProgressLine;

/// Between two drawings on a terminal.
const DRAW: Duration = Duration::from_millis(200);
/// Between two lines elsewhere; shorter work prints none.
const TELL: Duration = Duration::from_secs(5);
/// Characters of the bar.
const CELLS: u64 = 20;

/// The progress of one piece of work. Dropping it clears its line on a terminal.
pub struct Progress {
    what: String,
    on_terminal: bool,
    clock: SystemClock,
    /// The line of a terminal, and when it or a line elsewhere was printed last.
    shown: Mutex<(ProgressLine, Option<Duration>)>,
}

impl Progress {
    /// Progress of work with this name, such as "verifying".
    pub fn new(what: impl Into<String>) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let shown = Mutex::new((ProgressLine::new(is_json()), None));
        Self { what: what.into(), on_terminal, clock: SystemClock::new(), shown }
    }

    /// So much of it is done.
    pub fn at(&self, done: u64, total: u64) {
        self.show(|_| format!("{} {done} of {total}", bar(done, total)));
    }

    /// Prints this with the time since the begin, unless something was printed a moment ago.
    pub fn show(&self, far: impl FnOnce(Duration) -> String) {
        let now = self.clock.monotonic();
        let mut shown = self.shown.lock();
        if is_json() || !due(self.on_terminal, now, shown.1) {
            return;
        }
        shown.1 = Some(now);
        let line = format!("{}: {}", self.what, far(now));
        if self.on_terminal { shown.0.show(&line) } else { note(line) }
    }

    /// Runs work of unknown length: it prints the time since the begin.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval(DRAW);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = ticks.tick() => self.show(|took| format!("{} s", took.as_secs())),
            }
        }
    }
}

fn due(on_terminal: bool, now: Duration, last: Option<Duration>) -> bool {
    match (on_terminal, last) {
        (true, None) => true,
        (true, Some(last)) => now.saturating_sub(last) >= DRAW,
        (false, last) => now.saturating_sub(last.unwrap_or_default()) >= TELL,
    }
}

/// `[#####---------------]  25%`
pub fn bar(done: u64, total: u64) -> String {
    let total = total.max(1);
    let done = done.min(total);
    let full = done.saturating_mul(CELLS) / total;
    let cells = (0..CELLS).map(|cell| if cell < full { '#' } else { '-' });
    format!("[{}] {:>3}%", cells.collect::<String>(), done.saturating_mul(100) / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        assert_eq!(bar(250, 1000), "[#####---------------]  25%");
        assert_eq!(bar(0, 0), "[--------------------]   0%");
        assert_eq!(bar(7, 3), "[####################] 100%");
    }

    #[test]
    fn a_terminal_is_drawn_at_once_and_a_file_gets_a_line_every_few_seconds() {
        let second = Duration::from_secs;
        assert!(
            due(true, Duration::ZERO, None) && !due(true, Duration::ZERO, Some(Duration::ZERO))
        );
        assert!(due(true, second(1), Some(Duration::ZERO)));
        assert!(!due(false, second(4), None) && due(false, second(5), None));
        assert!(!due(false, second(9), Some(second(5))) && due(false, second(10), Some(second(5))));
    }
}
