//! `wicketgate.yaml`: one strict file, defaults that are the safe ones, overrides from the
//! environment, secrets by reference. Everything that is wrong is reported at once.
//!
//! Precedence: `WICKETGATE__SECTION__FIELD`, then the file, then the defaults. Relative paths are
//! relative to the directory of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::form::{self, FilePath};
use crate::catalog::lock::Verified;
use crate::catalog::server::Server;
use crate::catalog::{self, Bound, Surroundings, server};
use crate::crypto::keys::{self, PublicKey};
use crate::identity::callers;
use crate::operator::operators::Member;
use crate::serve::Listen;
use crate::yaml::{self, Document, Written};

mod alerts;
pub mod archive;
pub mod break_glass;
mod check;
mod complete;
pub mod console;
pub mod doc;
mod each;
pub mod enrolment;
pub mod evidence;
mod firewall;
pub mod fleet;
pub mod hub;
mod isolation;
pub mod kubernetes;
mod ledger;
mod limits;
pub mod operators;
mod overrides;
mod own;
mod policy;
pub mod pools;
mod retention;
pub mod taint;
mod telemetry;
pub mod tls;
mod trust;

pub use alerts::Alerts;
pub use check::SOCKET_PATH_MAX;
use complete::{below, complete, resolve};
pub use firewall::{Firewall, own_rules};
pub use isolation::{Isolation, Posture, SelfTest};
pub use ledger::{Ledger, Postgres, Secret, Sqlite};
pub use limits::Limits;
pub use operators::Operator;
pub use overrides::{names, stray};
pub use own::closed;
pub use policy::{Amendments, Lint, Policy};
pub use retention::{Encryption, Retention, duration};
pub use taint::TaintRules;
pub use telemetry::Telemetry;
pub use trust::Trust;

/// One thing wrong with the configuration, and where.
pub type Problem = yaml::Error;

/// One tool binding (`tools[]`).
pub type ToolConfig = Value;

/// One MCP server (`servers[]`).
pub type ServerConfig = Value;

/// The whole configuration, checked; every path absolute.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "wicketgate.yaml")]
pub struct Config {
    /// Directory for all files that the process keeps. Default: `$XDG_STATE_HOME/wicketgate`, else
    /// `~/.local/state/wicketgate`.
    #[serde(default)]
    #[schemars(with = "FilePath")]
    pub state: PathBuf,
    /// Where agents connect.
    #[serde(default)]
    pub listen: Listen,
    /// Where operators and probes connect.
    #[serde(default)]
    pub operator: Operator,
    /// The operators, and what each may do: see runs and held calls, approve calls, stop agents.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub operators: Vec<Member>,
    /// The console: pages for operators with a browser.
    #[serde(default)]
    pub console: console::Console,
    /// Who may approve held calls, and how the gate announces them.
    #[serde(default)]
    pub approvals: operators::Approvals,
    /// Settings of `wicketgate serve hub` alone.
    #[serde(default)]
    pub hub: hub::Hub,
    /// The hub that certifies this sidecar's writer. Without this section the sidecar certifies its
    /// writer with its own enrolment key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<enrolment::Enrolment>,
    /// Where entries are stored: exactly one of `sqlite` and `postgres`. Default: `sqlite`.
    #[serde(default)]
    pub ledger: Ledger,
    /// The fleet log, which covers all logs of the tenant. `wicketgate ledger anchor` appends to
    /// it, and so does every change to a ledger other than a call.
    #[serde(default)]
    pub fleet: fleet::Fleet,
    /// What operators need to export evidence and to erase payloads over the operator API.
    #[serde(default)]
    pub evidence: evidence::Evidence,
    /// Keys whose signatures the gate accepts.
    pub trust: Trust,
    /// The policy that decides calls.
    #[serde(default)]
    pub policy: Policy,
    /// The agents that the gate serves: the signed manifest of each, and the callers that may act
    /// as it.
    #[schemars(
        length(min = 1, max = 256),
        extend("x-error" = "expected 1 to 256 agents, each {manifest, callers}")
    )]
    pub agents: Vec<callers::Config>,
    /// Tools that the operator defines, and how the gate reaches each of them.
    #[serde(default)]
    #[schemars(
        with = "Vec<catalog::Tool>",
        length(max = 4096),
        extend("x-null" = "the same as leaving the field out")
    )]
    pub tools: Vec<ToolConfig>,
    /// MCP servers. Agents can use a server's tools only after a signed lock pins them.
    #[serde(default)]
    #[schemars(with = "Vec<server::config::McpServerConfig>", length(max = 256))]
    pub servers: Vec<ServerConfig>,
    /// The signed lock file that pins the servers' tools. Its signature envelope lies beside it as
    /// `<file>.sig.json`. Default: `tools.lock` if there are servers.
    #[serde(default)]
    #[schemars(with = "Option<FilePath>", extend("x-null" = "the same as leaving the field out"))]
    pub lock: Option<PathBuf>,
    /// What the gate does about secrets, personal data and hidden text that it finds in arguments,
    /// prompts and results. A policy may be stricter, never milder.
    #[serde(default)]
    pub firewall: Firewall,
    /// What the gate does about calls of runs that have read untrusted content or private data. A policy may be
    /// stricter, never milder.
    #[serde(default)]
    pub taint: TaintRules,
    /// When the gate tells operators that they should look at something: attacks, secrets on their way out, agents that
    /// are denied again and again.
    #[serde(default)]
    pub alerts: Alerts,
    /// The operators' last resort: a file that stops all calls.
    #[serde(default)]
    pub control: Control,
    /// Recordings that new runs may continue from.
    #[serde(default)]
    pub replay: Replay,
    /// How the gate tests that it still denies calls.
    #[serde(default)]
    pub self_test: SelfTest,
    /// What the gate requires of the environment that agents run in.
    #[serde(default)]
    pub isolation: Isolation,
    /// How long results of `wicketgate config doctor` are valid.
    #[serde(default)]
    pub posture: Posture,
    /// Limits on load, request rates and waiting times.
    #[serde(default)]
    pub limits: Limits,
    /// Budgets that all gates share.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub pools: Vec<pools::Pool>,
    /// How long stored payloads are kept.
    #[serde(default)]
    pub retention: Retention,
    /// Encrypts arguments, results and policy inputs before they are stored. Without this section
    /// they are stored in plaintext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Logs and traces.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// Labels that the operator vouches for. Policies read them as `input.context.attested`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Label>", extend("maxProperties" = 64))]
    pub attested: BTreeMap<String, String>,
    /// Directory of the file: where relative paths inside tool bindings start.
    #[serde(skip)]
    pub base: PathBuf,
    /// The file itself; none if it was read from elsewhere, and then it is never read again.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// The signed archive that the file is from, if it is from one.
    #[serde(skip)]
    pub archived: Option<archive::Archived>,
    /// Where its fields stand in the file.
    #[serde(skip)]
    pub written: Written,
    /// Goes on although the clock is more than a day behind the newest entry (`serve --accept-clock-step`).
    #[serde(skip)]
    pub accept_clock_step: bool,
}

/// The schema of a label's value.
#[derive(JsonSchema)]
struct Label(
    #[schemars(length(max = 256))]
    #[expect(dead_code, reason = "only its schema is used")]
    String,
);

/// `control`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Control {
    /// A file that stops all calls while it exists. Default: `switch` in the state directory.
    #[schemars(with = "FilePath")]
    pub switch_file: PathBuf,
}

/// `replay`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Replay {
    /// Directory of the recordings that agents may name when they open a run (`fork_at`), each as
    /// `<SHA-256 of the file in hex>.recording`.
    #[schemars(with = "Option<FilePath>", extend("x-null" = "no run continues from a recording"))]
    pub recordings: Option<PathBuf>,
}

/// Why a lock does not count.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A key file of the lock signers.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// The lock, at the place where it is named.
    #[error(transparent)]
    Lock(#[from] Problem),
}

/// The JSON Schema of `wicketgate.yaml`: `config schema` prints it, and it checks the file.
pub fn schema() -> Value {
    form::of::<Config>()
}

/// The process environment: the one place that reads it.
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the environment")]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The names of all variables in the process environment.
pub fn variables() -> Vec<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

/// What of the items of a list cannot be read into its type.
fn unread<T: for<'de> Deserialize<'de>>(document: &Document, list: &str) -> Vec<Problem> {
    let items = document.value.get(list).and_then(Value::as_array);
    let read = items.into_iter().flatten().map(|item| T::deserialize(item)).enumerate();
    let failed = read.filter_map(|(i, read)| Some((i, read.err()?)));
    failed.map(|(i, e)| document.error(&format!("/{list}/{i}"), e.to_string())).collect()
}

impl Config {
    /// Reads, completes and checks the file. `env` looks up one environment variable.
    ///
    /// # Errors
    /// Everything that is wrong, each with file, line, column and key (or the variable's name).
    pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<Problem>> {
        Self::load_at(path, env, None)
    }

    /// As [`Self::load`], for the files of a container: an absolute path is one below `root`. In tools
    /// and servers, where no schema says what is a path, that is every text that names a file there.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_below(
        root: &Path,
        path: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Problem>> {
        Self::load_at(path, env, Some(root))
    }

    fn load_at(
        path: &Path,
        env: &dyn Fn(&str) -> Option<String>,
        root: Option<&Path>,
    ) -> Result<Self, Vec<Problem>> {
        let file = path.display().to_string();
        let alone = |message: String| {
            vec![Problem { file: file.clone(), line: 0, column: 0, key: String::new(), message }]
        };
        let missing = "; name the file you have, or make one with `wicketgate init` or `wicketgate quickstart --dir DIR`";
        let bytes = std::fs::read(path).map_err(|e| {
            let next = if e.kind() == std::io::ErrorKind::NotFound { missing } else { "" };
            alone(format!("cannot be read: {e}{next}"))
        })?;
        let whole = std::path::absolute(path).map_err(|e| alone(e.to_string()))?;
        let base = whole.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { file: Some(whole), ..Self::read_at(&bytes, &file, (&base, root), env)? })
    }

    /// As [`Self::load`], from bytes; `base` is the directory relative paths start from.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn read(
        bytes: &[u8],
        file: &str,
        base: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Problem>> {
        Self::read_at(bytes, file, (base, None), env)
    }

    fn read_at(
        bytes: &[u8],
        file: &str,
        (base, root): (&Path, Option<&Path>),
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Problem>> {
        let schema = schema();
        let mut document = Document::parse(bytes, file).map_err(|e| vec![e])?;
        let overridden = overrides::apply(&mut document.value, &schema, env);
        let mut problems = document
            .violations(&schema)
            .map_err(|why| vec![document.error("", format!("the schema is broken: {why}"))])?;
        complete(&mut document.value, &schema, env);
        resolve(&mut document.value, &schema, base);
        if let Some(root) = root {
            below(&mut document.value, &schema, root);
        }
        check::sockets(&document, root, &mut problems);
        let connect = check::check(&document, env, &mut problems);
        if problems.is_empty() {
            problems.extend(unread::<catalog::Tool>(&document, "tools"));
            problems.extend(unread::<server::config::McpServerConfig>(&document, "servers"));
        }
        if problems.is_empty() {
            match Self::deserialize(&document.value) {
                Ok(mut config) => {
                    base.clone_into(&mut config.base);
                    config.written = document.written();
                    if let Ledger::Postgres(postgres) = &mut config.ledger {
                        postgres.connect = Secret::new(connect.unwrap_or_default());
                    }
                    return Ok(config);
                }
                Err(e) => problems.push(document.error("", e.to_string())),
            }
        }
        for problem in &mut problems {
            if let Some(variable) = overridden.get(&problem.key) {
                problem.file = "environment".to_owned();
                (problem.line, problem.column) = (0, 0);
                problem.key.clone_from(variable);
            }
        }
        problems.sort();
        problems.dedup();
        Err(problems)
    }

    /// Every binding: the operator's own tools with all their files read and compiled, and those of
    /// the MCP servers in the signed lock.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its key.
    pub fn bindings(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Bound, Vec<String>> {
        self.bindings_with(env, self.locked().map_err(|e| vec![e.to_string()]))
    }

    /// As [`Self::bindings`], with another lock than the file's, or its error.
    ///
    /// # Errors
    /// As [`Self::bindings`].
    pub fn bindings_with(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
        lock: Result<Option<Verified>, Vec<String>>,
    ) -> Result<Bound, Vec<String>> {
        let list = Value::Array(self.tools.clone());
        let tools = catalog::Config::deserialize(list).map_err(|e| vec![format!("tools: {e}")])?;
        let (forbidden, own) = (own::forbidden(self, &self.server_list()?), own::of_the_gate(self));
        let surroundings =
            Surroundings { base_dir: &self.base, env, forbidden: &forbidden, own: &own };
        let tools = tools.check(&surroundings).map(|all| own::shield(self, all));
        let (tools, servers) = (tools.map_err(|all| self.lines(&all)), self.servers(env));
        let (tools, servers, lock) = match (tools, servers, lock) {
            (Ok(tools), Ok(servers), Ok(lock)) => (tools, servers, lock),
            (tools, servers, lock) => {
                let errors = [tools.err(), servers.err(), lock.err()];
                return Err(errors.into_iter().flatten().flatten().collect());
            }
        };
        Bound::of(tools, servers, lock).map_err(|all| self.lines(&all))
    }

    /// The MCP servers, with everything they name read. None is started.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its key.
    pub fn servers(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<Arc<Server>>, Vec<String>> {
        let list = self.server_list()?;
        let forbidden = own::kept_from_servers(self, &list);
        let surroundings =
            Surroundings { base_dir: &self.base, env, forbidden: &forbidden, own: &[] };
        list.check(&surroundings).map_err(|all| self.lines(&all))
    }

    fn server_list(&self) -> Result<server::config::Config, Vec<String>> {
        let list = Value::Array(self.servers.clone());
        server::config::Config::deserialize(list).map_err(|e| vec![format!("servers: {e}")])
    }

    /// The lock, if servers are configured and a lock exists.
    ///
    /// # Errors
    /// The lock does not count: its text or its signature is invalid.
    pub fn locked(&self) -> Result<Option<Verified>, LockError> {
        let Some(path) = self.lock.as_ref().filter(|_| !self.servers.is_empty()) else {
            return Ok(None);
        };
        let verified = Verified::load(path, &self.lock_keys()?);
        Ok(verified.map_err(|e| self.written.error("lock", e.to_string()))?)
    }

    /// The keys of the lock signers.
    ///
    /// # Errors
    /// A key file cannot be used.
    pub fn lock_keys(&self) -> Result<Vec<PublicKey>, keys::Error> {
        let keys = self.trust.lock_keys.iter().map(|file| PublicKey::load_all(file));
        Ok(keys.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Each with file, line and key.
    fn lines(&self, all: &[catalog::ConfigError]) -> Vec<String> {
        all.iter().map(|one| self.written.error(&one.path, &*one.message).to_string()).collect()
    }

    /// What is wrong with the tool of this name, or with the server it is one of, at the place where that is
    /// written.
    pub fn of_tool(&self, name: &str, why: &str) -> String {
        let is = |one: &Value, name: &str| one.get("name").and_then(Value::as_str) == Some(name);
        let server = name.split_once('.').map_or(name, |(server, _)| server);
        let tool = self.tools.iter().position(|one| is(one, name));
        let server = || self.servers.iter().position(|one| is(one, server));
        let key = match tool {
            Some(at) => format!("tools[{at}]"),
            None => server().map_or_else(|| "tools".to_owned(), |at| format!("servers[{at}]")),
        };
        self.written.error(&key, format!("tool `{name}`: {why}")).to_string()
    }

    /// The same of the server of this name.
    pub fn of_server(&self, name: &str, why: &str) -> String {
        let is = |one: &Value| one.get("name").and_then(Value::as_str) == Some(name);
        let at = self.servers.iter().position(is);
        let key = at.map_or_else(|| "servers".to_owned(), |at| format!("servers[{at}]"));
        self.written.error(&key, format!("server `{name}`: {why}")).to_string()
    }

    /// Every Unix socket to listen on: the agent socket and those of callers.
    pub fn sockets(&self) -> BTreeSet<PathBuf> {
        let callers = self.agents.iter().flat_map(|agent| &agent.callers);
        callers.filter_map(|c| c.socket.clone()).chain(self.listen.socket.clone()).collect()
    }

    /// The effective configuration as YAML. Secrets are not part of it.
    ///
    /// # Errors
    /// A value cannot be written as YAML.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        serde_saphyr::to_string(self)
    }
}

#[cfg(test)]
mod tests;
