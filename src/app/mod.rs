//! The composition root: builds the parts, wires them, runs them, drains them in order.
//!
//! Only this folder constructs parts; no other folder knows which store, which engine or which
//! listener it works with. Start-up never waits for the store: listeners come up at once and answer
//! `not_ready` until a slot is held, its chain recovered and a policy in force.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::replay::environment::RecordedClock;
use crate::replay::fork::Forked;
use crate::replay::player::Player;
use crate::serve::Readiness;
use crate::telemetry::MetricsSource;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::setup::{self, TelemetryGuard};

mod anchors;
pub(crate) mod approvers;
mod backtest;
mod bounds;
mod break_glass;
pub mod call_input;
mod canary;
mod certificates;
mod checked;
mod constitution;
mod control;
mod descriptors;
mod enrolment;
mod error;
mod evidence;
mod expirations;
pub mod fleet;
mod health;
mod hub;
mod hub_reload;
pub mod index;
pub mod lint;
pub mod listen;
mod lists;
pub mod named;
pub mod never;
mod opening;
mod operators;
mod policy;
mod reaper;
mod reload;
mod running;
mod spare;
mod tools;
mod versions;
mod writer;

pub use error::{Error, LedgerError, System};
pub use hub::hub;

/// Between two attempts to record the opening of the gate.
const PAUSE: Duration = Duration::from_millis(200);

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

/// The parts that replace the outside world in a replay.
#[derive(Clone, Debug)]
pub struct ReplayParts {
    /// Matches every call with its recorded call.
    pub player: Arc<Player>,
    /// The recorded time.
    pub clock: Arc<RecordedClock>,
}

/// How much of a recording a gate plays.
#[derive(Debug)]
enum ReplayExtent {
    /// The whole session: every call has to be in the recording.
    Whole(ReplayParts),
    /// Its beginning, to one run of an ordinary gate.
    Fork(Arc<Forked>),
}

/// A request to the running gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GateRequest {
    Stop,
    Reload,
}

/// A gate in this process, on the runtime it was started in. It handles no signal of the process
/// and writes nothing to standard output. Dropped, it drains and ends by itself, as far as its
/// runtime lets it.
#[derive(Debug)]
pub struct Gate {
    requests: mpsc::Sender<GateRequest>,
    readiness: watch::Receiver<Readiness>,
    agents: Vec<SocketAddr>,
    operators: SocketAddr,
    metrics: Arc<Metrics>,
    supervised: Option<JoinHandle<Result<Ended, Error>>>,
}

/// Requests to the gate that wait at most: further ones would only repeat them.
const ASKS: usize = 64;

impl Gate {
    /// Checks the configuration and everything it names, and binds the listeners. It is ready once
    /// [`Self::readiness`] says so.
    ///
    /// # Errors
    /// It did not start; nothing is served.
    pub async fn start(config: Config) -> Result<Self, Error> {
        Self::start_with(config, None).await
    }

    /// The same, but its tools, its clock and the recorded calls come from a recording. It does not
    /// read the tools of the configuration.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn replay(config: Config, stage: ReplayParts) -> Result<Self, Error> {
        Self::start_with(config, Some(ReplayExtent::Whole(stage))).await
    }

    /// The same as [`Self::start`], but one run continues a recording.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn fork(config: Config, forked: Arc<Forked>) -> Result<Self, Error> {
        Self::start_with(config, Some(ReplayExtent::Fork(forked))).await
    }

    async fn start_with(config: Config, extent: Option<ReplayExtent>) -> Result<Self, Error> {
        let checking = tokio::task::spawn_blocking(|| checked::check(config, extent));
        let checked = checking.await.map_err(System::from)??;
        let unfit = tools::look(&checked.1).await;
        if !unfit.is_empty() {
            return Err(Error::Config(unfit));
        }
        let (sender, requests) = mpsc::channel(ASKS);
        let metrics = Arc::clone(&checked.0.metrics);
        let started = running::start(checked, requests).await?;
        let running::Started { readiness, agents, operators, supervised } = started;
        let supervised = Some(supervised);
        Ok(Self { requests: sender, readiness, agents, operators, metrics, supervised })
    }

    /// Whether calls can be governed, now and from now on.
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.clone()
    }

    /// Waits until calls can be governed; false: the gate ended before.
    pub async fn ready(&self) -> bool {
        self.readiness().wait_for(|now| now.ready).await.is_ok()
    }

    /// TCP addresses where agents connect, with the ports the system chose.
    pub fn agents(&self) -> &[SocketAddr] {
        &self.agents
    }

    /// Where operators look.
    #[must_use]
    pub const fn operators(&self) -> SocketAddr {
        self.operators
    }

    /// Its metrics, as `/metrics` shows them.
    #[must_use]
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Asks the gate to drain and to end; a second call ends it without waiting for calls on the
    /// road.
    pub fn stop(&self) {
        // The gate may have ended already and dropped the receiver.
        self.requests.try_send(GateRequest::Stop).ok();
    }

    /// Asks it to read the configuration and everything it names again. What is refused is logged, and the
    /// old state stays in force.
    pub fn reload(&self) {
        self.requests.try_send(GateRequest::Reload).ok();
    }

    /// Waits until it ended. May be dropped and asked again.
    ///
    /// # Errors
    /// It could not open its ledger for calls.
    pub async fn wait(&mut self) -> Result<Ended, Error> {
        let Some(supervised) = &mut self.supervised else { return Ok(Ended::Stopped) };
        let ended = supervised.await;
        self.supervised = None;
        ended.unwrap_or_else(|lost| Err(System::from(lost).into()))
    }
}

/// Logs to standard error and, if configured, telemetry to a collector; until the guard is flushed.
///
/// # Errors
/// The level or the collector cannot be understood, or this process already has a logger.
pub fn log(config: &Config, json: bool) -> Result<TelemetryGuard, Error> {
    let otlp = config.telemetry.otlp.as_ref().map(|otlp| {
        let invalid = |(field, why)| Error::wrong(format!("telemetry.otlp.{field}: {why}"));
        otlp.exporter().map_err(invalid)
    });
    let guard = setup::init(&config.telemetry.log, json, otlp.transpose()?.as_ref());
    Ok(guard.map_err(System::from)?)
}

/// Runs the gate until a signal or a fatal end.
///
/// # Errors
/// It did not start; nothing was served.
pub fn serve(config: Config, json_logs: bool) -> Result<Ended, Error> {
    to_the_end(config, json_logs, until_signalled)
}

/// Runs this with logs and telemetry, until it ends. The work hands over its metrics.
fn to_the_end<F: Future<Output = Result<Ended, Error>>>(
    config: Config,
    json_logs: bool,
    work: impl FnOnce(Config, MetricsSource) -> F,
) -> Result<Ended, Error> {
    let guard = log(&config, json_logs)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(System::from)?;
    // WHY boxed: as in `cli::block_on`.
    let work: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(work(config, guard.metrics()));
    let ended = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    guard.flush();
    ended
}

async fn until_signalled(config: Config, exported: MetricsSource) -> Result<Ended, Error> {
    // Before anything else: a signal while the gate starts is not to kill it half built.
    let mut signals = Signals::install().map_err(System::from)?;
    descriptors::raise(&config);
    let mut gate = Gate::start(config).await?;
    exported.set(&gate.metrics);
    loop {
        tokio::select! {
            biased;
            ended = gate.wait() => return ended,
            ask = signals.next() => match ask {
                GateRequest::Stop => gate.stop(),
                GateRequest::Reload => gate.reload(),
            },
        }
    }
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

    async fn next(&mut self) -> GateRequest {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => GateRequest::Stop,
            _ = self.interrupt.recv() => GateRequest::Stop,
            _ = self.hangup.recv() => GateRequest::Reload,
        }
    }
}
