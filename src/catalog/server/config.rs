//! The `servers:` list of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::catalog::config::Credential;
use crate::catalog::described::described;

/// Every MCP server of one sidecar, not yet checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<Server>);

described! {
/// One server: exactly one of `stdio` and `http`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The part of its tools' names before the first dot: `[a-z0-9_-]{1,32}`.
    pub name: String,
    /// A program that speaks MCP on its standard streams.
    pub stdio: Option<Stdio>,
    /// A server behind a URL.
    pub http: Option<Remote>,
    /// Tier of its tools that have none of their own: `T0` to `T3`; `T3` if absent.
    pub tier: Option<String>,
    /// From permit to the end of a call: 1 to 600,000, 30,000 if absent.
    pub timeout_ms: Option<u64>,
    /// Result bytes: 1 to 8,388,608, 1,048,576 if absent.
    pub result_bytes_max: Option<u64>,
    /// What the operator says of single tools and methods, by the server's own names for them.
    #[serde(default)]
    pub tools: BTreeMap<String, Said>,
}

/// A program that speaks MCP on its standard streams.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stdio {
    /// A path (with a slash, relative to the configuration file), or a name found in `PATH`.
    pub command: String,
    /// Its arguments, literal.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its environment, besides a few variables of the gate's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables whose values nobody may see.
    #[serde(default)]
    pub credentials: Vec<Variable>,
    /// Where it runs, relative to the configuration file; if absent, that file's directory, and in a sandbox the
    /// first directory that it may write or read.
    pub cwd: Option<PathBuf>,
    /// What it runs in; nothing if absent.
    pub sandbox: Option<Sandbox>,
}

/// What keeps a program from everything else. In it, the program gets no variable but those that are written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// `S1` or `S2`, as for commands: where the system cannot give it, the server's tools are refused. `none`:
    /// it can do what the gate's user can.
    pub level: String,
    /// Files and directories it may read besides the system's programs and libraries, relative to the
    /// configuration file.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Files and directories it may change.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// `none`, or `host`: it may connect to whatever the gate's host can reach. `none` if absent.
    pub network: Option<String>,
    /// What it may connect to, instead of `network`: `HOST` or `HOST:PORT`, 443 if no port is given. It gets a network
    /// of its own with a proxy of the gate in it (`HTTPS_PROXY`), which connects to these alone. Needs `S2`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Address ranges outside the public Internet that `hosts` may lead to.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// Absolute paths of the programs it may start itself; none if absent. Needs `S2`.
    #[serde(default)]
    pub programs: Vec<PathBuf>,
    /// Memory that each of its processes may write to, and with control groups all of them together: 16 MiB to
    /// 64 GiB, 1 GiB if absent.
    pub memory_bytes: Option<u64>,
    /// Processes and threads together (`S2`, or control groups): 1 to 1,024, 128 if absent.
    pub pids: Option<u64>,
    /// `available` or `required`, as for commands; `available` if absent.
    pub cgroup: Option<String>,
}

/// A secret in one variable of a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Name of the variable the program reads.
    pub env: String,
    /// File that holds the secret, relative to the configuration file. Read once.
    pub file: Option<PathBuf>,
    /// Variable of the gate's own environment that holds the secret. Read once.
    pub from_env: Option<String>,
    /// Never right: a secret is given by reference.
    pub value: Option<serde::de::IgnoredAny>,
}

/// A server behind a URL.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Literal, with its query if it has one.
    pub url: String,
    /// Literal headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Address ranges outside the public Internet that this server may be reached at.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    pub ca_file: Option<PathBuf>,
    /// What requests are authenticated with.
    #[serde(default)]
    pub credentials: Vec<Credential>,
}

/// What the operator says of one tool or method.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// `T0` to `T3`.
    pub tier: Option<String>,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Running it twice is running it once.
    #[serde(default)]
    pub idempotent: bool,
    /// From permit to the end of the call: 1 to 600,000.
    pub timeout_ms: Option<u64>,
    /// What one call costs, in millionths of a US dollar; 0 is nothing, absent is not known.
    pub cost_micro_usd: Option<u64>,
    /// For how long the same call (run, tool, arguments) under another id is the first one, and is answered as that:
    /// 1 to 600,000; absent: never. For clients that send a request again under a new id.
    pub dedupe_ms: Option<u64>,
}
}
