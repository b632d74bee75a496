//! Whether a gate stays as it is: `cargo bench --bench soak`, ten minutes; `-- --minutes 60` for an hour, `-- sqlite` or
//! `-- postgres` for one store alone, which then has all of the time. `cargo build --release -p wicketgate-verify` first: it
//! verifies what is exported.
//!
//! The program as released, 64 callers, four of them in calls of one to three seconds. A new signed bundle is put in force
//! every 30 s, and every 60 s a sealed run is exported and the bundle verified, by the programs that users have. In the
//! first half of a store's time the gate is left alive: memory and latency are judged there, the last quarter of that half
//! over its second, because a process that was started again has other memory than one that was not. In the second half it
//! is killed every 60 s and once ended in order. At the end the whole ledger is verified and compared, call by call, with what the
//! callers were answered. Exits with 1 if a promise is not kept, and says which.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench may stop at the first surprise, and looks at a clock"
)]

mod agenda;
mod callers;
mod exports;
mod gate;
mod ledger;
mod tool;
mod verdict;
mod windows;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use wicketgate_support::bench::folder::Store;
use wicketgate_support::bench::{Asked, floor};
use wicketgate_support::pg;

use agenda::{Agenda, Event};
use callers::{CALLERS, Callers, RunSeen};
use exports::Exports;
use gate::Gate;
use verdict::Verdict;
use windows::{Ended, Windows};

/// Minutes of a run that names none.
const MINUTES: u64 = 10;

fn main() -> ExitCode {
    let Some(asked) = Asked::read("soak [-- --minutes N] [sqlite postgres]") else {
        return ExitCode::SUCCESS;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // What is dropped here ends every process that was started, also if it is dropped by a panic.
    let verdicts = runtime.block_on(async {
        tokio::select! {
            verdicts = soak(&asked) => Some(verdicts),
            () = interrupted() => None,
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    match verdicts {
        Some(verdicts) => verdict::conclude(&verdicts),
        None => {
            eprintln!("interrupted: nothing is judged");
            ExitCode::FAILURE
        }
    }
}

async fn interrupted() {
    let mut asked = signal(SignalKind::terminate()).unwrap();
    tokio::select! {
        _ = asked.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// One store after the other: two gates and two databases at once would measure each other on a small machine.
async fn soak(asked: &Asked) -> Vec<Verdict> {
    let stores: Vec<&str> =
        ["sqlite", "postgres"].into_iter().filter(|name| asked.wants(name)).collect();
    let minutes = asked.number("--minutes").unwrap_or(MINUTES);
    let each = Duration::from_secs(minutes * 60) / u32::try_from(stores.len().max(1)).unwrap();
    let server = tokio::task::block_in_place(pg::Pg::own_cluster);
    let mut verdicts = Vec::new();
    for name in stores {
        let database = server.database().await;
        let (store, reader) = match name {
            "sqlite" => (Store::Sqlite, None),
            _ => (Store::Postgres(database.writer_url.clone()), Some(&database)),
        };
        let gate = Gate::new(&store, reader, tool::start().await);
        println!("{}", floor::machine(gate.dir(), &database.admin_url).await);
        verdicts.extend(one(gate, each).await);
    }
    verdicts
}

/// The whole of one store.
async fn one(mut gate: Gate, each: Duration) -> Vec<Verdict> {
    gate.start();
    let callers = Arc::new(Callers::new(gate.socket()));
    let mut calling: JoinSet<Vec<RunSeen>> = JoinSet::new();
    for name in 0..CALLERS {
        calling.spawn(Arc::clone(&callers).call_on(name));
    }
    let mut exports = Exports::default();
    let mut windows = Windows::new(gate.name());
    let began = Instant::now();
    // Nothing is due while the gate begins again: what is due at its end is late by so much.
    let mut down = Duration::ZERO;
    for (at, event) in Agenda::of(each) {
        tokio::time::sleep_until((began + down + at).into()).await;
        match event {
            Event::Sample => windows.sample(gate.memory()),
            Event::Window { calm } => {
                windows.end(Ended {
                    at: began.elapsed(),
                    calm,
                    answers: callers.answers(),
                    sizes: gate.sizes().await,
                });
            }
            Event::Reload => gate.reload(),
            Event::Export => exports.begin(&gate, callers.sealed()),
            Event::Kill => down += callers.disturbed(|| gate.kill()),
            Event::Terminate => down += callers.disturbed(|| gate.restart()),
        }
    }
    callers.stop();
    let runs: Vec<RunSeen> = calling.join_all().await.into_iter().flatten().collect();
    windows.rest(callers.answers());
    exports.ended().await;
    gate.stop();
    let found = ledger::read(&gate, &runs).await;
    verdict::judge(&gate, &windows, &exports, &found)
}
