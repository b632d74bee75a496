//! Two processes and one slot, fleets that share a pool, and processes that come and go.

use std::sync::Arc;

use rustix::process::Signal;
use serde_json::Value;

use crate::agent::{Agent, Receipts};
use crate::checker::{Database, calls, check, kinds};
use crate::crash::on_postgres;
use crate::database::through;
use crate::proxy::{Proxy, Way};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use wicketgate_support::pg::{Pg, TestDb};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_the_same_file_is_refused_and_the_first_does_not_notice() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut first = estate.serve().await;
    let agent = first.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    let mut second = estate.start();
    second.ends(75).await;
    assert!(second.said().contains("is in use by another process"), "{}", second.said());
    agent.call("work.do", "b", "{}").await.unwrap();
    let other = first.open().await;
    other.call("work.do", "c", "{}").await.unwrap();
    first.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((calls(&summary, "completed"), kinds(&summary, "writer.started")), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_slept_past_its_lease_is_fenced_by_the_one_that_took_its_slot() {
    let tool = Tool::start().await;
    let estate = on_postgres(&tool, "pool/one").await;
    let Database::Postgres(admin) = &estate.database else { unreachable!() };
    let lease = |config: &mut Value| config["ledger"]["postgres"]["lease_seconds"] = 2.into();
    estate.configure(lease);
    let mut first = estate.serve().await;
    let agent = first.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    tool.hold();
    let caller = agent.clone();
    let call = tokio::spawn(async move { caller.call("work.do", "b", "{}").await });
    tool.entered(1).await;
    first.freeze();
    let newcomer = Estate::postgres(&tool, &estate.writer_url(), admin, "pool/one");
    newcomer.configure(lease);
    // While the lease holds, a newcomer takes another slot; after it ran out, this one.
    let mut second = takes_over(&newcomer, &agent_chain(&estate.receipts)).await;
    tool.release();
    first.signal(Signal::CONT);
    first.ends(75).await;
    assert!(first.said().contains("fenced"), "{}", first.said());
    let answer = crate::within("an answer", call).await.unwrap();
    assert!(answer.is_err(), "released and not on the books: {answer:?}");
    second.open().await.call("work.do", "c", "{}").await.unwrap();
    second.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    let states = ["completed", "unknown"].map(|state| calls(&summary, state));
    assert_eq!(states, [2, 1], "{summary}");
}

pub fn agent_chain(receipts: &Receipts) -> String {
    let line: Value = serde_json::from_str(&receipts.lines()[0]).unwrap();
    line["chain"].as_str().unwrap().to_owned()
}

/// Starts newcomers until one writes this chain.
pub async fn takes_over(estate: &Estate, chain: &str) -> Sidecar {
    for _ in 0..100 {
        // A state of its own each time: it remembers no lease, as a new pod would not.
        let _ = std::fs::remove_dir_all(estate.path("state"));
        let mut sidecar = estate.serve().await;
        let before = estate.receipts.len();
        let agent = sidecar.open().await;
        let line: Value = serde_json::from_str(&estate.receipts.lines()[before]).unwrap();
        if line["chain"] == chain {
            return sidecar;
        }
        agent.seal().await.unwrap();
        sidecar.stop().await;
    }
    panic!("nobody took over {chain}");
}

/// Calls again and again until the gate is gone; counts nothing but answers.
fn load(agent: Agent) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        for i in 0.. {
            let answer = agent.call("work.do", &format!("l-{i}"), "{}").await;
            if answer.is_err_and(|refused| refused.code.is_empty() || refused.code == "shutdown") {
                return;
            }
        }
    })
}

async fn database() -> TestDb {
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    pg.database().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_of_one_deployment_restart_one_by_one_under_load_and_a_dead_one_is_closed() {
    let tool = Tool::start().await;
    let db = database().await;
    let estate = || {
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "shop/agents");
        estate.configure(|config| config["ledger"]["postgres"]["lease_seconds"] = 2.into());
        estate
    };
    let mut receipts = Vec::new();
    let mut fleet = Vec::new();
    let mut callers = Vec::new();
    for _ in 0..3 {
        let estate = estate();
        let sidecar = estate.serve().await;
        receipts.push(estate.receipts.clone());
        callers.push(load(sidecar.open().await));
        fleet.push((sidecar, estate));
    }
    for _ in 0..3 {
        let (mut old, kept) = fleet.remove(0);
        old.stop().await;
        drop(kept);
        let estate = estate();
        let sidecar = estate.serve().await;
        receipts.push(estate.receipts.clone());
        callers.push(load(sidecar.open().await));
        fleet.push((sidecar, estate));
    }
    // One dies for good, in the middle of a call.
    let (mut dead, estate_of_dead) = fleet.remove(0);
    let agent = dead.open().await;
    tool.hold();
    let call = tokio::spawn(async move { agent.call("work.do", "last", "{}").await });
    crate::until("the last call inside the tool", || async { tool.count_of("last") == 1 }).await;
    dead.kill();
    tool.release();
    assert!(call.await.unwrap().is_err());
    let line: Value =
        serde_json::from_str(estate_of_dead.receipts.lines().last().unwrap()).unwrap();
    let newcomer = estate();
    let mut heir = takes_over(&newcomer, line["chain"].as_str().unwrap()).await;
    receipts.push(newcomer.receipts.clone());
    heir.stop().await;
    for (mut sidecar, _estate) in fleet {
        sidecar.stop().await;
    }
    for caller in callers {
        crate::within("the callers' end", caller).await.unwrap();
    }
    let all = Receipts::all(&receipts);
    let summary = check(&Database::Postgres(db.admin_url), &tool, &all);
    assert!(calls(&summary, "unknown") >= 1, "{summary}");
    assert!(summary["chains"].as_u64().unwrap() <= 4, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_short_lives_four_at_once_leave_five_chains_at_most_and_nothing_open() {
    let tool = Tool::start().await;
    let db = database().await;
    let next = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let receipts = Receipts::default();
    let lives: Vec<_> = (0..4)
        .map(|_| {
            let (tool, db) = (tool.clone(), db.clone());
            let (next, receipts) = (Arc::clone(&next), receipts.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    if number >= 50 {
                        return;
                    }
                    let url = (&db.writer_url, &db.admin_url);
                    let estate = Estate::postgres(&tool, url.0, url.1, "shop/jobs");
                    let mut sidecar = estate.serve().await;
                    let agent = sidecar.open().await;
                    for call in 0..3 {
                        agent.call("work.do", &format!("j-{call}"), "{}").await.unwrap();
                    }
                    agent.seal().await.unwrap();
                    sidecar.stop().await;
                    receipts.add(&estate.receipts);
                }
            })
        })
        .collect();
    for life in lives {
        life.await.unwrap();
    }
    let summary = check(&Database::Postgres(db.admin_url), &tool, &receipts);
    assert!(summary["chains"].as_u64().unwrap() <= 5, "{summary}");
    assert_eq!(calls(&summary, "completed"), 150, "{summary}");
    assert_eq!(kinds(&summary, "run.sealed"), 50, "{summary}");
    assert_eq!(summary["runs_open"], 0, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_while_the_gate_opens_does_not_leave_it_shut() {
    let tool = Tool::start().await;
    let TestDb { admin_url, writer_url, .. } = database().await;
    let proxy = Proxy::to(Pg::cluster().port()).await;
    let url = through(&writer_url, Pg::cluster().port(), proxy.port);
    let estate = Estate::postgres(&tool, &url, &admin_url, "local");
    // The chain is in hand; from its next statement on the store is away.
    let mut sidecar = estate.start();
    crate::until("the slot", || {
        let leased = estate.path("state/lease").exists();
        async move { leased }
    })
    .await;
    proxy.asked(Way::Held);
    sidecar.not_ready("").await;
    proxy.caught().await;
    crate::until("six seconds without a store, or a readiness that says so", || async {
        sidecar.readiness().await.is_some_and(|(_, text)| {
            text.contains("ledger: failing") || text.contains("ledger: starting")
        })
    })
    .await;
    proxy.asked(Way::Open);
    sidecar.ready().await;
    sidecar.open().await.call("work.do", "a", "{}").await.unwrap();
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}
