//! Starts every server once, and takes its tools for the lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::error::{Exclusion, UngovernedServer};
use crate::catalog::lock::LockedServer;
use crate::catalog::server::Server;
use crate::catalog::server::config::Config;
use crate::catalog::{ConfigError, Surroundings};
use crate::cli::Cause;
use crate::config;
use crate::domain::json::Json;
use crate::tool::mcp::{Error, Offer, ProbeError, Upstreams};

/// A server that answered.
pub struct Governed {
    /// As it will be written.
    pub draft: Draft,
    /// What is pinned of it.
    pub locked: LockedServer,
    /// Tools that cannot be governed, and why.
    pub left_out: Vec<String>,
}

/// A server that the gate would not take.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Its configuration has another form.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// Its configuration is wrong. The message drops `servers[0].`, since that file is not written
    /// yet.
    #[error("{}", .0.iter().map(|e| e.to_string().replace("servers[0].", "")).collect::<Vec<_>>().join("; "))]
    Wrong(Vec<ConfigError>),
    /// Its configuration makes no server.
    #[error("its configuration defines no server")]
    Nothing,
}

/// Why a server offers nothing to govern.
#[derive(Debug, thiserror::Error)]
pub enum InitProbeError {
    /// It takes too long.
    #[error("did not answer within {0} s")]
    Late(u64),
    /// It does not answer well, or its program cannot be pinned.
    #[error(transparent)]
    Upstream(Cause),
    /// It has no tool, or no valid one.
    #[error("offers no tool that the gate can serve{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NoTool(Option<String>),
}

impl Governed {
    /// Names of the tools that only read, by the server's own claim.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        self.locked
            .tools
            .iter()
            .filter(|(_, tool)| says_it_reads(tool))
            .map(|(name, _)| name.as_str())
    }

    /// The configuration of its tools: the server's claims, for a person to review.
    pub fn said(&self) -> Value {
        let tools =
            self.reads().map(|own| (own.to_owned(), json!({"tier": "T0", "read_only": true})));
        let methods = self.locked.methods.iter();
        let methods = methods.map(|method| ((*method).to_owned(), json!({"tier": "T0"})));
        Value::Object(tools.chain(methods).collect::<Map<_, _>>())
    }

    /// Everything a manifest can allow of it: tools, then methods.
    pub fn allowable(&self) -> impl Iterator<Item = &str> {
        self.locked.tools.keys().map(String::as_str).chain(self.locked.methods.iter().copied())
    }
}

/// The annotations of a tool that count here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Hints {
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Annotations {
    read_only_hint: bool,
}

fn says_it_reads(tool: &Json) -> bool {
    tool.read::<Hints>().is_ok_and(|hints| hints.annotations.read_only_hint)
}

/// Checks the draft and its files as the gate will. `base` is its directory; it may get no
/// `forbidden` path.
///
/// # Errors
/// Everything that is wrong.
pub fn check(draft: &Draft, base: &Path, forbidden: &[PathBuf]) -> Result<Arc<Server>, CheckError> {
    let list = Value::Array(vec![draft.config(&json!({}))]);
    let config = Config::deserialize(list)?;
    let surroundings =
        Surroundings { base_dir: base, env: &config::environment, forbidden, own: &[] };
    let servers = config.check(&surroundings).map_err(CheckError::Wrong)?;
    servers.into_iter().next().ok_or(CheckError::Nothing)
}

/// Starts all of these at the same time, asks for their tools, and ends them.
pub async fn probe(
    drafts: Vec<(Draft, Arc<Server>)>,
    within: Duration,
    accept_hidden: bool,
) -> (Vec<Governed>, Vec<UngovernedServer>) {
    let servers: Vec<_> = drafts.iter().map(|(_, server)| Arc::clone(server)).collect();
    let offers = Upstreams::offers(&servers, within, accept_hidden).await;
    let (mut governed, mut left_out) = (Vec::new(), Vec::new());
    for ((draft, _), (_, offer)) in drafts.into_iter().zip(offers) {
        match governable(offer) {
            Ok((locked, tools)) => governed.push(Governed { draft, locked, left_out: tools }),
            Err(error) => {
                let advice = draft.confined.lacking(&draft.client_name);
                let why = Exclusion::Probe { error, advice };
                left_out.push(UngovernedServer { client_name: draft.client_name, why });
            }
        }
    }
    (governed, left_out)
}

fn governable(
    offer: Result<Offer, ProbeError>,
) -> Result<(LockedServer, Vec<String>), InitProbeError> {
    let unanswered = |error: ProbeError| {
        if let Error::Silent { seconds, .. } = error.why {
            return InitProbeError::Late(seconds);
        }
        InitProbeError::Upstream(error.why.into())
    };
    let Offer { locked, mut unreadable, ungoverned } = offer.map_err(unanswered)?;
    let mut ungoverned = ungoverned.iter().map(|tool| format!("{}: {}", tool.tool, tool.why));
    if locked.tools.is_empty() && locked.methods.is_empty() {
        return Err(InitProbeError::NoTool(ungoverned.next()));
    }
    unreadable.extend(ungoverned);
    Ok((locked, unreadable))
}
