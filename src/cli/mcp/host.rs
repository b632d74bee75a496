//! The gate behind the bridge: one that runs already, or one of our own.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::exchange::Gate;
use crate::cli::Exit;

/// How long a gate may take to open; then requests are answered with what is missing.
const OPENING: Duration = Duration::from_secs(20);
/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(20);
/// What a gate gets to drain when the client is gone.
const DRAIN: Duration = Duration::from_secs(30);

/// Why there is no gate.
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
    config: PathBuf,
    own: Mutex<Option<Child>>,
}

impl Host {
    /// For the gate of this configuration file.
    pub fn new(config: PathBuf) -> Self {
        Self { config, own: Mutex::new(None) }
    }

    /// Returns when somebody answers at the socket; starts a gate if nobody does. One that another
    /// process starts meanwhile is as good.
    ///
    /// # Errors
    /// None could be started.
    pub async fn ensure(&self, gate: &Gate) -> Result<(), NoGate> {
        let mut own = self.own.lock().await;
        let mut waited = Duration::ZERO;
        let mut started = false;
        while waited < OPENING {
            if gate.knock().await.is_ok() && (!started || serving(gate).await) {
                return Ok(());
            }
            let ended = match own.as_mut() {
                None => None,
                Some(child) => child.try_wait().ok().flatten(),
            };
            match ended {
                Some(status) if started => {
                    *own = None;
                    // 75: another process has the ledger, and its socket will answer.
                    if status.code() != Some(75) {
                        return Err(failed(status));
                    }
                    started = false;
                }
                Some(_) => *own = None,
                None => {}
            }
            if own.is_none() && waited.as_millis().is_multiple_of(500) {
                *own = Some(self.start()?);
                started = true;
            }
            tokio::time::sleep(BETWEEN).await;
            waited = waited.saturating_add(BETWEEN);
        }
        tracing::warn!("the gate is not ready yet");
        Ok(())
    }

    fn start(&self) -> Result<Child, NoGate> {
        let failed = |e: std::io::Error| NoGate {
            message: format!("the gate: {e}"),
            exit: Exit::Unverifiable,
        };
        let exe = std::env::current_exe().map_err(failed)?;
        let parent = std::process::id().to_string();
        Command::new(exe)
            .args(["serve", "--parent", &parent, "--config"])
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)
    }

    /// Ends the gate if it is ours, in order.
    pub async fn stop(&self) {
        let Some(mut child) = self.own.lock().await.take() else { return };
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid
            && rustix::process::kill_process(pid, Signal::TERM).is_ok()
            && tokio::time::timeout(DRAIN, child.wait()).await.is_err()
        {
            tracing::warn!("the gate did not drain in time");
        }
    }
}

fn failed(status: ExitStatus) -> NoGate {
    let exit = match status.code() {
        Some(78) => Exit::Config,
        Some(75) => Exit::Fenced,
        Some(_) | None => Exit::Invalid,
    };
    NoGate { message: format!("the gate ended with {status}"), exit }
}

/// Whether the gate governs calls by now.
async fn serving(gate: &Gate) -> bool {
    let Ok(endpoint) = Endpoint::from_shared(format!("unix:{}", gate.socket.display())) else {
        return false;
    };
    let Ok(channel) = endpoint.timeout(OPENING).connect().await else { return false };
    let asked = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    asked.is_ok_and(|answer| answer.into_inner().status() == ServingStatus::Serving)
}
