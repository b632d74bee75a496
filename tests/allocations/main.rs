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
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use wicketgate::enforce::{Bounds, Policy, Run};
use wicketgate::ledger::reader::LedgerReader as _;
use wicketgate::ledger::sqlite::{SqliteReader, SqliteStore};
use wicketgate::ledger::store::{EntryRow, PayloadRef};
use wicketgate::policy::PolicyEngine;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;
use wicketgate::record::{Entry, Role};
use wicketgate_support::bench::policies::write;
use wicketgate_support::in_process::{Gate, REPEATS};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for every test of this program: one at a time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const CALLS: usize = 400;
/// A tenth more than was counted when this was written: 536, of which the guard makes 112 in arguments and result, and 324
/// bytes.
const MOST: usize = 590;
const KEPT: usize = 512;
/// A tenth more than was counted: 2,528 for a call of a run that has read something, with the engine's own.
const READING: usize = 2780;

/// Rules in three layers.
const RULES: &[(&str, &str)] = &[
    ("org/main.rego", include_str!("org.rego")),
    ("team/main.rego", include_str!("team.rego")),
    ("agent/main.rego", include_str!("agent.rego")),
];

fn engine(dir: &Path) -> Arc<RegoEngine> {
    write(&dir.join("policy"), RULES);
    let bundle = Bundle::load(&dir.join("policy")).unwrap();
    Arc::new(RegoEngine::new(&bundle, Duration::from_secs(9)).unwrap())
}

/// A road over a SQLite file.
async fn gate(dir: &Path, engine: &Arc<RegoEngine>) -> Gate {
    let store = Arc::new(SqliteStore::open(&dir.join("ledger.sqlite")).await.unwrap());
    let gate = Gate::over(store, Bounds::default(), &Arc::default()).await;
    let engine: Arc<dyn PolicyEngine> = Arc::<RegoEngine>::clone(engine);
    gate.road.activate(Policy::unsigned(engine, "bench", "2"), None).await.unwrap();
    gate
}

/// The last input that the gate gave its engine.
async fn input(dir: &Path) -> Vec<u8> {
    let reader = SqliteReader::open(&dir.join("ledger.sqlite")).await.unwrap();
    let chain = reader.chains().await.unwrap().remove(0).chain;
    let entries = reader.entries(&chain, 0, 64).await.unwrap();
    let read = |row: &EntryRow| Entry::parse(&row.body).unwrap();
    let decided = entries.iter().map(read).find(|entry| entry.draft.verdict.is_some()).unwrap();
    let input = decided.draft.committed(Role::PolicyInput).unwrap().c.0;
    let at = PayloadRef::of(decided.seq, &input);
    reader.payload(&chain, &at).await.unwrap().unwrap().body
}

/// Allocations, those that grow one too, and what stays of the bytes.
fn counted(change: &Stats, calls: usize) -> (usize, usize) {
    let kept = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    ((change.allocations + change.reallocations) / calls, kept / calls)
}

async fn calls(gate: &Gate, from: usize) {
    let run = gate.run().await;
    let text = "x".repeat(256);
    for n in from..from + CALLS {
        gate.call(&run, &format!(r#"{{"n":{n},"text":"{text}"}}"#)).await.unwrap();
    }
}

/// Calls whose answers others may have written, each with a text of its own.
async fn reads(gate: &Gate, run: &Arc<Run>, from: usize) {
    for n in from..from + CALLS {
        let text = format!(
            "note {n}: the {n}th delivery for the workshop arrives on Tuesday, call {n}4417"
        );
        let args = format!(r#"{{"n":{n},"text":"{text}"}}"#);
        gate.call_tool(run, REPEATS, &args).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_a_run_that_has_read_much_allocates_no_more_often_than_one_of_a_run_that_read_little()
 {
    let _turn = TURN.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let gate = gate(dir.path(), &engine(dir.path())).await;
    let run = gate.run().await;
    let mut counts = Vec::new();
    for round in 0..4 {
        let region = Region::new(COUNTING);
        reads(&gate, &run, round * CALLS).await;
        counts.push(counted(&region.change(), CALLS).0);
    }
    gate.end().await;
    println!("one call: {counts:?} allocations");
    assert!(counts[3] <= counts[1] + counts[1] / 20, "{counts:?}");
    assert!(counts[3] <= READING, "{counts:?}, at most {READING}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_allocates_no_more_often_than_it_did() {
    let _turn = TURN.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let gate = gate(dir.path(), &engine).await;
    calls(&gate, 0).await;
    let region = Region::new(COUNTING);
    calls(&gate, CALLS).await;
    let (all, kept) = counted(&region.change(), CALLS);
    gate.end().await;
    let input = input(dir.path()).await;
    let region = Region::new(COUNTING);
    for _ in 0..CALLS {
        engine.decide_naming(&input).unwrap();
    }
    let (of_engine, _) = counted(&region.change(), CALLS);
    let own = all.saturating_sub(of_engine);
    println!("one call: {own} allocations, and {of_engine} of the engine; {kept} bytes kept");
    assert!(own <= MOST, "{own} allocations for one call beside the engine's, at most {MOST}");
    // What a call leaves behind is its place in the run: nothing grows with what it carried.
    assert!(kept <= KEPT, "{kept} bytes kept for one call, at most {KEPT}");
}
