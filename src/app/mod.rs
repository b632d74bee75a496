//! The composition root: builds the parts, wires them, runs them, drains them in order.
//!
//! Everything is constructed here and nowhere else; no other folder knows which store, which engine or
//! which listener it works with. Start-up never waits for the store: listeners come up at once and
//! answer `not_ready` until a slot is held, its chain recovered and a policy in force.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::domain::code::Code;
use crate::enforce::{self, Fault, Road};
use crate::evidence::artifacts::Artifacts;
use crate::identity::callers::{Callers, Trust};
use crate::identity::token::RunTokens;
use crate::ledger::sequencer::Ending;
use crate::ledger::{self, Ledger, RecoveredRun, Status};
use crate::serve::{Faces, Readiness, grpc, operator};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace;
use crate::tool::toolbox::Toolbox;

mod books;
mod policy;
mod versions;

/// Between two tries to put the opening of the gate on the books.
const PAUSE: Duration = Duration::from_millis(200);

/// Why the gate did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration, or something it names, is wrong: everything that is.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// Another process has the ledger.
    #[error("{0}")]
    Taken(String),
    /// The machine did not give what was asked for.
    #[error("{0}")]
    System(String),
}

/// How the gate ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// In order.
    Stopped,
    /// Another writer took the slot.
    Fenced,
    /// The storage or the chain cannot be trusted.
    Broken,
}

/// Everything that is checked before anything is started.
struct Checked {
    config: Config,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tokens: Arc<RunTokens>,
    callers: Arc<Callers>,
    artifacts: Artifacts,
    enrolment: Arc<SecretKey>,
    metrics: Arc<Metrics>,
    policy_trust: crate::policy::activation::Trust,
}

/// Runs the gate until a signal or a fatal end.
///
/// # Errors
/// It did not start; nothing was served.
pub fn serve(config: Config, json_logs: bool) -> Result<Ended, Error> {
    let otlp = config.telemetry.otlp.as_ref().map(|otlp| trace::Otlp {
        endpoint: otlp.endpoint.clone(),
        service_name: "wicketgate".to_owned(),
    });
    let guard = trace::init(&config.telemetry.log, json_logs, otlp.as_ref())
        .map_err(|e| Error::System(e.to_string()))?;
    let checked = check(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::System(e.to_string()))?;
    let ended = runtime.block_on(run(checked));
    runtime.shutdown_timeout(Duration::from_secs(1));
    guard.flush();
    ended
}

/// Loads and checks everything the configuration names; reports all that is wrong.
fn check(config: Config) -> Result<(Checked, Toolbox), Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    private_dir(&config.state)?;
    let tokens = RunTokens::open(&config.state, &*entropy).map(Arc::new);
    let tokens = tokens.map_err(|e| Error::System(e.to_string()))?;
    let mut wrong = Vec::new();
    let manifest_keys = keys(&config.trust.manifest_keys, &mut wrong);
    let policy_keys = keys(&config.trust.policy_keys, &mut wrong);
    let socket = config.listen.socket.as_deref();
    let trust = Trust { keys: &manifest_keys, threshold: config.trust.manifest_threshold, socket };
    let callers = Callers::load(&config.agents, &trust, &tokens, clock.now());
    let bindings = config.bindings(&config::environment);
    let toolbox = bindings.and_then(|bindings| {
        Toolbox::build(bindings, &crate::tool::mcp::Upstreams::default())
            .map_err(|all| all.iter().map(ToString::to_string).collect())
    });
    let (callers, toolbox) = match (callers, toolbox) {
        (Ok(callers), Ok(toolbox)) if wrong.is_empty() => (callers, toolbox),
        (callers, toolbox) => {
            wrong.extend(callers.err().into_iter().flatten().map(|e| e.to_string()));
            wrong.extend(toolbox.err().into_iter().flatten());
            return Err(Error::Config(wrong));
        }
    };
    versions::check(&config.state, &callers).map_err(|e| Error::Config(vec![e]))?;
    let system = |e: String| Error::System(e);
    let artifacts = Artifacts::open(&config.state.join("artifacts"));
    let artifacts = artifacts.map_err(|e| system(e.to_string()))?;
    for manifest in callers.manifests() {
        artifacts
            .put_manifest(&manifest.digest, &manifest.yaml, &manifest.envelope)
            .map_err(|e| system(e.to_string()))?;
    }
    let names = toolbox.iter().map(|tool| tool.facts.name.to_string()).collect::<Vec<_>>();
    let metrics = Arc::new(Metrics::new(names, env!("CARGO_PKG_VERSION"), "source"));
    let checked = Checked {
        enrolment: Arc::new(enrolment_key(&config.state, &*entropy)?),
        policy_trust: crate::policy::activation::Trust {
            keys: policy_keys,
            threshold: config.trust.policy_threshold,
        },
        config,
        clock,
        entropy,
        tokens,
        callers: Arc::new(callers),
        artifacts,
        metrics,
    };
    Ok((checked, toolbox))
}

fn keys(files: &[PathBuf], wrong: &mut Vec<String>) -> Vec<PublicKey> {
    let mut keys = Vec::new();
    for file in files {
        match PublicKey::load_all(file) {
            Ok(more) => keys.extend(more),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    keys
}

fn private_dir(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::System(format!("state directory `{}`: {e}", dir.display())))
}

/// The key that certifies this machine's epoch keys; made the first time, with its public half beside
/// it for verifiers to pin.
fn enrolment_key(state: &Path, entropy: &dyn Entropy) -> Result<SecretKey, Error> {
    let path = state.join("enrolment.key");
    if !path.exists() {
        let key = SecretKey::generate(entropy);
        key.store(&path).map_err(|e| Error::System(e.to_string()))?;
    }
    let key = SecretKey::load(&path).map_err(|e| Error::System(e.to_string()))?;
    // Each time: a process killed between the two files must not leave verifiers without theirs.
    let (public, pem) = (state.join("enrolment.key.pub"), key.public().to_pem());
    if std::fs::read_to_string(&public).ok().as_deref() != Some(pem.as_str()) {
        std::fs::write(public, pem).map_err(|e| Error::System(format!("state directory: {e}")))?;
    }
    Ok(key)
}

/// What the running gate hangs together by.
struct Running {
    stop: CancellationToken,
    ledger: Ledger,
    road: Arc<OnceLock<Arc<Road>>>,
    readiness: watch::Sender<Readiness>,
}

async fn run((checked, toolbox): (Checked, Toolbox)) -> Result<Ended, Error> {
    let checked = Arc::new(checked);
    let stop = CancellationToken::new();
    let signals = Signals::install().map_err(|e| Error::System(e.to_string()))?;
    let books = books::open(&checked).await?;
    let (ledger, writer) = Ledger::new(books.settings, books.parts);
    let (recovered_out, recovered) = oneshot::channel();
    let starting = Readiness { ready: false, reasons: vec!["starting".to_owned()] };
    let (readiness, ready) = watch::channel(starting);
    let road: Arc<OnceLock<Arc<Road>>> = Arc::new(OnceLock::new());
    let writing = tokio::spawn(writer.run(stop.clone(), recovered_out));
    let running = Arc::new(Running { stop, ledger, road, readiness });
    let served = listen(&checked, &running, ready).await?;
    let opening = open_gate(Arc::clone(&checked), toolbox, Arc::clone(&running), recovered);
    let opening = tokio::spawn(opening);
    let ended = supervise(&checked, &running, opening, writing, signals).await;
    served.close().await;
    ended
}

/// Agents' and operators' listeners.
struct Served {
    agents: tokio::task::JoinHandle<()>,
    operators: operator::Running,
    stop: CancellationToken,
}

impl Served {
    async fn close(self) {
        self.stop.cancel();
        drop(self.agents.await);
        drop(tokio::task::spawn_blocking(move || self.operators.join()).await);
    }
}

async fn listen(
    checked: &Checked,
    running: &Running,
    ready: watch::Receiver<Readiness>,
) -> Result<Served, Error> {
    let config = &checked.config;
    let sockets = config.sockets().into_iter().map(grpc::Place::Socket);
    let places = sockets.chain(config.listen.tcp.map(grpc::Place::Tcp)).collect();
    let drain = Duration::from_secs(config.limits.drain_seconds);
    let settings = grpc::Settings { places, drain, ..grpc::Settings::default() };
    let bound = grpc::bind(settings).await.map_err(|e| Error::System(e.to_string()))?;
    let stop = CancellationToken::new();
    let view = operator::View { readiness: ready.clone(), metrics: Arc::clone(&checked.metrics) };
    let settings =
        operator::Settings { addr: config.operator.listen, ..operator::Settings::default() };
    let operators =
        operator::serve(settings, view, stop.clone()).map_err(|e| Error::System(e.to_string()))?;
    for place in bound.addresses() {
        tracing::info!(%place, "agents connect here");
    }
    tracing::info!(place = %operators.address(), "operators look here");
    let faces = Faces {
        road: Arc::clone(&running.road),
        identify: identify(checked),
        readiness: ready,
        metrics: Arc::clone(&checked.metrics),
        clock: Arc::clone(&checked.clock),
        entropy: Arc::clone(&checked.entropy),
    };
    let until = stop.clone();
    let agents = tokio::spawn(async move {
        if let Err(error) = bound.serve(faces, until).await {
            tracing::error!(%error, "agents' listeners ended");
        }
    });
    Ok(Served { agents, operators, stop })
}

fn identify(checked: &Checked) -> crate::serve::Identify {
    let callers = Arc::clone(&checked.callers);
    Arc::new(move |peer, bearer| {
        callers.identify(peer, bearer).map_err(|e| {
            Fault::new(Code::IdentityMissing, e.to_string()).detail("identity.unmapped")
        })
    })
}

/// Keeps readiness true to what is, reloads, and ends in order.
async fn supervise(
    checked: &Arc<Checked>,
    running: &Arc<Running>,
    opening: tokio::task::JoinHandle<Result<(), Error>>,
    mut writing: tokio::task::JoinHandle<Ending>,
    mut signals: Signals,
) -> Result<Ended, Error> {
    let mut status = running.ledger.status();
    let mut opening = Some(opening);
    loop {
        tokio::select! {
            biased;
            ending = &mut writing => return Ok(ended(ending)),
            signal = signals.next() => match signal {
                Signal::Stop => break,
                Signal::Reload => policy::reload(checked, running).await,
            },
            opened = async { opening.as_mut().map(Box::pin)?.await.ok() }, if opening.is_some() => {
                opening = None;
                if let Some(Err(error)) = opened {
                    running.stop.cancel();
                    return Err(error);
                }
                running.tell();
            }
            changed = status.changed() => if changed.is_ok() { running.tell(); },
        }
    }
    Ok(finish(checked, running, writing, signals).await)
}

/// Waits for the chain, then opens the gate: manifests and policy on the books, runs taken up.
async fn open_gate(
    checked: Arc<Checked>,
    toolbox: Toolbox,
    running: Arc<Running>,
    recovered: oneshot::Receiver<Vec<RecoveredRun>>,
) -> Result<(), Error> {
    // The writer ended first; whoever supervises it says why.
    let Ok(runs) = recovered.await else { return Ok(()) };
    let limits = &checked.config.limits;
    let bounds = enforce::Settings {
        in_flight_max: usize::try_from(limits.in_flight_max).unwrap_or(usize::MAX),
        open_runs_max: usize::try_from(limits.open_runs_max).unwrap_or(usize::MAX),
        hold: Duration::from_secs(limits.hold_seconds),
        attested: checked.config.attested.clone(),
        ..enforce::Settings::default()
    };
    let road = Road::new(
        bounds,
        enforce::Parts {
            ledger: running.ledger.clone(),
            toolbox,
            tokens: Arc::clone(&checked.tokens),
            clock: Arc::clone(&checked.clock),
            entropy: Arc::clone(&checked.entropy),
            metrics: Arc::clone(&checked.metrics),
        },
    );
    for manifest in checked.callers.manifests() {
        while let Err(error) = road.bind_manifest(manifest).await {
            if !running.passes(&error) {
                return Err(Error::System(error.to_string()));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    versions::keep(&checked.config.state, &checked.callers).map_err(Error::System)?;
    road.resume(runs, checked.callers.manifests());
    road.summarise();
    drop(running.road.set(Arc::clone(&road)));
    policy::load(&checked, &running, &road).await;
    Ok(())
}

async fn finish(
    checked: &Checked,
    running: &Running,
    mut writing: tokio::task::JoinHandle<Ending>,
    mut signals: Signals,
) -> Ended {
    running.readiness.send_replace(Readiness { ready: false, reasons: vec!["draining".into()] });
    tracing::info!("draining");
    let within = Duration::from_secs(checked.config.limits.drain_seconds);
    if let Some(road) = running.road.get() {
        tokio::select! {
            biased;
            () = road.drain() => {}
            // The next writer closes what is still on the road.
            () = tokio::time::sleep(within) => tracing::warn!("drain time is over"),
            _ = signals.next() => tracing::warn!("second signal: not waiting"),
        }
    }
    running.stop.cancel();
    match tokio::time::timeout(Duration::from_secs(5), &mut writing).await {
        Ok(ending) => ended(ending),
        Err(_late) => Ended::Stopped,
    }
}

fn ended(ending: Result<Ending, tokio::task::JoinError>) -> Ended {
    match ending {
        Ok(Ending::Stopped) => Ended::Stopped,
        Ok(Ending::Fenced(why)) => {
            tracing::error!(%why, "fenced: another writer took the slot");
            Ended::Fenced
        }
        Ok(Ending::Broken(why)) => {
            tracing::error!(%why, "the ledger cannot be trusted; nothing is served");
            Ended::Broken
        }
        Err(error) => {
            tracing::error!(%error, "the ledger's writer panicked");
            Ended::Broken
        }
    }
}

impl Running {
    /// Whether it makes sense to ask the ledger again: the store is away, and somebody still writes.
    fn passes(&self, error: &ledger::Error) -> bool {
        let over = match &*self.ledger.status().borrow() {
            Status::Ready | Status::Starting(_) | Status::Failing(_) | Status::Full => false,
            Status::Fenced(_) | Status::Broken(_) | Status::Stopped => true,
        };
        match error {
            ledger::Error::Unavailable(_) | ledger::Error::Unknown | ledger::Error::Overloaded => {
                !over
            }
            ledger::Error::RunNotOpen | ledger::Error::CallTaken | ledger::Error::CallsOpen => {
                false
            }
        }
    }

    /// Says whether calls can be governed, and if not, everything that is missing.
    fn tell(&self) {
        let mut reasons = Vec::new();
        match &*self.ledger.status().borrow() {
            Status::Ready => {}
            Status::Starting(why) => reasons.push(format!("ledger: starting: {why}")),
            Status::Failing(why) => reasons.push(format!("ledger: failing: {why}")),
            Status::Full => reasons.push("ledger: no space for new calls".to_owned()),
            Status::Fenced(why) => reasons.push(format!("ledger: fenced: {why}")),
            Status::Broken(why) => reasons.push(format!("ledger: broken: {why}")),
            Status::Stopped => reasons.push("ledger: closed".to_owned()),
        }
        match self.road.get() {
            None => reasons.push("the gate is not open yet".to_owned()),
            Some(road) if road.engine().is_none() => {
                reasons.push("policy: no bundle is in force".to_owned());
            }
            Some(_) => {}
        }
        let next = Readiness { ready: reasons.is_empty(), reasons };
        self.readiness.send_if_modified(|now| {
            let changed = *now != next;
            if changed {
                tracing::info!(ready = next.ready, reasons = ?next.reasons, "readiness");
                *now = next;
            }
            changed
        });
    }
}

enum Signal {
    Stop,
    Reload,
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}
