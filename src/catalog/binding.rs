//! A checked binding: everything parsed, every secret read, nothing opened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::address::Cidr;
use super::command::Command;
use super::config::Price;
use super::fetch::HostPattern;
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
    /// For how long the same call under another id is the first one.
    pub dedupe: Option<Duration>,
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
    /// A URL of the agent's choice.
    Fetch(Box<Fetch>),
    /// One file beneath a root.
    FileRead(Root),
    /// The entries of one directory beneath a root.
    FileList(Listing),
    /// One file beneath a root, made, replaced or deleted.
    FileWrite(Writing),
    /// A model, asked at one of several places.
    Model(Model),
    /// One tool or method of an MCP server.
    Mcp(Box<Mcp>),
    /// One program inside a sandbox.
    Command(Box<Command>),
    /// One statement of a database.
    Sql(Box<super::sql::Sql>),
    /// One unary method of a gRPC service.
    Grpc(Box<super::grpc::Grpc>),
}

impl Kind {
    /// `http`, `fetch`, `file.read`, `file.list`, `file.write`, `model`, `mcp`, `command`, `sql` or `grpc`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Fetch(_) => "fetch",
            Self::FileRead(_) => "file.read",
            Self::FileList(_) => "file.list",
            Self::FileWrite(_) => "file.write",
            Self::Model(_) => "model",
            Self::Mcp(_) => "mcp",
            Self::Command(_) => "command",
            Self::Sql(_) => "sql",
            Self::Grpc(_) => "grpc",
        }
    }

    /// Every place that tools of this binding connect to and that is named: a pattern of hosts names none.
    #[must_use]
    pub fn origins(&self) -> Vec<Origin> {
        match self {
            Self::Http(http) => vec![http.origin.clone()],
            Self::Fetch(fetch) => fetch.origins(),
            Self::Model(model) => model.upstreams.iter().map(|one| one.origin.clone()).collect(),
            Self::Mcp(mcp) => match &mcp.server.transport {
                super::server::Transport::Http(remote) => vec![remote.origin.clone()],
                super::server::Transport::Stdio(stdio) => stdio.isolation.origins(),
            },
            Self::Sql(sql) => match &sql.target {
                super::sql::Target::Postgres(pg) => vec![pg.origin.clone()],
                super::sql::Target::Sqlite(_) => Vec::new(),
            },
            Self::Grpc(grpc) => vec![grpc.origin.clone()],
            Self::FileRead(_) | Self::FileList(_) | Self::FileWrite(_) | Self::Command(_) => {
                Vec::new()
            }
        }
    }

    /// Every secret that tools of this binding are given: what none of them may answer with.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        let of = |list: &[Credential]| list.iter().map(|c| c.secret.clone()).collect::<Vec<_>>();
        match self {
            Self::Http(http) => of(&http.credentials),
            Self::Fetch(fetch) => fetch.credentials.iter().map(|(_, c)| c.secret.clone()).collect(),
            Self::Mcp(mcp) => mcp.server.secrets(),
            Self::Sql(sql) => sql.secrets(),
            Self::Grpc(grpc) => of(&grpc.credentials),
            Self::Command(command) => {
                command.secrets.iter().map(|(_, one, _)| one.clone()).collect()
            }
            Self::Model(model) => {
                model.upstreams.iter().flat_map(|place| of(&place.credentials)).collect()
            }
            Self::FileRead(_) | Self::FileList(_) | Self::FileWrite(_) => Vec::new(),
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

/// A model and the places it is asked at, in order.
#[derive(Debug)]
pub struct Model {
    /// Tokens one call may write.
    pub output_tokens_max: u64,
    /// Tokens one image is taken for.
    pub image_tokens_max: u64,
    /// At least one; all of them have a price or none has.
    pub upstreams: Vec<ModelUpstream>,
}

/// One place a model is asked at.
#[derive(Debug)]
pub struct ModelUpstream {
    /// What answers and entries call it.
    pub name: String,
    /// How it is spoken to.
    pub api: Api,
    /// Scheme, host and port.
    pub origin: Origin,
    /// The path of its base URL, without a slash at its end.
    pub path: String,
    /// Ids that agents may ask for, each with the id that is asked for here.
    pub models: BTreeMap<String, String>,
    /// Literal headers.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// What requests are authenticated with: headers only.
    pub credentials: Vec<Credential>,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// What tokens cost here.
    pub price: Option<Price>,
    /// The member of a request that bounds its answer.
    pub output_tokens_field: &'static str,
}

/// What a model's server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Api {
    /// `POST <base>/chat/completions`.
    OpenAi,
    /// `POST <base>/api/chat`.
    Ollama,
}

impl Api {
    /// `openai` or `ollama`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Ollama => "ollama",
        }
    }

    /// What follows the base URL.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/chat/completions",
            Self::Ollama => "/api/chat",
        }
    }
}

/// Which URLs a tool may be asked for, and what goes with the request.
#[derive(Debug)]
pub struct Fetch {
    /// Hosts, by name or below a domain.
    pub hosts: Vec<HostPattern>,
    /// `https`, `http`.
    pub schemes: Vec<&'static str>,
    /// TCP ports; none listed: the scheme's own.
    pub ports: Vec<u16>,
    /// `GET`, `HEAD`.
    pub methods: Vec<http::Method>,
    /// Request headers the agent may set.
    pub headers_allowed: Vec<http::HeaderName>,
    /// Response headers the agent is given.
    pub headers_returned: Vec<http::HeaderName>,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// Secrets, each with the one origin it is sent to.
    pub credentials: Vec<(Origin, Credential)>,
}

impl Fetch {
    /// Everywhere the hosts that are named one by one may be asked at.
    #[must_use]
    pub fn origins(&self) -> Vec<Origin> {
        let named = self.hosts.iter().filter_map(|pattern| match pattern {
            HostPattern::Exact(host) => Some(host),
            HostPattern::Below(_) => None,
        });
        let at = |host: &super::host::Host| {
            let mut all = Vec::new();
            for scheme in &self.schemes {
                let tls = *scheme == "https";
                let own = [if tls { 443 } else { 80 }];
                let ports = if self.ports.is_empty() { &own[..] } else { &self.ports };
                all.extend(ports.iter().map(|port| Origin {
                    tls,
                    host: host.clone(),
                    port: *port,
                }));
            }
            all
        };
        named.flat_map(at).collect()
    }
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

/// A directory that files are read, listed or written beneath.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// What policies and entries call it.
    pub name: String,
    /// The directory: absolute, without symbolic links when it was checked.
    pub path: PathBuf,
    /// More names that nobody is given.
    pub protect: Vec<String>,
    /// Exact paths that are given although a name in them is protected.
    pub allow: Vec<String>,
    /// Names that are given anywhere below although they begin with a dot or steer tools.
    pub allow_names: Vec<String>,
    /// The gate's own files, absolute: never given, whatever is allowed.
    pub own: Vec<PathBuf>,
}

/// How a directory beneath a root is listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// Where.
    pub root: Root,
    /// Entries of one answer.
    pub entries_max: u64,
    /// Directories deep that may be asked for.
    pub depth_max: u64,
}

/// How a file beneath a root is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writing {
    /// Where.
    pub root: Root,
    /// A new file may bring the directories it lies in.
    pub create_parents: bool,
}
