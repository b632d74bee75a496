//! Programs in Python and Node that use the clients, and what they print: a JSON object a line.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wicketgate_support::program::top;

use crate::gate::Gate;
use crate::home;
use crate::process::Process;

/// The Python that has the frameworks.
pub fn python() -> PathBuf {
    home::llm().join("python/bin/python")
}

/// A command with nothing of the environment of the user who runs the tests.
pub fn clean(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    let temporary = std::env::temp_dir();
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &temporary)
        .env("TMPDIR", &temporary)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", top().join("clients/python/src"))
        .envs(std::env::var_os("WICKETGATE_TEST_RUN").map(|run| ("WICKETGATE_TEST_RUN", run)));
    command
}

/// A program of an agent of this gate, over TCP.
pub fn agent(gate: &Gate, program: PathBuf) -> Command {
    let mut command = clean(program);
    command
        .env("WICKETGATE_URL", gate.url())
        .env("WICKETGATE_TOKEN_FILE", gate.files.path("token"));
    command
}

/// A script of `tests/clients/programs`, for an agent of this gate.
pub fn script(gate: &Gate, name: &str) -> Command {
    let mut command = agent(gate, python());
    command.arg(top().join("tests/clients/programs").join(name));
    command
}

/// Copies a folder of the repository to where every user can read it: a sandbox runs its programs as another one.
pub fn copy(from: &str, to: &Path) {
    let from = top().join(from);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(&from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            let below = entry.path();
            copy(below.strip_prefix(top()).unwrap().to_str().unwrap(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Lets every user enter a folder.
pub fn open(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a program to its end, and approves each call that it says is held; the object that it prints at last.
#[track_caller]
pub fn play(gate: &Gate, command: Command) -> Value {
    let mut process = Process::start(command);
    let last = loop {
        let line = process.read("what a program says", |line| {
            serde_json::from_str::<Value>(line).ok().filter(Value::is_object)
        });
        match line["held"].as_str() {
            Some(approval) => gate.approve(approval),
            None => break line,
        }
    };
    let status = process.wait_for_end();
    assert!(status.success(), "{status}: {last}: {}", process.said());
    last
}
