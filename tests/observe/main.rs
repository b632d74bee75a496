//! Observe mode, simulated runs and suggested rules, through the built program and a tool that counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

mod backtest;
mod diff;
mod suggest;
mod why;

use std::time::{Duration, SystemTime};
use wicketgate_support::observed as gate;

use gate::Gate;
use serde_json::{Value, json};
use wicketgate_support::agent::Refused;

/// `enforcement` with the agent layer in observe mode until tomorrow.
fn observing() -> String {
    observing_for(86_400)
}

fn observing_for(seconds: u64) -> String {
    let until = SystemTime::now() + Duration::from_secs(seconds);
    let until = jiff::Timestamp::try_from(until).unwrap();
    format!(r#"{{"agent":{{"mode":"observe","until":"{until:.0}"}}}}"#)
}

const AGENT: &str = r#"
allow if input.tool.name == "fs.read"
deny contains {"code": "large", "message": "more than nine"} if input.args.n > 9
require_approval contains {"code": "ask", "message": "ask first"} if input.args.ask
"#;
const TEAM: &str =
    r#"deny contains {"code": "never", "message": "never this"} if input.args.never"#;

#[tokio::test]
async fn what_an_observing_layer_has_against_a_call_is_recorded_counted_and_reported_and_it_runs() {
    let gate = Gate::start(&observing(), &[("agent/main.rego", AGENT), ("team/main.rego", TEAM)]);
    let agent = gate.open("").await;
    for (id, args) in
        [("large", r#"{"n":10}"#), ("silent", r#"{"n":1}"#), ("ask", r#"{"ask":true}"#)]
    {
        let answer = agent.call("work.do", id, args).await.unwrap();
        assert!(answer.contains(args.trim_matches(['{', '}'])), "{answer}");
    }
    agent.call("fs.read", "read", r#"{"path":"src/a.rs"}"#).await.unwrap();
    // The team layer does not observe; identity and arguments are no layer's to observe; nothing
    // irreversible is.
    let refused = agent.call("work.do", "never", r#"{"never":true,"n":10}"#).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.detail.as_str()), ("policy.denied", "never"));
    let refused = agent.call("work.other", "other", "{}").await.unwrap_err();
    assert_eq!(refused.code, "tool.not_granted");
    let refused = agent.call("work.pay", "pay", "{}").await.unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.detail.as_str()),
        ("binding.insufficient", "tier3_binding")
    );
    assert_eq!(gate.hits(), 3);
    // The same id again is the same answer.
    agent.call("work.do", "large", r#"{"n":10}"#).await.unwrap();
    assert_eq!(gate.hits(), 3);

    let metrics = gate.operator("/metrics");
    for line in [
        r#"wicketgate_unenforced_total{tool="work.do",verdict="deny"} 2"#,
        r#"wicketgate_unenforced_total{tool="work.do",verdict="require_approval"} 1"#,
        r#"wicketgate_calls_total{tool="work.do",verdict="deny",enforced="false"} 2"#,
        r#"wicketgate_calls_total{tool="work.do",verdict="deny",enforced="true"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }

    agent.seal().await.unwrap();
    named(&gate);
    reported(&gate, &agent.run);
    let report = gate.verified(&agent.run).ok();
    assert!(
        report.out.trim_end().ends_with("VALID, level L1, 3 calls were not enforced"),
        "{}",
        report.out
    );
    gate.run(&["ledger", "verify", "--config", "wicketgate.yaml"]).ends(2);
    let checked = gate.checked();
    assert_eq!(checked["unenforced"], 3, "{checked}");
}

#[tokio::test]
async fn a_layer_is_enforced_from_its_last_moment_on_and_nothing_has_to_be_loaded_for_that() {
    // On a machine so slow that this is over before the gate is ready, it is enforced all the same.
    let gate = Gate::start(&observing_for(6), &[("agent/main.rego", AGENT)]);
    if gate.operator("/readyz").contains("the agent layer observes until") {
        gate.logged(|line| line.contains("readiness") && !line.contains("observes"));
    }
    assert!(!gate.operator("/readyz").contains("observes"));
    let refused = gate.open("").await.call("work.do", "a", r#"{"n":10}"#).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.detail.as_str()), ("policy.denied", "large"));
    assert_eq!(gate.hits(), 0);
}

#[tokio::test]
async fn a_bundle_decides_nothing_from_its_end_on_and_the_gate_is_not_ready() {
    let until = jiff::Timestamp::try_from(SystemTime::now() + Duration::from_secs(6)).unwrap();
    let meta = format!("{{}},\"not_after\":\"{until:.0}\"");
    // On a machine so slow that this is over before the gate is ready, it would not start at all.
    let gate = Gate::start(&meta, &[("agent/main.rego", AGENT)]);
    let agent = gate.open("").await;
    if gate.operator("/readyz").contains("the bundle in force ends at") {
        gate.logged(|line| {
            line.contains("readiness") && line.contains("the bundle in force ended")
        });
    }
    assert!(gate.operator("/readyz").contains("the bundle in force ended at"));
    let refused = agent.call("fs.read", "a", r#"{"path":"src/a.rs"}"#).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.detail.as_str()), ("policy.error", "policy_ended"));
    agent.seal().await.unwrap();
    gate.verified(&agent.run).ok();
}

/// `policy observed`, while the gate runs.
/// Every decision of a policy names the rule it follows from, an allow too.
fn named(gate: &Gate) {
    let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "-n", "99"];
    let tail = gate.run(&tail).ok().out;
    for (call, what) in [
        ("read fs.read", "allow by wicketgate.agent.allow agent/main.rego:4"),
        ("never work.do", "deny by wicketgate.team.deny team/main.rego:3"),
    ] {
        let decided =
            |line: &&str| line.contains(&format!(" call {call} ")) && line.contains(" by ");
        let line = tail.lines().find(decided).unwrap_or_else(|| panic!("{call}: {tail}"));
        assert!(line.ends_with(what), "{line}");
    }
}

fn reported(gate: &Gate, run: &str) {
    let observed = |more: &[&str]| {
        let all = [&["policy", "observed", "--config", "wicketgate.yaml", "--json"][..], more];
        gate.run(&all.concat()).ok().json()
    };
    let all = observed(&[]);
    assert_eq!((&all["decided"], &all["denied"], &all["held"]), (&json!(7), &json!(2), &json!(1)));
    let rules: Vec<&Value> = all["rules"].as_array().unwrap().iter().collect();
    let found: Vec<_> = rules.iter().map(|r| r["rule"].as_str().unwrap()).collect();
    assert_eq!(
        found,
        [
            "wicketgate.agent.deny agent/main.rego:5",
            "wicketgate.agent.require_approval agent/main.rego:6",
            "wicketgate.decision",
        ]
    );
    assert_eq!(rules[0]["count"], 1);
    assert_eq!(rules[0]["tool"], "work.do");
    assert_eq!(rules[0]["examples"], json!([{"run": run, "call": "large"}]));
    assert_eq!(observed(&["--run", run]), all);
    assert_eq!(observed(&["--since", "1h"]), all);
    assert_eq!(observed(&["--since", "2099-01-01T00:00:00Z"])["decided"], 0);
    let text = gate.run(&["policy", "observed", "--sqlite", "state/ledger.sqlite"]).ok().out;
    assert!(text.contains("of 7 calls, enforcement would have denied 2 and held 1"), "{text}");
    assert!(text.contains("agent/main.rego:5: more than nine"), "{text}");
}

#[tokio::test]
async fn a_simulated_run_is_decided_and_recorded_and_runs_nothing() {
    let rules = "allow if input.tool.name in {\"work.do\", \"fs.read\"}\n\
                 deny contains {\"code\": \"large\", \"message\": \"more than nine\"} if input.args.n > 9\n\
                 deny contains {\"code\": \"mode\", \"message\": \"simulate only\"} if input.run.mode != \"simulate\"";
    let gate = Gate::start("{}", &[("agent/main.rego", rules)]);
    assert!(!gate.operator("/readyz").contains("observes"));
    let agent = gate.open("simulate").await;
    let simulated = ["call.cancelled", "simulated", "simulated: the call was allowed but not run"];
    let refused = async |tool: &str, id: &str, args: &str| {
        let Refused { code, detail, message, .. } = agent.call(tool, id, args).await.unwrap_err();
        [code, detail, message]
    };
    assert_eq!(refused("work.do", "a", r#"{"n":1}"#).await, simulated);
    assert_eq!(refused("fs.read", "b", r#"{"path":"src/a.rs"}"#).await, simulated);
    let denied = agent.call("work.do", "c", r#"{"n":10}"#).await.unwrap_err();
    assert_eq!((denied.code.as_str(), denied.detail.as_str()), ("policy.denied", "large"));
    // Asked again, it is the recorded answer.
    assert_eq!(refused("work.do", "a", r#"{"n":1}"#).await, simulated);
    assert_eq!(gate.hits(), 0);
    agent.seal().await.unwrap();
    let report = gate.verified(&agent.run).ok();
    assert!(report.out.contains("VALID, level L1"), "{}", report.out);
    let run: Value = serde_json::from_slice(
        &std::fs::read(gate.path(&format!("evidence-{}/agent_run.json", agent.run))).unwrap(),
    )
    .unwrap();
    assert_eq!(run["opening"]["mode"], "simulate");
    let outcomes: Vec<_> = run["steps"].as_array().unwrap().iter().map(|s| &s["outcome"]).collect();
    assert_eq!(outcomes, ["call.cancelled", "call.cancelled", "call.denied"]);
    assert_eq!(gate.checked()["calls"], json!({"cancelled": 2, "denied": 1}));
    // An ordinary run of the same gate is told so.
    let refused = gate.open("enforce").await.call("work.do", "a", "{}").await.unwrap_err();
    assert_eq!(refused.detail, "mode");
}

#[tokio::test]
async fn a_manifest_that_simulates_makes_every_run_a_simulated_one() {
    let rules = "allow if input.run.mode == \"simulate\"";
    let gate = Gate::of_mode("simulate", "{}", &[("agent/main.rego", rules)]);
    for mode in ["", "enforce", "simulate"] {
        let refused = gate.open(mode).await.call("work.do", "a", "{}").await.unwrap_err();
        assert_eq!(
            (refused.code.as_str(), refused.detail.as_str()),
            ("call.cancelled", "simulated")
        );
    }
    assert_eq!(gate.hits(), 0);
}
