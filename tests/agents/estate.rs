//! One gate over servers nobody here wrote: its files, and the process.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wicketgate_support::files::{Files, this_user};
use wicketgate_support::program;
use wicketgate_support::ran::Ran;
use wicketgate_support::sidecar::Sidecar;

/// The token of the one agent.
pub const TOKEN: &str = "agent-token-of-the-interop-tests-0123456789";

/// A directory with everything one gate needs.
pub struct Estate {
    files: Files,
}

impl Deref for Estate {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

/// Runs one command of the program to its end.
#[track_caller]
pub fn wicketgate(dir: &Path, args: &[&str]) -> String {
    Ran::of(Command::new(program::gate()).args(args).current_dir(dir)).ok().out
}

impl Estate {
    /// Servers by name, each as `servers[]` of the configuration has it; what the agent may use of each, by the
    /// server's own names; the rules of the agent's layer.
    #[track_caller]
    pub fn new(servers: &[(&str, Value)], allow: &[(&str, &[&str])], rules: &str) -> Self {
        let estate = Self::bound(servers, rules);
        estate.manifest(allow);
        estate
    }

    /// The same, and the agent may use everything that the servers have.
    #[track_caller]
    pub fn whole(servers: &[(&str, Value)], rules: &str) -> Self {
        let estate = Self::bound(servers, rules);
        let all = servers.iter().map(|(name, _)| (*name, estate.locked(name)));
        let all: Vec<(&str, Vec<String>)> = all.collect();
        let names = all.iter().map(|(name, all)| (*name, all.iter().map(String::as_str).collect()));
        let names: Vec<(&str, Vec<&str>)> = names.collect();
        let allow: Vec<(&str, &[&str])> =
            names.iter().map(|(name, all)| (*name, all.as_slice())).collect();
        estate.manifest(&allow);
        estate
    }

    #[track_caller]
    fn bound(servers: &[(&str, Value)], rules: &str) -> Self {
        let estate = Self { files: Files::new() };
        estate.keys(&["manifest", "policy", "lock"]);
        std::fs::create_dir(estate.path("s")).unwrap();
        estate.secret("token", TOKEN);
        let named = |(name, server): &(&str, Value)| {
            let mut server = server.clone();
            server["name"] = json!(name);
            server
        };
        estate.write_json("wicketgate.yaml", &json!({
            "state": "state",
            "listen": {"socket": "s/agent.sock", "tcp": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "ledger": {"sqlite": {}},
            "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"], "lock_keys": ["lock.pub"]},
            "policy": {"bundle": "bundle"},
            // Tests of other things count entries of their own.
            "self_test": {"at_start": false},
            "agents": [{"manifest": "agent.yaml", "callers": [this_user(), {"token_file": "token"}]}],
            // All clients are one caller here, and each is compared with itself alone.
            "taint": {"linger_seconds": 0},
            "servers": servers.iter().map(named).collect::<Vec<_>>(),
            "lock": "tools.lock",
        }));
        estate.rules("bundle", rules, ["interop", "1.0.0"]);
        estate.lock();
        estate
    }

    fn manifest(&self, allow: &[(&str, &[&str])]) {
        let tools = allow.iter().map(|(server, names)| self.grant_of(server, names));
        let spec = json!({
            "binding": {"minimum": "unclaimed"},
            "model": {"provider": "example", "names": ["any"]},
            "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
            "tools": tools.collect::<Vec<_>>(),
        });
        self.grant("agent.yaml", "interop", spec);
    }

    /// Starts the gate and waits until it serves.
    #[track_caller]
    pub fn serve(&self) -> Sidecar {
        self.start().serving()
    }

    /// `wicketgate serve mcp` as a desktop client would start it, on the view of one server or of all.
    pub fn bridge(&self, server: Option<&str>) -> Vec<String> {
        let config = self.path("wicketgate.yaml").display().to_string();
        let mut words =
            vec![program::gate().to_owned(), "mcp".to_owned(), "--config".to_owned(), config];
        if let Some(server) = server {
            words.extend(["--server".to_owned(), server.to_owned()]);
        }
        words
    }
}

/// Where agents with a token find the view of one server, or of all.
pub fn url(gate: &Sidecar, server: Option<&str>) -> String {
    let view = server.map(|name| format!("/s/{name}")).unwrap_or_default();
    format!("http://{}/mcp{view}", gate.agents())
}
