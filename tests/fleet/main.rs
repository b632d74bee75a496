//! The log of logs and what hangs on it: heads that others have seen, ledgers that were set back, losses
//! that are told, keys that change. Through the built program, on real databases, with a real witness.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise, and look at a clock that is not the gate's"
)]

use std::future::Future;
use std::time::{Duration, Instant};

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../faults/checker.rs"]
mod checker;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../faults/tool.rs"]
mod tool;

mod anchor;
mod desk;
mod keys;
mod recover;
mod rollback;
mod shared;

#[path = "../support/mod.rs"]
mod support;

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that must happen.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("waited for {what}"))
}

/// Asks another process again and again until it is so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
        pause().await;
    }
}

/// Between two questions to another process.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
