//! The edge: decode, call the road, encode.
//!
//! A face may not decide, may not reach a tool and may not word an error of its own: `problem`
//! renders what `enforce` returns. Agents and operators use different listeners: the
//! agent's listeners speak gRPC (`grpc`), HTTP/JSON (`http`), MCP (`mcp`) and the dialects of model
//! providers (`llm`), the operator's speaks HTTP and gRPC
//! (`operator`), and neither serves a route of the other.
//!
//! This file is the registry of faces: their modules, their part of `listen`, what each endpoint
//! speaks, and `surface`, which lists all there is; a test holds it against the compiled protocol, the
//! document of HTTP/JSON and what MCP answers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::edge::Edge;
use self::listener::Stream;
use crate::catalog::form::FilePath;
use crate::clock::{Clock, Entropy};
use crate::domain::code::Code;
use crate::enforce::{Fault, Road};
use crate::identity::{Caller, Peer};
use crate::operator::api::ROUTES;
use crate::telemetry::metrics::Metrics;

mod agent_api;
pub mod agents;
pub(crate) mod body;
pub mod console;
mod convert;
mod dialect;
pub(crate) mod driver;
mod edge;
mod framing;
pub mod grpc;
mod guard;
mod handover;
pub mod http;
pub mod listener;
pub mod llm;
pub mod mcp;
pub mod operator;
pub mod pb;
pub(crate) mod places;
pub(crate) mod probes;
pub mod problem;
mod timeout;
pub mod tls;
pub mod trace;

pub(crate) use edge::misread;
pub(crate) use guard::bearer;
pub use places::STRANGERS;

/// The header and the gRPC metadata that carry the seed of a deterministic run.
pub const SEED: &str = "x-wicketgate-seed";

/// How a peer and the credential it shows become a caller; built by the composition root.
pub type Identify = Arc<dyn Fn(&Peer, Option<&str>) -> Result<Caller, Fault> + Send + Sync>;

/// Whether the gate can do its work right now, and if not, why not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Readiness {
    /// Whether agents can be let at it: it listens, and a bundle is in force, or only a store or a hub that is away keeps it
    /// from that. Once true it stays true for as long as the gate runs.
    pub started: bool,
    /// Whether an agent's call can be governed.
    pub ready: bool,
    /// What is missing, for a person: `no policy bundle is loaded`. Empty when ready.
    pub reasons: Vec<String>,
    /// What a person should know although calls can be governed: `server github: degraded: …`.
    pub notes: Vec<String>,
}

/// `listen`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The agent socket. Default: `agent.sock` in the state directory.
    #[schemars(with = "Option<FilePath>", extend("x-null" = "no agent socket"))]
    pub socket: Option<PathBuf>,
    /// Address for agents with tokens or certificates. It is a loopback address unless there is `tls`.
    #[serde(default)]
    #[schemars(extend("x-null" = "no such listener"), example = "127.0.0.1:7300")]
    pub tcp: Option<SocketAddr>,
    /// TLS 1.2 and 1.3 of `tcp`, needed beyond loopback. Each client has to show a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<tls::Section>,
}

impl Listen {
    /// The endpoints that are on, besides the sockets.
    pub fn endpoints(&self) -> impl Iterator<Item = AgentEndpoint> + use<> {
        self.tcp.map(AgentEndpoint::Tcp).into_iter()
    }
}

/// One place agents can connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEndpoint {
    /// A Unix socket in the file system, for every face.
    Socket(PathBuf),
    /// A loopback address, or any over TLS, for every face; port 0 lets the system choose.
    Tcp(SocketAddr),
}

impl AgentEndpoint {
    /// Its address, or the path of its socket.
    fn address(&self) -> Result<SocketAddr, &Path> {
        match self {
            Self::Socket(path) => Err(path),
            Self::Tcp(addr) => Ok(*addr),
        }
    }

    /// Drives one connection to its end in the protocol of this endpoint.
    async fn serve(self, stream: Stream, peer: Peer, edge: Edge, closing: CancellationToken) {
        match self {
            Self::Socket(_) | Self::Tcp(_) => {
                driver::either(stream, edge.at(peer, closing.clone()), closing).await;
            }
        }
    }
}

/// What every face needs. Cheap to clone.
#[derive(Clone)]
pub struct Faces {
    /// The road, once the ledger is open. Until it is set every request is answered `not_ready`.
    pub road: Arc<OnceLock<Arc<Road>>>,
    /// Who a peer is.
    pub identify: Identify,
    /// The gate writes it; health and readiness read it.
    pub readiness: watch::Receiver<Readiness>,
    /// Where to count.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness: session ids, and ids of calls without one.
    pub entropy: Arc<dyn Entropy>,
}

impl Faces {
    /// Counts a request that was refused at the edge; the ledger records it too, once it is open.
    fn reject(&self, code: Code) {
        match self.road.get() {
            Some(road) => road.reject(code),
            None => self.metrics.rejected(code.as_str()),
        }
    }
}

impl std::fmt::Debug for Faces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faces").field("open", &self.road.get().is_some()).finish_non_exhaustive()
    }
}

/// What a request must have before it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The whole road: run token, admission, judgement, ledger.
    Enforced,
    /// A known caller, the holder of a run token or, at `enrol`, of an enrolment token; the route
    /// runs no tool.
    Identified,
    /// An operator with a role that has the right.
    Operated,
    /// Any client that reaches the listener; discloses no payload and changes nothing.
    Open,
}

impl Access {
    /// The name in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Identified => "identified",
            Self::Operated => "operated",
            Self::Open => "open",
        }
    }
}

/// Every route of a sidecar that stands in no table of its own: gRPC methods by full name, methods of
/// MCP after `MCP `, routes by HTTP method and path.
///
/// The gate governs the methods that MCP passes on to a server (`resources/read` and its like) as
/// it does tools.
pub const SURFACE: &[(&str, Access)] = &[
    ("wicketgate.v1.Gate/OpenRun", Access::Identified),
    ("wicketgate.v1.Gate/ListTools", Access::Identified),
    ("wicketgate.v1.Gate/ExecuteTool", Access::Enforced),
    ("wicketgate.v1.Gate/GetCall", Access::Identified),
    ("wicketgate.v1.Gate/ReadResult", Access::Identified),
    ("wicketgate.v1.Gate/SealRun", Access::Identified),
    ("wicketgate.v1.Gate/ChallengePosture", Access::Identified),
    ("wicketgate.v1.Gate/ReportPosture", Access::Identified),
    ("grpc.health.v1.Health/Check", Access::Open),
    ("grpc.health.v1.Health/Watch", Access::Open),
    ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Access::Open),
    ("MCP initialize", Access::Identified),
    ("MCP ping", Access::Identified),
    ("MCP server/discover", Access::Identified),
    ("MCP subscriptions/listen", Access::Identified),
    ("MCP logging/setLevel", Access::Identified),
    ("MCP tools/list", Access::Identified),
    ("MCP tools/call", Access::Enforced),
    ("MCP resources/list", Access::Enforced),
    ("MCP resources/templates/list", Access::Enforced),
    ("MCP resources/read", Access::Enforced),
    ("MCP prompts/list", Access::Enforced),
    ("MCP prompts/get", Access::Enforced),
    ("MCP completion/complete", Access::Enforced),
    ("GET /livez", Access::Open),
    ("GET /readyz", Access::Open),
    ("GET /startupz", Access::Open),
    ("GET /metrics", Access::Open),
    ("POST /v1/enrol", Access::Identified),
];

/// Every route of a sidecar: [`SURFACE`], HTTP/JSON and models for agents, and the operator API.
pub fn surface() -> Vec<(String, Access)> {
    let own = SURFACE.iter().map(|(name, access)| ((*name).to_owned(), *access));
    let agents = http::routes::ROUTES.iter().map(|route| (route.name(), route.access));
    let routes = ROUTES.iter().flat_map(|row| row.methods().chain([row.name()]));
    own.chain(agents)
        .chain(llm::surface())
        .chain(routes.map(|name| (name, Access::Operated)))
        .chain(console::surface())
        .collect()
}

/// What can go wrong with a listener.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// The address or path cannot be listened on.
    #[error(
        "cannot listen on `{place}`: {source}; end the program that uses it, or configure another"
    )]
    Bind {
        /// The address or path.
        place: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another process answers on the socket.
    #[error(
        "cannot listen on `{0}`: another process answers there; end it, or configure another path"
    )]
    Taken(String),
    /// The path exists and is not a socket, or names no file.
    #[error("cannot listen on `{0}`: not a socket path")]
    NotASocket(String),
    /// Without TLS an agent's TCP listener stays on this machine.
    #[error("cannot listen on `{0}`: agents' tcp without tls is loopback only")]
    NotLoopback(SocketAddr),
    /// The operator's thread cannot be started.
    #[error("cannot start the operator's thread: {0}")]
    Thread(std::io::Error),
    /// The compiled protocol cannot be reflected.
    #[error("cannot serve reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}
