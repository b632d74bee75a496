//! The end of a gate that is asked twice, and the start of one that may open too few files.

use rustix::process::Signal;
use serde_json::json;

use crate::checker::{calls, check, check_running};
use crate::sidecar::Estate;
use crate::tool::Tool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_gate_at_once_and_loses_no_acknowledged_call() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["limits"]["drain_seconds"] = json!(3600));
    for signal in [Signal::TERM, Signal::INT] {
        let mut sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        let before = tool.count();
        agent.call("work.do", "acknowledged", r#"{"n":1}"#).await.unwrap();
        tool.hold();
        let caller = agent.clone();
        let call = tokio::spawn(async move { caller.call("work.do", "open", r#"{"n":2}"#).await });
        crate::until("the call to be at the tool", || async { tool.count() == before + 2 }).await;
        sidecar.signal(Signal::TERM);
        sidecar.not_ready("draining").await;
        assert!(sidecar.ended().is_none(), "nobody asked a second time");
        sidecar.signal(signal);
        sidecar.ends(0).await;
        assert!(call.await.unwrap().is_err(), "an answer that nobody recorded");
        check_running(&estate.database, &tool, &estate.receipts);
        tool.release();
    }
    let mut last = estate.serve().await;
    last.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((calls(&summary, "completed"), calls(&summary, "unknown")), (2, 2), "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_ends_waits_for_no_task_that_goes_on_until_then() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    sidecar.open().await.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    let log = sidecar.said();
    assert!(log.contains("draining") && !log.contains("before its last report"), "{log}");
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_open_file_limit_is_raised_as_configured_or_reported_if_it_cannot_be() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["limits"]["in_flight_max"] = json!(100));
    for (limits, now, said) in
        [("--nofile=256:4096", "2596", false), ("--nofile=256:300", "300", true)]
    {
        let mut sidecar = estate.start_under(&["prlimit", limits]);
        sidecar.ready().await;
        let file = format!("/proc/{}/limits", sidecar.pid().as_raw_nonzero());
        let text = std::fs::read_to_string(file).unwrap();
        let row = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        assert_eq!(row.split_whitespace().nth(3), Some(now), "{row}");
        assert_eq!(sidecar.said().contains("raise `ulimit -n`"), said, "{}", sidecar.said());
        let agent = sidecar.open().await;
        agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
        sidecar.stop().await;
    }
    check(&estate.database, &tool, &estate.receipts);
}
