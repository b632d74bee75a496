//! The input a call would have: prepared as the gate would, and neither judged nor run. Nothing here makes
//! a permit; no tool is reached, because preparing has no effect outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tools;
use crate::clock::{Clock as _, SystemClock};
use crate::config::Config;
use crate::domain::call::{CallOrigin, CallerAuth, ToolCall};
use crate::domain::canonical;
use crate::domain::decision::{Alarm, LayerReason};
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{self, Json, Limits};
use crate::domain::tier::Binding;
use crate::identity::manifest::Manifest;
use crate::judge::exceptions::CallExceptions;
use crate::policy::flow::TaintFacts;
use crate::policy::input::{self, AgentFacts, Circumstances, RunFacts};
use crate::tool::screen;
use crate::tool::toolbox::prepare;

/// The call to evaluate.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayRequest<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its arguments.
    pub args: Json,
    /// The name of the manifest; may be left out where there is one.
    pub agent: Option<&'a str>,
}

/// Why the input cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are several agents, or none.
    #[error("name the agent (`--agent`), one of `{}`", .0.join("`, `"))]
    Unnamed(Vec<String>),
    /// The agent is unknown; these are known.
    #[error("unknown agent `{name}`; use one of `{}`", .there.join("`, `"))]
    Unknown {
        /// The name.
        name: String,
        /// The agents that are configured.
        there: Vec<String>,
    },
    /// The arguments make no call.
    #[error(transparent)]
    Call(#[from] json::Error),
    /// The tools cannot be opened: everything that is wrong.
    #[error("{}", .0.join("\n"))]
    Tools(Vec<String>),
    /// The gate itself refuses the call, or something of it.
    #[error(
        "refused before the policy is evaluated: {}/{}: {} ({})",
        .0.code.as_str(), .0.detail, .0.message, .0.rule
    )]
    Refused(LayerReason),
    /// The arguments contain a credential.
    #[error("refused before the policy is evaluated: {}", .0.reason().message)]
    Alarm(Alarm),
    /// There is no such tool.
    #[error("refused before the policy is evaluated: no such tool")]
    NoTool,
}

/// The input document of this call as the first of a run that was opened now, by an agent whose binding is
/// claimed.
///
/// # Errors
/// No such agent or tool, or something refuses the call before a policy is asked.
pub fn input(
    config: &Config,
    manifests: &[Arc<Manifest>],
    request: &ReplayRequest<'_>,
    by_hand: &[&'static str],
) -> Result<Json, Error> {
    let manifest = manifest(manifests, request.agent)?;
    let run = RunId::from_random([0; 16]);
    let auth = CallerAuth { method: "none".to_owned(), ..CallerAuth::default() };
    let id = CallId::parse("rehearsal").ok_or(Error::NoTool)?;
    let asking =
        CallOrigin { run, id, after: 0, agent: manifest.name.clone(), auth, traceparent: None };
    let call = ToolCall::parse(asking, request.tool, &canonical::bytes(&request.args))?;
    let grant = manifest.tools.iter().find(|grant| grant.name.as_str() == request.tool);
    let toolbox = tools::open(config).map_err(Error::Tools)?.toolbox;
    let prepared = prepare(
        &toolbox,
        grant,
        screen(&toolbox, call, None, (&CallExceptions::default(), Vec::new())),
    );
    if let Some(reason) = prepared.refusals().first() {
        return Err(Error::Refused(reason.clone()));
    }
    if let Some(alarm) = prepared.alarm() {
        return Err(Error::Alarm(alarm));
    }
    let tool = prepared.tool().ok_or(Error::NoTool)?;
    let now = SystemClock::new().now();
    let agent = AgentFacts {
        id: manifest.name.clone(),
        version: manifest.version.to_string(),
        owner: manifest.owner.clone(),
        labels: manifest.labels.clone(),
        manifest: manifest.digest,
        binding: manifest.binding.reach().unwrap_or(Binding::Unclaimed),
        tier3: manifest.binding.tier3,
        delegation: Vec::new(),
    };
    let facts = RunFacts {
        id: run,
        mode: "enforce".to_owned(),
        incognito: false,
        opened_at: now,
        calls: 0,
        errors: 0,
        denied: 0,
        cost: 0,
        pools: Vec::new(),
        labels: BTreeMap::new(),
        attested: BTreeMap::new(),
        taint: TaintFacts { floor: config.taint.settings().floor, ..TaintFacts::default() },
        trust: None,
        searched: None,
    };
    let circumstances =
        Circumstances { now, observe: &[], approvals: &[], by_hand, break_glass: None };
    let bytes = input::document(&agent, &facts, tool, &prepared.call_input(), &circumstances);
    Ok(Json::parse(&bytes, &Limits::FILE)?)
}

fn manifest<'a>(manifests: &'a [Arc<Manifest>], name: Option<&str>) -> Result<&'a Manifest, Error> {
    let there = || manifests.iter().map(|one| one.name.clone()).collect();
    match (name, manifests) {
        (None, [one]) => Ok(one),
        (None, _) => Err(Error::Unnamed(there())),
        (Some(name), _) => {
            let found = manifests.iter().find(|one| one.name == name);
            found
                .map(AsRef::as_ref)
                .ok_or_else(|| Error::Unknown { name: name.to_owned(), there: there() })
        }
    }
}
