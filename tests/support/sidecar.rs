//! One gate: the files it needs, and the process.

use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use wicketgate_crypto::keys::SecretKey;
use wicketgate_crypto::openssh;
use wicketgate_crypto::ssh::SshKey;
use wicketgate_gate::ledger::sqlite::SqliteReader;
use wicketgate_gate::ledger::store::LedgerReader as _;
use wicketgate_record::clock::SystemEntropy;

use crate::agent::{Agent, Receipts};
use crate::checker::Books;
use crate::program;
use crate::tool::Tool;

/// The rules of the example agent, one for each way to go wrong.
pub const RULES: &str = r#"package wicketgate.agent
import rego.v1

allow if input.tool.name in {"work.do", "work.fail", "work.large", "policy.extra", "work.unbound"}
allow if { input.tool.name == "policy.error"; is_number(input.args.n); not bad(input.args.n) }
bad(n) if 1 / n == 1
allow if { input.tool.name == "policy.loop"; endless(1) }
endless(_) if {
	x := count([1 | some i in data.many; some j in data.many; some k in data.many; i + j + k > 0])
	x == 0
}
allow if { input.tool.name == "policy.concat"; large(input.args.s) }
large(s) if count(concat("", [s | some _ in data.many])) > 0
require_approval contains "a person has to look" if input.tool.name == "work.held"
obligations contains odd if input.tool.name == "policy.extra"
odd := {"type": "cap_bytes", "bytes": 1, "also": 2}
"#;

/// Tools that are bound and granted.
const GRANTED: [&str; 9] = [
    "work.do",
    "work.fail",
    "work.held",
    "work.large",
    "policy.error",
    "policy.undefined",
    "policy.extra",
    "policy.loop",
    "policy.concat",
];

/// Keys of the test run.
fn keys() -> &'static TempDir {
    static KEYS: OnceLock<TempDir> = OnceLock::new();
    KEYS.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        for name in ["manifest", "policy", "stranger", "list"] {
            run(dir.path(), &["keygen", "--out", name]);
        }
        operators(dir.path());
        dir
    })
}

/// Two operators with keys of their own, on a signed list.
fn operators(dir: &Path) {
    let line = |name: &str| {
        let secret = SecretKey::generate(&SystemEntropy);
        openssh::store(&secret, &dir.join(name), name).unwrap();
        let key = SshKey::Plain(secret.public()).line();
        format!("{name} namespaces=\"wicketgate-order\" {key} roles=operator\n")
    };
    std::fs::write(dir.join("signers"), ["olga", "otto"].map(line).concat()).unwrap();
    run(dir, &["approval", "sign-approvers", "signers", "--key", "list"]);
}

/// The path of a key of the test run.
pub fn key(name: &str) -> String {
    keys().path().join(name).display().to_string()
}

/// Runs one command of the program to its end.
#[track_caller]
pub fn run(dir: &Path, args: &[&str]) -> String {
    let done = Command::new(program::gate()).args(args).current_dir(dir).output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args:?}: {err}");
    String::from_utf8(done.stdout).unwrap()
}

/// Everything one sidecar needs, in a directory of its own.
pub struct Estate {
    dir: TempDir,
    pub books: Books,
    pub receipts: Receipts,
    starts: AtomicU32,
}

impl Estate {
    /// On a SQLite file.
    pub fn sqlite(tool: &Tool) -> Estate {
        let dir = tempfile::Builder::new().prefix("wgf").tempdir().unwrap();
        let books = Books::Sqlite(dir.path().join("state/ledger.sqlite"));
        Self::furnish(dir, books, &json!({"sqlite": {}}), tool)
    }

    /// On Postgres; the sidecar connects by `url`, the checker reads by `admin`.
    pub fn postgres(tool: &Tool, url: &str, admin: &str, slots: &str) -> Estate {
        let dir = tempfile::Builder::new().prefix("wgf").tempdir().unwrap();
        let books = Books::Postgres(admin.to_owned());
        let ledger = json!({"postgres": {"url": url, "slots": slots}});
        Self::furnish(dir, books, &ledger, tool)
    }

    fn furnish(dir: TempDir, books: Books, ledger: &Value, tool: &Tool) -> Estate {
        let starts = AtomicU32::new(0);
        let estate = Estate { dir, books, receipts: Receipts::default(), starts };
        estate.manifest("1.0.0", "manifest", |text| text);
        estate.bundle("1.0.0", RULES, "policy");
        let bind = |name: &str| {
            let place = match name {
                "work.fail" => "fail",
                "work.large" => "large",
                _ => "do",
            };
            json!({"name": name, "result_bytes_max": 4 << 20, "description": "does work", "kind": "http", "tier": "T1",
                "input_schema": {"type": "object", "properties": {
                    "n": {"type": "integer"}, "s": {"type": "string"}}, "additionalProperties": true},
                "http": {"method": "POST", "url": format!("http://127.0.0.1:{}/{place}", tool.port),
                    "body": "args", "private_addresses": ["127.0.0.0/8"]}})
        };
        let tools: Vec<Value> = GRANTED.into_iter().chain(["work.unbound"]).map(bind).collect();
        let config = json!({
            "state": "state",
            "listen": {"socket": "s/agent.sock"},
            "operator": {"listen": "127.0.0.1:0"},
            "ledger": ledger,
            "trust": {"manifest_keys": [key("manifest.pub")], "policy_keys": [key("policy.pub")],
                "approver_keys": [key("list.pub")]},
            "approvals": {"signers": key("signers")},
            "policy": {"bundle": "bundle", "deadline_ms": 200},
            "agents": [{"manifest": "agent.yaml",
                "callers": [{"uid": rustix::process::getuid().as_raw()}]}],
            "tools": tools,
            "limits": {},
            // Tests of other things count entries of their own.
            "self_test": {"at_start": false},
            "telemetry": {"log": "info"},
        });
        std::fs::create_dir(estate.path("s")).unwrap();
        estate.write_config(&config);
        estate
    }

    fn write_config(&self, config: &Value) {
        let text = serde_json::to_string_pretty(config).unwrap();
        std::fs::write(self.path("wicketgate.yaml"), text).unwrap();
    }

    /// Changes the configuration.
    pub fn configure(&self, change: impl FnOnce(&mut Value)) {
        let text = std::fs::read_to_string(self.path("wicketgate.yaml")).unwrap();
        let mut config = serde_json::from_str(&text).unwrap();
        change(&mut config);
        self.write_config(&config);
    }

    /// Writes and signs the manifest.
    pub fn manifest(&self, version: &str, signer: &str, edit: impl FnOnce(String) -> String) {
        let tools: Vec<Value> =
            GRANTED.iter().map(|name| json!({"name": name, "tier": "T1"})).collect();
        let manifest = json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": "test-agent", "version": version, "owner": "tests@example.com"},
            "spec": {"status": "active",
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["test-model"]},
                "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
                "tools": tools,
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
        });
        let text = edit(serde_json::to_string_pretty(&manifest).unwrap());
        std::fs::write(self.path("agent.yaml"), text).unwrap();
        run(self.dir.path(), &["manifest", "sign", "agent.yaml", "--key", &key(signer)]);
    }

    /// Writes and signs the bundle.
    pub fn bundle(&self, version: &str, rules: &str, signer: &str) {
        let dir = self.path("bundle");
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("agent")).unwrap();
        std::fs::create_dir_all(dir.join("data")).unwrap();
        std::fs::write(dir.join("agent/main.rego"), rules).unwrap();
        std::fs::write(dir.join("data/many.json"), format!("[{}0]", "0,".repeat(1999))).unwrap();
        let named = ["--name", "test", "--version", version];
        let sign = ["policy", "sign", "bundle", "--key", &key(signer)];
        run(self.dir.path(), &[&sign[..], &named[..]].concat());
    }

    /// What it connects to the database by.
    pub fn writer_url(&self) -> String {
        let text = std::fs::read_to_string(self.path("wicketgate.yaml")).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        config["ledger"]["postgres"]["url"].as_str().unwrap().to_owned()
    }

    /// The name of the gate's log in its SQLite file, before any loss was accepted.
    pub async fn origin(&self) -> String {
        let Books::Sqlite(path) = &self.books else { panic!("it is not on SQLite") };
        let chains = SqliteReader::open(path).await.unwrap().chains().await.unwrap();
        let mut origins = chains.into_iter().map(|row| row.origin);
        origins.find(|origin| origin.ends_with("/0/0")).expect("a gate has written")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("s/agent.sock")
    }

    /// Starts the process.
    pub fn start(&self) -> Sidecar {
        self.start_under(&[])
    }

    /// Starts the process with this file instead.
    pub fn start_with(&self, config: &str) -> Sidecar {
        self.launch(&[], config, &[])
    }

    /// Starts the process under another program.
    pub fn start_under(&self, before: &[&str]) -> Sidecar {
        self.launch(before, "wicketgate.yaml", &[])
    }

    /// The same, with these options.
    pub fn start_with_options(&self, before: &[&str], options: &[&str]) -> Sidecar {
        self.launch(before, "wicketgate.yaml", options)
    }

    fn launch(&self, before: &[&str], config: &str, options: &[&str]) -> Sidecar {
        let number = self.starts.fetch_add(1, Ordering::SeqCst) + 1;
        let log = self.path(&format!("stderr.{number}"));
        let words: Vec<&str> = before.iter().copied().chain([program::gate()]).collect();
        let child = Command::new(words[0])
            .args(&words[1..])
            .args(["serve", "--config", config])
            .args(options)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("`{}` (tests/run installs it): {e}", words[0]));
        Sidecar { child, log, socket: self.socket(), receipts: self.receipts.clone(), done: None }
    }

    /// Starts it and waits until it serves.
    pub async fn serve(&self) -> Sidecar {
        let mut sidecar = self.start();
        sidecar.ready().await;
        sidecar
    }
}

/// A process of `wicketgate serve`. Killed when dropped.
pub struct Sidecar {
    child: Child,
    log: PathBuf,
    socket: PathBuf,
    receipts: Receipts,
    done: Option<ExitStatus>,
}

impl Sidecar {
    /// What it wrote to standard error.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn operator(&self) -> Option<String> {
        let said = self.said();
        let line = said.lines().find(|line| line.contains("operator API listening"))?;
        let at = line.find("127.0.0.1:")?;
        let digits = &line[at..];
        let end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'));
        Some(digits[..end.unwrap_or(digits.len())].to_owned())
    }

    /// Where operators are answered.
    pub fn door(&self) -> String {
        format!("http://{}", self.operator().expect("operators are served"))
    }

    /// `/readyz`: status line and body; none while nobody listens.
    pub async fn readiness(&self) -> Option<(bool, String)> {
        self.probed("/readyz").await
    }

    /// `/startupz`, in the same way.
    pub async fn startup(&self) -> Option<(bool, String)> {
        self.probed("/startupz").await
    }

    async fn probed(&self, path: &str) -> Option<(bool, String)> {
        let mut stream = tokio::net::TcpStream::connect(self.operator()?).await.ok()?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        let read = stream.read_to_string(&mut text);
        tokio::time::timeout(std::time::Duration::from_secs(2), read).await.ok()?.ok()?;
        Some((text.starts_with("HTTP/1.1 200"), text))
    }

    /// What it counts.
    pub async fn metrics(&self) -> String {
        let at = self.operator().expect("operators are served");
        let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Waits until it serves.
    pub async fn ready(&mut self) {
        let began = std::time::Instant::now();
        loop {
            if self.readiness().await.is_some_and(|(ready, _)| ready) {
                return;
            }
            if let Some(status) = self.ended() {
                panic!("ended with {status}: {}", self.said());
            }
            assert!(began.elapsed() < crate::waiting::PATIENCE, "not ready: {}", self.said());
            crate::pause().await;
        }
    }

    /// Waits until it says it is not ready, for a reason that contains this.
    pub async fn not_ready(&self, reason: &str) {
        crate::until(std::fmt::from_fn(|f| write!(f, "`{reason}` in {}", self.said())), || async {
            self.readiness().await.is_some_and(|(ready, text)| !ready && text.contains(reason))
        })
        .await;
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.done.is_none() {
            self.done = self.child.try_wait().unwrap();
        }
        self.done
    }

    /// Waits for its end.
    pub async fn end(&mut self) -> ExitStatus {
        let began = std::time::Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(began.elapsed() < crate::waiting::PATIENCE, "did not end: {}", self.said());
            crate::pause().await;
        }
    }

    /// Waits for its end with this exit code.
    pub async fn ends(&mut self, code: i32) {
        let status = self.end().await;
        assert_eq!(status.code(), Some(code), "{status}: {}", self.said());
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// SIGSTOP, and waits until it stands.
    pub fn freeze(&self) {
        crate::waiting::freeze(self.pid());
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = rustix::process::kill_process_group(self.pid(), rustix::process::Signal::KILL);
        let status = self.child.wait().unwrap();
        assert!(self.done.is_some() || status.signal() == Some(9), "{status}: {}", self.said());
        self.done = Some(status);
    }

    /// SIGTERM, and waits for an end in order.
    pub async fn stop(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        self.ends(0).await;
    }

    pub async fn open(&self) -> Agent {
        match Agent::try_open(&self.socket, &self.receipts).await {
            Ok(agent) => agent,
            Err(status) => panic!("{status:?}: {}", self.said()),
        }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = rustix::process::kill_process_group(self.pid(), rustix::process::Signal::KILL);
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.said());
        }
    }
}
