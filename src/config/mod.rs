//! `wicketgate.yaml`: one strict file, defaults that are the safe ones, overrides from the
//! environment, secrets by reference. Everything that is wrong is reported at once.
//!
//! Precedence: `WICKETGATE__SECTION__FIELD`, then the file, then the defaults. Relative paths are
//! relative to the directory of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::lock::Verified;
use crate::catalog::server::Server;
use crate::catalog::{self, Bound, Surroundings, server};
use crate::crypto::keys::PublicKey;
use crate::identity::callers;
use crate::operator::staff::Member;
use crate::yaml::{self, Document, Written};

pub mod break_glass;
mod check;
mod complete;
mod each;
pub mod enrolment;
pub mod evidence;
pub mod fleet;
pub mod hub;
mod isolation;
pub mod kubernetes;
mod ledger;
pub mod operators;
mod overrides;
mod own;
pub mod pools;
mod retention;
mod schema;
pub mod telemetry;
pub mod tls;
mod words;

use complete::{complete, resolve};
pub use isolation::{Isolation, Posture, SelfTest};
pub use ledger::{Ledger, Postgres, Secret, Sqlite};
pub use operators::Operator;
pub use overrides::{names, stray};
pub use own::closed;
pub use retention::{Encryption, Retention, duration};
pub use schema::schema;
pub use telemetry::Telemetry;

/// One thing wrong with the configuration, and where.
pub type Problem = yaml::Error;

/// One tool binding (`tools[]`).
pub type ToolConfig = Value;

/// One MCP server (`servers[]`).
pub type ServerConfig = Value;

/// The whole configuration, checked; every path absolute.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Directory of everything the process keeps.
    pub state: PathBuf,
    /// Where agents connect.
    pub listen: Listen,
    /// Where operators connect.
    pub operator: Operator,
    /// Who may see and order what.
    pub operators: Vec<Member>,
    /// How held calls are brought to people.
    pub approvals: operators::Approvals,
    /// What only the hub needs.
    pub hub: hub::Hub,
    /// Who certifies this sidecar's writer; absent: an enrolment key of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<enrolment::Enrolment>,
    /// Where entries go.
    pub ledger: Ledger,
    /// The log of logs, and who sees its heads.
    pub fleet: fleet::Fleet,
    /// What operators need to export and to erase.
    pub evidence: evidence::Evidence,
    /// Whose signatures count.
    pub trust: Trust,
    /// What decides.
    pub policy: Policy,
    /// Who may be which agent.
    pub agents: Vec<callers::Config>,
    /// How tools are really reached.
    pub tools: Vec<ToolConfig>,
    /// MCP servers whose tools stand in the lock.
    pub servers: Vec<ServerConfig>,
    /// What the servers showed when it was signed; the envelope lies beside it.
    pub lock: Option<PathBuf>,
    /// How operators stop it.
    pub control: Control,
    /// What runs may go on from.
    pub replay: Replay,
    /// How it tests itself.
    pub self_test: SelfTest,
    /// What is demanded of the place where agents run.
    pub isolation: Isolation,
    /// What becomes of what agents find there.
    pub posture: Posture,
    /// What the process takes on at once.
    pub limits: Limits,
    /// What all gates share.
    pub pools: Vec<pools::Pool>,
    /// How long payloads stay.
    pub retention: Retention,
    /// Under which key they lie; absent: in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// What it tells about itself.
    pub telemetry: Telemetry,
    /// `input.context.attested`: labels the operator vouches for.
    pub attested: BTreeMap<String, String>,
    /// Directory of the file: where relative paths inside tool bindings start.
    #[serde(skip)]
    pub base: PathBuf,
    /// The file itself; none if it was read from elsewhere, and then it is never read again.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// Where its fields stand in the file.
    #[serde(skip)]
    pub written: Written,
    /// Goes on although the clock is more than a day behind the newest entry (`serve --accept-clock-step`).
    #[serde(skip)]
    pub accept_clock_step: bool,
}

/// `listen`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The agent socket; `null` switches it off.
    pub socket: Option<PathBuf>,
    /// An address for agents with tokens, or over TLS with certificates; off unless set.
    pub tcp: Option<SocketAddr>,
    /// TLS of `tcp`, with a certificate of each client; in the clear without, on loopback only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<tls::Tls>,
}

/// `trust`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Public key files of those who sign manifests.
    pub manifest_keys: Vec<PathBuf>,
    /// How many of them must have signed.
    pub manifest_threshold: usize,
    /// Public key files of those who sign policy bundles; never the same keys.
    pub policy_keys: Vec<PathBuf>,
    /// How many of them must have signed.
    pub policy_threshold: usize,
    /// Public key files of those who sign the list of approvers; never the same keys.
    pub approver_keys: Vec<PathBuf>,
    /// How many of them must have signed.
    pub approver_threshold: usize,
    /// Public key files of those who sign locks; one signature is enough.
    pub lock_keys: Vec<PathBuf>,
    /// Who may stand in for approvers for a short time; absent: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<break_glass::BreakGlass>,
}

/// `policy`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Directory of the signed bundle. Without one nothing is ready and every call is denied.
    pub bundle: Option<PathBuf>,
    /// Milliseconds one evaluation may take.
    pub deadline_ms: u64,
    /// What becomes of a bundle in which a lint finds an error.
    pub lint: Lint,
    /// Whether a new bundle needs a proposal and approvals on the books.
    pub amendments: Amendments,
    /// Publishers that must approve one; its author never counts.
    pub approvals: u64,
}

/// `policy.amendments`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amendments {
    /// The signed bundle in its directory is put in force at a start or reload.
    Off,
    /// Only a bundle that was proposed and approved replaces the one in force.
    Required,
}

/// `policy.lint`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lint {
    /// It is refused; the one before stays in force.
    Enforce,
    /// It is put in force, and readiness says what was found.
    Warn,
}

/// `control`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// A file that stops calls while it is there, with everything else down.
    pub switch_file: PathBuf,
}

/// `replay`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// A directory of recordings that agents may name when they open a run (`fork_at`), each as
    /// `<SHA-256 of the file in hex>.recording`; none: no run goes on from a recording.
    pub recordings: Option<PathBuf>,
}

/// `limits`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Calls in progress.
    pub in_flight_max: u64,
    /// Commands that run in sandboxes at once, over all agents; each agent has an equal share for itself.
    pub sandboxes_max: u64,
    /// Open runs.
    pub open_runs_max: u64,
    /// Seconds until a run of which nothing is asked is sealed.
    pub run_idle_seconds: u64,
    /// Seconds a run may be open whose manifest sets no `wall_seconds`.
    pub run_wall_seconds: u64,
    /// Seconds until a held call expires.
    pub hold_seconds: u64,
    /// Milliseconds a caller waits for the ledger.
    pub commit_wait_ms: u64,
    /// Milliseconds a call waits for its turn.
    pub queue_wait_ms: u64,
    /// Seconds calls in progress get at shutdown.
    pub drain_seconds: u64,
    /// Requests one caller may make each second in the long run.
    pub requests_per_second: Option<u64>,
    /// Requests one caller may make at once.
    pub burst: u64,
    /// Denials of one caller within a minute after which a run with one more is suspended, and no other is opened.
    pub denials_max: Option<u64>,
    /// Seconds a caller may begin nothing after a call whose arguments hold a credential of the gate.
    pub alarm_rest_seconds: Option<u64>,
    /// Denials of one tool in one run after which the run may not call it any more.
    pub tool_denials_max: Option<u64>,
    /// Milliseconds a call of an ordered run waits for the one before it.
    pub ordered_wait_ms: u64,
    /// Results of T0 tools that only read are released before their outcome is on the books.
    pub batch_t0: bool,
}

/// The process environment: the one place that reads it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the environment")]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The names of all variables in the process environment.
#[must_use]
pub fn variables() -> Vec<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

impl Config {
    /// Reads, completes and checks the file. `env` looks up one environment variable.
    ///
    /// # Errors
    /// Everything that is wrong, each with file, line, column and key (or the variable's name).
    pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<Problem>> {
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
        Ok(Self { file: Some(whole), ..Self::read(&bytes, &file, &base, env)? })
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
        let schema = schema();
        let mut document = Document::parse(bytes, file).map_err(|e| vec![e])?;
        let overridden = overrides::apply(&mut document.value, &schema, env);
        let mut problems = document
            .violations(&schema)
            .map_err(|why| vec![document.error("", format!("the schema is broken: {why}"))])?;
        complete(&mut document.value, &schema, env);
        resolve(&mut document.value, base);
        let connect = check::check(&document, env, &mut problems);
        if problems.is_empty() {
            let tools = document.value.get("tools").and_then(Value::as_array);
            for (i, tool) in tools.into_iter().flatten().enumerate() {
                if let Err(error) = catalog::config::Tool::deserialize(tool) {
                    problems.push(document.error(&format!("/tools/{i}"), error.to_string()));
                }
            }
            let servers = document.value.get("servers").and_then(Value::as_array);
            for (i, one) in servers.into_iter().flatten().enumerate() {
                if let Err(error) = server::config::Server::deserialize(one) {
                    problems.push(document.error(&format!("/servers/{i}"), error.to_string()));
                }
            }
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

    /// Every binding: the operator's own tools with everything they name read and compiled, and those
    /// of the MCP servers that stand in the signed lock.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its key.
    pub fn bindings(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Bound, Vec<String>> {
        self.bindings_with(env, self.locked().map_err(|e| vec![e]))
    }

    /// As [`Self::bindings`], with another lock than the one of the file, or what is wrong with it.
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
        let around = Surroundings { base_dir: &self.base, env, forbidden: &forbidden, own: &own };
        let tools = tools.check(&around).map(|all| own::shield(self, all));
        let (tools, servers) = (tools.map_err(|all| self.lines(&all)), self.servers(env));
        let (tools, servers, lock) = match (tools, servers, lock) {
            (Ok(tools), Ok(servers), Ok(lock)) => (tools, servers, lock),
            (tools, servers, lock) => {
                let wrong = [tools.err(), servers.err(), lock.err()];
                return Err(wrong.into_iter().flatten().flatten().collect());
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
        let around = Surroundings { base_dir: &self.base, env, forbidden: &forbidden, own: &[] };
        list.check(&around).map_err(|all| self.lines(&all))
    }

    fn server_list(&self) -> Result<server::config::Config, Vec<String>> {
        let list = Value::Array(self.servers.clone());
        server::config::Config::deserialize(list).map_err(|e| vec![format!("servers: {e}")])
    }

    /// The lock, if servers are configured and there is one.
    ///
    /// # Errors
    /// There is one, and it does not count: its text, or who signed it.
    pub fn locked(&self) -> Result<Option<Verified>, String> {
        let Some(path) = self.lock.as_ref().filter(|_| !self.servers.is_empty()) else {
            return Ok(None);
        };
        Verified::load(path, &self.lock_keys()?)
            .map_err(|e| self.written.error("lock", e.to_string()).to_string())
    }

    /// The keys of those who sign locks.
    ///
    /// # Errors
    /// A key file cannot be used.
    pub fn lock_keys(&self) -> Result<Vec<PublicKey>, String> {
        let mut keys = Vec::new();
        for file in &self.trust.lock_keys {
            keys.extend(PublicKey::load_all(file).map_err(|e| e.to_string())?);
        }
        Ok(keys)
    }

    /// Each with file, line and key.
    fn lines(&self, all: &[catalog::ConfigError]) -> Vec<String> {
        all.iter().map(|one| self.written.error(&one.path, &*one.message).to_string()).collect()
    }

    /// What is wrong with the tool of this name, or with the server it is one of, at the place where that is
    /// written.
    #[must_use]
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
    #[must_use]
    pub fn of_server(&self, name: &str, why: &str) -> String {
        let is = |one: &Value| one.get("name").and_then(Value::as_str) == Some(name);
        let at = self.servers.iter().position(is);
        let key = at.map_or_else(|| "servers".to_owned(), |at| format!("servers[{at}]"));
        self.written.error(&key, format!("server `{name}`: {why}")).to_string()
    }

    /// Every Unix socket to listen on: the agent socket and those that callers name.
    #[must_use]
    pub fn sockets(&self) -> BTreeSet<PathBuf> {
        let callers = self.agents.iter().flat_map(|agent| &agent.callers);
        callers.filter_map(|c| c.socket.clone()).chain(self.listen.socket.clone()).collect()
    }

    /// The effective configuration as YAML. Secrets are not part of it.
    ///
    /// # Errors
    /// A value cannot be written as YAML.
    pub fn to_yaml(&self) -> Result<String, String> {
        serde_saphyr::to_string(self).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests;
