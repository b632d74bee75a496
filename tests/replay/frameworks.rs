//! Agents of others on a scripted model: recorded through the gate, replayed with the tools gone, and each
//! drift told at its step.

use std::path::Path;

use serde_json::{Value, json};

use crate::home;
use crate::rig::{Rig, drifts};

/// A whole agent of this framework that makes these calls: the task is completed from the environment.
fn agent(script: &str, calls: &[(&str, Value)]) -> Vec<String> {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/mcp/clients");
    let call = |(name, arguments): &(&str, Value)| json!({"name": name, "arguments": arguments});
    let calls = Value::from(calls.iter().map(call).collect::<Vec<_>>()).to_string();
    let start = "import json, os, sys; \
        task = {'era': 'auto', 'url': os.environ['WICKETGATE_MCP_URL'], \
        'token': os.environ['WICKETGATE_TOKEN'], 'calls': json.loads(sys.argv[2])}; \
        os.environ['PYTHONPATH'] = os.path.dirname(sys.argv[1]); \
        os.execv(sys.executable, [sys.executable, sys.argv[1], json.dumps(task)])";
    let script = clients.join(format!("{script}.py"));
    let words = [home::python(2).display().to_string(), "-c".to_owned(), start.to_owned()];
    [&words[..], &[script.display().to_string(), calls]].concat()
}

fn three() -> [(&'static str, Value); 3] {
    [
        ("look.up", json!({"name": "ada"})),
        ("note.add", json!({"text": "hello"})),
        ("look.up", json!({"name": "bob"})),
    ]
}

#[track_caller]
fn recorded_and_replayed(script: &str) -> Rig {
    let mut rig = Rig::new(&json!({"mode": "deterministic"}));
    let printed = rig.record(&agent(script, &three()));
    assert_eq!(rig.tool.came(), 3, "{printed}");
    let again = rig.replay(&[], &agent(script, &three()));
    assert_eq!(again.code, 0, "{again:?}");
    // Everything the agent says it saw, and so what its model read.
    assert_eq!(again.out, printed);
    assert!(printed.contains("number"), "{printed}");
    rig
}

#[test]
fn an_agent_of_openai_agents_is_recorded_and_replayed_and_its_drifts_are_found() {
    let script = "agent_openai";
    let rig = recorded_and_replayed(script);
    let mut changed = three();
    changed[1].1 = json!({"text": "good bye"});
    let mut other = three();
    other[1] = ("look.up", json!({"name": "hello"}));
    let skipped = [three()[0].clone(), three()[2].clone()];
    for (what, calls, kind) in [
        ("a changed argument", &changed[..], "arguments"),
        ("a skipped call", &skipped[..], "missing"),
        ("another tool", &other[..], "extra"),
    ] {
        let ran = rig.replay(&["--json"], &agent(script, calls));
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        assert_eq!(drifts(&ran.json()), [(kind.to_owned(), Some(2))], "{what}: {ran:?}");
    }
}

#[test]
fn an_agent_of_pydantic_ai_is_recorded_and_replayed() {
    recorded_and_replayed("agent_pydantic");
}
