//! What a governed call costs, with the floor measured beside it in the same run.
//!
//! `cargo bench --bench road` prints one table; `-- --quick` prints it in under a minute from short
//! measurements; `-- writer policy` measures only what is named; `-- entries --entries 10000000` chooses the size of the large ledger. `-- smoke` prints, in less than a
//! minute, the ratios that a change of the road moves. Nothing here asserts a time. See
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
    clippy::cast_precision_loss,
    clippy::too_many_lines,
    reason = "a measurement may stop at the first surprise, and prints"
)]

mod calls;
mod decide;
mod delay;
mod echo;
mod firewall;
mod grown;
mod http;
mod indexed;
mod writer;

use std::sync::OnceLock;
use std::time::Duration;

use wicketgate_support::bench::table::Table;
use wicketgate_support::bench::{self, Asked, floor, folder, tool};
use wicketgate_support::pg;

/// Which parts are measured, and for how long each.
#[derive(Debug)]
pub struct Plan {
    asked: Asked,
    /// One measurement.
    pub each: Duration,
    /// Before each measurement.
    pub warm: Duration,
    /// Entries of the large ledger.
    pub entries: u64,
    /// Runs that are open at once.
    pub runs: usize,
}

impl Plan {
    fn of(asked: Asked) -> Self {
        let (each, warm) = match (asked.quick(), asked.names("smoke")) {
            (true, _) => (600, 200),
            (false, true) => (2000, 500),
            (false, false) => (4000, 1000),
        };
        let [each, warm] = [each, warm].map(Duration::from_millis);
        let (entries, runs) = if asked.quick() { (20_000, 1000) } else { (1_000_000, 10_000) };
        let entries = asked.number("--entries").unwrap_or(entries);
        Self { asked, each, warm, entries, runs }
    }
}

/// The database server of this bench alone, so that its processor time is that of the calls.
pub fn server() -> &'static pg::PrivatePg {
    static SERVER: OnceLock<pg::PrivatePg> = OnceLock::new();
    SERVER.get_or_init(pg::Pg::own_cluster)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "echo-server") {
        return echo::serve(&args[1], &args[2]);
    }
    let usage = "road [-- --quick] [smoke calls writer policy firewall start index entries runs] [--entries N]";
    bench::run(usage, async |asked| measure(&Plan::of(asked)).await);
}

async fn measure(plan: &Plan) {
    let mut table = Table::default();
    let folder = folder::Folder::new();
    let database = server().database().await;
    table.say(&floor::machine(folder.dir(), &database.admin_url).await);
    if plan.asked.names("smoke") {
        decide::smoke(plan, &mut table);
        calls::smoke(plan, &folder, &database, &mut table).await;
    }
    if plan.asked.wants("policy") {
        decide::measure(plan, &mut table);
    }
    if plan.asked.wants("writer") {
        writer::measure(plan, folder.dir(), &mut table).await;
    }
    if plan.asked.wants("firewall") {
        firewall::measure(plan, &mut table);
    }
    if plan.asked.wants("calls") || plan.asked.wants("start") {
        calls::measure(plan, &folder, &database, &mut table).await;
    }
    if plan.asked.wants("index") {
        indexed::measure(plan, &folder, tool::start().await, &mut table).await;
    }
    if plan.asked.wants("entries") || plan.asked.wants("runs") {
        let tool = tool::start().await;
        if plan.asked.wants("entries") {
            grown::entries(plan, &folder, tool, &mut table).await;
        }
        if plan.asked.wants("runs") {
            grown::runs(plan, &folder, tool, &mut table).await;
        }
    }
    table.say(&floor::after(folder.dir()));
    table.finish();
}
