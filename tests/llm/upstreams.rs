//! Several upstreams of one model: when the gate asks the next one, and what that costs.

use axum::http::Version;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, CHAT, MESSAGES};

/// What an upstream does with a request that it has read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    HangUp,
    Nothing,
}

/// An upstream that answers no request.
async fn dead_end(does: Does) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = Vec::new();
            // The body is the end of a request, and ends with a brace.
            while !request.ends_with(b"}") {
                let mut piece = [0; 4096];
                let read = socket.read(&mut piece).await.unwrap_or(0);
                if read == 0 {
                    break;
                }
                request.extend_from_slice(&piece[..read]);
            }
            if does == Does::Nothing {
                open.push(socket);
            }
        }
    });
    port
}

/// The model of a configuration.
fn model(config: &mut Value) -> &mut Value {
    let tools = config["tools"].as_array_mut().unwrap();
    let tool = tools.iter_mut().find(|tool| tool["name"] == "llm.main").unwrap();
    &mut tool["model"]
}

/// A gate that asks an upstream at this port first.
async fn behind(port: u16) -> Gate {
    let first = |config: &mut Value| {
        let model = model(config);
        model["head_timeout_ms"] = json!(2000);
        let upstreams = model["upstreams"].as_array_mut().unwrap();
        let mut first = upstreams[0].clone();
        first["name"] = json!("first");
        first["url"] = json!(format!("http://127.0.0.1:{port}/v1"));
        upstreams.insert(0, first);
    };
    Gate::start_with(first, |_| {}).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_after_the_request_was_sent_ends_the_call() {
    let gate = behind(dead_end(Does::HangUp).await).await;
    let chat = CHAT;
    for stream in [true, false] {
        let reply = gate.asks(chat, &chat.request("hi", stream)).await;
        assert_eq!(reply.status, 502, "{reply:?}");
        assert!(reply.body.contains("was lost"), "{reply:?}");
    }
    assert!(gate.provider.asked().is_empty(), "the next upstream would be a second bill");
    let failed = gate.entries("call.failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    for entry in &failed {
        let usage = &entry["data"]["observed"]["usage"];
        assert_eq!(usage["upstream"], "first", "{entry}");
        assert_eq!(usage["estimated"], true, "{entry}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_does_not_begin_is_left_and_what_it_may_bill_is_counted() {
    let gate = behind(dead_end(Does::Nothing).await).await;
    let chat = CHAT;
    gate.provider.answers(Answer::events(&chat.streamed("hello", &[])));
    let reply = gate.asks(chat, &chat.request("hi", true)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(chat.read(&reply.body), ("hello".to_owned(), Vec::new(), true));
    let completed = gate.entries("call.completed");
    let usage = &completed[0]["data"]["observed"]["usage"];
    assert_eq!((&usage["upstream"], &usage["estimated"]), (&json!("chat"), &json!(true)));
    // The answer has three tokens, and the upstream before may have written all that it was allowed.
    assert_eq!(usage["output_tokens"], 1003, "{usage}");
    assert!(usage["input_tokens"].as_u64().unwrap() > 12, "{usage}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_is_asked_over_the_version_of_http_that_its_binding_says() {
    let over_http2 = |config: &mut Value| {
        for upstream in model(config)["upstreams"].as_array_mut().unwrap() {
            upstream["http2"] = json!(upstream["api"] != MESSAGES.api());
        }
    };
    let gate = Gate::start_with(over_http2, |_| {}).await;
    for dialect in ALL {
        gate.provider.answers(Answer::of_dialect(dialect, &dialect.streamed("hello", &[])));
        let reply = gate.asks(dialect, &dialect.request("hi", true)).await;
        assert_eq!(dialect.read(&reply.body), ("hello".to_owned(), Vec::new(), true), "{reply:?}");
        let asked = gate.provider.last();
        let is_http2 = dialect != MESSAGES;
        let version = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        assert_eq!(asked.version, version, "{}", dialect.name);
    }
    gate.checked().await;
}
