//! What judging the past costs: `cargo bench --bench policy`, `-- --quick` with 20,000 inputs.
//!
//! A SQLite ledger beside the build (`WICKETGATE_BENCH_DIR` for another place) with 1,000,000 recorded decisions, made by a
//! gate inside this process. Then, in the same run, on one thread and on as many as there are cores: the engine
//! alone over such inputs, and `policy backtest` over all of them. The figure is decisions per second and core as
//! a ratio to the engine alone on as many threads; the thread that reads the ledger is not counted as a core.
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
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use wicketgate::enforce::{Bounds, Thread};
use wicketgate::evidence::backtest::{
    self, BacktestProgress, BacktestQuery, Baseline, Candidate, Comparison,
};
use wicketgate::ledger::sqlite::{SqliteReader, SqliteStore};
use wicketgate::ledger::store::{LedgerReader as _, PayloadRef};
use wicketgate::policy::PolicyEngine as _;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;
use wicketgate_support::bench::{self, policies};
use wicketgate_support::in_process::Gate;

const INPUTS: usize = 1_000_000;
const INPUTS_QUICK: usize = 20_000;
/// How long the engine alone is measured.
const SPAN: Duration = Duration::from_secs(5);
/// Those who ask at once share a commit.
const CALLERS: usize = 512;

struct Nobody;

impl BacktestProgress for Nobody {
    fn at(&self, _: u64, _: u64, _: u64) {}
}

/// Fifteen rules in three layers: those of `--bench road`.
fn bundle() -> Bundle {
    let files = policies::FIFTEEN.iter().chain([&policies::META]);
    let files = files.map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    Bundle::of_files(files.collect()).unwrap()
}

/// Records so many decisions.
async fn write(path: &Path, inputs: usize) {
    let store = Arc::new(SqliteStore::open(path).await.unwrap());
    let gate = Arc::new(Gate::over(store, Bounds::default(), &Arc::new(AtomicU64::new(0))).await);
    let callers = (0..CALLERS).map(|caller| {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            // A run of its own: the manifest lets one have 100,000 calls.
            let run = gate.run_of(&Thread::Named(format!("caller-{caller}"))).await;
            for n in (caller..inputs).step_by(CALLERS) {
                let args = format!(
                    r#"{{"amount":{},"title":"ticket {n}","path":"src/module/file_{n}.rs","body":"{}"}}"#,
                    n % 3000,
                    "x".repeat(120)
                );
                gate.call_tool(&run, "t2", &args).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    gate.end().await;
}

/// Some of the recorded inputs.
async fn some(reader: &SqliteReader) -> Vec<Vec<u8>> {
    let chain = reader.chains().await.unwrap().remove(0).chain;
    let rows = reader.entries(&chain, 0, 2000).await.unwrap();
    let mut inputs = Vec::new();
    for row in rows {
        let entry = wicketgate::record::Entry::parse(&row.body).unwrap();
        for said in
            entry.draft.commit.iter().filter(|c| c.role == wicketgate::record::Role::PolicyInput)
        {
            inputs.extend(
                reader
                    .payload(&chain, &PayloadRef::of(row.seq, &said.c.0))
                    .await
                    .unwrap()
                    .map(|row| row.body),
            );
        }
    }
    inputs
}

/// Decisions per second and core of the engine alone, on so many threads at once: cores share caches, and a
/// thread beside another is not as fast as one alone.
fn alone(bundle: &Bundle, inputs: &[Vec<u8>], threads: usize) -> f64 {
    let engine = RegoEngine::new(bundle, Duration::from_millis(100)).unwrap();
    let began = Instant::now();
    let one = || {
        let mut made = 0_u64;
        while began.elapsed() < SPAN {
            for input in inputs {
                drop(std::hint::black_box(engine.decide(input)));
                made += 1;
            }
        }
        made as f64 / began.elapsed().as_secs_f64()
    };
    let rates: Vec<f64> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    rates.iter().sum::<f64>() / threads as f64
}

fn main() {
    let Some(asked) = bench::Asked::read("policy [-- --quick]") else { return };
    let inputs = if asked.quick() { INPUTS_QUICK } else { INPUTS };
    let dir = tempfile::tempdir_in(bench::dir()).unwrap();
    let path = dir.path().join("ledger.sqlite");
    let many = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let began = Instant::now();
    many.block_on(write(&path, inputs));
    println!("{inputs} decisions written in {:.0} s", began.elapsed().as_secs_f64());
    drop(many);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reader = runtime.block_on(SqliteReader::open(&path)).unwrap();
    let bundle = bundle();
    let some = runtime.block_on(some(&reader));
    let candidate = Candidate::new(&bundle).unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut jobs = vec![1, cores];
    jobs.dedup();
    for jobs in jobs {
        let floor = alone(&bundle, &some, jobs);
        println!("engine alone, {jobs} thread(s)  {floor:>10.0} /s and core");
        let bench = Comparison { new: &candidate, old: Baseline::Recorded, vault: None, jobs };
        let (began, mut sink) = (Instant::now(), std::io::sink());
        let found = backtest::run(
            &runtime,
            &reader,
            &BacktestQuery::default(),
            &bench,
            (&Nobody, &mut sink),
        )
        .unwrap();
        assert_eq!(found.tally.judged, u64::try_from(inputs).unwrap());
        let rate = found.tally.judged as f64 / began.elapsed().as_secs_f64();
        println!(
            "backtest, {jobs} thread(s)      {rate:>10.0} /s   per core {:>8.0}   ratio {:.2} of the engine alone",
            rate / jobs as f64,
            rate / jobs as f64 / floor
        );
    }
}
