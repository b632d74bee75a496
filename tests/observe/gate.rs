//! One gate as its own process, one tool that counts, and an agent on the socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tonic::Request;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_types::StatusExt as _;
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_client::GateClient;

use crate::waiting::PATIENCE;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wicketgate");

/// A tool over HTTP: answers everything with what it was sent, and counts.
struct Tool {
    port: u16,
    hits: Arc<AtomicUsize>,
}

impl Tool {
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
    dir: tempfile::TempDir,
    tool: Tool,
    child: Option<Child>,
    operator: String,
    /// Lines the gate logs.
    said: Option<mpsc::Receiver<String>>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
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
        files: &[(&str, &str)],
        beside: &[(&str, &str)],
        more: &[Value],
    ) -> Self {
        let dir = tempfile::Builder::new().prefix("wgo").tempdir().unwrap();
        let (child, operator, said) = (None, String::new(), None);
        let mut gate = Self { dir, tool: Tool::start(), child, operator, said };
        for name in ["manifest", "policy", "evidence", "fleet"] {
            gate.run(&["keygen", "--out", name]).ok();
        }
        gate.write("root/src/a.rs", "fn a() {}");
        gate.write("root/src/b.rs", "fn b() {}");
        gate.write("root/secret.txt", "secret");
        beside.iter().for_each(|(name, text)| gate.write(name, text));
        gate.furnish(mode, more);
        gate.write(
            "bundle/bundle.json",
            &format!(r#"{{"name":"main","version":"1.4.2","enforcement":{enforcement}}}"#),
        );
        for (name, text) in files {
            let layer = name.split('/').next().unwrap();
            let text = format!("package wicketgate.{layer}\nimport rego.v1\n{text}\n");
            gate.write(&format!("bundle/{name}"), &text);
        }
        gate.run(&["policy", "sign", "bundle", "--key", "policy"]).ok();
        gate.serve();
        gate
    }

    fn furnish(&self, mode: &str, more: &[Value]) {
        let tools = [("fs.read", "T0"), ("work.do", "T1"), ("work.pay", "T3")];
        let own = tools.iter().map(|(name, tier)| json!({"name": name, "tier": tier}));
        let others = more.iter().map(|tool| json!({"name": tool["name"], "tier": tool["tier"]}));
        let granted: Vec<Value> = own.chain(others).collect();
        let manifest = json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": "observed-agent", "version": "1.0.0", "owner": "tests@example.com"},
            "spec": {"status": "active", "mode": mode, "model": {"provider": "example", "names": ["m"]},
                "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}], "tools": granted,
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
        });
        self.write("agent.yaml", &manifest.to_string());
        self.run(&["manifest", "sign", "agent.yaml", "--key", "manifest"]).ok();
        let http = |name: &str, tier: &str| {
            json!({"name": name, "description": "works", "kind": "http", "tier": tier,
                "input_schema": {"type": "object", "additionalProperties": true},
                "http": {"method": "POST", "url": format!("http://127.0.0.1:{}/do", self.tool.port),
                    "body": "args", "private_addresses": ["127.0.0.0/8"]}})
        };
        let read = json!({"name": "fs.read", "description": "reads", "kind": "file.read", "tier": "T0",
            "read_only": true, "file": {"root": "root", "name": "repo"}});
        let own = [read, http("work.do", "T1"), http("work.pay", "T3")];
        let tools: Vec<Value> = own.into_iter().chain(more.iter().cloned()).collect();
        let config = json!({
            "state": "state", "listen": {"socket": "agent.sock"}, "operator": {"listen": "127.0.0.1:0"},
            "ledger": {"sqlite": {}}, "fleet": {"key": "fleet"},
            "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"]},
            // Generous: these tests share two cores with others.
            "policy": {"bundle": "bundle", "deadline_ms": 5000},
            // Tests of other things count entries of their own.
            "self_test": {"at_start": false},
            // They are denied more often than an agent would be.
            "limits": {"tool_denials_max": null, "alarm_rest_seconds": null},
            "agents": [{"manifest": "agent.yaml",
                "callers": [{"uid": rustix::process::getuid().as_raw()}]}],
            "tools": tools,
        });
        self.write("wicketgate.yaml", &config.to_string());
    }

    fn serve(&mut self) {
        let parent = std::process::id().to_string();
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--config", "wicketgate.yaml", "--parent", &parent])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        self.child = Some(child);
        let (tell, said) = mpsc::channel();
        // Nobody may be kept waiting by a full pipe, whether or not anybody listens here.
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|l| drop(tell.send(l)));
        });
        self.said = Some(said);
        let line = self.logged(|line| line.contains("operator API listening"));
        let at = line.find("127.0.0.1:").unwrap();
        let end = line[at..].find(|c: char| !c.is_ascii_digit() && !".:".contains(c));
        self.operator = line[at..][..end.unwrap_or(line.len() - at)].to_owned();
        self.logged(|line| line.contains("readiness") && line.contains("true"));
    }

    /// It is killed and starts again, and tests itself from now on.
    pub fn restart_and_test_itself(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let text = std::fs::read_to_string(self.path("wicketgate.yaml")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["self_test"] = json!({"at_start": true});
        self.write("wicketgate.yaml", &config.to_string());
        self.serve();
    }

    /// The next line of the gate's log that is like this.
    pub fn logged(&self, like: impl Fn(&str) -> bool) -> String {
        let said = self.said.as_ref().unwrap();
        let mut all = String::new();
        loop {
            let line = said.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("{e}: {all}"));
            if like(&line) {
                return line;
            }
            all.push_str(&line);
            all.push('\n');
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Only its owner may read it: it may be a secret.
    pub fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Requests that reached the tool.
    pub fn hits(&self) -> usize {
        self.tool.hits.load(Ordering::SeqCst)
    }

    /// Runs one command of the program beside the gate.
    pub fn run(&self, args: &[&str]) -> Ran {
        let done = Command::new(PROGRAM).args(args).current_dir(self.dir.path()).output().unwrap();
        Ran::of(&done)
    }

    /// What operators see under this path.
    pub fn operator(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.operator).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Opens a run of this mode.
    pub async fn open(&self, mode: &str) -> Agent {
        let path = self.path("agent.sock");
        let mut gate = GateClient::new(channel(&path));
        let claims = pb::OpenRunRequest {
            model: "m".to_owned(),
            instructions_sha256: vec!["ab".repeat(32)],
            mode: mode.to_owned(),
            ..pb::OpenRunRequest::default()
        };
        let opened = gate.open_run(claims).await.unwrap().into_inner();
        Agent { gate, token: opened.run_token, run: opened.run_id }
    }

    /// Exports a run, and verifies it with what is known of this gate: the report.
    pub fn verified(&self, run: &str) -> Ran {
        let out = format!("evidence-{run}");
        let order = ["evidence", "export", "--config", "wicketgate.yaml", "--run", run];
        let rest = ["--out", &out, "--key", "evidence", "--artifacts", "state/artifacts"];
        self.run(&[&order[..], &rest[..]].concat()).ok();
        let trust = "evidence-key evidence.pub\nmanifest-key manifest.pub\n\
                     enrolment-key state/enrolment.key.pub\n";
        self.write("trust.txt", trust);
        self.run(&["evidence", "verify", "--trust", "trust.txt", "--run", run, &out])
    }

    /// What the checker that is not ours to change says of the books.
    pub fn checked(&self) -> Value {
        let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checker/check_ledger.py");
        let hits = self.hits().to_string();
        let done = Command::new("python3")
            .arg(checker)
            .args(["--sqlite", "state/ledger.sqlite", "--counter", &hits, "--tool", "work.do"])
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        Ran::of(&done).ok().json()
    }
}

fn channel(path: &Path) -> Channel {
    let path = path.to_owned();
    let connect = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move {
            Ok::<_, std::io::Error>(TokioIo::new(tokio::net::UnixStream::connect(path).await?))
        }
    });
    Endpoint::from_static("http://gate").connect_with_connector_lazy(connect)
}

/// What one command said.
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl Ran {
    fn of(done: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { out: text(&done.stdout), err: text(&done.stderr), code: done.status.code() }
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        self.ends(0)
    }

    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

/// One run.
pub struct Agent {
    gate: GateClient<Channel>,
    token: String,
    pub run: String,
}

/// The stable parts of a refusal: code, detail, message.
pub type Refused = (String, String, String);

impl Agent {
    fn with<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let token = format!("Bearer {}", self.token).parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        request
    }

    pub async fn call(&self, tool: &str, id: &str, args: &str) -> Result<String, Refused> {
        let request = pb::ExecuteToolRequest {
            tool: tool.to_owned(),
            arguments: args.as_bytes().to_vec(),
            call_id: id.to_owned(),
            wait_ms: 0,
        };
        match self.gate.clone().execute_tool(self.with(request)).await {
            Ok(answer) => match answer.into_inner().result.and_then(|r| r.body) {
                Some(pb::result::Body::Inline(bytes)) => Ok(String::from_utf8(bytes).unwrap()),
                other => panic!("no inline result: {other:?}"),
            },
            Err(status) => {
                let info = status.get_details_error_info().unwrap();
                let detail = info.metadata.get("detail").cloned().unwrap_or_default();
                Err((info.reason, detail, status.message().to_owned()))
            }
        }
    }

    pub async fn seal(&self) {
        let request = self.with(pb::SealRunRequest::default());
        self.gate.clone().seal_run(request).await.unwrap();
    }
}
