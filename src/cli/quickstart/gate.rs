//! The gate: `wicketgate serve` in a process of its own.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::directory::DemoDirectory;
use super::error::{DemoPart, Error};
use super::{PATIENCE, agent};
use crate::cli::FileError;

/// Attempts to find the gate ready, and the time between two.
const TRIES: u32 = 800;
const BETWEEN: Duration = Duration::from_millis(25);

/// The running gate. Killed when it is dropped.
pub struct LocalGate {
    child: Child,
    process: u32,
    log: String,
}

impl LocalGate {
    /// Starts it; its log goes to `gate.log`.
    pub fn start(demo: &DemoDirectory) -> Result<Self, Error> {
        let parent = std::process::id().to_string();
        let mut command = demo.own().command(&["serve", "--parent", &parent]);
        command.current_dir(demo.dir());
        Self::of(command, &demo.path("gate.log"))
    }

    /// Starts it by this command, with its log in this file.
    pub fn of(mut command: Command, log: &Path) -> Result<Self, Error> {
        let shown = log.display().to_string();
        let file = std::fs::File::create(log).map_err(FileError::at(log))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().map_err(failed)?;
        let process = child.id().unwrap_or_default();
        Ok(Self { child, process, log: shown })
    }

    /// Its process id.
    pub const fn process(&self) -> u32 {
        self.process
    }

    /// Asks the gRPC health service through the agents' socket until it answers "serving".
    pub async fn ready(&mut self, socket: &Path) -> Result<(), Error> {
        for _ in 0..TRIES {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.ended_with(status));
            }
            if serving(socket).await {
                return Ok(());
            }
            tokio::time::sleep(BETWEEN).await;
        }
        Err(Error::NotReady { part: DemoPart::Gate, log: self.log.clone() })
    }

    /// URL of the operator API: the system chose the port, and the log names it.
    pub fn operators_at(&self) -> Result<String, Error> {
        let log =
            std::fs::read_to_string(&self.log).map_err(FileError::at(Path::new(&self.log)))?;
        let line = log.lines().find(|line| line.contains("operator API listening"));
        let port = line
            .and_then(|line| line.split("127.0.0.1:").nth(1))
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let port = port.filter(|port| !port.is_empty());
        let port = port.ok_or_else(|| Error::NoAddress(self.log.clone()))?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Waits until the gate ends unasked.
    pub async fn ended(&mut self) -> Error {
        let ended = self.child.wait().await;
        ended.map_or_else(failed, |status| self.ended_with(status))
    }

    fn ended_with(&self, status: ExitStatus) -> Error {
        Error::GateEnded { status, log: self.log.clone() }
    }

    /// Asks it to drain and to end, and waits until it did.
    pub async fn stop(&mut self) -> Result<(), Error> {
        let pid = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Error::Ended(DemoPart::Gate))?;
        rustix::process::kill_process(pid, Signal::TERM).map_err(|errno| failed(errno.into()))?;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = ended.map_err(|_late| Error::Running(DemoPart::Gate))?.map_err(failed)?;
        if status.success() { Ok(()) } else { Err(self.ended_with(status)) }
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Process { part: DemoPart::Gate, source }
}

async fn serving(socket: &Path) -> bool {
    let Ok(endpoint) = agent::endpoint(socket) else { return false };
    let Ok(channel) = Endpoint::connect(&endpoint).await else { return false };
    let health = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    health.is_ok_and(|answer| answer.into_inner().status() == ServingStatus::Serving)
}
