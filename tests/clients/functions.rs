//! Functions as tools: the gate starts the process that has their bodies, in a sandbox; the agent has stubs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wicketgate_support::commands;
use wicketgate_support::program::top;

use crate::files::Files;
use crate::gate::{Gate, Offer, printed};
use crate::program::{clean, copy, open, play, python, script};

/// The entry of `servers:` that `describe` prints.
#[track_caller]
fn described(files: &Files) -> Value {
    copy("clients/python/src", &files.path("sdk"));
    let desk = std::fs::read_to_string(top().join("tests/clients/programs/desk.py")).unwrap();
    files.write("code/desk.py", desk);
    open(&files.path(""));
    let mut describe = clean(commands::python().into());
    describe.args(["-m", "wicketgate", "describe", "desk"]).current_dir(files.path("code"));
    describe.env("PYTHONPATH", files.path("sdk"));
    let yaml = printed(&mut describe);
    let mut all: BTreeMap<String, Vec<Value>> = serde_saphyr::from_str(&yaml).unwrap();
    let servers = all.remove("servers").unwrap();
    assert_eq!(servers.len(), 1, "{yaml}");
    servers.into_iter().next().unwrap()
}

#[test]
fn the_body_of_a_function_runs_in_the_process_that_the_gate_starts_and_never_in_the_agent() {
    let files = Files::new();
    let server = described(&files);
    assert_eq!(server["tier"], "T1");
    assert_eq!(server["stdio"]["sandbox"]["level"], "S2");
    assert_eq!(server["tools"]["count"], json!({"tier": "T0", "read_only": true}));
    let gate = Gate::start_with(files, &Offer { servers: vec![server], ..Offer::default() });
    let mut command = script(&gate, "caller.py");
    // The same module, imported by the agent.
    command.env(
        "PYTHONPATH",
        std::env::join_paths([top().join("clients/python/src"), gate.files.path("code")]).unwrap(),
    );
    let said = play(&gate, command);
    let result = &said["result"];
    assert!(result["pid"].is_u64() && result["pid"] != said["pid"], "{said}");
    assert_eq!((&said["bodies"], &said["kept"]), (&json!([]), &json!([])), "{said}");
    // It has no token of the agent's, and what it writes beside its module is not there.
    assert_eq!((&result["text"], &result["token"]), (&json!("hello"), &Value::Null), "{said}");
    assert!(!gate.files.path("code/written").exists());
    assert_eq!(
        (&said["count"], &said["lines"], &said["counts"]),
        (&json!(3), &json!(2), &json!(4))
    );
    assert!(said["fails"].as_str().unwrap().contains("ValueError: no luck"), "{said}");
    assert_eq!(said["without"], "not_reached", "{said}");
    gate.finish();
}

#[test]
fn annotations_become_schemas_and_a_function_without_them_is_refused_with_what_to_write() {
    let mut command = clean(python());
    printed(command.arg(top().join("tests/clients/programs/declares.py")));
}
