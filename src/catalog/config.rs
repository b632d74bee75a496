//! The `tools:` list of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::described::described;
use super::server::config::Variable;

/// Every binding of one sidecar, not yet checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<Tool>);

described! {
/// One binding.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name agents and manifests use: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// What agents are told it does.
    pub description: String,
    /// `http`, `fetch`, `file.read`, `file.list`, `file.write`, `command`, `sql`, `model` or `grpc`.
    pub kind: String,
    /// JSON Schema (2020-12) of the arguments. Those of files, `sql` and `grpc` have one of their own.
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
    /// For how long the same call (run, tool, arguments) under another id is the first one, and is answered as that:
    /// 1 to 600,000; absent: never. For clients that send a request again under a new id.
    pub dedupe_ms: Option<u64>,
    /// What the request is authenticated with (`http`, `fetch`, `grpc`).
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// How a tool of kind `http` is reached.
    pub http: Option<Http>,
    /// What a tool of kind `fetch` may be asked for.
    pub fetch: Option<Fetch>,
    /// What a tool of kind `file.read`, `file.list` or `file.write` works on.
    pub file: Option<File>,
    /// What a tool of kind `sql` asks.
    pub sql: Option<super::sql::config::Sql>,
    /// What a tool of kind `command` runs.
    pub command: Option<Command>,
    /// Where a tool of kind `model` is asked.
    pub model: Option<Model>,
    /// Which method a tool of kind `grpc` calls.
    pub grpc: Option<super::grpc::config::Grpc>,
}

/// A model and the places it is asked at, in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Tokens one call may write: 1 to 1,000,000.
    pub output_tokens_max: u64,
    /// Tokens that one image is taken for where limits count before the provider does: 1 to 1,000,000; 50,000
    /// unless said otherwise. Providers price an image by its pixels, of which its bytes say nothing.
    #[serde(default = "image_tokens_max")]
    pub image_tokens_max: u64,
    /// 1 to 8 places. The next one is asked only if the one before could not be reached, or answered
    /// that it does not work now (408, 429, 5xx).
    pub upstreams: Vec<ModelUpstream>,
}
}

/// More than any provider is known to take for one image in its finest detail.
const fn image_tokens_max() -> u64 {
    50_000
}

described! {
/// One place a model is asked at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelUpstream {
    /// What answers and entries call it: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// `openai` (chat completions, as many servers speak them) or `ollama`.
    pub api: String,
    /// Literal base URL: `https://api.openai.com/v1`, `http://127.0.0.1:11434`.
    pub url: String,
    /// Ids that agents may ask for, each with the id that is asked for here.
    pub models: BTreeMap<String, String>,
    /// Literal headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What requests are authenticated with: headers only.
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// Address ranges outside the public Internet that it may be reached at.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    pub ca_file: Option<PathBuf>,
    /// What tokens cost here.
    pub price: Option<Price>,
    /// Of `openai`: the member that bounds the answer, `max_tokens` or `max_completion_tokens`. Unless said
    /// otherwise the newer one for OpenAI and Azure, whose models refuse the older, and the older elsewhere.
    pub output_tokens_field: Option<String>,
}

/// What tokens cost, in millionths of a US dollar for a million of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens that are read; 0 to 1,000,000,000.
    pub input: u64,
    /// Tokens that are written; 0 to 1,000,000,000.
    pub output: u64,
}

/// Where one secret goes and where it comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Name of the request header it is sent in.
    pub header: Option<String>,
    /// Name of the query parameter it is sent in.
    pub query: Option<String>,
    /// The one origin a `fetch` sends it to: `https://host[:port]`.
    pub origin: Option<String>,
    /// Put before the secret in a header: `"Bearer "`.
    pub prefix: Option<String>,
    /// File that holds the secret, relative to the configuration file. Its new value is taken when it
    /// changes.
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

/// URLs of the agent's choice, within these bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Hosts: `docs.example.com`, or `*.example.com` for every name below a domain, not itself.
    pub hosts: Vec<String>,
    /// TCP ports; if absent, 443 for `https` and 80 for `http`.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// `https` and `http`; `https` alone if absent.
    #[serde(default)]
    pub schemes: Vec<String>,
    /// `GET` and `HEAD`; both if absent.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Request headers the agent may set; `accept` and `accept-language` if absent.
    pub headers_allowed: Option<Vec<String>>,
    /// Response headers the agent is given; those about caching, language, links and retries if absent.
    pub headers_returned: Option<Vec<String>>,
    /// Address ranges outside the public Internet; only with hosts that are named one by one.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    pub ca_file: Option<PathBuf>,
}

/// A directory that files are read, listed or written beneath.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The directory, relative to the configuration file. Opened once, at start.
    pub root: PathBuf,
    /// What policies and entries call it: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// More names of files and directories that nobody is given, anywhere below the root.
    #[serde(default)]
    pub protect: Vec<String>,
    /// Exact paths below the root that are given although a name in them is protected.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Names that are given anywhere below the root although they begin with a dot (`.github`) or steer tools
    /// (`package.json`). Names of secrets stay refused: those are given by an exact path alone.
    #[serde(default)]
    pub allow_names: Vec<String>,
    /// A new file may bring the directories it lies in (`file.write`).
    #[serde(default)]
    pub create_parents: bool,
    /// Entries of one answer: 1 to 10,000, 1,000 if absent (`file.list`).
    pub entries_max: Option<u64>,
    /// Directories deep that may be asked for: 1 to 16, 1 if absent (`file.list`).
    pub depth_max: Option<u64>,
}

/// A program that is run without a shell, inside a sandbox.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Absolute path of an ELF program. Never looked up in `PATH`.
    pub program: PathBuf,
    /// The SHA-256 it must have, 64 hex digits; what it has at start if absent.
    pub sha256: Option<String>,
    /// Its arguments after the name, one item each: a text as it stands, `{arg: NAME, prefix: TEXT,
    /// as: text | path, may_start_with_dash: true}` for a value, `{flag: TEXT, when: NAME}` for a text that
    /// is there when the argument is `true`.
    #[serde(default)]
    pub argv: Vec<serde_json::Value>,
    /// Name of the argument whose text is its standard input; nothing if absent.
    pub stdin: Option<String>,
    /// Its whole environment, literal.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables whose values nobody may see.
    #[serde(default)]
    pub credentials: Vec<Variable>,
    /// Files and directories it may read besides the system's programs and libraries, relative to the
    /// configuration file. It runs in the first one.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Absolute paths of the programs it may start itself; none if absent. Needs `S2`.
    #[serde(default)]
    pub children: Vec<PathBuf>,
    /// `none`; `per_call`: an empty directory in memory that it runs in and may write, gone when it ends;
    /// or `run`: the same, shared by the commands of one run and gone with it. Needs `S2`. `none` if absent.
    pub workspace: Option<String>,
    /// `S1` or `S2`; `S2` if absent. Where the system cannot give it, the tool is refused.
    pub sandbox: Option<String>,
    /// What it may use up.
    #[serde(default)]
    pub limits: Limits,
    /// Exit codes that count as an answer; every one if absent.
    pub exit_codes: Option<Vec<u8>>,
}

/// What one run of a command may use up.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Address space of each process, and with control groups what all use together: 16 MiB to 64 GiB, 512 MiB if
    /// absent.
    pub memory_bytes: Option<u64>,
    /// Processor time of each process: 1 to 600, the timeout rounded up if absent.
    pub cpu_seconds: Option<u64>,
    /// Processes and threads together (`S2`, or control groups): 1 to 1,024, 32 if absent.
    pub pids: Option<u64>,
    /// `available`: control groups hold these limits for all processes together where the system has them;
    /// `required`: where it has none, the tool is refused. `available` if absent.
    pub cgroup: Option<String>,
}
}
