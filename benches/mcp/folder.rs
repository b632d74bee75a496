//! A gate in front of the one server, as a user sets it up.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wicketgate_support::bench::gate::MeasuredGate;
use wicketgate_support::program;

/// The agent's token.
pub const TOKEN: &str = "the-token-of-the-agent-that-is-measured-0123";

/// One rule, as small as policies get.
const RULES: &str =
    "package wicketgate.agent\n\nimport rego.v1\n\nallow if input.tool.name == \"bench.say\"\n";

/// Where the ledger is.
pub enum Store {
    /// A file in the state directory.
    Sqlite,
    /// A migrated database.
    Postgres(String),
}

impl Store {
    /// For people.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "Postgres",
        }
    }
}

/// A directory with keys, a signed bundle, a signed lock and a signed manifest.
pub struct Folder {
    dir: tempfile::TempDir,
    upstream: SocketAddr,
}

impl Folder {
    /// Makes it, through the program's own commands.
    pub fn new(upstream: SocketAddr) -> Self {
        let folder = Self { dir: tempfile::tempdir().unwrap(), upstream };
        for name in ["m", "p", "l"] {
            folder.run(&["keygen", "--out", name]);
        }
        let token = folder.dir().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::create_dir_all(folder.dir().join("bundle/agent")).unwrap();
        std::fs::write(folder.dir().join("bundle/agent/main.rego"), RULES).unwrap();
        folder.run(&[
            "policy",
            "sign",
            "bundle",
            "--key",
            "p",
            "--name",
            "bench",
            "--version",
            "1.0.0",
        ]);
        // The configuration names it; what it grants is known once the lock is signed.
        std::fs::write(folder.dir().join("agent.yaml"), "").unwrap();
        folder.configure(&Store::Sqlite);
        folder.run(&["tools", "lock", "--config", "wicketgate.yaml", "--key", "l"]);
        folder.manifest();
        folder
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
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
        let envelope = std::fs::read_to_string(self.dir().join("tools.lock.sig.json")).unwrap();
        let envelope: Value = serde_json::from_str(&envelope).unwrap();
        let signer = &envelope["signatures"][0]["keyid"];
        self.write("agent.yaml", &json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": "bench", "version": "1.0.0", "owner": "bench@example.com"},
            "spec": {"status": "active",
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["any"]},
                "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
                // No limits of a run but the gate's own.
                "limits": {},
                "tools": [{"server": "bench", "lock": {"signer": signer}, "allow": ["say"]}],
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
        }));
        self.run(&["manifest", "sign", "agent.yaml", "--key", "m"]);
    }

    fn configure(&self, store: &Store) {
        let ledger = match store {
            Store::Sqlite => json!({"sqlite": {}}),
            Store::Postgres(url) => json!({"postgres": {"url": url}}),
        };
        let server = json!({"name": "bench", "tier": "T1", "http": {
            "url": format!("http://{}/mcp", self.upstream), "private_addresses": ["127.0.0.1/32"]}});
        self.write("wicketgate.yaml", &json!({
            "state": format!("state-{}", store.name()),
            "listen": {"tcp": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "ledger": ledger,
            "trust": {"manifest_keys": ["m.pub"], "policy_keys": ["p.pub"], "lock_keys": ["l.pub"]},
            "policy": {"bundle": "bundle"},
            "agents": [{"manifest": "agent.yaml", "callers": [{"token_file": "token"}]}],
            "servers": [server],
            "limits": {"requests_per_second": null},
            "lock": "tools.lock",
        }));
    }

    /// Runs the gate on this store and waits until it serves.
    pub fn serve(&self, store: &Store) -> MeasuredGate {
        self.configure(store);
        MeasuredGate::serve(self.dir())
    }
}
