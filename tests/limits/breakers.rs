//! Limits of a manifest, each through the built program, and what of them survives a restart.

use serde_json::json;

use crate::settings::{bind, bound, limits};
use crate::sidecar::Estate;
use crate::tool::Tool;

/// Detail of a durable denial.
macro_rules! denied {
    ($answer:expr, $detail:literal) => {{
        let refused = $answer.unwrap_err();
        assert_eq!((refused.code.as_str(), refused.detail.as_str()), ("limit.exceeded", $detail));
        assert_eq!(refused.grpc, tonic::Code::ResourceExhausted);
    }};
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_run_are_counted_across_a_restart() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"calls": 3}"#);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    agent.call("work.do", "b", r#"{"n":2}"#).await.unwrap();
    sidecar.kill();
    let sidecar = estate.serve().await;
    agent.call("work.do", "c", r#"{"n":3}"#).await.unwrap();
    denied!(agent.call("work.do", "d", r#"{"n":4}"#).await, "limit.calls");
    assert_eq!(tool.count(), 3);
    drop(sidecar);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_recorded_decision_is_one_line_of_the_log_with_its_code_and_rule_and_no_argument() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"calls": 1}"#);
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":732197321973}"#).await.unwrap();
    denied!(agent.call("work.do", "b", r#"{"n":732197321973}"#).await, "limit.calls");
    denied!(agent.call("work.do", "b", r#"{"n":732197321973}"#).await, "limit.calls");
    let log = sidecar.said();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("call decided")).collect();
    let [allowed, refused] = lines[..] else { panic!("{log}") };
    let has = |line: &str, parts: &[&str]| {
        for part in parts {
            assert!(line.contains(part), "{part}: {line}");
        }
    };
    has(allowed, &["call=a", "tool=work.do", "verdict=\"allow\"", "rule=\"", "main.rego:"]);
    has(refused, &["call=b", "verdict=\"deny\"", "code=\"limit.exceeded\"", "limit.calls"]);
    assert!(!log.contains("732197321973"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_in_a_row_break_the_circuit_and_a_restart_does_not_mend_it() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"consecutive_errors": 2}"#);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for id in ["a", "b"] {
        assert_eq!(agent.call("work.fail", id, "{}").await.unwrap_err().code, "tool.failed");
    }
    denied!(agent.call("work.do", "c", "{}").await, "limit.consecutive_errors");
    sidecar.kill();
    let sidecar = estate.serve().await;
    denied!(agent.call("work.do", "d", "{}").await, "limit.consecutive_errors");
    drop(sidecar);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identical_calls_and_calls_per_minute_are_bounded() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"repeated_calls": 2, "calls_per_minute": 4}"#);
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    agent.call("work.do", "b", "{}").await.unwrap();
    denied!(agent.call("work.do", "c", "{}").await, "limit.repeated_calls");
    agent.call("work.do", "d", r#"{"n":1}"#).await.unwrap();
    denied!(agent.call("work.do", "e", r#"{"n":2}"#).await, "limit.calls_per_minute");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_the_same_time_are_bounded_and_the_run_ends_with_its_wall_time() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"concurrency": 1, "wall_seconds": 4}"#);
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    tool.hold();
    let other = agent.clone();
    let first = tokio::spawn(async move { other.call("work.do", "a", "{}").await });
    tool.entered(1).await;
    denied!(agent.call("work.do", "b", "{}").await, "limit.concurrency");
    tool.release();
    first.await.unwrap().unwrap();
    crate::until("the end of the run", || async {
        agent.call("work.do", "", "{}").await.is_err_and(|refused| refused.code == "run.sealed")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_cost_is_kept_across_a_restart_and_needs_a_price_on_every_tool() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"cost_usd": "1.00"}"#);
    let mut refused = estate.start();
    refused.ends(78).await;
    assert!(refused.said().contains("not enforced for `"), "{}", refused.said());
    bind(&estate, "cost_micro_usd", &json!(400_000));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    sidecar.kill();
    let sidecar = estate.serve().await;
    agent.call("work.do", "b", "{}").await.unwrap();
    denied!(agent.call("work.do", "c", "{}").await, "limit.cost_usd");
    assert_eq!(tool.count(), 2);
    drop(sidecar);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_too_many_denials_is_suspended_once_and_stays_so_after_a_restart() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    bound(&estate, "denials_max", json!(3));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let good = agent.call("work.do", "good", "{}").await.unwrap();
    for id in ["a", "b", "c"] {
        assert_eq!(
            agent.call("nothing.here", id, "{}").await.unwrap_err().code,
            "tool.not_granted"
        );
    }
    denied!(agent.call("work.do", "d", "{}").await, "limit.suspended");
    // What is on the books is still told.
    assert_eq!(agent.call("work.do", "good", "{}").await.unwrap(), good);
    sidecar.kill();
    let mut sidecar = estate.serve().await;
    denied!(agent.call("work.do", "e", "{}").await, "limit.suspended");
    // Another run of the same agent is not.
    sidecar.open().await.call("work.do", "f", "{}").await.unwrap();
    sidecar.stop().await;
    let said = crate::settings::entries(&estate, "control.applied");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["data"]["name"], agent.run);
    assert_eq!(crate::settings::entries(&estate, "call.denied").len(), 3);
    assert_eq!(tool.count(), 2);
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_fast_a_caller_asks_and_how_often_it_is_denied_is_counted_over_all_its_runs() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"calls_per_minute": 4}"#);
    let mut sidecar = estate.serve().await;
    for n in 0..4 {
        sidecar.open().await.call("work.do", "a", &format!(r#"{{"n":{n}}}"#)).await.unwrap();
    }
    denied!(sidecar.open().await.call("work.do", "a", "{}").await, "limit.calls_per_minute");
    assert_eq!(tool.count(), 4);
    sidecar.stop().await;
    let estate = Estate::sqlite(&tool);
    bound(&estate, "denials_max", json!(3));
    let mut sidecar = estate.serve().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let agent = sidecar.open().await;
        let refused = agent.call("nothing.here", "a", "{}").await.unwrap_err();
        assert_eq!(refused.code, "tool.not_granted");
        runs.push(agent);
    }
    // The third is suspended, the others go on until they are denied once more, and there is no fourth.
    denied!(runs[2].call("work.do", "b", "{}").await, "limit.suspended");
    runs[0].call("work.do", "b", "{}").await.unwrap();
    assert_eq!(runs[0].call("nothing.here", "c", "{}").await.unwrap_err().code, "tool.not_granted");
    denied!(runs[0].call("work.do", "d", "{}").await, "limit.suspended");
    let opened = crate::agent::Agent::try_open(&estate.socket(), &estate.receipts).await;
    let refused = crate::agent::Refused::of(&opened.map(|agent| agent.run).unwrap_err());
    assert_eq!(
        (refused.code.as_str(), refused.detail.as_str()),
        ("limit.exceeded", "limit.denials")
    );
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_was_denied_too_often_is_suspended_for_that_run_and_stays_so_after_a_restart() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    bound(&estate, "tool_denials_max", json!(2));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    // Names that nobody granted suspend nothing and are not kept.
    for id in ["x", "y", "z"] {
        let refused = agent.call("nothing.here", id, "{}").await.unwrap_err();
        assert_eq!(refused.code, "tool.not_granted");
    }
    for id in ["a", "b"] {
        let refused = agent.call("work.do", id, r#"{"n":"text"}"#).await.unwrap_err();
        assert_ne!(refused.code, "limit.exceeded", "{refused:?}");
    }
    denied!(agent.call("work.do", "c", "{}").await, "limit.tool_suspended");
    // What is on the books is still told, and other tools still run.
    assert_ne!(
        agent.call("work.do", "a", r#"{"n":"text"}"#).await.unwrap_err().code,
        "limit.exceeded"
    );
    assert_eq!(agent.call("work.fail", "d", "{}").await.unwrap_err().code, "tool.failed");
    sidecar.kill();
    let mut sidecar = estate.serve().await;
    denied!(agent.call("work.do", "e", "{}").await, "limit.tool_suspended");
    sidecar.open().await.call("work.do", "f", "{}").await.unwrap();
    sidecar.stop().await;
    let said = crate::settings::entries(&estate, "control.applied");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["data"]["name"], format!("{}/work.do", agent.run));
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_take_turns_are_repeated_calls_too() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    limits(&estate, r#"{"repeated_calls": 2}"#);
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for (id, n) in ["a", "b", "c", "d", "e"].into_iter().zip([1, 2].into_iter().cycle()) {
        agent.call("work.do", id, &format!(r#"{{"n":{n}}}"#)).await.unwrap();
    }
    denied!(agent.call("work.do", "f", r#"{"n":2}"#).await, "limit.repeated_calls");
    agent.call("work.do", "g", r#"{"n":3}"#).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_resumed_runs_are_never_denied_because_the_gate_was_restarted() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let mut agents = Vec::new();
    for _ in 0..4 {
        agents.push(sidecar.open().await);
    }
    let asking = agents.into_iter().map(|agent| {
        tokio::spawn(async move {
            for n in 0..150 {
                let (id, args) = (format!("c{n}"), format!(r#"{{"n":{n}}}"#));
                crate::until("an answer that says how the call went", || async {
                    match agent.call("work.do", &id, &args).await {
                        Ok(_) => true,
                        // It ran, or may have, when the gate was killed.
                        Err(refused) => refused.code == "call.unknown",
                    }
                })
                .await;
            }
        })
    });
    let asking: Vec<_> = asking.collect();
    for _ in 0..3 {
        crate::until("work under way", || async { tool.count() > 5 }).await;
        sidecar.kill();
        sidecar = estate.serve().await;
    }
    for asked in asking {
        asked.await.unwrap();
    }
    sidecar.stop().await;
    let denied = crate::settings::entries(&estate, "call.denied");
    assert!(denied.is_empty(), "{denied:?}");
}
