//! One gate with two tools, an agent of no framework, and what is recorded of it.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use wicketgate::approval;
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::openssh;
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::digest::Digest;

use crate::tool::Tool;
use wicketgate_support::files::{Files, this_user};
use wicketgate_support::program;
use wicketgate_support::ran::Ran;
use wicketgate_support::sidecar::Sidecar;

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
pub struct Rig {
    files: Files,
    pub tool: Tool,
}

impl Deref for Rig {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
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

impl Rig {
    /// `replay` of the manifest.
    #[track_caller]
    pub fn new(replay: &Value) -> Self {
        let rig = Self { files: Files::new(), tool: Tool::start() };
        rig.keys(&["manifest", "policy"]);
        rig.approver();
        rig.secret("token", TOKEN);
        rig.secret("secret", SECRET);
        rig.write_json("wicketgate.yaml", &rig.config());
        rig.bundle("bundle", RULES);
        rig.agent("player", "agent.yaml", replay, &[]);
        rig
    }

    /// A rig whose agent may delegate to another, `helper`, which has a socket of its own; the digest of the
    /// helper's manifest.
    #[track_caller]
    pub fn family(replay: &Value) -> (Self, String) {
        let rig = Self::new(replay);
        let helper = rig.agent("helper", "helper.yaml", &json!({"mode": "off"}), &[]);
        rig.agent("player", "agent.yaml", replay, &[json!({"manifest": helper})]);
        rig.configure(|config| {
            let mut caller = this_user();
            caller["socket"] = json!("helper.sock");
            let helper = json!({"manifest": "helper.yaml", "callers": [caller]});
            config["agents"].as_array_mut().unwrap().push(helper);
        });
        (rig, helper)
    }

    /// Signs a manifest into this file; its digest.
    #[track_caller]
    fn agent(&self, name: &str, file: &str, replay: &Value, delegates: &[Value]) -> String {
        let spec = json!({
            "binding": {"minimum": "unclaimed"},
            "model": {"provider": "example", "names": ["any", "gpt-5-mini"]},
            "tools": [{"name": "look.up"}, {"name": "note.add"}, {"name": "wire.out"}],
            "replay": replay,
            "delegates": delegates,
        });
        self.grant(file, name, spec);
        Digest::of(&[&std::fs::read(self.path(file)).unwrap()]).prefixed()
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
        let signed = approval::Approvers::sign(
            approval::approvers::Purpose::Approval,
            list.as_bytes(),
            &[&key],
        )
        .unwrap();
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
            "agents": [{"manifest": "agent.yaml", "callers": [this_user(), {"token_file": "token"}]}],
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

    /// A signed bundle of one file.
    #[track_caller]
    pub fn bundle(&self, name: &str, rules: &str) {
        self.bundle_of(name, rules, "1.0.0");
    }

    /// The same of this version.
    #[track_caller]
    pub fn bundle_of(&self, name: &str, rules: &str, version: &str) {
        self.rules(name, rules, ["replay", version]);
    }

    /// Runs a command in the directory.
    #[track_caller]
    pub fn ran(&self, mut command: Command) -> Ran {
        Ran::of(command.current_dir(self.path("")))
    }

    /// Starts the gate and waits until it serves.
    #[track_caller]
    pub fn serve(&self) -> Sidecar {
        self.start().serving()
    }

    /// Lets an agent's command work through the gate; what it printed.
    #[track_caller]
    pub fn work(&self, gate: &Sidecar, words: &[String]) -> String {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.env("WICKETGATE_MCP_URL", format!("http://{}/mcp", gate.agents()));
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
        gate.finish();
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
        let mut command = Command::new(program::gate());
        command.args(["replay", "run.recording"]).args(options).arg("--").args(words);
        // Where the gate is the configured one, the agent has to show what it always shows.
        command.env("WICKETGATE_TOKEN", TOKEN);
        self.ran(command)
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
