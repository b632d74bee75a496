//! What calls carried: erased, held, expired, redacted, encrypted and never stored, through the built
//! program on real databases.
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
#[path = "../support/mod.rs"]
mod support;

mod desk;
mod tool;

mod erase;
mod hold;
mod incognito;
mod postgres;
mod redact;
mod sealed;

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

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
