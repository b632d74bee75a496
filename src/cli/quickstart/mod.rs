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
pub use error::Error as GateError;
pub use gate::LocalGate;

use error::Error;
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
    let mut printer = StepPrinter::new(args.json);
    match block_on(play(args, &mut printer)) {
        Ok(Ok(())) => Exit::Ok,
        Ok(Err(error)) => {
            printer.failed(&error.to_string());
            fail(Exit::Invalid, error)
        }
        Err(exit) => exit,
    }
}

async fn play(args: &Args, printer: &mut StepPrinter) -> Result<(), Error> {
    let clock = SystemClock::new();
    printer.begin();
    let own = OwnProgram::new()?;
    let left_out = sandbox::missing();
    let demo = DemoDirectory::make(own, args.dir.as_deref(), left_out.is_none())?;
    let mut tools = ToolServer::start(demo.own(), demo.tool_token()).await?;
    demo.introduce()?;
    let mut witness = DemoWitness::start(&demo).await?;
    let keys = demo.furnish(&tools.address(), witness.url(), clock.now())?;
    printer.step("files", "files", &demo.shown(), &json!({"dir": demo.shown(), "keys": keys}));
    printer
        .more("keys, a signed manifest, policy bundle and list of two approvers, wicketgate.yaml");
    let facts = json!({"process": tools.process(), "address": tools.address()});
    let line = format!("an HTTP server, process {}, at {}", tools.process(), tools.address());
    printer.step("tools", "tools", &line, &facts);
    printer.more("a directory of pages, a SQLite file, and a program for the sandbox");
    if let Some(why) = left_out {
        let line = format!("text.count, a command: {why}");
        printer.step("sandbox", "left out", &line, &json!({"tool": "text.count", "why": why}));
    }

    let began = clock.monotonic();
    let mut gate = LocalGate::start(&demo)?;
    gate.ready(&demo.socket()).await?;
    let took = clock.monotonic().saturating_sub(began).as_millis();
    let facts = json!({"process": gate.process(), "ready_ms": u64::try_from(took).unwrap_or(0)});
    let line = format!("wicketgate serve, process {}, ready in {took} ms", gate.process());
    printer.step("gate", "gate", &line, &facts);

    let pinned = proof::pin(&demo, printer).await?;
    let mut agent = DemoAgent::connect(&demo.socket()).await?;
    let run = calls::open(&mut agent, &demo, printer).await?;
    calls::calls(&mut agent, &demo, printer).await?;
    let at = (run.as_str(), gate.operators_at()?);
    calls::approve(&demo, (at.0, &at.1), &mut agent, printer).await?;
    calls::count(&mut tools, printer).await?;
    calls::seal(&mut agent, printer).await?;
    proof::tail(&demo, printer).await?;
    proof::anchor(&demo, printer).await?;
    proof::export(&demo, &run, pinned, printer).await?;
    proof::verify(&demo, printer).await?;
    proof::tamper(&demo, printer).await?;
    let mut took = clock.monotonic();
    if args.keep {
        let run = calls::leave_one(&mut agent).await?;
        stay(&demo, (&mut gate, &run), printer).await?;
    }
    let resumed = clock.monotonic();
    gate.stop().await?;
    tools.stop().await?;
    witness.stop().await?;
    proof::ledger(&demo, printer).await?;
    // The time while the user kept it open does not count.
    took = took.saturating_add(clock.monotonic().saturating_sub(resumed));
    printer.end(&demo, took);
    Ok(())
}

/// Leaves everything running until a signal, or until the gate ends by itself.
async fn stay(
    demo: &DemoDirectory,
    (gate, run): (&mut LocalGate, &str),
    printer: &mut StepPrinter,
) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signal)?;
    if crate::serve::console::BUILT {
        let url = format!("{}{}", gate.operators_at()?, crate::serve::console::ROOT);
        let token = demo.path(approvers::YOURS).display().to_string();
        let line = format!("{url} in a browser on this machine shows a call that is held now");
        printer.step(
            "console",
            "console",
            &line,
            &json!({"url": url, "token_file": token, "run": run}),
        );
        printer.more(&format!("log in with the token: cat {token}"));
    }
    let socket = demo.socket().display().to_string();
    let line = format!("the gate answers at {socket} until Ctrl-C");
    printer.step("keep", "running", &line, &json!({"socket": socket}));
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Error::Signal),
        _ = terminate.recv() => Ok(()),
        error = gate.ended() => Err(error),
    }
}

/// How long anything of this may take before it is called broken.
const PATIENCE: Duration = Duration::from_secs(20);
