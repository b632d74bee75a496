//! The gate behind the bridge: one that runs already, or one in this process.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Mutex;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::exchange::GateAddress;
use crate::app;
use crate::cli::Exit;
use crate::config::Config;
use crate::telemetry::MetricsSource;

/// How long a gate may take to open; after that, the bridge answers requests with an error.
const OPENING: Duration = Duration::from_secs(20);
/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(20);
/// Looks until a gate is started again after another one was in the way.
const LOOKS: u32 = 25;
/// How long a gate may take to answer a health check.
const HEALTH: Duration = Duration::from_secs(2);
/// What a gate gets to end beyond its own time to drain.
const END: Duration = Duration::from_secs(10);

/// Why the gate could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct NoGate {
    /// For a person.
    pub message: String,
    /// How the process ends if it cannot go on.
    pub exit: Exit,
}

/// Keeps a gate at the socket of a configuration.
#[derive(Debug)]
pub struct Host {
    config: Config,
    /// Takes the metrics of a gate in this process.
    exported: MetricsSource,
    own: Mutex<Option<app::Gate>>,
}

impl Host {
    /// For the gate of this configuration.
    pub fn new(config: Config, exported: MetricsSource) -> Self {
        Self { config, exported, own: Mutex::new(None) }
    }

    /// Returns when a gate answers at the socket; starts one if none does. One that another process
    /// starts meanwhile is as good.
    ///
    /// # Errors
    /// No gate could be started.
    pub async fn ensure(&self, gate: &GateAddress) -> Result<(), NoGate> {
        let mut own = self.own.lock().await;
        let opening = self.open(gate, &mut own);
        match tokio::time::timeout(OPENING, opening).await {
            Ok(done) => done,
            Err(_late) => {
                tracing::warn!("the gate is not ready yet");
                Ok(())
            }
        }
    }

    async fn open(&self, gate: &GateAddress, own: &mut Option<app::Gate>) -> Result<(), NoGate> {
        let mut attempt = 0_u32;
        loop {
            if gate.knock().await.is_ok() {
                if is_ready(gate, own.as_ref()).await {
                    return Ok(());
                }
            } else if attempt.is_multiple_of(LOOKS) {
                if let Some(old) = own {
                    match old.wait().now_or_never() {
                        Some(ended) => tracing::warn!(?ended, "the gate ended"),
                        None => return Ok(()),
                    }
                }
                *own = self.start().await?;
            }
            attempt = attempt.wrapping_add(1);
            tokio::time::sleep(BETWEEN).await;
        }
    }

    /// Starts a gate in this process; `None` if another process has the ledger and will answer at
    /// the socket.
    async fn start(&self) -> Result<Option<app::Gate>, NoGate> {
        match app::Gate::start(self.config.clone()).await {
            Ok(gate) => {
                self.exported.set(gate.metrics());
                Ok(Some(gate))
            }
            Err(app::Error::Taken(why)) => {
                tracing::info!(%why, "another gate already runs");
                Ok(None)
            }
            Err(app::Error::Config(problems)) => {
                Err(NoGate { message: problems.join("\n"), exit: Exit::Config })
            }
            Err(error @ app::Error::System(_)) => {
                Err(NoGate { message: error.to_string(), exit: Exit::Invalid })
            }
        }
    }

    /// Ends the gate if it is ours, in order.
    pub async fn stop(&self) {
        let Some(mut gate) = self.own.lock().await.take() else { return };
        gate.stop();
        let drain = Duration::from_secs(self.config.limits.drain_seconds);
        match tokio::time::timeout(drain.saturating_add(END), gate.wait()).await {
            Ok(Ok(app::Ended::Stopped)) => {}
            Ok(ended) => tracing::warn!(?ended, "the gate ended"),
            Err(_late) => tracing::warn!("the gate did not end in time"),
        }
    }
}

/// Whether the gate accepts calls. A gate without an answer counts as ready.
async fn is_ready(gate: &GateAddress, own: Option<&app::Gate>) -> bool {
    if let Some(own) = own {
        return own.ready().await;
    }
    let endpoint = Endpoint::from_shared(format!("unix:{}", gate.socket.display()));
    let Ok(endpoint) = endpoint.map(|endpoint| endpoint.timeout(HEALTH)) else { return true };
    let Ok(channel) = endpoint.connect().await else { return true };
    let health = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    health.map_or(true, |answer| answer.into_inner().status() == ServingStatus::Serving)
}
