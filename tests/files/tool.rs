//! How many calls did what they were asked, for the checker of the books.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// No server: the tools of these tests are files.
#[derive(Clone, Default)]
pub struct Tool {
    pub port: u16,
    done: Arc<AtomicU32>,
}

impl Tool {
    #[expect(clippy::unused_async, reason = "the harness waits for servers of other tests")]
    pub async fn start() -> Tool {
        Tool { port: 9, ..Tool::default() }
    }

    /// So many calls completed.
    pub fn did(&self, calls: u32) {
        self.done.fetch_add(calls, Ordering::SeqCst);
    }

    pub fn count(&self) -> u32 {
        self.done.load(Ordering::SeqCst)
    }

    pub fn repeated(&self) -> Vec<String> {
        Vec::new()
    }
}
