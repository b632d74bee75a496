//! `kill -9` of the gate, and what the next one finds; both stores.

use crate::agent::Agent;
use crate::checker::{calls, check, kinds};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::pg::{Pg, TestDb};

/// A gate on the cluster that all tests share.
pub async fn on_postgres(tool: &Tool, slots: &str) -> Estate {
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    let TestDb { admin_url, writer_url, .. } = pg.database().await;
    Estate::postgres(tool, &writer_url, &admin_url, slots)
}

async fn killed_during_a_call(tool: Tool, estate: Estate) {
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "before", r#"{"n":1}"#).await.unwrap();
    tool.hold();
    let caller = agent.clone();
    let call = tokio::spawn(async move { caller.call("work.do", "a", r#"{"n":2}"#).await });
    tool.entered(1).await;
    sidecar.kill();
    assert!(call.await.unwrap().is_err());
    tool.release();
    let mut sidecar = estate.serve().await;
    let got = agent.get("a").await.unwrap_err();
    assert_eq!(got.code, "call.unknown", "{got:?}");
    let again = agent.call("work.do", "a", r#"{"n":2}"#).await.unwrap_err();
    assert_eq!((again.code.as_str(), tool.count_of("a")), ("call.unknown", 1));
    let kept = agent.call("work.do", "before", r#"{"n":1}"#).await.unwrap();
    assert!(kept.contains("done"));
    assert_eq!(tool.count_of("before"), 1);
    agent.call("work.do", "after", r#"{"n":3}"#).await.unwrap();
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    let states = ["completed", "unknown"].map(|state| calls(&summary, state));
    assert_eq!(states, [2, 1], "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_the_gate_died_in_is_unknown_and_never_run_again_on_sqlite() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    killed_during_a_call(tool, estate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_the_gate_died_in_is_unknown_and_never_run_again_on_postgres() {
    let tool = Tool::start().await;
    let estate = on_postgres(&tool, "local").await;
    killed_during_a_call(tool, estate).await;
}

/// Four callers at once; killed after each number of answers, restarted on the same state.
async fn killed_under_load(tool: Tool, estate: Estate) {
    let mut agent: Option<Agent> = None;
    for (round, answers) in [1, 2, 5, 9, 14, 30].into_iter().enumerate() {
        let mut sidecar = estate.serve().await;
        let agent = match &agent {
            Some(agent) => agent.clone(),
            None => agent.insert(sidecar.open().await).clone(),
        };
        let before = estate.receipts.len();
        let load: Vec<_> = (0..4)
            .map(|caller| {
                let agent = agent.clone();
                tokio::spawn(async move {
                    for i in 0.. {
                        let id = format!("r{round}-c{caller}-{i}");
                        let answer = agent.call("work.do", &id, r#"{"n":1}"#).await;
                        if answer.is_err_and(|refused| refused.code.is_empty()) {
                            return;
                        }
                    }
                })
            })
            .collect();
        let receipts = estate.receipts.clone();
        crate::until("answers", || {
            let enough = receipts.len() >= before + answers;
            async move { enough }
        })
        .await;
        sidecar.kill();
        for caller in load {
            crate::within("the callers' end", caller).await.unwrap();
        }
    }
    let mut sidecar = estate.serve().await;
    agent.unwrap().call("work.do", "last", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert!(kinds(&summary, "writer.started") >= 7, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_killed_under_load_again_and_again_loses_nothing_it_answered_on_sqlite() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    killed_under_load(tool, estate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_killed_under_load_again_and_again_loses_nothing_it_answered_on_postgres() {
    let tool = Tool::start().await;
    let estate = on_postgres(&tool, "local").await;
    killed_under_load(tool, estate).await;
}

async fn held_over_a_restart(tool: Tool, estate: Estate) {
    estate.configure(|config| config["limits"]["hold_seconds"] = 3.into());
    let mut sidecar = estate.serve().await;
    let (waiting, sealing) = (sidecar.open().await, sidecar.open().await);
    for agent in [&waiting, &sealing] {
        let held = agent.call("work.held", "h", "{}").await.unwrap_err();
        assert_eq!(held.code, "call.held", "{held:?}");
    }
    sealing.seal().await.unwrap();
    sidecar.kill();
    let mut sidecar = estate.serve().await;
    let mut seen = Vec::new();
    crate::until("the hold to expire", || {
        let waiting = waiting.clone();
        async move { waiting.call("work.held", "h", "{}").await.unwrap_err().code == "call.expired" }
    })
    .await;
    seen.push(waiting.get("h").await.unwrap_err().code);
    assert_eq!(seen, ["call.expired"]);
    waiting.seal().await.unwrap();
    sidecar.stop().await;
    assert_eq!(tool.count(), 0);
    let summary = check(&estate.database, &tool, &estate.receipts);
    let states = ["expired", "cancelled"].map(|state| calls(&summary, state));
    assert_eq!(states, [1, 1], "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_survives_a_crash_and_expires_and_a_seal_cancels_it_on_sqlite() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    held_over_a_restart(tool, estate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_survives_a_crash_and_expires_and_a_seal_cancels_it_on_postgres() {
    let tool = Tool::start().await;
    let estate = on_postgres(&tool, "local").await;
    held_over_a_restart(tool, estate).await;
}
