//! One gate with two tools, an agent of no framework, and what is recorded of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use wicketgate::approval;
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::openssh;
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::digest::Digest;

use crate::process::Process;
use crate::tool::Tool;

pub const GATE: &str = env!("CARGO_BIN_EXE_wicketgate");

/// The token of the one agent.
pub const TOKEN: &str = "agent-token-of-the-replay-tests-0123456789";
/// What one of the tools is reached with.
pub const SECRET: &str = "tool-credential-of-the-replay-tests";

/// Reading is allowed but for one name; adding is.
pub const RULES: &str = r#"package wicketgate.agent

import rego.v1

allow if input.tool.name in {"look.up", "note.add", "wire.out"}

require_approval contains "somebody has to look at it" if {
	input.tool.name == "wire.out"
	count(input.approvals) == 0
}

deny contains "nobody looks that up" if input.args.name == "forbidden"

obligations contains {"type": "redact", "kinds": ["email"]} if input.tool.name == "note.add"
"#;

/// A directory with everything one gate needs, and the server of its tools.
pub struct House {
    dir: TempDir,
    pub tool: Tool,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The one object that it printed.
    #[track_caller]
    pub fn json(&self) -> Value {
        let line = self.out.lines().last();
        let read = line.and_then(|line| serde_json::from_str(line).ok());
        read.unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// Calls in rounds, those of a round side by side.
pub type Rounds = Value;

/// Rounds of one call each.
pub fn rounds(calls: &[(&str, Value)]) -> Rounds {
    calls.iter().map(|(name, args)| json!([[name, args]])).collect()
}

/// A Python that has the standard library and needs nothing else.
pub fn python() -> PathBuf {
    crate::home::python(1)
}

/// The words that start the agent of no framework.
pub fn agent(calls: &Rounds) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/agent.py");
    let words = [python().display().to_string(), script.display().to_string(), calls.to_string()];
    words.to_vec()
}

impl House {
    /// `replay` of the manifest.
    #[track_caller]
    pub fn new(replay: &Value) -> Self {
        let dir = tempfile::Builder::new().prefix("wgr").tempdir().unwrap();
        let house = Self { dir, tool: Tool::start() };
        for name in ["manifest", "policy"] {
            house.run(&["keygen", "--out", name]);
        }
        house.approver();
        house.secret("token", TOKEN);
        house.secret("secret", SECRET);
        house.write("wicketgate.yaml", &house.config());
        house.bundle("bundle", RULES);
        house.agent("player", "agent.yaml", replay, &[]);
        house
    }

    /// A house whose agent may delegate to another, `helper`, which has a socket of its own; the digest of the
    /// helper's manifest.
    #[track_caller]
    pub fn family(replay: &Value) -> (Self, String) {
        let house = Self::new(replay);
        let helper = house.agent("helper", "helper.yaml", &json!({"mode": "off"}), &[]);
        house.agent("player", "agent.yaml", replay, &[json!({"manifest": helper})]);
        house.configure(|config| {
            let uid = rustix::process::getuid().as_raw();
            config["agents"].as_array_mut().unwrap().push(json!({"manifest": "helper.yaml",
                "callers": [{"socket": "helper.sock", "uid": uid}]}));
        });
        (house, helper)
    }

    /// Signs a manifest into this file; its digest.
    #[track_caller]
    fn agent(&self, name: &str, file: &str, replay: &Value, delegates: &[Value]) -> String {
        self.write(file, &json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": name, "version": "1.0.0", "owner": "tests@example.com"},
            "spec": {"status": "active",
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["any", "gpt-5-mini"]},
                "tools": [{"name": "look.up"}, {"name": "note.add"}, {"name": "wire.out"}],
                "replay": replay,
                "delegates": delegates,
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
        }));
        self.run(&["manifest", "sign", file, "--key", "manifest"]);
        Digest::of(&[&std::fs::read(self.path(file)).unwrap()]).prefixed()
    }

    /// Changes the configuration of the gate that is started next.
    #[track_caller]
    pub fn configure(&self, change: impl FnOnce(&mut Value)) {
        let text = std::fs::read(self.path("wicketgate.yaml")).unwrap();
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        change(&mut config);
        self.write("wicketgate.yaml", &config);
    }

    /// Somebody who may approve, with a key of her own.
    fn approver(&self) {
        let key = SecretKey::generate(&SystemEntropy);
        openssh::store(&key, &self.path("ada"), "ada@example.com").unwrap();
        self.secret("ada.token", "operator-token-of-the-replay-tests-0123456789");
        let line = SshKey::Plain(key.public()).line();
        let list = format!(
            "ada@example.com namespaces=\"{},{}\" {line} roles=approver,operator\n",
            approval::NAMESPACE,
            approval::order::NAMESPACE
        );
        std::fs::write(self.path("allowed_signers"), &list).unwrap();
        let key = SecretKey::generate(&SystemEntropy);
        std::fs::write(self.path("approvers.pub"), key.public().to_pem()).unwrap();
        let signed = approval::Approvers::sign(list.as_bytes(), &[&key]).unwrap();
        std::fs::write(self.path("allowed_signers.sig.json"), signed).unwrap();
    }

    fn config(&self) -> Value {
        let url = |path: &str| format!("http://{}/{path}", self.tool.address);
        let private = json!(["127.0.0.1/32"]);
        let text = json!({"type": "string"});
        json!({
            "state": "state",
            "listen": {"socket": "agent.sock", "tcp": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
            "ledger": {"sqlite": {}},
            "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"], "approver_keys": ["approvers.pub"]},
            "policy": {"bundle": "bundle"},
            "operators": [{"subject": "ada@example.com", "roles": ["approver"], "token_file": "ada.token"}],
            "approvals": {"signers": "allowed_signers"},
            "self_test": {"at_start": false},
            "agents": [{"manifest": "agent.yaml", "callers": [
                {"uid": rustix::process::getuid().as_raw()}, {"token_file": "token"}]}],
            "tools": [
                {"name": "look.up", "description": "Looks a name up", "kind": "http", "tier": "T0", "read_only": true,
                    "input_schema": {"type": "object", "required": ["name"], "properties": {"name": text, "id": text}},
                    "http": {"method": "GET", "url": url("look"), "query": {"name": "{name}"}, "private_addresses": private},
                    "credentials": [{"header": "authorization", "prefix": "Bearer ", "file": "secret"}]},
                {"name": "note.add", "description": "Adds a note", "kind": "http", "tier": "T1",
                    "input_schema": {"type": "object", "required": ["text"], "properties": {"text": text, "id": text}},
                    "http": {"method": "POST", "url": url("note"), "body": "args", "private_addresses": private}},
                {"name": "wire.out", "description": "Sends money", "kind": "http", "tier": "T2",
                    "input_schema": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}},
                    "http": {"method": "POST", "url": url("wire"), "body": "args", "private_addresses": private}},
            ],
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, value: &Value) {
        std::fs::write(self.path(name), serde_json::to_string_pretty(value).unwrap()).unwrap();
    }

    fn secret(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(self.path(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path(name), mode).unwrap();
    }

    /// A signed bundle of one file.
    #[track_caller]
    pub fn bundle(&self, name: &str, rules: &str) {
        self.bundle_of(name, rules, "1.0.0");
    }

    /// The same of this version.
    #[track_caller]
    pub fn bundle_of(&self, name: &str, rules: &str, version: &str) {
        std::fs::create_dir_all(self.path(name).join("agent")).unwrap();
        std::fs::write(self.path(name).join("agent/main.rego"), rules).unwrap();
        let sign = ["policy", "sign", name, "--key", "policy", "--name", "replay"];
        self.run(&[&sign[..], &["--version", version]].concat());
    }

    /// A command of the program that has to succeed.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        let ran = self.try_run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.out
    }

    /// A command of the program.
    #[track_caller]
    pub fn try_run(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(GATE);
        command.args(args);
        self.ran(command)
    }

    #[track_caller]
    pub fn ran(&self, mut command: Command) -> Ran {
        command.current_dir(self.dir.path()).stdin(std::process::Stdio::null());
        let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&done.stdout), text(&done.stderr));
        Ran { code: done.status.code().unwrap_or(-1), out, err }
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
        let operators = process.hear("the address for operators", |line| {
            line.contains("operator API listening").then(|| address(line)).flatten()
        });
        process.hear("that it is ready", |line| line.contains("ready=true").then_some(()));
        Gate { process, tcp, operators }
    }

    /// Lets an agent's command work through the gate; what it printed.
    #[track_caller]
    pub fn work(&self, gate: &Gate, words: &[String]) -> String {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.env("WICKETGATE_MCP_URL", format!("http://{}/mcp", gate.tcp));
        command.env("WICKETGATE_SOCKET", self.path("agent.sock"));
        command.env("WICKETGATE_SOCKET_HELPER", self.path("helper.sock"));
        command.env("WICKETGATE_TOKEN", TOKEN);
        let ran = self.ran(command);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    }

    /// Lets an agent work, ends the gate and exports its run as `run.recording`; what it printed.
    #[track_caller]
    pub fn record(&mut self, words: &[String]) -> String {
        let printed = self.worked(words);
        self.run(&self.export());
        self.tool.stop();
        printed
    }

    /// Lets an agent work, and ends the gate; what it printed.
    #[track_caller]
    pub fn worked(&self, words: &[String]) -> String {
        let gate = self.serve();
        let printed = self.work(&gate, words);
        gate.stop();
        printed
    }

    /// The words that export the last run without a parent.
    #[track_caller]
    pub fn export(&self) -> [&'static str; 7] {
        let run: &'static str = self.last_run().leak();
        ["replay", "export", run, "--config", "wicketgate.yaml", "--out", "run.recording"]
    }

    /// Entries of the ledger, oldest first.
    #[track_caller]
    pub fn entries(&self) -> Vec<Value> {
        let args = ["ledger", "tail", "--config", "wicketgate.yaml", "--json", "-n", "10000"];
        let entries = self.run(&args);
        entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    fn last_run(&self) -> String {
        let entries = self.entries();
        let opened = entries.iter().filter(|entry| entry["kind"] == "run.opened");
        let opened = opened.filter(|entry| entry["data"]["parent"].is_null());
        let last = opened.max_by_key(|entry| entry["seq"].as_u64()).unwrap();
        last["run"].as_str().unwrap().to_owned()
    }

    /// Replays `run.recording` with these options and this agent.
    #[track_caller]
    pub fn replay(&self, options: &[&str], words: &[String]) -> Ran {
        let mut command = Command::new(GATE);
        command.args(["replay", "run.recording"]).args(options).arg("--").args(words);
        // Where the gate is the configured one, the agent has to show what it always shows.
        command.env("WICKETGATE_TOKEN", TOKEN);
        self.ran(command)
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
    pub tcp: SocketAddr,
    pub operators: SocketAddr,
}

impl Gate {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Ends it in order; open runs are sealed.
    #[track_caller]
    pub fn stop(self) {
        let status = self.process.stop();
        assert!(status.success(), "{status}");
    }
}

/// What was drifted, as the JSON report says it: kind and step.
pub fn drifts(report: &Value) -> Vec<(String, Option<u64>)> {
    let drifts = report["drifts"].as_array().unwrap();
    drifts
        .iter()
        .map(|drift| (drift["kind"].as_str().unwrap().to_owned(), drift["step"].as_u64()))
        .collect()
}
