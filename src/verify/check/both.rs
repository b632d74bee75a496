//! What the entry of a decision says and the input of its policy says again: what the run had read, and
//! what the firewall found. The two agree, whether or not the arguments are disclosed.

use std::collections::BTreeSet;

use super::contradiction::Error;
use super::input::Input;
use crate::domain::effect::ToolKind;
use crate::domain::facts::Finding;
use crate::domain::guarded::GuardAction;
use crate::domain::taint::{Egress, Label};
use crate::domain::tier::Tier;
use crate::firewall::Class;
use crate::policy::flow::{TaintInput, is_irreversible};
use crate::policy::input::FirewallInput;
use crate::record::call::{Decision, GuardedFinding, MaskedKinds, NAMED_FINDINGS_MAX, Taint};

/// Whether the policy saw the taint that is recorded. An input of version 1 has none.
pub(super) fn taint(input: &Input, decision: &Decision<'_>) -> Result<(), Error> {
    let Some(seen) = &input.taint else {
        return if decision.taint.is_none() { Ok(()) } else { Err(Error::Taint("labels")) };
    };
    let follows = seen.labels.iter().copied().collect::<BTreeSet<Label>>();
    let has = |label: Label| follows.contains(&label);
    let trifecta = has(Label::Private) && has(Label::Untrusted) && seen.egress == Egress::Outside;
    let is_influenced = seen.influence.private > 0 || seen.influence.untrusted > 0;
    let is_sorted = seen.labels.iter().eq(follows.iter());
    let (since, unknown) = (seen.since.keys().eq(follows.iter()), seen.influence.unknown);
    let nothing = !is_influenced && !unknown;
    let parts = [
        ("labels", is_sorted && (decision.taint.is_some() || follows.is_empty())),
        ("since", since),
        ("influence", decision.taint.is_some() || nothing),
        ("trifecta", seen.trifecta == trifecta),
        ("trifecta_influenced", seen.trifecta_influenced == (trifecta && is_influenced)),
    ];
    agree(&parts)?;
    let Some(recorded) = decision.taint else { return Ok(()) };
    let irreversible = is_irreversible(decision.tier.unwrap_or(Tier::T3), input.tool.kind.as_str());
    let demand = seen.demand(irreversible);
    let labels = recorded.labels.iter();
    let parts = [
        ("labels", labels.clone().map(|one| one.label).collect::<BTreeSet<_>>() == follows),
        (
            "since",
            labels.clone().all(|one| {
                seen.since.get(&one.label).is_some_and(|call| call == one.call.as_str())
            }),
        ),
        ("influence", influence(recorded, seen)),
        (
            "floor",
            demand.map(|(flow, _)| flow) == recorded.flow
                && demand.map(|(_, action)| action) == recorded.action,
        ),
    ];
    agree(&parts)
}

fn agree(parts: &[(&'static str, bool)]) -> Result<(), Error> {
    match parts.iter().find(|(_, agrees)| !agrees) {
        Some((name, _)) => Err(Error::Taint(name)),
        None => Ok(()),
    }
}

/// Whether the numbers of copies are those of the recorded passages.
fn influence(recorded: &Taint, seen: &TaintInput) -> bool {
    let unknown = seen.influence.unknown;
    let all =
        [(Label::Private, seen.influence.private), (Label::Untrusted, seen.influence.untrusted)];
    let influenced = all.into_iter().filter(|(_, copies)| *copies > 0).map(|(label, _)| label);
    let named: BTreeSet<Label> =
        recorded.influenced.iter().flat_map(|list| list.iter()).copied().collect();
    let spans = || recorded.spans.iter().flat_map(|list| list.iter());
    let more = recorded.spans_more.map_or(0, |more| more.get());
    let fits = |(label, copies): (Label, u64)| {
        let there = number(spans().filter(|span| span.label == label).count());
        let may_be = unknown && seen.labels.contains(&label);
        let least = there.max(u64::from(may_be));
        // What an entry does not name may be of any label.
        if more == 0 { copies == least } else { copies >= least && copies <= there + more }
    };
    let total = number(spans().count()).saturating_add(more);
    let is_all = unknown || all.iter().map(|(_, copies)| copies).sum::<u64>() == total;
    let same = named.into_iter().eq(influenced.collect::<BTreeSet<Label>>());
    unknown == recorded.unknown.is_some() && same && all.into_iter().all(fits) && is_all
}

/// Whether the policy saw the search that is recorded. Earlier inputs do not tell of it.
pub(super) fn search(input: &Input, decision: &Decision<'_>) -> Result<(), Error> {
    let findings: Vec<Finding> = input.findings.read().map_err(Error::Shape)?;
    let masks = |one: &GuardedFinding| one.action == GuardAction::Redact;
    let masked = decision.args_withheld.is_some() || decision.findings.iter().any(masks);
    if let Some(seen) = input.firewall {
        let rules = decision.firewall.ok_or(Error::Search("rules"))?;
        let recorded = FirewallInput::of(rules, masked, &findings);
        let parts = [
            ("rules", seen.rules == recorded.rules),
            ("masked", seen.masked == recorded.masked),
            ("complete", seen.complete == recorded.complete),
        ];
        if let Some((name, _)) = parts.into_iter().find(|(_, agrees)| !agrees) {
            return Err(Error::Search(name));
        }
    }
    if decision.masked.is_some_and(|all| !masks_fit(all, decision.findings, &findings)) {
        return Err(Error::Masked);
    }
    // What is masked is not found again, and of a request to a model headers are searched too.
    let is_model = input.tool.kind == ToolKind::Model.as_str();
    if input.firewall.is_none() || masked || is_model {
        return Ok(());
    }
    let is_there = |one: &GuardedFinding| findings.iter().any(|seen| is_same(one, seen));
    if decision.findings.iter().all(is_there) { Ok(()) } else { Err(Error::RecordedFindings) }
}

/// Whether the kinds that an entry calls masked are those of which each finding it names is, and the masked arguments have
/// none of them. Earlier entries name no kinds.
fn masks_fit(all: &MaskedKinds, named: &[GuardedFinding], seen: &[Finding]) -> bool {
    let lists = [&all.configuration, &all.policy].into_iter().flatten();
    let kinds: BTreeSet<&str> = lists.flat_map(|list| list.iter()).map(|kind| &**kind).collect();
    let of = |redacted: bool| {
        let some = named.iter().filter(|one| (one.action == GuardAction::Redact) == redacted);
        some.map(|one| &*one.kind).collect::<BTreeSet<&str>>()
    };
    let (masked, passed) = (of(true), of(false));
    let again = seen.iter().any(|one| kinds.contains(&*one.kind));
    // An entry that names fewer names all.
    let names_all = named.len() < NAMED_FINDINGS_MAX;
    let whole = masked.difference(&passed).copied().collect::<BTreeSet<&str>>() == kinds;
    kinds.is_disjoint(&passed) && !again && (whole || !names_all)
}

/// Whether a finding of an entry is this one of the input. An entry names no place of personal data, and
/// only the beginning of a long one.
fn is_same(one: &GuardedFinding, seen: &Finding) -> bool {
    let same_place = one.class.as_str() == Class::Personal.as_str()
        || seen.path.starts_with(one.path.as_str())
        || one.path.as_str().contains("[REDACTED");
    let same_mark = one.mark.map(|mark| mark.0) == seen.mark.map(|mark| mark.0);
    let confidence = seen.confidence.map(|confidence| confidence.as_str());
    *one.kind == *seen.kind
        && confidence == Some(one.confidence.as_str())
        && same_place
        && same_mark
}

fn number(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn named(kind: &str, action: &str) -> Value {
        json!({"action": action, "class": "personal", "confidence": "high", "kind": kind, "path": "/a"})
    }

    /// Whether an entry with these masked kinds and findings fits an input with findings of these kinds.
    fn fits(masked: Value, named: Vec<Value>, seen: &[&str]) -> bool {
        let masked: MaskedKinds = serde_json::from_value(masked).unwrap();
        let named: Vec<GuardedFinding> = serde_json::from_value(named.into()).unwrap();
        let seen = seen.iter().map(|kind| {
            let of = json!({"class": "personal", "confidence": "high", "kind": kind, "path": "/a"});
            serde_json::from_value(of).unwrap()
        });
        masks_fit(&masked, &named, &seen.collect::<Vec<Finding>>())
    }

    #[test]
    fn a_kind_is_called_masked_if_all_its_findings_are_and_none_is_in_the_masked_arguments() {
        let email = || named("email", "redact");
        assert!(fits(json!({"policy": ["email"]}), vec![email()], &["card"]));
        let both = json!({"configuration": ["card"], "policy": ["email"]});
        assert!(fits(both.clone(), vec![email(), named("card", "redact")], &[]));
        assert!(!fits(both, vec![email()], &[]), "a kind of no finding");
        assert!(!fits(json!({"policy": ["email"]}), vec![email()], &["email"]), "found again");
        let passed = || vec![email(), named("email", "warn")];
        assert!(!fits(json!({"policy": ["email"]}), passed(), &[]), "one passed");
        assert!(
            !fits(json!({"policy": ["card"]}), vec![email(), named("card", "redact")], &[]),
            "one left out"
        );
        let many = || vec![email(); NAMED_FINDINGS_MAX];
        assert!(
            fits(json!({"policy": ["card", "email"]}), many(), &[]),
            "of one that is not named"
        );
        assert!(!fits(json!({"policy": ["card", "email"]}), many(), &["card"]), "found again");
    }
}
