//! Results that are not stored, because they are too large or their run is incognito. They stay in
//! memory for a while, so that clients can read them in pieces and request them again.
//!
//! The ledger holds only their commitment. Once this process drops a result or ends, callers
//! receive `call.result_unavailable`; the call is never run again for it.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::answer::Released;
use crate::domain::id::{CallId, RunId};
use crate::ledger::drafts::STORED_MAX;

/// Total bytes kept; the oldest results are dropped first.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Released results that are not stored, newest last.
#[derive(Debug, Default)]
pub(super) struct Large {
    kept: Mutex<VecDeque<(RunId, Released)>>,
}

impl Large {
    /// Keeps a released result if the ledger does not store it: it is large, or it is `unstored` for
    /// what it holds or for its run.
    pub fn keep(&self, run: &RunId, unstored: bool, released: &Released) {
        if released.result().len() <= STORED_MAX && !unstored {
            return;
        }
        let mut kept = self.kept.lock();
        kept.push_back((*run, released.clone()));
        let bytes = |kept: &VecDeque<(RunId, Released)>| {
            kept.iter().map(|(_, r)| r.result().len()).fold(0, usize::saturating_add)
        };
        while kept.len() > 1 && bytes(&kept) > BYTES_MAX {
            kept.pop_front();
        }
    }

    /// The result of this call, if it is still kept.
    pub fn find(&self, run: &RunId, call: &CallId) -> Option<Released> {
        let kept = self.kept.lock();
        kept.iter().find(|(of, r)| of == run && r.call() == call).map(|(_, r)| r.clone())
    }
}
