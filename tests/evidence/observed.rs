//! Calls that ran against the policy's word, and runs that were only simulated: what a bundle has to
//! show of them, and what nobody may call observe mode.

use crate::forged::Draft;
use wicketgate::domain::canonical;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::json::Json;
use wicketgate::evidence::bundle::{AGENT_RUN, DECISION, Files, PAGE, POLICY};
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Outcome, Report, verify_files};
use wicketgate::policy::bundle::Bundle;
use wicketgate::record::Kind;

use crate::bundle::*;
use crate::forged::{TestLedger, json, key, run_id};

/// The ledger' own time is a little after this.
const NOW: &str = "2026-11-18T11:06:40.000Z";
const AGENT: &str = r#""agent":{"mode":"observe","until":"2026-12-01T00:00:00Z"}"#;

/// The archive of a bundle in which these layers observe.
fn tar(enforcement: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let meta = format!(r#"{{"name":"t","version":"1.0.0","enforcement":{{{enforcement}}}}}"#);
    std::fs::write(dir.path().join("bundle.json"), meta).unwrap();
    std::fs::create_dir(dir.path().join("agent")).unwrap();
    let rule = "package wicketgate.agent\nimport rego.v1\ndeny contains \"no\"\n";
    std::fs::write(dir.path().join("agent/a.rego"), rule).unwrap();
    Bundle::load(dir.path()).unwrap().tar().to_vec()
}

/// What one unenforced decision says of itself.
struct Case {
    enforcement: &'static str,
    verdict: Verdict,
    rule: &'static str,
    detail: &'static str,
    tier: &'static str,
    observe: &'static str,
    time: &'static str,
}

const HONEST: Case = Case {
    enforcement: AGENT,
    verdict: Verdict::Deny,
    rule: "wicketgate.agent.deny agent/a.rego:3",
    detail: "message",
    tier: "T1",
    observe: r#"["agent"]"#,
    time: NOW,
};

fn decided(ledger: &mut TestLedger, case: &Case) -> Draft {
    let mut draft = ledger.decided(run_id(1), "c1", Kind::CallAuthorized, case.verdict);
    let Json::Object(data) = &mut draft.data else { panic!() };
    data.insert("enforced".into(), Json::from(false));
    data.insert("tier".into(), Json::from(case.tier));
    let (rule, detail) = (case.rule, case.detail);
    let reason = format!(
        r#"[{{"code":"policy.denied","detail":"{detail}","message":"m","rule":"{rule}"}}]"#
    );
    data.insert("reasons".into(), json(&reason));
    let input = format!(
        r#"{{"observe":{},"time":{{"rfc3339":"{}"}},"tool":{{"tier":"{}"}}}}"#,
        case.observe, case.time, case.tier
    );
    draft.commit[1] = ledger.commit("policy_input", &canonical::bytes(&json(&input)));
    draft
}

fn exported(case: &Case, withheld: bool) -> (Files, Trust) {
    let mut ledger = TestLedger::under(1, key(ENROLMENT), &tar(case.enforcement));
    ledger.open(run_id(1));
    let draft = decided(&mut ledger, case);
    ledger.add(draft);
    ledger.complete(run_id(1), "c1");
    ledger.decide(run_id(1), "c2", Kind::CallDenied, Verdict::Deny);
    ledger.seal(run_id(1));
    if withheld {
        ledger.payloads.retain(|_, payload| payload.role != "policy_input");
    }
    let policies = vec![Digest::of(&[&ledger.tar])];
    (export_of(&ledger, run_id(1), &[]), Trust { policies, ..trust() })
}

fn verified(case: &Case, withheld: bool) -> Report {
    let (files, trust) = exported(case, withheld);
    verify_files(&files, &trust)
}

#[test]
fn a_call_that_ran_despite_a_deny_is_valid_evidence_and_is_shown_as_not_enforced() {
    for withheld in [false, true] {
        let report = verified(&HONEST, withheld);
        assert_eq!(report.exit_code(), 0, "{}", report.to_text());
        let said = report.outcome("P6").unwrap().detail().to_owned();
        assert!(said.contains("1 of 2 calls"), "{said}");
        assert!(said.contains("agent until 2026-12-01T00:00:00.000Z"), "{said}");
        let text = report.to_text();
        assert!(text.trim_end().ends_with("VALID, level L1, 1 call was not enforced"), "{text}");
        assert_eq!(report.to_json().get("unenforced"), Some(&Json::from(1_u64)));
    }
    let (files, _) = exported(&HONEST, false);
    for (name, shown) in [
        (AGENT_RUN, r#""enforced":false"#),
        (AGENT_RUN, r#""verdict":"deny""#),
        (DECISION, r#""enforced":false"#),
        (PAGE, "1 of the decisions were NOT ENFORCED"),
        (PAGE, r#"<span class="word">NOT ENFORCED</span>"#),
    ] {
        let text = String::from_utf8_lossy(files.get(name).unwrap());
        assert!(text.contains(shown), "{name}: {shown}");
    }
    let report = verify_files(&export_of(&two_runs(), run_id(1), &[]), &trust());
    assert_eq!(report.outcome("P6"), Some(&Outcome::Valid("every decision was enforced".into())));
    assert!(report.to_text().trim_end().ends_with("VALID, level L1"));
}

#[test]
fn what_no_rule_allowed_may_be_observed_too_and_so_may_a_hold() {
    let silent = Case { rule: "wicketgate.decision", detail: "no_allow", ..HONEST };
    assert_eq!(verified(&silent, false).exit_code(), 0);
    let rule = "wicketgate.agent.require_approval agent/a.rego:3";
    let held = Case { verdict: Verdict::RequireApproval, rule, ..HONEST };
    assert_eq!(verified(&held, false).exit_code(), 0);
}

#[test]
fn only_a_denial_of_a_layer_in_observe_mode_may_go_unenforced() {
    let team = r#""team":{"mode":"observe","until":"2026-12-01T00:00:00Z"}"#;
    let past = r#""agent":{"mode":"observe","until":"2026-11-18T11:06:39Z"}"#;
    for (case, why) in [
        (Case { enforcement: r#""agent":{"mode":"enforce"}"#, ..HONEST }, "no layer"),
        (Case { enforcement: past, ..HONEST }, "no layer"),
        (
            Case { enforcement: team, observe: r#"["team"]"#, ..HONEST },
            "to no layer in observe mode",
        ),
        (Case { observe: r#"["agent","team"]"#, ..HONEST }, "different layers in observe mode"),
        (Case { observe: "[]", ..HONEST }, "different layers in observe mode"),
        (Case { rule: "wicketgate.org.deny", ..HONEST }, "to no layer in observe mode"),
        (
            Case { rule: "wicketgate.agent.require_approval", ..HONEST },
            "to no layer in observe mode",
        ),
        (Case { rule: "wicketgate.agent.denyx", ..HONEST }, "to no layer in observe mode"),
        (Case { rule: "wicketgate.decision", detail: "tier3", ..HONEST }, "to no layer"),
        (Case { rule: "limits", ..HONEST }, "to no layer in observe mode"),
        (Case { time: "2026-11-18T10:00:00.000Z", ..HONEST }, "and the entry is of"),
    ] {
        let report = verified(&case, false);
        caught(&report, "P6");
        let said = report.outcome("P6").unwrap().detail().to_owned();
        assert!(said.contains(why), "{why}: {said}");
    }
    // Withheld input: the entry's own time counts, give or take what clocks may differ.
    caught(&verified(&Case { enforcement: r#""agent":{"mode":"enforce"}"#, ..HONEST }, true), "P6");
    let long_past = r#""agent":{"mode":"observe","until":"2026-11-18T11:00:00Z"}"#;
    caught(&verified(&Case { enforcement: long_past, ..HONEST }, true), "P6");
}

#[test]
fn a_decision_that_is_not_enforced_has_a_verdict_to_enforce_and_a_reversible_tool() {
    caught(&verified(&Case { tier: "T3", ..HONEST }, false), "S5");
    caught(&verified(&Case { verdict: Verdict::Allow, ..HONEST }, false), "S5");
    let mut ledger = TestLedger::under(1, key(ENROLMENT), &tar(AGENT));
    ledger.open(run_id(1));
    let draft = Draft { kind: Kind::CallDenied, ..decided(&mut ledger, &HONEST) };
    ledger.add(draft);
    ledger.seal(run_id(1));
    caught(&verify_files(&export_of(&ledger, run_id(1), &[]), &trust()), "S5");
}

#[test]
fn without_the_policy_the_enforcement_is_unverifiable() {
    let (mut files, trust) = exported(&HONEST, false);
    files.0.remove(POLICY).unwrap();
    resign(&mut files, &key(EVIDENCE));
    let report = verify_files(&files, &trust);
    assert!(matches!(report.outcome("P6"), Some(Outcome::Unverifiable(_))), "{}", report.to_text());
}

#[test]
fn a_simulated_run_executes_nothing() {
    let log = |kind, data: &str| {
        let mut ledger = TestLedger::new(1, key(ENROLMENT));
        ledger.open_in(run_id(1), "simulate");
        ledger.allow(run_id(1), "c1");
        if kind == Kind::CallCompleted {
            ledger.complete(run_id(1), "c1");
        } else {
            ledger.end(run_id(1), "c1", kind, data);
        }
        ledger.seal(run_id(1));
        verify_files(&export_of(&ledger, run_id(1), &[]), &trust())
    };
    let failed = |started| {
        format!(r#"{{"us":1,"attempts":1,"class":"c","started":{started},"message":"m"}}"#)
    };
    for (kind, data) in [
        (Kind::CallCancelled, r#"{"reason":"simulated"}"#),
        (Kind::CallUnknown, r#"{"cause":"writer_lost"}"#),
        (Kind::CallFailed, &failed(false)),
    ] {
        let report = log(kind, data);
        assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    }
    caught(&log(Kind::CallCompleted, ""), "S5");
    caught(&log(Kind::CallFailed, &failed(true)), "S5");
}
