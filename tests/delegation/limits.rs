//! Whose limits a child uses up: its own, and those of every run above it.

use serde_json::json;

use crate::control::spawn;
use crate::family::{Family, member, refusal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_does_not_escape_its_limit_of_calls_by_delegating_and_the_denial_says_whose_it_is()
{
    let members = vec![member("helper", &["work.do"]), member("scout", &["work.do"])];
    let family = Family::of(members, |spec| spec["limits"] = json!({"calls": 3}), |_| {}).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let scout = family.child("scout", &helper).await;
    lead.call("work.do", "a", "{}").await.unwrap();
    helper.call("work.do", "b", "{}").await.unwrap();
    scout.call("work.do", "c", "{}").await.unwrap();
    for (agent, id) in [(&helper, "d"), (&scout, "e")] {
        let (code, detail, message) = refusal(agent.call("work.do", id, "{}").await);
        assert_eq!((code.as_str(), detail.as_str()), ("limit.exceeded", "limit.calls"));
        let whose = format!("agent `test-agent` is reached, whose run {}", lead.run);
        assert!(message.contains(&whose), "{message}");
    }
    let (code, detail, message) = refusal(lead.call("work.do", "f", "{}").await);
    assert_eq!((code.as_str(), detail.as_str()), ("limit.exceeded", "limit.calls"));
    assert!(message.contains("the manifest's limit `calls: 3`"), "{message}");
    let denied = &family.of_run(&scout.run, "call.denied")[0]["data"]["reasons"][0];
    assert_eq!(denied["rule"], "delegation.limits.calls", "{denied}");
    // Another run of the lead has its own three.
    let again = family.lead().await;
    family.child("helper", &again).await.call("work.do", "g", "{}").await.unwrap();
    assert_eq!(family.setup.tool.count(), 4);
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_parent_and_child_at_the_same_time_count_together() {
    let family = Family::pair(|spec| spec["limits"] = json!({"concurrency": 1})).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    family.setup.tool.hold();
    let running = spawn(&helper, "work.do", "a");
    family.setup.tool.entered(1).await;
    let (_, detail, _) = refusal(lead.call("work.do", "b", "{}").await);
    assert_eq!(detail, "limit.concurrency");
    family.setup.tool.release();
    running.await.unwrap().unwrap();
    lead.call("work.do", "c", "{}").await.unwrap();
    helper.call("work.do", "d", "{}").await.unwrap();
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_own_limits_bind_it_too_and_leave_its_parent_alone() {
    let helper = member("helper", &["work.do"]).with(|spec| spec["limits"] = json!({"calls": 1}));
    let family = Family::of(vec![helper], |_| {}, |_| {}).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    helper.call("work.do", "a", "{}").await.unwrap();
    let (_, detail, message) = refusal(helper.call("work.do", "b", "{}").await);
    assert_eq!(detail, "limit.calls");
    assert!(message.contains("the manifest's limit"), "{message}");
    lead.call("work.do", "c", "{}").await.unwrap();
    family.close().await;
}

fn priced(config: &mut serde_json::Value) {
    for tool in config["tools"].as_array_mut().unwrap() {
        tool["cost_micro_usd"] = 10.into();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_child_spends_its_parent_has_spent_also_after_the_child_is_sealed_and_the_gate_restarted()
 {
    let cost =
        |spec: &mut serde_json::Value| spec["limits"] = json!({"cost_usd": "0.00003", "calls": 9});
    let mut family = Family::of(vec![member("helper", &["work.do"])], cost, priced).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    helper.call("work.do", "a", "{}").await.unwrap();
    helper.call("work.do", "b", "{}").await.unwrap();
    helper.seal().await.unwrap();
    family.setup.restart().await;
    lead.call("work.do", "c", "{}").await.unwrap();
    let (_, detail, _) = refusal(lead.call("work.do", "d", "{}").await);
    assert_eq!(detail, "limit.cost_usd");
    let helper = family.child("helper", &lead).await;
    let (_, detail, message) = refusal(helper.call("work.do", "e", "{}").await);
    assert_eq!(detail, "limit.cost_usd");
    assert!(message.contains("of agent `test-agent`"), "{message}");
    // Five of nine calls are on the books; the sealed child's two are among them.
    for id in ["f", "g", "h", "i"] {
        let (_, detail, _) = refusal(lead.call("work.do", id, "{}").await);
        assert_eq!(detail, "limit.cost_usd", "{id}");
    }
    let (_, detail, _) = refusal(lead.call("work.do", "j", "{}").await);
    assert_eq!(detail, "limit.calls");
    assert_eq!(family.setup.tool.count(), 3);
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_over_with_its_parent_at_the_latest() {
    let family = Family::pair(|spec| spec["limits"] = json!({"wall_seconds": 3600})).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let end = |run: &str| family.of_run(run, "run.opened")[0]["data"]["expires"].clone();
    assert!(end(&lead.run).is_string());
    assert_eq!(end(&helper.run), end(&lead.run), "the helper's manifest has no limit of its own");
    family.close().await;
}
