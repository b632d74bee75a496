//! Waiting for other processes.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

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

/// Stops a process where it stands. A signal is sent before it is obeyed, and until then its threads go on: this waits
/// until none does.
pub fn freeze(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    let began = Instant::now();
    while !stands(pid) {
        assert!(began.elapsed() < PATIENCE, "process {pid:?} does not stop");
        std::thread::yield_now();
    }
}

/// Whether every thread of a process is stopped, or gone.
fn stands(pid: Pid) -> bool {
    let threads = format!("/proc/{}/task", pid.as_raw_nonzero());
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    std::fs::read_dir(threads)
        .unwrap()
        .all(|thread| thread.is_ok_and(|thread| matches!(state(thread), Some('T' | 'Z') | None)))
}

/// Between two questions to another process.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// The same, for tests without a runtime.
pub fn pause_thread() {
    std::thread::sleep(Duration::from_millis(20));
}
