//! Tool bindings: how the gate reaches a tool, as the operator wrote it and in checked form.
//!
//! A `Config` is read from YAML, reports all of its errors at once, and becomes `Binding`s: hosts
//! and paths are parsed, schemas compiled, secrets read once. A binding that exists is valid. No
//! code here opens a connection.
//!
//! This file is the registry of the kinds of tools. Each kind (its section of the configuration,
//! its checks, the contents of its definition) has a folder of its own, and is reached through
//! [`Section`] and [`Reach`].
//!
//! Beside the tools are an operator's other bindings: [`identity`] reads signed manifests and knows
//! callers by their tokens and certificates, [`limits`] counts budgets, pools and fair shares,
//! [`mcp`] is the framing and the names of the Model Context Protocol, [`llm`] reads and rewrites what
//! agents and model providers say to each other.

use wicketgate_crypto as crypto;
use wicketgate_record::{clock, domain, yaml};

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::check::{
    COST_MICRO_USD_MAX, DEDUPE_MS_MAX, Draft, RESULT_BYTES, RESULT_BYTES_MAX, TIMEOUT_MS,
    TIMEOUT_MS_MAX,
};
use crate::command::Demand;
use crate::config::CredentialConfig;
use crate::domain::effect::ToolKind;
use crate::domain::json::Json;
use crate::file::Root;
use crate::form::FilePath;
use crate::host::Origin;
use crate::read_back::ReadBackConfig;
use crate::schema::Schema;
use crate::secret::Secret;

pub mod address;
pub mod binding;
mod bound;
mod check;
pub mod command;
pub mod config;
mod definition;
pub mod drift;
pub mod fetch;
pub mod file;
pub mod file_name;
pub mod form;
pub mod grpc;
pub mod hidden;
pub mod host;
pub mod http;
pub mod identity;
pub mod limits;
pub mod llm;
pub mod lock;
pub mod mcp;
pub mod model;
mod outbound;
pub mod read_back;
pub mod roles;
pub mod schema;
pub mod secret;
pub mod server;
pub mod sql;
pub mod template;
pub mod unreached;
pub mod web_url;

pub use binding::Binding;
pub use bound::Bound;
pub use check::{Checked, Surroundings};
pub use config::Config;

/// One tool, exactly as it may be written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Name of the tool for agents and manifests: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// What the tool does, as agents read it: 1 to 16,384 bytes.
    pub description: String,
    /// Kind of the tool. The tool has the section of its kind, and no other section of a kind.
    #[schemars(extend("examples" = configurable().map(ToolKind::as_str).collect::<Vec<_>>()))]
    pub kind: String,
    /// JSON Schema (2020-12) of the arguments. The kinds `file.*`, `fetch`, `model` and `sql` have
    /// a schema of their own if none is given; `sql` and `grpc` accept no other.
    pub input_schema: Option<serde_json::Value>,
    /// JSON file that holds the schema of the arguments, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub input_schema_file: Option<PathBuf>,
    /// How much harm a call can do, from `T0` (least) to `T3` (most).
    #[schemars(extend("default" = "T3", "examples" = ["T0", "T1", "T2", "T3"]))]
    pub tier: Option<String>,
    /// Whether a call changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Whether two equal calls have the same effect as one.
    #[serde(default)]
    pub idempotent: bool,
    /// Milliseconds that a call may take after it was permitted.
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX), extend("default" = TIMEOUT_MS))]
    pub timeout_ms: Option<u64>,
    /// Maximum size of a result in bytes.
    #[schemars(range(min = 1, max = RESULT_BYTES_MAX), extend("default" = RESULT_BYTES))]
    pub result_bytes_max: Option<u64>,
    /// Cost of one call in millionths of a US dollar. 0 means that it costs nothing; without this field the cost is not
    /// known.
    #[schemars(range(max = COST_MICRO_USD_MAX))]
    pub cost_micro_usd: Option<u64>,
    /// Milliseconds for which the same call (run, tool, arguments) under another id counts as a repetition and gets the
    /// first answer. It helps clients that send a request again under a new id. Default: never.
    #[schemars(range(min = 1, max = DEDUPE_MS_MAX))]
    pub dedupe_ms: Option<u64>,
    /// What its answers bring into a run, and where its arguments can get to, if not what its kind and its binding
    /// show. What is milder than that is a promise of the operator.
    pub taint: Option<roles::TaintConfig>,
    /// Checks each completed call of a tool of tier `T1`: the gate calls a tool that reads, and compares.
    pub read_back: Option<ReadBackConfig>,
    /// Secrets that requests are authenticated with (`http`, `fetch`, `grpc`).
    #[serde(default)]
    pub credentials: Vec<CredentialConfig>,
    /// The request of a tool of kind `http`.
    pub http: Option<http::config::HttpConfig>,
    /// The bounds of a tool of kind `fetch`.
    pub fetch: Option<fetch::config::FetchConfig>,
    /// The directory of a tool of kind `file.read`, `file.list` or `file.write`.
    pub file: Option<file::config::File>,
    /// The database of a tool of kind `sql`.
    pub sql: Option<sql::config::SqlConfig>,
    /// The program of a tool of kind `command`.
    pub command: Option<command::config::Command>,
    /// The upstreams of a tool of kind `model`.
    pub model: Option<model::config::ModelConfig>,
    /// The method of a tool of kind `grpc`.
    pub grpc: Option<grpc::config::GrpcConfig>,
}

impl Tool {
    /// The section of this kind, if it is written.
    fn section(&self, kind: ToolKind) -> Option<&dyn Section> {
        fn of<T: Section>(section: Option<&T>) -> Option<&dyn Section> {
            section.map(|section| -> &dyn Section { section })
        }
        match kind {
            ToolKind::Http => of(self.http.as_ref()),
            ToolKind::Fetch => of(self.fetch.as_ref()),
            ToolKind::FileRead | ToolKind::FileList | ToolKind::FileWrite => of(self.file.as_ref()),
            ToolKind::Command => of(self.command.as_ref()),
            ToolKind::Sql => of(self.sql.as_ref()),
            ToolKind::Model => of(self.model.as_ref()),
            ToolKind::Grpc => of(self.grpc.as_ref()),
            // Tools of MCP servers are bound by `servers` and by the lock, those of the agent by the
            // manifest.
            ToolKind::Mcp | ToolKind::Client => None,
        }
    }
}

/// The kinds that have a section.
fn configurable() -> impl Iterator<Item = ToolKind> {
    let of_others = [ToolKind::Mcp, ToolKind::Client];
    ToolKind::ALL.iter().copied().filter(move |kind| !of_others.contains(kind))
}

/// A checked tool of one kind: what the gate builds its executor from.
#[derive(Debug)]
pub enum Kind {
    /// One HTTP request.
    Http(Box<http::Http>),
    /// A URL of the agent's choice.
    Fetch(Box<fetch::Fetch>),
    /// One file beneath a root.
    FileRead(Root),
    /// The entries of one directory beneath a root.
    FileList(file::Listing),
    /// One file beneath a root: to make, replace or delete.
    FileWrite(file::Writing),
    /// One program inside a sandbox.
    Command(Box<command::Command>),
    /// One statement of a database.
    Sql(Box<sql::Sql>),
    /// A model, at one of several upstreams.
    Model(model::Model),
    /// One unary method of a gRPC service.
    Grpc(Box<grpc::Grpc>),
    /// One tool or method of an MCP server.
    Mcp(Box<server::Mcp>),
}

impl Kind {
    fn reach(&self) -> &dyn Reach {
        match self {
            Self::Http(http) => &**http,
            Self::Fetch(fetch) => &**fetch,
            Self::FileRead(root) => root,
            Self::FileList(listing) => listing,
            Self::FileWrite(writing) => writing,
            Self::Command(command) => &**command,
            Self::Sql(sql) => &**sql,
            Self::Model(model) => model,
            Self::Grpc(grpc) => &**grpc,
            Self::Mcp(mcp) => &**mcp,
        }
    }

    /// The root under which its calls open files; `None` for a kind that opens none.
    pub const fn root_mut(&mut self) -> Option<&mut Root> {
        match self {
            Self::FileRead(root) => Some(root),
            Self::FileList(listing) => Some(&mut listing.root),
            Self::FileWrite(writing) => Some(&mut writing.root),
            Self::Http(_)
            | Self::Fetch(_)
            | Self::Command(_)
            | Self::Sql(_)
            | Self::Model(_)
            | Self::Grpc(_)
            | Self::Mcp(_) => None,
        }
    }

    /// The tool or method of an MCP server behind it; `None` for another kind.
    pub fn mcp(&self) -> Option<&server::Mcp> {
        if let Self::Mcp(mcp) = self { Some(mcp) } else { None }
    }

    /// `http`, `fetch`, `file.read`, …
    pub fn as_str(&self) -> &'static str {
        self.reach().kind().as_str()
    }

    /// Every address with a name that tools of this binding connect to: a pattern of hosts names
    /// none.
    pub fn origins(&self) -> Vec<Origin> {
        self.reach().origins()
    }

    /// Every secret that tools of this binding get: their answers must not contain one.
    pub fn secrets(&self) -> Vec<Secret> {
        self.reach().secrets()
    }

    /// What its calls demand of the system.
    pub fn demand(&self) -> Option<Demand> {
        self.reach().demand()
    }

    fn definition(&self) -> Json {
        self.reach().definition()
    }
}

/// The section of one kind in the configuration of a tool. It is named as the kind, up to the dot.
trait Section {
    /// Whether the tool's `credentials` belong to it.
    fn takes_credentials(&self) -> bool {
        true
    }

    /// The files of secrets that it names: no tool and no server may read them.
    fn secret_files(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// The schema of the arguments and the checked kind, or `None` with all of its problems.
    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)>;
}

/// What is reached by a checked tool of one kind.
trait Reach {
    fn kind(&self) -> ToolKind;

    /// What of it the digest of the tool's definition covers: everything but the secrets.
    fn definition(&self) -> Json;

    /// See [`Kind::origins`].
    fn origins(&self) -> Vec<Origin> {
        Vec::new()
    }

    /// See [`Kind::secrets`].
    fn secrets(&self) -> Vec<Secret> {
        Vec::new()
    }

    /// See [`Kind::demand`]. A kind that starts no program demands no isolation.
    fn demand(&self) -> Option<Demand> {
        None
    }
}

/// One thing that is wrong with the `tools:` or the `servers:` list, or with the lock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ConfigError {
    /// Where: `tools[0].http.url`, `servers[0].stdio.command`.
    pub path: String,
    /// The error and its remedy.
    pub message: String,
}

/// All problems so far.
#[derive(Default)]
struct Problems(Vec<ConfigError>);

impl Problems {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(ConfigError { path: path.into(), message: message.into() });
    }

    /// A problem for each of these fields that is given.
    fn foreign<const N: usize>(&mut self, at: &str, given: [(&str, bool); N], message: &str) {
        for (field, _) in given.into_iter().filter(|(_, given)| *given) {
            self.add(format!("{at}.{field}"), message);
        }
    }

    /// The value, or `None` and one more problem.
    fn take<T, E: ToString>(&mut self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }
}
