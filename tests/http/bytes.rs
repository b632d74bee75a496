//! Arguments reach a tool as the bytes of the body: members in their order, numbers as they were written.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::json;

use crate::gate::Gate;

type Bodies = Arc<Mutex<Vec<String>>>;

const ANSWER: &str = r#"{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",
    "message":{"role":"assistant","content":"{}"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

/// A model that answers the same to everything; what it was sent.
async fn model() -> (u16, Bodies) {
    let bodies = Bodies::default();
    let answer = |State(bodies): State<Bodies>, body: String| async move {
        bodies.lock().push(body);
        ([(CONTENT_TYPE, "application/json")], ANSWER)
    };
    let routes =
        Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(&bodies));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (port, bodies)
}

/// Members in no order of the alphabet, and spellings that canonical JSON has not.
const SCHEMA: &str = r#"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"maximum":1.0,"minimum":1,"type":"number"},"also":{"\u0074ype":"string"}},"required":["reasoning","answer","also"],"additionalProperties":false}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_and_spelling_of_arguments_reach_the_tool_and_the_ledger_commits_to_those_bytes() {
    let (port, bodies) = model().await;
    let gate = Gate::start_with(|config| {
        config["tools"][0] = json!({"name": "work.do", "description": "asks a model", "kind": "model",
            "tier": "T1", "model": {"output_tokens_max": 200, "upstreams": [{"name": "main",
                "api": "openai", "url": format!("http://127.0.0.1:{port}/v1"),
                "models": {"small": "m"}, "private_addresses": ["127.0.0.0/8"]}]}});
    })
    .await;
    let run = gate.open().await;
    let format = format!(r#""json_schema":{{"strict":true,"name":"n","schema":{SCHEMA}}}"#);
    let arguments = format!(
        r#"{{ "response_format": {{"type":"json_schema",{format}}}, "model": "small", "messages": [{{"role":"user","content":"x"}}] , "max_output_tokens":100}}"#
    );
    let body = format!(r#"{{"arguments":  {arguments} , "tool": "work.do"}}"#);
    let made = gate.of(&run, "PUT", "/gate/v1/calls/a", &body).await;
    assert_eq!(made.status, 200, "{made:?}");
    let sent = bodies.lock().pop().unwrap();
    assert!(sent.contains(&format), "{sent}");
    let entry = gate.entries("call.authorized").pop().unwrap();
    let raw = entry["commit"].as_array().unwrap().iter().find(|one| one["role"] == "raw").unwrap();
    assert_eq!(raw["len"], arguments.len());
}
