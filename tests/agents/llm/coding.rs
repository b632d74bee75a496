//! One task with coding agents whose own tools are off: a test fails, and they find out why, change the program and run
//! the test again, by tools of the gate over a repository of the operator's.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;
use wicketgate_support::commands::python;
use wicketgate_support::files::Files;
use wicketgate_support::process;

use super::gate::{ModelGate, Offer};
use super::play::{Player, Scenarios, Through};
use super::provider::Provider;

const PROGRAM: &str = r#""""Prices of an order."""


def total(prices, discount):
    """The sum of the prices, less a discount in percent."""
    return sum(prices) * (1 + discount / 100)
"#;

const TEST: &str = "import unittest

from prices import total


class Prices(unittest.TestCase):
    def test_a_discount_is_taken_off(self):
        self.assertEqual(total([10, 20], 10), 27)
";

/// What the agent did, as the ledger has it. It tried a program of its own and a change of the test, which were refused.
const CALLS: [(&str, &str); 7] = [
    ("repo.list", "call.completed"),
    ("repo.run", "call.denied"),
    ("repo.run", "call.completed"),
    ("repo.read", "call.completed"),
    ("repo.edit", "call.denied"),
    ("repo.edit", "call.completed"),
    ("repo.run", "call.completed"),
];

/// A repository that the sandboxes of a gate that is root may write, too.
#[track_caller]
fn repository() -> Files {
    let files = Files::new();
    files.write("repo/prices.py", PROGRAM);
    files.write("repo/test_prices.py", TEST);
    for (path, mode) in [("", 0o755), ("repo", 0o777)] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(files.path(path), mode).unwrap();
    }
    files
}

/// Whether the repository's tests pass, run by this test itself.
fn passes(files: &Files) -> bool {
    let mut command = Command::new(python());
    command.args(["-B", "-m", "unittest"]).current_dir(files.path("repo"));
    process::run(command).0
}

/// The steps of the one run, to which the requests to the model belong too, without these.
#[track_caller]
fn steps(files: &Files) -> Vec<Value> {
    let listed = files.run(&["run", "list", "--all", "--config", "wicketgate.yaml", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let [run] = &listed["runs"].as_array().unwrap()[..] else { panic!("{listed}") };
    let run = run["run"].as_str().unwrap();
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", run];
    files.run(&[&export[..], &["--out", "exported"]].concat());
    let steps = files.read_json("exported/agent_run.json")["steps"].clone();
    let steps = steps.as_array().unwrap().iter().cloned();
    let (model, tools): (Vec<_>, Vec<_>) = steps.partition(|step| step["tool"] == "llm.main");
    assert!(model.len() > CALLS.len(), "the model asked for each: {model:?}");
    tools
}

/// `own` are the tools that the program offers whatever it is told: none of them reads, writes or runs anything.
#[track_caller]
fn repairs(name: &'static str, own: &[&str]) {
    let (provider, files) = (Provider::start(), repository());
    assert!(!passes(&files), "the task is done before it begins");
    let gate = ModelGate::serve_with(files, &provider, &Offer::repository(own));
    let through = Through { gate: &gate, names: &["coding"], home: None, pin: None };
    let plays = Player::program(name).play(&["coding"], &provider, Some(through));
    let [play] = &plays[..] else { panic!("{plays:?}") };
    Scenarios::read("programs.json").delivers(play, name);

    let ModelGate { process, files } = gate;
    process.finish();
    assert!(passes(&files), "{play:?}");
    assert_eq!(
        std::fs::read_to_string(files.path("repo/test_prices.py")).unwrap(),
        TEST,
        "the test was changed"
    );
    let steps = steps(&files);
    let calls: Vec<_> = steps
        .iter()
        .map(|step| (step["tool"].as_str().unwrap(), step["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(calls, CALLS, "{steps:?}");
    // Not the policy refused that, but the tool: the list has none of its forms.
    assert_eq!(steps[1]["rule"], "tool.command", "{:?}", steps[1]);
}

#[test]
fn claude_code_repairs_a_program_by_the_gates_tools_alone() {
    repairs("claude", &[]);
}

#[test]
fn codex_repairs_a_program_by_the_gates_tools_alone() {
    let of_mcp = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"];
    repairs("codex", &[&of_mcp[..], &["request_user_input", "update_plan"]].concat());
}

#[test]
fn opencode_repairs_a_program_by_the_gates_tools_alone() {
    if Player::program("opencode").runs_here() {
        repairs("opencode", &[]);
    }
}
