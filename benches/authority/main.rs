//! What authority costs: releasing an approved call, polling for orders, and stopping many gates.
//!
//! `cargo bench --bench authority` prints one table; `-- --quick` prints it from short measurements;
//! `-- release polling kill` measures only what is named. Nothing here asserts a time. See
//! benches/README.md.
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

mod polling;
mod release;

use std::time::Duration;

use wicketgate_support::bench::table::Table;
use wicketgate_support::bench::{self, Asked, floor};

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which parts are measured, and for how long each.
#[derive(Debug)]
pub struct Plan {
    asked: Asked,
    /// One measurement.
    pub each: Duration,
    /// Approvals that are released, orders that are given.
    pub times: usize,
    /// Gates that poll.
    pub gates: usize,
}

impl Plan {
    fn of(asked: Asked) -> Self {
        let (each, times) = if asked.quick() { (2000, 20) } else { (10_000, 200) };
        Self { asked, each: Duration::from_millis(each), times, gates: 1000 }
    }
}

fn main() {
    let usage = "authority [-- --quick] [release polling kill]";
    bench::run(usage, async |asked| measure(&Plan::of(asked)).await);
}

async fn measure(plan: &Plan) {
    let mut table = Table::default();
    let dir = tempfile::tempdir().unwrap();
    let cluster = tokio::task::spawn_blocking(wicketgate_support::pg::Pg::cluster).await.unwrap();
    let database = cluster.database().await;
    table.say(&floor::machine(dir.path(), &database.admin_url).await);
    if plan.asked.wants("release") {
        release::sqlite(plan, dir.path(), &mut table).await;
        release::postgres(plan, &cluster.database().await, &mut table).await;
    }
    if plan.asked.wants("polling") {
        polling::beside_appends(plan, &database, &mut table).await;
    }
    if plan.asked.wants("kill") {
        polling::kill(plan, &database, &mut table).await;
    }
    table.say(&floor::after(dir.path()));
    table.finish();
}
