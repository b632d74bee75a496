//! The `tools:` list of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{
    COST_MICRO_USD_MAX, DEDUPE_MS_MAX, DEPTH, DEPTH_MAX, ENTRIES, ENTRIES_MAX, NAMES_MAX,
    RESULT_BYTES, RESULT_BYTES_MAX, TIMEOUT_MS, TIMEOUT_MS_MAX,
};
use super::command::{CPU_SECONDS_MAX, MEMORY, PIDS, PIDS_MAX};
use super::fetch::{HOSTS_MAX, LIST_MAX};
use super::model::{IMAGE_TOKENS_MAX, MODELS_MAX, OUTPUT_TOKENS_MAX, PRICE_MAX, UPSTREAMS_MAX};
use super::server::config::Variable;
use crate::form::FilePath;

/// Every binding of one sidecar, not yet checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<Tool>);

/// One binding.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Name of the tool for agents and manifests: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// What the tool does, in words for agents: 1 to 16,384 bytes.
    pub description: String,
    /// What kind of tool it is. A tool has the section of its kind, and no other.
    #[schemars(extend("examples" = ["http", "fetch", "file.read", "file.list", "file.write", "command", "sql", "model", "grpc"]))]
    pub kind: String,
    /// JSON Schema (2020-12) of the arguments. The kinds `file.*`, `fetch`, `model` and `sql` have a schema of their own
    /// if none is given; `sql` and `grpc` take no other.
    pub input_schema: Option<serde_json::Value>,
    /// JSON file that holds the schema of the arguments, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub input_schema_file: Option<PathBuf>,
    /// How much harm a call can do, from `T0` to `T3`.
    #[schemars(extend("default" = "T3", "examples" = ["T0", "T1", "T2", "T3"]))]
    pub tier: Option<String>,
    /// Whether a call changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Whether two equal calls do the same as one.
    #[serde(default)]
    pub idempotent: bool,
    /// Milliseconds from the permit to the end of a call.
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX), extend("default" = TIMEOUT_MS))]
    pub timeout_ms: Option<u64>,
    /// Bytes that a result may have.
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
    /// Secrets that requests are authenticated with (`http`, `fetch`, `grpc`).
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// The request of a tool of kind `http`.
    pub http: Option<Http>,
    /// The bounds of a tool of kind `fetch`.
    pub fetch: Option<Fetch>,
    /// The directory of a tool of kind `file.read`, `file.list` or `file.write`.
    pub file: Option<File>,
    /// The database of a tool of kind `sql`.
    pub sql: Option<super::sql::config::Sql>,
    /// The program of a tool of kind `command`.
    pub command: Option<Command>,
    /// The upstreams of a tool of kind `model`.
    pub model: Option<Model>,
    /// The method of a tool of kind `grpc`.
    pub grpc: Option<super::grpc::config::Grpc>,
}

/// A model and the upstreams that serve it, in order.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Tokens that one call may write.
    #[schemars(range(min = 1, max = OUTPUT_TOKENS_MAX))]
    pub output_tokens_max: u64,
    /// Tokens that the gate counts for one image before the provider has counted. Providers price an image by its
    /// pixels, and its bytes do not tell how many those are.
    #[serde(default = "image_tokens_max")]
    #[schemars(range(min = 1, max = IMAGE_TOKENS_MAX))]
    pub image_tokens_max: u64,
    /// The upstreams. The gate asks the next one only if the one before could not be reached, or answered that it does
    /// not work now (408, 429, 5xx).
    #[schemars(length(min = 1, max = UPSTREAMS_MAX))]
    pub upstreams: Vec<ModelUpstream>,
}

/// More than any provider is known to take for one image in its finest detail.
const fn image_tokens_max() -> u64 {
    50_000
}

/// One upstream of a model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelUpstream {
    /// Name of the upstream in answers and entries: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// API of the upstream: `openai` (chat completions, as many servers speak them) or `ollama`.
    #[schemars(extend("examples" = ["openai", "ollama"]))]
    pub api: String,
    /// Literal base URL.
    #[schemars(extend("examples" = ["https://api.openai.com/v1", "http://127.0.0.1:11434"]))]
    pub url: String,
    /// Ids that agents may ask for, at least one, each with the id that the upstream knows.
    #[schemars(extend("maxProperties" = MODELS_MAX))]
    pub models: BTreeMap<String, String>,
    /// Literal headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Secrets that requests are authenticated with, in headers only.
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// Address ranges outside the public Internet that the upstream may be reached at.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
    /// What tokens cost at this upstream.
    pub price: Option<Price>,
    /// With `api: openai`, the member that bounds the answer: `max_tokens` or `max_completion_tokens`. Default: the newer
    /// one for OpenAI and Azure, whose models refuse the older, and the older one elsewhere.
    #[schemars(extend("examples" = ["max_tokens", "max_completion_tokens"]))]
    pub output_tokens_field: Option<String>,
}

/// What tokens cost, in millionths of a US dollar for a million of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of a million tokens that are read, in millionths of a US dollar.
    #[schemars(range(max = PRICE_MAX))]
    pub input: u64,
    /// Price of a million tokens that are written, in millionths of a US dollar.
    #[schemars(range(max = PRICE_MAX))]
    pub output: u64,
}

/// Where one secret goes and where it comes from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Name of the request header that holds the secret.
    pub header: Option<String>,
    /// Name of the query parameter that holds the secret.
    pub query: Option<String>,
    /// The one origin that a `fetch` sends the secret to.
    #[schemars(example = "https://docs.example.com")]
    pub origin: Option<String>,
    /// Text before the secret in a header.
    #[schemars(extend("examples" = ["Bearer "]))]
    pub prefix: Option<String>,
    /// File that holds the secret, relative to the configuration file. The gate reads it again when it changes.
    #[schemars(with = "Option<FilePath>")]
    pub file: Option<PathBuf>,
    /// Environment variable that holds the secret. The gate reads it once.
    pub env: Option<String>,
    /// Refused: a secret is given by `file` or `env`, never inline.
    #[schemars(with = "Option<serde_json::Value>")]
    pub value: Option<serde::de::IgnoredAny>,
}

/// An HTTP request with places for arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Method of the request.
    #[schemars(extend("examples" = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]))]
    pub method: String,
    /// URL with literal scheme, host and port. `{places}` for arguments are allowed in path segments only.
    #[schemars(example = "https://api.example.com/orders/{id}")]
    pub url: String,
    /// Query parameters. One that is nothing but an absent argument is left out.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Literal headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body of the request: `none`, `args` (the arguments as JSON), or a JSON object with `{places}` for arguments. POST,
    /// PUT and PATCH need it.
    pub body: Option<serde_json::Value>,
    /// Address ranges outside the public Internet that this tool may be reached at.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
}

/// URLs of the agent's choice, within bounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Hosts that the agent may name. `*.example.com` stands for every name below the domain, but not for the domain
    /// itself.
    #[schemars(length(min = 1, max = HOSTS_MAX), example = ["docs.example.com", "*.example.org"])]
    pub hosts: Vec<String>,
    /// TCP ports. Default: 443 for `https` and 80 for `http`.
    #[serde(default)]
    #[schemars(length(max = LIST_MAX))]
    pub ports: Vec<u16>,
    /// Schemes: `https` and `http`. Default: `https` alone.
    #[serde(default)]
    pub schemes: Vec<String>,
    /// Methods: `GET` and `HEAD`. Default: both.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Request headers that the agent may set. Default: `accept` and `accept-language`.
    #[schemars(length(max = LIST_MAX))]
    pub headers_allowed: Option<Vec<String>>,
    /// Response headers that the agent gets. Default: those about caching, language, links and retries.
    #[schemars(length(max = LIST_MAX))]
    pub headers_returned: Option<Vec<String>>,
    /// Address ranges outside the public Internet. They need hosts that are named one by one.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
}

/// A directory that files are read, listed or written beneath.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The directory, relative to the configuration file. The gate opens it once, at start.
    #[schemars(with = "FilePath")]
    pub root: PathBuf,
    /// Name of the directory in policies and entries: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// Names of files and directories that the tool refuses anywhere below the root, besides those it refuses always.
    #[serde(default)]
    #[schemars(length(max = NAMES_MAX), example = ["payroll"])]
    pub protect: Vec<String>,
    /// Exact paths below the root that the tool serves although a name in them is protected.
    #[serde(default)]
    #[schemars(length(max = NAMES_MAX), example = ["config/.env.example"])]
    pub allow: Vec<String>,
    /// Names that the tool serves anywhere below the root although they begin with a dot or steer tools. It does not
    /// serve names of secrets in this way: those need an exact path in `allow`.
    #[serde(default)]
    #[schemars(length(max = NAMES_MAX), example = [".github", "package.json"])]
    pub allow_names: Vec<String>,
    /// Whether a new file may create the directories that it lies in (`file.write`).
    #[serde(default)]
    pub create_parents: bool,
    /// Entries of one answer (`file.list`).
    #[schemars(range(min = 1, max = ENTRIES_MAX), extend("default" = ENTRIES))]
    pub entries_max: Option<u64>,
    /// How many directories deep an agent may ask (`file.list`).
    #[schemars(range(min = 1, max = DEPTH_MAX), extend("default" = DEPTH))]
    pub depth_max: Option<u64>,
}

/// A program that runs without a shell, inside a sandbox.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Absolute path of an ELF program. The gate never looks in `PATH`.
    #[schemars(with = "FilePath", example = "/usr/bin/wc")]
    pub program: PathBuf,
    /// SHA-256 that the program must have, in 64 hex digits. Default: the one it has at start.
    pub sha256: Option<String>,
    /// Arguments after the name of the program. Each item is a literal text, or
    /// `{arg: NAME, prefix: TEXT, as: text | path, may_start_with_dash: true}` for the value of an argument, or
    /// `{flag: TEXT, when: NAME}` for a text that is there when the argument is `true`.
    #[serde(default)]
    #[schemars(extend("examples" = [["-l", {"arg": "file", "as": "path"}]]))]
    pub argv: Vec<serde_json::Value>,
    /// Name of the argument whose text becomes standard input. Default: no input.
    pub stdin: Option<String>,
    /// The whole environment of the program, literal.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables that hold secrets.
    #[serde(default)]
    pub credentials: Vec<Variable>,
    /// Files and directories that the program may read besides the system's programs and libraries, relative to the
    /// configuration file. It runs in the first one.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>")]
    pub read: Vec<PathBuf>,
    /// Absolute paths of the programs that it may start itself; needs `sandbox: S2`.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>")]
    pub children: Vec<PathBuf>,
    /// A directory in memory that the program runs in and may write: `none`, `per_call` (its own, gone when it ends) or
    /// `run` (shared by the commands of one run, gone with the run). It needs `sandbox: S2`.
    #[schemars(extend("default" = "none", "examples" = ["none", "per_call", "run"]))]
    pub workspace: Option<String>,
    /// Level of the sandbox: `S1` or `S2`. Where the system lacks what the level needs, the gate refuses the tool.
    #[schemars(extend("default" = "S2", "examples" = ["S1", "S2"]))]
    pub sandbox: Option<String>,
    /// What one run of the program may use up.
    #[serde(default)]
    pub limits: Limits,
    /// Exit codes that count as an answer. Default: every code.
    pub exit_codes: Option<Vec<u8>>,
}

/// What one run of a command may use up.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of address space of each process; with control groups, bytes that all processes use together.
    #[schemars(range(min = MEMORY.0, max = MEMORY.2), extend("default" = MEMORY.1))]
    pub memory_bytes: Option<u64>,
    /// Seconds of processor time of each process. Default: `timeout_ms`, rounded up.
    #[schemars(range(min = 1, max = CPU_SECONDS_MAX))]
    pub cpu_seconds: Option<u64>,
    /// Processes and threads together (`S2`, or control groups).
    #[schemars(range(min = 1, max = PIDS_MAX), extend("default" = PIDS))]
    pub pids: Option<u64>,
    /// `available`: where the system has control groups, they hold these limits for all processes together. `required`:
    /// where it has none, the gate refuses the tool.
    #[schemars(extend("default" = "available", "examples" = ["available", "required"]))]
    pub cgroup: Option<String>,
}
