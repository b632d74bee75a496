//! The files of one gate, and commands that run beside them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::Receipts;
use crate::private::private;
use crate::program;
use crate::ran::Ran;
use crate::sidecar::Sidecar;

/// A directory with what one gate needs, gone with the test.
#[derive(Debug)]
pub struct Files {
    dir: TempDir,
}

impl Files {
    /// An empty one. Its name is short: the path of a socket has to be.
    pub fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("wg").tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where agents connect, unless the configuration says otherwise.
    pub fn socket(&self) -> PathBuf {
        self.path("s/agent.sock")
    }

    /// Writes a file, and the directories that lead to it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes a file that only its owner may read.
    pub fn secret(&self, name: &str, text: impl AsRef<[u8]>) {
        self.write(name, "");
        private(self.path(name), text);
    }

    pub fn write_json(&self, name: &str, value: &Value) {
        self.write(name, serde_json::to_string_pretty(value).unwrap());
    }

    #[track_caller]
    pub fn read_json(&self, name: &str) -> Value {
        let path = self.path(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"))
    }

    /// Changes the configuration.
    #[track_caller]
    pub fn configure(&self, change: impl FnOnce(&mut Value)) {
        let mut config = self.read_json("wicketgate.yaml");
        change(&mut config);
        self.write_json("wicketgate.yaml", &config);
    }

    /// A command of the program, to be run in the directory.
    pub fn command(&self, args: &[&str]) -> Command {
        program::command(self, args)
    }

    /// Runs a command of the program.
    #[track_caller]
    pub fn try_run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Runs a command of the program that has to succeed; what it printed.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        let ran = self.try_run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Makes keys of these names.
    #[track_caller]
    pub fn keys(&self, names: &[&str]) {
        for name in names {
            self.run(&["keygen", "--out", name]);
        }
    }

    /// Writes a manifest for this agent and signs it with the key `manifest`.
    #[track_caller]
    pub fn grant(&self, file: &str, agent: &str, spec: Value) {
        self.write_json(file, &manifest(agent, spec));
        self.run(&["manifest", "sign", file, "--key", "manifest"]);
    }

    /// Writes a bundle of one file of rules, `agent/main.rego`, and signs it with the key `policy`.
    #[track_caller]
    pub fn rules(&self, dir: &str, rules: &str, [name, version]: [&str; 2]) {
        self.write(&format!("{dir}/agent/main.rego"), rules);
        let sign = ["policy", "sign", dir, "--key", "policy", "--name", name];
        self.run(&[&sign[..], &["--version", version]].concat());
    }

    /// Asks the servers of the configuration what they have, and signs that with the key `lock`.
    #[track_caller]
    pub fn lock(&self) {
        // The configuration names a manifest; what that grants is known once the lock is signed.
        if !self.path("agent.yaml").exists() {
            self.write("agent.yaml", "");
        }
        self.run(&["tools", "lock", "--config", "wicketgate.yaml", "--key", "lock"]);
    }

    /// Every tool and method that the lock has of a server, by the server's own names.
    #[track_caller]
    pub fn locked(&self, server: &str) -> Vec<String> {
        let lock = self.read_json("tools.lock");
        let servers = lock["servers"].as_array().unwrap();
        let server = servers.iter().find(|one| one["name"] == server).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let tools = server["tools"].as_array().unwrap().iter().map(|tool| text(&tool["name"]));
        tools.chain(server["methods"].as_array().into_iter().flatten().map(text)).collect()
    }

    /// The grant of these tools of a server that is locked.
    #[track_caller]
    pub fn grant_of(&self, server: &str, allow: &[&str]) -> Value {
        let envelope = self.read_json("tools.lock.sig.json");
        let signer = &envelope["signatures"][0]["keyid"];
        json!({"server": server, "lock": {"signer": signer}, "allow": allow})
    }

    /// Starts the gate; it may not serve yet.
    #[track_caller]
    pub fn start(&self) -> Sidecar {
        self.start_as(self.command(&["serve", "--config", "wicketgate.yaml"]))
    }

    /// Starts this command, which runs the gate.
    #[track_caller]
    pub fn start_as(&self, command: Command) -> Sidecar {
        let socket = self.read_json("wicketgate.yaml")["listen"]["socket"].clone();
        let socket = self.path(socket.as_str().unwrap_or("s/agent.sock"));
        Sidecar::start(command, self.log(), socket, Receipts::default())
    }

    /// Where the next process writes its log.
    pub fn log(&self) -> PathBuf {
        let all = (1..).map(|number| self.path(&format!("stderr.{number}")));
        all.into_iter().find(|path| !path.exists()).unwrap()
    }
}

impl AsRef<Path> for Files {
    fn as_ref(&self) -> &Path {
        self.dir.path()
    }
}

/// A manifest that is in force: `spec` beside what every manifest of the tests says.
pub fn manifest(agent: &str, spec: Value) -> Value {
    let mut manifest = json!({
        "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
        "metadata": {"name": agent, "version": "1.0.0", "owner": "tests@example.com"},
        "spec": {"status": "active",
            "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
    });
    let Value::Object(spec) = spec else { panic!("a spec is an object") };
    for (name, value) in spec {
        manifest["spec"][name] = value;
    }
    manifest
}

/// The caller that is the user of the tests.
pub fn this_user() -> Value {
    json!({"uid": rustix::process::getuid().as_raw()})
}
