//! One gate with an agent on TCP and one on a socket, and how a client asks it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::checker::{check, entries};
use crate::people::{People, RULES};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use crate::wire::{Place, Reply, Wire, request};

pub const TOKEN: &str = "token-of-agent-a-0123456789abcdef0123456789";

/// The running gate and everything around it.
pub struct Gate {
    pub tool: Tool,
    pub estate: Estate,
    pub sidecar: Sidecar,
    pub people: People,
    pub tcp: Place,
    pub host: String,
}

/// An open run: its token, as the header has it, and its id.
#[derive(Clone)]
pub struct Run {
    pub bearer: String,
    pub id: String,
}

/// What an honest agent claims.
pub fn claims() -> Value {
    json!({"model": "test-model", "instructions_sha256": ["ab".repeat(32)]})
}

/// A call of `work.do` with these arguments.
pub fn call(arguments: Value) -> Value {
    json!({"tool": "work.do", "arguments": arguments})
}

impl Gate {
    pub async fn start() -> Gate {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Value)) -> Gate {
        let (tool, people) = (Tool::start().await, People::new());
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.1", RULES, "policy");
        std::fs::write(estate.path("a.token"), TOKEN).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(estate.path("a.token"), mode).unwrap();
        estate.configure(|config| {
            config["listen"]["tcp"] = json!("127.0.0.1:0");
            let callers = config["agents"][0]["callers"].as_array_mut().unwrap();
            callers.push(json!({"token_file": "a.token"}));
            people.configure(config, true);
            change(config);
        });
        let sidecar = estate.serve().await;
        let host = sidecar.agents().to_string();
        Gate { tool, estate, sidecar, people, tcp: Place::Tcp(host.clone()), host }
    }

    pub fn socket(&self) -> Place {
        Place::Socket(self.estate.socket())
    }

    /// One request over TCP with these lines; its answer.
    pub async fn ask(&self, verb: &str, path: &str, lines: &[(&str, &str)], body: &str) -> Reply {
        let mut wire = self.begin(verb, path, lines, body).await;
        wire.reply().await.expect("an answer")
    }

    /// The connection on which one request was sent.
    pub async fn begin(&self, verb: &str, path: &str, lines: &[(&str, &str)], body: &str) -> Wire {
        let mut wire = Wire::open(&self.tcp).await;
        wire.send(&self.written(verb, path, lines, body)).await;
        wire
    }

    /// A request with a host and, if it has a body, a type, unless these lines have their own.
    pub fn written(&self, verb: &str, path: &str, lines: &[(&str, &str)], body: &str) -> Vec<u8> {
        let mut usual = vec![("Host", self.host.as_str())];
        if !body.is_empty() {
            usual.push(("Content-Type", "application/json"));
        }
        let own = |name: &str| lines.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        usual.retain(|(name, _)| !own(name));
        usual.extend(lines.iter().copied().filter(|(_, value)| *value != "-"));
        request(verb, path, &usual, body.as_bytes())
    }

    /// Opens a run over TCP.
    pub async fn open(&self) -> Run {
        let agent = format!("Bearer {TOKEN}");
        let lines = [("Authorization", agent.as_str())];
        let opened = self.ask("POST", "/gate/v1/runs", &lines, &claims().to_string()).await;
        assert_eq!(opened.status, 201, "{opened:?}");
        let opened = opened.json();
        let text = |name: &str| opened[name].as_str().unwrap().to_owned();
        Run { bearer: format!("Bearer {}", text("run_token")), id: text("run_id") }
    }

    /// One request of a run.
    pub async fn of(&self, run: &Run, verb: &str, path: &str, body: &str) -> Reply {
        self.ask(verb, path, &[("Authorization", &run.bearer)], body).await
    }

    /// Makes the call of this id.
    pub async fn put(&self, run: &Run, id: &str, call: &Value) -> Reply {
        self.of(run, "PUT", &format!("/gate/v1/calls/{id}"), &call.to_string()).await
    }

    /// The recorded answer of a call.
    pub async fn get(&self, run: &Run, id: &str) -> Reply {
        self.of(run, "GET", &format!("/gate/v1/calls/{id}"), "").await
    }

    /// Ada approves a held call.
    pub fn approve(&self, run: &Run, call: &str) {
        let url = self.sidecar.operator_url();
        let (code, said) = self.people.says("ada", "approve", &url, (&run.id, call));
        assert_eq!(code, Some(0), "{said}");
    }

    /// Every entry of this kind, read by code that is not ours.
    pub fn entries(&self, kind: &str) -> Vec<Value> {
        entries(&self.estate.database, kind)
    }

    /// Stops the gate and has its ledger checked by code that is not ours.
    pub async fn checked(mut self) -> Value {
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts)
    }
}

/// Status, code and finer code of a problem, which must be one in its whole form.
#[track_caller]
pub fn problem(reply: &Reply) -> (u16, String, String) {
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:?}");
    let body = reply.json();
    assert_eq!(body["status"], reply.status, "{body}");
    for name in ["type", "title", "detail", "retry"] {
        assert!(body[name].is_string(), "{name}: {body}");
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (reply.status, text("code"), text("cause"))
}

/// What [`problem`] gives.
pub fn is(status: u16, code: &str, cause: &str) -> (u16, String, String) {
    (status, code.to_owned(), cause.to_owned())
}
