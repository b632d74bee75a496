//! A home of its own, and the program played in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use wicketgate_support::program;

/// What every process of one session has in its environment.
const MARK: &str = "WICKETGATE_TEST_STAGE";

pub struct Session {
    home: tempfile::TempDir,
    work: tempfile::TempDir,
    mark: String,
}

/// What one run said.
pub struct Played {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl Session {
    pub fn new() -> Self {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mark = work.path().display().to_string();
        Self { home, work, mark }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.work.path().canonicalize().unwrap().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program::gate());
        command
            .args(args)
            .current_dir(self.work.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("TMPDIR", self.work.path())
            .env(MARK, &self.mark)
            .stdin(Stdio::null());
        command
    }

    pub fn play(&self, args: &[&str]) -> Played {
        self.play_with(args, &[])
    }

    pub fn play_with(&self, args: &[&str], env: &[(&str, &str)]) -> Played {
        let done = self.command(args).envs(env.iter().copied()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Played { out: text(done.stdout), err: text(done.stderr), code: done.status.code() }
    }

    /// The command lines of this session's processes that still run.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            // One that ends while it is looked at, or belongs to somebody else, is none of ours.
            let Ok(environ) = std::fs::read(entry.path().join("environ")) else { continue };
            if environ.split(|b| *b == 0).any(|variable| variable == mark.as_bytes()) {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        found
    }
}

impl Played {
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        self
    }

    fn steps(&self) -> impl Iterator<Item = Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap())
    }

    pub fn names(&self) -> Vec<String> {
        self.steps().map(|step| step["step"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    pub fn step(&self, name: &str) -> Value {
        self.steps().find(|step| step["step"] == name).unwrap()
    }

    pub fn calls(&self) -> impl Iterator<Item = Value> {
        self.steps().filter(|step| step["step"] == "call")
    }
}
