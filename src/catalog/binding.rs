//! A checked binding: everything parsed, every secret read, nothing opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::address::Cidr;
use super::host::Origin;
use super::schema::Schema;
use super::secret::Secret;
use super::server::Mcp;
use super::template::{Body, PathTemplate, Template};
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::tier::Tier;

/// How one tool is really reached.
#[derive(Debug)]
pub struct Binding {
    /// Its name.
    pub name: ToolName,
    /// What agents are told it does.
    pub description: String,
    /// What arguments it takes.
    pub schema: Schema,
    /// How it is reached.
    pub kind: Kind,
    /// At least this tier.
    pub tier: Tier,
    /// The operator says it changes nothing.
    pub read_only: bool,
    /// The operator says running it twice is running it once.
    pub idempotent: bool,
    /// From permit to the end of the call.
    pub timeout: Duration,
    /// Result bytes.
    pub result_bytes_max: u64,
    /// What one call costs, if the operator says so; millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// The whole MCP tool object agents are shown, its name qualified, canonical; other kinds have none.
    pub shown: Option<Arc<[u8]>>,
    /// SHA-256 of what the agent is shown and the effective binding without secrets.
    pub definition: Digest,
}

/// The kinds of tools this build knows.
#[derive(Debug)]
pub enum Kind {
    /// One HTTP request.
    Http(Box<Http>),
    /// One file beneath a root.
    FileRead(Root),
    /// One tool or method of an MCP server.
    Mcp(Box<Mcp>),
}

impl Kind {
    /// `http`, `file.read` or `mcp`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::FileRead(_) => "file.read",
            Self::Mcp(_) => "mcp",
        }
    }
}

/// One HTTP request with places for arguments.
#[derive(Debug)]
pub struct Http {
    /// `GET`, `POST`, ….
    pub method: http::Method,
    /// Scheme, host and port.
    pub origin: Origin,
    /// The path.
    pub path: PathTemplate,
    /// Query parameters in name order.
    pub query: Vec<(String, Template)>,
    /// Literal headers.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// The body.
    pub body: Body,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// What the request is authenticated with.
    pub credentials: Vec<Credential>,
}

/// One secret and where it goes.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Header or query parameter.
    pub place: Place,
    /// Put before the secret in a header.
    pub prefix: String,
    /// The secret.
    pub secret: Secret,
    /// `file:<path>` or `env:<name>`, as it was written.
    pub reference: String,
}

/// Where a secret goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A request header.
    Header(http::HeaderName),
    /// A query parameter. It is part of no effect facts and no entry.
    Query(String),
}

/// A directory that files are read beneath.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// What policies and entries call it.
    pub name: String,
    /// The directory: absolute, without symbolic links when it was checked.
    pub path: PathBuf,
}
