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

#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::needless_pass_by_value,
    reason = "shared with tests"
)]
#[path = "../../tests/evidence/books.rs"]
mod books;
#[allow(dead_code, reason = "the other bench uses more of it")]
#[path = "../road/floor.rs"]
mod floor;
#[allow(dead_code, reason = "the other bench uses more of it")]
#[path = "../road/load.rs"]
mod load;
#[allow(dead_code, unreachable_pub, reason = "tests use more of it")]
#[path = "../../tests/support/pg.rs"]
mod pg;
mod read;
#[allow(dead_code, reason = "the other bench uses more of it")]
#[path = "../road/table.rs"]
mod table;
mod write;
#[allow(dead_code, reason = "the other bench uses more of it")]
#[path = "../road/writer.rs"]
mod writer;

use std::time::Duration;

use table::Table;

/// Which parts are measured, for how long each, and how large the large ledger is.
#[derive(Debug)]
pub struct Plan {
    only: Vec<String>,
    /// One measurement.
    pub each: Duration,
    /// Before each measurement.
    pub warm: Duration,
    /// Entries of the large ledger.
    pub entries: u64,
}

impl Plan {
    fn read(args: &[String]) -> Self {
        let quick = args.iter().any(|a| a == "--quick");
        let (each, warm, entries) =
            if quick { (600, 200, 20_000) } else { (4000, 1000, 1_000_000) };
        let asked = args.iter().position(|a| a == "--entries").and_then(|at| args.get(at + 1));
        let asked = asked.and_then(|n| n.parse().ok());
        let part = |a: &&String| !a.starts_with('-') && a.parse::<u64>().is_err();
        Self {
            only: args.iter().filter(part).cloned().collect(),
            each: Duration::from_millis(each),
            warm: Duration::from_millis(warm),
            entries: asked.unwrap_or(entries),
        }
    }

    /// Whether this part is measured.
    pub fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| o == part)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` runs this too, without `--bench`: then there is nothing to do.
    if !args.iter().any(|a| a == "--bench") {
        println!(
            "run it with: cargo bench --bench evidence [-- --quick] [verify proofs export writer large result] [--entries N]"
        );
        return;
    }
    let plan = Plan::read(&args);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(&plan));
    runtime.shutdown_timeout(Duration::from_secs(1));
}

async fn measure(plan: &Plan) {
    let mut table = Table::default();
    let dir = tempfile::tempdir().unwrap();
    let database = pg::Pg::cluster().database().await;
    table.say(&floor::machine(dir.path(), &database.admin_url).await);
    if plan.wants("verify") {
        read::verify(plan, &mut table);
    }
    if plan.wants("proofs") || plan.wants("export") {
        read::large(plan, dir.path(), &mut table).await;
    }
    if plan.wants("writer") {
        write::batches(plan, dir.path(), &mut table).await;
    }
    if plan.wants("large") {
        write::growth(plan, dir.path(), &mut table).await;
    }
    if plan.wants("result") {
        write::beside_large_results(plan, dir.path(), &mut table).await;
    }
    table.say(&floor::after(dir.path()));
    table.finish();
}
