//! The progress of a long verification, for a person at a terminal.

use std::cell::{Cell, OnceCell};
use std::io::{IsTerminal as _, Stderr, Write as _};

use super::bundle::Files;
use super::check::{Step, Watch};
use crate::domain::plural::many;

/// Size from which a bundle takes long enough to show progress.
pub const LONG_BYTES: usize = 1 << 20;
/// Width of the narrowest common terminal.
const WIDTH: usize = 79;

/// One line on standard error that is rewritten and finally cleared. It has no colour, so
/// `NO_COLOR` has no effect.
#[derive(Debug)]
pub struct ProgressLine {
    /// `None`: show nothing.
    terminal: Option<Stderr>,
    shown: Cell<bool>,
}

impl ProgressLine {
    /// Shows progress if standard error is a terminal, and nothing with `quiet`.
    pub fn new(quiet: bool) -> Self {
        let terminal = Some(std::io::stderr()).filter(|err| !quiet && err.is_terminal());
        Self { terminal, shown: Cell::new(false) }
    }

    /// Replaces the current line, cut to the width.
    pub fn show(&self, line: &str) {
        let Some(terminal) = &self.terminal else { return };
        let line: String = line.chars().take(WIDTH).collect();
        // Ignore a terminal that is gone.
        let _ = write!(terminal.lock(), "\r{line:<WIDTH$}\r");
        let _ = terminal.lock().flush();
        self.shown.set(true);
    }
}

impl Drop for ProgressLine {
    /// Clears the line, so that the report can take its place.
    fn drop(&mut self) {
        if self.shown.get() {
            self.show("");
        }
    }
}

/// Shows the progress to a person, if there is a terminal.
#[derive(Debug)]
pub struct Progress {
    line: ProgressLine,
    /// Describes a long bundle; unset until one was read.
    bundle: OnceCell<String>,
}

impl Progress {
    /// As [`ProgressLine::new`].
    pub fn new(quiet: bool) -> Self {
        Self { line: ProgressLine::new(quiet), bundle: OnceCell::new() }
    }
}

impl Watch for Progress {
    fn loaded(&self, files: &Files) {
        let bytes: usize = files.0.values().map(Vec::len).sum();
        if bytes >= LONG_BYTES {
            let count = many(files.0.len(), "file");
            self.bundle.get_or_init(|| format!("{count}, {} MiB", bytes >> 20));
        }
    }

    fn at(&self, step: Step) {
        if let Some(bundle) = self.bundle.get() {
            let (place, what) = step.numbered();
            self.line.show(&format!("checking {place} of {}: {what} ({bundle})", Step::COUNT));
        }
    }
}
