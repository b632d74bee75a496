//! A hostile agent: what it can make the gate write, and what it is told.

use std::time::{Duration, Instant};

use serde_json::json;
use tonic_types::StatusExt as _;

use crate::settings::{bound, entries};
use crate::sidecar::Estate;
use crate::tool::Tool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_calls_leaves_no_more_entries_than_the_rate_lets_in_and_one_summary() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    bound(&estate, "requests_per_second", json!(5));
    bound(&estate, "burst", json!(10));
    let mut sidecar = estate.serve().await;
    let began = Instant::now();
    let agent = sidecar.open().await;
    let (mut let_in, mut shed) = (0_u64, 0_u64);
    for i in 0..400 {
        match agent.raw("work.do", &format!("f-{i}"), b"{}").await {
            Ok(_) => let_in += 1,
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
                let details = status.get_error_details();
                assert_eq!(details.error_info().unwrap().reason, "overloaded");
                let after = details.retry_info().unwrap().retry_delay.unwrap();
                assert!(after > Duration::ZERO && after < Duration::from_secs(1), "{after:?}");
                shed += 1;
            }
        }
    }
    let most = 10 + 5 * (began.elapsed().as_secs() + 1);
    assert!(shed > 0 && let_in <= most, "{let_in} of at most {most}");
    assert_eq!(u64::from(tool.count()), let_in);
    sidecar.stop().await;
    assert_eq!(entries(&estate, "call.authorized").len() as u64, let_in);
    let summaries = entries(&estate, "request.rejected");
    let counted: u64 = summaries.iter().map(|s| s["data"]["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, shed);
    assert!(summaries.len() as u64 <= began.elapsed().as_secs() / 10 + 2, "{summaries:?}");
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openings_of_runs_are_paced_too() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    bound(&estate, "requests_per_second", json!(1));
    bound(&estate, "burst", json!(2));
    let sidecar = estate.serve().await;
    let mut refused = 0;
    for _ in 0..20 {
        if let Err(status) = crate::agent::Agent::try_open(&estate.socket(), &estate.receipts).await
        {
            assert_eq!(status.get_error_details().error_info().unwrap().reason, "overloaded");
            refused += 1;
        }
    }
    assert!(refused > 0);
    drop(sidecar);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_the_in_flight_limit_are_shed_unrecorded_and_may_be_retried() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    bound(&estate, "in_flight_max", json!(1));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    tool.hold();
    let other = agent.clone();
    let first = tokio::spawn(async move { other.call("work.do", "a", "{}").await });
    tool.entered(1).await;
    let status = agent.raw("work.do", "b", b"{}").await.unwrap_err();
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "overloaded");
    assert!(details.retry_info().is_some());
    tool.release();
    first.await.unwrap().unwrap();
    agent.call("work.do", "b", "{}").await.unwrap();
    sidecar.stop().await;
    assert_eq!(entries(&estate, "call.authorized").len(), 2);
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}
