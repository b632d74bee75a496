//! `wicketgate tools`: how every tool stands, what MCP servers offer, and what of it is locked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use futures_util::future::join_all;

use super::{Exit, block_on, complain, say};
use crate::catalog::lock::{LeftOut, LockedServer, Shown, printable};
use crate::catalog::server::Server;
use crate::config::{self, Config};
use crate::tool::mcp::{Probed, Upstreams, files};

mod descriptors;
mod list;
mod lock;
mod offer;
mod picture;
mod probe;

/// Look at every tool, and sign what those of MCP servers are.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// Which configuration, and how long a server may take to say what it offers.
#[derive(clap::Args, Debug)]
struct Where {
    /// The configuration file.
    #[arg(long, default_value = "wicketgate.yaml")]
    config: PathBuf,
    /// Seconds a server gets to start and to say what it offers.
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List every governed tool: tier, server, definition, and how it stands to the lock.
    #[command(
        after_help = "Examples:\n  wicketgate tools list\n  wicketgate tools list --probe --json\n\n\
        With --probe it ends with 1 if a locked tool has become another one, with 2 if a server\n\
        cannot be reached or this machine lacks the sandbox level that a command demands."
    )]
    List {
        #[command(flatten)]
        at: Where,
        /// Start every server and compare what it shows with the lock; try out the sandbox of commands.
        #[arg(long)]
        probe: bool,
    },
    /// Look at every tool: is all there that it needs, and as it should be. Calls none, writes nothing.
    ///
    /// http, fetch, model: connects to what is bound and sends nothing. sql: connects, looks at the role,
    /// tries to leave a read-only transaction. command: hashes the program, tries to break out of the
    /// sandbox. file: opens the root. mcp: starts the server and compares what it shows with the lock.
    #[command(
        after_help = "Examples:\n  wicketgate tools probe\n  wicketgate tools probe --kind sql --json\n  \
        wicketgate tools probe --server github\n\n\
        Ends with 0 if nothing stands against any of them; with 1 if one is blocked, untrusted, unfit,\n\
        drifted or missing; else with 2 if one cannot be reached or this machine lacks the sandbox it\n\
        demands; with 78 if the gate would not start with this configuration: what can be looked at is\n\
        shown all the same."
    )]
    Probe {
        #[command(flatten)]
        at: Where,
        /// Only this tool; several may be named.
        #[arg(long = "tool", value_name = "NAME")]
        tools: Vec<String>,
        /// Only tools of this kind (http, sql, mcp, ...); several may be named.
        #[arg(long = "kind", value_name = "KIND")]
        kinds: Vec<String>,
        /// Only this MCP server, with everything it offers; several may be named.
        #[arg(long = "server", value_name = "NAME")]
        servers: Vec<String>,
    },
    /// Ask a gRPC server for its descriptors, by reflection, and write them to a file. Calls no method.
    #[command(
        after_help = "Examples:\n  wicketgate tools descriptors --from https://orders.example.com \\\n    \
        --service shop.v1.Orders --write orders.pb\n  wicketgate tools descriptors --from http://127.0.0.1:50051 \\\n    \
        --private-address 127.0.0.1/32 --write orders.pb\n\nA gate reads the file once, when it starts \
        (`grpc.descriptor_set`), and asks no server."
    )]
    Descriptors(descriptors::Order),
    /// Pin what the MCP servers show now: write the lock and sign it.
    #[command(after_help = "Examples:\n  wicketgate tools lock --key keys/lock.pem\n  \
        wicketgate tools lock --key keys/lock.pem --server github --yes\n\n\
        A lock that differs from the old one is written after a question, or with --yes.")]
    Lock {
        #[command(flatten)]
        at: Where,
        /// A secret key file; several make several signatures.
        #[arg(long = "key", value_name = "FILE", required = true)]
        keys: Vec<PathBuf>,
        /// Look at this server only and keep what is locked of the others; several may be named.
        #[arg(long = "server", value_name = "NAME")]
        servers: Vec<String>,
        /// Write it whatever has changed.
        #[arg(long)]
        yes: bool,
        /// Pin texts with characters that a reader does not see (tags, bidirectional controls, escapes, …).
        #[arg(long)]
        accept_hidden: bool,
    },
}

/// Runs one of the commands.
pub fn run(args: &Args) -> Exit {
    let done = match &args.command {
        Command::List { at, probe } => list::run(at, *probe),
        Command::Probe { at, tools, kinds, servers } => {
            probe::run(at, &picture::Filter { tools, kinds, servers })
        }
        Command::Descriptors(order) => descriptors::run(order),
        Command::Lock { at, keys, servers, yes, accept_hidden } => {
            let (yes, accept_hidden) = (*yes, *accept_hidden);
            lock::run(at, &lock::Order { keys, servers, yes, accept_hidden })
        }
    };
    done.unwrap_or_else(|refused| refused.say())
}

/// Why a command ends early.
struct Refused {
    exit: Exit,
    why: Vec<String>,
    json: bool,
}

impl Refused {
    fn say(self) -> Exit {
        if self.json {
            say(serde_json::json!({"ok": false, "errors": self.why}).to_string());
        } else {
            self.why.iter().for_each(complain);
        }
        self.exit
    }
}

impl Where {
    fn refuse(&self, exit: Exit, why: Vec<String>) -> Refused {
        Refused { exit, why, json: self.json }
    }

    fn load(&self) -> Result<Config, Refused> {
        super::config::load(&self.config).map_err(|why| self.refuse(Exit::Config, why))
    }

    /// The configured servers of these names, all if none is named.
    fn servers(&self, config: &Config, only: &[String]) -> Result<Vec<Arc<Server>>, Refused> {
        let all = config.servers(&config::environment);
        let mut all = all.map_err(|why| self.refuse(Exit::Config, why))?;
        let known = |name: &&String| all.iter().any(|server| &server.name == *name);
        if let Some(name) = only.iter().find(|name| !known(name)) {
            let why = format!("error: no server `{}` is configured", printable(name));
            return Err(self.refuse(Exit::Usage, vec![why]));
        }
        if !only.is_empty() {
            all.retain(|server| only.contains(&server.name));
        }
        Ok(all)
    }

    /// Starts these servers, asks each what it offers, and ends them.
    fn ask(&self, servers: &[Arc<Server>]) -> Result<Vec<Asked>, Refused> {
        block_on(self.asking(servers)).map_err(|exit| self.refuse(exit, Vec::new()))
    }

    /// The same, within a runtime.
    async fn asking(&self, servers: &[Arc<Server>]) -> Vec<Asked> {
        let wait = Duration::from_secs(self.wait);
        let upstreams = Upstreams::new(servers);
        let asking = servers.iter().map(async |server| {
            let Some(upstream) = upstreams.get(&server.name) else {
                return Err(format!("server `{}`: is not there", server.name));
            };
            match tokio::time::timeout(wait, upstream.probe()).await {
                Ok(answer) => answer.map_err(|error| error.to_string()),
                Err(_elapsed) => {
                    let waited = wait.as_secs();
                    let why = upstream.standing().error.unwrap_or_default();
                    let name = &server.name;
                    Err(format!("server `{name}`: nothing within {waited} seconds {why}"))
                }
            }
        });
        let answers = join_all(asking).await;
        upstreams.close().await;
        let of = |(server, answer): (&Arc<Server>, Result<Probed, String>)| Asked {
            server: Arc::clone(server),
            answer: answer.map_err(|why| why.trim_end().to_owned()),
        };
        servers.iter().zip(answers).map(of).collect()
    }
}

/// One server and what it said.
struct Asked {
    server: Arc<Server>,
    answer: Result<Probed, String>,
}

/// What it said, as it would be locked; and what cannot be.
fn locked(
    server: &Server,
    probed: Probed,
    accept_hidden: bool,
) -> Result<(LockedServer, Vec<String>), String> {
    let files =
        files::of_server(server).map_err(|why| format!("server `{}`: {why}", server.name))?;
    let shown = Shown {
        protocol: probed.protocol,
        server_info: probed.server_info,
        methods: probed.methods,
        tools: probed.tools,
        files,
        accept_hidden,
    };
    let (locked, left_out) = LockedServer::of(server, &shown);
    let unreadable = probed.left_out.iter();
    let unreadable = unreadable.map(|why| format!("server `{}`: {}", server.name, printable(why)));
    let all = unreadable.chain(left_out.iter().map(LeftOut::to_string)).collect();
    Ok((locked, all))
}

/// How it is reached, without anything that may be a secret: arguments and queries are left out.
fn reached(server: &Server) -> String {
    use crate::catalog::server::Transport;
    match &server.transport {
        Transport::Stdio(stdio) => format!("stdio {}", printable(&stdio.program)),
        Transport::Http(remote) => {
            format!("http {}://{}", remote.origin.scheme(), remote.origin.authority())
        }
    }
}
