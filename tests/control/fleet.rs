//! Many gates on one database hear one word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use wicketgate::control::{Action, answer, postgres as list};
use wicketgate::enforce;
use wicketgate::ledger::postgres::{Options, PostgresStore};

use crate::control::{agent, postgres_list, put};
use crate::road::{Bench, Serving, call};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::pg::{Pg, TestDb};

/// Roads of this process; with the real processes fifty gates.
const ROADS: usize = 47;
const PROCESSES: usize = 3;

async fn road(db: &TestDb, bench: &Arc<Bench>) -> Serving {
    let store = PostgresStore::connect(&db.writer_url, Options::default()).await.unwrap();
    let orders = list::PostgresControl::lazy(&db.writer_url, Options::default()).unwrap();
    Serving::start(Arc::new(store), bench, enforce::Settings::default(), |leased| {
        orders.speak_for(&leased.key);
        Arc::new(orders)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_order_stops_fifty_gates_and_none_starts_a_call_after_the_answer() {
    // So many gates would take the connections of other programs.
    let pg = tokio::task::spawn_blocking(Pg::own_cluster).await.unwrap();
    let db = pg.database().await;
    let (bench, tool) = (Bench::new(), Tool::start().await);
    let mut roads = Vec::new();
    for _ in 0..ROADS {
        roads.push(road(&db, &bench).await);
    }
    let estates: Vec<Estate> = (0..PROCESSES)
        .map(|_| Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local"))
        .collect();
    let sidecars = join_all(estates.iter().map(Estate::serve)).await;
    tool.hold();
    bench.open.send_replace(false);
    // One call waits at each tool, and each agent asks for the next as soon as it has an answer.
    let over = Arc::new(AtomicBool::new(false));
    let mut asking = Vec::new();
    for serving in &roads {
        let (road, run) = (Arc::clone(&serving.road), serving.open().await.unwrap());
        let over = Arc::clone(&over);
        asking.push(tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                drop(call(&road, &run, "t.two").await);
                crate::pause().await;
            }
        }));
    }
    for sidecar in &sidecars {
        let (run, over) = (sidecar.open().await, Arc::clone(&over));
        asking.push(tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                drop(run.call("work.do", "", "{}").await);
                crate::pause().await;
            }
        }));
    }
    bench.reaches(u64::try_from(ROADS).unwrap()).await;
    tool.entered(PROCESSES).await;
    let operator = postgres_list(&db.operator_url).await;
    let seq = put(&*operator, Action::Revoke, agent()).await;
    let heard = answer::wait(&*operator, seq, crate::waiting::PATIENCE).await.unwrap();
    let before = (bench.count(), tool.count());
    assert_eq!(heard.unreachable, []);
    assert_eq!(heard.reports.len(), ROADS + PROCESSES);
    for report in &heard.reports {
        let told = report.done.to_serde();
        assert_eq!((&told["stopped_count"], &told["left"]), (&1.into(), &0.into()), "{told}");
    }
    // Every agent asks again, and a new run is not to be had.
    for serving in &roads {
        assert_eq!(serving.open().await.unwrap_err().1, "control.revoked");
    }
    for estate in &estates {
        let opened = crate::agent::Agent::try_open(&estate.socket(), &estate.receipts).await;
        assert!(opened.is_err());
    }
    over.store(true, Ordering::SeqCst);
    crate::within("every agent", join_all(asking)).await;
    assert_eq!((bench.count(), tool.count()), before, "a call started after the answer");
}
