//! A sidecar as a user sets it up: keys, signed manifest, signed bundle, configuration, `serve`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::policies;
use crate::program;

/// A directory with keys and a manifest.
pub struct Folder(tempfile::TempDir);

/// Where the ledger is.
#[derive(Clone)]
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

impl Folder {
    /// Makes it, through the program's own commands.
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.run(&["keygen", "--out", "m.pem"]);
        folder.run(&["keygen", "--out", "p.pem"]);
        folder.run(&["manifest", "init", "agent.yaml", "--name", "bench-agent"]);
        let file = folder.dir().join("agent.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let tools = "    - {name: small, tier: T2}\n    - {name: large, tier: T2}";
        let text = text.replace("    - {name: repo.read_file, tier: T0}", tools);
        let mut kept = Vec::new();
        for line in text.lines() {
            // No limits of a run but the gate's own.
            if ![
                "    calls",
                "    concurrency",
                "    wall_seconds",
                "    consecutive",
                "    repeated",
            ]
            .iter()
            .any(|limit| line.starts_with(limit))
            {
                kept.push(line.replace("  limits:", "  limits: {}"));
            }
        }
        std::fs::write(&file, kept.join("\n") + "\n").unwrap();
        folder.run(&["manifest", "sign", "agent.yaml", "--key", "m.pem"]);
        for (name, files) in [("small", policies::SMALL), ("fifteen", policies::FIFTEEN)] {
            policies::write(&folder.dir().join(name), files);
            folder.run(&["policy", "sign", name, "--key", "p.pem"]);
        }
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

    /// Writes the configuration of one sidecar named `name`.
    pub fn configure(&self, name: &str, store: &Store, policy: &str, tool: SocketAddr) -> Sidecar {
        let state = self.dir().join(name);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ledger = match store {
            Store::Sqlite => "{sqlite: {}}".to_owned(),
            // A slot remembers the version of its bundle: each policy has slots of its own.
            Store::Postgres(url) => {
                format!("{{postgres: {{url: \"{url}\", slots: {policy}}}}}")
            }
        };
        let binding = |name: &str| {
            format!(
                "- name: {name}\n  description: answers\n  kind: http\n  tier: T2\n  input_schema: {{type: object, \
                 required: [text], properties: {{text: {{type: string, maxLength: 8192}}}}}}\n  http: {{method: POST, \
                 url: \"http://{tool}/{name}\", body: args, private_addresses: [127.0.0.1/32]}}\n"
            )
        };
        let uid = rustix::process::getuid().as_raw();
        let config = format!(
            "state: {}\noperator: {{listen: \"127.0.0.1:{port}\"}}\nledger: {ledger}\ntrust: {{manifest_keys: \
             [m.pem.pub], policy_keys: [p.pem.pub]}}\npolicy: {{bundle: {policy}}}\nagents: [{{manifest: agent.yaml, \
             callers: [{{uid: {uid}}}]}}]\nlimits: {{requests_per_second: null}}\ntools:\n{}{}",
            state.display(),
            binding("small"),
            binding("large")
        );
        let file = self.dir().join(format!("{name}.yaml"));
        std::fs::write(&file, config).unwrap();
        Sidecar {
            config: file,
            socket: state.join("agent.sock"),
            operator: SocketAddr::from(([127, 0, 0, 1], port)),
            store: store.clone(),
        }
    }

    /// Gives a sidecar an operator, and with that the operator API and an index of calls.
    pub fn add_operator(&self, sidecar: &Sidecar) {
        self.run(&["keygen", "--token", "operator", "--out", "operator.token"]);
        let mut config = std::fs::read_to_string(&sidecar.config).unwrap();
        config.push_str(
            "operators: [{subject: ada, roles: [operator], token_file: operator.token}]\n",
        );
        std::fs::write(&sidecar.config, config).unwrap();
    }
}

/// A configured sidecar.
#[derive(Clone)]
pub struct Sidecar {
    config: PathBuf,
    /// Where agents connect.
    pub socket: PathBuf,
    /// Where its ledger is.
    pub store: Store,
    operator: SocketAddr,
}

/// A running one.
pub struct Running {
    child: Child,
    /// From start to ready.
    pub ready_after: Duration,
}

impl Sidecar {
    /// Runs `serve` and waits until `/readyz` says yes.
    pub fn start(&self) -> Running {
        let started = Instant::now();
        let child = Command::new(program::gate())
            .arg("serve")
            .arg("--config")
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.config.with_extension("log")).unwrap())
            .spawn()
            .unwrap();
        let mut running = Running { child, ready_after: Duration::ZERO };
        let log = || std::fs::read_to_string(self.config.with_extension("log")).unwrap_or_default();
        while !self.ready() {
            assert!(started.elapsed() < Duration::from_secs(30), "not ready in 30 s: {}", log());
            assert!(running.child.try_wait().unwrap().is_none(), "the gate ended: {}", log());
            std::thread::sleep(Duration::from_millis(1));
        }
        running.ready_after = started.elapsed();
        running
    }

    fn ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.operator) else { return false };
        let ask =
            format!("GET /readyz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.operator);
        let mut answer = String::new();
        stream.write_all(ask.as_bytes()).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.1 200")
    }
}

impl Running {
    /// A line of `/proc/<pid>/status`, in MiB: `VmRSS`, `VmHWM`.
    pub fn memory(&self, name: &str) -> f64 {
        super::memory_of(self.child.id(), name)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it in order.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
