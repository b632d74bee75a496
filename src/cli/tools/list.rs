//! `wicketgate tools list`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ToolsArgs, reached, wrong};
use crate::catalog::Binding;
use crate::catalog::drift::{self, Drift};
use crate::catalog::lock::{LockedServer, printable};
use crate::catalog::server::{Mcp, Target, governed};
use crate::catalog::{Bound, lock::Lock};
use crate::cli::{Exit, Failure, note, runtime, say};
use crate::config;
use crate::domain::json::{Json, Limits};
use crate::tool::mcp::ProbeError;
use crate::tool::sandbox::{LevelError, Levels};

/// What the servers show now; empty without `--probe`.
struct LiveServers {
    servers: BTreeMap<String, Result<LockedServer, ProbeError>>,
    levels: Levels,
}

pub(super) fn run(at: &ToolsArgs, probe: bool) -> Result<Exit, Failure> {
    let config = at.load()?;
    let mut bound = config.bindings(&config::environment).map_err(wrong)?;
    bound.bindings.sort_by(|a, b| a.name.cmp(&b.name));
    let live = if probe { Some(ask(at, &bound)?) } else { None };
    let rows: Vec<ToolRow> = bound.bindings.iter().map(|b| ToolRow::of(b, live.as_ref())).collect();
    let unlocked = live.as_ref().map(|live| unlocked(live, &bound)).unwrap_or_default();
    let failed = live.iter().flat_map(|live| live.servers.values());
    let failed: Vec<&ProbeError> = failed.filter_map(|answer| answer.as_ref().err()).collect();
    if at.json {
        say(value(&bound, &rows, &unlocked, &failed).to_string());
    } else {
        rows.iter().for_each(ToolRow::text);
        unlocked.iter().for_each(|name| say(format!("{name:<40} not in the lock: does not exist")));
        failed.iter().for_each(|why| note(format!("error: {why}")));
        bound.warnings.iter().for_each(|warning| note(format!("warning: {warning}")));
    }
    if rows.iter().any(|row| matches!(row.drift, Some(Drift::Breaking(_)))) {
        return Ok(Exit::Invalid);
    }
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::Unverifiable })
}

fn ask(at: &ToolsArgs, bound: &Bound) -> Result<LiveServers, Failure> {
    let offers = runtime()?.block_on(at.offers(&bound.servers, true)).into_iter();
    let servers =
        offers.map(|(server, offer)| (server.name.clone(), offer.map(|offer| offer.locked)));
    Ok(LiveServers { servers: servers.collect(), levels: Levels::default() })
}

/// Tools that servers show and no lock pins.
fn unlocked(live: &LiveServers, bound: &Bound) -> Vec<String> {
    let none = Lock::default();
    let lock = bound.lock.as_ref().map_or(&none, |verified| &verified.lock);
    let mut names = Vec::new();
    for server in live.servers.values().filter_map(|answer| answer.as_ref().ok()) {
        let pins = lock.servers.get(&server.name);
        let new =
            server.tools.keys().filter(|own| pins.is_none_or(|p| !p.tools.contains_key(*own)));
        names.extend(new.filter_map(|own| governed(&server.name, own)).map(|n| n.to_string()));
    }
    names
}

/// One governed tool.
struct ToolRow<'a> {
    binding: &'a Binding,
    server: Option<&'a str>,
    /// `configured`, `pinned`, the drift of the pin, or `unreached`.
    state: &'static str,
    drift: Option<Drift>,
    changes: Vec<String>,
    /// The sandbox level of a command or a server; `none` for a server without one.
    level: Option<&'static str>,
    /// Why this machine cannot give that.
    missing: Option<LevelError>,
}

impl<'a> ToolRow<'a> {
    fn of(binding: &'a Binding, live: Option<&LiveServers>) -> Self {
        let mut row = Self {
            binding,
            server: None,
            state: "configured",
            drift: None,
            changes: Vec::new(),
            level: None,
            missing: None,
        };
        let demand = binding.kind.demand();
        row.level = demand.map(|demand| demand.level.as_str());
        if let Some(mcp) = binding.kind.mcp() {
            row.server = Some(&mcp.server.name);
            row.level = mcp.server.isolation();
            row.state = "pinned";
            match live.and_then(|live| live.servers.get(&mcp.server.name)) {
                None => {}
                Some(Err(_)) => row.state = "unreached",
                Some(Ok(server)) => row.compare(mcp, server),
            }
        }
        row.missing = live.and_then(|live| live.levels.meet(demand?).err());
        row.state = if row.missing.is_some() { "unavailable" } else { row.state };
        row
    }

    fn compare(&mut self, mcp: &Mcp, server: &LockedServer) {
        let drift = match &mcp.target {
            Target::Method(method) if server.methods.contains(method) => Drift::Same,
            Target::Method(_) => Drift::Breaking(vec!["method gone".to_owned()]),
            Target::Tool(own) => {
                // INVARIANT: a binding's pin was parsed from JSON.
                let pinned = Json::parse(&mcp.pinned, &Limits::FILE).unwrap_or(Json::Null);
                let live = server.tools.get(own);
                let changes = drift::changes(&pinned, live);
                self.changes = changes.iter().map(ToString::to_string).collect();
                drift::grade(&pinned, live)
            }
        };
        self.state = drift.as_str();
        self.drift = Some(drift);
    }

    fn text(&self) {
        let Binding { name, tier, definition, kind, .. } = self.binding;
        let kind = match (self.server, self.level) {
            (Some(server), Some(level)) => format!("mcp:{server}:{level}"),
            (Some(server), None) => format!("mcp:{server}"),
            (None, Some(level)) => format!("{}:{level}", kind.as_str()),
            (None, None) => kind.as_str().to_owned(),
        };
        let definition = definition.hex().chars().take(12).collect::<String>();
        let state = self.state;
        say(format!("{:<40} {tier}  {kind:<16} {definition}  {state}", name.as_str()));
        self.changes.iter().for_each(|change| say(format!("    {change}")));
        self.missing.iter().for_each(|why| say(format!("    {why}")));
    }

    fn value(&self) -> Value {
        let binding = self.binding;
        json!({
            "name": binding.name.as_str(),
            "kind": binding.kind.as_str(),
            "server": self.server,
            "tier": binding.tier.as_str(),
            "read_only": binding.read_only,
            "idempotent": binding.idempotent,
            "definition": binding.definition.prefixed(),
            "standing": self.state,
            "changes": self.changes,
            "sandbox": self.level,
            "missing": self.missing.as_ref().map(ToString::to_string),
        })
    }
}

fn value(
    bound: &Bound,
    rows: &[ToolRow<'_>],
    unlocked: &[String],
    failed: &[&ProbeError],
) -> Value {
    let pins = |name: &str| bound.lock.as_ref().and_then(|lock| lock.lock.servers.get(name));
    let server = |server: &std::sync::Arc<crate::catalog::server::Server>| {
        json!({
            "name": server.name,
            "reached": reached(server),
            "sandbox": server.isolation(),
            "binding": server.binding.prefixed(),
            "locked": pins(&server.name).is_some(),
            "protocol": pins(&server.name).map(|locked| locked.protocol.as_str()),
        })
    };
    let lock = bound
        .lock
        .as_ref()
        .map(|lock| json!({"signers": lock.signers.to_vec(), "digest": lock.digest.prefixed()}));
    let broken = rows.iter().any(|row| matches!(row.drift, Some(Drift::Breaking(_))));
    let broken = broken || rows.iter().any(|row| row.missing.is_some());
    let warnings: Vec<String> = bound.warnings.iter().map(|w| printable(w)).collect();
    json!({
        "ok": !broken && failed.is_empty(),
        "lock": lock,
        "servers": bound.servers.iter().map(server).collect::<Vec<_>>(),
        "tools": rows.iter().map(ToolRow::value).collect::<Vec<_>>(),
        "not_in_lock": unlocked,
        "errors": failed.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "warnings": warnings,
    })
}
