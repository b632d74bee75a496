//! 64 agents that call without end, whatever happens to the gate.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt as _;
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_client::GateClient;
use wicketgate_support::agent::channel;
use wicketgate_support::bench::tool::body;

use crate::tool::{FAST, SLOW};

pub const CALLERS: usize = 64;
/// How many of them use the slow tool.
const PATIENT: usize = 4;
/// Connections; callers share them evenly.
const CONNECTIONS: usize = 8;
/// Calls of a run; one with the slow tool has fewer.
const CALLS: usize = 300;
const SLOW_CALLS: usize = 10;
/// What takes longer is not an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Before something is asked for again.
const AGAIN: Duration = Duration::from_millis(100);
/// Codes that shed load.
const SHED: [&str; 2] = ["overloaded", "limit.exceeded"];
/// Codes that a gate which dies or begins may give, and those of a connection that broke.
const AROUND: [&str; 7] = [
    "connection",
    "shutdown",
    "not_ready",
    "ledger.unavailable",
    "ledger.unknown",
    "call.unknown",
    "run.sealed",
];
/// Those of them that stay as they are: the outcome is lost, or the seal that is asked for again was made.
const FINAL: [&str; 2] = ["call.unknown", "run.sealed"];

/// How a call was answered at last.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A result; the first bytes of the hash in its receipt.
    Completed(u64),
    /// `call.unknown`.
    Unknown,
    /// Another code.
    Refused,
}

/// A run as its caller saw it. Its calls are `c0`, `c1` and so on.
#[derive(Debug)]
pub struct RunSeen {
    pub id: String,
    pub answers: Vec<Answer>,
    /// Entries that the seal counted, if its answer arrived.
    pub entries: Option<u64>,
}

/// What was answered in one window.
#[derive(Debug, Default)]
pub struct Answers {
    /// Of the fast tool, from the first time a call was made.
    pub took: Vec<Duration>,
    /// Of the slow tool.
    pub slow: u64,
    /// Refusals that shed load, by code.
    pub shed: BTreeMap<String, u64>,
    /// Refusals of calls that were made while the gate died or began.
    pub around: BTreeMap<String, u64>,
    /// All others.
    pub wrong: BTreeMap<String, u64>,
}

/// What all callers share.
pub struct Callers {
    /// Each connects again after an end of the gate.
    connections: Vec<Channel>,
    answers: Mutex<Answers>,
    sealed: Mutex<Option<String>>,
    stop: AtomicBool,
    /// Ends of the gate that began, and those after which it is ready again.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Callers {
    pub fn new(socket: &Path) -> Self {
        Self {
            connections: (0..CONNECTIONS).map(|_| channel(socket)).collect(),
            answers: Mutex::default(),
            sealed: Mutex::default(),
            stop: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// Ends the gate and begins it again; how long that takes.
    pub fn disturbed(&self, ends: impl FnOnce()) -> Duration {
        let began = Instant::now();
        self.begun.fetch_add(1, Ordering::SeqCst);
        ends();
        self.ended.fetch_add(1, Ordering::SeqCst);
        began.elapsed()
    }

    /// Each caller seals its run after the call that it is in, and ends.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// What was answered since this was last asked for.
    pub fn answers(&self) -> Answers {
        std::mem::take(&mut *self.answers.lock())
    }

    /// The run that was sealed last.
    pub fn sealed(&self) -> Option<String> {
        self.sealed.lock().clone()
    }

    /// One caller: run after run.
    pub async fn call_on(self: Arc<Self>, name: usize) -> Vec<RunSeen> {
        let (tool, calls) = if name < PATIENT { (SLOW, SLOW_CALLS) } else { (FAST, CALLS) };
        let client = GateClient::new(self.connections[name % CONNECTIONS].clone());
        let mut runs = Vec::new();
        // The first runs are of different lengths: runs end evenly over time, and the first soon.
        let mut calls_now = 1 + calls * name / CALLERS;
        while !self.stopping() {
            let opening = pb::OpenRunRequest { model: "gpt-5-mini".into(), ..Default::default() };
            let open = || {
                let (mut client, opening) = (client.clone(), opening.clone());
                async move { client.open_run(opening).await }
            };
            let Ok(opened) = self.insist(open).await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let run = Run { callers: &self, client: client.clone(), token: opened.run_token };
            let mut seen = RunSeen { id: opened.run_id, answers: Vec::new(), entries: None };
            while seen.answers.len() < calls_now && !self.stopping() {
                let answer = run.call(tool, seen.answers.len()).await;
                seen.answers.push(answer);
            }
            seen.entries = run.seal().await;
            *self.sealed.lock() = Some(seen.id.clone());
            runs.push(seen);
            calls_now = calls;
        }
        runs
    }

    /// Asks again and again until there is an answer that asking again would not change.
    async fn insist<T, F>(&self, ask: impl Fn() -> F) -> Result<T, String>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        // What is asked for again after an end is still a request that met it.
        let before = [&self.begun, &self.ended].map(|count| count.load(Ordering::SeqCst));
        loop {
            let code = match tokio::time::timeout(PATIENCE, ask()).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => code(&status),
                Err(_) => "no answer".to_owned(),
            };
            let dying = before[0] != before[1] || self.begun.load(Ordering::SeqCst) != before[0];
            self.refused(&code, dying);
            let passes = SHED.contains(&code.as_str()) || AROUND.contains(&code.as_str());
            if !passes || FINAL.contains(&code.as_str()) {
                return Err(code);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn refused(&self, code: &str, dying: bool) {
        let mut answers = self.answers.lock();
        let by_code = if SHED.contains(&code) {
            &mut answers.shed
        } else if dying && AROUND.contains(&code) {
            &mut answers.around
        } else {
            &mut answers.wrong
        };
        *by_code.entry(code.to_owned()).or_default() += 1;
    }
}

/// The code that the gate gave; a status without one is not the gate's.
fn code(status: &Status) -> String {
    status.get_details_error_info().map_or_else(|| "connection".to_owned(), |info| info.reason)
}

/// An open run.
struct Run<'a> {
    callers: &'a Callers,
    client: GateClient<Channel>,
    token: String,
}

impl Run<'_> {
    fn with<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let token = format!("Bearer {}", self.token).parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        request
    }

    /// One call, made again by its id until it is answered.
    async fn call(&self, tool: &str, n: usize) -> Answer {
        let began = Instant::now();
        let message = pb::ExecuteToolRequest {
            tool: tool.to_owned(),
            arguments: body(256).to_vec(),
            call_id: format!("c{n}"),
            wait_ms: 0,
            ..pb::ExecuteToolRequest::default()
        };
        let ask = || {
            let (mut client, request) = (self.client.clone(), self.with(message.clone()));
            async move { client.execute_tool(request).await }
        };
        let answer = match self.callers.insist(ask).await {
            Ok(answer) => {
                let receipt = answer.receipt.expect("an answer has a receipt");
                Answer::Completed(u64::from_str_radix(&receipt.hash[..16], 16).unwrap())
            }
            Err(code) if code == "call.unknown" => Answer::Unknown,
            Err(_) => Answer::Refused,
        };
        let mut answers = self.callers.answers.lock();
        match tool {
            SLOW => answers.slow += 1,
            _ => answers.took.push(began.elapsed()),
        }
        answer
    }

    /// Seals it. A seal whose answer was lost is found done when it is asked for again.
    async fn seal(&self) -> Option<u64> {
        let ask = || {
            let (mut client, request) = (self.client.clone(), self.with(pb::SealRunRequest {}));
            async move { client.seal_run(request).await }
        };
        self.callers.insist(ask).await.ok().map(|sealed| sealed.entries)
    }
}
