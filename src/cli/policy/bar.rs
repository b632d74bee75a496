//! How far long work is, for a person at a terminal.

use crate::evidence::progress::Line;

/// Characters of the bar itself.
const CELLS: usize = 30;

/// A bar, drawn only where somebody looks.
#[derive(Debug)]
pub struct Bar {
    line: Line,
    what: &'static str,
    total: usize,
    done: usize,
    drawn: usize,
}

impl Bar {
    /// For so many steps of something.
    #[must_use]
    pub fn new(what: &'static str, total: usize) -> Self {
        Self { line: Line::new(false), what, total, done: 0, drawn: usize::MAX }
    }

    /// One more step is done.
    pub fn step(&mut self) {
        self.done = self.done.saturating_add(1);
        let cells = self.done.saturating_mul(CELLS).checked_div(self.total).unwrap_or(CELLS);
        if cells != self.drawn {
            self.drawn = cells;
            let (full, empty) = ("#".repeat(cells), ".".repeat(CELLS.saturating_sub(cells)));
            let far = format!("[{full}{empty}] {} of {} {}", self.done, self.total, self.what);
            self.line.show(&far);
        }
    }
}
