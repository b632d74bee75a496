//! Observe mode: what a layer says is recorded and, for a while, not enforced.

use std::time::Duration;

use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::decision::{PolicyObligation, Verdict};
use wicketgate::domain::time::Timestamp;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;
use wicketgate::policy::{Answer, PolicyEngine as _};

use super::{DEADLINE, codes, decide, dir, load};
use wicketgate_support::ran::Ran;

const DAY: Duration = Duration::from_secs(86_400);

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn meta(more: &str) -> String {
    format!(r#"{{"name":"t","version":"1.0.0"{more}}}"#)
}

fn refused(more: &str) -> String {
    let rule = ("agent/a.rego", "package wicketgate.agent\nimport rego.v1\nallow if true\n");
    let errors = load(&[("bundle.json", &meta(more)), rule]).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!((errors[0].code, errors[0].file.as_str()), ("policy.meta", "bundle.json"));
    errors[0].message.clone()
}

/// One bundle of these layers.
fn layers(rules: &[(&str, &str)]) -> Bundle {
    let text = |(layer, text): &(&str, &str)| {
        let text = format!("package wicketgate.{layer}\nimport rego.v1\n{text}\n");
        (format!("{layer}/a.rego"), text)
    };
    let files: Vec<_> = rules.iter().map(text).collect();
    let files: Vec<_> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    load(&files).unwrap()
}

fn observed(rules: &[(&str, &str)], observe: &str, tier: &str) -> Answer {
    let binding = r#""agent":{"binding":"observed"}"#;
    let input = format!(r#"{{{binding},"tool":{{"tier":"{tier}"}},"observe":[{observe}]}}"#);
    decide(&layers(rules), &input).unwrap()
}

const DENY: &str = "deny contains \"no\"";
const HOLD: &str = "require_approval contains \"wait\"";
const ALLOW: &str = "allow if true";
const CAP: &str = "obligations contains {\"type\": \"cap_bytes\", \"bytes\": 9}";

#[test]
fn what_only_observing_layers_have_against_a_call_is_recorded_and_not_enforced() {
    use Verdict::{Allow, Deny, RequireApproval as Hold};
    let agent = r#""agent""#;
    for (rules, observe, verdict, enforced) in [
        // The recorded verdict is what enforcement would have said.
        (vec![("agent", DENY)], agent, Deny, false),
        (vec![("agent", HOLD)], agent, Hold, false),
        (vec![("agent", "allow if false")], agent, Deny, false),
        (vec![("team", DENY)], r#""team""#, Deny, false),
        (vec![("team", HOLD), ("agent", DENY)], r#""agent","team""#, Deny, false),
        // An allow is an allow, whoever observes.
        (vec![("agent", ALLOW)], agent, Allow, true),
        // What a layer that does not observe says, binds.
        (vec![("agent", DENY), ("team", DENY)], agent, Deny, true),
        (vec![("agent", DENY), ("team", HOLD)], agent, Hold, true),
        (vec![("agent", ALLOW), ("team", DENY)], agent, Deny, true),
        (vec![("agent", DENY), ("team", ALLOW)], r#""team""#, Deny, true),
        // So does the org layer, always, whatever the input says of it.
        (vec![("agent", ALLOW), ("org", DENY)], r#""agent","org""#, Deny, true),
        (vec![("agent", DENY), ("org", DENY)], r#""agent","org""#, Deny, true),
        (vec![("agent", DENY), ("org", HOLD)], r#""agent","org""#, Hold, true),
        (vec![("agent", "allow if false"), ("org", HOLD)], agent, Hold, true),
        // Nobody observes, or nobody known.
        (vec![("agent", DENY)], "", Deny, true),
        (vec![("agent", DENY)], r#""org""#, Deny, true),
        (vec![("agent", DENY)], r#""data",1,null"#, Deny, true),
    ] {
        let answer = observed(&rules, observe, "T2");
        assert_eq!((answer.verdict, answer.enforced), (verdict, enforced), "{rules:?} {observe}");
    }
}

#[test]
fn what_cannot_be_undone_is_never_merely_observed() {
    for rules in [vec![("agent", DENY)], vec![("agent", "allow if false")], vec![("agent", ALLOW)]]
    {
        for tier in ["T3", "T9"] {
            let answer = observed(&rules, r#""agent","team""#, tier);
            assert!(answer.enforced && answer.verdict != Verdict::Allow, "{rules:?} {tier}");
        }
    }
}

#[test]
fn the_reasons_of_an_unenforced_denial_are_those_it_would_have_had() {
    let answer = observed(&[("agent", DENY)], r#""agent""#, "T0");
    assert_eq!(answer.reasons.len(), 1);
    assert_eq!(answer.reasons[0].rule, "wicketgate.agent.deny agent/a.rego:3");
    let answer = observed(&[("agent", DENY), ("team", DENY)], r#""agent""#, "T0");
    let rules: Vec<_> = answer.reasons.iter().map(|r| r.rule.as_str()).collect();
    assert_eq!(rules, ["wicketgate.team.deny team/a.rego:3"], "only what binds is enforced");
}

#[test]
fn obligations_of_the_layers_that_do_not_observe_still_apply() {
    let capped = |layer| vec![PolicyObligation::CapBytes { bytes: layer }];
    let agent = format!("{DENY}\n{CAP}");
    let team = CAP.replace('9', "7");
    for (observe, bytes) in [(r#""agent""#, capped(7)), (r#""agent","team""#, Vec::new())] {
        let answer = observed(&[("agent", &agent), ("team", &team)], observe, "T1");
        assert!(!answer.enforced);
        assert_eq!(answer.obligations, bytes, "{observe}");
    }
    let org = observed(&[("agent", DENY), ("org", CAP)], r#""agent""#, "T1");
    assert_eq!(org.obligations, capped(9));
}

#[test]
fn a_policy_that_breaks_is_enforced_in_observe_mode_too() {
    let broken = "deny contains \"x\" if startswith(input.tool.tier, 1)";
    let input = r#"{"tool":{"tier":"T0"},"observe":["agent"]}"#;
    assert!(decide(&layers(&[("agent", broken)]), input).is_err());
    let broken = "deny contains \"x\" if input.tool.tier == \"T0\"\nobligations contains 5";
    assert!(decide(&layers(&[("agent", DENY), ("org", "obligations contains 5")]), input).is_err());
    assert!(!decide(&layers(&[("agent", broken)]), input).unwrap().enforced);
}

#[test]
fn bundle_json_says_which_layer_observes_and_until_when_and_nothing_else() {
    let until = r#""until":"2026-12-20T00:00:00Z""#;
    for (layers, why) in [
        (format!(r#"{{"org":{{"mode":"observe",{until}}}}}"#), "the org layer is always enforced"),
        (r#"{"org":{"mode":"enforce"}}"#.into(), "the org layer is always enforced"),
        (r#"{"data":{"mode":"enforce"}}"#.into(), "no layer `data`"),
        (r#"{"agent":{"mode":"observe"}}"#.into(), "needs `until`"),
        (format!(r#"{{"agent":{{{until}}}}}"#), "is `observe` or `enforce`"),
        (format!(r#"{{"agent":{{"mode":"audit",{until}}}}}"#), "is `observe` or `enforce`"),
        (format!(r#"{{"agent":{{"mode":"enforce",{until}}}}}"#), "belongs to mode `observe`"),
        (format!(r#"{{"agent":{{"mode":"observe",{until},"why":"x"}}}}"#), "unknown member"),
        (r#"{"agent":{"mode":"observe","until":"2026-12-20"}}"#.into(), "is a UTC time"),
        (r#"{"agent":{"mode":"observe","until":"2026-12-20T00:00:00+01:00"}}"#.into(), "UTC"),
        (r#"{"agent":"observe"}"#.into(), "is no object"),
        (r#""observe""#.into(), "is an object of layers"),
    ] {
        let message = refused(&format!(r#","enforcement":{layers}"#));
        assert!(message.contains(why), "{layers}: {message}");
    }
}

#[test]
fn a_layer_observes_for_thirty_days_at_most_and_is_enforced_from_then_on_by_itself() {
    let bundle = |more: &str| {
        let observe = r#""enforcement":{"team":{"mode":"enforce"},"agent":{"mode":"observe","until":"2026-12-01T00:00:00Z"}}"#;
        let rule = ("agent/a.rego", "package wicketgate.agent\nimport rego.v1\nallow if true\n");
        load(&[("bundle.json", &meta(&format!(",{observe}{more}"))), rule])
    };
    let loaded = bundle("").unwrap();
    assert!(loaded.check_validity(at("2026-11-01T00:00:00.000Z")).is_ok());
    let early = loaded.check_validity(at("2026-10-31T23:59:59.999Z")).unwrap_err().to_string();
    assert!(early.contains("30 days"), "{early}");
    // With `not_before` the thirty days begin there.
    assert!(bundle(r#","not_before":"2026-11-01T00:00:00Z""#).is_ok());
    assert_eq!(codes(bundle(r#","not_before":"2026-10-31T00:00:00Z""#)), ["policy.meta"]);

    let engine = RegoEngine::new(&loaded, DEADLINE).unwrap();
    let until = at("2026-12-01T00:00:00.000Z");
    let before = Timestamp::from_millis(until.millis() - 1);
    assert_eq!(engine.observing(before), [("agent", until)]);
    assert_eq!(engine.observing(until), []);
    assert_eq!(engine.observing(until.plus(DAY)), []);
}

#[test]
fn a_bundle_that_would_observe_for_too_long_is_not_signed() {
    let now = jiff::Timestamp::now().as_millisecond();
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("policy.pem");
    SecretKey::generate(&SystemEntropy).store(&key).unwrap();
    for (days, signed) in [(29, true), (31, false)] {
        let until = Timestamp::from_millis(now).plus(DAY * days);
        let meta =
            meta(&format!(r#","enforcement":{{"agent":{{"mode":"observe","until":"{until}"}}}}"#));
        let rule = ("agent/a.rego", "package wicketgate.agent\nimport rego.v1\nallow if true\n");
        let dir = dir(&[("bundle.json", &meta), rule]);
        let ran = Ran::gate(&dir, ["policy", "sign", "--key", key.to_str().unwrap(), "."]);
        let said = ran.err;
        assert_eq!(ran.code == 0, signed, "{said}");
        assert_eq!(dir.path().join("bundle.sig.json").exists(), signed);
        assert!(signed || said.contains("30 days"), "{said}");
    }
}
