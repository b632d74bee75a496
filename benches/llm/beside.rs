//! Tool calls of the same gate, over HTTP/JSON: what they wait while models answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use wicketgate_support::bench::load::{self, Seen};
use wicketgate_support::bench::tool;

use crate::Plan;
use crate::folder::TOKEN;

/// Callers at once, with a run each.
const CALLERS: usize = 4;
/// Bytes of the arguments.
const ARGUMENTS: usize = 256;

/// Callers of a tool.
pub struct ToolCallers(Vec<ToolCaller>);

#[derive(Clone)]
struct ToolCaller {
    client: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    bearer: String,
    calls: Arc<AtomicU64>,
}

impl ToolCaller {
    /// The body of the answer, which must have this status.
    async fn send(&mut self, verb: &str, path: &str, body: String, status: u16) -> Bytes {
        let request = Request::builder()
            .method(verb)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/json")
            .header("authorization", &self.bearer)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let answer = self.client.send_request(request).await.unwrap();
        let got = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(got, status, "{verb} {path}: {}", String::from_utf8_lossy(&body));
        body
    }
}

impl ToolCallers {
    /// Opens their runs.
    pub async fn open(address: SocketAddr) -> Self {
        let mut callers = Vec::new();
        for _ in 0..CALLERS {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (client, connection) =
                handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let bearer = format!("Bearer {TOKEN}");
            let mut caller = ToolCaller { client, address, bearer, calls: Arc::default() };
            let opened = caller.send("POST", "/gate/v1/runs", "{}".to_owned(), 201).await;
            let opened: Value = serde_json::from_slice(&opened).unwrap();
            caller.bearer = format!("Bearer {}", opened["run_token"].as_str().unwrap());
            callers.push(caller);
        }
        Self(callers)
    }

    /// Calls of the tool for the time of one measurement.
    pub async fn drive(&self, plan: &Plan) -> Seen {
        load::drive(self.0.clone(), plan.warm, plan.each, call).await
    }

    /// Ends their runs.
    pub async fn seal(self) {
        for mut caller in self.0 {
            caller.send("POST", "/gate/v1/run/seal", String::new(), 200).await;
        }
    }
}

async fn call(mut caller: ToolCaller, _: u64) -> ToolCaller {
    let arguments = String::from_utf8(tool::body(ARGUMENTS).to_vec()).unwrap();
    let number = caller.calls.fetch_add(1, Ordering::Relaxed);
    let body = format!(r#"{{"tool":"small","arguments":{arguments}}}"#);
    let path = format!("/gate/v1/calls/c-{number}");
    let answered = caller.send("PUT", &path, body, 200).await;
    let answered: Value = serde_json::from_slice(&answered).unwrap();
    assert_eq!(answered["result"]["body"]["text"].as_str().map(str::len), Some(245), "{answered}");
    caller
}
