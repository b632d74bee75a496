//! `wicketgate quickstart`: the main job once, in front of your eyes, on this machine alone.
//!
//! Everything is real and separate: the gate is `serve` of this very binary in a process of its own,
//! the tools are an HTTP server in another, the agent speaks gRPC through the socket, and the auditor's
//! part is the commands an auditor would type.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Exit, block_on, fail};
use crate::clock::{Clock as _, SystemClock};

pub mod agent;
mod approvers;
mod calls;
mod directory;
mod error;
mod gate;
mod own;
mod proof;
mod sandbox;
mod steps;
pub mod tools;
mod witness;

use agent::DemoAgent;
use directory::DemoDirectory;
use error::Error;
use gate::DemoGate;
use own::OwnProgram;
use steps::StepPrinter;
use tools::ToolServer;
use witness::DemoWitness;

/// Watch one agent's calls being allowed, denied, held and approved, recorded and proven.
///
/// Makes keys, signs a manifest and a policy bundle, starts a tool server and the gate, plays an agent's
/// calls through gRPC, seals the run, exports the evidence, verifies it, changes one byte of a copy and
/// verifies that too. Needs no network and no fixed port; each time it starts from nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        wicketgate quickstart\n  \
        wicketgate quickstart --dir demo --keep\n\n\
        Exits with 0 only if every step had the expected result.")]
pub struct Args {
    /// Directory to write; it must be empty or not exist. If omitted, a new temporary directory is used.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Leave the gate and the tools running at the end, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Print one line of JSON per step.
    #[arg(long)]
    json: bool,
}

/// Plays it.
pub fn run(args: &Args) -> Exit {
    let mut story = StepPrinter::new(args.json);
    match block_on(play(args, &mut story)) {
        Ok(Ok(())) => Exit::Ok,
        Ok(Err(error)) => {
            story.failed(&error.to_string());
            fail(Exit::Invalid, error)
        }
        Err(exit) => exit,
    }
}

async fn play(args: &Args, story: &mut StepPrinter) -> Result<(), Error> {
    let clock = SystemClock::new();
    story.begin();
    let own = OwnProgram::new()?;
    let left_out = sandbox::missing();
    let desk = DemoDirectory::make(own, args.dir.as_deref(), left_out.is_none())?;
    let mut tools = ToolServer::start(desk.own(), desk.tool_token()).await?;
    desk.introduce()?;
    let mut witness = DemoWitness::start(&desk).await?;
    let keys = desk.furnish(&tools.address(), witness.url(), clock.now())?;
    story.step("files", "files", &desk.shown(), &json!({"dir": desk.shown(), "keys": keys}));
    story.more("keys, a signed manifest, policy bundle and list of two approvers, wicketgate.yaml");
    let facts = json!({"process": tools.process(), "address": tools.address()});
    let line = format!("an HTTP server, process {}, at {}", tools.process(), tools.address());
    story.step("tools", "tools", &line, &facts);
    story.more("a directory of pages, a SQLite file, and a program for the sandbox");
    if let Some(why) = left_out {
        let line = format!("text.count, a command: {why}");
        story.step("sandbox", "left out", &line, &json!({"tool": "text.count", "why": why}));
    }

    let began = clock.monotonic();
    let mut gate = DemoGate::start(&desk)?;
    gate.ready(&desk.socket()).await?;
    let took = clock.monotonic().saturating_sub(began).as_millis();
    let facts = json!({"process": gate.process(), "ready_ms": u64::try_from(took).unwrap_or(0)});
    let line = format!("wicketgate serve, process {}, ready in {took} ms", gate.process());
    story.step("gate", "gate", &line, &facts);

    let pinned = proof::pin(&desk, story).await?;
    let mut agent = DemoAgent::connect(&desk.socket()).await?;
    let run = calls::open(&mut agent, &desk, story).await?;
    calls::calls(&mut agent, &desk, story).await?;
    let at = (run.as_str(), gate.operators_at()?);
    calls::approve(&desk, (at.0, &at.1), &mut agent, story).await?;
    calls::count(&mut tools, story).await?;
    calls::seal(&mut agent, story).await?;
    proof::tail(&desk, story).await?;
    proof::anchor(&desk, story).await?;
    proof::export(&desk, &run, pinned, story).await?;
    proof::verify(&desk, story).await?;
    proof::tamper(&desk, story).await?;
    let mut took = clock.monotonic();
    if args.keep {
        stay(&desk, &mut gate, story).await?;
    }
    let resumed = clock.monotonic();
    gate.stop().await?;
    tools.stop().await?;
    witness.stop().await?;
    proof::ledger(&desk, story).await?;
    // The time while the user kept it open does not count.
    took = took.saturating_add(clock.monotonic().saturating_sub(resumed));
    story.end(&desk, took);
    Ok(())
}

/// Leaves everything running until a signal, or until the gate ends by itself.
async fn stay(
    desk: &DemoDirectory,
    gate: &mut DemoGate,
    story: &mut StepPrinter,
) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signal)?;
    let socket = desk.socket().display().to_string();
    let line = format!("the gate answers at {socket} until Ctrl-C");
    story.step("keep", "running", &line, &json!({"socket": socket}));
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Error::Signal),
        _ = terminate.recv() => Ok(()),
        error = gate.ended() => Err(error),
    }
}

/// How long anything of this may take before it is called broken.
const PATIENCE: Duration = Duration::from_secs(20);
