//! The same face over HTTP/2, beside gRPC on the same port.

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use crate::checker::calls;
use crate::client::ask;
use crate::gate::{BOTH, Gate, TOKEN, VERSION, with_meta};

type Client = SendRequest<Full<Bytes>>;

async fn connect(gate: &Gate) -> Client {
    connect_as(gate, &Builder::new(TokioExecutor::new())).await
}

async fn connect_as(gate: &Gate, manner: &Builder<TokioExecutor>) -> Client {
    let stream = tokio::net::TcpStream::connect(&gate.host).await.unwrap();
    let (client, connection) = manner.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}

fn post(gate: &Gate, params: Value) -> http::Request<Full<Bytes>> {
    let mut request = posted(gate, "tools/call", params);
    request.headers_mut().insert("mcp-name", http::HeaderValue::from_static("work.do"));
    request
}

fn posted(gate: &Gate, method: &str, params: Value) -> http::Request<Full<Bytes>> {
    let body = ask(1, method, with_meta(params)).to_string();
    http::Request::post(format!("http://{}/mcp", gate.host))
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .header("accept", BOTH)
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", method)
        .body(Full::new(Bytes::from(body)))
        .unwrap()
}

fn call() -> Value {
    json!({"name": "work.do", "arguments": {"n": 1}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_protocols_and_both_faces_live_on_one_port() {
    let gate = Gate::start().await;
    let mut client = connect(&gate).await;
    let answer = client.send_request(post(&gate, call())).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["result"]["structuredContent"]["body"]["done"], true, "{body}");
    for (path, kind, status) in [
        ("/readyz", "application/json", 404),
        ("/wicketgate.v1.Gate/OpenRun", "application/json", 404),
        ("/mcp/../metrics", "application/json", 404),
        ("/wicketgate.v1.Gate/OpenRun", "application/grpc", 200),
    ] {
        let request = http::Request::post(format!("http://{}{path}", gate.host))
            .header("content-type", kind)
            .body(Full::new(Bytes::new()))
            .unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.status(), status, "{path} {kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_http2_request_cancels_its_call() {
    let gate = Gate::start().await;
    gate.tool.hold();
    let mut client = connect(&gate).await;
    let left = tokio::spawn(client.send_request(post(&gate, call())));
    gate.tool.entered(1).await;
    left.abort();
    gate.tool.inside(0).await;
    gate.tool.release();
    assert_eq!(gate.tool.count(), 1);
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 0, "{summary}");
}

/// Requests of one connection at the same time; four such connections have all places of the gate.
const STREAMS: usize = 256;

/// A client that asks as much as it may and opens no window for any answer.
async fn hoard(gate: &Gate) -> Vec<http::Response<Incoming>> {
    let mut manner = Builder::new(TokioExecutor::new());
    manner.initial_stream_window_size(0);
    let client = connect_as(gate, &manner).await;
    let asked = (0..STREAMS).map(|_| {
        let mut client = client.clone();
        async move {
            client.ready().await.ok()?;
            client.send_request(posted(gate, "server/discover", json!({}))).await.ok()
        }
    });
    let answers = futures_util::future::join_all(asked).await;
    answers.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_taken_keep_their_places_until_they_are_given_up() {
    let gate = Gate::start().await;
    let mut hostile = Vec::new();
    // More than four, if the first were hung up on before the last came.
    for _ in 0..16 {
        hostile.push(hoard(&gate).await);
        if hostile.len() >= 4 && gate.call("work.do", json!({"n": 1})).await.status == 503 {
            break;
        }
    }
    let refused = gate.call("work.do", json!({"n": 1})).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["data"]["code"].as_str()),
        (503, Some("overloaded"))
    );
    drop(hostile);
    while gate.call("work.do", json!({"n": 2})).await.status == 503 {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_resets_without_end_harms_only_itself() {
    let gate = Gate::start().await;
    let mut hostile = connect(&gate).await;
    for _ in 0..5_000 {
        if hostile.ready().await.is_err() {
            break;
        }
        let left = tokio::spawn(hostile.send_request(post(&gate, json!({"name": "work.do"}))));
        tokio::task::yield_now().await;
        left.abort();
    }
    let called = gate.call("work.do", json!({"n": 1})).await.result();
    assert_eq!(called["structuredContent"]["body"]["done"], true);
    let summary = gate.checked().await;
    assert!(calls(&summary, "completed") >= 1, "{summary}");
}
