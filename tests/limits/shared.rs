//! One pool and many gates: the store's own rules, and ten gates with a hundred callers each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wicketgate::ledger::postgres::{Options, PostgresPools};
use wicketgate::ledger::sqlite::{SqlitePools, SqliteStore};
use wicketgate::limits::memory::Memory;
use wicketgate::limits::pool::{Hold, PoolRequest, Pools};

use crate::in_process::{Gate, pool};
use wicketgate_support::pg::{Pg, TestDb};

async fn database() -> TestDb {
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    pg.database().await
}

async fn file(dir: &Path) -> SqlitePools {
    let path = dir.join("ledger.sqlite");
    SqliteStore::open(&path).await.unwrap().close().await.unwrap();
    SqlitePools::open(&path).await.unwrap()
}

fn ask(holder: &str, serial: u64, need: u64) -> PoolRequest {
    let (pool, holder) = ("p".into(), holder.into());
    PoolRequest { pool, starts: 60_000, forget: 0, size: 100, need, holder, serial }
}

/// What every store of pools does.
async fn conforms(store: &dyn Pools) {
    let lease = async |holder: &str, serial, need| {
        let lease = store.lease(&ask(holder, serial, need)).await.unwrap();
        (lease.granted, lease.spare)
    };
    assert_eq!(lease("a", 1, 1).await, (25, 75), "a quarter for one gate");
    assert_eq!(lease("a", 1, 1).await, (25, 75), "the same question, the same answer");
    assert_eq!(lease("b", 1, 1).await, (9, 66), "an eighth where there are two");
    assert_eq!(lease("b", 2, 40).await, (40, 26), "what is needed");
    assert_eq!(lease("c", 1, 27).await, (0, 26), "all or nothing");
    store.give_back(&ask("a", 1, 1), 10).await.unwrap();
    assert_eq!(lease("c", 2, 36).await, (36, 0));
    assert_eq!(lease("a", 2, 1).await, (0, 0));
    // Another window is another pool; and what is over may be forgotten.
    let next = PoolRequest { starts: 120_000, forget: 120_000, ..ask("a", 3, 1) };
    assert_eq!(store.lease(&next).await.unwrap().granted, 25);
    assert_eq!(lease("a", 4, 1).await.0, 25, "the old window was forgotten");

    let hold = async |holder: &str, want, now| {
        let (pool, holder, size, term_ms) = ("c".into(), holder.into(), 3, 60_000);
        let hold = Hold { pool, size, holder, want, term_ms, now };
        store.hold(&hold).await.unwrap().granted
    };
    assert_eq!(hold("a", 2, 0).await, 2);
    assert_eq!(hold("b", 2, 0).await, 0, "only one is left");
    assert_eq!(hold("b", 1, 0).await, 1);
    assert_eq!(hold("a", 3, 0).await, 0);
    assert_eq!(hold("a", 1, 0).await, 1, "fewer is always granted");
    assert_eq!(hold("b", 2, 0).await, 2);
    assert_eq!(hold("a", 0, 0).await, 0);
    assert_eq!(hold("b", 3, 0).await, 3);
}

#[tokio::test]
async fn every_store_leases_and_holds_by_the_same_rules() {
    let dir = tempfile::tempdir().unwrap();
    conforms(&Memory::default()).await;
    conforms(&file(dir.path()).await).await;
    let db = database().await;
    conforms(&PostgresPools::lazy(&db.writer_url, Options::default()).unwrap()).await;
    // Another tenant's pools are others.
    conforms(&PostgresPools::lazy(&db.other_writer_url, Options::default()).unwrap()).await;
}

#[tokio::test]
async fn what_was_leased_is_still_leased_after_the_file_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(file(dir.path()).await.lease(&ask("a", 1, 90)).await.unwrap().granted, 90);
    assert_eq!(file(dir.path()).await.lease(&ask("b", 1, 11)).await.unwrap().granted, 0);
}

const UNITS: u64 = 1000;

/// Every caller of every gate calls until it is refused; every tenth call is denied by the policy.
async fn all_call(gates: Vec<Gate>, count: &AtomicU64) -> Vec<Gate> {
    let before = count.load(Ordering::SeqCst);
    let gates: Vec<Arc<Gate>> = gates.into_iter().map(Arc::new).collect();
    let mut callers = Vec::new();
    for gate in &gates {
        let run = gate.run().await;
        for caller in 0..100 {
            let (gate, run) = (Arc::clone(gate), Arc::clone(&run));
            callers.push(tokio::spawn(async move {
                let mut ran = 0_u64;
                for i in caller.. {
                    let denied = i % 10 == 0;
                    let args = if denied { r#"{"deny":true}"# } else { "{}" };
                    match gate.call(&run, args).await {
                        Ok(_) if denied => panic!("the policy denies this"),
                        Ok(_) => ran += 1,
                        Err(fault) if fault.detail == "limit.pool.shared" => return ran,
                        // It ran, and its outcome was not on the books in time: a slow machine.
                        Err(fault) if fault.code.as_str() == "call.unknown" => ran += 1,
                        // The store is asked by many: it may be asked again.
                        Err(fault) if fault.receipt.is_none() => {}
                        Err(fault) => assert!(denied && fault.code.as_str() == "policy.error"),
                    }
                }
                ran
            }));
        }
    }
    let mut told = 0;
    for caller in callers {
        told += caller.await.unwrap();
    }
    assert_eq!(
        before + told,
        count.load(Ordering::SeqCst),
        "what ran was told, and what was told ran"
    );
    gates.into_iter().map(|gate| Arc::into_inner(gate).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_gates_with_a_hundred_callers_each_run_exactly_as_many_calls_as_a_file_has_units() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    SqliteStore::open(&path).await.unwrap().close().await.unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let mut gates = Vec::new();
    for _ in 0..10 {
        let store = Arc::new(SqlitePools::open(&path).await.unwrap());
        gates.push(Gate::start(pool(UNITS), store, &count).await);
    }
    all_call(gates, &count).await;
    assert_eq!(count.load(Ordering::SeqCst), UNITS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_gates_with_a_hundred_callers_each_run_exactly_as_many_calls_as_a_database_has_units() {
    let db = database().await;
    let store = || {
        let store = PostgresPools::lazy(&db.writer_url, Options::default()).unwrap();
        Arc::new(store)
    };
    let count = Arc::new(AtomicU64::new(0));
    let mut gates = Vec::new();
    for _ in 0..10 {
        gates.push(Gate::start(pool(UNITS), store(), &count).await);
    }
    all_call(gates, &count).await;
    assert_eq!(count.load(Ordering::SeqCst), UNITS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quota_returned_by_an_ended_gate_is_reused_and_quota_held_by_a_dead_one_is_not() {
    let store: Arc<Memory> = Arc::default();
    let count = Arc::new(AtomicU64::new(0));
    let ended = Gate::start(pool(100), Arc::clone(&store) as _, &count).await;
    let run = ended.run().await;
    ended.call(&run, "{}").await.unwrap();
    ended.end().await;
    let dead = Gate::start(pool(100), Arc::clone(&store) as _, &count).await;
    let run = dead.run().await;
    dead.call(&run, "{}").await.unwrap();
    let last = Gate::start(pool(100), Arc::clone(&store) as _, &count).await;
    all_call(vec![last], &count).await;
    // One was spent and 24 were given back; then 12 of 99 were leased by the dead one, where two
    // gates draw, and one of those was spent.
    assert_eq!(count.load(Ordering::SeqCst), 1 + 1 + 87);
    drop(dead);
}
