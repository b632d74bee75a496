//! What goes into each kind, what comes out of it, and what is kept.

use std::path::Path;

use serde_json::{Value, json};

use crate::encodings;
use crate::estate::Estate;
use crate::world::{MARK, SECRET, World};

/// A call of each kind that carries this text; what it makes has this number.
pub fn carrying(world: &World, n: usize, text: &str) -> Vec<(&'static str, Value)> {
    let made = world.estate.path(&format!("ws/made-{n}"));
    vec![
        ("http", json!({"text": text})),
        ("model", question(text)),
        ("grpc", json!({"act": "say", "message": text})),
        ("sql", json!({"query": "SELECT n, text FROM forms WHERE text = ?", "params": [text]})),
        ("file.write", json!({"path": format!("made-{n}"), "content": text})),
        ("argv", json!({"a": text})),
        ("stdin", json!({"in": text})),
        ("server.write", json!({"path": made, "text": text})),
    ]
}

/// A call of each kind whose answer is the text of this number.
pub fn answering(world: &World, n: usize) -> Vec<(&'static str, Value)> {
    let forms = world.estate.path("data/forms.json");
    let run =
        format!("import json\nprint(json.load(open({:?}))[{n}])", forms.display().to_string());
    vec![
        ("http", json!({"n": n})),
        ("model", question(&format!("number {n}"))),
        ("grpc", json!({"act": "form", "size": n})),
        ("sql", json!({"query": "SELECT text FROM forms WHERE n = ?", "params": [n]})),
        ("file.read", json!({"path": n.to_string()})),
        ("prints", json!({"a": n.to_string()})),
        ("server.run", json!({"text": run})),
    ]
}

pub fn question(text: &str) -> Value {
    json!({"model": "small", "messages": [{"role": "user", "content": text}], "max_output_tokens": 100})
}

/// Whether this JSON holds that text, in a string, in the name of a member, or in JSON that is a string.
pub fn tells(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => {
            own.contains(text) || serde_json::from_str(own).is_ok_and(|inner| tells(&inner, text))
        }
        Value::Array(items) => items.iter().any(|item| tells(item, text)),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains(text) || tells(value, text))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_goes_into_no_tool_in_any_encoding() {
    let world = World::knowing(Vec::new()).await;
    let before = world.reached();
    for (n, (name, form)) in encodings::forms(SECRET).iter().enumerate() {
        for (tool, args) in carrying(&world, n, form) {
            let refused = world.call(tool, &args).await.expect_err(tool);
            assert_eq!(refused.detail, "no_allow", "{tool}, {name}: {refused:?}");
        }
        let named = json!({"path": "ws/named", "text": "x", (form.as_str()): 1});
        let refused = world.call("server.write", &named).await.unwrap_err();
        assert_eq!(refused.detail, "no_allow", "a name, {name}: {refused:?}");
    }
    assert_eq!(world.reached(), before, "nothing was told of it");
    kept_nowhere(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_comes_out_of_no_tool_in_any_encoding() {
    let world = World::knowing(encodings::forms(SECRET)).await;
    for (n, (name, form)) in world.forms.iter().enumerate() {
        for (tool, args) in answering(&world, n) {
            match world.call(tool, &args).await {
                Ok(text) => {
                    let answer: Value = serde_json::from_str(&text).unwrap();
                    assert!(!tells(&answer, form), "{tool}, {name}: {answer}");
                    let masked = tells(&answer, "[REDACTED:credential]");
                    assert!(masked, "{tool}, {name}: {answer}");
                }
                Err(withheld) => {
                    assert!(withheld.message.contains("holds a credential"), "{withheld:?}");
                }
            }
        }
    }
    kept_nowhere(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_credential_goes_in_and_comes_out_as_it_is() {
    let world = World::knowing(encodings::near(SECRET)).await;
    for (n, (name, form)) in world.forms.iter().enumerate() {
        for (tool, args) in carrying(&world, n, form).into_iter().chain(answering(&world, n)) {
            let text = world.call(tool, &args).await;
            if tool == "argv" && form.contains(char::is_control) {
                // No line is broken in an argument, whatever it says.
                assert_eq!(text.unwrap_err().detail, "command.arg_not_allowed", "{name}");
                continue;
            }
            let text = text.unwrap_or_else(|why| panic!("{tool}, {name}: {why:?}"));
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert!(!tells(&answer, "[REDACTED:"), "{tool}, {name}: {answer}");
            // What writes says only that it did. What no person sees leaves no tool, secret or not.
            let is_stripped = name == "tags";
            assert!(
                tool.ends_with(".write") || is_stripped || tells(&answer, form),
                "{tool}, {name}: {answer}"
            );
        }
        let made = [format!("ws/made-{n}"), format!("work/made-{n}")];
        for made in made.map(|made| std::fs::read(world.estate.path(&made)).unwrap()) {
            assert_eq!(made, form.as_bytes(), "{name}");
        }
    }
}

/// The index finds a call by the host of its binding, and no call of a tool that reaches none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_found_by_the_host_that_its_tool_reaches() {
    let world = World::knowing(vec![("plain".to_owned(), "a text".to_owned())]).await;
    for (tool, args) in answering(&world, 0) {
        world.call(tool, &args).await.unwrap_or_else(|why| panic!("{tool}: {why:?}"));
    }
    let tools = |query: &str| {
        let list = ["call", "list", "--config", "wicketgate.yaml", "--json", "--", query];
        let found: Value = serde_json::from_str(&world.estate.run(&list)).unwrap();
        let calls = found["calls"].as_array().unwrap().iter();
        let mut tools: Vec<String> =
            calls.map(|call| call["tool"].as_str().unwrap().to_owned()).collect();
        tools.sort();
        tools
    };
    assert_eq!(tools("host:127.0.0.1"), ["grpc", "http", "model"]);
    assert_eq!(tools("host:127.*"), ["grpc", "http", "model"]);
    assert_eq!(tools("-host:127.0.0.1"), ["file.read", "prints", "server.run", "sql"]);
}

/// Ends the gate; neither its books, nor what it said, nor what an auditor gets holds any form.
async fn kept_nowhere(world: World) {
    let said = world.call("http", &json!({"text": MARK})).await.unwrap();
    assert!(said.contains(MARK), "{said}");
    world.agent.seal().await.unwrap();
    let World { estate, gate, agent, .. } = world;
    let log = gate.said();
    gate.finish();
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", &agent.run];
    estate.run(&[&export[..], &["--out", "bundle-of-run", "--key", "evidence"]].concat());
    let kept = [
        ("the log", log.into_bytes()),
        ("the state", whole(&estate, "state")),
        ("the bundle", whole(&estate, "bundle-of-run")),
    ];
    for (name, form) in encodings::forms(SECRET) {
        // As bytes, and as a text of JSON has it.
        let quoted = json!(form).to_string();
        for part in [form.as_str(), quoted.trim_matches('"')] {
            for (place, bytes) in &kept {
                assert!(!holds(bytes, part), "{place} holds it: {name}: {}", around(bytes, part));
            }
        }
    }
    // What is there can be found.
    for (place, bytes) in &kept[1..] {
        assert!(holds(bytes, MARK), "{place} does not hold what was said");
    }
}

pub fn holds(all: &[u8], part: &str) -> bool {
    regex::bytes::Regex::new(&regex::escape(part)).unwrap().is_match(all)
}

/// What stands before a part.
pub fn around(all: &[u8], part: &str) -> String {
    let at = regex::bytes::Regex::new(&regex::escape(part)).unwrap().find(all).unwrap().start();
    String::from_utf8_lossy(&all[at.saturating_sub(300)..at]).into_owned()
}

/// All bytes of a directory.
pub fn whole(estate: &Estate, name: &str) -> Vec<u8> {
    fn below(dir: &Path, into: &mut Vec<u8>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, into);
            } else if path.is_file() {
                into.extend(std::fs::read(path).unwrap());
            }
        }
    }
    let mut bytes = Vec::new();
    below(&estate.path(name), &mut bytes);
    bytes
}
