//! `wicketgate run -- PROGRAM`: an agent in a run of its own.

use serde_json::{Value, json};

use crate::estate::{self, Estate, python};

/// Calls tools with the run that the command opened, and exits with a code of its own: TOOL CODE.
const AGENT: &str = r#"import http.client, json, os, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["WICKETGATE_URL"].removeprefix("unix:"))
assert os.environ["WICKETGATE_URL"] == "unix:" + os.environ["WICKETGATE_SOCKET"]
for number, tool in enumerate(sys.argv[2:]):
    gate = Unix("localhost")
    gate.request("POST", "/gate/v1/calls", json.dumps({"tool": tool, "arguments": {}}), {
        "Authorization": "Bearer " + os.environ["WICKETGATE_RUN_TOKEN"], "Content-Type": "application/json",
        "Idempotency-Key": f"call-{number}"})
    answer = gate.getresponse()
    print(tool, answer.status, answer.read().decode()[:400])
print("run", os.environ["WICKETGATE_RUN"])
sys.exit(int(sys.argv[1]))
"#;

fn estate() -> Estate {
    let tool = |name| {
        let command = json!({"sandbox": "S1", "program": estate::program("true"), "argv": []});
        estate::tool(name, command, json!({}))
    };
    let estate = Estate::new(&[tool("text.one"), tool("text.two")]);
    estate.write("agent.py", AGENT);
    estate
}

fn launched(estate: &Estate, args: &[&str]) -> wicketgate_support::ran::Ran {
    let run = ["run", "--", python(), "-I", "agent.py"];
    estate.try_run(&[&run[..], args].concat())
}

#[test]
fn a_gate_is_started_for_an_agent_and_what_became_of_its_calls_is_said() {
    let estate = estate();
    let ran = launched(&estate, &["7", "text.one", "text.none"]).ends(7);
    assert!(ran.out.contains("text.one 200"), "{}\n{}", ran.out, ran.err);
    assert!(ran.out.contains("tool.not_granted"), "{}", ran.out);
    for line in [
        "gate       started for this run",
        "calls      1 call allowed, 1 denied, 0 held",
        "denied     text.none ",
    ] {
        assert!(ran.err.contains(line), "`{line}` is not in {}", ran.err);
    }
    let run = ran.out.lines().find_map(|line| line.strip_prefix("run ")).unwrap();
    let kinds: Vec<Value> = estate.entries("run.sealed");
    assert_eq!(kinds.len(), 1, "{run} is sealed");
    let labels = estate.entries("run.opened")[0]["labels"].to_string();
    assert!(labels.contains(&python_name()), "{labels}");
    // The gate ended with it.
    let list = estate.try_run(&["check", "--offline"]).ends(2);
    assert!(list.out.contains("gate\n  ? "), "{}", list.out);
}

fn python_name() -> String {
    let name = std::path::Path::new(python()).file_name().unwrap();
    name.to_str().unwrap().to_owned()
}

#[test]
fn a_gate_that_runs_is_used_and_left_running() {
    let estate = estate();
    let gate = estate.serve();
    let ran = launched(&estate, &["0", "text.two"]).ends(0);
    assert!(!ran.err.contains("started for this run"), "{}", ran.err);
    assert!(ran.err.contains("1 call allowed, 0 denied"), "{}", ran.err);
    launched(&estate, &["0"]).ends(0);
    assert_eq!(estate.entries("run.sealed").len(), 2);
    gate.finish();
}

#[test]
fn a_program_that_cannot_start_and_a_run_that_is_refused_say_so() {
    let estate = estate();
    let gate = estate.serve();
    let missing = estate.try_run(&["run", "--", "./no-such-agent"]).ends(1);
    assert!(missing.err.contains("`./no-such-agent` cannot be started"), "{}", missing.err);
    assert_eq!(estate.entries("run.sealed").len(), 1, "its run is sealed");
    let refused = estate.try_run(&["run", "--model", "another", "--", "true"]).ends(1);
    assert!(refused.err.contains("manifest.mismatch"), "{}", refused.err);
    let killed = estate.try_run(&["run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code, 137, "as a shell says it");
    estate.try_run(&["run"]).ends(64);
    gate.finish();
}
