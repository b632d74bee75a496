//! Every client over real servers through the gate: what it sees is what it would see without, but for the denials.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{CLIENTS, Client, Facts, Way};
use crate::estate::{Estate, TOKEN, url};
use crate::home;

/// Reading is allowed; two ways of writing are granted and forbidden by a rule.
const RULES: &str = r#"package wicketgate.agent

import rego.v1

allow if startswith(input.tool.name, "files.")

allow if startswith(input.tool.name, "memory.")

allow if startswith(input.tool.name, "git.")

allow if startswith(input.tool.name, "time.")

allow if startswith(input.tool.name, "everything.")

deny contains "this agent writes no files" if input.tool.name in {"files.write_file", "files.edit_file"}
"#;
/// The line of the rule that denies.
const LINE: &str = "agent/main.rego:15";

/// A server as `.mcp.json` has it, as `servers[]` has it.
fn bound(server: &Value) -> Value {
    json!({"stdio": server, "tier": "T1"})
}

/// A folder with one file in it.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "what the file says\n").unwrap();
    dir
}

fn words(server: &Value) -> Vec<String> {
    let args = server["args"].as_array().unwrap();
    let all = std::iter::once(&server["command"]).chain(args);
    all.map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Canonical, so that a path is the same for the test and for a server that resolves links.
fn path(dir: &Path, name: &str) -> String {
    dir.canonicalize().unwrap().join(name).display().to_string()
}

/// Everything but what a client says of the connection itself.
fn same(direct: &Facts, governed: &Facts, at: usize, who: &str) {
    let plain = |facts: &Facts| {
        let mut call = facts.call(at).clone();
        // The receipt.
        if let Some(call) = call.as_object_mut() {
            call.remove("meta");
        }
        call
    };
    assert_eq!(plain(direct), plain(governed), "{who}: call {at}");
}

/// A denial: an error a model can act on, never an exception and never an unknown tool.
#[track_caller]
fn denied(facts: &Facts, at: usize, client: &Client, code: &str, parts: &[&str]) {
    let call = facts.call(at);
    let text = facts.text(at);
    assert!(text.contains(code), "{}: {call}", client.script);
    for part in parts {
        assert!(text.contains(part), "{}: `{part}` is not in {text}", client.script);
    }
    assert!(!text.to_lowercase().contains("unknown tool"), "{}: {text}", client.script);
    if client.shows_meta {
        assert_eq!(call["is_error"], true, "{}: {call}", client.script);
        let meta = call["meta"].to_string();
        assert!(meta.contains(code) && meta.contains("receipt"), "{}: {meta}", client.script);
    }
}

/// Everything one client is asked to do over the files server.
fn tasks(dir: &Path) -> Vec<(&'static str, Value)> {
    vec![
        ("read_text_file", json!({"path": path(dir, "a.txt")})),
        ("read_text_file", json!({"path": "/etc/passwd"})),
        ("write_file", json!({"path": path(dir, "b.txt"), "content": "no"})),
    ]
}

fn estate(dir: &Path) -> Estate {
    let allow: [(&str, &[&str]); 1] =
        [("files", &["read_text_file", "list_directory", "get_file_info", "write_file"])];
    Estate::new(&[("files", bound(&home::filesystem(dir)))], &allow, RULES)
}

/// What one client saw through the gate, beside what it saw of the same server directly.
#[track_caller]
fn compare(client: &Client, who: &str, direct: &Facts, governed: &Facts, dir: &Path) {
    let mut seen = governed.tools();
    seen.sort_unstable();
    assert_eq!(seen, ["get_file_info", "list_directory", "read_text_file", "write_file"], "{who}");
    assert!(seen.iter().all(|tool| direct.tools().contains(tool)), "{who}");
    // One that succeeds, and one that the server itself refuses.
    same(direct, governed, 0, who);
    same(direct, governed, 1, who);
    denied(governed, 2, client, "policy.denied", &["this agent writes no files", LINE]);
    assert!(!dir.join("b.txt").exists(), "{who}: it was written");
}

#[test]
fn every_client_sees_through_both_faces_what_it_sees_without_the_gate_but_for_the_denial() {
    let dir = folder();
    let (estate, dir) = (estate(dir.path()), dir.path());
    let gate = estate.serve();
    let url = url(&gate, Some("files"));
    let (http, stdio) = (Way::Http(&url, TOKEN), Way::Stdio(estate.bridge(Some("files"))));
    let server = Way::Stdio(words(&home::filesystem(dir)));
    for client in &CLIENTS {
        let direct = client.play(&server, client.eras[0], &tasks(dir)[..2]);
        for era in client.eras {
            let who = format!("{} {era} http", client.script);
            compare(client, &who, &direct, &client.play(&http, era, &tasks(dir)), dir);
        }
        let who = format!("{} stdio", client.script);
        let governed = client.play(&stdio, client.eras[0], &tasks(dir));
        compare(client, &who, &direct, &governed, dir);
    }
    gate.finish();
}

#[test]
fn the_newest_clients_speak_the_stateless_protocol_with_the_gate_and_the_older_ones_theirs() {
    let dir = folder();
    let estate = estate(dir.path());
    let gate = estate.serve();
    let url = url(&gate, Some("files"));
    for (script, era, version) in [
        ("sdk_python_2", "auto", "2026-07-28"),
        ("sdk_typescript_2", "auto", "2026-07-28"),
        ("sdk_python_2", "legacy", "2025-11-25"),
        ("sdk_typescript_2", "legacy", "2025-11-25"),
        ("sdk_python_1", "legacy", "2025-11-25"),
        ("sdk_typescript_1", "legacy", "2025-11-25"),
    ] {
        let client = CLIENTS.iter().find(|client| client.script == script).unwrap();
        let facts = client.play(&Way::Http(&url, TOKEN), era, &[]);
        assert_eq!(facts.0["protocol"], version, "{script} {era}");
    }
    gate.finish();
}

#[test]
fn a_tool_that_is_not_granted_is_not_listed_and_calling_it_is_a_denial_that_says_so() {
    let dir = folder();
    let estate = estate(dir.path());
    let gate = estate.serve();
    let url = url(&gate, Some("files"));
    let call = [("move_file", json!({"source": "/a", "destination": "/b"}))];
    for client in CLIENTS.iter().filter(|client| client.script.starts_with("sdk_")) {
        let facts = client.play(&Way::Http(&url, TOKEN), client.eras[0], &call);
        assert!(!facts.tools().contains(&"move_file".to_owned()), "{}", client.script);
        denied(&facts, 0, client, "tool.not_granted", &["files.move_file"]);
    }
    gate.finish();
}

/// A repository with one commit.
fn repository() -> tempfile::TempDir {
    let dir = folder();
    for args in [
        &["init", "-q"][..],
        &["add", "a.txt"],
        &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "the first"],
    ] {
        let mut command = Command::new("git");
        command.args(args).current_dir(dir.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let (ok, _, err) = crate::process::run(command);
        assert!(ok, "git {args:?}: {err}");
    }
    dir
}

#[test]
fn five_servers_of_others_work_side_by_side_under_qualified_names() {
    let (dir, repository) = (folder(), repository());
    let (dir, repository) = (dir.path(), path(repository.path(), ""));
    let servers = [
        ("everything", bound(&home::everything())),
        ("files", bound(&home::filesystem(dir))),
        ("git", bound(&home::git(Path::new(&repository)))),
        ("memory", bound(&home::memory(&dir.join("memory.jsonl")))),
        ("time", bound(&home::time())),
    ];
    let allow: [(&str, &[&str]); 5] = [
        ("everything", &["echo", "get-sum"]),
        ("files", &["read_text_file"]),
        ("git", &["git_log"]),
        ("memory", &["create_entities", "read_graph"]),
        ("time", &["convert_time"]),
    ];
    let estate = Estate::new(&servers, &allow, RULES);
    let gate = estate.serve();
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let url = url(&gate, None);
    for client in CLIENTS.iter().filter(|client| client.script.starts_with("sdk_")) {
        // The graph stays: each client puts its own name into it.
        let name = client.script;
        let entity = json!({"name": name, "entityType": "client", "observations": []});
        let calls = [
            ("everything.echo", json!({"message": "said back"}), "said back"),
            ("everything.get-sum", json!({"a": 2, "b": 40}), "42"),
            ("files.read_text_file", json!({"path": path(dir, "a.txt")}), "what the file says"),
            ("git.git_log", json!({"repo_path": repository}), "the first"),
            ("memory.create_entities", json!({"entities": [entity]}), name),
            ("memory.read_graph", json!({}), name),
            ("time.convert_time", noon.clone(), "21:00"),
        ];
        let plain: Vec<(&str, Value)> = calls.iter().map(|(n, a, _)| (*n, a.clone())).collect();
        let facts = client.play(&Way::Http(&url, TOKEN), client.eras[0], &plain);
        let mut seen = facts.tools();
        let order = seen.clone();
        seen.sort_unstable();
        let mut expected: Vec<&str> = calls.iter().map(|(name, ..)| *name).collect();
        expected.sort_unstable();
        assert_eq!(seen, expected, "{}", client.script);
        assert_eq!(seen, order, "{}: in an order that stays", client.script);
        for (at, (name, _, part)) in calls.iter().enumerate() {
            let text = facts.text(at);
            assert!(text.contains(part), "{}: {name}: {text}", client.script);
        }
    }
    gate.finish();
}
