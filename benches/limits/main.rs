//! What limits cost: `cargo bench --bench limits`.
//!
//! One gate inside this process over a SQLite file beside the build (`WICKETGATE_BENCH_DIR` for another
//! place), a tool that does nothing, 32 callers in one run. Three lines, each a ratio of two figures that
//! were measured by turns in one run: a shared pool (target 0.8 of the calls without one), a T0 read with
//! batched outcomes over T2 (target 1.4), and one caller alone for the same.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench may stop at the first surprise, and looks at a clock"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wicketgate::enforce::Bounds;
use wicketgate::ledger::sqlite::{SqlitePools, SqliteStore};
use wicketgate_support::bench;
use wicketgate_support::in_process::{Gate, pool};

/// How long one figure is measured, and how often by turns.
const SPAN: Duration = Duration::from_secs(4);
const TURNS: usize = 3;
const CALLERS: usize = 32;

/// One way of being called.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    tool: &'static str,
    shared: bool,
    batch: bool,
    callers: usize,
}

const PLAIN: Way =
    Way { name: "T2, no pool", tool: "t2", shared: false, batch: false, callers: CALLERS };
const POOLED: Way = Way { name: "T2, shared pool", shared: true, ..PLAIN };
const BATCHED: Way = Way { name: "T0, batched", tool: "t0", batch: true, ..PLAIN };
const ALONE: Way = Way { name: "T2, one caller", callers: 1, ..PLAIN };
const ALONE_BATCHED: Way = Way { name: "T0, batched, one caller", callers: 1, ..BATCHED };

/// Calls per second.
async fn measure(dir: &Path, way: Way) -> f64 {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let path = dir.path().join("ledger.sqlite");
    let store = Arc::new(SqliteStore::open(&path).await.unwrap());
    let mut bounds = Bounds { batch_t0: way.batch, ..Bounds::default() };
    if way.shared {
        bounds.pools = vec![pool(1 << 40)];
        bounds.store = Some(Arc::new(SqlitePools::open(&path).await.unwrap()));
    }
    let ran = Arc::new(AtomicU64::new(0));
    let gate = Arc::new(Gate::over(store, bounds, &ran).await);
    let run = gate.run().await;
    let began = Instant::now();
    let callers = (0..way.callers).map(|_| {
        let (gate, run) = (Arc::clone(&gate), Arc::clone(&run));
        tokio::spawn(async move {
            while began.elapsed() < SPAN {
                gate.call_tool(&run, way.tool, "{}").await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let rate = ran.load(Ordering::SeqCst) as f64 / began.elapsed().as_secs_f64();
    gate.end().await;
    rate
}

/// The middle of several turns, both ways by turns.
async fn compare(dir: &Path, one: Way, other: Way, target: f64) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        a.push(measure(dir, one).await);
        b.push(measure(dir, other).await);
    }
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (a, b) = (a[TURNS / 2], b[TURNS / 2]);
    println!(
        "{:<24} {a:>8.0} /s   {:<24} {b:>8.0} /s   ratio {:.2} (target {target})",
        one.name,
        other.name,
        b / a
    );
}

fn main() {
    bench::run("limits", async |_| {
        let dir = bench::dir();
        compare(&dir, PLAIN, POOLED, 0.8).await;
        compare(&dir, PLAIN, BATCHED, 1.4).await;
        compare(&dir, ALONE, ALONE_BATCHED, 1.4).await;
    });
}
