//! The far side, each in a process of its own: an MCP server that answers at once, and a reverse proxy that does nothing
//! but forward.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use wicketgate_support::bench::gate::FarSide;

/// The text every call answers: 256 bytes of result.
pub const TEXT_BYTES: usize = 200;

/// The MCP server.
pub fn upstream() -> FarSide {
    FarSide::start(&["upstream"])
}

/// The reverse proxy in front of it.
pub fn proxy(upstream: SocketAddr) -> FarSide {
    FarSide::start(&["proxy", &upstream.to_string()])
}
/// This program as the proxy to `upstream`, or as the MCP server, until its standard input ends.
pub fn serve(upstream: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let upstream = upstream.map(str::to_owned);
        tokio::select! {
            () = accept(listener, upstream) => {}
            _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())) => {}
        }
    });
    runtime.shutdown_background();
}

async fn accept(listener: TcpListener, upstream: Option<String>) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        let io = TokioIo::new(stream);
        let http = hyper::server::conn::http1::Builder::new();
        match upstream.clone() {
            None => {
                tokio::spawn(http.serve_connection(io, service_fn(answer)));
            }
            Some(upstream) => {
                let client = client.clone();
                let forward = service_fn(move |mut request: Request<Incoming>| {
                    let path = request.uri().path().to_owned();
                    let uri: Uri = format!("http://{upstream}{path}").parse().unwrap();
                    *request.uri_mut() = uri;
                    client.request(request)
                });
                tokio::spawn(http.serve_connection(io, forward));
            }
        }
    }
}

/// Both eras of the protocol, as far as a client and the gate need it.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let plain = |status: u16, body: String| {
        let response =
            Response::builder().status(status).header("content-type", "application/json");
        Ok(response.header("mcp-session-id", "bench").body(Full::new(body.into())).unwrap())
    };
    if request.method() != hyper::Method::POST {
        return plain(405, String::new());
    }
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let Ok(message) = serde_json::from_slice::<Value>(&body.unwrap_or_default()) else {
        return plain(400, String::new());
    };
    let Some(id) = message.get("id") else { return plain(202, String::new()) };
    let answered = result(&message);
    let error = json!({"code": -32601, "message": "method not found"});
    match answered {
        Some(result) => {
            plain(200, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
        }
        None => plain(404, json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()),
    }
}

fn result(message: &Value) -> Option<Value> {
    let schema = json!({"type": "object", "required": ["text"],
        "properties": {"text": {"type": "string", "maxLength": 8192}}});
    let server = json!({"name": "bench", "version": "1"});
    let capabilities = json!({"tools": {}});
    match message["method"].as_str()? {
        "initialize" => Some(json!({"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": capabilities, "serverInfo": server})),
        "server/discover" => {
            Some(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": server}}))
        }
        "tools/list" => Some(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "say", "description": "answers", "inputSchema": schema}]})),
        "tools/call" => Some(json!({"resultType": "complete",
            "content": [{"type": "text", "text": "x".repeat(TEXT_BYTES)}]})),
        "ping" => Some(json!({})),
        _ => None,
    }
}
