//! One gate whose tools are commands, and an agent that may use them all.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::{Agent, Receipts, Refused};
use crate::process::{self, Process};

/// The built program.
pub const GATE: &str = env!("CARGO_BIN_EXE_wicketgate");
/// A user that is nobody's.
pub const STRANGER: u32 = 54_321;

/// A directory with everything one gate needs. `data` in it is what commands may read.
pub struct Estate {
    dir: TempDir,
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
        let estate = Self { dir: tempfile::Builder::new().prefix("wgc").tempdir().unwrap() };
        // Commands of a gate that is root run as somebody who may not look into root's directories.
        open(estate.dir.path());
        std::fs::create_dir(estate.path("data")).unwrap();
        open(&estate.path("data"));
        std::fs::write(estate.path("data/notes.txt"), "one\nneedle two\nthree\n").unwrap();
        estate.run(&["keygen", "--out", "manifest"]);
        estate.run(&["keygen", "--out", "policy"]);
        estate.run(&["keygen", "--out", "lock"]);
        std::fs::create_dir(estate.path("s")).unwrap();
        std::fs::create_dir(estate.path("ws")).unwrap();
        let anybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(estate.path("ws"), anybody).unwrap();
        let servers = servers(estate.dir.path());
        estate.configure(tools, &servers);
        std::fs::create_dir_all(estate.path("bundle/agent")).unwrap();
        let rules = "package wicketgate.agent\nimport rego.v1\nallow if input.tool.kind in {\"command\", \"mcp\", \"http\", \"sql\", \"grpc\", \"model\", \"file.read\", \"file.write\"}\n";
        std::fs::write(estate.path("bundle/agent/main.rego"), rules).unwrap();
        let sign = ["policy", "sign", "bundle", "--key", "policy", "--name", "command"];
        estate.run(&[&sign[..], &["--version", "1.0.0"]].concat());
        if !servers.is_empty() {
            // What it grants is known once the lock is signed.
            std::fs::write(estate.path("agent.yaml"), "").unwrap();
            let lock = ["tools", "lock", "--config", "wicketgate.yaml", "--key", "lock"];
            estate.run(&lock);
        }
        estate.grant(tools, &servers);
        estate
    }

    /// Writes the configuration.
    pub fn configure(&self, tools: &[Value], servers: &[Value]) {
        let me = rustix::process::getuid().as_raw();
        self.write(
            "wicketgate.yaml",
            &json!({
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
                "agents": [{"manifest": "agent.yaml", "callers": [{"uid": me}]}],
                "tools": tools,
            }),
        );
    }

    fn grant(&self, tools: &[Value], servers: &[Value]) {
        let mut grants: Vec<Value> =
            tools.iter().map(|tool| json!({"name": tool["name"]})).collect();
        grants.extend(servers.iter().map(|server| self.all_of(server["name"].as_str().unwrap())));
        self.write("agent.yaml", &json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": "command", "version": "1.0.0", "owner": "tests@example.com"},
            "spec": {"status": "active",
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["test-model"]},
                "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
                "tools": grants,
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
        }));
        self.run(&["manifest", "sign", "agent.yaml", "--key", "manifest"]);
    }

    /// The grant of every tool of this server that is locked.
    fn all_of(&self, server: &str) -> Value {
        let read = |name: &str| -> Value {
            serde_json::from_str(&std::fs::read_to_string(self.path(name)).unwrap()).unwrap()
        };
        let (lock, envelope) = (read("tools.lock"), read("tools.lock.sig.json"));
        let servers = lock["servers"].as_array().unwrap();
        let locked = servers.iter().find(|one| one["name"] == server).unwrap();
        let tools = locked["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone());
        json!({"server": server, "lock": {"signer": envelope["signatures"][0]["keyid"]},
            "allow": tools.collect::<Vec<_>>()})
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, value: &Value) {
        std::fs::write(self.path(name), serde_json::to_string_pretty(value).unwrap()).unwrap();
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        let (ok, out, err) = self.try_run(args);
        assert!(ok, "{args:?}: {out}{err}");
        out
    }

    /// One command of the program: whether it succeeded, and both outputs.
    pub fn try_run(&self, args: &[&str]) -> (bool, String, String) {
        let mut command = Command::new(GATE);
        command.args(args).current_dir(self.dir.path());
        process::run(command)
    }

    /// The command line that serves.
    pub fn serving(&self) -> Command {
        let mut command = Command::new(GATE);
        command.args(["serve", "--config", "wicketgate.yaml"]).current_dir(self.dir.path());
        command
    }

    /// Starts the gate and waits until it serves.
    #[track_caller]
    pub fn serve(&self) -> Gate {
        self.serve_as(self.serving())
    }

    #[track_caller]
    pub fn serve_as(&self, command: Command) -> Gate {
        let process = Process::start(command);
        let operator = process.hear("the operator's address", |line| {
            line.contains("operator API listening").then(|| port(line)).flatten()
        });
        process.hear("that it is ready", |line| line.contains("ready=true").then_some(()));
        Gate { process, socket: self.path("s/agent.sock"), operator }
    }

    /// The data of every entry of this kind, read by code that is not ours.
    #[track_caller]
    pub fn entries(&self, kind: &str) -> Vec<Value> {
        let read = "import sqlite3, sys\n\
            rows = sqlite3.connect(sys.argv[1]).execute('SELECT body FROM entry WHERE kind = ? ORDER BY seq', (sys.argv[2],))\n\
            print('[' + ','.join(bytes(r[0]).decode() if not isinstance(r[0], str) else r[0] for r in rows) + ']')";
        let mut command = Command::new(python());
        command.args(["-I", "-c", read]).arg(self.path("state/ledger.sqlite")).arg(kind);
        let (ok, out, err) = process::run(command);
        assert!(ok, "{err}");
        let bodies: Vec<Value> = serde_json::from_str(&out).unwrap();
        bodies.into_iter().map(|body| body["data"].clone()).collect()
    }
}

/// Lets everybody look into a directory.
pub fn open(dir: &Path) {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn port(line: &str) -> Option<u16> {
    let digits = &line[line.find("127.0.0.1:")? + 10..];
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// A running gate.
pub struct Gate {
    pub process: Process,
    pub socket: PathBuf,
    /// Where operators are answered.
    pub operator: u16,
}

impl Gate {
    pub async fn agent(&self) -> Agent {
        Agent::open(&self.socket, &Receipts::default()).await
    }
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
