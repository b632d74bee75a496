//! From `servers:` as it was written to servers, or to everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::config::{self, Config};
use super::{OperatorNotes, Remote, Server, Stdio, Transport, governed, isolation};
use crate::binding::CredentialTarget;
use crate::check::{self, Surroundings};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, json};
use crate::host::Origin;
use crate::identity::client_tools::CLIENT;
use crate::mcp::name;
use crate::roles::StatedRoles;
use crate::secret::Secret;
use crate::{ConfigError, Problems, definition, outbound};

/// Variables of the gate's own environment that a program gets; no digest covers their values.
pub const INHERITED: [&str; 8] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];
/// Headers of the transport itself.
const TRANSPORT: [&str; 3] = ["accept", "last-event-id", "origin"];

impl Config {
    /// Reads everything the servers name. Starts no server and opens no connection.
    ///
    /// # Errors
    /// Everything that is wrong, not only the first thing, in the order of the list.
    pub fn check(
        self,
        surroundings: &Surroundings<'_>,
    ) -> Result<Vec<Arc<Server>>, Vec<ConfigError>> {
        let mut problems = Problems::default();
        let mut names = BTreeSet::new();
        let mut servers = Vec::new();
        for (i, raw) in self.0.iter().enumerate() {
            let at = format!("servers[{i}]");
            if !names.insert(raw.name.as_str()) {
                problems.add(format!("{at}.name"), format!("`{}` occurs twice", raw.name));
            }
            servers.extend(server(raw, &at, surroundings, &mut problems).map(Arc::new));
        }
        if problems.0.is_empty() { Ok(servers) } else { Err(problems.0) }
    }

    /// Files that hold secrets, so that no root of a tool lies over one.
    pub fn secret_files(&self, base: &Path) -> Vec<PathBuf> {
        let stdio = self.0.iter().filter_map(|server| server.stdio.as_ref());
        let stdio = stdio.flat_map(|stdio| &stdio.credentials).filter_map(|c| c.file.as_ref());
        let http = self.0.iter().filter_map(|server| server.http.as_ref());
        let http = http.flat_map(|http| &http.credentials).filter_map(|c| c.file.as_ref());
        stdio.chain(http).map(|file| base.join(file)).collect()
    }
}

fn server(
    raw: &config::McpServerConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<Server> {
    if !name::is_server(&raw.name) {
        problems.add(format!("{at}.name"), format!("`{}` is not [a-z0-9_-]{{1,32}}", raw.name));
    }
    if raw.name == CLIENT {
        let message = "`client` is the first part of the names of tools that agents run themselves; choose another";
        problems.add(format!("{at}.name"), message);
    }
    let tier = raw.tier.as_deref().map(check::tier).transpose();
    let tier = problems.take(&format!("{at}.tier"), tier);
    let timeout = check::bounded(raw.timeout_ms, check::TIMEOUT_MS, check::TIMEOUT_MS_MAX);
    let timeout = problems.take(&format!("{at}.timeout_ms"), timeout);
    let bytes = check::bounded(raw.result_bytes_max, check::RESULT_BYTES, check::RESULT_BYTES_MAX);
    let bytes = problems.take(&format!("{at}.result_bytes_max"), bytes);
    let tools = operator_notes(raw, at, problems);
    let reached = match (&raw.stdio, &raw.http) {
        (Some(stdio), None) => program(stdio, &format!("{at}.stdio"), surroundings, problems)
            .map(|(stdio, facts)| (Transport::Stdio(stdio), facts)),
        (None, Some(http)) => remote(http, &format!("{at}.http"), surroundings, problems)
            .map(|(remote, facts)| (Transport::Http(Box::new(remote)), facts)),
        (None, None) | (Some(_), Some(_)) => {
            problems.add(at, "give one of `stdio` and `http`");
            None
        }
    };
    let (transport, facts) = reached?;
    Some(Server {
        name: raw.name.clone(),
        transport,
        tier: tier?,
        timeout: Duration::from_millis(timeout?),
        result_bytes_max: bytes?,
        tools,
        binding: Digest::of(&[b"wicketgate/server/1\0", &canonical::bytes(&facts)]),
        files: OnceLock::new(),
    })
}

fn operator_notes(
    raw: &config::McpServerConfig,
    at: &str,
    problems: &mut Problems,
) -> BTreeMap<String, OperatorNotes> {
    let mut tools = BTreeMap::new();
    for (own, raw) in &raw.tools {
        let at = format!("{at}.tools.{own}");
        // Another check reports a wrong name of the server.
        if governed("x", own).is_none() {
            problems.add(at.as_str(), "is neither a tool's name nor a method that can be granted");
        }
        let tier = raw.tier.as_deref().map(check::tier).transpose();
        let tier = problems.take(&format!("{at}.tier"), tier).flatten();
        let timeout = raw
            .timeout_ms
            .map(|ms| check::bounded(Some(ms), ms, check::TIMEOUT_MS_MAX))
            .transpose();
        let timeout = problems.take(&format!("{at}.timeout_ms"), timeout).flatten();
        let cost = check::cost(raw.cost_micro_usd);
        let cost = problems.take(&format!("{at}.cost_micro_usd"), cost).flatten();
        let dedupe = check::dedupe(raw.dedupe_ms);
        let dedupe = problems.take(&format!("{at}.dedupe_ms"), dedupe).flatten();
        let notes = OperatorNotes {
            tier,
            read_only: raw.read_only,
            idempotent: raw.idempotent,
            timeout: timeout.map(Duration::from_millis),
            cost_micro_usd: cost,
            dedupe,
            roles: StatedRoles::read(raw.taint.as_ref(), &at, problems),
        };
        tools.insert(own.clone(), notes);
    }
    tools
}

/// The program, and the files that a lock pins.
fn program(
    raw: &config::StdioConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<(Stdio, Json)> {
    if raw.command.is_empty() || raw.command.contains('\0') {
        problems.add(format!("{at}.command"), "is a path, or the name of a program");
    }
    for (i, _) in raw.args.iter().enumerate().filter(|(_, arg)| arg.contains('\0')) {
        problems.add(format!("{at}.args[{i}]"), "holds a zero byte");
    }
    for (name, value) in &raw.env {
        let at = format!("{at}.env.{name}");
        if !is_variable(name) {
            problems.add(at.as_str(), "is no name of a variable: [A-Za-z_][A-Za-z0-9_]*");
        }
        if value.contains('\0') {
            problems.add(at, "holds a zero byte");
        }
    }
    let secrets = variables(&raw.credentials, &raw.env, at, surroundings, problems);
    let isolation = isolation::check(raw.sandbox.as_ref(), at, surroundings, problems);
    let written =
        raw.cwd.as_ref().map(|dir| directory(&surroundings.base_dir.join(dir))).transpose();
    let written = problems.take(&format!("{at}.cwd"), written)?;
    let isolation = isolation?;
    let cwd = match (isolation.sandbox(), written) {
        (Some(sandbox), written) => isolation::cwd(sandbox, written, at, problems),
        (None, Some(dir)) => dir,
        (None, None) => problems.take(&format!("{at}.cwd"), directory(surroundings.base_dir))?,
    };
    let env = environment(raw, &secrets, isolation.sandbox().is_none(), surroundings);
    let path = raw.env.get("PATH").cloned().or_else(|| (surroundings.env)("PATH"));
    // WHY: a path is taken from the configuration's directory and never from where the child runs.
    let program = if raw.command.contains('/') {
        surroundings.base_dir.join(&raw.command).display().to_string()
    } else {
        raw.command.clone()
    };
    let facts = program_facts(raw, &secrets, isolation::facts(raw.sandbox.as_ref(), &isolation));
    Some((Stdio { program, args: raw.args.clone(), env, secrets, cwd, isolation, path }, facts))
}

/// The directory, canonical.
fn directory(path: &Path) -> Result<PathBuf, check::Error> {
    let path = path.canonicalize().map_err(|e| check::Error::Open(path.to_owned(), e))?;
    if path.is_dir() { Ok(path) } else { Err(check::Error::NotDirectory(path)) }
}

/// Its literal variables; a program without a sandbox gets a few of the gate's own too.
fn environment(
    raw: &config::StdioConfig,
    secrets: &[(String, Secret, String)],
    inherits: bool,
    surroundings: &Surroundings<'_>,
) -> Vec<(String, String)> {
    let taken = |name: &str| raw.env.contains_key(name) || secrets.iter().any(|(n, ..)| n == name);
    let inherited = INHERITED.iter().filter(|name| inherits && !taken(name));
    let mut env: Vec<(String, String)> = inherited
        .filter_map(|name| Some(((*name).to_owned(), (surroundings.env)(name)?)))
        .chain(raw.env.clone())
        .collect();
    env.sort();
    env
}

fn program_facts(
    raw: &config::StdioConfig,
    secrets: &[(String, Secret, String)],
    sandbox: Option<Json>,
) -> Json {
    let members = serde_json::json!({
        "transport": "stdio",
        "command": raw.command,
        "args": raw.args,
        "env": definition::hashed(&raw.env),
        "credentials": definition::variables(secrets),
        "cwd": raw.cwd.as_ref().map(|dir| dir.display().to_string()),
    });
    definition::with(members, [("sandbox", sandbox.map(|sandbox| sandbox.to_serde()))]).into()
}

pub(crate) fn is_variable(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

/// The program's secret variables: name, secret, reference.
pub(crate) fn variables(
    credentials: &[config::Variable],
    env: &BTreeMap<String, String>,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Vec<(String, Secret, String)> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (i, variable) in credentials.iter().enumerate() {
        let at = format!("{at}.credentials[{i}]");
        if !is_variable(&variable.env) {
            problems.add(format!("{at}.env"), "is no name of a variable: [A-Za-z_][A-Za-z0-9_]*");
        }
        if env.contains_key(&variable.env) || !names.insert(variable.env.as_str()) {
            problems.add(format!("{at}.env"), format!("`{}` is set twice", variable.env));
        }
        if variable.value.is_some() {
            let why = "a secret is given by `file` or `from_env`, never inline";
            problems.add(format!("{at}.value"), why);
            continue;
        }
        let source = (variable.file.as_deref(), variable.from_env.as_deref());
        if let Some((secret, reference)) =
            outbound::secret(source, "from_env", &at, surroundings, problems)
        {
            found.push((variable.env.clone(), secret, reference));
        }
    }
    found
}

/// The server behind a URL, and the facts that a lock pins.
fn remote(
    raw: &config::RemoteConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<(Remote, Json)> {
    let credentials = outbound::credentials(&raw.credentials, at, surroundings, problems);
    let (url, query) =
        raw.url.split_once('?').map_or((raw.url.as_str(), None), |(url, query)| (url, Some(query)));
    let origin = problems.take(&format!("{at}.url"), Origin::parse(url));
    let ranges = outbound::ranges(&raw.private_addresses, at, problems);
    if let Some((origin, _)) = &origin {
        outbound::reachable(origin, &ranges, !credentials.is_empty(), at, problems);
    }
    let headers = outbound::headers(&raw.headers, at, problems);
    for (name, _) in &headers {
        transport_header(name.as_str(), &format!("{at}.headers.{name}"), problems);
    }
    for (i, credential) in credentials.iter().enumerate() {
        if let CredentialTarget::Header(name) = &credential.place {
            transport_header(name.as_str(), &format!("{at}.credentials[{i}].header"), problems);
        }
    }
    let to = origin.as_ref().map(|(origin, _)| origin);
    let ca = outbound::ca(raw.ca_file.as_deref(), to, at, surroundings, problems);
    let (origin, path) = origin?;
    let target = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    let literal = target.parse::<http::uri::PathAndQuery>().map_err(|e| e.to_string());
    let literal = literal.and_then(|_| {
        if target.contains(['{', '}', '#']) {
            Err("the url of a server is literal".to_owned())
        } else {
            Ok(())
        }
    });
    problems.take(&format!("{at}.url"), literal)?;
    let remote =
        Remote { origin, target, headers, private_addresses: ranges, ca: ca?, credentials };
    let facts = remote_facts(&remote);
    Some((remote, facts))
}

fn transport_header(name: &str, at: &str, problems: &mut Problems) {
    if TRANSPORT.contains(&name) || name.starts_with("mcp-") {
        problems.add(at, format!("`{name}` is written by the gate itself"));
    }
}

fn remote_facts(remote: &Remote) -> Json {
    let url =
        format!("{}://{}{}", remote.origin.scheme(), remote.origin.authority(), remote.target);
    let hashed = |value: &http::HeaderValue| Digest::of(&[value.as_bytes()]).hex();
    let headers = remote.headers.iter().map(|(name, value)| (name.as_str(), hashed(value)));
    json!({
        "transport": "http",
        "url": url,
        "headers": headers.collect::<BTreeMap<_, _>>(),
        "private_addresses": definition::ranges(&remote.private_addresses),
        "ca": definition::authorities(remote.ca.as_deref()),
        "credentials": definition::credentials(&remote.credentials),
    })
}
