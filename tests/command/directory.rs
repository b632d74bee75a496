//! A directory of the operator's that commands may write, and lists of arguments that the agent gives.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::estate::{Estate, answer, program, script, tool};

/// A tool that writes its argument `in` to the file `a`, and one whose list of arguments is the agent's.
fn tools() -> Vec<Value> {
    let tee = json!({"program": program("tee"), "argv": ["--", {"arg": "a"}], "stdin": "in", "directory": "ws"});
    let mut any = tool(
        "any",
        json!({"program": program("ls"), "directory": "ws",
            "forms": [["-A1"], ["-A1", "--", {"arg": "file", "as": "path"}]]}),
        json!({}),
    );
    any.as_object_mut().unwrap().remove("input_schema");
    vec![tool("tee", tee, json!({})), any]
}

async fn call(agent: &Agent, tool: &str, args: Value) -> Value {
    answer(agent.call(tool, "", &args.to_string()).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_writes_in_a_directory_stays_for_other_runs_and_the_next_gate() {
    let estate = Estate::new(&tools());
    let gate = estate.serve();
    let (one, other) = (gate.open().await, gate.open().await);
    let wrote = call(&one, "tee", json!({"a": "f", "in": "mine"})).await;
    assert_eq!((&wrote["exit_code"], &wrote["sandbox"]), (&json!(0), &json!("S2")), "{wrote}");
    assert_eq!(std::fs::read_to_string(estate.path("ws/f")).unwrap(), "mine");
    assert_eq!(call(&other, "any", json!({"argv": ["-A1"]})).await["stdout"], "f\n");
    one.seal().await.unwrap();
    gate.finish();
    let gate = estate.serve();
    let next = gate.open().await;
    assert_eq!(call(&next, "any", json!({"argv": ["-A1", "--", "f"]})).await["stdout"], "f\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_with_a_directory_writes_nowhere_else_and_leaves_no_set_id_file() {
    let mut all = tools();
    let escape = "import os\nout = []\nfor path in ['../canary', 'l', 'd/made', '/etc/made', '../s/made']:\n    try:\n        open(path, 'w').write('x')\n        out.append(path)\n    except OSError:\n        pass\ntry:\n    os.chmod('f', 0o4755)\n    out.append('chmod')\nexcept OSError:\n    pass\nprint(out)";
    all.push(script("escape", escape, json!({"directory": "ws"}), json!({})));
    let estate = Estate::new(&all);
    std::fs::write(estate.path("canary"), "outside").unwrap();
    symlink(estate.path("canary"), estate.path("ws/l")).unwrap();
    symlink(estate.path("data"), estate.path("ws/d")).unwrap();
    let gate = estate.serve();
    let agent = gate.open().await;
    call(&agent, "tee", json!({"a": "f", "in": "mine"})).await;
    let got = call(&agent, "escape", json!({})).await;
    // Beside the directory it has a `/tmp` of its own, which may hide the names above.
    let there = got["stdout"].as_str().unwrap();
    for path in ["d/made", "/etc/made", "chmod"] {
        assert!(!there.contains(path), "{path}: {got}");
    }
    assert_eq!(std::fs::read_to_string(estate.path("canary")).unwrap(), "outside");
    assert!(!estate.path("data/made").exists() && !Path::new("/etc/made").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_that_a_command_may_write_a_directory() {
    let estate = Estate::new(&tools());
    let rules = "package wicketgate.agent\nimport rego.v1\nallow if input.tool.kind == \"command\"\n\
        deny contains \"no directory\" if input.effect.workspace == \"directory\"\n";
    estate.rules("bundle", rules, ["command", "1.0.0"]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let refused = agent.call("tee", "", &json!({"a": "f", "in": "mine"}).to_string()).await;
    assert!(format!("{refused:?}").contains("no directory"), "{refused:?}");
    assert!(!estate.path("ws/f").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_gives_a_list_of_one_of_the_forms_and_no_other() {
    let estate = Estate::new(&tools());
    let gate = estate.serve();
    let agent = gate.open().await;
    assert_eq!(call(&agent, "any", json!({"argv": ["-A1"]})).await["exit_code"], 0);
    for argv in [json!(["-A1", "-R"]), json!(["-la"]), json!(["-A1", "--", "../data"]), json!([])] {
        let refused = agent.call("any", "", &json!({"argv": argv}).to_string()).await;
        let refused = format!("{refused:?}");
        assert!(refused.contains("command.arg_not_allowed"), "{argv}: {refused}");
    }
    gate.finish();
    let started = estate.entries("call.authorized").len();
    assert_eq!(started, 1, "a list of no form ran");
}
