//! `wicketgate tools`: the state of every tool, the offers of MCP servers, and their locks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;

use super::config::ConfigFile;
use super::{Exit, Failure, trust};
use crate::catalog::lock::{UngovernedTool, printable};
use crate::catalog::server::Server;
use crate::config::{self, Config};
use crate::tool::mcp::{Offer, ServerOffer, Upstreams};
use crate::tool::probe::Point;
use error::Error;

mod descriptors;
mod error;
mod list;
mod lock;
mod offer;
mod picture;
mod probe;

/// List and probe the tools, and lock the tools of MCP servers.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// The configuration, and how long a server may take to list its tools.
#[derive(clap::Args, Debug)]
struct ToolsArgs {
    #[command(flatten)]
    at: ConfigFile,
    /// Seconds that a server has to start and list its tools.
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List every tool: tier, server, definition, and whether it matches the lock.
    #[command(after_help = "Examples:\n  \
            wicketgate tools list\n  \
            wicketgate tools list --probe --json\n\n\
            With --probe it exits with 1 if a tool differs from the lock, with 2 if a server cannot be reached or this machine\n\
            lacks the sandbox level that a command needs.")]
    List {
        #[command(flatten)]
        at: ToolsArgs,
        /// Start every server and compare its tools with the lock; test the sandbox of commands.
        #[arg(long)]
        probe: bool,
    },
    /// Check that every tool has what it needs, without calling a tool or writing anything.
    ///
    /// http, fetch, model: connects to the configured server and sends nothing. sql: connects, checks the role, tries
    /// to leave a read-only transaction. command: hashes the program, tries to break out of the sandbox. file: opens
    /// the root. mcp: starts the server and compares its tools with the lock.
    #[command(after_help = "Examples:\n  \
            wicketgate tools probe\n  \
            wicketgate tools probe --kind sql --json\n  \
            wicketgate tools probe --server github\n\n\
            Exits with 0 if every tool is ready; with 1 if one is blocked, untrusted, unfit, drifted or missing; with 2 if one\n\
            cannot be reached or this machine lacks its sandbox; with 78 if the gate would not start with this configuration.\n\
            Even with 78, it checks the tools that it can check.")]
    Probe {
        #[command(flatten)]
        at: ToolsArgs,
        /// Only this tool; repeat it for more.
        #[arg(long = "tool", value_name = "NAME")]
        tools: Vec<String>,
        /// Only tools of this kind (http, sql, mcp, ...); repeat it for more.
        #[arg(long = "kind", value_name = "KIND")]
        kinds: Vec<String>,
        /// Only this MCP server, with all its tools; repeat it for more.
        #[arg(long = "server", value_name = "NAME")]
        servers: Vec<String>,
    },
    /// Write the descriptors of a gRPC server to a file, by reflection, without calling a method.
    #[command(after_help = "Examples:\n  \
            wicketgate tools descriptors --from https://orders.example.com \\\n    \
            --service shop.v1.Orders --out orders.pb\n  \
            wicketgate tools descriptors --from http://127.0.0.1:50051 \\\n    \
            --private-address 127.0.0.1/32 --out orders.pb\n\n\
            A gate reads the file at start (`grpc.descriptor_set`); it never uses reflection itself.")]
    Descriptors(descriptors::DescriptorOrder),
    /// Lock the tools that the MCP servers offer now: write the lock and sign it.
    #[command(after_help = "Examples:\n  \
        wicketgate tools lock --key keys/lock.pem\n  \
        wicketgate tools lock --key keys/lock.pem --server github --yes\n\n\
        If the lock differs from the old one, the command asks before it writes; --yes skips the question.")]
    Lock {
        #[command(flatten)]
        at: ToolsArgs,
        /// Sign with this secret key (PKCS#8 PEM); repeat it for more signatures.
        #[arg(long = "key", value_name = "KEY", required = true)]
        keys: Vec<PathBuf>,
        /// Lock only this server again, and leave the locks of the others unchanged; repeat it for more.
        #[arg(long = "server", value_name = "NAME")]
        servers: Vec<String>,
        /// Write the lock without asking.
        #[arg(long)]
        yes: bool,
        /// Accept tools whose texts have invisible characters (tags, bidirectional controls, escapes, …).
        #[arg(long)]
        accept_hidden: bool,
    },
    Trust(trust::Args),
}

/// Runs one of the commands.
pub fn run(args: &Args) -> Exit {
    let done = match &args.command {
        Command::Trust(args) => return trust::run(args),
        Command::List { at, probe } => list::run(at, *probe),
        Command::Probe { at, tools, kinds, servers } => {
            probe::run(at, &picture::Filter { tools, kinds, servers })
        }
        Command::Descriptors(order) => descriptors::run(order),
        Command::Lock { at, keys, servers, yes, accept_hidden } => {
            let (yes, accept_hidden) = (*yes, *accept_hidden);
            lock::run(at, &lock::LockOrder { keys, servers, yes, accept_hidden })
        }
    };
    super::ended(done)
}

impl ToolsArgs {
    fn load(&self) -> Result<Config, Failure> {
        super::config::load(&self.at.config).map_err(wrong)
    }

    /// The configured servers of these names, or all of them without a name.
    fn servers(&self, config: &Config, only: &[String]) -> Result<Vec<Arc<Server>>, Failure> {
        let all = config.servers(&config::environment);
        let mut all = all.map_err(wrong)?;
        let known = |name: &&String| all.iter().any(|server| &server.name == *name);
        if let Some(name) = only.iter().find(|name| !known(name)) {
            return Err(Failure::usage(Error::Server(name.clone())));
        }
        if !only.is_empty() {
            all.retain(|server| only.contains(&server.name));
        }
        Ok(all)
    }

    /// Starts these servers, asks each for its offer, and ends them.
    async fn offers(&self, servers: &[Arc<Server>], accept_hidden: bool) -> Vec<ServerOffer> {
        Upstreams::offers(servers, Duration::from_secs(self.wait), accept_hidden).await
    }
}

/// Everything that the tools of a configuration need, probed: each finding with its tool or server.
pub(super) async fn probed(
    file: PathBuf,
    config: &Config,
    wait: u64,
) -> Result<Vec<(String, Point)>, Failure> {
    let at = ToolsArgs { at: ConfigFile { config: file }, wait, json: true };
    probe::points(&at, config).await
}

/// The configuration, or a file it names, is wrong.
fn wrong(problems: Vec<String>) -> Failure {
    Failure::config(Error::Config(problems))
}

/// The tools that cannot be locked.
fn left_out(offer: &Offer) -> Vec<String> {
    let server = &offer.locked.name;
    let unreadable = offer.unreadable.iter();
    let unreadable = unreadable.map(|why| format!("server `{server}`: {}", printable(why)));
    unreadable.chain(offer.ungoverned.iter().map(UngovernedTool::to_string)).collect()
}

/// The address of a server, without possible secrets: arguments and queries are left out.
fn reached(server: &Server) -> String {
    use crate::catalog::server::Transport;
    match &server.transport {
        Transport::Stdio(stdio) => format!("stdio {}", printable(&stdio.program)),
        Transport::Http(remote) => {
            format!("http {}://{}", remote.origin.scheme(), remote.origin.authority())
        }
    }
}
