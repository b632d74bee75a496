//! What a bundle would work with, for its lints: the tools, as strictly as they are granted, and who may
//! approve.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::approval::Approvers;
use crate::config::Config;
use crate::domain::tier::Tier;
use crate::identity::manifest::Manifest;
use crate::policy::bundle::Bundle;
use crate::policy::lint::{Finding, Surroundings, lint};

/// Tools and the tier they have under the strictest grant of them.
pub fn tiers(
    bound: impl IntoIterator<Item = (String, Tier)>,
    manifests: &[Arc<Manifest>],
) -> Vec<(String, Tier)> {
    let granted = |name: &str| {
        let grants = manifests.iter().flat_map(|manifest| &manifest.tools);
        grants.filter(|grant| grant.name.as_str() == name).filter_map(|grant| grant.tier).max()
    };
    let strict = |(name, tier): (String, Tier)| {
        let tier = granted(&name).map_or(tier, |granted| granted.max(tier));
        (name, tier)
    };
    bound.into_iter().map(strict).collect()
}

/// Subjects on the configured list of approvers, if it can be read.
fn approvers(config: &Config) -> usize {
    let Some(file) = &config.approvals.signers else { return 0 };
    let list = std::fs::read(file).ok().and_then(|text| Approvers::parse(&text).ok());
    let subjects: BTreeSet<String> = list
        .iter()
        .flat_map(|list| list.signers().iter().map(|signer| signer.subject.clone()))
        .collect();
    subjects.len()
}

/// What the lints find in a bundle, as this configuration would use it. Reads files.
pub fn of(bundle: &Bundle, config: &Config, tools: &[(String, Tier)]) -> Vec<Finding> {
    let (approvers, webhook) = (approvers(config), config.approvals.webhook.is_some());
    lint(bundle, &Surroundings { tools, approvers, webhook })
}
