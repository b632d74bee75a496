//! How far long work is, for a person at a terminal: one line on standard error, written again and again
//! and gone in the end. It has no colour, so that `NO_COLOR` has nothing to turn off.

use std::io::{IsTerminal, Stderr, Write as _};

/// Characters of the bar itself.
const CELLS: usize = 30;
/// Characters that a line may have in the narrowest terminal that is usual.
const WIDTH: usize = 79;

/// A bar, drawn only where somebody looks.
#[derive(Debug)]
pub struct Bar {
    terminal: Option<Stderr>,
    what: &'static str,
    total: usize,
    done: usize,
    drawn: usize,
}

impl Bar {
    /// For so many steps of something.
    #[must_use]
    pub fn new(what: &'static str, total: usize) -> Self {
        let terminal = Some(std::io::stderr()).filter(IsTerminal::is_terminal);
        Self { terminal, what, total, done: 0, drawn: usize::MAX }
    }

    /// One more step is done.
    pub fn step(&mut self) {
        self.done = self.done.saturating_add(1);
        let cells = self.done.saturating_mul(CELLS).checked_div(self.total).unwrap_or(CELLS);
        if cells != self.drawn {
            self.drawn = cells;
            let (full, empty) = ("#".repeat(cells), ".".repeat(CELLS.saturating_sub(cells)));
            self.show(&format!("[{full}{empty}] {} of {} {}", self.done, self.total, self.what));
        }
    }

    fn show(&self, line: &str) {
        let Some(terminal) = &self.terminal else { return };
        // Nobody is left to tell if the terminal is gone.
        let _ = write!(terminal.lock(), "\r{line:<WIDTH$}\r");
        let _ = terminal.lock().flush();
    }
}

impl Drop for Bar {
    /// The report stands where the bar was.
    fn drop(&mut self) {
        self.show("");
    }
}
