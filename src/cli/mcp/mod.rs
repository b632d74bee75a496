//! `wicketgate mcp`: MCP on standard input and output, for clients that start their servers.
//!
//! A thin bridge: every line is one HTTP request at the gate's agent socket, every event one line back.
//! What is decided is decided behind the socket. If nothing answers there, the gate is started and
//! lives as long as the bridge; a second bridge uses the first one's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Exit, block_on, complain, config};
use crate::clock::{SystemEntropy, random16};
use crate::mcp::name::is_server;

mod bridge;
mod client;
mod exchange;
mod headers;
mod host;
mod lines;

use bridge::Bridge;
use client::{Client, Paths};
use exchange::Gate;
use host::Host;

/// Be an MCP server on standard input and output, in front of the gate.
///
/// For desktop clients that start their servers as programs. Messages pass through the gate of the
/// configuration: one that runs already, or one that is started here and ends with this process.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  wicketgate mcp --config wicketgate/wicketgate.yaml\n  \
    wicketgate mcp --config wicketgate/wicketgate.yaml --server github\n\n\
    Standard output carries MCP and nothing else; logs go to standard error.\n\
    Ends with 0 when its input ends, 78 when the configuration is wrong, 75 when another gate has the ledger.")]
pub struct Args {
    /// The configuration file.
    #[arg(long, default_value = "wicketgate.yaml", value_name = "FILE")]
    config: PathBuf,
    /// Show the tools of this server only, under their own names.
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    server: Option<String>,
    /// Continue, or open, the run of this name; without it every session is a run of its own.
    #[arg(long, value_name = "NAME", value_parser = run_name)]
    run: Option<String>,
}

fn server_name(text: &str) -> Result<String, String> {
    is_server(text)
        .then(|| text.to_owned())
        .ok_or_else(|| "a server is named with [a-z0-9_-]{1,32}".to_owned())
}

fn run_name(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    ((1..=64).contains(&text.len()) && text.bytes().all(plain))
        .then(|| text.to_owned())
        .ok_or_else(|| "a run is named with [A-Za-z0-9_.-]{1,64}".to_owned())
}

/// How long the last lines may take to be read.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let config = match config::load(&args.config) {
        Ok(config) => config,
        Err(problems) => {
            problems.iter().for_each(complain);
            return Exit::Config;
        }
    };
    let Some(socket) = config.listen.socket else {
        complain(format!("{}: listen.socket is off", args.config.display()));
        return Exit::Config;
    };
    let place = Place {
        config: args.config.clone(),
        gate: Gate { socket },
        server: args.server.clone(),
        run: args.run.clone(),
    };
    match block_on(bridge_to(place)) {
        Ok(exit) | Err(exit) => exit,
    }
}

/// What a bridge leads to.
struct Place {
    config: PathBuf,
    gate: Gate,
    server: Option<String>,
    run: Option<String>,
}

async fn bridge_to(place: Place) -> Exit {
    let host = Arc::new(Host::new(place.config));
    if let Err(none) = host.ensure(&place.gate).await {
        complain(format!("error: {none}"));
        return none.exit;
    }
    let (out, written) = lines::outgoing();
    let own = format!("stdio-{}", hex::encode(random16(&SystemEntropy)));
    let paths = Paths::new(place.server.as_deref(), place.run.as_deref(), &own);
    let client = Client::new(place.gate, Arc::clone(&host), paths, out);
    let ended = Bridge::new(client).run(lines::incoming()).await;
    let _ = tokio::time::timeout(LAST_LINES, written).await;
    host.stop().await;
    match ended {
        Ok(()) => Exit::Ok,
        Err(error) => {
            complain(format!("error: {error}"));
            Exit::Unverifiable
        }
    }
}
