//! What evidence costs: writing it, verifying it, exporting it, and what a large ledger changes.
//!
//! `cargo bench --bench evidence` prints one table; `-- --quick` prints it from short measurements;
//! `-- verify large --entries 10000000` measures only what is named, with a ledger of that size. Nothing
//! here asserts a time. See benches/README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a measurement may stop at the first surprise, and prints"
)]

mod read;
mod write;
use std::time::Duration;

use wicketgate_support::bench::table::Table;
use wicketgate_support::bench::{self, Asked, floor};
use wicketgate_support::pg;

/// Which parts are measured, for how long each, and how large the large ledger is.
#[derive(Debug)]
pub struct Plan {
    /// What was asked for.
    pub asked: Asked,
    /// One measurement.
    pub each: Duration,
    /// Before each measurement.
    pub warm: Duration,
    /// Entries of the large ledger.
    pub entries: u64,
}

impl Plan {
    fn of(asked: Asked) -> Self {
        let (each, warm, entries) =
            if asked.quick() { (600, 200, 20_000) } else { (4000, 1000, 1_000_000) };
        let entries = asked.number("--entries").unwrap_or(entries);
        let [each, warm] = [each, warm].map(Duration::from_millis);
        Self { asked, each, warm, entries }
    }
}

fn main() {
    let usage = "evidence [-- --quick] [verify proofs export writer large result] [--entries N]";
    bench::run(usage, async |asked| measure(&Plan::of(asked)).await);
}

async fn measure(plan: &Plan) {
    let mut table = Table::default();
    let dir = tempfile::tempdir().unwrap();
    let database = pg::Pg::cluster().database().await;
    table.say(&floor::machine(dir.path(), &database.admin_url).await);
    if plan.asked.wants("verify") {
        read::verify(plan, &mut table);
    }
    if plan.asked.wants("proofs") || plan.asked.wants("export") {
        read::large(plan, dir.path(), &mut table).await;
    }
    if plan.asked.wants("writer") {
        write::batches(plan, dir.path(), &mut table).await;
    }
    if plan.asked.wants("large") {
        write::growth(plan, dir.path(), &mut table).await;
    }
    if plan.asked.wants("result") {
        write::beside_large_results(plan, dir.path(), &mut table).await;
    }
    table.say(&floor::after(dir.path()));
    table.finish();
}
