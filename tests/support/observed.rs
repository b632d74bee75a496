//! A gate that is watched: under a bundle that a test writes, in front of a tool that answers what it is asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use wicketgate_faces::serve::pb;
use wicketgate_faces::serve::pb::gate_client::GateClient;

use crate::agent::{Agent, Receipts, channel};
use crate::files::{Files, this_user};
use crate::program::top;
use crate::ran::Ran;
use crate::sidecar::Sidecar;

/// A tool over HTTP: answers everything with what it was sent, and counts. It needs no runtime.
struct Echo {
    port: u16,
    hits: Arc<AtomicUsize>,
}

impl Echo {
    /// Its thread ends with the test's process.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&hits);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &counted);
            }
        });
        Self { port, hits }
    }
}

fn serve(stream: &TcpStream, hits: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        // A connection that was opened and not used is no request.
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    hits.fetch_add(1, Ordering::SeqCst);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
}

/// A directory with everything one gate needs, and the gate.
pub struct Gate {
    files: Files,
    tool: Echo,
    process: Sidecar,
}

impl Gate {
    /// A gate under this bundle: files, and the member `enforcement` of `bundle.json`.
    pub fn start(enforcement: &str, files: &[(&str, &str)]) -> Self {
        Self::of_mode("enforce", enforcement, files)
    }

    /// The same with this `spec.mode` in the agent's manifest.
    pub fn of_mode(mode: &str, enforcement: &str, files: &[(&str, &str)]) -> Self {
        Self::around(mode, enforcement, files, &[], &[])
    }

    /// The same with these files beside its configuration, and these tools more, as it lists them.
    pub fn around(
        mode: &str,
        enforcement: &str,
        bundle: &[(&str, &str)],
        beside: &[(&str, &str)],
        more: &[Value],
    ) -> Self {
        let (files, tool) = (Files::new(), Echo::start());
        files.keys(&["manifest", "policy", "evidence", "fleet"]);
        files.write("root/src/a.rs", "fn a() {}");
        files.write("root/src/b.rs", "fn b() {}");
        files.write("root/secret.txt", "secret");
        // One may be a secret.
        beside.iter().for_each(|(name, text)| files.secret(name, text));
        files.write_json("wicketgate.yaml", &config(&tool, more));
        files.grant("agent.yaml", "observed-agent", spec(mode, more));
        files.write(
            "bundle/bundle.json",
            format!(r#"{{"name":"main","version":"1.4.2","enforcement":{enforcement}}}"#),
        );
        for (name, text) in bundle {
            let layer = name.split('/').next().unwrap();
            let text = format!("package wicketgate.{layer}\nimport rego.v1\n{text}\n");
            files.write(&format!("bundle/{name}"), text);
        }
        files.run(&["policy", "sign", "bundle", "--key", "policy"]);
        let process = process(&files);
        Self { files, tool, process }
    }

    /// It is killed and starts again, and tests itself from now on.
    pub fn restart_and_test_itself(&mut self) {
        self.process.kill();
        self.files.configure(|config| config["self_test"] = json!({"at_start": true}));
        self.process = process(&self.files);
    }

    /// The next line of the gate's log that is like this.
    pub fn logged(&self, like: impl Fn(&str) -> bool) -> String {
        self.process.hear("a line of its log", |line| like(line).then(|| line.to_owned()))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.files.path(name)
    }

    /// Writes a file that only its owner may read: it may be a secret.
    pub fn write(&self, name: &str, text: &str) {
        self.files.secret(name, text);
    }

    /// Requests that reached the tool.
    pub fn hits(&self) -> usize {
        self.tool.hits.load(Ordering::SeqCst)
    }

    /// Runs one command of the program beside the gate.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.files.try_run(args)
    }

    /// What operators see under this path.
    pub fn operator(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.process.operators()).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Opens a run of this mode.
    pub async fn open(&self, mode: &str) -> Agent {
        let mut gate = GateClient::new(channel(self.process.socket()));
        let claims = pb::OpenRunRequest {
            model: "m".to_owned(),
            instructions_sha256: vec!["ab".repeat(32)],
            mode: mode.to_owned(),
            ..pb::OpenRunRequest::default()
        };
        let opened = gate.open_run(claims).await.unwrap().into_inner();
        let receipts = Receipts::default();
        Agent { gate, token: opened.run_token, run: opened.run_id, receipts }
    }

    /// Exports a run, and verifies it with what is known of this gate: the report.
    pub fn verified(&self, run: &str) -> Ran {
        let out = format!("evidence-{run}");
        let order = ["evidence", "export", "--config", "wicketgate.yaml", "--run", run];
        let rest = ["--out", &out, "--key", "evidence", "--artifacts", "state/artifacts"];
        self.files.run(&[&order[..], &rest[..]].concat());
        let trust = "evidence-key evidence.pub\nmanifest-key manifest.pub\n\
                     enrolment-key state/enrolment.key.pub\n";
        self.files.write("trust.txt", trust);
        self.run(&["evidence", "verify", "--trust", "trust.txt", "--run", run, &out])
    }

    /// What the checker that is not ours to change says of the ledger.
    pub fn checked(&self) -> Value {
        let hits = self.hits().to_string();
        let mut checker = Command::new("python3");
        checker.arg(top().join("tests/checker/check_ledger.py"));
        checker.args(["--sqlite", "state/ledger.sqlite", "--counter", &hits, "--tool", "work.do"]);
        Ran::of(checker.current_dir(&self.files)).ok().json()
    }
}

/// Starts it, and waits until it serves. It ends with the process of the test.
fn process(files: &Files) -> Sidecar {
    let parent = std::process::id().to_string();
    let serve = ["serve", "--config", "wicketgate.yaml", "--parent", &parent];
    files.start_as(files.command(&serve)).serving()
}

fn spec(mode: &str, more: &[Value]) -> Value {
    let tools = [("fs.read", "T0"), ("work.do", "T1"), ("work.pay", "T3")];
    let own = tools.iter().map(|(name, tier)| json!({"name": name, "tier": tier}));
    let others = more.iter().map(|tool| json!({"name": tool["name"], "tier": tool["tier"]}));
    json!({
        "mode": mode,
        "model": {"provider": "example", "names": ["m"]},
        "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
        "tools": own.chain(others).collect::<Vec<_>>(),
    })
}

fn config(tool: &Echo, more: &[Value]) -> Value {
    let http = |name: &str, tier: &str| {
        json!({"name": name, "description": "works", "kind": "http", "tier": tier,
            "input_schema": {"type": "object", "additionalProperties": true},
            "http": {"method": "POST", "url": format!("http://127.0.0.1:{}/do", tool.port),
                "body": "args", "private_addresses": ["127.0.0.0/8"]}})
    };
    let read = json!({"name": "fs.read", "description": "reads", "kind": "file.read", "tier": "T0",
        "read_only": true, "file": {"root": "root", "name": "repo"}});
    let own = [read, http("work.do", "T1"), http("work.pay", "T3")];
    let tools: Vec<Value> = own.into_iter().chain(more.iter().cloned()).collect();
    json!({
        "state": "state", "listen": {"socket": "agent.sock"}, "operator": {"listen": "127.0.0.1:0"},
        "ledger": {"sqlite": {}}, "fleet": {"key": "fleet"},
        "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"]},
        // Generous: these tests share two cores with others.
        "policy": {"bundle": "bundle", "deadline_ms": 5000},
        // Tests of other things count entries of their own.
        "self_test": {"at_start": false},
        // They are denied more often than an agent would be.
        "limits": {"tool_denials_max": null, "alarm_rest_seconds": null},
        "agents": [{"manifest": "agent.yaml", "callers": [this_user()]}],
        "tools": tools,
    })
}
