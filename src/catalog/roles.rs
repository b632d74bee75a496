//! The roles of tools in the taint of a run: derived from kind and binding, and what an operator writes.

use schemars::JsonSchema;
use serde::Deserialize;

use super::address::is_public;
use super::host::{Host, Origin};
use super::{Kind, Problems, server, sql};
use crate::domain::json::Json;
use crate::domain::taint::{Egress, Exposure, ToolRoles, Trust};

/// What the answers of a tool bring into a run, and where its arguments can get to. What is not written follows from
/// the kind and the binding of the tool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaintConfig {
    /// Whether its answers may hold what others than the operator wrote.
    #[schemars(extend("enum" = Trust::TEXTS))]
    pub trust: Option<String>,
    /// Whether its answers may hold data that is not public.
    #[schemars(extend("enum" = Exposure::TEXTS))]
    pub data: Option<String>,
    /// Whether its arguments stay within what the operator runs.
    #[schemars(extend("enum" = Egress::TEXTS))]
    pub egress: Option<String>,
}

/// What an operator wrote, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatedRoles {
    trust: Option<Trust>,
    data: Option<Exposure>,
    egress: Option<Egress>,
}

impl StatedRoles {
    /// Reads the section at this place.
    pub(super) fn read(given: Option<&TaintConfig>, at: &str, problems: &mut Problems) -> Self {
        let Some(TaintConfig { trust, data, egress }) = given else { return Self::default() };
        Self {
            trust: one(
                trust.as_deref(),
                Trust::parse,
                &format!("{at}.taint.trust"),
                Trust::TEXTS,
                problems,
            ),
            data: one(
                data.as_deref(),
                Exposure::parse,
                &format!("{at}.taint.data"),
                Exposure::TEXTS,
                problems,
            ),
            egress: one(
                egress.as_deref(),
                Egress::parse,
                &format!("{at}.taint.egress"),
                Egress::TEXTS,
                problems,
            ),
        }
    }

    /// Its part of a definition; a tool without it keeps its hash.
    pub(super) fn definition(self) -> Option<serde_json::Value> {
        if self == Self::default() {
            return None;
        }
        let texts = [
            ("trust", self.trust.map(Trust::as_str)),
            ("data", self.data.map(Exposure::as_str)),
            ("egress", self.egress.map(Egress::as_str)),
        ];
        let written = texts.into_iter().filter_map(|(name, text)| Some((name, Json::from(text?))));
        Some(Json::object(written).to_serde())
    }

    /// The roles of a tool of this kind: what is written counts.
    pub(super) fn over(self, kind: &Kind) -> ToolRoles {
        let derived = derived(kind);
        ToolRoles {
            trust: self.trust.unwrap_or(derived.trust),
            data: self.data.unwrap_or(derived.data),
            egress: self.egress.unwrap_or(derived.egress),
        }
    }

    /// What it says less than the binding shows, in words; `None` if it lowers nothing.
    #[must_use]
    pub fn lowered(self, kind: &Kind) -> Option<String> {
        let (derived, stated) = (derived(kind), self.over(kind));
        let parts = [
            (stated.trust < derived.trust).then(|| format!("trust: {}", stated.trust)),
            (stated.data < derived.data).then(|| format!("data: {}", stated.data)),
            (stated.egress < derived.egress).then(|| format!("egress: {}", stated.egress)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn one<T>(
    given: Option<&str>,
    parse: impl Fn(&str) -> Option<T>,
    at: &str,
    all: &[&str],
    problems: &mut Problems,
) -> Option<T> {
    let text = given?;
    let parsed =
        parse(text).ok_or_else(|| format!("`{text}` is not one of `{}`", all.join("`, `")));
    problems.take(at, parsed)
}

/// The roles that follow from kind and binding. What is not known counts as the worse.
fn derived(kind: &Kind) -> ToolRoles {
    let private_if = |private: bool| if private { Exposure::Private } else { Exposure::Public };
    let outside = ToolRoles::default();
    let inside = ToolRoles { egress: Egress::Inside, ..outside };
    match kind {
        Kind::Http(http) => ToolRoles {
            data: private_if(!http.credentials.is_empty() || is_inside(&http.origin)),
            egress: egress(&http.origin),
            ..outside
        },
        Kind::Grpc(grpc) => ToolRoles { egress: egress(&grpc.origin), ..outside },
        Kind::Fetch(fetch) => {
            ToolRoles { data: private_if(!fetch.credentials.is_empty()), ..outside }
        }
        Kind::FileRead(_) | Kind::FileList(_) | Kind::FileWrite(_) | Kind::Command(_) => inside,
        Kind::Sql(sql) => match &sql.target {
            sql::SqlTarget::Sqlite(_) => inside,
            sql::SqlTarget::Postgres(server) => {
                ToolRoles { egress: egress(&server.origin), ..outside }
            }
        },
        // WHY: the agent's own model is given what the agent reads; an operator chose its provider.
        Kind::Model(_) => ToolRoles::NONE,
        Kind::Mcp(mcp) => ToolRoles { egress: mcp.server.egress(), ..outside },
    }
}

fn egress(origin: &Origin) -> Egress {
    if is_inside(origin) { Egress::Inside } else { Egress::Outside }
}

/// Whether the origin is within what the operator runs, whatever a name server says.
fn is_inside(origin: &Origin) -> bool {
    match &origin.host {
        Host::Ip(ip) => !is_public(*ip),
        Host::Name(_) => origin.host.is_internal_name(),
    }
}

impl server::Server {
    fn egress(&self) -> Egress {
        match &self.transport {
            server::Transport::Http(remote) => egress(&remote.origin),
            server::Transport::Stdio(stdio) => match stdio.isolation.is_offline() {
                true => Egress::Inside,
                false => Egress::Outside,
            },
        }
    }
}
