//! The `servers:` list of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::isolation::{MEMORY, PIDS};
use crate::check::{
    COST_MICRO_USD_MAX, DEDUPE_MS_MAX, RESULT_BYTES, RESULT_BYTES_MAX, TIMEOUT_MS, TIMEOUT_MS_MAX,
};
use crate::config::CredentialConfig;
use crate::form::FilePath;
use crate::roles::TaintConfig;

/// Every MCP server of one sidecar, not yet checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<McpServerConfig>);

/// One server: exactly one of `stdio` and `http`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerConfig {
    /// Name of the server, which is the part of its tools' names before the first dot.
    #[schemars(
        regex(pattern = r"^[a-z0-9_-]{1,32}$"),
        extend("x-error" = "expected the name of a server: [a-z0-9_-]{1,32}")
    )]
    pub name: String,
    /// A program that speaks MCP on its standard streams.
    pub stdio: Option<StdioConfig>,
    /// A server behind a URL.
    pub http: Option<RemoteConfig>,
    /// Tier of those of the server's tools that set none themselves.
    #[schemars(extend("default" = "T3", "enum" = ["T0", "T1", "T2", "T3"]))]
    pub tier: Option<String>,
    /// Milliseconds that a call may take after it was permitted.
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX), extend("default" = TIMEOUT_MS))]
    pub timeout_ms: Option<u64>,
    /// Maximum size of a result in bytes.
    #[schemars(range(min = 1, max = RESULT_BYTES_MAX), extend("default" = RESULT_BYTES))]
    pub result_bytes_max: Option<u64>,
    /// Settings of individual tools and methods, by the server's own names for them.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 1024))]
    pub tools: BTreeMap<String, ToolSettings>,
}

/// A program that speaks MCP on its standard streams.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StdioConfig {
    /// The program: a path with a slash, relative to the configuration file, or a name found in `PATH`.
    #[schemars(length(min = 1, max = 4096), extend("x-error" = "expected a path"))]
    pub command: String,
    /// Arguments of the program, literal.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub args: Vec<String>,
    /// Environment of the program. Outside a sandbox it also gets a few of the gate's own
    /// variables.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 256))]
    pub env: BTreeMap<String, String>,
    /// Environment variables that hold secrets.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub credentials: Vec<Variable>,
    /// Directory that the program runs in, relative to the configuration file. Default: the directory of that file; in a
    /// sandbox, the first directory that the program may write or read.
    #[schemars(with = "Option<FilePath>")]
    pub cwd: Option<PathBuf>,
    /// The sandbox that the program runs in. Without this section, or with `level: none`, the
    /// program can do everything that the gate's user can.
    pub sandbox: Option<SandboxConfig>,
}

/// What keeps a program from everything else. In it, the program gets no variable but those that are written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxConfig {
    /// Level of the sandbox, as for commands. Where the system lacks what the level needs, the gate
    /// refuses the server's tools. With `none`, the program can do everything that the gate's user
    /// can.
    #[schemars(extend("enum" = ["none", "S1", "S2"]))]
    pub level: String,
    /// Files and directories that the program may read besides the system's programs and libraries, relative to the
    /// configuration file.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>", length(max = 64))]
    pub read: Vec<PathBuf>,
    /// Files and directories that the program may change, relative to the configuration file.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>", length(max = 64))]
    pub write: Vec<PathBuf>,
    /// With `host`, the program may connect to everything that the gate's host can reach.
    #[schemars(extend("default" = "none", "enum" = ["none", "host"]))]
    pub network: Option<String>,
    /// What the program may connect to, instead of `network`: `HOST` or `HOST:PORT`, port 443 if
    /// none is given. It gets its own network with a proxy of the gate (`HTTPS_PROXY`), which
    /// connects only to these hosts. This needs `S2`.
    #[serde(default)]
    #[schemars(with = "Vec<HostSchema>", length(max = 64), example = ["api.example.com"])]
    pub hosts: Vec<String>,
    /// Address ranges outside the public Internet that `hosts` may lead to.
    #[serde(default)]
    #[schemars(length(max = 64), example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// Absolute paths of the programs that it may start itself; needs `S2`.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>", length(max = 64))]
    pub programs: Vec<PathBuf>,
    /// Bytes of memory that each process may write to; with control groups, that all processes write to together.
    #[schemars(range(min = MEMORY.0, max = MEMORY.2), extend("default" = MEMORY.1))]
    pub memory_bytes: Option<u64>,
    /// Processes and threads together (`S2`, or control groups).
    #[schemars(range(min = 1, max = PIDS.1), extend("default" = PIDS.0))]
    pub pids: Option<u64>,
    /// `available`: where the system has control groups, they hold the limits for all processes together. `required`:
    /// where it has none, the gate refuses the server's tools.
    #[schemars(extend("default" = "available", "enum" = ["available", "required"]))]
    pub cgroup: Option<String>,
}

/// The schema of what a program may connect to.
#[derive(JsonSchema)]
#[schemars(extend("x-error" = "expected HOST or HOST:PORT"))]
struct HostSchema(#[expect(dead_code, reason = "only its schema is used")] String);

/// A secret in one variable of a program.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Name of the environment variable that the program reads.
    pub env: String,
    /// File that holds the secret, relative to the configuration file. The gate reads it once.
    #[schemars(with = "Option<FilePath>")]
    pub file: Option<PathBuf>,
    /// Variable of the gate's own environment that holds the secret. The gate reads it once.
    pub from_env: Option<String>,
    /// Refused: a secret is given by `file` or `from_env`, never inline.
    #[schemars(with = "Option<serde_json::Value>")]
    pub value: Option<serde::de::IgnoredAny>,
}

/// A server behind a URL.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteConfig {
    /// URL of the server, literal, with its query if it has one.
    #[schemars(example = "https://mcp.example.com/mcp")]
    pub url: String,
    /// Literal headers of every request.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 256))]
    pub headers: BTreeMap<String, String>,
    /// Address ranges outside the public Internet that this server may be reached at.
    #[serde(default)]
    #[schemars(length(max = 64), example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
    /// Secrets that requests are authenticated with.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub credentials: Vec<CredentialConfig>,
}

/// Settings of one tool or method.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSettings {
    /// How much harm a call can do, from `T0` (least) to `T3` (most). Default: the tier of the
    /// server.
    #[schemars(extend("enum" = ["T0", "T1", "T2", "T3"]))]
    pub tier: Option<String>,
    /// Whether a call changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Whether two equal calls have the same effect as one.
    #[serde(default)]
    pub idempotent: bool,
    /// Milliseconds that a call may take after it was permitted. Default: those of the server.
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX))]
    pub timeout_ms: Option<u64>,
    /// Cost of one call in millionths of a US dollar. 0 means that it costs nothing; without this field the cost is not
    /// known.
    #[schemars(range(max = COST_MICRO_USD_MAX))]
    pub cost_micro_usd: Option<u64>,
    /// Milliseconds for which the same call (run, tool, arguments) under another id counts as a repetition and gets the
    /// first answer. It helps clients that send a request again under a new id. Default: never.
    #[schemars(range(min = 1, max = DEDUPE_MS_MAX))]
    pub dedupe_ms: Option<u64>,
    /// What its answers bring into a run, and where its arguments can get to, if not what the binding of its server
    /// shows. What is milder than that is a promise of the operator.
    pub taint: Option<TaintConfig>,
}
