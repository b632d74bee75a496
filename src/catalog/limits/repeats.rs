//! Calls that go round in circles: the same call in a row, and the same short series of calls in a row.

use std::collections::VecDeque;

use crate::domain::digest::Digest;

/// Calls of the longest series that is recognised: `A, B, A, B` is a series of two.
const SERIES_MAX: usize = 4;

/// The last calls of a run, by tool and arguments; and for each length of a series, how many calls
/// in a row equalled those so many before them.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    recent: VecDeque<Digest>,
    same: [u64; SERIES_MAX],
}

impl Repeats {
    /// Notes the next call; how often in a row the series that it ends has come before.
    pub fn note(&mut self, call: Digest) -> u64 {
        let mut most = 0;
        for (length, same) in (1_u64..).zip(&mut self.same) {
            let before = usize::try_from(length).ok().and_then(|length| {
                self.recent.len().checked_sub(length).and_then(|at| self.recent.get(at))
            });
            *same = if before == Some(&call) { same.saturating_add(1) } else { 0 };
            most = most.max(same.checked_div(length).unwrap_or_default());
        }
        self.recent.push_back(call);
        if self.recent.len() > SERIES_MAX {
            self.recent.pop_front();
        }
        most
    }

    /// Takes the last call back, if it is this one: the ledger did not record it.
    pub fn take_back(&mut self, call: Option<Digest>) {
        if call.is_none() || self.recent.back() != call.as_ref() {
            return;
        }
        self.recent.pop_back();
        for same in &mut self.same {
            *same = same.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(calls: &str) -> Vec<u64> {
        let mut repeats = Repeats::default();
        calls.bytes().map(|call| repeats.note(Digest::of(&[&[call]]))).collect()
    }

    #[test]
    fn a_series_that_comes_again_is_seen_whatever_its_length() {
        assert_eq!(most("AAAA"), [0, 1, 2, 3]);
        assert_eq!(most("ABABAB"), [0, 0, 0, 1, 1, 2]);
        assert_eq!(most("ABCABCABC"), [0, 0, 0, 0, 0, 1, 1, 1, 2]);
        assert_eq!(most("ABCDABCD"), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(most("XYABABAB").last(), Some(&2), "what came before does not matter");
    }

    #[test]
    fn what_does_not_come_again_in_a_row_is_no_series() {
        for calls in ["ABCDEFGH", "ABCDEABCDE", "ABACADAEAF", "ABCBADCB"] {
            assert!(most(calls).iter().all(|most| *most == 0), "{calls}: {:?}", most(calls));
        }
        assert_eq!(most("ABABXAB").last(), Some(&0), "another call breaks it");
    }

    #[test]
    fn a_call_that_is_taken_back_does_not_count() {
        let [a, b] = ["A", "B"].map(|call| Digest::of(&[call.as_bytes()]));
        let mut repeats = Repeats::default();
        for _ in 0..5 {
            repeats.note(a);
            repeats.note(b);
            repeats.take_back(Some(b));
            repeats.take_back(Some(a));
        }
        assert_eq!((repeats.note(a), repeats.note(b)), (0, 0));
    }
}
