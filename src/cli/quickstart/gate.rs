//! The gate: `wicketgate serve` in a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Child;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::desk::Desk;
use super::own::Own;
use super::{PATIENCE, agent};

/// Times the gate is asked whether it is ready, and the time between two.
const TRIES: u32 = 800;
const BETWEEN: Duration = Duration::from_millis(25);

/// The running gate. Killed when it is dropped.
pub struct Gate {
    child: Child,
    process: u32,
    log: String,
}

impl Gate {
    /// Starts it; what it logs goes to `gate.log`.
    pub fn start(own: &Own, desk: &Desk) -> Result<Self, String> {
        let log = desk.path("gate.log");
        let shown = log.display().to_string();
        let file = std::fs::File::create_new(&log).map_err(|e| format!("`{shown}`: {e}"))?;
        let parent = std::process::id().to_string();
        let mut command = own.command(&["serve", "--parent", &parent]);
        command.current_dir(desk.dir()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().map_err(|e| format!("the gate: {e}"))?;
        let process = child.id().unwrap_or_default();
        Ok(Self { child, process, log: shown })
    }

    /// Its process id.
    pub const fn process(&self) -> u32 {
        self.process
    }

    /// Asks the gRPC health service through the agents' socket until it says "serving".
    pub async fn ready(&mut self, socket: &Path) -> Result<(), String> {
        for _ in 0..TRIES {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the gate ended with {status}; see {}", self.log));
            }
            if serving(socket).await {
                return Ok(());
            }
            tokio::time::sleep(BETWEEN).await;
        }
        Err(format!("the gate did not get ready; see {}", self.log))
    }

    /// URL of the operator API: the system chose the port, and the log names it.
    pub fn operators_at(&self) -> Result<String, String> {
        let log = std::fs::read_to_string(&self.log).map_err(|e| format!("`{}`: {e}", self.log))?;
        let line = log.lines().find(|line| line.contains("operator API listening"));
        let port = line
            .and_then(|line| line.split("127.0.0.1:").nth(1))
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let port = port.filter(|port| !port.is_empty());
        let port = port.ok_or_else(|| {
            format!("the log names no address of the operator API; see {}", self.log)
        })?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Waits for an end that nobody asked for.
    pub async fn ended(&mut self) -> String {
        let how =
            self.child.wait().await.map_or_else(|e| e.to_string(), |status| status.to_string());
        format!("the gate ended by itself with {how}; see {}", self.log)
    }

    /// Asks it to drain and to end, and waits until it did.
    pub async fn stop(&mut self) -> Result<(), String> {
        let pid = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("the gate has no process id")?;
        rustix::process::kill_process(pid, Signal::TERM).map_err(|e| format!("the gate: {e}"))?;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = ended.map_err(|_| "the gate did not drain")?.map_err(|e| e.to_string())?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the gate ended with {status}; see {}", self.log))
        }
    }
}

async fn serving(socket: &Path) -> bool {
    let Ok(endpoint) = agent::endpoint(socket) else { return false };
    let Ok(channel) = Endpoint::connect(&endpoint).await else { return false };
    let asked = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    asked.is_ok_and(|answer| answer.into_inner().status() == ServingStatus::Serving)
}
