//! Exports of sealed runs beside the calls, each verified by the program that auditors have.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::task::JoinSet;
use wicketgate_support::program;

use crate::gate::Gate;

/// Those of one store.
#[derive(Debug, Default)]
pub struct Exports {
    under_way: JoinSet<Result<Duration, String>>,
    begun: u32,
    /// How long each took, with its verification.
    pub took: Vec<Duration>,
    /// What went wrong.
    pub failed: Vec<String>,
}

impl Exports {
    /// Exports this run and verifies the bundle, while everything else goes on.
    pub fn begin(&mut self, gate: &Gate, run: Option<String>) {
        // In the first seconds no run is sealed yet.
        let Some(run) = run else { return };
        self.begun += 1;
        let out = gate.dir().join(format!("bundle-{}", self.begun));
        self.under_way.spawn(one(gate.dir().to_owned(), run, out));
    }

    /// Waits for those that are under way.
    pub async fn ended(&mut self) {
        while let Some(done) = self.under_way.join_next().await {
            match done.unwrap() {
                Ok(took) => self.took.push(took),
                Err(why) => self.failed.push(why),
            }
        }
    }
}

async fn one(dir: PathBuf, run: String, out: PathBuf) -> Result<Duration, String> {
    let (began, bundle) = (Instant::now(), out.display().to_string());
    let export = ["evidence", "export", "--config", "beside.yaml", "--run", &run, "--out", &bundle];
    ran(&dir, program::gate(), &export).await?;
    let verifier = Path::new(program::gate()).with_file_name("wicketgate-verify");
    let verifier = verifier.display().to_string();
    ran(&dir, &verifier, &[&bundle, "--trust", "trust.txt", "--run", &run]).await?;
    drop(tokio::fs::remove_dir_all(out).await);
    Ok(began.elapsed())
}

/// Runs a program to its end, which must be a good one. It does not outlive the bench.
pub async fn ran(dir: &Path, program: &str, args: &[&str]) -> Result<Output, String> {
    let mut command = Command::new(program);
    let done = command.args(args).current_dir(dir).kill_on_drop(true).output().await;
    let done = done.map_err(|e| format!("{program}: {e}"))?;
    if done.status.success() {
        return Ok(done);
    }
    let [out, err] = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text));
    Err(format!("`{}` ended with {}: {out}{err}", args.join(" "), done.status))
}
