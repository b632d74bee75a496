//! The `tools:` list of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// Every binding of one sidecar, not yet checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<Tool>);

/// One binding.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name agents and manifests use: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// What agents are told it does.
    pub description: String,
    /// `http` or `file.read`.
    pub kind: String,
    /// JSON Schema (2020-12) of the arguments. `file.read` has one of its own.
    pub input_schema: Option<serde_json::Value>,
    /// The same from a JSON file, relative to the configuration file.
    pub input_schema_file: Option<PathBuf>,
    /// `T0` to `T3`; `T3` if absent.
    pub tier: Option<String>,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Running it twice is running it once.
    #[serde(default)]
    pub idempotent: bool,
    /// From permit to the end of the call: 1 to 600,000, 30,000 if absent.
    pub timeout_ms: Option<u64>,
    /// Result bytes: 1 to 8,388,608, 1,048,576 if absent.
    pub result_bytes_max: Option<u64>,
    /// What one call costs, in millionths of a US dollar; 0 is nothing, absent is not known.
    pub cost_micro_usd: Option<u64>,
    /// What the request is authenticated with (`http`).
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// How a tool of kind `http` is reached.
    pub http: Option<Http>,
    /// What a tool of kind `file.read` reads.
    pub file: Option<File>,
}

/// Where one secret goes and where it comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Name of the request header it is sent in.
    pub header: Option<String>,
    /// Name of the query parameter it is sent in.
    pub query: Option<String>,
    /// Put before the secret in a header: `"Bearer "`.
    pub prefix: Option<String>,
    /// File that holds the secret, relative to the configuration file. Read once.
    pub file: Option<PathBuf>,
    /// Environment variable that holds the secret. Read once.
    pub env: Option<String>,
    /// Never right: a secret is given by reference.
    pub value: Option<serde::de::IgnoredAny>,
}

/// An HTTP request with places for arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// `GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// Literal scheme, host and port; `{places}` in path segments only.
    pub url: String,
    /// Query parameters; one that is nothing but an absent argument is left out.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Literal headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// `none`, `args`, or a JSON object with `{places}`. Must be said for POST, PUT and PATCH.
    pub body: Option<serde_json::Value>,
    /// Address ranges outside the public Internet that this tool may be reached at.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    pub ca_file: Option<PathBuf>,
}

/// A directory that files are read beneath.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The directory, relative to the configuration file. Opened once, at start.
    pub root: PathBuf,
    /// What policies and entries call it: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
}
