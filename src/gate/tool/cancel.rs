//! Asking one call to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why a call that its caller stopped is `call.cancelled`.
pub const CANCELLED: &str = "cancelled by the caller";
/// Why a call that an operator stopped is `call.cancelled`.
pub const STOPPED: &str = "stopped by an operator";

/// Whether somebody wants one call to stop, who that is, and whether the tool was tried by then.
/// Clones speak of the same call.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    token: CancellationToken,
    why: Arc<OnceLock<&'static str>>,
    began: Arc<AtomicBool>,
    denied: Arc<AtomicBool>,
}

impl Cancel {
    /// Asks the call to stop. Who asked first stays the one who asked.
    pub fn cancel(&self, why: &'static str) {
        self.why.get_or_init(|| why);
        self.token.cancel();
    }

    /// Whether anybody asked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Whether an operator asked.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.is_cancelled() && self.why() == STOPPED
    }

    /// Why it is to stop.
    #[must_use]
    pub fn why(&self) -> &'static str {
        self.why.get().copied().unwrap_or(CANCELLED)
    }

    /// Waits until somebody asks.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    /// Notes that the tool is tried from here on.
    pub(super) fn begin(&self) {
        self.began.store(true, Ordering::Release);
    }

    /// Notes that an operator's order speaks against the call where it is judged.
    pub(crate) fn deny(&self) {
        self.denied.store(true, Ordering::Release);
    }

    /// Whether an operator's order spoke against the call where it was judged.
    #[must_use]
    pub fn was_denied(&self) -> bool {
        self.denied.load(Ordering::Acquire)
    }

    /// Whether the tool was tried.
    #[must_use]
    pub fn began(&self) -> bool {
        self.began.load(Ordering::Acquire)
    }
}
