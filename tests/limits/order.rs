//! Calls of an ordered run, one at a time.

use serde_json::json;

use crate::settings::{bound, entries, limits};
use crate::sidecar::Estate;
use crate::tool::Tool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_an_ordered_run_are_walked_one_at_a_time_in_the_order_they_came_in() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["agents"][0]["ordered"] = json!(true));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    tool.hold();
    let call = |id: &'static str| {
        let agent = agent.clone();
        tokio::spawn(async move { agent.call("work.do", id, "{}").await })
    };
    let first = call("a");
    tool.entered(1).await;
    let mut waiting = Vec::new();
    for (i, id) in ["b", "c", "d"].into_iter().enumerate() {
        waiting.push(call(id));
        // It is counted, and with that has its place, before the next one comes.
        crate::until("a call on the road", || async { sidecar_in_flight(&sidecar).await == i + 2 })
            .await;
    }
    assert_eq!(tool.count(), 1, "the others wait");
    // Another run does not wait for this one.
    let other = sidecar.open().await;
    let beside = tokio::spawn(async move { other.call("work.do", "x", "{}").await });
    tool.entered(2).await;
    tool.release();
    first.await.unwrap().unwrap();
    beside.await.unwrap().unwrap();
    for one in waiting {
        one.await.unwrap().unwrap();
    }
    sidecar.stop().await;
    let calls: Vec<String> = entries(&estate, "call.authorized")
        .iter()
        .map(|entry| entry["call"].as_str().unwrap().to_owned())
        .filter(|call| call != "x")
        .collect();
    assert_eq!(calls, ["a", "b", "c", "d"]);
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_turn_does_not_come_is_shed_and_leaves_nothing_behind() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["agents"][0]["ordered"] = json!(true));
    bound(&estate, "ordered_wait_ms", json!(50));
    limits(&estate, r#"{"repeated_calls": 2}"#);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    tool.hold();
    let first = agent.clone();
    let first = tokio::spawn(async move { first.call("work.do", "a", r#"{"n":1}"#).await });
    tool.entered(1).await;
    for _ in 0..3 {
        let refused = agent.call("work.do", "b", "{}").await.unwrap_err();
        let told = (refused.code.as_str(), refused.detail.as_str());
        assert_eq!(told, ("overloaded", "limit.ordered"));
    }
    tool.release();
    first.await.unwrap().unwrap();
    agent.call("work.do", "b", "{}").await.unwrap();
    sidecar.stop().await;
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}

async fn sidecar_in_flight(sidecar: &crate::sidecar::Sidecar) -> usize {
    let metrics = sidecar.metrics().await;
    let line = metrics.lines().find(|line| line.starts_with("wicketgate_in_flight ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}
