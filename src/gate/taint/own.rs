//! What an agent said itself: an answer that repeats it brings nothing new.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use super::OWN_BYTES;
use super::reading::MarkSet;
use crate::record::debug_by;

/// Marks of what the agent said itself: at least half as many of the newest are kept.
const OWN_MARKS: usize = 4096;
/// Bytes that a kept call takes beside its arguments.
pub(super) const CALL_BYTES: usize = 64;

/// The newest marks of what the agent said.
#[derive(Debug, Default)]
pub(super) struct OwnMarks {
    newer: MarkSet<()>,
    older: MarkSet<()>,
}

impl OwnMarks {
    pub fn has(&self, mark: u64) -> bool {
        self.newer.contains_key(&mark) || self.older.contains_key(&mark)
    }

    pub fn extend(&mut self, marks: impl Iterator<Item = u64>) {
        for mark in marks {
            if self.newer.len() >= OWN_MARKS / 2 {
                self.older = std::mem::take(&mut self.newer);
            }
            self.newer.insert(mark, ());
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.newer.len().saturating_add(self.older.len())
    }
}

/// Arguments of calls without their marks, the newest last.
#[derive(Default)]
pub(super) struct UnmarkedCalls(VecDeque<Zeroizing<Vec<u8>>>);

debug_by!(UnmarkedCalls);

impl UnmarkedCalls {
    /// Keeps these, and of the others as many as a run has marks of.
    pub fn push(&mut self, args: &[u8]) {
        self.0.push_back(Zeroizing::new(args.to_vec()));
        let mut left = OWN_BYTES;
        let kept = self.0.iter().rev().take_while(|args| {
            let rest = left.checked_sub(args.len().saturating_add(CALL_BYTES));
            left = rest.unwrap_or_default();
            rest.is_some()
        });
        let kept = kept.count();
        self.0.drain(..self.0.len().saturating_sub(kept));
    }

    pub fn take(&mut self) -> impl Iterator<Item = Zeroizing<Vec<u8>>> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Zeroizing<Vec<u8>>> {
        self.0.iter()
    }
}
