//! Maintains the connection to one server: starts it, compares its tools, restarts it.
//!
//! `Down → Starting → Comparing → Up → Down`. A call needs a connection whose tools were compared
//! with the signed ones since it was made and since the server last announced a change, and at most
//! a minute ago.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Error;
use super::files;
use super::handshake::shake;
use super::link::{McpLink, McpTransport};
use super::list::{self, LIST_BYTES_MAX, Listed};
use super::pin::{self, Pin};
use super::pipe::Pipe;
use super::process::{self, Process, Streams};
use super::remote::Remote;
use super::traffic::Traffic;
use crate::catalog::drift::Drift;
use crate::catalog::server::{Server, Transport};
use crate::clock::Entropy;
use crate::domain::json::Json;
use crate::telemetry::metrics::Metrics;
use crate::tool::net::Resolve;
use crate::tool::sandbox::{Levels, TOGETHER};
use crate::tool::scrub::Scrub;

/// How long a server may take to complete its handshake: the first start may include a download.
const START: Duration = Duration::from_secs(120);
/// How long the list of tools may take.
const LIST: Duration = Duration::from_secs(30);
/// Maximum age of the comparison when a call begins.
const FRESH: Duration = Duration::from_secs(60);
/// The first pause before a restart.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest pause before a restart.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The state of the connection.
#[derive(Clone, Debug)]
pub(super) enum ConnectionState {
    /// There is no connection; with the number of failed attempts in all.
    Down(u64),
    /// The server starts, or the handshake runs.
    Starting,
    /// The tools are being listed, or must be before the next call.
    Comparing,
    /// Calls may run.
    Up(Arc<McpLink>),
    /// The connection is closed for good.
    Closed,
}

/// Maintains one connection.
pub(super) struct ConnectionSupervisor {
    /// The server.
    pub server: Arc<Server>,
    /// Ends the connection for good.
    pub stop: CancellationToken,
    host: ServerHost,
    scrub: Scrub,
    state: watch::Sender<ConnectionState>,
    trouble: Mutex<ConnectionTrouble>,
    pins: Mutex<Pins>,
    started: AtomicBool,
    wanted: Notify,
}

/// The parts that all servers of a process share.
#[derive(Clone)]
pub(super) struct ServerHost {
    /// Source of unguessable ids.
    pub entropy: Arc<dyn Entropy>,
    /// Resolves the names of HTTP servers.
    pub resolve: Arc<dyn Resolve>,
    /// The metrics, once they are set.
    pub metrics: Arc<OnceLock<Arc<Metrics>>>,
    /// All tasks of the connections.
    pub tasks: TaskTracker,
    /// The sandbox levels of this system.
    pub levels: Arc<Levels>,
}

/// The failures so far.
#[derive(Clone, Default, Debug)]
struct ConnectionTrouble {
    failures: u64,
    last: Option<String>,
}

#[derive(Default)]
struct Pins {
    all: Vec<Weak<Pin>>,
    listed: Option<Arc<Listed>>,
}

/// How an attempt ended that had made a connection.
enum Ended {
    /// The gate is stopping.
    Stopped,
    /// The connection is unusable. `steady` if it had worked.
    Lost { steady: bool },
    /// Its tools cannot be compared.
    Useless(Error),
}

impl ConnectionSupervisor {
    /// Creates the keeper without starting the server.
    pub fn new(server: &Arc<Server>, host: ServerHost) -> Arc<Self> {
        Arc::new(Self {
            server: Arc::clone(server),
            stop: CancellationToken::new(),
            host,
            scrub: Scrub::new(&server.secrets()),
            state: watch::Sender::new(ConnectionState::Down(0)),
            trouble: Mutex::default(),
            pins: Mutex::default(),
            started: AtomicBool::new(false),
            wanted: Notify::new(),
        })
    }

    /// Starts the server on the first call of this method.
    pub fn start(self: &Arc<Self>) {
        if !self.started.swap(true, Ordering::AcqRel) {
            self.host.tasks.spawn(Arc::clone(self).keep());
        }
    }

    /// The state of the connection, the number of failed attempts, and the last error.
    pub fn state(&self) -> (ConnectionState, u64, Option<String>) {
        let connection = self.trouble.lock().clone();
        (self.state.borrow().clone(), connection.failures, connection.last)
    }

    /// A connection with compared tools, as soon as there is one. Waits without a limit, so the
    /// caller sets a deadline.
    ///
    /// # Errors
    /// An attempt failed after this call began; nothing was sent.
    pub async fn ready(self: &Arc<Self>) -> Result<Arc<McpLink>, Error> {
        self.start();
        let before = self.trouble.lock().failures;
        let mut state = self.state.subscribe();
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                ConnectionState::Up(link) if link.is_usable() => return Ok(link),
                ConnectionState::Down(failures) if failures > before => {
                    return Err(Error::Unreached(self.server.name.clone()));
                }
                ConnectionState::Closed => return Err(Error::Closed(self.server.name.clone())),
                ConnectionState::Comparing => self.wanted.notify_one(),
                ConnectionState::Up(_) | ConnectionState::Down(_) | ConnectionState::Starting => {}
            }
            if state.changed().await.is_err() {
                return Err(Error::Closed(self.server.name.clone()));
            }
        }
    }

    /// Whether this value contains a secret that the gate gave to the server.
    pub fn shows_secret(&self, value: &Json) -> bool {
        self.scrub.finds(value)
    }

    /// The resources that control groups limit for the server and its processes, if any.
    pub fn together(&self) -> Option<&'static str> {
        let held = |_| self.host.levels.cgroups().is_ok().then_some(TOGETHER);
        self.server.demand().and_then(held)
    }

    /// Adds a pinned tool to compare.
    pub fn watch(&self, pin: &Arc<Pin>) {
        let mut pins = self.pins.lock();
        if let Some(listed) = &pins.listed {
            self.grade(pin, listed);
        }
        pins.all.retain(|pin| pin.strong_count() > 0);
        pins.all.push(Arc::downgrade(pin));
    }

    /// Every pinned tool that differs from what was signed.
    pub fn drifted(&self) -> Vec<(String, Drift)> {
        let pins = self.pins.lock();
        let pins = pins.all.iter().filter_map(Weak::upgrade);
        let mut all: Vec<_> = pins.map(|pin| (pin.tool.clone(), pin.drift())).collect();
        all.retain(|(_, drift)| *drift != Drift::Same);
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup();
        all
    }

    async fn keep(self: Arc<Self>) {
        let mut pause = PAUSE_MIN;
        loop {
            self.state.send_replace(ConnectionState::Starting);
            // The attempt watches for the end of the gate itself, so that it can end the child in
            // order.
            match self.attempt().await {
                Ended::Stopped => break,
                Ended::Lost { steady } => {
                    if steady {
                        pause = PAUSE_MIN;
                    }
                    self.state.send_replace(ConnectionState::Down(self.trouble.lock().failures));
                }
                Ended::Useless(why) => self.failed(&why.to_string()),
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
            if let Some(metrics) = self.host.metrics.get() {
                metrics.upstream_restart(&self.server.name);
            }
        }
        self.state.send_replace(ConnectionState::Closed);
    }

    fn failed(&self, why: &str) {
        let why = self.scrub.text(why);
        tracing::warn!(server = %self.server.name, error = %why, "no connection to the server");
        let mut connection = self.trouble.lock();
        connection.failures = connection.failures.saturating_add(1);
        connection.last = Some(why);
        self.state.send_replace(ConnectionState::Down(connection.failures));
    }

    /// One connection from start to end.
    async fn attempt(&self) -> Ended {
        let traffic = Arc::new(Traffic::new(&*self.host.entropy, &self.host.metrics));
        let wire = match self.open(&traffic).await {
            Ok(wire) => wire,
            Err(why) => return Ended::Useless(why),
        };
        let handshake = tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Error::Stopped),
            handshake = tokio::time::timeout(START, shake(&wire, &traffic)) => {
                handshake.unwrap_or(Err(Error::HandshakeLate))
            }
        };
        let ended = match handshake {
            Err(why) => Ended::Useless(why),
            Ok(negotiated) => {
                let link =
                    McpLink { traffic: Arc::clone(&traffic), wire: wire.clone(), negotiated };
                self.attend(Arc::new(link)).await
            }
        };
        let (ended, orderly) = match ended {
            _ if self.stop.is_cancelled() => (Ended::Stopped, true),
            Ended::Useless(why) => {
                let tail = wire.tail();
                let with_tail = |why| Error::Tail { why: Box::new(why), tail: tail.clone() };
                (Ended::Useless(if tail.is_empty() { why } else { with_tail(why) }), true)
            }
            Ended::Lost { steady } => {
                let why = self.scrub.text(&traffic.reason());
                tracing::warn!(server = %self.server.name, %why, "lost the connection to the server");
                self.trouble.lock().last = Some(why);
                (Ended::Lost { steady }, false)
            }
            Ended::Stopped => (Ended::Stopped, true),
        };
        wire.close(orderly).await;
        ended
    }

    async fn open(&self, traffic: &Arc<Traffic>) -> Result<McpTransport, Error> {
        let (traffic, tasks) = (Arc::clone(traffic), &self.host.tasks);
        match &self.server.transport {
            Transport::Stdio(_) => {
                let most = usize::try_from(self.server.result_bytes_max).unwrap_or(usize::MAX);
                let (server, levels) = (Arc::clone(&self.server), Arc::clone(&self.host.levels));
                // On a blocking thread: a sandbox is tested and handed over.
                let starting = tokio::task::spawn_blocking(move || begin(&server, &levels));
                let started = starting.await??;
                let pipe = Pipe::over(started, traffic, most.max(LIST_BYTES_MAX), tasks);
                Ok(McpTransport::Pipe(pipe))
            }
            Transport::Http(remote) => {
                let resolve = Arc::clone(&self.host.resolve);
                Remote::open(remote, resolve, traffic, tasks).map(McpTransport::Remote)
            }
        }
    }

    /// Compares the tools, opens the connection for calls, and compares again when needed.
    async fn attend(&self, link: Arc<McpLink>) -> Ended {
        let mut steady = false;
        let lost = |steady: bool| Ended::Lost { steady: steady || link.traffic.has_answered() };
        loop {
            self.state.send_replace(ConnectionState::Comparing);
            link.traffic.mark_fresh();
            let listed = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ended::Stopped,
                listed = tokio::time::timeout(LIST, self.listed(&link)) => listed,
            };
            match listed {
                Ok(Ok(listed)) => self.compare(listed),
                Ok(Err(why)) => return Ended::Useless(why),
                Err(_elapsed) => return Ended::Useless(Error::ListLate),
            }
            if link.traffic.is_stale() {
                continue;
            }
            if link.negotiated.says_changes() {
                link.wire.listen();
            }
            self.state.send_replace(ConnectionState::Up(Arc::clone(&link)));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ended::Stopped,
                () = link.traffic.over.cancelled() => return lost(steady),
                () = link.traffic.changed.notified() => continue,
                () = tokio::time::sleep(FRESH) => {}
            }
            steady = true;
            link.traffic.mark_stale();
            self.state.send_replace(ConnectionState::Comparing);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ended::Stopped,
                () = link.traffic.over.cancelled() => return lost(steady),
                () = self.wanted.notified() => {}
            }
        }
    }

    async fn listed(&self, link: &McpLink) -> Result<Listed, Error> {
        if link.negotiated.capabilities.tools.is_none() {
            return Ok(Listed::default());
        }
        list::tools(link).await
    }

    fn compare(&self, listed: Listed) {
        for left_out in &listed.left_out {
            tracing::warn!(server = %self.server.name, "tools left out of the server's list: {left_out}");
        }
        let listed = Arc::new(listed);
        let mut pins = self.pins.lock();
        pins.all.retain(|pin| pin.strong_count() > 0);
        for pin in pins.all.iter().filter_map(Weak::upgrade) {
            self.grade(&pin, &listed);
        }
        pins.listed = Some(listed);
    }

    /// Compares one pin, and logs a change of its grade once.
    fn grade(&self, pin: &Pin, listed: &Listed) {
        let Some(drift) = pin.compare(listed) else { return };
        let (server, tool, grade) = (&self.server.name, &pin.tool, pin::drift_name(&drift));
        match &drift {
            Drift::Same => tracing::info!(%server, %tool, "the tool matches its signed lock again"),
            Drift::Text | Drift::Compatible => {
                tracing::warn!(%server, %tool, grade, "the tool differs from its signed lock");
            }
            Drift::Breaking(what) => {
                tracing::error!(%server, %tool, grade, what = %what.join("; "),
                    "the tool changed in a breaking way: its calls are denied until a new lock is signed");
            }
        }
        if let Some(metrics) = self.host.metrics.get()
            && drift != Drift::Same
        {
            metrics.upstream_drift(grade);
        }
    }
}

/// Starts a child process in the sandbox that it demands, or not at all.
fn begin(server: &Server, levels: &Levels) -> Result<(Process, Streams), Error> {
    let Transport::Stdio(stdio) = &server.transport else { return Err(Error::NoCommand) };
    files::unchanged(server)?;
    let Some(demand) = server.demand() else { return process::start(stdio, None) };
    levels.meet(demand)?;
    process::start(stdio, levels.cgroups().ok())
}

impl std::fmt::Debug for ConnectionSupervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("server", &self.server.name)
            .field("state", &self.state.borrow().as_str())
            .finish_non_exhaustive()
    }
}

impl ConnectionState {
    /// The name of the state, for operators.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Down(_) => "down",
            Self::Starting => "starting",
            Self::Comparing => "comparing",
            Self::Up(_) => "up",
            Self::Closed => "closed",
        }
    }
}
