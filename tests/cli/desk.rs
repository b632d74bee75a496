//! A directory of its own for each test, and the program run in it.

use std::path::PathBuf;
use std::process::Command;

/// A working directory.
pub struct Desk(tempfile::TempDir);

/// What one run said.
pub struct Ran {
    pub out: String,
    pub err: String,
    code: Option<i32>,
}

impl Ran {
    /// Asserts the exit code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        self
    }

    /// Asserts a part of what went to standard error.
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.err.contains(part), "`{part}` is not in: {}", self.err);
        self
    }
}

impl Desk {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Replaces text that must be there.
    #[track_caller]
    pub fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "`{from}` is not in {text}");
        self.write(name, text.replacen(from, to, 1));
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let done = Command::new(env!("CARGO_BIN_EXE_wicketgate"))
            .args(args)
            .current_dir(self.0.path())
            .env_clear()
            .env("HOME", self.0.path())
            .envs(env.iter().copied())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { out: text(done.stdout), err: text(done.stderr), code: done.status.code() }
    }

    /// A desk with two keys and a signed manifest.
    pub fn with_manifest() -> Self {
        let desk = Self::new();
        desk.run(&["keygen", "--out", "k"]).ends(0);
        desk.run(&["keygen", "--out", "k2"]).ends(0);
        desk.run(&["manifest", "init", "agent.yaml"]).ends(0);
        desk.run(&["manifest", "sign", "agent.yaml", "--key", "k"]).ends(0);
        desk
    }
}
