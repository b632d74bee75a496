//! A pretended gate: an MCP server over HTTP on a Unix socket that notes all it is sent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

#[derive(Default)]
struct Facts {
    seen: Mutex<Vec<Seen>>,
    news: Notify,
    release: Notify,
    dropped: Mutex<Vec<i64>>,
    /// The session it knows.
    known: Mutex<Option<String>>,
    silent: Mutex<bool>,
}

impl Facts {
    /// Whether a request names a session that is not the one it knows.
    fn forgot(&self, seen: &Seen) -> bool {
        let named = seen.headers.get("mcp-session-id");
        named.is_some() && named != self.known.lock().as_ref()
    }
}

pub struct Gate {
    facts: Arc<Facts>,
    runtime: tokio::runtime::Runtime,
}

impl Gate {
    pub fn listen(socket: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let facts = Arc::new(Facts::default());
        let app = Router::new().fallback(answer).with_state(Arc::clone(&facts));
        let listener = runtime.block_on(async { tokio::net::UnixListener::bind(socket).unwrap() });
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self { facts, runtime }
    }

    /// Lets every call of `slow` go on.
    pub fn release(&self) {
        self.facts.release.notify_one();
    }

    /// Makes the session unknown, as after a restart.
    pub fn forget(&self) {
        *self.facts.known.lock() = None;
    }

    /// Answers nothing any more.
    pub fn fall_silent(&self) {
        *self.facts.silent.lock() = true;
    }

    /// Waits until this is true of what was seen.
    pub fn until<T>(&self, found: impl Fn(&[Seen], &[i64]) -> Option<T>) -> T {
        self.runtime.block_on(async {
            let waiting = async {
                loop {
                    let news = self.facts.news.notified();
                    let now = {
                        let seen = self.facts.seen.lock();
                        found(&seen, &self.facts.dropped.lock())
                    };
                    if let Some(now) = now {
                        return now;
                    }
                    news.await;
                }
            };
            tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await.unwrap()
        })
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.facts.seen.lock().clone()
    }
}

/// Notes that the stream of a request was dropped before its end.
struct Held(Arc<Facts>, i64);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dropped.lock().push(self.1);
        self.0.news.notify_one();
    }
}

async fn answer(
    State(facts): State<Arc<Facts>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if uri.path().starts_with("/grpc.") {
        // Whether it is healthy this gate does not say.
        return StatusCode::NOT_FOUND.into_response();
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let text = |(n, v): (&http::HeaderName, &http::HeaderValue)| {
        (n.to_string(), v.to_str().unwrap().to_owned())
    };
    let headers: BTreeMap<_, _> = headers.iter().map(text).collect();
    let seen = Seen { method: method.to_string(), path: uri.to_string(), headers, body };
    facts.seen.lock().push(seen.clone());
    facts.news.notify_one();
    let silent = *facts.silent.lock();
    if silent {
        std::future::pending::<()>().await;
    }
    match method {
        Method::GET if facts.forgot(&seen) => StatusCode::NOT_FOUND.into_response(),
        Method::GET => events(
            vec![json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})],
            None,
        ),
        Method::POST => posted(&facts, seen).await,
        _ => StatusCode::OK.into_response(),
    }
}

async fn posted(facts: &Arc<Facts>, seen: Seen) -> Response {
    let Some(id) = seen.body.get("id").and_then(Value::as_i64) else {
        if seen.body.get("id").is_none() {
            return StatusCode::ACCEPTED.into_response();
        }
        return plain(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": listed()}));
    };
    let result = |value: Value| json!({"jsonrpc": "2.0", "id": id, "result": value});
    let method = seen.body["method"].as_str().unwrap_or_default().to_owned();
    if method == "initialize" {
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "pretended", "version": "1"}});
        let mut response = plain(&result(hello));
        let count = facts.seen.lock().iter().filter(|s| s.body["method"] == "initialize").count();
        let session = format!("s-{count}");
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        *facts.known.lock() = Some(session);
        return response;
    }
    if facts.forgot(&seen) {
        return StatusCode::NOT_FOUND.into_response();
    }
    match (method.as_str(), seen.body["params"]["name"].as_str().unwrap_or_default()) {
        ("tools/list", _) => {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
            events(vec![note, result(listed())], None)
        }
        ("tools/call", "slow") => {
            facts.release.notified().await;
            plain(&result(json!({"content": [{"type": "text", "text": "slow"}]})))
        }
        ("tools/call", "hang") => {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}});
            events(vec![note], Some(Held(Arc::clone(facts), id)))
        }
        ("tools/call", "cut") => events(
            vec![
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}),
            ],
            None,
        ),
        ("tools/call", "down") => {
            let problem =
                json!({"code": "ledger.unavailable", "title": "the ledger does not answer"});
            (
                StatusCode::SERVICE_UNAVAILABLE,
                [("content-type", "application/problem+json")],
                problem.to_string(),
            )
                .into_response()
        }
        ("tools/call", "exact") => {
            let text = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{ \"z\" : 1e400, \"a\":\"\\u00e9\" ,\"content\":[]}} }}"
            );
            ([("content-type", "application/json")], text).into_response()
        }
        _ => plain(&result(
            json!({"content": [{"type": "text", "text": seen.body["params"]["arguments"].to_string()}]}),
        )),
    }
}

fn listed() -> Value {
    json!({"tools": [{"name": "query", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}}}}]})
}

fn plain(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

/// A stream of these events, its JSON spread over lines; it stays open as long as `held` is there.
fn events(messages: Vec<Value>, held: Option<Held>) -> Response {
    let mut text = "id: 1\ndata: \n\n: a comment\n\n".to_owned();
    for message in messages {
        text.push_str("event: message\n");
        for line in serde_json::to_string_pretty(&message).unwrap().lines() {
            text.push_str(&format!("data: {line}\n"));
        }
        text.push('\n');
    }
    let first = futures_util::stream::iter([Ok::<_, Infallible>(Bytes::from(text))]);
    let kind = [("content-type", "text/event-stream")];
    match held {
        None => (kind, Body::from_stream(first)).into_response(),
        Some(held) => {
            let rest = futures_util::stream::once(async move {
                std::future::pending::<()>().await;
                drop(held);
                Ok(Bytes::new())
            });
            use futures_util::StreamExt as _;
            (kind, Body::from_stream(first.chain(rest))).into_response()
        }
    }
}
