//! What policies are told of a lineage, and what an auditor can check.

use serde_json::Value;

use crate::control::refused;
use crate::family::{Family, alone, member};
use crate::sidecar::run;
use wicketgate_support::ran::Ran;

/// Allows a helper only what the lead delegated to it, one step down.
const RULES: &str = r#"package wicketgate.agent
import rego.v1

allow if input.agent.id == "test-agent"
allow if {
	input.agent.id == "helper"
	[above] := input.agent.delegation
	above.id == "test-agent"
	startswith(above.manifest, "sha256:")
	above.version == "1.0.0"
}
"#;

/// What a verification says, whatever it could not decide.
fn ask(dir: &std::path::Path, args: &[&str]) -> Value {
    Ran::gate(dir, args).json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_reads_the_delegation_and_the_verifier_replays_its_decisions() {
    let mut family = Family::of(vec![member("helper", &["work.do"])], |_| {}, |_| {}).await;
    family.setup.sidecar.stop().await;
    family.setup.estate.bundle("1.1.0", RULES, "policy");
    family.setup.sidecar = family.setup.estate.serve().await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    helper.call("work.do", "a", "{}").await.unwrap();
    lead.call("work.do", "a", "{}").await.unwrap();
    let own = family.try_child("helper", alone()).await.unwrap();
    assert_eq!(refused(&own.call("work.do", "a", "{}").await).0, "policy.denied");
    for agent in [&own, &lead] {
        agent.seal().await.unwrap();
    }
    let dir = family.setup.estate.path(".");
    run(&dir, &["keygen", "--out", "evidence"]);
    run(&dir, &["keygen", "--out", "fleet"]);
    family.setup.estate.configure(|config| config["fleet"] = serde_json::json!({"key": "fleet"}));
    let trust = "evidence-key evidence.pub\nenrolment-key state/enrolment.key.pub\n";
    std::fs::write(dir.join("trust.txt"), trust).unwrap();
    for agent in [&helper, &lead, &own] {
        let out = format!("bundle-{}", agent.run);
        let order = ["evidence", "export", "--config", "wicketgate.yaml", "--run", &agent.run];
        let rest = ["--out", &out, "--key", "evidence", "--artifacts", "state/artifacts"];
        run(&dir, &[&order[..], &rest[..]].concat());
        let verify =
            ["evidence", "verify", "--trust", "trust.txt", "--run", &agent.run, "--replay"];
        let said = ask(&dir, &[&verify[..], &["--json", &out]].concat());
        let checks = said["checks"].as_array().unwrap();
        let bad = checks.iter().filter(|check| check["outcome"] == "INVALID").count();
        let replayed = checks.iter().find(|check| check["id"] == "P5").unwrap();
        assert_eq!((bad, &replayed["outcome"]), (0, &"VALID".into()), "{said}");
    }
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap();
    let told: Value =
        serde_json::from_str(&read(&format!("bundle-{}/agent_run.json", helper.run))).unwrap();
    assert_eq!(told["opening"]["parent"], lead.run.as_str(), "{told}");
    let page = read(&format!("bundle-{}/report.html", helper.run));
    assert!(page.contains(&lead.run) && page.contains("Delegated by"), "the page names the parent");
    family.close().await;
}
