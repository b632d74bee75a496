//! The replay itself: a gate on the recording, the agent's command beside it, and the report.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::directory::{self, Policies, ReplayDirectory};
use crate::app::{self, Gate, ReplayParts};
use crate::cli::argument::pointer;
use crate::cli::reader::{self, ConfigError};
use crate::cli::{Exit, FileError, block_on, fail, note, say};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::replay;
use crate::replay::environment::RecordedClock;
use crate::replay::fork::Forked;
use crate::replay::player::{Played, Player, ReplaySettings};
use crate::replay::recording::Recording;
use crate::replay::report::ReplayReport;

/// How long the gate may take to be ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to replay, and who does it again.
#[derive(clap::Args, Debug)]
pub struct Play {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Continue after a difference, and report all of them
    #[arg(long)]
    report: bool,
    /// Decide with this bundle instead of the recorded ones
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Argument to ignore when calls are matched, in addition to those that the manifest names
    #[arg(long, value_name = "TOOL:/POINTER", value_parser = pointer)]
    volatile: Vec<(String, String)>,
    /// Answer the steps before this one from the recording, then continue with a new run of the gate of --config,
    /// where calls execute
    #[arg(long, value_name = "STEP", requires = "config", conflicts_with_all = ["report", "bundle", "listen"],
        value_parser = clap::value_parser!(u64).range(1..))]
    fork_at: Option<u64>,
    /// Configuration file of the gate that continues after the fork
    #[arg(short, long, value_name = "FILE", requires = "fork_at")]
    config: Option<PathBuf>,
    /// Address to listen on: loopback; port 0 takes a free port; `off` listens on the socket only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// Also write the report as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print one JSON object; the output of the agent's command goes to standard error
    #[arg(long)]
    json: bool,
    /// The agent's command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Why a replay has no result about the agent.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The recording cannot be replayed.
    #[error(transparent)]
    Recording(#[from] replay::Error),
    /// The directory of the gate cannot be made.
    #[error(transparent)]
    Directory(#[from] directory::Error),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The configuration of the gate that continues is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The gate does not start, or ends badly.
    #[error("the gate: {0}")]
    Gate(#[from] app::Error),
    /// The gate takes too long.
    #[error("the gate is not ready: {0}")]
    NotReady(String),
    /// The command line has no command.
    #[error("name the command to run")]
    NoCommand,
    /// The command cannot be started.
    #[error("`{program}`: {source}")]
    Command {
        /// Its program.
        program: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The command has nowhere to print to.
    #[error("standard error: {0}")]
    Stderr(#[source] rustix::io::Errno),
}

/// Replays.
pub(super) fn run(args: &Play) -> Exit {
    let failed = |error: Error| fail(Exit::Unverifiable, error);
    let recording = match Recording::open(&args.file) {
        Ok(recording) => recording,
        Err(error) => return failed(error.into()),
    };
    let playing = async {
        match args.fork_at.zip(args.config.as_deref()) {
            Some((at, config)) => Box::pin(fork(args, recording, at, config)).await,
            None => Box::pin(play(args, recording)).await,
        }
    };
    match block_on(playing) {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => failed(error),
        Err(exit) => exit,
    }
}

async fn play(args: &Play, recording: Recording) -> Result<Exit, Error> {
    let policies = Policies::of(&recording, args.bundle.as_deref())?;
    let directory = ReplayDirectory::make(&recording)?;
    let tcp = (args.listen != "off").then_some(args.listen.as_str());
    let config = directory.furnish(&recording, &policies, tcp)?;
    let clock = Arc::new(RecordedClock::at(recording.header.opened_at));
    let settings = ReplaySettings {
        collect: args.report,
        engines: policies.engines,
        now: policies.now,
        volatile: pointers(args, &recording)?,
    };
    let player = Player::new(recording, settings, Arc::clone(&clock))?;
    let player = Arc::new(player);
    let stage = ReplayParts { player: Arc::clone(&player), clock };
    let mut gate = Gate::replay(config, stage).await?;
    let (socket, token) = (Some(directory.socket()), Some(directory.token.as_str()));
    let variables = directory.variables();
    let target = ReplayTarget { socket, token, variables, recording: player.recording().digest };
    let ran = beside(&mut gate, args, &target).await?;
    Ok(print_report(args, &report(player.recording(), player.finish(), ran, None))?)
}

/// The beginning from the recording, the rest with a gate of its own.
async fn fork(args: &Play, recording: Recording, at: u64, config: &Path) -> Result<Exit, Error> {
    let volatile = pointers(args, &recording)?;
    let forked = Arc::new(Forked::new(recording, at, volatile)?);
    let config = reader::configuration(config)?;
    let socket = config.listen.socket.clone();
    let mut gate = Gate::fork(config, Arc::clone(&forked)).await?;
    // The agent's own credential, if it needs one, is in its environment already.
    let digest = forked.recording().digest;
    let target = ReplayTarget { socket, token: None, variables: Vec::new(), recording: digest };
    let ran = beside(&mut gate, args, &target).await?;
    let (played, run) = (forked.finish(), forked.run());
    Ok(print_report(args, &report(forked.recording(), played, ran, Some((at, run))))?)
}

/// The command's way to the gate, and its credential there.
struct ReplayTarget<'a> {
    socket: Option<PathBuf>,
    token: Option<&'a str>,
    /// Those of the agents of child runs.
    variables: Vec<(String, String)>,
    recording: Digest,
}

/// Lets the command work beside the gate, and ends both; how the command failed, if it did.
async fn beside(
    gate: &mut Gate,
    args: &Play,
    target: &ReplayTarget<'_>,
) -> Result<Option<ExitStatus>, Error> {
    let ready = tokio::time::timeout(PATIENCE, gate.ready()).await;
    let ran = if ready == Ok(true) {
        command(args, target, gate.agents().first()).await
    } else {
        let reasons = gate.readiness().borrow().reasons.join("; ");
        Err(Error::NotReady(reasons))
    };
    gate.stop();
    gate.wait().await?;
    ran
}

fn report(
    recording: &Recording,
    mut played: Played,
    ran: Option<ExitStatus>,
    forked: Option<(u64, Option<RunId>)>,
) -> ReplayReport<'_> {
    let unsure = match (played.unread.take(), played.opened, ran) {
        (Some(why), ..) => Some(why),
        (None, 0, None) => Some("the command opened no run".to_owned()),
        (None, _, Some(how)) => Some(format!("the command ended with {how}")),
        (None, _, None) => None,
    };
    if played.opened == 0 {
        // Without a run there were no calls, so a missing call is no drift.
        played.drifts.clear();
    }
    ReplayReport {
        header: &recording.header,
        recording: recording.digest,
        tools: recording.places.iter().map(|recorded| recorded.tool.as_str()).collect(),
        played,
        forked,
        unsure,
    }
}

/// The JSON pointers to ignore: those of the manifests and of the command line.
fn pointers(args: &Play, recording: &Recording) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let mut volatile = recording.volatile()?;
    for (tool, pointer) in &args.volatile {
        volatile.entry(tool.clone()).or_default().push(pointer.clone());
    }
    Ok(volatile)
}

/// Runs the command to its end; how it failed, if it did.
async fn command(
    args: &Play,
    target: &ReplayTarget<'_>,
    tcp: Option<&SocketAddr>,
) -> Result<Option<ExitStatus>, Error> {
    let (program, rest) = args.command.split_first().ok_or(Error::NoCommand)?;
    let failed = |source| Error::Command { program: program.clone(), source };
    let mut command = tokio::process::Command::new(program);
    command.args(rest).kill_on_drop(true);
    command.envs(target.socket.as_ref().map(|socket| ("WICKETGATE_SOCKET", socket)));
    command.envs(target.token.map(|token| ("WICKETGATE_TOKEN", token)));
    command.envs(target.variables.iter().map(|(name, value)| (name, value)));
    command.env("WICKETGATE_REPLAY", target.recording.prefixed());
    if let Some(tcp) = tcp {
        command.env("WICKETGATE_URL", format!("http://{tcp}"));
        command.env("WICKETGATE_MCP_URL", format!("http://{tcp}/mcp"));
    }
    if args.json {
        let error = rustix::io::dup(std::io::stderr()).map_err(Error::Stderr)?;
        command.stdout(Stdio::from(error));
    }
    let status = command.spawn().map_err(failed)?.wait().await.map_err(failed)?;
    Ok(Some(status).filter(|status| !status.success()))
}

fn print_report(args: &Play, report: &ReplayReport<'_>) -> Result<Exit, FileError> {
    if let Some(path) = &args.junit {
        std::fs::write(path, report.to_junit()).map_err(FileError::at(path))?;
    }
    if args.json {
        say(report.to_json());
    } else {
        note(report.to_text());
    }
    Ok(match (report.played.drifts.is_empty(), &report.unsure) {
        (false, _) => Exit::Invalid,
        (true, Some(_)) => Exit::Unverifiable,
        (true, None) => Exit::Ok,
    })
}
