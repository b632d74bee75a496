//! How many people have to approve a call, and who counts them.

use serde_json::{Value, json};
use wicketgate::domain::decision::Verdict;
use wicketgate::policy::PolicyEngine as _;
use wicketgate::policy::rego::RegoEngine;

use super::{DEADLINE, load};

const ALLOW: (&str, &str) =
    ("agent/a.rego", "package wicketgate.agent\nimport rego.v1\nallow if true\n");

fn engine(layer: &str, rule: &str) -> RegoEngine {
    let text = format!("package wicketgate.{layer}\nimport rego.v1\n{rule}\n");
    let name = format!("{layer}/q.rego");
    RegoEngine::new(&load(&[ALLOW, (name.as_str(), text.as_str())]).unwrap(), DEADLINE).unwrap()
}

/// The verdict for these approvals, and the first reason's message.
fn verdict(engine: &RegoEngine, tier: &str, approvals: &Value) -> (Verdict, String) {
    let input = json!({
        "agent": {"binding": "observed"}, "tool": {"tier": tier}, "observe": [],
        "approvals": approvals, "quorum": {"by_hand": engine.by_hand()},
    });
    let answer = engine.decide(input.to_string().as_bytes()).unwrap();
    let message = answer.reasons.first().map(|r| r.message.clone()).unwrap_or_default();
    (answer.verdict, message)
}

fn approvals(subjects: &[(&str, &[&str])]) -> Value {
    let one = |(subject, roles): &(&str, &[&str])| json!({"approver": subject, "roles": roles, "key": "k"});
    subjects.iter().map(one).collect()
}

#[test]
fn one_person_is_enough_unless_the_rule_says_how_many() {
    for layer in ["org", "team", "agent"] {
        for rule in [
            r#"require_approval contains "wait""#,
            r#"require_approval contains {"code": "w", "message": "wait"}"#,
        ] {
            let engine = engine(layer, rule);
            assert_eq!(verdict(&engine, "T2", &json!([])).0, Verdict::RequireApproval, "{layer}");
            let one = approvals(&[("ann", &[])]);
            assert_eq!(verdict(&engine, "T2", &one).0, Verdict::Allow, "{layer}: {rule}");
        }
    }
}

#[test]
fn distinct_people_in_the_role_are_counted_and_the_reason_says_how_many_are_missing() {
    let engine = engine(
        "team",
        r#"require_approval contains {"code": "w", "message": "wait", "approvers": 2, "role": "treasury"}"#,
    );
    let treasurer: &[&str] = &["approver", "treasury"];
    for (given, verdict_is, message) in [
        (approvals(&[]), Verdict::RequireApproval, "wait (0 of 2 approvers as `treasury`)"),
        (
            approvals(&[("ann", treasurer), ("ann", treasurer)]),
            Verdict::RequireApproval,
            "wait (1 of 2 approvers as `treasury`)",
        ),
        (
            approvals(&[("ann", treasurer), ("bob", &["approver"])]),
            Verdict::RequireApproval,
            "wait (1 of 2 approvers as `treasury`)",
        ),
        (approvals(&[("ann", treasurer), ("bob", treasurer)]), Verdict::Allow, ""),
    ] {
        assert_eq!(verdict(&engine, "T2", &given), (verdict_is, message.to_owned()), "{given}");
    }
}

#[test]
fn a_quorum_that_is_no_quorum_can_never_be_met() {
    let many: Vec<(String, Vec<&str>)> = (0..40).map(|n| (format!("p{n}"), vec!["r"])).collect();
    let many: Value =
        many.iter().map(|(s, r)| json!({"approver": s, "roles": r, "key": "k"})).collect();
    for item in [
        r#"{"code": "w", "message": "wait", "approvers": 0}"#,
        r#"{"code": "w", "message": "wait", "approvers": 17}"#,
        r#"{"code": "w", "message": "wait", "approvers": 1.5}"#,
        r#"{"code": "w", "message": "wait", "approvers": "1"}"#,
        r#"{"code": "w", "message": "wait", "approvers": null}"#,
        r#"{"code": "w", "message": "wait", "role": 1}"#,
        r#"{"code": "w", "message": "wait", "surprise": 1}"#,
        r#"{"message": "wait"}"#,
        "1",
    ] {
        let engine = engine("agent", &format!("require_approval contains {item}"));
        assert_eq!(verdict(&engine, "T2", &many).0, Verdict::RequireApproval, "{item}");
    }
}

#[test]
fn a_layer_that_looks_at_approvals_counts_for_itself() {
    for rule in [
        "require_approval contains \"wait\" if count(input.approvals) < 2",
        "require_approval contains \"wait\" if count(input[\"approvals\"]) < 2",
        "few if count(input.approvals) < 2\nrequire_approval contains \"wait\" if few",
        "require_approval contains \"wait\" if { x := input\n count(x.approvals) < 2 }",
    ] {
        let engine = engine("team", rule);
        assert_eq!(engine.by_hand(), ["team"], "{rule}");
        let one = approvals(&[("ann", &[])]);
        assert_eq!(verdict(&engine, "T2", &one).0, Verdict::RequireApproval, "{rule}");
        let two = approvals(&[("ann", &[]), ("bob", &[])]);
        assert_eq!(verdict(&engine, "T2", &two).0, Verdict::Allow, "{rule}");
    }
    let text = "package wicketgate.team\nimport rego.v1\nimport input.approvals as said\n\
                require_approval contains \"wait\" if count(said) < 2\n";
    let engine =
        RegoEngine::new(&load(&[ALLOW, ("team/q.rego", text)]).unwrap(), DEADLINE).unwrap();
    assert_eq!(engine.by_hand(), ["team"]);
}

/// What counts approvers may stand in another layer, in the library, or behind several names.
#[test]
fn a_layer_that_asks_another_rule_for_approvals_counts_for_itself() {
    let wait = "package wicketgate.agent\nimport rego.v1\n";
    let said = "package wicketgate.team\nimport rego.v1\n\
                said contains a.approver if some a in input.approvals\nfew(n) if count(said) < n\n";
    for (rule, by_hand) in [
        (
            "require_approval contains \"wait\" if count(data.wicketgate.approvers(\"\")) < 2",
            vec!["agent"],
        ),
        (
            "require_approval contains \"wait\" if count(data.wicketgate.team.said) < 2",
            vec!["team", "agent"],
        ),
        (
            "import data.wicketgate.team as ours\n\
             require_approval contains \"wait\" if ours.few(2)",
            vec!["team", "agent"],
        ),
        (
            "import data.wicketgate.team.few as few\nlow if few(2)\n\
             require_approval contains \"wait\" if low",
            vec!["team", "agent"],
        ),
    ] {
        let text = format!("{wait}{rule}\n");
        let mut files = vec![ALLOW, ("agent/q.rego", text.as_str())];
        files.extend((by_hand.len() > 1).then_some(("team/said.rego", said)));
        let engine = RegoEngine::new(&load(&files).unwrap(), DEADLINE).unwrap();
        assert_eq!(engine.by_hand(), by_hand, "{rule}");
        let one = approvals(&[("ann", &[])]);
        assert_eq!(verdict(&engine, "T2", &one).0, Verdict::RequireApproval, "{rule}");
        let two = approvals(&[("ann", &[]), ("bob", &[])]);
        assert_eq!(verdict(&engine, "T2", &two).0, Verdict::Allow, "{rule}");
    }
    let plain =
        format!("{wait}require_approval contains \"wait\" if data.wicketgate.irreversible\n");
    let loaded = load(&[ALLOW, ("agent/q.rego", &plain), ("team/said.rego", said)]).unwrap();
    let engine = RegoEngine::new(&loaded, DEADLINE).unwrap();
    assert_eq!(engine.by_hand(), ["team"], "asking another rule is no counting");
}

#[test]
fn an_irreversible_call_needs_an_approval_and_no_approval_overrides_a_deny() {
    let one = approvals(&[("ann", &[])]);
    let engine = engine("team", "obligations contains {\"type\": \"cap_bytes\", \"bytes\": 9}");
    assert_eq!(verdict(&engine, "T3", &json!([])).0, Verdict::RequireApproval);
    assert_eq!(verdict(&engine, "T3", &one).0, Verdict::Allow);
    let denied = self::engine("org", "deny contains \"never\"");
    assert_eq!(verdict(&denied, "T2", &one).0, Verdict::Deny);
}

#[test]
fn who_does_not_say_which_layers_count_for_themselves_gets_no_approval_counted() {
    let engine = engine("agent", "require_approval contains \"wait\"");
    let input = json!({
        "agent": {"binding": "observed"}, "tool": {"tier": "T2"}, "observe": [],
        "approvals": approvals(&[("ann", &[])]),
    });
    let answer = engine.decide(input.to_string().as_bytes()).unwrap();
    assert_eq!(answer.verdict, Verdict::RequireApproval);
}
