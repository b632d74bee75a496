//! Background tasks of the road. They end before the gate does.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one road; clones share one tracker.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Starts a task. It continues if the handle is dropped.
    pub fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.tracker.spawn(work)
    }

    /// Starts the drain: the gate takes no new work.
    pub fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until the gate begins to stop.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Runs the work to its end; returns false if the gate stops first.
    pub async fn unless_stopping(&self, work: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = work => true,
        }
    }

    /// Waits this long; returns false if the gate stops first.
    pub async fn pause(&self, pause: Duration) -> bool {
        self.unless_stopping(tokio::time::sleep(pause)).await
    }

    /// Waits until no task remains.
    pub async fn over(&self) {
        self.tracker.wait().await;
    }
}
