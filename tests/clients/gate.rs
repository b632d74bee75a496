//! One gate with notes, and with functions if there are any; Ada approves.

use std::process::Command;

use serde_json::{Value, json};

use crate::files::{Files, this_user};
use crate::people::People;
use crate::ran::Ran;
use crate::sidecar::Sidecar;

pub const TOKEN: &str = "agent-token-of-the-clients-0123456789abcdef";

/// Reading is allowed but for payroll; a note whose name says so waits for a person.
const RULES: &str = r#"package wicketgate.agent

import rego.v1

allow if startswith(input.tool.name, "notes.")

allow if startswith(input.tool.name, "desk.")

deny contains {"code": "payroll", "message": "payroll is not for agents"} if contains(input.args.path, "payroll")

require_approval contains {"code": "one", "message": "a person has to look"} if contains(input.args.path, "held")
"#;

/// A gate that serves.
pub struct Gate {
    pub files: Files,
    pub people: People,
    pub sidecar: Sidecar,
}

impl Gate {
    /// One with notes alone.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(Files::new(), Vec::new(), |_| {})
    }

    /// One with these servers too, where these files are already.
    #[track_caller]
    pub fn start_with(files: Files, servers: Vec<Value>, change: impl FnOnce(&mut Value)) -> Self {
        let people = People::new();
        files.keys(&["manifest", "policy", "lock"]);
        files.secret("token", TOKEN);
        files.write("s/.keep", "");
        files.write("notes/todo.md", "water the plants\n");
        files.write("notes/payroll.md", "secret\n");
        files.write("notes/large.md", "0123456789abcde\n".repeat(100_000));
        files.write_json("wicketgate.yaml", &config(&servers));
        files.configure(|config| {
            people.configure(config, true);
            change(config);
        });
        files.rules("bundle", RULES, ["clients", "1.0.0"]);
        let mut tools = vec![
            json!({"name": "notes.read", "tier": "T0"}),
            json!({"name": "notes.write", "tier": "T1"}),
        ];
        if !servers.is_empty() {
            files.lock();
        }
        for server in &servers {
            let name = server["name"].as_str().unwrap();
            let locked = files.locked(name);
            let names: Vec<&str> = locked.iter().map(String::as_str).collect();
            tools.push(files.grant_of(name, &names));
        }
        let spec = json!({
            "binding": {"minimum": "unclaimed"},
            "model": {"provider": "scripted", "names": ["scripted-1"]},
            "tools": tools,
        });
        files.grant("agent.yaml", "clients", spec);
        let sidecar = files.start().serving();
        Self { files, people, sidecar }
    }

    /// Where agents with a token connect.
    pub fn url(&self) -> String {
        format!("http://{}", self.sidecar.agents())
    }

    /// The socket, as a client writes it.
    pub fn socket(&self) -> String {
        format!("unix:{}", self.files.socket().display())
    }

    /// Ada approves this call, given as `RUN CALL`.
    #[track_caller]
    pub fn approve(&self, approval: &str) {
        let (run, call) = approval.split_once(' ').unwrap();
        let url = self.sidecar.operator_url();
        let (code, said) = self.people.says("ada", "approve", &url, (run, call));
        assert_eq!(code, Some(0), "{said}");
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

fn config(servers: &[Value]) -> Value {
    let note = |name: &str, kind: &str, tier: &str| {
        json!({"name": name, "description": "A note", "kind": kind, "tier": tier,
            "read_only": kind == "file.read", "result_bytes_max": 4 << 20,
            "file": {"root": "notes", "name": "notes"}})
    };
    let mut config = json!({
        "state": "state",
        "listen": {"socket": "s/agent.sock", "tcp": "127.0.0.1:0"},
        "operator": {"listen": "127.0.0.1:0"},
        "ledger": {"sqlite": {}},
        "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"], "lock_keys": ["lock.pub"]},
        "policy": {"bundle": "bundle", "deadline_ms": 5000},
        "self_test": {"at_start": false},
        "agents": [{"manifest": "agent.yaml", "callers": [this_user(), {"token_file": "token"}]}],
        "tools": [note("notes.read", "file.read", "T0"), note("notes.write", "file.write", "T1")],
    });
    if !servers.is_empty() {
        config["servers"] = json!(servers);
        config["lock"] = json!("tools.lock");
    }
    config
}
