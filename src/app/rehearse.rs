//! The input a call would have: prepared as the gate would, and neither judged nor run. Nothing here makes
//! a permit; no tool is reached, because preparing has no effect outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tools;
use crate::clock::{Clock as _, SystemClock};
use crate::config::Config;
use crate::domain::call::{Asking, Auth, ToolCall};
use crate::domain::canonical;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{Json, Limits};
use crate::domain::tier::Binding;
use crate::identity::manifest::Manifest;
use crate::policy::input::{self, AgentFacts, RunFacts, Standing};
use crate::tool::toolbox::prepare;

/// What is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Asked<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its arguments.
    pub args: Json,
    /// The name of the manifest; may be left out where there is one.
    pub agent: Option<&'a str>,
}

/// The input document of this call as the first of a run that was opened now, by an agent whose binding is
/// claimed.
///
/// # Errors
/// No such agent or tool, or something refuses the call before a policy is asked.
pub fn input(
    config: &Config,
    manifests: &[Arc<Manifest>],
    asked: &Asked<'_>,
    by_hand: &[&'static str],
) -> Result<Json, String> {
    let manifest = manifest(manifests, asked.agent)?;
    let run = RunId::from_random([0; 16]);
    let auth = Auth { method: "none".to_owned(), ..Auth::default() };
    let id = CallId::parse("rehearsal").ok_or("no call id")?;
    let asking =
        Asking { run, id, after: 0, agent: manifest.name.clone(), auth, traceparent: None };
    let call = ToolCall::parse(asking, asked.tool, &canonical::bytes(&asked.args));
    let call = call.map_err(|e| e.to_string())?;
    let grant = manifest.tools.iter().find(|grant| grant.name.as_str() == asked.tool);
    let toolbox = tools::open(config).map_err(|all| all.join("\n"))?.toolbox;
    let prepared = prepare(&toolbox, grant, call);
    let refused = |why: String| format!("refused before any policy is asked: {why}");
    if let Some(reason) = prepared.refusals().first() {
        let code = [reason.code.as_str(), &reason.detail].join("/");
        return Err(refused(format!("{code}: {} ({})", reason.message, reason.rule)));
    }
    if let Some(alarm) = prepared.alarm() {
        return Err(refused(alarm.reason().message));
    }
    let Some(tool) = prepared.tool() else { return Err(refused("no such tool".to_owned())) };
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
    };
    let standing = Standing { now, observe: &[], approvals: &[], by_hand, break_glass: None };
    let bytes = input::document(&agent, &facts, tool, &prepared.asked(), &standing);
    Json::parse(&bytes, &Limits::FILE).map_err(|e| e.to_string())
}

fn manifest<'a>(
    manifests: &'a [Arc<Manifest>],
    name: Option<&str>,
) -> Result<&'a Manifest, String> {
    let names = || manifests.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join("`, `");
    match (name, manifests) {
        (None, [one]) => Ok(one),
        (None, _) => Err(format!("name the agent (`--agent`): `{}`", names())),
        (Some(name), _) => {
            let found = manifests.iter().find(|one| one.name == name);
            found.map(AsRef::as_ref).ok_or_else(|| format!("no agent `{name}`: `{}`", names()))
        }
    }
}
