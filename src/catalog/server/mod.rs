//! MCP servers as the operator bound them: how the gate reaches each, and the operator's notes on
//! its tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::Reach;
use super::address::Cidr;
use super::binding::Credential;
use super::command::Demand;
use super::host::Origin;
use super::roles::StatedRoles;
use super::secret::Secret;
use crate::domain::digest::Digest;
use crate::domain::effect::ToolKind;
use crate::domain::id::ToolName;
use crate::domain::json::{Json, json};
use crate::domain::tier::Tier;
use crate::mcp::header::Mirrored;
use crate::mcp::name;

mod check;
pub mod config;
mod isolation;

pub use check::INHERITED;
pub(crate) use check::{is_variable, variables};
pub use isolation::{Hosts, Isolation, Network, Sandbox, host};

/// One MCP server, checked and not started.
#[derive(Debug)]
pub struct Server {
    /// Its name: the part of its tools' names before the first dot.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// Tier of its tools without one of their own; T3 if absent.
    pub tier: Option<Tier>,
    /// From permit to the end of a call.
    pub timeout: Duration,
    /// Result bytes.
    pub result_bytes_max: u64,
    /// The operator's notes on single tools, by the server's own names for them.
    pub tools: BTreeMap<String, OperatorNotes>,
    /// SHA-256 of how the gate reaches it, without secrets: a lock pins it, and every definition
    /// contains it.
    pub binding: Digest,
    /// The files that the lock pins of it, by path: its program and its scripts. Set once the lock is known.
    pub files: OnceLock<BTreeMap<String, Digest>>,
}

impl Server {
    /// Whether a connection to this one serves for the other too: the same address with the same
    /// credentials and bounds.
    #[must_use]
    pub fn is_reached_as(&self, other: &Self) -> bool {
        let same = |(one, other): (&Secret, &Secret)| one.expose() == other.expose();
        let (mine, theirs) = (self.secrets(), other.secrets());
        self.binding == other.binding
            && self.files.get() == other.files.get()
            && self.timeout == other.timeout
            && self.result_bytes_max == other.result_bytes_max
            && mine.len() == theirs.len()
            && mine.iter().zip(&theirs).all(same)
    }

    /// What it demands of the system, if it has a sandbox.
    pub fn demand(&self) -> Option<Demand> {
        match &self.transport {
            Transport::Stdio(stdio) => stdio
                .isolation
                .sandbox()
                .map(|sandbox| Demand { level: sandbox.level, together: sandbox.limits.together }),
            Transport::Http(_) => None,
        }
    }

    /// The level of its sandbox, `none`, `S1` or `S2`, if this gate runs it.
    pub fn isolation(&self) -> Option<&'static str> {
        match &self.transport {
            Transport::Stdio(stdio) => Some(stdio.isolation.as_str()),
            Transport::Http(_) => None,
        }
    }

    /// Every secret it gets: its answers must not contain one.
    pub fn secrets(&self) -> Vec<Secret> {
        match &self.transport {
            Transport::Stdio(stdio) => stdio.secrets.iter().map(|(_, s, _)| s.clone()).collect(),
            Transport::Http(http) => http.credentials.iter().map(|c| c.secret.clone()).collect(),
        }
    }
}

/// The operator's notes on one tool of a server. The server's own annotations are claims.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OperatorNotes {
    /// Its tier.
    pub tier: Option<Tier>,
    /// A call changes nothing.
    pub read_only: bool,
    /// Running it twice is running it once.
    pub idempotent: bool,
    /// From permit to the end of a call.
    pub timeout: Option<Duration>,
    /// What one call costs, in millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// For how long the same call under another id is the first one.
    pub dedupe: Option<Duration>,
    /// What it brings into a run and carries out of it.
    pub roles: StatedRoles,
}

/// How a server is reached.
#[derive(Debug)]
pub enum Transport {
    /// A child process, one message a line.
    Stdio(Stdio),
    /// Streamable HTTP.
    Http(Box<Remote>),
}

impl Transport {
    /// `stdio` or `http`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
        }
    }
}

/// A program that speaks MCP on its standard streams.
#[derive(Debug)]
pub struct Stdio {
    /// The program: a path, or a name found in the server's `PATH`.
    pub program: String,
    /// Its arguments, literal.
    pub args: Vec<String>,
    /// Its whole environment: literal values.
    pub env: Vec<(String, String)>,
    /// And secret values, each with its reference.
    pub secrets: Vec<(String, Secret, String)>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What it runs in.
    pub isolation: Isolation,
    /// Where a program without a slash is looked for.
    pub path: Option<String>,
}

/// A server behind a URL.
#[derive(Debug)]
pub struct Remote {
    /// Scheme, host and port.
    pub origin: Origin,
    /// Path and query.
    pub target: String,
    /// Literal headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// What requests are authenticated with. Never a token of the agent's.
    pub credentials: Vec<Credential>,
}

/// What one governed name means at its server.
#[derive(Clone, Debug)]
pub struct Mcp {
    /// The server.
    pub server: Arc<Server>,
    /// The tool or method to call.
    pub target: Target,
    /// Parameters mirrored into headers.
    pub mirrored: Vec<Mirrored>,
    /// The pinned tool object as the server gave it, canonical; empty for a method.
    pub pinned: Arc<[u8]>,
    /// Ids of the trusted keys that signed its lock, sorted.
    pub signers: Arc<[String]>,
}

impl Reach for Mcp {
    fn kind(&self) -> ToolKind {
        ToolKind::Mcp
    }

    fn definition(&self) -> Json {
        json!({"server": self.server.name, "reached": self.server.binding.prefixed()})
    }

    fn origins(&self) -> Vec<Origin> {
        match &self.server.transport {
            Transport::Http(remote) => vec![remote.origin.clone()],
            Transport::Stdio(stdio) => stdio.isolation.origins(),
        }
    }

    fn secrets(&self) -> Vec<Secret> {
        self.server.secrets()
    }

    fn demand(&self) -> Option<Demand> {
        self.server.demand()
    }
}

/// A tool or a method of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// `tools/call` of the server's own name for the tool.
    Tool(String),
    /// Another method, with the arguments as its parameters: `resources/read`, `prompts/get`, …
    Method(&'static str),
}

/// Methods besides `tools/call` that can be granted, each with the last parts of its governed name:
/// `<server>.resources.read`. They walk the same road as tools.
pub const METHODS: [&str; 6] = [
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
];

/// The name by which a tool of a server, or one of [`METHODS`], is governed: `<server>.<tool>`,
/// `<server>.resources.read`. `None` if the server's own name for it cannot be governed.
pub fn governed(server: &str, own: &str) -> Option<ToolName> {
    if own.is_empty() || !name::is_server(server) {
        return None;
    }
    if METHODS.contains(&own) {
        return name::qualified(server, &own.replace('/', "."));
    }
    name::qualified(server, own)
}

#[cfg(test)]
mod tests;
