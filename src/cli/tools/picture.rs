//! Lists everything the configuration names, each item by itself, and selects what to check.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::Error;
use super::wrong;
use crate::catalog::drift::{self, Drift};
use crate::catalog::lock::{Lock, LockedServer, printable};
use crate::catalog::server::{Mcp, Server, Target, governed};
use crate::catalog::{Binding, Bound, Checked, ConfigError};
use crate::cli::Failure;
use crate::config::{self, Config};
use crate::domain::effect::ToolKind;
use crate::domain::json::{Json, Limits};
use crate::domain::tier::Tier;
use crate::identity::callers::Callers;
use crate::tool::probe::{Point, ProbeState, worst};

/// The selection; an empty list selects everything.
pub(super) struct Filter<'a> {
    pub tools: &'a [String],
    pub kinds: &'a [String],
    pub servers: &'a [String],
}

impl Filter<'_> {
    fn has(&self, name: &str, kind: &str, server: Option<&str>) -> bool {
        let of = |list: &[String], one: &str| list.is_empty() || list.iter().any(|l| l == one);
        let of_server = self.servers.is_empty() || server.is_some_and(|s| of(self.servers, s));
        of(self.tools, name) && of(self.kinds, kind) && of_server
    }
}

/// One tool, and its findings.
pub(super) struct PictureRow {
    pub name: String,
    pub kind: String,
    /// None of a tool that is wrong.
    pub tier: Option<Tier>,
    /// The server of an MCP tool.
    pub server: Option<String>,
    /// What its program has to run in.
    pub sandbox: Option<&'static str>,
    pub definition: Option<String>,
    pub points: Vec<Point>,
}

impl PictureRow {
    fn of(binding: &Binding) -> Self {
        let server = binding.kind.mcp().map(|mcp| mcp.server.name.clone());
        // The sandbox of a server is in the server's own row.
        let demand = binding.kind.demand().filter(|_| server.is_none());
        Self {
            name: binding.name.to_string(),
            kind: binding.kind.as_str().to_owned(),
            tier: Some(binding.tier),
            server,
            sandbox: demand.map(|demand| demand.level.as_str()),
            definition: Some(binding.definition.prefixed()),
            points: Vec::new(),
        }
    }

    fn wrong(name: &str, kind: &str, errors: &[ConfigError]) -> Self {
        let points = errors.iter().map(|error| {
            let (path, message) = (printable(&error.path), printable(&error.message));
            // The program is there and is not the one that the operator wrote down.
            let another = path.ends_with(".sha256") && message.contains("has another");
            let (state, todo) = if another {
                (
                    ProbeState::Drifted,
                    "inspect the program; if it is the right one, pin this digest",
                )
            } else {
                (ProbeState::Refused, "")
            };
            Point::wrong(path, state, message, todo)
        });
        let (name, kind, points) = (printable(name), printable(kind), points.collect());
        Self { name, kind, tier: None, server: None, sandbox: None, definition: None, points }
    }

    /// A tool that a server shows and no lock pins.
    fn unpinned(server: &str, own: &str) -> Option<Self> {
        let name = governed(server, own)?.to_string();
        let todo = "if agents are to have it: wicketgate tools lock";
        let found = "is not in the lock: no agent has it";
        let points = vec![Point::wrong(format!("server {server}"), ProbeState::New, found, todo)];
        Some(Self {
            name,
            kind: ToolKind::Mcp.to_string(),
            tier: None,
            server: Some(server.to_owned()),
            sandbox: None,
            definition: None,
            points,
        })
    }

    /// Its worst finding.
    pub fn state(&self) -> ProbeState {
        worst(&self.points)
    }
}

/// Everything that is to be looked at.
#[derive(Default)]
pub(super) struct Picture {
    /// The operator's own tools.
    pub own: Vec<(PictureRow, Option<Binding>)>,
    /// Pinned tools of the servers.
    pub pinned: Vec<(PictureRow, Mcp)>,
    /// The servers to ask.
    pub servers: Vec<Arc<Server>>,
    /// What is pinned of them.
    lock: Lock,
    /// Why a gate does not start with this configuration.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

impl Picture {
    /// Reads as much of the configuration as possible, and keeps the selected part.
    pub fn read(config: &Config, filter: &Filter<'_>) -> Result<Self, Failure> {
        let mut picture = match config.bindings(&config::environment) {
            Ok(bound) => {
                // Manifests that do not load are `config check`'s to report.
                let callers = crate::cli::config::manifests(config).ok();
                let manifests = callers.as_ref().map(Callers::manifests).unwrap_or_default();
                let never = crate::cli::config::never_run(config, manifests, &bound);
                let mut picture = Self::of(bound);
                picture.warnings.extend(never);
                picture
            }
            Err(errors) => {
                let each = config.tools_each(&config::environment);
                let each = each.map_err(wrong)?;
                Self::of_each(config, each, errors)
            }
        };
        picture.known(filter)?;
        picture.keep(filter);
        Ok(picture)
    }

    fn of(bound: Bound) -> Self {
        let Bound { bindings, servers, lock, warnings } = bound;
        let lock = lock.map(|lock| lock.lock).unwrap_or_default();
        let mut picture = Self { servers, lock, warnings, ..Self::default() };
        for binding in bindings {
            let row = PictureRow::of(&binding);
            if let Some(mcp) = binding.kind.mcp() {
                picture.pinned.push((row, mcp.clone()));
            } else {
                picture.own.push((row, Some(binding)));
            }
        }
        picture.own.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        picture.pinned.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        picture
    }

    /// The usable part of a configuration with errors.
    fn of_each(config: &Config, each: Vec<Checked>, errors: Vec<String>) -> Self {
        let servers = config.servers(&config::environment).unwrap_or_default();
        let lock = config.locked().ok().flatten();
        let bound = Bound::of(Vec::new(), servers.clone(), lock);
        let bound = bound.or_else(|_| Bound::of(Vec::new(), servers, None)).unwrap_or_default();
        let mut picture = Self { errors, ..Self::of(bound) };
        for Checked { name, kind, checked } in each {
            picture.own.push(match checked {
                Ok(binding) => (PictureRow::of(&binding), Some(binding)),
                Err(problem) => (PictureRow::wrong(&name, &kind, &problem), None),
            });
        }
        picture
    }

    /// Refuses unknown names.
    fn known(&self, filter: &Filter<'_>) -> Result<(), Failure> {
        let rows = || self.own.iter().map(|(row, _)| row).chain(self.pinned.iter().map(|(r, _)| r));
        let servers: BTreeSet<&str> = self.servers.iter().map(|s| s.name.as_str()).collect();
        if let Some(name) = filter.servers.iter().find(|name| !servers.contains(name.as_str())) {
            return Err(Failure::usage(Error::Server(name.clone())));
        }
        let bound = |name: &&String| rows().any(|row| &row.name == *name);
        if let Some(name) = filter.tools.iter().find(|name| !bound(name)) {
            return Err(Failure::usage(Error::Tool(name.clone())));
        }
        let kinds: BTreeSet<&str> = rows().map(|row| row.kind.as_str()).collect();
        let kind = |kind: &&String| {
            kinds.contains(kind.as_str()) || kind.as_str() == ToolKind::Mcp.as_str()
        };
        if let Some(kind) = filter.kinds.iter().find(|one| !kind(one)) {
            return Err(Failure::usage(Error::Kind(kind.clone())));
        }
        Ok(())
    }

    fn keep(&mut self, filter: &Filter<'_>) {
        let has = |row: &PictureRow| filter.has(&row.name, &row.kind, row.server.as_deref());
        self.own.retain(|(row, _)| has(row));
        self.pinned.retain(|(row, _)| has(row));
        let pinned: BTreeSet<&str> =
            self.pinned.iter().filter_map(|(row, _)| row.server.as_deref()).collect();
        let mcp = filter.kinds.is_empty()
            || filter.kinds.iter().any(|kind| kind == ToolKind::Mcp.as_str());
        let named = |name: &str| {
            filter.servers.is_empty() || filter.servers.iter().any(|server| server == name)
        };
        let wanted = |name: &str| {
            if filter.tools.is_empty() { mcp && named(name) } else { pinned.contains(name) }
        };
        let wanted: BTreeSet<String> =
            self.servers.iter().map(|s| s.name.clone()).filter(|name| wanted(name)).collect();
        self.servers.retain(|server| wanted.contains(&server.name));
    }

    /// The rows of one server that answered: those of pinned tools and, if `new`, those of unpinned
    /// ones.
    pub fn compared(&mut self, live: &LockedServer, new: bool) -> Vec<PictureRow> {
        let mut rows = self.taken(&live.name, |mcp| compare(mcp, live));
        if new {
            let pins = self.lock.servers.get(&live.name);
            let unknown =
                live.tools.keys().filter(|own| pins.is_none_or(|p| !p.tools.contains_key(*own)));
            rows.extend(unknown.filter_map(|own| PictureRow::unpinned(&live.name, own)));
        }
        rows
    }

    /// The rows of one server that did not answer.
    pub fn unreached(&mut self, server: &str) -> Vec<PictureRow> {
        let what = format!("server {server}");
        let found = "the server that has it did not answer";
        self.taken(server, |_| Point::wrong(what.clone(), ProbeState::Unreached, found, ""))
    }

    fn taken(&mut self, server: &str, point_of: impl Fn(&Mcp) -> Point) -> Vec<PictureRow> {
        let of = |row: &(PictureRow, Mcp)| row.0.server.as_deref() == Some(server);
        let all = std::mem::take(&mut self.pinned);
        let (ours, others): (Vec<_>, Vec<_>) = all.into_iter().partition(of);
        self.pinned = others;
        ours.into_iter()
            .map(|(row, mcp)| PictureRow { points: vec![point_of(&mcp)], ..row })
            .collect()
    }
}

/// Compares a server's current tool with its pin.
fn compare(mcp: &Mcp, live: &LockedServer) -> Point {
    let what = format!("server {}", live.name);
    let own = match &mcp.target {
        Target::Method(method) if live.methods.contains(method) => {
            return Point::ready(what, "answers to it");
        }
        Target::Method(_) => {
            let found = "does not answer to this method any more";
            return Point::wrong(what, ProbeState::Missing, found, LOCK_AGAIN);
        }
        Target::Tool(own) => own,
    };
    let Some(now) = live.tools.get(own) else {
        return Point::wrong(what, ProbeState::Missing, "does not show it any more", LOCK_AGAIN);
    };
    // INVARIANT: a binding's pin was parsed from JSON.
    let pinned = Json::parse(&mcp.pinned, &Limits::FILE).unwrap_or(Json::Null);
    let changes = drift::changes(&pinned, Some(now));
    let list = changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match drift::grade(&pinned, Some(now)) {
        Drift::Same => Point::ready(what, "shows it as it was pinned"),
        Drift::Text => {
            let found = format!("its description differs from the lock: {list}");
            Point::wrong(what, ProbeState::Changed, found, LOCK_AGAIN)
        }
        Drift::Compatible => {
            let found = format!("accepts more than the lock: {list}");
            Point::wrong(what, ProbeState::Changed, found, LOCK_AGAIN)
        }
        Drift::Breaking(_) => {
            let found = format!("differs from the lock: {list}");
            Point::wrong(what, ProbeState::Drifted, found, LOCK_AGAIN)
        }
    }
}

const LOCK_AGAIN: &str = "look at it; if it is meant: wicketgate tools lock";
