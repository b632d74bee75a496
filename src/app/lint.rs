//! The surroundings of a bundle, for its lints: the tools, as strictly as they are granted, and the
//! possible approvers.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{named, never};
use crate::approval::{Approvers, NAMESPACE, PasskeyTerms, ROLE};
use crate::config::Config;
use crate::crypto::ssh::SshKey;
use crate::domain::tier::Tier;
use crate::identity::manifest::Manifest;
use crate::policy::bundle::Bundle;
use crate::policy::lint::{Finding, Level, Surroundings, lint};

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

/// The number of people who may approve held calls, by a list as it is signed and on its terms.
pub fn approvers(list: &Approvers) -> usize {
    let approves = |roles: &[String]| roles.iter().any(|role| role == ROLE);
    let signers = list.signers().iter();
    let passkeys = *list.passkeys() != PasskeyTerms::Off;
    let counts = |key: &SshKey| passkeys || !matches!(key, SshKey::Passkey { .. });
    let signers = signers.filter(|one| one.signs(NAMESPACE) && approves(&one.roles));
    let signers = signers.filter(|one| counts(&one.key));
    signers.map(|one| one.subject.as_str()).collect::<BTreeSet<_>>().len()
}

/// As [`approvers`], of the list this configuration names; 0, if that cannot be used.
pub fn configured_approvers(config: &Config) -> usize {
    named::approving(config, &mut Vec::new())
}

/// The lints' findings in a bundle, as this configuration would use it with so many approvers, and
/// the granted tools that no bundle can let run.
pub fn of(
    bundle: &Bundle,
    config: &Config,
    tools: &[(String, Tier)],
    approvers: usize,
    manifests: &[Arc<Manifest>],
) -> Vec<Finding> {
    let webhook = config.approvals.webhook.is_some();
    let mut findings = lint(bundle, &Surroundings { tools, approvers, webhook });
    findings.extend(
        never::never(manifests, tools, (&never::asked_in_dialects(config), approvers))
            .into_iter()
            .map(|message| {
                let (level, code) = (Level::Warning, "lint.never_runs");
                Finding { level, code, message, place: String::new() }
            }),
    );
    findings
}
