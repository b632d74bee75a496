//! `wicketgate run -- PROGRAM`: an agent in a run of its own, with a gate that is started if none runs.
//!
//! Standard output is the agent's. What this command has to say goes to standard error.

mod summary;

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use tokio::process::Command;

use super::config::ConfigFile;
use super::quickstart::{GateError, LocalGate};
use super::rollback::gate::{self, OperatorRun};
use super::{Exit, Failure, FileError, health, note, reader};
use crate::app::listen::OPERATORS;
use crate::config::Config;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;

/// The run that the agent gets, and its program.
#[derive(clap::Args, Debug)]
pub struct Launch {
    #[command(flatten)]
    at: ConfigFile,
    /// Model to claim for the run: one that the caller's manifest names
    #[arg(long, value_name = "NAME", default_value = "")]
    model: String,
    /// Text file with instructions to claim for the run; repeat it for more
    #[arg(long = "instructions-file", value_name = "FILE")]
    instructions: Vec<PathBuf>,
    /// The agent's program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The label of such a run: the program's name.
const LABEL: &str = "program";
/// The log of a gate that this command starts, in the state directory.
const LOG: &str = "run.log";

/// Why the agent was not started.
#[derive(Debug, thiserror::Error)]
enum LaunchError {
    /// The configuration has no agent socket.
    #[error("the configuration has no agent socket: set `listen.socket`")]
    NoSocket,
    /// The gate runs and is not ready.
    #[error("the gate is not ready: {0}; run `wicketgate check`")]
    NotReady(String),
    /// The gate does not start.
    #[error("{0}; run `wicketgate check --pre`")]
    Gate(#[from] GateError),
    /// The run is refused.
    #[error("{source}{}", hint(source))]
    Run {
        #[from]
        source: gate::Error,
    },
    /// The instructions cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The program cannot be started.
    #[error("`{program}` cannot be started: {source}")]
    Program { program: String, source: std::io::Error },
    /// The gate gave a run without an id.
    #[error("the gate answers with a run id that is none: `{0}`")]
    Id(String),
}

/// How this command claims what the manifest demands.
fn hint(refusal: &gate::Error) -> &'static str {
    match refusal {
        gate::Error::Refused(why) if why.lacks_claims() => {
            "\nhere `--model NAME` and `--instructions-file FILE` claim them"
        }
        gate::Error::Refused(_) | gate::Error::Unreachable { .. } | gate::Error::Token => "",
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::NoSocket => Self::config(error),
            LaunchError::Run { .. } | LaunchError::File(_) | LaunchError::Program { .. } => {
                Self::invalid(error)
            }
            LaunchError::NotReady(_) | LaunchError::Gate(_) | LaunchError::Id(_) => {
                Self::unverifiable(error)
            }
        }
    }
}

/// Runs the program to its end, seals its run, and says what became of its calls.
pub(super) async fn run(args: &Launch) -> Result<Exit, Failure> {
    let config = reader::configuration(&args.at.config).map_err(Failure::config)?;
    let mut started = gate(args, &config).await?;
    let ran = agent(args, &config).await;
    if let Some(gate) = &mut started
        && let Err(why) = gate.stop().await
    {
        note(format!("the gate that was started did not end well: {why}"));
    }
    Ok(ended(ran?))
}

/// The gate, if it had to be started.
async fn gate(args: &Launch, config: &Config) -> Result<Option<LocalGate>, LaunchError> {
    if let Ok((ready, lines)) = health::on_socket(&config.state.join(OPERATORS), "/readyz").await {
        let reasons = lines.into_iter().skip(1).collect::<Vec<_>>().join("; ");
        return if ready { Ok(None) } else { Err(LaunchError::NotReady(reasons)) };
    }
    let socket = config.listen.socket.as_deref().ok_or(LaunchError::NoSocket)?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.state);
    made.map_err(FileError::at(&config.state))?;
    let log = config.state.join(LOG);
    let parent = std::process::id().to_string();
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["serve", "--parent", &parent, "--config"])
        .arg(&args.at.config)
        .process_group(0)
        .kill_on_drop(true);
    let mut gate = LocalGate::of(command, &log)?;
    gate.ready(socket).await?;
    note(format!("gate       started for this run, its log is {}", log.display()));
    Ok(Some(gate))
}

/// Opens the run, runs the program, and seals the run.
async fn agent(args: &Launch, config: &Config) -> Result<ExitStatus, LaunchError> {
    let socket = config.listen.socket.as_deref().ok_or(LaunchError::NoSocket)?;
    let (program, rest) = args.program.split_first().map_or((None, &[][..]), |(p, r)| (Some(p), r));
    let program = program.cloned().unwrap_or_default();
    let name =
        PathBuf::from(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut hashes = Vec::new();
    for file in &args.instructions {
        let text = std::fs::read(file).map_err(FileError::at(file))?;
        hashes.push(Digest::of(&[&text]).hex());
    }
    let mut run = OperatorRun::open(socket, None, (&args.model, &hashes), (LABEL, &name)).await?;
    let id = RunId::parse(&run.run).ok_or_else(|| LaunchError::Id(run.run.clone()))?;
    note(format!("run        {}", run.run));
    let mut command = Command::new(&program);
    command.args(rest).kill_on_drop(true).stdin(Stdio::inherit());
    command.env("WICKETGATE_SOCKET", socket);
    command.env("WICKETGATE_URL", format!("unix:{}", socket.display()));
    command.env("WICKETGATE_RUN", &run.run).env("WICKETGATE_RUN_TOKEN", &run.run_token);
    let shown = || program.to_string_lossy().into_owned();
    let failed = |source| LaunchError::Program { program: shown(), source };
    let ran = wait(command).await;
    // WHY also after a failure: nothing else ends the run, and its calls are worth reading.
    if let Err(why) = run.seal().await
        && !why.is_sealed()
    {
        note(format!("the run is not sealed: {why}"));
    }
    summary::print((&args.at.config, config), &id).await;
    ran.map_err(failed)
}

/// Runs a program to its end. A signal of the terminal reaches it by itself; this command outlives it.
async fn wait(mut command: Command) -> Result<ExitStatus, std::io::Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut ends = signal(SignalKind::terminate())?;
    let mut child = command.spawn()?;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status,
            _ = interrupts.recv() => {}
            _ = ends.recv() => child.start_kill()?,
        }
    }
}

/// The program's own exit code; as a shell says it for a signal.
fn ended(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| signal.saturating_add(128)));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) => Exit::Ok,
        Some(code) => Exit::Program(code),
        None => Exit::Invalid,
    }
}
