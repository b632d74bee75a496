//! One gate whose tools are commands, and an agent that may use them all.

use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::agent::Refused;
use crate::files::{Files, this_user};
use crate::ran::Ran;
use crate::sidecar::Sidecar;

/// Whatever runs is allowed.
const RULES: &str = "package wicketgate.agent\nimport rego.v1\nallow if input.tool.kind in {\"command\", \"mcp\", \"http\", \"sql\", \"grpc\", \"model\", \"file.read\", \"file.write\"}\n";
/// A user that is nobody's.
pub const STRANGER: u32 = 54_321;

/// A directory with everything one gate needs. `data` in it is what commands may read.
pub struct Estate {
    files: Files,
}

/// A tool that runs this; `more` are members of the tool itself.
pub fn tool(name: &str, command: Value, more: Value) -> Value {
    let text = json!({"type": "string"});
    let mut tool = json!({"name": name, "description": "runs a command", "kind": "command", "tier": "T1",
        "input_schema": {"type": "object", "properties": {"a": text, "b": text, "in": text}}});
    tool["command"] = command;
    let Value::Object(more) = more else { panic!("members of a tool are an object") };
    for (key, value) in more {
        tool[key] = value;
    }
    tool
}

/// The real file of a program of the system.
#[track_caller]
pub fn program(name: &str) -> String {
    let dirs = ["/usr/bin", "/bin", "/usr/local/bin"];
    let found = dirs.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists());
    let found = found.unwrap_or_else(|| panic!("this system has no `{name}`"));
    found.canonicalize().unwrap().display().to_string()
}

/// A Python that lies where commands may read.
pub fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| program("python3"))
}

/// A tool that runs this Python program.
pub fn script(name: &str, text: &str, command: Value, more: Value) -> Value {
    let mut command = command;
    command["program"] = json!(python());
    command["argv"] = json!(["-I", "-S", "-B", "-c", text]);
    tool(name, command, more)
}

impl Deref for Estate {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Estate {
    /// These tools; everything else is made.
    #[track_caller]
    pub fn new(tools: &[Value]) -> Self {
        Self::with(tools, |_| Vec::new())
    }

    /// These tools, and servers whose every tool is locked and granted; `servers` is told the directory, in which
    /// `data` may be read and `ws` written by anybody.
    #[track_caller]
    pub fn with(tools: &[Value], servers: impl FnOnce(&Path) -> Vec<Value>) -> Self {
        let estate = Self { files: Files::new() };
        // Commands of a gate that is root run as somebody who may not look into root's directories.
        open(&estate.path(""));
        estate.write("data/notes.txt", "one\nneedle two\nthree\n");
        open(&estate.path("data"));
        estate.keys(&["manifest", "policy", "lock"]);
        for dir in ["s", "ws"] {
            std::fs::create_dir(estate.path(dir)).unwrap();
        }
        let anybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(estate.path("ws"), anybody).unwrap();
        let servers = servers(&estate.path(""));
        estate.write_json("wicketgate.yaml", &config(tools, &servers));
        estate.rules("bundle", RULES, ["command", "1.0.0"]);
        if !servers.is_empty() {
            estate.lock();
        }
        let mut grants: Vec<Value> =
            tools.iter().map(|tool| json!({"name": tool["name"]})).collect();
        grants.extend(servers.iter().map(|server| {
            let name = server["name"].as_str().unwrap();
            let locked = estate.locked(name);
            estate.grant_of(name, &locked.iter().map(String::as_str).collect::<Vec<_>>())
        }));
        let spec = json!({
            "binding": {"minimum": "unclaimed"},
            "model": {"provider": "example", "names": ["test-model"]},
            "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
            "tools": grants,
        });
        estate.grant("agent.yaml", "command", spec);
        estate
    }

    /// Starts the gate and waits until it serves.
    #[track_caller]
    pub fn serve(&self) -> Sidecar {
        self.start().serving()
    }

    /// The data of every entry of this kind, read by code that is not ours.
    #[track_caller]
    pub fn entries(&self, kind: &str) -> Vec<Value> {
        let read = "import sqlite3, sys\n\
            rows = sqlite3.connect(sys.argv[1]).execute('SELECT body FROM entry WHERE kind = ? ORDER BY seq', (sys.argv[2],))\n\
            print('[' + ','.join(bytes(r[0]).decode() if not isinstance(r[0], str) else r[0] for r in rows) + ']')";
        let mut command = Command::new(python());
        command.args(["-I", "-c", read]).arg(self.path("state/ledger.sqlite")).arg(kind);
        let bodies = Ran::of(&mut command).ok().json();
        bodies.as_array().unwrap().iter().map(|body| body["data"].clone()).collect()
    }
}

fn config(tools: &[Value], servers: &[Value]) -> Value {
    json!({
        "servers": servers,
        "lock": "tools.lock",
        "state": "state",
        "listen": {"socket": "s/agent.sock"},
        "operator": {"listen": "127.0.0.1:0"},
        "ledger": {"sqlite": {}},
        "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"],
            "lock_keys": ["lock.pub"]},
        "policy": {"bundle": "bundle"},
        "self_test": {"at_start": false},
        "agents": [{"manifest": "agent.yaml", "callers": [this_user()]}],
        "tools": tools,
    })
}

/// Lets everybody look into a directory.
pub fn open(dir: &Path) {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// One call, whose result must be there.
#[track_caller]
pub fn answer(result: Result<String, Refused>) -> Value {
    serde_json::from_str(&result.unwrap_or_else(|why| panic!("{why:?}"))).unwrap()
}

/// Processes whose command line holds this text.
pub fn alive(marker: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut found = Vec::new();
    for entry in processes {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) {
            found.push(format!("{}: {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}
