//! The auditor's witness: `wicketgate ledger witness serve` in a process of its own.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::PATIENCE;
use super::directory::{DemoDirectory, WITNESS};
use super::error::{DemoPart, Error};
use crate::cli::FileError;

/// The running witness. Killed when it is dropped.
pub struct DemoWitness {
    child: Child,
    url: String,
}

impl DemoWitness {
    /// Starts it and waits until it listens; its log goes to `witness.log`.
    pub async fn start(demo: &DemoDirectory) -> Result<Self, Error> {
        let log = demo.path("witness.log");
        let file = std::fs::File::create_new(&log).map_err(FileError::at(&log))?;
        let parent = std::process::id().to_string();
        let mut command = demo.own().command(&[
            "witness",
            "serve",
            "--name",
            WITNESS,
            "--key",
            "auditor/witness.pem",
            "--logs",
            "auditor/logs.txt",
            "--state",
            "auditor/witness",
            "--listen",
            "127.0.0.1:0",
            "--parent",
            &parent,
        ]);
        command.current_dir(demo.dir()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().ok_or(Error::NoPipe(DemoPart::Witness))?;
        let mut lines = BufReader::new(out).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let line = line.ok().and_then(Result::ok).flatten().unwrap_or_default();
        let url = line.strip_prefix("listening on ").map(str::to_owned);
        let log = log.display().to_string();
        let url = url.ok_or(Error::NotReady { part: DemoPart::Witness, log })?;
        Ok(Self { child, url })
    }

    /// Where heads are submitted.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it.
    pub async fn stop(&mut self) -> Result<(), Error> {
        self.child.kill().await.map_err(failed)
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Process { part: DemoPart::Witness, source }
}
