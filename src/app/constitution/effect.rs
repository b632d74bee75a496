//! The effect of an amendment: changed layers, the agents they bind, and the findings against it.

use std::collections::BTreeSet;

use super::Constitution;
use super::rows::AmendmentRefusal;
use crate::app::policy::unfit;
use crate::domain::decision::LayerDigest;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::enforce::Road;
use crate::policy::bundle::Bundle;
use crate::policy::lint::{Finding, Level};
use crate::record::{List, Text};

/// Agents and findings that one entry names; there may be more.
const NAMED_MAX: usize = 64;
/// Bytes of one finding in an entry.
const FINDING_MAX: usize = 300;

/// What a bundle would change at this gate.
#[derive(Debug)]
pub(super) struct Effect {
    /// Layers that differ from those in force.
    pub changed: Vec<String>,
    /// Agents of this gate that they bind.
    pub agents: Vec<String>,
    /// What speaks against it.
    pub findings: Vec<Finding>,
}

impl Effect {
    /// Whether it may be put in force.
    pub fn passes(&self) -> Result<(), AmendmentRefusal> {
        let mut errors = self.findings.iter().filter(|finding| finding.level == Level::Error);
        match errors.next() {
            None => Ok(()),
            Some(first) => {
                let (first, more) = (line(first), errors.count());
                Err(AmendmentRefusal::Findings { first, more })
            }
        }
    }

    /// The agents an entry names.
    pub fn agent_list(&self) -> List<Text> {
        self.agents.iter().take(NAMED_MAX).map(Text::from).collect()
    }

    /// The findings an entry names, each on one line.
    pub fn finding_list(&self) -> List<Text> {
        self.findings.iter().take(NAMED_MAX).map(line).collect()
    }

    /// For the report.
    pub fn to_json(&self, bundle: &Digest, version: String) -> Json {
        Json::object([
            ("proposed", Json::from(true)),
            ("bundle", Json::from(bundle.prefixed())),
            ("version", Json::from(version)),
            ("changed", list(self.changed.iter().map(String::as_str))),
            ("agents", Json::of(&self.agent_list())),
            ("findings", Json::of(&self.finding_list())),
        ])
    }
}

fn list<'a>(all: impl Iterator<Item = &'a str>) -> Json {
    all.take(NAMED_MAX).map(Json::from).collect::<Vec<_>>().into()
}

fn line(finding: &Finding) -> Text {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    let Finding { code, message, place, .. } = finding;
    Text::clip(&format!("{level} {code} at {place}: {message}"), FINDING_MAX)
}

/// Names of layers that differ, one that is in only one of the two included.
fn changed(old: &[LayerDigest], new: &[LayerDigest]) -> Vec<String> {
    let digest = |list: &[LayerDigest], name: &str| {
        list.iter().find(|layer| layer.layer == name).map(|layer| layer.digest)
    };
    let names: BTreeSet<&str> = old.iter().chain(new).map(|layer| layer.layer.as_str()).collect();
    let differs = |name: &&str| digest(old, name) != digest(new, name);
    names.into_iter().filter(differs).map(str::to_owned).collect()
}

impl Constitution {
    /// The effect of this bundle here, with the lints' findings.
    pub(super) fn effect(&self, road: &Road, bundle: &Bundle, found: Vec<Finding>) -> Effect {
        let old = road.engine().map(|engine| engine.layers().to_vec()).unwrap_or_default();
        let changed = changed(&old, bundle.layers());
        // The agent layer binds the agents the bundle is for; everything else binds all.
        let narrow = changed.iter().all(|layer| layer == "agent") && !changed.is_empty();
        let named = &bundle.meta().manifests;
        let binds = |agent: &String| !narrow || named.is_empty() || named.contains(agent);
        let live = self.checked.live();
        let agents = live.callers.manifests().iter().map(|manifest| manifest.name.clone());
        let agents: BTreeSet<String> = agents.filter(binds).collect();
        let mut findings = unfit(live.callers.manifests(), bundle);
        findings.extend(found);
        Effect { changed, agents: agents.into_iter().collect(), findings }
    }
}
