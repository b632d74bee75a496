//! What a governed call costs, with the floor measured beside it in the same run.
//!
//! `cargo bench --bench road` prints one table; `-- --quick` prints it in under a minute from short
//! measurements; `-- writer policy` measures only what is named. Nothing here asserts a time. See
//! benches/README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::too_many_lines,
    reason = "a measurement may stop at the first surprise, and prints"
)]

mod calls;
mod decide;
mod delay;
mod desk;
mod echo;
mod floor;
mod load;
mod table;
mod tool;
mod writer;

#[allow(dead_code, unreachable_pub, reason = "tests use more of it")]
#[path = "../../tests/support/pg.rs"]
mod pg;

use std::time::Duration;

use table::Table;

/// Which parts are measured, and for how long each.
#[derive(Debug)]
pub struct Plan {
    /// Only these; all if empty.
    only: Vec<String>,
    /// One measurement.
    pub each: Duration,
    /// Before each measurement.
    pub warm: Duration,
}

impl Plan {
    fn read(args: &[String]) -> Self {
        let quick = args.iter().any(|a| a == "--quick");
        let (each, warm) = if quick { (600, 200) } else { (4000, 1000) };
        Self {
            only: args.iter().filter(|a| !a.starts_with('-')).cloned().collect(),
            each: Duration::from_millis(each),
            warm: Duration::from_millis(warm),
        }
    }

    /// Whether this part is measured.
    pub fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| o == part)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "echo-server") {
        return echo::serve(&args[1], &args[2]);
    }
    // `cargo test --all-targets` runs this too, without `--bench`: then there is nothing to do.
    if !args.iter().any(|a| a == "--bench") {
        println!("run it with: cargo bench --bench road [-- --quick] [calls writer policy start]");
        return;
    }
    let plan = Plan::read(&args);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(&plan));
    runtime.shutdown_timeout(Duration::from_secs(1));
}

async fn measure(plan: &Plan) {
    let mut table = Table::default();
    let desk = desk::Desk::new();
    let database = pg::Pg::cluster().database().await;
    table.say(&floor::machine(desk.dir(), &database.admin_url).await);
    if plan.wants("policy") {
        decide::measure(plan, &mut table);
    }
    if plan.wants("writer") {
        writer::measure(plan, desk.dir(), &mut table).await;
    }
    if plan.wants("calls") || plan.wants("start") {
        calls::measure(plan, &desk, &database, &mut table).await;
    }
    table.say(&floor::after(desk.dir()));
    table.finish();
}
