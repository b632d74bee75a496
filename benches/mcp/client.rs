//! One caller: one connection that is kept, one call after the other.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::far::TEXT_BYTES;
use crate::folder::TOKEN;

/// How the protocol is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    /// 2026-07-28: every request for itself.
    Stateless,
    /// 2025-11-25: a handshake, then a session.
    Session,
}

impl Era {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stateless => "2026-07-28",
            Self::Session => "2025-11-25",
        }
    }
}

/// Where calls go.
pub struct Place {
    address: SocketAddr,
    path: &'static str,
    token: Option<&'static str>,
}

impl Place {
    /// The server itself, or the proxy before it.
    pub const fn plain(address: SocketAddr) -> Self {
        Self { address, path: "/mcp", token: None }
    }

    /// The gate's view of that server: the same names.
    pub const fn gate(address: SocketAddr) -> Self {
        Self { address, path: "/mcp/s/bench", token: Some(TOKEN) }
    }

    /// A caller that has done its handshake, if there is one.
    pub async fn connect(&self, era: Era, name: usize) -> Caller {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let io = TokioIo::new(stream);
        let (send, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut caller = Caller {
            send,
            era,
            name,
            host: self.address.to_string(),
            path: self.path,
            token: self.token,
            session: None,
        };
        if era == Era::Session {
            caller.handshake().await;
        }
        caller
    }
}

/// One caller.
pub struct Caller {
    send: SendRequest<Full<Bytes>>,
    era: Era,
    name: usize,
    host: String,
    path: &'static str,
    token: Option<&'static str>,
    session: Option<String>,
}

impl Caller {
    async fn handshake(&mut self) {
        let client = json!({"name": "bench", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let (status, session, body) = self.post("initialize", &hello).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        self.session = session;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let (status, ..) = self.post("notifications/initialized", &ready).await;
        assert_eq!(status, 202);
    }

    async fn post(&mut self, method: &str, message: &Value) -> (u16, Option<String>, Bytes) {
        let mut request = Request::post(self.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if method != "initialize" {
            request = request.header("mcp-protocol-version", self.era.name());
        }
        if self.era == Era::Stateless {
            request = request.header("mcp-method", method).header("mcp-name", "say");
        }
        let body = Full::new(Bytes::from(message.to_string()));
        self.send.ready().await.unwrap();
        let response = self.send.send_request(request.body(body).unwrap()).await.unwrap();
        let session = response.headers().get("mcp-session-id");
        let session = session.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, session, response.into_body().collect().await.unwrap().to_bytes())
    }
}

/// One call of the tool, answered as the tool answers.
pub async fn ask(mut caller: Caller, n: u64) -> Caller {
    let arguments = json!({"text": format!("{:->240}", caller.name)});
    let mut params = json!({"name": "say", "arguments": arguments});
    if caller.era == Era::Stateless {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}});
    }
    let call = json!({"jsonrpc": "2.0", "id": n + 1, "method": "tools/call", "params": params});
    let (status, _, body) = caller.post("tools/call", &call).await;
    let text = String::from_utf8_lossy(&body);
    assert!(status == 200 && text.contains(&"x".repeat(TEXT_BYTES)), "{status}: {text}");
    caller
}
