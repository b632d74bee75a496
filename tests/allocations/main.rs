//! How often a governed call asks the allocator for memory. A program of its own, because its allocator counts for all of
//! its threads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may stop at the first surprise"
)]

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wicketgate::enforce::{Bounds, Policy};
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;
use wicketgate_support::bench::policies::write;
use wicketgate_support::in_process::Gate;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: usize = 400;

/// Rules in three layers.
const RULES: &[(&str, &str)] = &[
    ("org/main.rego", include_str!("org.rego")),
    ("team/main.rego", include_str!("team.rego")),
    ("agent/main.rego", include_str!("agent.rego")),
];

/// A road over a SQLite file, that judges by the rules here.
async fn gate(dir: &std::path::Path) -> Gate {
    let store = Arc::new(SqliteStore::open(&dir.join("ledger.sqlite")).await.unwrap());
    let gate = Gate::over(store, Bounds::default(), &Arc::default()).await;
    write(&dir.join("policy"), RULES);
    let bundle = Bundle::load(&dir.join("policy")).unwrap();
    let engine = Arc::new(RegoEngine::new(&bundle, Duration::from_secs(9)).unwrap());
    gate.road.activate(Policy::unsigned(engine, "bench", "2"), None).await.unwrap();
    gate
}

async fn calls(gate: &Gate, from: usize) {
    let run = gate.run().await;
    let text = "x".repeat(256);
    for n in from..from + CALLS {
        gate.call(&run, &format!(r#"{{"n":{n},"text":"{text}"}}"#)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_allocates_no_more_often_than_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let gate = gate(dir.path()).await;
    calls(&gate, 0).await;
    let region = Region::new(COUNTING);
    calls(&gate, CALLS).await;
    let change = region.change();
    gate.end().await;
    let each = (change.allocations + change.reallocations) / CALLS;
    let bytes = change.bytes_allocated / CALLS;
    println!("{each} allocations and {bytes} bytes for one call");
    assert!(each <= MOST, "{each} allocations for one call, at most {MOST}");
    // What a call leaves behind is its place in the run: nothing grows with what it carried.
    let kept = change.bytes_allocated.saturating_sub(change.bytes_deallocated) / CALLS;
    assert!(kept <= KEPT, "{kept} bytes kept for one call, at most {KEPT}");
}

/// Measured: see below. The engine makes most of them.
const MOST: usize = 3000;
const KEPT: usize = 2048;
