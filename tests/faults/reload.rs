//! Tools that the operator changes while the gate runs.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::checker::{check, kinds};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

/// Waits until the gate has logged this.
pub async fn says(sidecar: &Sidecar, words: &str) {
    crate::until(std::fmt::from_fn(|f| write!(f, "`{words}` in {}", sidecar.said())), || async {
        sidecar.said().contains(words)
    })
    .await;
}

pub fn without(config: &mut Value, name: &str) {
    config["tools"].as_array_mut().unwrap().retain(|tool| tool["name"] != name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_taken_away_ends_what_begins_after_it_and_nothing_before() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    tool.hold();
    let caller = agent.clone();
    let call = tokio::spawn(async move { caller.call("work.do", "a", r#"{"n":1}"#).await });
    tool.entered(1).await;
    estate.configure(|config| without(config, "work.do"));
    says(&sidecar, "reloaded the configuration").await;
    assert!(!agent.tools().await.contains(&"work.do".to_owned()));
    let gone = agent.call("work.do", "b", r#"{"n":1}"#).await.unwrap_err();
    assert_eq!(gone.code, "tool.not_granted");
    tool.release();
    let answer = crate::within("the answer", call).await.unwrap().unwrap();
    assert!(answer.contains("done"), "{answer}");
    sidecar.stop().await;
    assert_eq!(tool.count(), 1);
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "config.changed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_is_wrong_is_refused_with_every_reason_and_the_old_tools_stay() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    estate.configure(|config| {
        without(config, "work.do");
        config["tools"][0]["kind"] = json!("magic");
        config["tools"][1]["tier"] = json!("T9");
    });
    says(&sidecar, "refused; the old state stays in force").await;
    let said = sidecar.said();
    assert!(said.contains("magic") && said.contains("T9"), "{said}");
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "config.changed"), 0, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_needs_a_restart_is_reported_and_not_applied() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    estate.configure(|config| {
        config["limits"]["hold_seconds"] = json!(1);
        config["attested"] = json!({"environment": "elsewhere"});
    });
    sidecar.signal(Signal::HUP);
    says(&sidecar, "needs a restart").await;
    let said = sidecar.said();
    let line = said.lines().find(|line| line.contains("needs a restart")).unwrap();
    assert!(line.contains("attested") && line.contains("limits"), "{line}");
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_held_against_the_tools_of_the_same_change_and_not_the_ones_before() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let rules =
        "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"work.do\"\n";
    estate.bundle("1.0.1", rules, "policy");
    let mut sidecar = estate.serve().await;
    assert!(!sidecar.said().contains("lint.no_channel"), "{}", sidecar.said());
    // What cannot be undone waits for an approval, and here is nobody to give one.
    estate.configure(|config| config["tools"][0]["tier"] = json!("T3"));
    says(&sidecar, "reloaded the configuration").await;
    assert!(sidecar.said().contains("lint.no_channel"), "{}", sidecar.said());
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_manifest_is_bound_for_new_runs_and_open_ones_keep_theirs() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let before = sidecar.open().await;
    estate.manifest("2.0.0", "manifest", |text| text.replace("work.fail", "work.unbound"));
    says(&sidecar, "reloaded the configuration").await;
    let after = sidecar.open().await;
    assert!(before.tools().await.contains(&"work.fail".to_owned()));
    assert!(!after.tools().await.contains(&"work.fail".to_owned()));
    before.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    after.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "manifest.bound"), 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_without_a_trusted_signature_changes_nothing_and_readyz_says_why() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    estate.manifest("2.0.0", "stranger", |text| text);
    estate.configure(|config| without(config, "work.do"));
    says(&sidecar, "refused; the old state stays in force").await;
    let (ready, told) = sidecar.readiness().await.unwrap();
    assert!(ready && told.contains("agent.yaml"), "{told}");
    assert!(sidecar.metrics().await.contains("config_read_total{passed=\"false\"}"));
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "config.changed"), 0, "{summary}");
    assert_eq!(kinds(&summary, "manifest.bound"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_is_taken_away_opens_nothing_and_its_open_run_is_denied() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    let other = rustix::process::getuid().as_raw() + 1;
    estate.configure(|config| config["agents"][0]["callers"] = json!([{"uid": other}]));
    says(&sidecar, "reloaded the configuration").await;
    let denied = agent.call("work.do", "b", r#"{"n":1}"#).await.unwrap_err();
    let said = (denied.code.as_str(), denied.detail.as_str());
    assert_eq!(said, ("policy.denied", "agent.caller_removed"));
    let opened = crate::agent::Agent::try_open(&estate.socket(), &estate.receipts).await;
    assert!(opened.is_err(), "who is nobody opened a run");
    sidecar.stop().await;
    assert_eq!(tool.count(), 1);
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_is_named_no_more_needs_a_restart_and_judges_on_until_then() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    estate.configure(|config| {
        config["policy"].as_object_mut().unwrap().remove("bundle");
        config["trust"].as_object_mut().unwrap().remove("policy_keys");
        without(config, "work.do");
    });
    says(&sidecar, "needs a restart: policy.bundle").await;
    let (_, told) = sidecar.readiness().await.unwrap();
    assert!(told.contains("policy.bundle"), "{told}");
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.kill();
    // What was refused is so at the next start: nothing judges, and everything is denied.
    let sidecar = estate.start();
    says(&sidecar, "no policy bundle is in force").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_called_otherwise_takes_its_calls_in_turn_after_a_restart_only() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["agents"][0]["ordered"] = json!(true));
    let mut sidecar = estate.serve().await;
    estate.manifest("2.0.0", "manifest", |text| text.replace("test-agent", "other-agent"));
    says(&sidecar, "needs a restart: agents[].ordered").await;
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_in_a_file_of_its_own_is_followed() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let at_most = |most: u64| {
        let schema =
            json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": most}}});
        std::fs::write(estate.path("do.json"), schema.to_string()).unwrap();
    };
    at_most(10);
    estate.configure(|config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let tool = tools.iter_mut().find(|tool| tool["name"] == "work.do").unwrap();
        tool.as_object_mut().unwrap().remove("input_schema");
        tool["input_schema_file"] = json!("do.json");
    });
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":9}"#).await.unwrap();
    at_most(5);
    says(&sidecar, "reloaded the configuration").await;
    let refused = agent.call("work.do", "b", r#"{"n":9}"#).await.unwrap_err();
    assert_eq!(refused.detail, "schema.maximum", "{refused:?}");
    sidecar.stop().await;
    assert_eq!(tool.count(), 1);
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "config.changed"), 1, "{summary}");
}
