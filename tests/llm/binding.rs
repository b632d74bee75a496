//! What the gate sees of the model behind a call.

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, CHAT, MESSAGES};

/// A gate whose `work.do` only two approvers and an observed model can release.
async fn grave() -> Gate {
    Gate::start_with(
        |config| {
            for tool in config["tools"].as_array_mut().unwrap() {
                if tool["name"] == "work.do" {
                    tool["tier"] = json!("T3");
                }
            }
        },
        |spec| {
            spec["binding"] = json!({"minimum": "unclaimed", "tier3": "observed"});
            for tool in spec["tools"].as_array_mut().unwrap() {
                if tool["name"] == "work.do" {
                    tool["tier"] = json!("T3");
                }
            }
        },
    )
    .await
}

/// A call of `work.do` over MCP in the named run.
pub async fn called(gate: &Gate, arguments: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work.do",
        "arguments": arguments, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}});
    let lines = [
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "work.do"),
    ];
    gate.ask("POST", "/mcp/r/job", &lines, &body.to_string()).await.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grave_tool_runs_because_the_gate_saw_the_model_ask_for_exactly_that() {
    let gate = grave().await;
    let messages = MESSAGES;
    // Without the model the same call is denied.
    let denied = called(&gate, json!({"n": 7})).await;
    let text = denied["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("tier3_binding"), "{denied}");

    let stream = messages.streamed("I will", &[("toolu_1", "work_do", r#"{"n": 7}"#)]);
    gate.provider.answers(Answer::events(&stream));
    let body = messages.offering("do it", true, &["work_do"]).to_string();
    let reply = gate.ask("POST", "/r/job/v1/messages", &[], &body).await;
    let (_, calls, ended) = messages.read(&reply.body);
    assert_eq!((calls, ended), (vec![("work_do".to_owned(), json!({"n": 7}))], true), "{reply:?}");

    // Other arguments were not asked for.
    let other = called(&gate, json!({"n": 8})).await;
    assert!(other.to_string().contains("tier3_binding"), "{other}");

    let held = called(&gate, json!({"n": 7})).await;
    assert!(held.to_string().contains("call.held"), "{held}");
    let entry = &gate.entries("call.held")[0];
    assert_eq!(entry["data"]["binding"], "observed", "{entry}");
    let model_call = gate.entries("call.authorized")[0]["call"].clone();
    assert_eq!(entry["data"]["proposed_by"], model_call);
    let (run, call) = (entry["run"].as_str().unwrap(), entry["call"].as_str().unwrap());
    let url = gate.sidecar.operator_url();
    for who in ["ada", "grace"] {
        let (code, said) = gate.people.says(who, "approve", &url, (run, call));
        assert_eq!(code, Some(0), "{said}");
    }
    // The answer of the same call is now the tool's.
    let done = called(&gate, json!({"n": 7})).await;
    assert_eq!(done["result"]["isError"], Value::Null, "{done}");
    assert_eq!(gate.tool.count(), 1);
    // What was asked for once runs once.
    let again = called(&gate, json!({"n": 7})).await;
    assert!(again.to_string().contains("tier3_binding"), "{again}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_instructions_or_another_model_are_refused_and_end_what_was_seen() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let (path, body) = dialect.placed(&dialect.request("hi", true));
        let body = body.replace("assistant of a test", "assistant of nobody");
        let reply = gate.ask("POST", &path, &[], &body).await;
        assert_eq!(reply.status, 403, "{reply:?}");
        assert!(reply.body.contains("manifest.instructions"), "{reply:?}");
        let mut body = dialect.request("hi", true);
        body["model"] = json!("Small");
        let reply = gate.asks(dialect, &body).await;
        assert_eq!(reply.status, 403, "{reply:?}");
    }
    assert!(gate.provider.asked().is_empty());
    assert_eq!(gate.entries("call.denied").len(), 2 * ALL.len());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_denied_request_within_seconds_is_one_entry() {
    let gate = Gate::start().await;
    let chat = CHAT;
    let body = chat.request("hi", true).to_string().replace("of a test", "of nobody");
    let mut receipts = std::collections::BTreeSet::new();
    for _ in 0..6 {
        let reply = gate.ask("POST", chat.path, &[], &body).await;
        assert_eq!(reply.status, 403);
        receipts.insert(reply.header("wicketgate-receipt").unwrap().to_owned());
    }
    assert_eq!(receipts.len(), 1);
    assert_eq!(gate.entries("call.denied").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_a_model_that_the_manifest_does_not_expect_fails_the_next_request() {
    let gate = Gate::start_with(
        |_| {},
        |spec| spec["model"]["responded"] = json!(["small-2025*", "large"]),
    )
    .await;
    let chat = CHAT;
    gate.provider.answers(Answer::json(200, &chat.whole("hello", &[])));
    assert_eq!(gate.asks(chat, &chat.request("hi", false)).await.status, 200);
    let refused = gate.asks(chat, &chat.request("hi again", false)).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("manifest.responded"), "{refused:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_for_a_recorded_answer_again_does_not_use_up_that_refusal() {
    let gate = Gate::start_with(
        |_| {},
        |spec| spec["model"]["responded"] = json!(["small-2025*", "large"]),
    )
    .await;
    let chat = CHAT;
    gate.provider.answers(Answer::json(200, &chat.whole("hello", &[])));
    let body = chat.request("hi", false).to_string();
    for _ in 0..2 {
        let reply = gate.ask("POST", chat.path, &[("Idempotency-Key", "one")], &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert_eq!(gate.provider.asked().len(), 1);
    let refused = gate.asks(chat, &chat.request("hi again", false)).await;
    assert!(refused.body.contains("manifest.responded"), "{refused:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_fails_the_next_request_after_a_restart_too_and_only_that() {
    let mut gate = Gate::start_with(
        |_| {},
        |spec| spec["model"]["responded"] = json!(["small-2025*", "large"]),
    )
    .await;
    let chat = CHAT;
    gate.provider.answers(Answer::json(200, &chat.whole("hello", &[])));
    assert_eq!(gate.asks(chat, &chat.request("hi", false)).await.status, 200);
    gate.killed().await;
    let refused = gate.asks(chat, &chat.request("hi again", false)).await;
    assert!(refused.body.contains("manifest.responded"), "{refused:?}");
    gate.killed().await;
    gate.provider.answers(Answer::json(200, &chat.whole("hello", &[])));
    assert_eq!(gate.asks(chat, &chat.request("and again", false)).await.status, 200);
    gate.checked().await;
}
