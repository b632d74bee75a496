//! What the gate adds to tools it runs itself: `cargo bench --bench tools`.
//!
//! One gate inside this process over a SQLite file beside the build (`WICKETGATE_BENCH_DIR` for another
//! place), one caller. Each figure is the median of a call through the gate and of the same work without
//! it, measured by turns in one run.
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

mod asked;
mod files;
mod grpc;
mod turns;

use wicketgate_support::bench;

fn main() {
    bench::run("tools", async |_| {
        let dir = bench::dir();
        files::measure(&dir).await;
        grpc::measure(&dir).await;
        asked::measure(&dir).await;
    });
}
