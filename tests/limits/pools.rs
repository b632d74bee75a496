//! Pools of the built program: in its file, and of three processes over one database.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::checker::{calls, check};
use crate::settings::{bind, bound};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::pg::Pg;

fn pools(estate: &Estate, pools: &Value) {
    estate.configure(|config| config["pools"] = pools.clone());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_spent_once_whatever_restarts_and_its_end_is_a_durable_denial() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    pools(&estate, &json!([{"name": "all", "unit": "requests", "per": "month", "size": 4}]));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    // Not granted, and denied by the policy: neither takes a unit.
    agent.call("nothing.here", "x", "{}").await.unwrap_err();
    agent.call("policy.undefined", "y", "{}").await.unwrap_err();
    agent.call("work.do", "b", "{}").await.unwrap();
    sidecar.stop().await;
    let mut sidecar = estate.serve().await;
    for id in ["c", "d"] {
        agent.call("work.do", id, "{}").await.unwrap();
    }
    let refused = agent.call("work.do", "e", "{}").await.unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.detail.as_str()),
        ("limit.exceeded", "limit.pool.all")
    );
    assert_eq!(refused, agent.call("work.do", "e", "{}").await.unwrap_err(), "it is on the books");
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((calls(&summary, "completed"), tool.count()), (4, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_a_pool_run_low_and_may_keep_the_rest_for_others() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    pools(
        &estate,
        &json!([
        {"name": "scarce", "unit": "requests", "per": "none", "size": 10, "tools": ["work.do"]},
        {"name": "others", "unit": "requests", "per": "none", "size": 1, "agents": ["somebody-else"]}]),
    );
    let rules = r#"package wicketgate.agent
import rego.v1
allow if { count(input.pools) == 1; input.pools[0].name == "scarce"; input.pools[0].size == 10
	input.pools[0].unit == "requests"; input.pools[0].left_permille >= 700 }
allow if { input.tool.name == "work.large"; input.pools == [] }
"#;
    estate.bundle("1.0.1", rules, "policy");
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for id in ["a", "b", "c"] {
        agent.call("work.do", id, "{}").await.unwrap();
    }
    for id in ["d", "e"] {
        assert_eq!(agent.call("work.do", id, "{}").await.unwrap_err().code, "policy.denied");
    }
    assert!(agent.call_large("work.large", "f").await.0 > 0);
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_cost_counts_what_bindings_declare() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    bind(&estate, "cost_micro_usd", &json!(30));
    pools(
        &estate,
        &json!([{"name": "money", "unit": "cost_micro_usd", "per": "month", "size": 100}]),
    );
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for id in ["a", "b", "c"] {
        agent.call("work.do", id, "{}").await.unwrap();
    }
    let refused = agent.call("work.do", "d", "{}").await.unwrap_err();
    assert_eq!(refused.detail, "limit.pool.money");
    drop(sidecar);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_the_same_time_are_bounded_for_all_runs_together() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    pools(&estate, &json!([{"name": "one", "unit": "concurrency", "per": "none", "size": 1}]));
    let mut sidecar = estate.serve().await;
    let (agent, other) = (sidecar.open().await, sidecar.open().await);
    tool.hold();
    let first = tokio::spawn(async move { agent.call("work.do", "a", "{}").await });
    tool.entered(1).await;
    let refused = other.call("work.do", "b", "{}").await.unwrap_err();
    assert_eq!(refused.detail, "limit.pool.one");
    tool.release();
    first.await.unwrap().unwrap();
    crate::until("the unit is free", || async { other.call("work.do", "", "{}").await.is_ok() })
        .await;
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_that_cannot_be_kept_are_refused_when_the_file_is_read() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    pools(
        &estate,
        &json!([
        {"name": "a", "unit": "requests", "per": "day", "size": 1},
        {"name": "a", "unit": "concurrency", "per": "minute", "size": 1}]),
    );
    let mut sidecar = estate.start();
    sidecar.ends(78).await;
    for said in ["pool `a` is configured twice", "has no window"] {
        assert!(sidecar.said().contains(said), "{said}: {}", sidecar.said());
    }
}

/// Calls until the pool is empty; how many ran.
async fn spend(agent: Agent) -> u64 {
    let mut ran = 0;
    loop {
        match agent.call("work.do", "", "{}").await {
            Ok(_) => ran += 1,
            Err(refused) if refused.detail == "limit.pool.fleet" => return ran,
            Err(refused) => {
                assert!(
                    ["overloaded", "ledger.unavailable"].contains(&refused.code.as_str()),
                    "{refused:?}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_over_one_database_run_exactly_as_many_calls_as_the_pool_has_units() {
    const UNITS: u64 = 300;
    let tool = Tool::start().await;
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    let db = pg.database().await;
    let mut fleet = Vec::new();
    for _ in 0..3 {
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "shop/agents");
        pools(
            &estate,
            &json!([{"name": "fleet", "unit": "requests", "per": "none", "size": UNITS}]),
        );
        bound(&estate, "denials_max", Value::Null);
        bound(&estate, "tool_denials_max", Value::Null);
        let sidecar = estate.serve().await;
        fleet.push((sidecar, estate));
    }
    let mut callers = Vec::new();
    for (sidecar, _) in &fleet {
        let agent = sidecar.open().await;
        callers.extend((0..20).map(|_| tokio::spawn(spend(agent.clone()))));
    }
    let mut told = 0;
    for caller in callers {
        told += caller.await.unwrap();
    }
    assert_eq!((told, u64::from(tool.count())), (UNITS, UNITS));
    for (mut sidecar, _estate) in fleet {
        sidecar.stop().await;
    }
}
