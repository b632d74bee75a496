//! This very program, run again.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::PATIENCE;
use super::error::Error;
use crate::config;

/// Where this program is.
pub struct OwnProgram {
    exe: PathBuf,
}

/// The output of one command.
#[derive(Debug)]
pub struct CommandOutput {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
}

impl std::fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "{code}: ")?,
            None => f.write_str("a signal: ")?,
        }
        f.write_str(format!("{}{}", self.out, self.err).trim())
    }
}

impl OwnProgram {
    /// Finds it.
    pub fn new() -> Result<Self, Error> {
        let exe = std::env::current_exe().map_err(Error::Program)?;
        Ok(Self { exe })
    }

    /// The command line `wicketgate <args>`, untouched by overrides in the environment. Ends when it
    /// is dropped.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.exe);
        command.args(args).kill_on_drop(true);
        for name in config::variables() {
            if name.starts_with("WICKETGATE__") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs one command in a directory to its end.
    pub async fn run(&self, dir: &Path, args: &[&str]) -> Result<CommandOutput, Error> {
        let name = || args.join(" ");
        let mut command = self.command(args);
        let output = command.current_dir(dir).stdin(Stdio::null()).output();
        let done = tokio::time::timeout(PATIENCE, output)
            .await
            .map_err(|_late| Error::Endless(name()))?
            .map_err(|source| Error::Command { command: name(), source })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(CommandOutput {
            out: text(done.stdout),
            err: text(done.stderr),
            code: done.status.code(),
        })
    }
}
