//! A gate in front of the provider and of one tool, as a user sets it up.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wicketgate_support::bench::gate::MeasuredGate;
use wicketgate_support::program;

use crate::provider::{AT_ONCE, KEY, PACED, UNTHROTTLED};

/// The agent's token.
pub const TOKEN: &str = "the-token-of-the-agent-that-is-measured-0123";

/// What the manifest pins.
pub const INSTRUCTIONS: &str = "You are the assistant of a benchmark.";

/// Fifteen rules in three layers.
const RULES: [(&str, &str); 3] = [
    ("org", include_str!("org.rego")),
    ("team", include_str!("team.rego")),
    ("agent", include_str!("agent.rego")),
];

/// A directory with keys, a signed bundle, a signed manifest and a configuration.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes it, through the program's own commands.
    pub fn new(provider: SocketAddr, tool: SocketAddr) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for name in ["m", "p"] {
            folder.run(&["keygen", "--out", name]);
        }
        for (name, text) in [("token", TOKEN), ("provider.key", KEY)] {
            let file = folder.dir().join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        for (layer, rules) in RULES {
            let dir = folder.dir().join("bundle").join(layer);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("main.rego"), rules).unwrap();
        }
        let sign = ["policy", "sign", "bundle", "--key", "p", "--name", "bench"];
        folder.run(&[&sign[..], &["--version", "1.0.0"]].concat());
        folder.manifest();
        folder.configure(provider, tool);
        folder
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &[&str]) {
        let out =
            Command::new(program::gate()).args(args).current_dir(self.dir()).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&out.stdout));
    }

    fn write(&self, name: &str, value: &Value) {
        std::fs::write(self.dir().join(name), value.to_string()).unwrap();
    }

    fn manifest(&self) {
        let instructions = hex::encode(Sha256::digest(INSTRUCTIONS));
        self.write("agent.yaml", &json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": "bench-agent", "version": "1.0.0", "owner": "bench@example.com"},
            "spec": {"status": "active",
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": [AT_ONCE, PACED, UNTHROTTLED]},
                "instructions": [{"sha256": instructions, "scope": "whole", "required": true}],
                // No limits of a run but the gate's own.
                "limits": {},
                "tools": [{"name": "llm.main", "tier": "T2"}, {"name": "small", "tier": "T2"}],
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
        }));
        self.run(&["manifest", "sign", "agent.yaml", "--key", "m"]);
    }

    fn configure(&self, provider: SocketAddr, tool: SocketAddr) {
        let models = json!({AT_ONCE: AT_ONCE, PACED: PACED, UNTHROTTLED: UNTHROTTLED});
        let upstream = json!({"name": "bench", "provider": "example", "api": "openai",
            "url": format!("http://{provider}/v1"), "models": models, "private_addresses": ["127.0.0.1/32"],
            "credentials": [{"header": "x-api-key", "file": "provider.key"}]});
        let model = json!({"name": "llm.main", "description": "a model", "kind": "model", "tier": "T2",
            "model": {"faces": ["chat"], "output_tokens_max": 1_000_000, "upstreams": [upstream]}});
        let text = json!({"type": "string", "maxLength": 8192});
        let small = json!({"name": "small", "description": "answers", "kind": "http", "tier": "T2",
            "input_schema": {"type": "object", "required": ["text"], "properties": {"text": text}},
            "http": {"method": "POST", "url": format!("http://{tool}/small"), "body": "args",
                "private_addresses": ["127.0.0.1/32"]}});
        self.write(
            "wicketgate.yaml",
            &json!({
                "state": "state",
                "listen": {"tcp": "127.0.0.1:0"},
                "operator": {"listen": "127.0.0.1:0"},
                "ledger": {"sqlite": {}},
                "trust": {"manifest_keys": ["m.pub"], "policy_keys": ["p.pub"]},
                "policy": {"bundle": "bundle"},
                "agents": [{"manifest": "agent.yaml", "callers": [{"token_file": "token"}]}],
                "limits": {"requests_per_second": null},
                "tools": [model, small],
            }),
        );
    }

    /// Runs the gate and waits until it serves.
    pub fn serve(&self) -> MeasuredGate {
        MeasuredGate::serve(self.dir())
    }
}
