//! One gate with a model behind it, and an agent that knows its token only.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::checker::{Database, check_ledger, entries};
use crate::people::People;
use crate::program::python;
use crate::provider::Provider;
use crate::ran::Ran;
use crate::said::{ALL, Dialect};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use crate::wire::{Place, Reply, Wire, request};

pub const TOKEN: &str = "token-of-agent-a-0123456789abcdef0123456789";
pub const KEY: &str = "sk-provider-0123456789abcdefghij";
/// What the manifest pins.
pub const INSTRUCTIONS: &str = "You are the assistant of a test.";

pub const RULES: &str = r#"package wicketgate.agent
import rego.v1
allow if startswith(input.tool.name, "work.")
allow if input.tool.kind == "model"
allow if input.tool.kind == "client"
deny contains {"code": "shell", "message": "no removal"} if contains(input.args.command, "rm ")
require_approval contains {"code": "two", "message": "two people", "approvers": 2} if input.tool.tier == "T3"
require_approval contains {"code": "one", "message": "one person"} if input.args.command == "wait"
"#;

/// The running gate and everything around it.
pub struct Gate {
    pub tool: Tool,
    pub estate: Estate,
    pub sidecar: Sidecar,
    pub people: People,
    pub provider: Provider,
    host: String,
}

impl Gate {
    pub async fn start() -> Gate {
        Self::start_with(|_| {}, |_| {}).await
    }

    /// With these rules beside the usual ones.
    pub async fn start_under(rules: &str) -> Gate {
        Self::start_all(&format!("{RULES}{rules}"), |_| {}, |_| {}).await
    }

    pub async fn start_with(
        configure: impl FnOnce(&mut Value),
        sign: impl FnOnce(&mut Value),
    ) -> Gate {
        Self::start_all(RULES, configure, sign).await
    }

    async fn start_all(
        rules: &str,
        configure: impl FnOnce(&mut Value),
        sign: impl FnOnce(&mut Value),
    ) -> Gate {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        Self::start_on((tool, estate), rules, configure, sign).await
    }

    /// The same on an estate of its own kind.
    pub async fn start_on(
        (tool, estate): (Tool, Estate),
        rules: &str,
        configure: impl FnOnce(&mut Value),
        sign: impl FnOnce(&mut Value),
    ) -> Gate {
        let (people, provider) = (People::new(), Provider::start().await);
        estate.bundle("1.0.1", rules, "policy");
        for (name, text) in [("a.token", TOKEN), ("provider.key", KEY)] {
            std::fs::write(estate.path(name), text).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(estate.path(name), mode).unwrap();
        }
        estate.manifest("1.0.1", "manifest", |text| {
            let mut manifest: Value = serde_json::from_str(&text).unwrap();
            let spec = &mut manifest["spec"];
            spec["model"] = json!({"provider": "example", "names": ["small"]});
            let sha256 = hex::encode(Sha256::digest(INSTRUCTIONS));
            spec["instructions"] = json!([{"sha256": sha256, "scope": "whole", "required": true}]);
            spec["client_tools"] =
                json!([{"name": "Bash", "tier": "T2"}, {"name": "Read", "tier": "T0"}]);
            spec["tools"].as_array_mut().unwrap().push(json!({"name": "llm.main", "tier": "T2"}));
            sign(spec);
            serde_json::to_string_pretty(&manifest).unwrap()
        });
        let port = provider.port;
        estate.configure(|config| {
            config["listen"]["tcp"] = json!("127.0.0.1:0");
            let callers = config["agents"][0]["callers"].as_array_mut().unwrap();
            callers.push(json!({"token_file": "a.token"}));
            people.configure(config, true);
            let upstream = |dialect: &Dialect| {
                let url = format!("http://127.0.0.1:{port}{}", dialect.base());
                json!({"name": dialect.name, "provider": "example", "api": dialect.api(), "url": url,
                    "models": {"small": "small-2026"}, "private_addresses": ["127.0.0.0/8"],
                    "credentials": [{"header": "x-api-key", "file": "provider.key"}]})
            };
            let tools = config["tools"].as_array_mut().unwrap();
            tools.push(json!({"name": "llm.main", "description": "a model", "kind": "model", "tier": "T2",
                "model": {"faces": ALL.map(|dialect| dialect.name), "upstreams": ALL.map(upstream),
                    "output_tokens_max": 1000, "hold_wait": 1}}));
            configure(config);
        });
        let sidecar = estate.serve().await;
        let host = sidecar.agents().to_string();
        Gate { tool, estate, sidecar, people, provider, host }
    }

    /// Stops the gate, and starts it again with the files as they are now.
    pub async fn again(&mut self) {
        self.sidecar.stop().await;
        self.sidecar = self.estate.serve().await;
        self.host = self.sidecar.agents().to_string();
    }

    /// Kills the gate, and starts it again.
    pub async fn killed(&mut self) {
        self.sidecar.kill();
        self.sidecar = self.estate.serve().await;
        self.host = self.sidecar.agents().to_string();
    }

    /// One request with the agent's token; the connection it is on.
    pub async fn begin(&self, verb: &str, path: &str, lines: &[(&str, &str)], body: &str) -> Wire {
        let bearer = format!("Bearer {TOKEN}");
        let mut usual = vec![("Host", self.host.as_str()), ("Authorization", bearer.as_str())];
        if !body.is_empty() {
            usual.push(("Content-Type", "application/json"));
        }
        let own = |name: &str| lines.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        usual.retain(|(name, _)| !own(name));
        usual.extend(lines.iter().copied().filter(|(_, value)| *value != "-"));
        let mut wire = Wire::open(&Place::Tcp(self.host.clone())).await;
        wire.send(&request(verb, path, &usual, body.as_bytes())).await;
        wire
    }

    pub async fn ask(&self, verb: &str, path: &str, lines: &[(&str, &str)], body: &str) -> Reply {
        self.begin(verb, path, lines, body).await.reply().await.expect("an answer")
    }

    /// Asks the model in a dialect.
    pub async fn asks(&self, dialect: &Dialect, body: &Value) -> Reply {
        let (path, body) = dialect.placed(body);
        self.ask("POST", &path, &[], &body).await
    }

    /// What the operator's listener shows at this path.
    pub async fn operator(&self, path: &str) -> String {
        let mut wire = Wire::open(&Place::Tcp(self.sidecar.operators().to_string())).await;
        wire.send(&request("GET", path, &[("Host", "localhost")], b"")).await;
        wire.reply().await.expect("an answer").body
    }

    /// Every entry of this kind, read by code that is not ours.
    pub fn entries(&self, kind: &str) -> Vec<Value> {
        entries(&self.estate.database, kind)
    }

    /// The stored payloads of this role, in order, read by code that is not ours.
    pub fn payloads(&self, role: &str) -> Vec<String> {
        let Database::Sqlite(path) = &self.estate.database else { panic!("not a file") };
        let script = "import sqlite3, sys, json\n\
            rows = sqlite3.connect(sys.argv[1]).execute('SELECT body FROM payload WHERE role = ? ORDER BY place', (sys.argv[2],))\n\
            print(json.dumps([bytes(r[0]).decode() for r in rows]))";
        let mut command = Command::new(python());
        command.args(["-I", "-c", script]).arg(path).arg(role);
        let read = Ran::of(&mut command).ok().json();
        let texts = read.as_array().unwrap().iter();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// The tools of the entries of this kind, in order.
    pub fn tools_of(&self, kind: &str) -> Vec<String> {
        let entries = self.entries(kind);
        entries.iter().map(|entry| entry["tool"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Stops the gate and has its ledger checked by code that is not ours.
    pub async fn checked(mut self) -> Value {
        self.sidecar.stop().await;
        check_ledger(&self.estate.database, &self.estate.receipts)
    }
}
