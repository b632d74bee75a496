//! What a policy is shown of a call with secrets that pass.

use super::place;
use crate::domain::effect::Effect;
use crate::domain::facts::Finding;
use crate::firewall;
use crate::judge::guarding::{Screening, secret_kinds};

/// The effect as a policy is shown it: without the secrets that pass.
pub(in crate::tool) fn shown_effect(screening: &Screening, effect: Effect) -> Effect {
    if screening.withheld.is_none() {
        return effect;
    }
    match firewall::redact(&effect.to_json(), secret_kinds()) {
        Some(done) if done.masked == 0 => effect,
        Some(done) => Effect::Recorded { effect: done.value, findings: Vec::new() },
        None => Effect::None,
    }
}

/// The findings as a policy is shown them: without a secret in the name of a member.
pub(in crate::tool) fn shown_findings(
    screening: &Screening,
    findings: Vec<Finding>,
) -> Vec<Finding> {
    if screening.withheld.is_none() {
        return findings;
    }
    let shown = |one: Finding| Finding { path: place(&one.path), ..one };
    findings.into_iter().map(shown).collect()
}
