//! One gate with two agents on TCP and one on a socket, and how a well-behaved client talks to it.

use std::os::unix::fs::PermissionsExt as _;

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::checker::check;
use crate::client::{Place, Reply, Wire, ask, request};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

pub const TOKEN: &str = "token-of-agent-a-0123456789abcdef0123456789";
pub const OTHER: &str = "token-of-agent-b-0123456789abcdef0123456789";
pub const VERSION: &str = "2026-07-28";
pub const BOTH: &str = "application/json, text/event-stream";

/// The running gate and everything around it.
pub struct Gate {
    pub tool: Tool,
    pub estate: Estate,
    pub sidecar: Sidecar,
    pub tcp: Place,
    pub host: String,
}

impl Gate {
    pub async fn start() -> Gate {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Value)) -> Gate {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        for (name, token) in [("a.token", TOKEN), ("b.token", OTHER)] {
            std::fs::write(estate.path(name), token).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(estate.path(name), mode).unwrap();
        }
        estate.configure(|config| {
            config["listen"]["tcp"] = json!("127.0.0.1:0");
            let callers = config["agents"][0]["callers"].as_array_mut().unwrap();
            callers.push(json!({"token_file": "a.token"}));
            callers.push(json!({"token_file": "b.token"}));
            change(config);
        });
        Self::again(tool, estate).await
    }

    /// Starts it on what is there.
    pub async fn again(tool: Tool, estate: Estate) -> Gate {
        let sidecar = estate.serve().await;
        let host = sidecar.agents().to_string();
        Gate { tool, estate, sidecar, tcp: Place::Tcp(host.clone()), host }
    }

    pub fn socket(&self) -> Place {
        Place::Socket(self.estate.socket())
    }

    /// Sends bytes on a connection of their own and reads one answer.
    pub async fn raw(&self, bytes: &[u8]) -> Option<Reply> {
        let mut wire = Wire::open(&self.tcp).await;
        wire.send(bytes).await;
        wire.reply().await
    }

    /// One POST of agent A with these lines beside the usual ones; a line of the same name replaces.
    pub async fn post(&self, path: &str, lines: &[(&str, &str)], body: &[u8]) -> Reply {
        self.raw(&self.posted(path, lines, body)).await.expect("an answer")
    }

    pub fn posted(&self, path: &str, lines: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        request("POST", path, &self.lines(lines), body)
    }

    /// The usual lines and these.
    pub fn lines<'a>(&'a self, lines: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let usual = [
            ("Host", self.host.as_str()),
            ("Authorization", "Bearer token-of-agent-a-0123456789abcdef0123456789"),
            ("Content-Type", "application/json"),
            ("Accept", BOTH),
        ];
        let replaced = |name: &str| lines.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let kept = usual.into_iter().filter(|(name, _)| !replaced(name));
        kept.chain(lines.iter().copied().filter(|(_, value)| *value != "-")).collect()
    }

    /// One request that stands alone, as the specification wants it.
    pub async fn alone(&self, method: &str, params: Value) -> Reply {
        self.alone_at("/mcp", method, params, &[]).await
    }

    pub async fn alone_at(
        &self,
        path: &str,
        method: &str,
        params: Value,
        lines: &[(&str, &str)],
    ) -> Reply {
        self.raw(&self.alone_bytes(path, method, params, lines)).await.expect("an answer")
    }

    pub fn alone_bytes(
        &self,
        path: &str,
        method: &str,
        params: Value,
        lines: &[(&str, &str)],
    ) -> Vec<u8> {
        let params = with_meta(params);
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or("-").to_owned();
        let usual =
            [("MCP-Protocol-Version", VERSION), ("Mcp-Method", method), ("Mcp-Name", &name)];
        let replaced = |name: &str| lines.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let mut all: Vec<_> = usual.into_iter().filter(|(name, _)| !replaced(name)).collect();
        all.extend_from_slice(lines);
        self.posted(path, &all, ask(1, method, params).to_string().as_bytes())
    }

    /// `tools/call` that stands alone.
    pub async fn call(&self, tool: &str, args: Value) -> Reply {
        self.alone("tools/call", json!({"name": tool, "arguments": args})).await
    }

    /// Begins a session.
    pub async fn session(&self) -> Session<'_> {
        self.session_at("/mcp", "2025-11-25").await
    }

    pub async fn session_at(&self, path: &str, version: &str) -> Session<'_> {
        let reply = self.post(path, &[], initialize(version).to_string().as_bytes()).await;
        let result = reply.result();
        assert_eq!(result["protocolVersion"], version, "{reply:?}");
        let id = reply.header("mcp-session-id").expect("a session").to_owned();
        let session = Session {
            gate: self,
            id,
            path: path.to_owned(),
            version: version.to_owned(),
            next: AtomicU64::new(7),
        };
        let noted = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.send(&noted, &[]).await.status, 202);
        session
    }

    /// Stops the gate and has its books checked by code that is not ours.
    pub async fn checked(mut self) -> Value {
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts)
    }
}

/// The parameters with what every request says about itself.
pub fn with_meta(mut params: Value) -> Value {
    let usual = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut meta = usual.as_object().unwrap().clone();
    if let Some(given) = params["_meta"].as_object() {
        meta.extend(given.clone());
    }
    params["_meta"] = meta.into();
    params
}

pub fn initialize(version: &str) -> Value {
    let client = json!({"name": "tests", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    ask(0, "initialize", params)
}

/// A session of agent A.
pub struct Session<'a> {
    pub gate: &'a Gate,
    pub id: String,
    pub path: String,
    pub version: String,
    /// The id of its next request: no client uses one twice.
    pub next: AtomicU64,
}

impl Session<'_> {
    pub async fn send(&self, message: &Value, lines: &[(&str, &str)]) -> Reply {
        let bytes = self.bytes(message, lines);
        self.gate.raw(&bytes).await.expect("an answer")
    }

    pub fn bytes(&self, message: &Value, lines: &[(&str, &str)]) -> Vec<u8> {
        let mut all = vec![("Mcp-Session-Id", self.id.as_str())];
        if self.version != "2025-03-26" {
            all.push(("MCP-Protocol-Version", &self.version));
        }
        all.extend_from_slice(lines);
        self.gate.posted(&self.path, &all, message.to_string().as_bytes())
    }

    pub async fn ask(&self, method: &str, params: Value) -> Reply {
        self.send(&ask(self.next.fetch_add(1, Ordering::SeqCst), method, params), &[]).await
    }

    pub async fn call(&self, tool: &str, args: Value) -> Reply {
        self.ask("tools/call", json!({"name": tool, "arguments": args})).await
    }
}
