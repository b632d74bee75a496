//! One gate: the files it needs, and the process.

use std::net::SocketAddr;
use std::ops::Deref;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use wicketgate_crypto::keys::SecretKey;
use wicketgate_crypto::openssh;
use wicketgate_crypto::ssh::SshKey;
use wicketgate_gate::ledger::sqlite::SqliteReader;
use wicketgate_gate::ledger::store::LedgerReader as _;
use wicketgate_record::clock::SystemEntropy;

use parking_lot::Mutex;

use crate::agent::{Agent, Receipts};
use crate::checker::Database;
use crate::files::{Files, manifest, this_user};
use crate::program;
use crate::ran::Ran;
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
    Ran::gate(dir, args).ok().out
}

/// Everything one sidecar needs, in a directory of its own.
pub struct Estate {
    files: Files,
    pub database: Database,
    pub receipts: Receipts,
}

impl Deref for Estate {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Estate {
    /// On a SQLite file.
    pub fn sqlite(tool: &Tool) -> Estate {
        let files = Files::new();
        let database = Database::Sqlite(files.path("state/ledger.sqlite"));
        Self::furnish(files, database, &json!({"sqlite": {}}), tool)
    }

    /// On Postgres; the sidecar connects by `url`, the checker reads by `admin`.
    pub fn postgres(tool: &Tool, url: &str, admin: &str, slots: &str) -> Estate {
        let database = Database::Postgres(admin.to_owned());
        let ledger = json!({"postgres": {"url": url, "slots": slots}});
        Self::furnish(Files::new(), database, &ledger, tool)
    }

    fn furnish(files: Files, database: Database, ledger: &Value, tool: &Tool) -> Estate {
        let estate = Estate { files, database, receipts: Receipts::default() };
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
            "agents": [{"manifest": "agent.yaml", "callers": [this_user()]}],
            "tools": tools,
            "limits": {},
            // Tests of other things count entries of their own.
            "self_test": {"at_start": false},
            "telemetry": {"log": "info"},
        });
        std::fs::create_dir(estate.path("s")).unwrap();
        estate.write_json("wicketgate.yaml", &config);
        estate
    }

    /// Writes and signs the manifest.
    pub fn manifest(&self, version: &str, signer: &str, edit: impl FnOnce(String) -> String) {
        let tools: Vec<Value> =
            GRANTED.iter().map(|name| json!({"name": name, "tier": "T1"})).collect();
        let mut manifest = manifest(
            "test-agent",
            json!({
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["test-model"]},
                "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
                "tools": tools,
            }),
        );
        manifest["metadata"]["version"] = json!(version);
        let text = edit(serde_json::to_string_pretty(&manifest).unwrap());
        self.write("agent.yaml", text);
        self.run(&["manifest", "sign", "agent.yaml", "--key", &key(signer)]);
    }

    /// Writes and signs the bundle.
    pub fn bundle(&self, version: &str, rules: &str, signer: &str) {
        let _ = std::fs::remove_dir_all(self.path("bundle"));
        self.write("bundle/agent/main.rego", rules);
        self.write("bundle/data/many.json", format!("[{}0]", "0,".repeat(1999)));
        let named = ["--name", "test", "--version", version];
        let sign = ["policy", "sign", "bundle", "--key", &key(signer)];
        self.run(&[&sign[..], &named[..]].concat());
    }

    /// What it connects to the database by.
    pub fn writer_url(&self) -> String {
        let config = self.read_json("wicketgate.yaml");
        config["ledger"]["postgres"]["url"].as_str().unwrap().to_owned()
    }

    /// The name of the gate's log in its SQLite file, before any loss was accepted.
    pub async fn origin(&self) -> String {
        let Database::Sqlite(path) = &self.database else { panic!("it is not on SQLite") };
        let chains = SqliteReader::open(path).await.unwrap().chains().await.unwrap();
        let mut origins = chains.into_iter().map(|row| row.origin);
        origins.find(|origin| origin.ends_with("/0/0")).expect("a gate has written")
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
        let words: Vec<&str> = before.iter().copied().chain([program::gate()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["serve", "--config", config]).args(options);
        command.current_dir(&self.files);
        Sidecar::start(command, self.log(), self.socket(), self.receipts.clone())
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
    /// How much of its log [`Self::hear`] has read.
    read: Mutex<usize>,
}

impl Sidecar {
    /// Starts a command that runs a gate, which writes this log and listens on this socket.
    #[track_caller]
    pub fn start(mut command: Command, log: PathBuf, socket: PathBuf, receipts: Receipts) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?} (tests/run installs what is missing): {e}"));
        Self { child, log, socket, receipts, done: None, read: Mutex::new(0) }
    }

    /// Waits until it says that it serves.
    #[track_caller]
    pub fn serving(self) -> Self {
        self.hear("that it is ready", |line| is_ready(line).then_some(()));
        self
    }

    /// As [`Self::serving`], for tests with a runtime.
    pub async fn served(self) -> Self {
        let began = Instant::now();
        while !self.said().lines().any(is_ready) {
            assert!(!self.gone(), "ended: {}", self.said());
            assert!(began.elapsed() < crate::waiting::PATIENCE, "not ready: {}", self.said());
            crate::pause().await;
        }
        self
    }

    /// The next line of its log for which `found` has something.
    #[track_caller]
    pub fn hear<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let said = self.said();
            let mut read = self.read.lock();
            while let Some(length) = said[*read..].find('\n') {
                let line = &said[*read..*read + length];
                *read += length + 1;
                if let Some(found) = found(line) {
                    return found;
                }
            }
            drop(read);
            assert!(!self.gone(), "ended before {what}: {said}");
            assert!(began.elapsed() < crate::waiting::PATIENCE, "waited for {what}: {said}");
            crate::waiting::pause_thread();
        }
    }

    /// Whether the process has ended; its status stays to be asked for.
    fn gone(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        stat.map_or(true, |stat| {
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
        })
    }
    /// What it wrote to standard error.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The address in the first line of its log that has this text.
    pub fn address(&self, line: &str) -> Option<SocketAddr> {
        let said = self.said();
        let line = said.lines().find(|said| said.contains(line))?;
        let digits = &line[line.find("127.0.0.1:").or_else(|| line.find("0.0.0.0:"))?..];
        let end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'));
        digits[..end.unwrap_or(digits.len())].parse().ok()
    }

    /// Where operators connect.
    #[track_caller]
    pub fn operators(&self) -> SocketAddr {
        self.address("operator API listening").unwrap_or_else(|| panic!("{}", self.said()))
    }

    /// Where agents connect that have a token or a certificate.
    #[track_caller]
    pub fn agents(&self) -> SocketAddr {
        self.address("agent API listening").unwrap_or_else(|| panic!("{}", self.said()))
    }

    /// Where operators are answered.
    pub fn operator_url(&self) -> String {
        format!("http://{}", self.operators())
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
        let mut stream =
            tokio::net::TcpStream::connect(self.address("operator API listening")?).await.ok()?;
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
        let mut stream = tokio::net::TcpStream::connect(self.operators()).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Waits until it serves.
    pub async fn ready(&mut self) {
        let began = Instant::now();
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
        let began = Instant::now();
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

    /// As [`Self::stop`], for tests without a runtime.
    #[track_caller]
    pub fn finish(mut self) {
        self.signal(rustix::process::Signal::TERM);
        let began = Instant::now();
        while self.ended().is_none() {
            assert!(began.elapsed() < crate::waiting::PATIENCE, "did not end: {}", self.said());
            crate::waiting::pause_thread();
        }
        let status = self.done.unwrap();
        assert!(status.success(), "{status}: {}", self.said());
    }

    /// Where agents of this machine connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Opens a run.
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

/// Whether a process says in this line that it serves.
fn is_ready(line: &str) -> bool {
    line.contains("readiness") && line.contains("true")
}
