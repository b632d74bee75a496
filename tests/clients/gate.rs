//! One gate with notes, and with functions if there are any; Ada approves.

use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::files::{Files, this_user};
use crate::people::People;
use crate::ran::Ran;
use crate::sidecar::Sidecar;

/// The instructions of every agent in `programs`.
const INSTRUCTIONS: &str = "Keep the notes.";

pub const TOKEN: &str = "agent-token-of-the-clients-0123456789abcdef";

/// Reading is allowed but for payroll; a note whose name says so waits for a person.
const RULES: &str = r#"package wicketgate.agent

import rego.v1

allow if startswith(input.tool.name, "notes.")

allow if startswith(input.tool.name, "desk.")

deny contains {"code": "payroll", "message": "payroll is not for agents"} if contains(input.args.path, "payroll")

require_approval contains {"code": "one", "message": "a person has to look"} if contains(input.args.path, "held")

require_approval contains {"code": "two", "message": "two people have to look", "approvers": 2} if input.tool.tier == "T3"

allow if input.tool.kind == "model"
"#;

/// A gate that serves.
pub struct Gate {
    pub files: Files,
    pub people: People,
    pub sidecar: Sidecar,
    approvers: usize,
}

impl Gate {
    /// One with notes alone.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(Files::new(), &Offer::default())
    }

    /// One with more than notes, where these files are already.
    #[track_caller]
    pub fn start_with(files: Files, offer: &Offer) -> Self {
        let people = People::new();
        files.keys(&["manifest", "policy", "lock"]);
        files.secret("token", TOKEN);
        files.write("s/.keep", "");
        files.write("notes/todo.md", "water the plants\n");
        files.write("notes/payroll.md", "secret\n");
        files.write("notes/large.md", "water the plants\n".repeat(64_000));
        files.secret("provider.key", "key-of-the-scripted-provider-0123456789");
        let mut config = offer.config();
        people.configure(&mut config, true);
        files.write_json("wicketgate.yaml", &config);
        files.rules("bundle", RULES, ["clients", "1.0.0"]);
        if !offer.servers.is_empty() {
            files.lock();
        }
        files.grant("agent.yaml", "clients", offer.spec(&files));
        let sidecar = files.start().serving();
        let approvers = if offer.provider.is_some() { 2 } else { 1 };
        Self { files, people, sidecar, approvers }
    }

    /// Where agents with a token connect.
    pub fn url(&self) -> String {
        format!("http://{}", self.sidecar.agents())
    }

    /// The socket, as a client writes it.
    pub fn socket(&self) -> String {
        format!("unix:{}", self.files.socket().display())
    }

    /// As many people as it needs approve this call, given as `RUN CALL`.
    #[track_caller]
    pub fn approve(&self, approval: &str) {
        let (run, call) = approval.split_once(' ').unwrap();
        let url = self.sidecar.operator_url();
        for who in ["ada", "grace"].iter().take(self.approvers) {
            let (code, said) = self.people.says(who, "approve", &url, (run, call));
            assert_eq!(code, Some(0), "{said}");
        }
    }

    /// How the ledger has the calls of all runs, as lines.
    #[track_caller]
    pub fn tail(&self) -> String {
        let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "-n", "200"];
        self.files.run(&tail)
    }

    pub fn finish(self) {
        self.sidecar.finish();
    }
}

/// What a command prints that has to succeed.
#[track_caller]
pub fn printed(command: &mut Command) -> String {
    Ran::of(command).ok().out
}

/// What an agent may use beside its notes.
#[derive(Default)]
pub struct Offer {
    /// MCP servers, as `servers:` has them; all that they have is granted.
    pub servers: Vec<Value>,
    /// The provider of a model that is asked through the gate. Then writing is of tier T3.
    pub provider: Option<String>,
}

impl Offer {
    fn tier(&self) -> &'static str {
        if self.provider.is_some() { "T3" } else { "T1" }
    }

    fn spec(&self, files: &Files) -> Value {
        let mut tools = vec![
            json!({"name": "notes.read", "tier": "T0"}),
            json!({"name": "notes.write", "tier": self.tier()}),
        ];
        for server in &self.servers {
            let name = server["name"].as_str().unwrap();
            let locked = files.locked(name);
            let names: Vec<&str> = locked.iter().map(String::as_str).collect();
            tools.push(files.grant_of(name, &names));
        }
        let mut spec = json!({"binding": {"minimum": "unclaimed"}});
        if self.provider.is_some() {
            tools.push(json!({"name": "llm.main", "tier": "T2"}));
            let sha256 = hex::encode(Sha256::digest(INSTRUCTIONS));
            spec = json!({
                "binding": {"minimum": "unclaimed", "tier3": "observed"},
                "model": {"provider": "scripted", "names": ["scripted-1"]},
                "instructions": [{"name": "prompt", "scope": "whole", "sha256": sha256, "required": true}],
                "unknown_tools": "deny",
                "limits": {"tokens": 1_000_000},
            });
        }
        spec["tools"] = json!(tools);
        spec
    }

    fn config(&self) -> Value {
        let note = |name: &str, kind: &str, tier: &str| {
            json!({"name": name, "description": "A note", "kind": kind, "tier": tier,
                "read_only": kind == "file.read", "result_bytes_max": 4 << 20,
                "file": {"root": "notes", "name": "notes"}})
        };
        let write = note("notes.write", "file.write", self.tier());
        let mut tools = vec![note("notes.read", "file.read", "T0"), write];
        tools.extend(self.provider.as_deref().map(model));
        let mut config = json!({
            "state": "state",
            "listen": {"socket": "s/agent.sock", "tcp": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "ledger": {"sqlite": {}},
            "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"], "lock_keys": ["lock.pub"]},
            "policy": {"bundle": "bundle", "deadline_ms": 5000},
            "self_test": {"at_start": false},
            "agents": [{"manifest": "agent.yaml", "callers": [this_user(), {"token_file": "token"}]}],
            "tools": tools,
        });
        if !self.servers.is_empty() {
            config["servers"] = json!(self.servers);
            config["lock"] = json!("tools.lock");
        }
        config
    }
}

/// The model of the agent, which this provider answers for.
fn model(provider: &str) -> Value {
    json!({"name": "llm.main", "description": "The model of the agent", "kind": "model", "tier": "T2",
        "model": {"faces": ["chat"], "output_tokens_max": 1000, "upstreams": [
            {"name": "scripted", "provider": "scripted", "api": "openai", "url": format!("{provider}/v1"),
                "private_addresses": ["127.0.0.0/8"], "models": {"scripted-1": "scripted-1"},
                "credentials": [{"header": "authorization", "prefix": "Bearer ", "file": "provider.key"}]}]}})
}
