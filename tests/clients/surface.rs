//! What both clients make of answers, denials, holds, retries, large results and a gate that is not there.

use serde_json::json;

use crate::gate::Gate;
use crate::program::{play, python, script};
use crate::ran::Ran;
use wicketgate_support::program::top;

#[test]
fn the_python_client_gives_results_and_a_class_of_error_for_each_refusal() {
    let gate = Gate::start();
    let said = play(&gate, script(&gate, "surface.py"));
    assert_eq!(said, json!({"passed": "tcp"}));
    let mut over_socket = script(&gate, "surface.py");
    over_socket.env("WICKETGATE_URL", gate.socket()).env_remove("WICKETGATE_TOKEN_FILE");
    assert_eq!(play(&gate, over_socket), json!({"passed": "unix"}));
    gate.finish();
}

#[test]
fn below_wicketgate_run_a_client_opens_the_run_of_the_command() {
    let gate = Gate::start();
    let code = "from wicketgate import Gate\n\
        with Gate.from_env().open() as run:\n    \
        print(run.id, run.call('notes.read', path='todo.md').result['text'])";
    let program = python();
    let mut command = gate.files.command(&["run", "--"]);
    command.arg(&program).args(["-c", code]);
    command.env("PYTHONPATH", top().join("clients/python/src"));
    let ran = Ran::of(&mut command).ends(0);
    let (run, text) = ran.out.split_once(' ').unwrap();
    assert_eq!(text.trim(), "water the plants");
    assert!(ran.err.contains(run), "the same run: {}", ran.err);
    assert!(ran.err.contains("calls      1 call allowed, 0 denied"), "{}", ran.err);
    gate.finish();
}
