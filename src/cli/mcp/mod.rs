//! `wicketgate serve mcp`: MCP on standard input and output, for clients that start their servers.
//!
//! A thin bridge: every line is one HTTP request at the gate's agent socket, every event one line
//! back. The gate behind the socket makes every decision. If no gate answers there, the bridge
//! starts one, which lives as long as the bridge; a second bridge uses the first one's.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Exit, argument, config, fail, fail_all};
use crate::app;
use crate::clock::{SystemEntropy, random16};
use crate::config::Config;

mod bridge;
mod client;
pub(super) mod exchange;
mod headers;
mod host;
mod lines;
mod wrap;

use bridge::{Bridge, Stop};
use client::{Client, Paths};
use exchange::GateAddress;
use host::Host;

/// Serve MCP over stdio and forward calls to the gate.
///
/// Use it in desktop clients, which start their servers as programs. If a gate with this configuration is
/// already running, messages go to that gate; otherwise this command starts one, which ends with this process.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        wicketgate serve mcp --config wicketgate/wicketgate.yaml\n  \
        wicketgate serve mcp --config wicketgate/wicketgate.yaml --server github\n\n\
        Standard output carries MCP only; logs go to standard error.\n\
        Exits with 0 when its input ends, 78 when the configuration is wrong, 75 when another gate is the\n\
        ledger's writer."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration file.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "wicketgate.yaml",
        env = "WICKETGATE_CONFIG",
        hide_env_values = true
    )]
    config: PathBuf,
    /// Offer only the tools of this server, under their own names.
    #[arg(long, value_name = "NAME", value_parser = argument::server)]
    server: Option<String>,
    /// Continue or open the run of this name; if omitted, each session opens a run.
    #[arg(long = "run-name", alias = "run", value_name = "NAME", value_parser = argument::run_name)]
    run: Option<String>,
}

/// What else there is below `mcp`.
#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Put a gate in front of one MCP server that a command starts.
    Wrap(wrap::Args),
}

/// How long the last lines may take to be read.
const LAST_LINES: Duration = Duration::from_secs(2);
/// The time for the rest of the process to end.
const REST: Duration = Duration::from_secs(1);

/// Runs it.
pub fn run(args: &Args) -> Exit {
    if let Some(Command::Wrap(args)) = &args.command {
        return wrap::run(args);
    }
    let config = match config::load(&args.config) {
        Ok(config) => config,
        Err(problems) => {
            return fail_all(Exit::Config, &problems);
        }
    };
    serve(config, args.server.as_deref(), args.run.as_deref()).0
}

/// Bridges standard input and output to the gate of this configuration. How it ended, and whether a
/// call was denied because its tool is not as it was signed.
fn serve(config: Config, server: Option<&str>, run: Option<&str>) -> (Exit, bool) {
    let Some(socket) = config.listen.socket.clone() else {
        let why = "`listen.socket` is off: set it, so that this process can reach the gate";
        return (fail(Exit::Config, why), false);
    };
    let named = |config: &Config, name: &str| {
        config.servers.iter().any(|server| server.get("name").is_some_and(|own| own == name))
    };
    if let Some(name) = server.filter(|name| !named(&config, name)) {
        return (fail(Exit::Config, format!("there is no server `{name}` in `servers`")), false);
    }
    let failed = |error: &dyn std::fmt::Display| (fail(Exit::Unverifiable, error), false);
    let guard = match app::log(&config, false) {
        Ok(guard) => guard,
        Err(error) => return failed(&error),
    };
    let own = format!("stdio-{}", hex::encode(random16(&SystemEntropy)));
    let paths = Paths::new(server, run, &own);
    let runtime =
        match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return failed(&error),
        };
    let drifted = Arc::new(AtomicBool::new(false));
    let host = Arc::new(Host::new(config, guard.metrics()));
    let exit = runtime.block_on(bridge(host, GateAddress { socket }, paths, Arc::clone(&drifted)));
    runtime.shutdown_timeout(REST);
    guard.flush();
    (exit, drifted.load(Ordering::Relaxed))
}

async fn bridge(
    host: Arc<Host>,
    gate: GateAddress,
    paths: Paths,
    drifted: Arc<AtomicBool>,
) -> Exit {
    let mut stop = match Stop::install() {
        Ok(stop) => stop,
        Err(error) => {
            return fail(Exit::Unverifiable, error);
        }
    };
    let ensured = tokio::select! {
        biased;
        () = stop.asked() => return Exit::Ok,
        ensured = host.ensure(&gate) => ensured,
    };
    if let Err(none) = ensured {
        return fail(none.exit, none);
    }
    let (out, written) = lines::outgoing();
    let client = Client::new(gate, Arc::clone(&host), paths, out, drifted);
    Box::pin(Bridge::new(client).run(lines::incoming(), stop)).await;
    // A client that is gone reads no more lines.
    let _ = tokio::time::timeout(LAST_LINES, written).await;
    host.stop().await;
    Exit::Ok
}
