//! Waiting for other processes.

use std::fmt::Display;
use std::future::Future;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long anything may take that a test waits for. Only what hangs ever takes so long: a machine that is busy with
/// something else must not look like a program that is broken.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that must happen.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("waited for {what}"))
}

/// Asks another process again and again until it is so. What is told if it never is, is asked for only then.
pub async fn until<F: Future<Output = bool>>(what: impl Display, mut so: impl FnMut() -> F) {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
        pause().await;
    }
}

/// Waits until a process that writes its log there is ready; one that ended instead never will be.
pub async fn serving(child: &mut Child, log: &Path) {
    let said = || std::fs::read_to_string(log).unwrap_or_default();
    let ready = |line: &str| line.contains("readiness") && line.contains("true");
    let began = Instant::now();
    while !said().lines().any(ready) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended: {}", said());
        assert!(began.elapsed() < PATIENCE, "not ready: {}", said());
        pause().await;
    }
}

/// Between two questions to another process.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
