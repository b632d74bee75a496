//! The request to stop one call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// The reason recorded when the caller cancels a call.
pub const CANCELLED: &str = "cancelled by the caller";
/// The reason recorded when the agent leaves before the end of an answer.
pub const LEFT: &str = "left";
/// The reason recorded when an operator stops a call.
pub const STOPPED: &str = "stopped by an operator";

/// Whether the caller or an operator asked one call to stop, which of them was first, and whether
/// the tool had been started by then. Clones refer to the same call.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    token: CancellationToken,
    why: Arc<OnceLock<&'static str>>,
    /// A caller or an operator asked, not only a client that left.
    wanted: Arc<AtomicBool>,
    began: Arc<AtomicBool>,
    denied: Arc<AtomicBool>,
}

impl Cancel {
    /// Asks the call to stop. The first reason is kept.
    pub fn cancel(&self, why: &'static str) {
        self.why.get_or_init(|| why);
        if why != LEFT {
            self.wanted.store(true, Ordering::Release);
        }
        self.token.cancel();
    }

    /// Whether the call was asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Whether this ends a call that is held, or is held again. WHY not a client that left: it may ask for
    /// the same again, and what people approved is still approved.
    #[must_use]
    pub fn ends_a_hold(&self) -> bool {
        self.is_cancelled() && self.wanted.load(Ordering::Acquire)
    }

    /// Whether an operator asked.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.is_cancelled() && self.why() == STOPPED
    }

    /// The reason of the first request.
    pub fn why(&self) -> &'static str {
        self.why.get().copied().unwrap_or(CANCELLED)
    }

    /// Waits for a request to stop.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    /// Marks that the tool is started from here on.
    pub(super) fn begin(&self) {
        self.began.store(true, Ordering::Release);
    }

    /// Marks that an operator's order refused the call when it was judged.
    pub(crate) fn deny(&self) {
        self.denied.store(true, Ordering::Release);
    }

    /// Whether an operator's order refused the call when it was judged.
    #[must_use]
    pub fn was_denied(&self) -> bool {
        self.denied.load(Ordering::Acquire)
    }

    /// Whether the tool was started.
    #[must_use]
    pub fn began(&self) -> bool {
        self.began.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_leaves_ends_no_hold_and_everybody_else_does_whoever_was_first() {
        for why in [CANCELLED, STOPPED] {
            let cancel = Cancel::default();
            cancel.cancel(LEFT);
            assert!(cancel.is_cancelled() && !cancel.ends_a_hold());
            cancel.cancel(why);
            assert!(cancel.ends_a_hold());
            assert_eq!(cancel.why(), LEFT, "the first reason is kept");
        }
    }
}
