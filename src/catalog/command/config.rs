//! A `command` section of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{CPU_SECONDS_MAX, FORMS_MAX, MEMORY, PIDS, PIDS_MAX};
use crate::form::FilePath;
use crate::server::config::Variable;

/// A program that runs without a shell, inside a sandbox.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Absolute path of an ELF program. The gate never looks in `PATH`.
    #[schemars(with = "FilePath", example = "/usr/bin/wc")]
    pub program: PathBuf,
    /// SHA-256 that the program must have, in 64 hex digits. Default: the one it has at start.
    pub sha256: Option<String>,
    /// Arguments after the name of the program. Each item is a literal text, or `{arg: NAME,
    /// prefix: TEXT, as: text | path, may_start_with_dash: true}` for the value of an argument, or
    /// `{flag: TEXT, when: NAME}` for a text that is passed only when the argument is `true`.
    #[serde(default)]
    #[schemars(extend("examples" = [["-l", {"arg": "file", "as": "path"}]]))]
    pub argv: Vec<serde_json::Value>,
    /// Lists of arguments that the agent may give itself, as its argument `argv`, instead of the operator's `argv`. An
    /// item of a form is a literal text or `{arg: NAME, prefix: TEXT, as: text | path, may_start_with_dash: true}`; the
    /// agent's list has as many items as one of the forms, and each item fits. Without `input_schema`, the schema of the
    /// tool tells the model the forms.
    #[serde(default)]
    #[schemars(length(max = FORMS_MAX), extend("examples" = [[["-m", "unittest"], ["-m", "unittest", {"arg": "test"}]]]))]
    pub forms: Vec<Vec<serde_json::Value>>,
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
    /// A directory on disk that the program runs in and may write, relative to the configuration file, instead of a
    /// workspace in memory: for example a repository. It stays. It needs `sandbox: S2`, and may hold none of the gate's
    /// own files. Under a gate that runs as root, uid 65534 has to be able to write it.
    #[schemars(with = "Option<FilePath>", extend("examples" = ["repository"]))]
    pub directory: Option<PathBuf>,
    /// Level of the sandbox: `S1` or `S2`. Where the system lacks what the level needs, the gate refuses the tool.
    #[schemars(extend("default" = "S2", "examples" = ["S1", "S2"]))]
    pub sandbox: Option<String>,
    /// What one execution of the program may consume.
    #[serde(default)]
    pub limits: CommandLimitsConfig,
    /// Exit codes with which a call counts as completed. Default: every code.
    pub exit_codes: Option<Vec<u8>>,
}

/// What one run of a command may use up.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandLimitsConfig {
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
