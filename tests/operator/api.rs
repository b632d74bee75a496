//! A real ledger with an operator API in front of it, and gates that only obey.

use crate::json_entry::body;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use wicketgate::clock::{Clock, SystemClock, SystemEntropy};
use wicketgate::control::{self, OrderReport, Orders, Presence};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::canonical;
use wicketgate::domain::code::Code;
use wicketgate::domain::commitment::{commit, derived};
use wicketgate::domain::digest::{Digest, call_digest};
use wicketgate::domain::id::{CallId, RunId, ToolName};
use wicketgate::domain::json::{Json, Limits};
use wicketgate::index::Index;
use wicketgate::ledger::drafts::DraftWithPayloads;
use wicketgate::ledger::spool::NoJournal;
use wicketgate::ledger::sqlite::{SqliteReader, SqliteStore};
use wicketgate::ledger::store::{LedgerReader, PayloadRow};
use wicketgate::ledger::{self, Ledger, LedgerStatus};
use wicketgate::operator::operators::{Member, Operators, Role};
use wicketgate::operator::{OperatorApi, OperatorParts};
use wicketgate::record::{self, Commitment, Draft, Entry, HexDigest, Kind};
use wicketgate::serve::Readiness;
use wicketgate::serve::console::{ConsoleSettings, OidcSettings};
use wicketgate::serve::operator::{self, OperatorSettings, OperatorView, Running};
use wicketgate::session::SessionStore;
use wicketgate::telemetry::metrics::Metrics;
use wicketgate_support::program;
use wicketgate_support::ran::Ran;

pub const GATE: &str = "wicketgate.dev/default/local/0/0";
pub const EFFECT: &str = r#"{"host":"pay.example.com","kind":"http","method":"POST","path":"/refunds","port":443,"query":[],"scheme":"https"}"#;

pub struct ApiServer {
    pub dir: Arc<tempfile::TempDir>,
    pub ledger: Ledger,
    pub orders: Arc<dyn Orders>,
    pub handler: Arc<OperatorApi>,
    pub address: SocketAddr,
    pub refused: Arc<Mutex<Vec<Code>>>,
    stop: CancellationToken,
    closing: CancellationToken,
    writer: Option<tokio::task::JoinHandle<()>>,
    running: Option<Running>,
    pub ready: watch::Sender<Readiness>,
}

/// What one ledger has, whichever process stands in front of it.
struct Opened {
    dir: Arc<tempfile::TempDir>,
    ledger: Ledger,
    orders: Arc<dyn Orders>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.closing.cancel();
        if let Some(running) = self.running.take() {
            running.join();
        }
    }
}

/// One call to hold.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub run: RunId,
    pub call: &'a str,
    pub tool: &'a str,
    pub tier: &'a str,
    pub args: &'a str,
    /// Seconds from now.
    pub expires: u64,
}

pub fn run_id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

pub fn ask<'a>(run: RunId, call: &'a str, args: &'a str) -> Ask<'a> {
    Ask { run, call, tool: "payments.refund", tier: "T3", args, expires: 600 }
}

/// The names of those who have tokens here, and what they are.
const PEOPLE: [(&str, &[Role]); 6] = [
    ("vera", &[Role::Viewer]),
    ("otto", &[Role::Operator]),
    ("anna", &[Role::Approver]),
    ("aude", &[Role::Auditor]),
    ("paul", &[Role::PolicyAuthor]),
    ("pia", &[Role::PolicyPublisher]),
];

/// What some tests have beside the usual.
#[derive(Default)]
pub struct Extras {
    /// The port; any, if it is 0.
    pub port: u16,
    pub members: Vec<Member>,
    pub oidc: Option<OidcSettings>,
    /// What is read in place of the ledger, and the index of it.
    pub read: Option<(Arc<dyn LedgerReader>, Index)>,
    pub sessions: Option<Arc<dyn SessionStore>>,
}

impl ApiServer {
    pub async fn open() -> Self {
        Self::of("default").await
    }

    /// An operator API that sees the runs of this tenant only; the ledger is the tenant `default`'s.
    pub async fn of(tenant: &str) -> Self {
        Self::timed(tenant, Arc::new(SystemClock::new())).await
    }

    /// As [`Self::of`], by this clock.
    pub async fn timed(tenant: &str, clock: Arc<dyn Clock>) -> Self {
        Self::with(tenant, clock, Extras::default()).await
    }

    /// As [`Self::timed`], with more than usual.
    pub async fn with(tenant: &str, clock: Arc<dyn Clock>, extras: Extras) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.sqlite");
        let store = SqliteStore::open(&path).await.unwrap();
        let metrics = Arc::new(Metrics::new([], "0", "test"));
        let parts = ledger::LedgerParts {
            store: Arc::new(store),
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            signer: Arc::new(SecretKey::generate(&SystemEntropy)),
            log_key: None,
            journal: Box::new(NoJournal),
            lease_file: None,
            metrics: Arc::clone(&metrics),
        };
        let (ledger, writer) = Ledger::new(ledger::LedgerSettings::default(), parts);
        let stop = CancellationToken::new();
        let (recovered_out, recovered) = oneshot::channel();
        let until = stop.clone();
        let writer = tokio::spawn(async move {
            writer.run(until, recovered_out).await;
        });
        recovered.await.unwrap();
        let mut status = ledger.status();
        status.wait_for(|now| *now == LedgerStatus::Ready).await.unwrap();
        let orders: Arc<dyn Orders> =
            Arc::new(control::sqlite::SqliteControl::open(&path).await.unwrap());
        let opened = Opened { dir: Arc::new(dir), ledger, orders, metrics, stop };
        Self::before(opened, (tenant, clock), (Some(writer), extras)).await
    }

    /// Another process in front of the same ledger.
    pub async fn beside(&self) -> Self {
        let opened = Opened {
            dir: Arc::clone(&self.dir),
            ledger: self.ledger.clone(),
            orders: Arc::clone(&self.orders),
            metrics: Arc::new(Metrics::new([], "0", "test")),
            stop: CancellationToken::new(),
        };
        Self::before(opened, ("default", Arc::new(SystemClock::new())), (None, Extras::default()))
            .await
    }

    async fn before(
        opened: Opened,
        (tenant, clock): (&str, Arc<dyn Clock>),
        (writer, extras): (Option<tokio::task::JoinHandle<()>>, Extras),
    ) -> Self {
        let Opened { dir, ledger, orders, metrics, stop } = opened;
        let refused = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&refused);
        let (reader, index) = match extras.read {
            Some(read) => read,
            None => {
                let reader = SqliteReader::open(&dir.path().join("ledger.sqlite")).await.unwrap();
                let index = Index::open(&dir.path().join("console.sqlite")).unwrap();
                (Arc::new(reader) as Arc<dyn LedgerReader>, index)
            }
        };
        let handler = Arc::new(OperatorApi::new(OperatorParts {
            operators: Operators::load(&[people(dir.path()), extras.members].concat()).unwrap(),
            reader,
            orders: Arc::clone(&orders),
            ledger: ledger.clone(),
            vault: None,
            clock,
            entropy: Arc::new(SystemEntropy),
            reject: Arc::new(move |code| seen.lock().push(code)),
            tenant: tenant.to_owned(),
        }));
        handler.allow_index(index);
        if let Some(sessions) = extras.sessions {
            handler.share_sessions(sessions);
        }
        let (ready, readiness) = watch::channel(Readiness::default());
        let settings = settings(extras.port, extras.oidc);
        let view = OperatorView { readiness, metrics };
        let closing = CancellationToken::new();
        let running =
            operator::serve_with(settings, view, Some(Arc::clone(&handler)), closing.clone())
                .unwrap();
        let address = running.address();
        let running = Some(running);
        Self {
            dir,
            ledger,
            orders,
            handler,
            address,
            refused,
            stop,
            closing,
            writer,
            running,
            ready,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Ends the writer in order.
    pub async fn end_writer(&mut self) {
        self.stop.cancel();
        self.writer.take().unwrap().await.unwrap();
    }

    pub async fn open_run(&self, run: RunId) {
        self.open_run_of(run, "refund-agent").await;
    }

    /// Opens a run of the agent of this name.
    pub async fn open_run_of(&self, run: RunId, agent: &str) {
        let label = |k: &str, v: &str| Json::object([("k", Json::from(k)), ("v", Json::from(v))]);
        let data = Json::object([
            ("agent", Json::from(agent)),
            ("version", Json::from("1.2.0")),
            ("manifest", Json::from(Digest::of(&[b"manifest"]).prefixed())),
            ("mode", Json::from("enforce")),
            ("binding", Json::from("claimed")),
            ("labels", vec![label("note", "trust me\u{1b}[2J")].into()),
            ("auth", Json::object([("method", Json::from("uds"))])),
            ("model", Json::from("m")),
            ("instructions", Vec::new().into()),
        ]);
        let draft = Draft { run: Some(run), ..Draft::of(body(Kind::RunOpened, &data)) };
        self.ledger.record(DraftWithPayloads::bare(draft)).await.unwrap();
    }

    /// Holds a call as a gate does; the digest of the call.
    pub async fn hold(&self, ask: Ask<'_>) -> Digest {
        let (tool, call) = (ToolName::parse(ask.tool).unwrap(), CallId::parse(ask.call).unwrap());
        let salt = wicketgate::clock::random32(&SystemEntropy);
        let args = commit(&salt, ask.args.as_bytes());
        let digest = call_digest(&ask.run, &call, &tool, &args);
        let input = format!(r#"{{"effect":{EFFECT}}}"#);
        let seen = commit(&salt, input.as_bytes());
        let reason = Json::object([
            ("code", Json::from("policy.denied")),
            ("detail", Json::from("four_eyes")),
            ("message", Json::from("refunds need a second pair of eyes")),
            ("rule", Json::from("wicketgate.org.require_approval org/main.rego:12")),
        ]);
        let layer = Json::object([
            ("layer", Json::from("org")),
            ("digest", Json::from(Digest::of(&[b"org"]).prefixed())),
        ]);
        let effect = derived(&salt, &[b"effect:", EFFECT.as_bytes()]);
        let expires = SystemClock::new().now().plus(Duration::from_secs(ask.expires));
        let nonce = wicketgate::clock::random16(&SystemEntropy);
        let data = Json::object([
            ("call_digest", Json::from(digest.hex())),
            ("tier", Json::from(ask.tier)),
            ("reasons", vec![reason].into()),
            ("obligations", Vec::new().into()),
            ("layers", vec![layer].into()),
            ("enforced", Json::from(true)),
            ("binding", Json::from("claimed")),
            ("executor", Json::from("sidecar")),
            ("after", Json::from(0)),
            ("engine", Json::from("regorus/0.14.1")),
            ("auth", Json::object([("method", Json::from("uds"))])),
            ("definition", Json::from(Digest::of(&[b"definition"]).prefixed())),
            ("effect", Json::from(hex::encode(effect))),
            ("expires", Json::from(expires.to_string())),
            ("nonce", Json::from(hex::encode(nonce))),
        ]);
        let commitment = |c, role: &str, text: &str| Commitment {
            c: HexDigest(c),
            len: text.len().into(),
            role: record::Role::parse(role).unwrap(),
        };
        let payload = |c, role: &str, text: &str| PayloadRow {
            commitment: c,
            salt,
            role: role.to_owned(),
            media_type: "application/json".to_owned(),
            body: text.as_bytes().to_vec(),
        };
        let draft = Draft {
            run: Some(ask.run),
            call: Some(call),
            tool: Some(tool),
            commit: vec![
                commitment(args, "args", ask.args),
                commitment(seen, "policy_input", &input),
            ],
            ..Draft::of(body(Kind::CallHeld, &data))
        };
        let payloads = vec![payload(args, "args", ask.args), payload(seen, "policy_input", &input)];
        let payloads = payloads.into_iter().filter(|row| row.body.len() <= 16 * 1024).collect();
        self.ledger.record(DraftWithPayloads { draft, payloads, is_audited: false }).await.unwrap();
        digest
    }

    pub async fn end_call(&self, run: RunId, call: &str) {
        self.end_call_because(run, call, "waited too long").await;
    }

    pub async fn end_call_because(&self, run: RunId, call: &str, reason: &str) {
        let data = Json::object([("reason", Json::from(reason))]);
        let call = CallId::parse(call);
        let draft = Draft { run: Some(run), call, ..Draft::of(body(Kind::CallExpired, &data)) };
        self.ledger.record(DraftWithPayloads::bare(draft)).await.unwrap();
    }

    /// What is on the books of this kind.
    pub async fn entries(&self, kind: Kind) -> Vec<Json> {
        let reader = SqliteReader::open(&self.path("ledger.sqlite")).await.unwrap();
        let chains = reader.chains().await.unwrap();
        let mut found = Vec::new();
        for chain in chains {
            let rows = reader.entries(&chain.chain, 0, 10_000).await.unwrap();
            let entries = rows.iter().map(|row| Entry::parse(&row.body).unwrap());
            found.extend(
                entries.filter(|e| e.draft.kind() == kind).map(|e| Json::of(&e.draft.body)),
            );
        }
        found
    }

    /// A gate that shows itself and obeys everything from now on, saying this.
    pub async fn gate(&self, origin: &str, done: &str) -> Gate {
        let done = Json::parse(done.as_bytes(), &Limits::ENTRY).unwrap();
        let (orders, origin) = (Arc::clone(&self.orders), origin.to_owned());
        show(&*orders, &origin, 0).await;
        let task = tokio::spawn(async move {
            let mut seen = 0;
            loop {
                for row in orders.since(seen, 100).await.unwrap() {
                    seen = row.seq;
                    let at = SystemClock::new().now();
                    let report = OrderReport {
                        seq: row.seq,
                        origin: origin.clone(),
                        at,
                        done: done.clone(),
                    };
                    orders.report(&report).await.unwrap();
                }
                show(&*orders, &origin, seen).await;
                tokio::task::yield_now().await;
            }
        });
        Gate(task)
    }

    /// One request over a connection of its own: status, headers, body.
    pub async fn raw(&self, line: &str, headers: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A stream of events has no end: its head is the answer.
        let streams = |answer: &[u8]| {
            let text = String::from_utf8_lossy(answer);
            text.split_once("\r\n\r\n").is_some_and(|(head, _)| head.contains("text/event-stream"))
        };
        while !streams(&answer) && stream.read_buf(&mut answer).await.unwrap() > 0 {}
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head[9..12].parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    /// A stream of events that stays open, behind the head of its answer.
    pub async fn stream(&self, line: &str, headers: &str) -> Events {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut events = Events { stream: BufReader::new(stream), head: String::new() };
        loop {
            let line = events.line().await.unwrap();
            if line.is_empty() {
                return events;
            }
            events.head.push_str(&line);
            events.head.push('\n');
        }
    }

    /// The live feed of one of the people, from after this event or from now on.
    pub async fn live(&self, who: &str, after: Option<&str>) -> Events {
        let after = after.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let headers = format!("Authorization: Bearer {}\r\n{after}", token(who));
        let events = self.stream("/v1/live", &headers).await;
        assert_eq!(events.status(), 200, "{}", events.head);
        events
    }

    /// A request of one of the people.
    pub async fn ask(&self, who: &str, line: &str, body: &str) -> (u16, Value) {
        let token = token(who);
        let headers =
            format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        let (status, _, body) = self.raw(line, &headers, body).await;
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    pub async fn get(&self, who: &str, path: &str) -> (u16, Value) {
        self.ask(who, &format!("GET {path}"), "").await
    }

    pub async fn post(&self, who: &str, path: &str, body: &Value) -> (u16, Value) {
        self.ask(who, &format!("POST {path}"), &body.to_string()).await
    }

    /// Runs the program as one of the people.
    pub async fn command(&self, who: &str, args: &[&str]) -> Ran {
        let mut command = Command::new(program::gate());
        command.args(args).args(["--url", &format!("http://{}", self.address), "--token-file"]);
        command.arg(self.path(&format!("{who}.token")));
        command.current_dir(self.dir.path());
        tokio::task::spawn_blocking(move || Ran::of(&mut command)).await.unwrap()
    }
}

/// One server-sent event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerEvent {
    pub id: String,
    pub name: String,
    pub data: Value,
}

/// An open stream of events.
pub struct Events {
    stream: BufReader<TcpStream>,
    pub head: String,
}

impl Events {
    pub fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    /// The next line, without what the transfer adds: lengths of chunks. `None` at the end.
    async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = self.stream.read_until(b'\n', &mut line).await.unwrap_or(0);
        let text = String::from_utf8(line).unwrap();
        (read > 0).then(|| text.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The next event; comments are none. `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<ServerEvent> {
        let mut event = ServerEvent::default();
        loop {
            let line = self.line().await?;
            if let Some(id) = line.strip_prefix("id: ") {
                id.clone_into(&mut event.id);
            } else if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut event.name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                event.data = serde_json::from_str(data).unwrap();
            } else if line.is_empty() && !event.data.is_null() {
                return Some(event);
            } else if line == "0" {
                // The last chunk.
                return None;
            }
        }
    }

    /// The next event of the feed, which is not about the counters.
    pub async fn event(&mut self) -> Option<ServerEvent> {
        loop {
            let event = self.next().await?;
            if event.name.is_empty() {
                return Some(event);
            }
        }
    }
}

/// Obeys until it is dropped.
pub struct Gate(tokio::task::JoinHandle<()>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Shows a gate as it is now.
pub async fn show(orders: &dyn Orders, origin: &str, seq: u64) {
    show_at(orders, origin, seq, SystemClock::new().now()).await;
}

pub async fn show_at(
    orders: &dyn Orders,
    origin: &str,
    seq: u64,
    at: wicketgate::domain::time::Timestamp,
) {
    let state = Json::object([("ready", Json::from(true))]);
    let (origin, writer) = (origin.to_owned(), "host/1".to_owned());
    orders.show(&Presence { origin, writer, at, seq, state }).await.unwrap();
}

/// A listener at this port, with a console.
fn settings(port: u16, oidc: Option<OidcSettings>) -> OperatorSettings {
    OperatorSettings {
        addr: SocketAddr::from(([127, 0, 0, 1], port)),
        hosts: Vec::new(),
        console: Some(ConsoleSettings { oidc, ..ConsoleSettings::default() }),
        ..OperatorSettings::default()
    }
}

fn people(dir: &Path) -> Vec<Member> {
    let member = |(name, roles): (&str, &[Role])| {
        let token_file = dir.join(format!("{name}.token"));
        std::fs::write(&token_file, token(name)).unwrap();
        std::fs::set_permissions(&token_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let roles: BTreeSet<Role> = roles.iter().copied().collect();
        let (subject, token_file) = (name.to_owned(), Some(token_file));
        Member { subject, roles, token_file, certificate: None, oidc: None }
    };
    PEOPLE.into_iter().map(member).collect()
}

pub fn token(who: &str) -> String {
    format!("{who}-{}", Digest::of(&[who.as_bytes()]).hex())
}

/// An armored signature that says nothing: the gate checks it, not the operator API.
pub const ARMOR: &str =
    "-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAA\n-----END SSH SIGNATURE-----\n";

/// The arguments as they are judged.
pub fn canonical_args(text: &str) -> String {
    let json = Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap();
    String::from_utf8(canonical::bytes(&json)).unwrap()
}
