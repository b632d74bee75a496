//! Names that files of `deploy/` use and the program defines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use regex::Regex;
use wicketgate::domain::guarded::{GuardAction, GuardFinding};
use wicketgate::record::alert::{AlertKind, AlertSeverity};
use wicketgate::telemetry::Stage;
use wicketgate::telemetry::metrics::Metrics;

use crate::chart::{answer, ask};
use crate::gate::Gate;
use crate::{top, waiting};

/// Every series there can be: a family is exported once something was counted.
fn everything() -> String {
    let metrics = Metrics::new([], "1", "source");
    let moment = Duration::from_millis(1);
    metrics.call("tool", "deny", false);
    metrics.denied("policy.denied");
    metrics.outcome("tool", "completed");
    metrics.reaped("closed");
    Stage::ALL.iter().for_each(|stage| metrics.stage(*stage, moment));
    metrics.decision(moment, true);
    metrics.commit(moment, 1);
    metrics.ledger_error("conflict");
    metrics.rejected("overloaded");
    metrics.suspended();
    metrics.alarm("credential");
    let finding = GuardFinding {
        kind: "card",
        class: "personal",
        confidence: "high",
        mark: None,
        path: String::new(),
        action: GuardAction::Warn,
        exception: None,
    };
    metrics.alert(AlertKind::PathTraversal, AlertSeverity::High);
    let unscanned = GuardFinding { kind: "unscanned", class: "unscanned", ..finding.clone() };
    metrics.found("arguments", &[finding, unscanned]);
    metrics.searched(moment);
    metrics.broke_glass();
    metrics.break_glass_alert();
    metrics.pool_unanswered();
    metrics.self_tested(false);
    metrics.certificate_read(false);
    metrics.config_read(false);
    metrics.upstream_drift("breaking");
    metrics.upstream_restart("server");
    metrics.upstream_dropped("request");
    metrics.model_tokens("tool", 1, 1);
    metrics.first_byte(moment);
    metrics.proposal_denied("tool");
    metrics.proposal_bypassed("tool");
    // The registry of an injector, which is another process.
    metrics.text().unwrap() + "wicketgate_injector_certificate_end_seconds 1\n"
}

/// The labels of each name in such a text.
fn labels(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let sample = Regex::new(r"(?m)^(wicketgate_\w+)(?:\{(.*)\})? ").unwrap();
    let label = Regex::new(r#"(\w+)=""#).unwrap();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for seen in sample.captures_iter(text) {
        let named = label.captures_iter(seen.get(2).map_or("", |all| all.as_str()));
        found.entry(seen[1].to_owned()).or_default().extend(named.map(|one| one[1].to_owned()));
    }
    found
}

#[test]
fn every_metric_and_label_that_an_alert_or_a_panel_asks_for_is_one_the_program_exports() {
    let dir = tempfile::tempdir().unwrap();
    let exported = dir.path().join("metrics.txt");
    std::fs::write(&exported, everything()).unwrap();
    let said = ask("monitoring.py", &["named", exported.to_str().unwrap()]);
    assert!(said.contains("names are exported"), "{said}");
    // Without one of the names the same question is answered otherwise.
    let lessened = everything().replace("wicketgate_held_calls", "wicketgate_other_calls");
    std::fs::write(&exported, lessened).unwrap();
    let (so, why) = answer("monitoring.py", &["named", exported.to_str().unwrap()]);
    assert!(!so && why.contains("['wicketgate_held_calls'] are exported by nobody"), "{why}");
}

#[test]
fn every_metric_that_the_documents_name_is_one_the_program_exports() {
    let known = labels(&everything());
    let name = Regex::new(r"`(wicketgate_\w+)`").unwrap();
    let mut documents = vec![top("CHANGELOG.md"), top("deploy/README.md")];
    for folder in ["operate", "people", "policy", "security"] {
        let pages = std::fs::read_dir(top("docs").join(folder)).unwrap();
        documents.extend(pages.map(|page| page.unwrap().path()));
    }
    let mut named = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for seen in name.captures_iter(&text) {
            let said = &seen[1];
            let histogram = format!("{said}_bucket");
            assert!(
                known.contains_key(said) || known.contains_key(&histogram),
                "{}: {said}",
                document.display()
            );
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}

const RULES: &str = r#"
allow if input.tool.name in {"fs.read", "work.do"}
deny contains {"code": "large", "message": "more than nine"} if input.args.n > 9
size := 1 if input.args.broken
size := 2 if input.args.broken
deny contains {"code": "size", "message": "too large"} if size > 2
"#;
const TEAM: &str = r#"
deny contains {"code": "never", "message": "never this"} if input.args.never
require_approval contains {"code": "ask", "message": "ask first"} if input.args.ask
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_exports_those_names_with_those_labels_after_calls_of_each_kind() {
    let observing = r#"{"agent":{"mode":"observe","until":"UNTIL"}}"#;
    let until = std::time::SystemTime::now() + Duration::from_secs(86_400);
    let until = jiff::Timestamp::try_from(until).unwrap();
    let observing = observing.replace("UNTIL", &format!("{until:.0}"));
    let gate = Gate::start(&observing, &[("agent/main.rego", RULES), ("team/main.rego", TEAM)]);
    let agent = gate.open("").await;
    agent.call("work.do", "allowed", "{}").await.unwrap();
    agent.call("work.do", "observed", r#"{"n":10}"#).await.unwrap();
    let denied = agent.call("work.do", "denied", r#"{"never":true}"#).await.unwrap_err();
    assert_eq!(denied.code, "policy.denied");
    let held = agent.call("work.do", "held", r#"{"ask":true}"#).await.unwrap_err();
    assert_eq!(held.code, "call.held");
    let broken = agent.call("work.do", "broken", r#"{"broken":true}"#).await.unwrap_err();
    assert_eq!(broken.code, "policy.error", "two rules give two values");
    let rejected = agent.call("work.do", "not an id", "{}").await.unwrap_err();
    assert_eq!(rejected.code, "request.malformed");

    waiting::until("the held call to be counted", || async {
        gate.operator("/metrics").contains("wicketgate_held_calls 1")
    })
    .await;
    let text = gate.operator("/metrics");
    for line in [
        r#"wicketgate_calls_total{tool="work.do",verdict="allow",enforced="true"} 1"#,
        r#"wicketgate_calls_total{tool="work.do",verdict="deny",enforced="true"} 2"#,
        r#"wicketgate_calls_total{tool="work.do",verdict="require_approval",enforced="true"} 1"#,
        r#"wicketgate_unenforced_total{tool="work.do",verdict="deny"} 1"#,
        r#"wicketgate_denials_total{code="policy.denied"} 1"#,
        r#"wicketgate_denials_total{code="policy.error"} 1"#,
        "wicketgate_decision_duration_seconds_count 5",
        "wicketgate_decision_errors_total 1",
        r#"wicketgate_rejected_total{code="request.malformed"} 1"#,
        r#"wicketgate_outcomes_total{tool="work.do",outcome="completed"} 2"#,
        "wicketgate_open_runs 1",
        "wicketgate_ready 1",
        "wicketgate_break_glass_open 0",
    ] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    let (known, exported) = (labels(&everything()), labels(&text));
    for name in ["call_duration_seconds_bucket", "decision_duration_seconds_bucket"] {
        assert!(exported.contains_key(&format!("wicketgate_{name}")), "{name}: {text}");
    }
    for (name, labels) in exported {
        assert_eq!(known.get(&name), Some(&labels), "{name}");
    }
}
