//! How far a long verification is, for a person at a terminal.

use std::cell::{Cell, OnceCell};
use std::io::{IsTerminal as _, Stderr, Write as _};

use super::bundle::Files;
use super::check::{Step, Watch};

/// Bytes from which on a bundle takes long enough to be waited for.
pub const LONG_BYTES: usize = 1 << 20;
/// Characters that a line may have in the narrowest terminal that is usual.
const WIDTH: usize = 79;

/// One line on standard error, written again and again and gone in the end. It has no colour, so that
/// `NO_COLOR` has nothing to turn off.
#[derive(Debug)]
pub struct ProgressLine {
    /// `None`: nobody looks.
    terminal: Option<Stderr>,
    shown: Cell<bool>,
}

impl ProgressLine {
    /// For whoever sits at standard error. `quiet`: for nobody, wherever it goes.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let terminal = Some(std::io::stderr()).filter(|err| !quiet && err.is_terminal());
        Self { terminal, shown: Cell::new(false) }
    }

    /// Puts this in the place of what was shown last, as far as the line goes.
    pub fn show(&self, line: &str) {
        let Some(terminal) = &self.terminal else { return };
        let line: String = line.chars().take(WIDTH).collect();
        // Nobody is left to tell if the terminal is gone.
        let _ = write!(terminal.lock(), "\r{line:<WIDTH$}\r");
        let _ = terminal.lock().flush();
        self.shown.set(true);
    }
}

impl Drop for ProgressLine {
    /// The report stands where the line was.
    fn drop(&mut self) {
        if self.shown.get() {
            self.show("");
        }
    }
}

/// A person who waits, if there is one.
#[derive(Debug)]
pub struct Progress {
    line: ProgressLine,
    /// What is told of a long bundle; nothing as long as none was read.
    bundle: OnceCell<String>,
}

impl Progress {
    /// As [`Line::new`].
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        Self { line: ProgressLine::new(quiet), bundle: OnceCell::new() }
    }
}

impl Watch for Progress {
    fn loaded(&self, files: &Files) {
        let bytes: usize = files.0.values().map(Vec::len).sum();
        if bytes >= LONG_BYTES {
            self.bundle.get_or_init(|| format!("{} files, {} MiB", files.0.len(), bytes >> 20));
        }
    }

    fn at(&self, step: Step) {
        if let Some(bundle) = self.bundle.get() {
            let (place, what) = step.told();
            self.line.show(&format!("checking {place} of {}: {what} ({bundle})", Step::COUNT));
        }
    }
}
