//! The TypeScript client: compiled by `tsc` alone, then used by programs of Node.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use wicketgate_support::program::top;

use crate::frameworks::{Provider, goes_on, is_observed, observing};
use crate::gate::{Gate, printed};
use crate::home;
use crate::program::{agent, clean, play};

/// A project that installed the client, as npm would leave it.
pub struct Project {
    dir: TempDir,
}

/// The folder that `tests/run` installs compiler and framework into.
#[track_caller]
fn packages() -> PathBuf {
    let usual = || top().join("target/tests/clients");
    let found = std::env::var_os("WICKETGATE_TEST_CLIENTS").map_or_else(usual, PathBuf::from);
    assert!(found.join("stamp").exists(), "`tests/run` installs what is not in {found:?}");
    found.join("node_modules")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

impl Project {
    #[track_caller]
    pub fn new() -> Self {
        let project = Self { dir: tempfile::tempdir().unwrap() };
        let (installed, source) = (project.path("node_modules"), top().join("clients/typescript"));
        let ours = installed.join("wicketgate-sdk");
        copy(&source.join("src"), &ours.join("src"));
        for name in ["package.json", "tsconfig.json"] {
            std::fs::copy(source.join(name), ours.join(name)).unwrap();
        }
        std::fs::write(project.path("package.json"), r#"{"type": "module"}"#).unwrap();
        for entry in std::fs::read_dir(packages()).unwrap() {
            let entry = entry.unwrap();
            std::os::unix::fs::symlink(entry.path(), installed.join(entry.file_name())).unwrap();
        }
        project.compile(&["-p", &ours.display().to_string()]);
        project
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the compiler, which has to have nothing to say.
    #[track_caller]
    pub fn compile(&self, args: &[&str]) {
        let mut compiler = clean(home::node());
        compiler.arg(self.path("node_modules/typescript/bin/tsc")).args(args);
        assert_eq!(printed(compiler.current_dir(self.dir.path())), "");
    }

    /// A program of this text, for an agent of this gate.
    pub fn program(&self, gate: &Gate, name: &str, text: &str) -> Command {
        std::fs::write(self.path(name), text).unwrap();
        let mut command = agent(gate, home::node());
        command.arg(self.path(name)).current_dir(self.dir.path());
        command
    }

    fn script(&self, gate: &Gate, name: &str) -> Command {
        let text = top().join("tests/clients/programs").join(name);
        self.program(gate, name, &std::fs::read_to_string(text).unwrap())
    }
}

#[test]
fn the_typescript_client_gives_results_and_a_class_of_error_for_each_refusal() {
    let (gate, project) = (Gate::start(), Project::new());
    let said = play(&gate, project.script(&gate, "surface.mjs"));
    assert_eq!(said, json!({"passed": "tcp"}));
    let mut over_socket = project.script(&gate, "surface.mjs");
    over_socket.env("WICKETGATE_URL", gate.socket()).env_remove("WICKETGATE_TOKEN_FILE");
    assert_eq!(play(&gate, over_socket), json!({"passed": "unix"}));
    gate.finish();
}

#[test]
fn an_agent_of_the_ai_library_goes_on_from_a_denial_and_waits_for_an_approval() {
    let (gate, provider, project) = (Gate::start(), Provider::start(), Project::new());
    goes_on(&gate, project.script(&gate, "framework.mjs"), &provider);
    gate.finish();
    let gate = observing(&provider);
    let mut command = project.script(&gate, "framework.mjs");
    command.arg("observed");
    is_observed(&goes_on(&gate, command, &provider));
    gate.finish();
}
