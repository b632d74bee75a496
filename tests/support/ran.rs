//! A command that ran to its end.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::program;

/// How a command ended, and what it printed.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; -1 if a signal ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Runs a command that reads nothing.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        let done = command.stdin(Stdio::null()).output();
        Self::from(&done.unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }

    /// Runs a command of the program in this directory.
    #[track_caller]
    pub fn gate(dir: impl AsRef<Path>, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self::of(&mut program::command(dir, args))
    }

    /// What it printed, on both streams.
    pub fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// It ended with this code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.out, self.err);
        self
    }

    /// It succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.ends(0)
    }

    /// It printed this, on either stream.
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        let heard = self.out.contains(part) || self.err.contains(part);
        assert!(heard, "`{part}` is not in: {}\n{}", self.out, self.err);
        self
    }

    /// It printed this to standard error.
    #[track_caller]
    pub fn complains(self, part: &str) -> Self {
        assert!(self.err.contains(part), "`{part}` is not in: {}", self.err);
        self
    }

    /// The JSON that it printed: all of its standard output, or the last line.
    #[track_caller]
    pub fn json(&self) -> Value {
        let whole = serde_json::from_str(&self.out).ok();
        let last = || serde_json::from_str(self.out.lines().last()?).ok();
        whole.or_else(last).unwrap_or_else(|| panic!("no JSON: {self:?}"))
    }
}

impl From<&Output> for Ran {
    fn from(done: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = done.status.code().unwrap_or(-1);
        Self { code, out: text(&done.stdout), err: text(&done.stderr) }
    }
}
