//! The same governed calls over HTTP/JSON, on as many connections of HTTP/2 to the same socket.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use wicketgate_support::bench::load::{self, Seen};
use wicketgate_support::bench::tool;

use crate::Plan;
use crate::calls::{CONNECTIONS, Size};

type Client = SendRequest<Full<Bytes>>;

/// One caller: its connection, its run, its tool and arguments.
#[derive(Clone)]
struct HttpCaller {
    client: Client,
    bearer: String,
    tool: &'static str,
    arguments: String,
    name: usize,
    failed: Arc<AtomicU64>,
}

async fn unix(path: &Path) -> Client {
    let stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}

impl HttpCaller {
    /// Status and body of the answer to one request.
    async fn send(&mut self, verb: &str, path: &str, body: String) -> (u16, Bytes) {
        let mut request = http::Request::builder()
            .method(verb)
            .uri(format!("http://localhost{path}"))
            .header(CONTENT_TYPE, "application/json");
        if !self.bearer.is_empty() {
            request = request.header(AUTHORIZATION, &self.bearer);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = self.client.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.into_body().collect().await.unwrap().to_bytes())
    }
}

async fn ask(mut caller: HttpCaller, n: u64) -> HttpCaller {
    let body = format!(r#"{{"tool":"{}","arguments":{}}}"#, caller.tool, caller.arguments);
    let path = format!("/gate/v1/calls/c{}-{n}", caller.name);
    let (status, body) = caller.send("PUT", &path, body).await;
    if status != 200 && caller.failed.fetch_add(1, Ordering::Relaxed) == 0 {
        eprintln!("a call failed: {status}: {}", String::from_utf8_lossy(&body));
    }
    caller
}

/// Governed calls of this size, by so many callers with a run each.
pub async fn governed(plan: &Plan, socket: &Path, many: usize, (tool, bytes, _): Size) -> Seen {
    let mut clients = Vec::new();
    for _ in 0..many.min(CONNECTIONS) {
        clients.push(unix(socket).await);
    }
    let arguments = String::from_utf8(tool::body(bytes).to_vec()).unwrap();
    let failed = Arc::<AtomicU64>::default();
    let mut callers = Vec::new();
    for name in 0..many {
        let mut caller = HttpCaller {
            client: clients[name % clients.len()].clone(),
            bearer: String::new(),
            tool,
            arguments: arguments.clone(),
            name,
            failed: Arc::clone(&failed),
        };
        let claims = r#"{"model":"gpt-5-mini"}"#.to_owned();
        let (status, opened) = caller.send("POST", "/gate/v1/runs", claims).await;
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&opened));
        let opened: Value = serde_json::from_slice(&opened).unwrap();
        caller.bearer = format!("Bearer {}", opened["run_token"].as_str().unwrap());
        callers.push(caller);
    }
    let mut seen = load::drive(callers.clone(), plan.warm, plan.each, ask).await;
    seen.failed = failed.load(Ordering::Relaxed);
    for mut caller in callers {
        let (status, _) = caller.send("POST", "/gate/v1/run/seal", String::new()).await;
        assert_eq!(status, 200, "a run is sealed");
    }
    seen
}
