//! `wicketgate serve mcp` between a client and a gate that is there already.

use serde_json::{Value, json};

use crate::folder::{Folder, Talk};
use crate::gate::{Gate, Seen};

/// A configuration of a gate that this test plays itself.
fn folder() -> (Folder, Gate) {
    let folder = Folder::new();
    folder.run(&["keygen", "--out", "k"]).ends(0);
    folder.write("agent.yaml", "not read by the bridge\n");
    folder.write(
        "wicketgate.yaml",
        "state: state\ntrust: {manifest_keys: [k.pub], lock_keys: [k.pub]}\n\
         agents: [{manifest: agent.yaml, callers: [{uid: 1}]}]\n\
         servers: [{name: git, stdio: {command: git}}, {name: db, stdio: {command: db}}]\n",
    );
    std::fs::create_dir(folder.path("state")).unwrap();
    let gate = Gate::listen(&folder.path("state/agent.sock"));
    (folder, gate)
}

fn posts<'a>(seen: &'a [Seen], method: &str) -> Vec<&'a Seen> {
    seen.iter().filter(|s| s.method == "POST" && s.body["method"] == method).collect()
}

fn terminate(talk: &Talk) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(talk.process()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_session_is_kept_used_and_ended() {
    let (folder, gate) = folder();
    let mut talk = folder.talk(&["mcp", "--server", "git"]);
    let hello = talk.handshake();
    assert_eq!(hello["result"]["serverInfo"]["name"], "pretended");
    talk.request(1, "tools/list", &json!({}));
    let list = talk.answer(1);
    assert_eq!(list["result"]["tools"][0]["name"], "query");
    assert_eq!(text(&talk.call(2, "echo", &json!({"a": 1}))), r#"{"a":1}"#);
    let ended = talk.end().ends(0);
    assert!(ended.err.is_empty(), "{}", ended.err);
    let seen =
        gate.until(|seen, _| seen.iter().any(|s| s.method == "DELETE").then(|| seen.to_vec()));
    assert!(seen.iter().all(|s| s.path == "/mcp/s/git"), "{seen:?}");
    let first = &posts(&seen, "initialize")[0].headers;
    assert!(!first.contains_key("mcp-session-id") && !first.contains_key("mcp-protocol-version"));
    assert_eq!(first["accept"], "application/json, text/event-stream");
    for later in seen.iter().filter(|s| s.body["method"] != "initialize") {
        assert_eq!(later.headers["mcp-session-id"], "s-1", "{later:?}");
        assert_eq!(later.headers["mcp-protocol-version"], "2025-06-18", "what was agreed on");
        assert!(!later.headers.contains_key("mcp-method"), "{later:?}");
    }
}

#[test]
fn what_the_gate_says_by_itself_reaches_the_client() {
    let (folder, _gate) = folder();
    let mut talk = folder.talk(&["mcp"]);
    talk.handshake();
    loop {
        if talk.hear()["method"] == "notifications/tools/list_changed" {
            break;
        }
    }
    talk.end().ends(0);
}

#[test]
fn answers_come_in_any_order_and_each_to_its_request() {
    let (folder, gate) = folder();
    let mut talk = folder.talk(&["mcp"]);
    talk.handshake();
    talk.request(1, "tools/call", &json!({"name": "slow", "arguments": {}}));
    gate.until(|seen, _| (posts(seen, "tools/call").len() == 1).then_some(()));
    for id in 2..40 {
        talk.request(id, "tools/call", &json!({"name": "echo", "arguments": {"n": id}}));
    }
    let mut waiting: Vec<i64> = (2..40).collect();
    while !waiting.is_empty() {
        let answer = talk.hear();
        let Some(id) = answer["id"].as_i64() else { continue };
        assert_eq!(text(&answer), format!("{{\"n\":{id}}}"));
        waiting.retain(|other| *other != id);
    }
    gate.release();
    assert_eq!(text(&talk.answer(1)), "slow");
    talk.end().ends(0);
}

#[test]
fn a_message_passes_byte_for_byte() {
    let (folder, _gate) = folder();
    let mut talk = folder.talk(&["mcp"]);
    talk.say_raw(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"exact"}}"#);
    let line = talk.line();
    assert_eq!(
        line,
        r#"{"jsonrpc":"2.0","id":5,"result":{ "z" : 1e400, "a":"\u00e9" ,"content":[]} }"#
    );
    talk.end().ends(0);
}

fn alone(extra: &Value) -> Value {
    let mut params = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}});
    params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    params
}

#[test]
fn a_request_without_a_session_carries_headers_that_mirror_its_body() {
    let (folder, gate) = folder();
    let mut talk = folder.talk(&["mcp", "--server", "db"]);
    let call = json!({"name": "query", "arguments": {"region": "Zürich"}});
    talk.request(1, "tools/call", &alone(&call));
    assert_eq!(text(&talk.answer(1)), r#"{"region":"Zürich"}"#);
    talk.request(2, "resources/read", &alone(&json!({"uri": "file:///a b"})));
    talk.answer(2);
    talk.end().ends(0);
    let seen = gate.seen();
    let called = posts(&seen, "tools/call")[0];
    let expected = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "query"),
        ("mcp-param-region", "=?base64?WsO8cmljaA==?="),
    ];
    for (name, value) in expected {
        assert_eq!(called.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    // The list was asked for by the bridge itself, and only once.
    assert_eq!(posts(&seen, "tools/list").len(), 1);
    assert_eq!(posts(&seen, "resources/read")[0].headers["mcp-name"], "file:///a b");
    let run = seen[0].path.strip_suffix("/s/db").unwrap();
    assert!(run.starts_with("/mcp/r/stdio-"), "{run}");
    assert!(seen.iter().all(|s| s.path == seen[0].path && s.method == "POST"), "{seen:?}");
}

#[test]
fn the_bridge_drops_a_cancelled_request_and_notifies_the_gate_only_in_a_session() {
    let (folder, gate) = folder();
    let mut talk = folder.talk(&["mcp", "--run", "night"]);
    talk.request(1, "tools/call", &alone(&json!({"name": "hang", "arguments": {}})));
    while talk.hear()["method"] != "notifications/progress" {}
    talk.notify("notifications/cancelled", &json!({"requestId": 1}));
    gate.until(|_, dropped| dropped.contains(&1).then_some(()));
    let told = |seen: &[Seen]| posts(seen, "notifications/cancelled").len();
    assert_eq!(told(&gate.seen()), 0);

    talk.handshake();
    talk.request(2, "tools/call", &json!({"name": "hang", "arguments": {}}));
    while talk.hear()["method"] != "notifications/progress" {}
    talk.notify("notifications/cancelled", &json!({"requestId": 2}));
    gate.until(|seen, dropped| (told(seen) == 1 && dropped.contains(&2)).then_some(()));
    let ended = talk.end().ends(0);
    assert!(!ended.out.contains("\"id\":2"), "{}", ended.out);
    assert!(gate.seen().iter().all(|s| s.path == "/mcp/r/night"));
}

#[test]
fn a_gate_that_forgot_the_session_gets_a_new_handshake_and_the_request_once() {
    let (folder, gate) = folder();
    let mut talk = folder.talk(&["mcp"]);
    talk.handshake();
    assert_eq!(text(&talk.call(1, "echo", &json!({}))), "{}");
    gate.forget();
    assert_eq!(text(&talk.call(2, "echo", &json!({"again": true}))), r#"{"again":true}"#);
    talk.end().ends(0);
    let seen = gate.seen();
    assert_eq!(posts(&seen, "initialize").len(), 2);
    assert_eq!(posts(&seen, "notifications/initialized").len(), 2);
    let last = posts(&seen, "tools/call").pop().unwrap().headers["mcp-session-id"].clone();
    assert_eq!(last, "s-2");
}

#[test]
fn what_goes_wrong_is_an_error_of_the_request_and_never_silence() {
    let (folder, _gate) = folder();
    let mut talk = folder.talk(&["mcp"]);
    let down = talk.call(1, "down", &json!({}));
    assert_eq!(down["error"]["data"]["code"], "ledger.unavailable");
    assert!(down["error"]["message"].as_str().unwrap().contains("the ledger does not answer"));
    let cut = talk.call(2, "cut", &json!({}));
    assert_eq!(cut["error"]["data"]["code"], "call.unknown");
    for (line, code) in [("nonsense", -32700), ("[]", -32600), (r#"{"id":9}"#, -32600)] {
        talk.say_raw(line);
        assert_eq!(talk.hear()["error"]["code"], code, "{line}");
    }
    talk.say_raw(&format!("\"{}\"", "x".repeat(5 << 20)));
    assert_eq!(talk.hear()["error"]["code"], -32600);
    talk.say_raw("");
    assert_eq!(text(&talk.call(3, "echo", &json!({}))), "{}");
    talk.end().ends(0);
}

#[test]
fn a_client_that_closes_its_input_still_gets_its_pending_answer() {
    let (folder, gate) = folder();
    let mut talk = folder.talk(&["mcp"]);
    talk.request(1, "tools/call", &json!({"name": "slow", "arguments": {}}));
    talk.hang_up();
    gate.until(|seen, _| (posts(seen, "tools/call").len() == 1).then_some(()));
    gate.release();
    assert_eq!(text(&talk.answer(1)), "slow");
    talk.end().ends(0);
}

#[test]
fn a_signal_ends_it_whatever_is_in_progress() {
    let (folder, gate) = folder();
    let mut talk: Talk = folder.talk(&["mcp"]);
    talk.request(1, "tools/call", &json!({"name": "hang", "arguments": {}}));
    gate.until(|seen, _| (posts(seen, "tools/call").len() == 1).then_some(()));
    terminate(&talk);
    gate.until(|_, dropped| dropped.contains(&1).then_some(()));
    talk.end().ends(0);
}

#[test]
fn a_gate_that_is_silent_keeps_it_from_no_signal() {
    for method in ["initialize", "notifications/initialized"] {
        let (folder, gate) = folder();
        let mut talk = folder.talk(&["mcp"]);
        gate.fall_silent();
        match method {
            "initialize" => talk.request(0, method, &json!({})),
            _ => talk.notify(method, &json!({})),
        }
        gate.until(|seen, _| (posts(seen, method).len() == 1).then_some(()));
        terminate(&talk);
        talk.end().ends(0);
    }
}

#[test]
fn a_client_that_asks_nothing_hears_of_changes_after_its_gate_was_replaced() {
    let (folder, gate) = folder();
    let mut talk = folder.talk(&["mcp"]);
    talk.handshake();
    let listened = |seen: &[Seen], session: &str| {
        let of = |s: &&Seen| {
            s.method == "GET" && s.headers.get("mcp-session-id").is_some_and(|id| id == session)
        };
        seen.iter().any(|s| of(&s)).then_some(())
    };
    gate.until(|seen, _| listened(seen, "s-1"));
    gate.forget();
    gate.until(|seen, _| listened(seen, "s-2"));
    let seen = gate.seen();
    assert_eq!(posts(&seen, "initialize").len(), 2);
    assert_eq!(posts(&seen, "notifications/initialized").len(), 2);
    talk.end().ends(0);
}

#[test]
fn without_a_usable_configuration_it_says_so_and_ends_with_78() {
    let folder = Folder::new();
    let ran = folder.run(&["mcp", "--config", "nowhere.yaml"]).ends(78).says("nowhere.yaml");
    assert!(ran.out.is_empty());
    folder.run(&["mcp", "--server", "A.b"]).ends(64).says("[a-z0-9_-]{1,32}");
    let (folder, _gate) = self::folder();
    folder.run(&["mcp", "--server", "other"]).ends(78).says("there is no server `other`");
    folder.run(&["mcp", "--run", "a/b"]).ends(64).says("[A-Za-z0-9_.-]{1,64}");
}
