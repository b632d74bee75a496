//! One gate between the clients and the provider: a model with five faces, and an MCP server in the same run.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wicketgate_support::commands;
use wicketgate_support::files::Files;
use wicketgate_support::home;
use wicketgate_support::people::People;
use wicketgate_support::sidecar::Sidecar;

use super::provider::Provider;

/// The token of the one agent.
pub const TOKEN: &str = "agent-token-of-the-model-clients-0123456789";
/// What the rule that denies says.
pub const RULE: &str = "this agent writes no such file";
/// The instructions of every library, as in `facts.py` and `facts.mjs`.
const INSTRUCTIONS: &str = "You are the agent of the conformance tests.";

/// Writing is denied: a note, or a file of that name. What else has to be held: one person looks, or two where nothing can be
/// undone.
const RULES: &str = r#"package wicketgate.agent

import rego.v1

allow if input.tool.name == "llm.main"

allow if startswith(input.tool.name, "client.")

allow if startswith(input.tool.name, "everything.")

allow if input.tool.name == "notes.write"

allow if startswith(input.tool.name, "repo.")

require_approval contains {"code": "two", "message": "two people have to look", "approvers": 2} if input.tool.tier == "T3"

require_approval contains {"code": "one", "message": "a person has to look"} if {
	startswith(input.tool.name, "client.")
	contains(json.marshal(input.args), "held.txt")
}

require_approval contains {"code": "one", "message": "a person has to look"} if {
	input.tool.name == "everything.echo"
	contains(input.args.message, "please hold")
}

deny contains "this agent writes no such file" if input.tool.name == "client.write_note"

deny contains "this agent writes no such file" if {
	input.tool.name == "repo.edit"
	startswith(input.effect.path, "test_")
}

deny contains "this agent writes no such file" if {
	startswith(input.tool.name, "client.")
	contains(json.marshal(input.args), "denied.txt")
}
"#;

/// The tools over the repository, with the kind of each.
const REPOSITORY: [(&str, &str); 4] = [
    ("repo.list", "file.list"),
    ("repo.read", "file.read"),
    ("repo.edit", "file.write"),
    ("repo.run", "command"),
];

/// One of these tools, as the configuration has it. Commands run in the repository, and may run its tests only.
fn repository(name: &str, kind: &str) -> Value {
    let file = json!({"root": "repo", "name": "repo"});
    let mut tool = json!({"name": name, "description": name, "kind": kind, "tier": "T1"});
    match kind {
        "file.list" | "file.read" => {
            tool["tier"] = json!("T0");
            tool["file"] = file;
        }
        "file.write" => {
            tool["file"] = file;
            tool["file"]["edits"] = json!(true);
        }
        _ => {
            tool["command"] = json!({"program": commands::program("python3"), "directory": "repo",
                "env": {"PYTHONDONTWRITEBYTECODE": "1"},
                "forms": [["-m", "unittest"], ["-m", "unittest", {"arg": "test"}]]});
        }
    }
    tool
}

/// What the agent of one gate may use beside its model, and where that gate keeps its books.
pub struct Offer<'a> {
    instructions: Value,
    client_tools: Value,
    /// What happens to the tools that are not listed.
    unknown_tools: &'static str,
    /// What happens to the tools that the provider would run: Codex offers its web search unless it is told not to.
    hosted_tools: &'static str,
    /// The MCP server of the run.
    everything: bool,
    /// `notes.write` in tier T3, which these people approve.
    grave: Option<&'a People>,
    /// Tools over the repository in `repo`.
    repository: bool,
    ledger: Value,
}

impl<'a> Offer<'a> {
    /// For libraries: one text of instructions, and the tools of `facts.py`. Three more are how some of them ask for
    /// structured output.
    pub fn library() -> Self {
        let sha256 = hex::encode(Sha256::digest(INSTRUCTIONS));
        let tools = ["lookup", "final_result", "Answer", "json"]
            .map(|name| json!({"name": name, "tier": "T0"}));
        Self {
            instructions: json!([{"name": "prompt", "scope": "whole", "sha256": sha256}]),
            client_tools: json!(
                [&tools[..], &[json!({"name": "write_note", "tier": "T2"})]].concat()
            ),
            unknown_tools: "deny",
            hosted_tools: "deny",
            everything: false,
            grave: None,
            repository: false,
            ledger: json!({"sqlite": {}}),
        }
    }

    /// For coding agents: their prompts are their makers', so nothing is demanded of them. Of their many tools the model
    /// sees the one that runs commands, the one that shows Claude Code's model more tools, and those of the run's MCP server.
    pub fn program() -> Self {
        let tools = ["Bash", "ToolSearch", "exec_command", "bash"]
            .map(|name| json!({"name": name, "tier": "T2"}));
        Self {
            instructions: json!([]),
            client_tools: json!(tools),
            unknown_tools: "strip",
            hosted_tools: "strip",
            everything: true,
            grave: None,
            repository: false,
            ledger: json!({"sqlite": {}}),
        }
    }

    /// For coding agents, with a ledger of this kind.
    pub fn on(ledger: Value) -> Self {
        Self { ledger, ..Self::program() }
    }

    /// For a coding agent of these instructions, with one tool whose effect cannot be undone.
    pub fn grave(instructions: Value, people: &'a People) -> Self {
        Self { instructions, everything: false, grave: Some(people), ..Self::program() }
    }

    /// For coding agents without tools of their own, over a repository of the operator's. A request that offers any other
    /// tool is refused: what a program keeps for itself has to be here.
    pub fn repository(own: &[&str]) -> Self {
        let own = own.iter().map(|name| json!({"name": name, "tier": "T0"}));
        Self {
            client_tools: own.collect(),
            unknown_tools: "deny",
            hosted_tools: "deny",
            everything: false,
            repository: true,
            ..Self::program()
        }
    }

    fn spec(&self, files: &Files) -> Value {
        let mut tools = vec![json!({"name": "llm.main", "tier": "T2"})];
        if self.everything {
            tools.push(files.grant_of("everything", &["echo"]));
        }
        if self.grave.is_some() {
            tools.push(json!({"name": "notes.write", "tier": "T3"}));
        }
        if self.repository {
            let granted = REPOSITORY.iter().map(|(name, _)| json!({"name": name}));
            tools.extend(granted);
        }
        json!({
            "binding": {"minimum": "unclaimed", "tier3": "observed"},
            "model": {"provider": "scripted", "names": ["scripted-1", "claude-opus-5-5"]},
            "instructions": self.instructions,
            "tools": tools,
            "client_tools": self.client_tools,
            "unknown_tools": self.unknown_tools,
            // Every scenario asks the same: only the answers differ.
            "limits": {"tokens": 20_000_000, "repeated_calls": 1000},
        })
    }
}

/// A gate that serves.
pub struct ModelGate {
    pub process: Sidecar,
    pub files: Files,
}

impl ModelGate {
    #[track_caller]
    pub fn serve(provider: &Provider, offer: &Offer<'_>) -> Self {
        Self::serve_with(Files::new(), provider, offer)
    }

    /// The same, where these files are already.
    #[track_caller]
    pub fn serve_with(files: Files, provider: &Provider, offer: &Offer<'_>) -> Self {
        files.keys(&["manifest", "policy", "lock", "evidence", "fleet"]);
        files.write("notes/.keep", "");
        files.secret("token", TOKEN);
        files.secret("provider.key", "sk-scripted-provider-0123456789abcdef");
        files.write_json("wicketgate.yaml", &config(provider, offer));
        files.rules("bundle", RULES, ["conformance", "1.0.0"]);
        if offer.everything {
            files.lock();
        }
        files.grant("agent.yaml", "conformance", offer.spec(&files));
        let process = files.start().serving();
        Self { process, files }
    }

    /// The base URL of model calls in a run of this name, without `/v1`.
    pub fn models(&self, run: &str) -> String {
        format!("http://{}/r/{run}", self.process.agents())
    }

    /// The MCP face of the same run.
    pub fn tools(&self, run: &str) -> String {
        format!("http://{}/mcp/r/{run}", self.process.agents())
    }

    pub fn finish(self) {
        self.process.finish();
    }
}

fn config(provider: &Provider, offer: &Offer<'_>) -> Value {
    let upstream = |api: &str, header: &str, prefix: &str| {
        let base = match api {
            "gemini" => "/v1beta",
            "ollama" => "",
            _ => "/v1",
        };
        json!({"name": api.replace('.', "-"), "provider": "scripted", "api": api,
            "url": format!("{}{base}", provider.url), "private_addresses": ["127.0.0.0/8"],
            "models": {"scripted-1": "scripted-1", "claude-opus-5-5": "claude-opus-5-5"},
            "credentials": [{"header": header, "prefix": prefix, "file": "provider.key"}],
            "price": {"input": 5_000_000, "output": 25_000_000, "cached_input": 500_000,
                "cache_write": 6_250_000}})
    };
    let mut config = json!({
        "state": "state",
        "listen": {"socket": "s/agent.sock", "tcp": "127.0.0.1:0"},
        "operator": {"listen": "127.0.0.1:0"},
        "ledger": offer.ledger,
        "fleet": {"key": "fleet"},
        "evidence": {"key": "evidence"},
        "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"],
            "lock_keys": ["lock.pub"]},
        "policy": {"bundle": "bundle"},
        "self_test": {"at_start": false},
        "agents": [{"manifest": "agent.yaml", "callers": [{"token_file": "token"}]}],
        "tools": [{"name": "llm.main", "description": "the model of the agent", "kind": "model", "tier": "T2",
            "model": {"faces": ["chat", "responses", "messages", "gemini", "ollama"], "output_tokens_max": 128_000,
                "hosted_tools": offer.hosted_tools, "denied_as": "call", "hold_wait": 1,
                "upstreams": [upstream("openai", "authorization", "Bearer "),
                    upstream("openai.responses", "authorization", "Bearer "),
                    upstream("anthropic", "x-api-key", ""),
                    upstream("gemini", "x-goog-api-key", ""),
                    upstream("ollama", "authorization", "Bearer ")]}}],
    });
    if offer.everything {
        config["servers"] =
            json!([{"name": "everything", "stdio": home::everything(), "tier": "T1"}]);
        config["lock"] = json!("tools.lock");
    }
    if offer.repository {
        let tools = REPOSITORY.iter().map(|(name, kind)| repository(name, kind));
        config["tools"].as_array_mut().unwrap().extend(tools);
    }
    if let Some(people) = offer.grave {
        people.configure(&mut config, true);
        let write = json!({"name": "notes.write", "description": "Writes a note", "kind": "file.write", "tier": "T3",
            "file": {"root": "notes", "name": "notes"}});
        config["tools"].as_array_mut().unwrap().push(write);
    }
    config
}
