//! What the gate adds to a request to a model, beside the same request without it, in the same run.
//!
//! `cargo bench --bench llm` prints one table; `-- --quick` prints it with fewer streams and short
//! measurements; `-- first streams` measures only what is named. Nothing here asserts a time, and every
//! answer is checked. See benches/README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a measurement may stop at the first surprise, and prints"
)]

mod beside;
mod client;
mod conversation;
mod first;
mod folder;
mod provider;
mod streams;

use std::time::Duration;

use wicketgate_support::bench::gate::{FarSide, MeasuredGate};
use wicketgate_support::bench::load::Seen;
use wicketgate_support::bench::table::Table;
use wicketgate_support::bench::{self, Asked, floor, tool};

use folder::Folder;

/// What is measured, and for how long each.
#[derive(Debug)]
pub struct Plan {
    asked: Asked,
    /// One measurement.
    pub each: Duration,
    /// Before each measurement.
    pub warm: Duration,
    /// Streams at once, one measurement each.
    pub streams: &'static [usize],
    /// How often a stream without a pace is measured.
    pub turns: usize,
}

impl Plan {
    fn of(asked: Asked) -> Self {
        let quick = asked.quick();
        let (each, warm) = if quick { (1500, 300) } else { (6000, 1000) };
        let [each, warm] = [each, warm].map(Duration::from_millis);
        let streams: &[usize] = if quick { &[1, 50] } else { &[1, 100, 1000] };
        Self { asked, each, warm, streams, turns: if quick { 3 } else { 7 } }
    }
}

/// What is there to be measured.
#[derive(Debug)]
pub struct Scene {
    /// The model's provider.
    pub provider: FarSide,
    /// The gate in front of it.
    pub gate: MeasuredGate,
    /// The folder of the gate.
    pub folder: Folder,
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("provider") {
        return provider::serve();
    }
    let usage = "llm [-- --quick] [first throughput streams]";
    bench::run(usage, async |asked| measure(&Plan::of(asked)).await);
}

async fn measure(plan: &Plan) {
    let mut table = Table::default();
    let provider = provider::start();
    let folder = Folder::new(provider.address, tool::start().await);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    table.say(&format!("machine: {cores} cores; SQLite synchronous FULL"));
    table.say(&format!("before: {}", floor::after(folder.dir())));
    let scene = Scene { provider, gate: folder.serve(), folder };
    if plan.asked.wants("first") {
        first::measure(plan, &scene, &mut table).await;
    }
    if plan.asked.wants("throughput") {
        streams::throughput(plan, &scene, &mut table).await;
    }
    if plan.asked.wants("streams") {
        streams::measure(plan, &scene, &mut table).await;
    }
    scene.gate.stop();
    table.say(&format!("after: {}", floor::after(scene.folder.dir())));
    table.finish();
}

/// Milliseconds.
pub fn ms(of: Duration) -> f64 {
    of.as_secs_f64() * 1e3
}

/// Milliseconds that one median has beyond the other; less than none on a machine that is noisy.
pub fn added(through: &Seen, direct: &Seen) -> f64 {
    ms(through.p50) - ms(direct.p50)
}
