//! One gate over servers nobody here wrote: its files, and the process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{self, Process};

const GATE: &str = env!("CARGO_BIN_EXE_wicketgate");

/// The token of the one agent.
pub const TOKEN: &str = "agent-token-of-the-interop-tests-0123456789";

/// A directory with everything one gate needs.
pub struct Estate {
    dir: TempDir,
}

/// Runs one command of the program to its end.
#[track_caller]
pub fn wicketgate(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new(GATE);
    command.args(args).current_dir(dir);
    let (ok, out, err) = process::run(command);
    assert!(ok, "{args:?}: {out}{err}");
    out
}

impl Estate {
    /// Servers by name, each as `servers[]` of the configuration has it; what the agent may use of each, by the
    /// server's own names; the rules of the agent's layer.
    #[track_caller]
    pub fn new(servers: &[(&str, Value)], allow: &[(&str, &[&str])], rules: &str) -> Self {
        let estate = Self::bound(servers, rules);
        estate.lock();
        estate.manifest(allow);
        estate
    }

    /// The same, and the agent may use everything that the servers have.
    #[track_caller]
    pub fn whole(servers: &[(&str, Value)], rules: &str) -> Self {
        let estate = Self::bound(servers, rules);
        estate.lock();
        let all: Vec<(&str, Vec<String>)> =
            servers.iter().map(|(name, _)| (*name, estate.locked(name))).collect();
        let names: Vec<(&str, Vec<&str>)> = all
            .iter()
            .map(|(name, all)| (*name, all.iter().map(String::as_str).collect()))
            .collect();
        let allow: Vec<(&str, &[&str])> =
            names.iter().map(|(name, all)| (*name, all.as_slice())).collect();
        estate.manifest(&allow);
        estate
    }

    #[track_caller]
    fn bound(servers: &[(&str, Value)], rules: &str) -> Self {
        let estate = Self { dir: tempfile::Builder::new().prefix("wgi").tempdir().unwrap() };
        for name in ["manifest", "policy", "lock"] {
            estate.run(&["keygen", "--out", name]);
        }
        std::fs::create_dir(estate.path("s")).unwrap();
        estate.secret("token", TOKEN);
        let servers: Vec<Value> = servers
            .iter()
            .map(|(name, server)| {
                let mut server = server.clone();
                server["name"] = json!(name);
                server
            })
            .collect();
        estate.write("wicketgate.yaml", &json!({
            "state": "state",
            "listen": {"socket": "s/agent.sock", "tcp": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "ledger": {"sqlite": {}},
            "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"], "lock_keys": ["lock.pub"]},
            "policy": {"bundle": "bundle"},
            // Tests of other things count entries of their own.
            "self_test": {"at_start": false},
            "agents": [{"manifest": "agent.yaml", "callers": [
                {"uid": rustix::process::getuid().as_raw()}, {"token_file": "token"}]}],
            "servers": servers,
            "lock": "tools.lock",
        }));
        estate.bundle(rules);
        // The configuration names it; what it grants is known once the lock is signed.
        std::fs::write(estate.path("agent.yaml"), "").unwrap();
        estate
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, value: &Value) {
        std::fs::write(self.path(name), serde_json::to_string_pretty(value).unwrap()).unwrap();
    }

    /// A file that nobody else may read.
    fn secret(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(self.path(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path(name), mode).unwrap();
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        wicketgate(self.dir.path(), args)
    }

    fn bundle(&self, rules: &str) {
        std::fs::create_dir_all(self.path("bundle/agent")).unwrap();
        std::fs::write(self.path("bundle/agent/main.rego"), rules).unwrap();
        let sign = ["policy", "sign", "bundle", "--key", "policy", "--name", "interop"];
        self.run(&[&sign[..], &["--version", "1.0.0"]].concat());
    }

    /// Asks every server what it has, and signs that.
    #[track_caller]
    pub fn lock(&self) {
        self.run(&["tools", "lock", "--config", "wicketgate.yaml", "--key", "lock"]);
    }

    fn manifest(&self, allow: &[(&str, &[&str])]) {
        let envelope: Value = self.read("tools.lock.sig.json");
        let signer = &envelope["signatures"][0]["keyid"];
        let grant = |(server, names): &(&str, &[&str])| json!({"server": server, "lock": {"signer": signer}, "allow": names});
        let tools: Vec<Value> = allow.iter().map(grant).collect();
        self.write("agent.yaml", &json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": "interop", "version": "1.0.0", "owner": "tests@example.com"},
            "spec": {"status": "active",
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["any"]},
                "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
                "tools": tools,
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
        }));
        self.run(&["manifest", "sign", "agent.yaml", "--key", "manifest"]);
    }

    fn read(&self, name: &str) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    /// Every tool and method that the lock has of a server, by the server's own names.
    pub fn locked(&self, server: &str) -> Vec<String> {
        let lock = self.read("tools.lock");
        let servers = lock["servers"].as_array().unwrap();
        let server = servers.iter().find(|one| one["name"] == server).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let tools = server["tools"].as_array().unwrap().iter().map(|tool| text(&tool["name"]));
        tools.chain(server["methods"].as_array().unwrap().iter().map(text)).collect()
    }

    /// Starts the gate and waits until it serves.
    #[track_caller]
    pub fn serve(&self) -> Gate {
        let mut command = Command::new(GATE);
        command.args(["serve", "--config", "wicketgate.yaml"]).current_dir(self.dir.path());
        let process = Process::start(command);
        let tcp = process.hear("the address for agents", |line| {
            line.contains("agents connect here").then(|| address(line)).flatten()
        });
        process.hear("that it is ready", |line| line.contains("ready=true").then_some(()));
        Gate { process, tcp, socket: self.path("s/agent.sock") }
    }

    /// `wicketgate serve mcp` as a desktop client would start it, on the view of one server or of all.
    pub fn bridge(&self, server: Option<&str>) -> Vec<String> {
        let config = self.path("wicketgate.yaml").display().to_string();
        let mut words = vec![GATE.to_owned(), "mcp".to_owned(), "--config".to_owned(), config];
        if let Some(server) = server {
            words.extend(["--server".to_owned(), server.to_owned()]);
        }
        words
    }
}

fn address(line: &str) -> Option<SocketAddr> {
    let digits = &line[line.find("127.0.0.1:")?..];
    let end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'));
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

/// A running gate.
pub struct Gate {
    process: Process,
    /// Where agents with a token connect.
    pub tcp: SocketAddr,
    /// Where agents without one do.
    pub socket: PathBuf,
}

impl Gate {
    /// The view of one server, or of all.
    pub fn url(&self, server: Option<&str>) -> String {
        let view = server.map(|name| format!("/s/{name}")).unwrap_or_default();
        format!("http://{}/mcp{view}", self.tcp)
    }

    /// Ends it in order.
    #[track_caller]
    pub fn stop(self) {
        let status = self.process.stop();
        assert!(status.success(), "{status}");
    }
}
