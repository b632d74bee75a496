//! Results that are not stored, too large for it or of an incognito run: kept for a while, in memory
//! only, so that they can be read in pieces and asked for again.
//!
//! The books hold only their commitment. When this process forgets one, or ends, the result can no
//! longer be given and the caller is told so; the call is never run again for it.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::answer::Released;
use crate::domain::id::{CallId, RunId};
use crate::ledger::drafts::STORED_MAX;

/// Bytes kept at most; the oldest are forgotten first.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Released results that are not stored, newest last.
#[derive(Debug, Default)]
pub(super) struct Large {
    kept: Mutex<VecDeque<(RunId, Released)>>,
}

impl Large {
    /// Keeps a released result if the books do not.
    pub fn keep(&self, run: &RunId, incognito: bool, released: &Released) {
        if released.result().len() <= STORED_MAX && !incognito {
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
