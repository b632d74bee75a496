//! Requests refused before admission, in summary: at most one entry per code and period.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::domain::code::Code;
use crate::domain::time::Timestamp;
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::Draft;
use crate::record::chain::RequestRejected;

#[derive(Clone, Copy, Debug)]
struct RejectionTally {
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

/// Counts of refusals that are not recorded yet.
#[derive(Debug, Default)]
pub(super) struct Rejected {
    tallies: Mutex<BTreeMap<Code, RejectionTally>>,
}

impl Rejected {
    pub fn count(&self, code: Code, now: Timestamp) {
        let mut tallies = self.tallies.lock();
        let rejections =
            tallies.entry(code).or_insert(RejectionTally { count: 0, first: now, last: now });
        rejections.count = rejections.count.saturating_add(1);
        rejections.last = now;
    }

    /// Returns one draft per code since the last call, and resets the counts.
    pub fn take(&self) -> Vec<DraftWithPayloads> {
        let tallies = std::mem::take(&mut *self.tallies.lock());
        tallies
            .into_iter()
            .map(|(code, rejections)| {
                DraftWithPayloads::bare(Draft::of(RequestRejected {
                    code: code.as_str().into(),
                    count: rejections.count.into(),
                    first: rejections.first.to_string().into(),
                    last: rejections.last.to_string().into(),
                }))
            })
            .collect()
    }
}
