//! Waiting for other processes, each test program for as long as its own `PATIENCE`.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::PATIENCE;

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
