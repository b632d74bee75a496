//! A directory of its own for each test, and the program run in it.

use std::path::PathBuf;
use std::process::Command;

use wicketgate_support::program;
use wicketgate_support::ran::Ran;

/// A working directory.
pub struct Folder(tempfile::TempDir);

impl Folder {
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
        let mut command = Command::new(program::gate());
        command.args(args).current_dir(self.0.path()).env_clear().env("HOME", self.0.path());
        Ran::of(command.envs(env.iter().copied()))
    }

    /// A folder with two keys and a signed manifest.
    pub fn with_manifest() -> Self {
        let folder = Self::new();
        folder.run(&["keygen", "--out", "k"]).ends(0);
        folder.run(&["keygen", "--out", "k2"]).ends(0);
        folder.run(&["manifest", "init", "agent.yaml"]).ends(0);
        folder.run(&["manifest", "sign", "agent.yaml", "--key", "k"]).ends(0);
        folder
    }
}
