//! The tools and servers the configuration describes, opened; and opened again when it changes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::ReplayParts;
use crate::catalog::drift::Drift;
use crate::catalog::secret::Secret;
use crate::catalog::{Bound, lock};
use crate::config::{self, Config};
use crate::domain::token;
use crate::firewall;
use crate::identity::callers::read_token;
use crate::replay::environment;
use crate::tool::Guard;
use crate::tool::client::PREFIX as CLIENT_TOOL;
use crate::tool::mcp::{McpUpstream, Upstreams};
use crate::tool::toolbox::Toolbox;

/// Members of tools and servers that name a file which is read with them. The gate watches
/// credential files separately.
const NAMED: [&str; 3] = ["ca_file", "input_schema_file", "url_file"];

/// Every bound tool, and the servers behind some of them.
pub(super) struct BoundTools {
    pub toolbox: Toolbox,
    pub upstreams: Upstreams,
}

/// Opens everything that is bound. Reaches no network and starts no server.
pub(super) fn open(config: &Config) -> Result<BoundTools, Vec<String>> {
    open_after(config, &Upstreams::default())
}

/// The tools of a recording: they reach no network and no file.
pub(super) fn recorded(stage: &ReplayParts) -> Result<BoundTools, Vec<String>> {
    let toolbox = environment::toolbox(stage.player.recording(), &stage.player);
    let toolbox = toolbox.map_err(|why| vec![format!("the recording: {why}")])?;
    Ok(BoundTools { toolbox, upstreams: Upstreams::default() })
}

/// The same; servers that did not change keep their connections.
pub(super) fn open_after(config: &Config, before: &Upstreams) -> Result<BoundTools, Vec<String>> {
    let bound = config.bindings(&config::environment)?;
    bound.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    opened(config, bound, before)
}

/// The same, from checked parts.
pub(super) fn opened(
    config: &Config,
    bound: Bound,
    before: &Upstreams,
) -> Result<BoundTools, Vec<String>> {
    let upstreams = Upstreams::following(before, &bound.servers);
    upstreams.places().resize(config.limits.sandboxes_max, config.agents.len());
    let toolbox = Toolbox::build(bound.bindings, &upstreams, own(config)).map_err(|all| {
        all.iter().map(|one| config.of_tool(one.tool.as_str(), &one.message)).collect::<Vec<_>>()
    })?;
    let is_bound = |name: &str| {
        name.starts_with(CLIENT_TOOL) || toolbox.names().any(|bound| bound.as_str() == name)
    };
    let unbound = config.unbound_in_firewall(is_bound);
    if !unbound.is_empty() {
        return Err(unbound);
    }
    let toolbox = toolbox.guarded(guard(config)?);
    Ok(BoundTools { toolbox, upstreams })
}

/// What the configuration says about findings. The rules of the operator are this process's from here on.
fn guard(config: &Config) -> Result<Guard, Vec<String>> {
    let rules = config.firewall_rules().map_err(|why| vec![why])?;
    firewall::install(rules).map_err(|error| vec![format!("firewall: {error}")])?;
    let marks = config.finding_marks().map_err(|why| vec![why])?;
    Ok(config.firewall.guard(marks))
}

/// The secrets that callers and operators show this gate, as far as it does not recognise them by
/// itself (`domain::token`). Where a file is read to identify its caller, its errors are reported.
fn own(config: &Config) -> Vec<Secret> {
    let callers = config.agents.iter().flat_map(|agent| &agent.callers);
    let callers = callers.filter_map(|caller| caller.token_file.as_deref());
    let operators = config.operators.iter().filter_map(|member| member.token_file.as_deref());
    let tokens = callers.chain(operators).filter_map(|file| read_token(file).ok());
    let unknown = tokens.filter(|shown| token::parse(shown).is_none());
    unknown.filter_map(|shown| Secret::parse(&shown).ok()).collect()
}

/// Checks what the tools reach, all at the same time, and reports what must not be used.
pub(super) async fn look(tools: &BoundTools) -> Vec<String> {
    let checks = tools.toolbox.iter().map(|tool| async {
        let state = tool.executor.look().await;
        state.err().map(|why| format!("tool `{}`: {why}", tool.facts.name))
    });
    futures_util::future::join_all(checks).await.into_iter().flatten().collect()
}

/// The lock, and the files that tools and servers name.
pub(super) fn files(config: &Config) -> impl Iterator<Item = PathBuf> {
    let lock = config.lock.iter().flat_map(|lock| [lock.clone(), lock::envelope_path(lock)]);
    let named = config.tools.iter().chain(&config.servers).flat_map(|one| named(one, &config.base));
    lock.chain(named)
}

/// The files that a tool or server names in its file fields.
fn named(value: &Value, base: &Path) -> Vec<PathBuf> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| match member.as_str() {
                Some(path) if NAMED.contains(&name.as_str()) => vec![base.join(path)],
                Some(_) | None => named(member, base),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(|item| named(item, base)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// A note for the operator about one server: it fails, or differs from its lock.
pub(super) fn note(upstream: &McpUpstream) -> Option<String> {
    let (name, status) = (&upstream.server().name, upstream.status());
    let mut what = Vec::new();
    if status.failures > 0 && status.state != "up" {
        let why = status.error.as_deref().unwrap_or("no reason is known");
        what.push(format!("{}: {why}", status.state));
    }
    let drifted = status.drifted.iter();
    what.extend(drifted.map(|(tool, drift)| format!("tool `{tool}` {}", drifts(drift))));
    (!what.is_empty()).then(|| format!("server `{name}`: {}", what.join("; ")))
}

fn drifts(drift: &Drift) -> String {
    match drift {
        Drift::Same => "matches its signed lock".to_owned(),
        Drift::Text => "has a different description from the signed one".to_owned(),
        Drift::Compatible => "accepts more arguments than the signed one".to_owned(),
        Drift::Breaking(what) => {
            format!("is denied because it differs from its signed lock: {}", what.join(", "))
        }
    }
}
