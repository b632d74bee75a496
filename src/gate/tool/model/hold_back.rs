//! Text that leaves in pieces, without a credential of the gate in any sequence of them.

use std::collections::VecDeque;

use hyper::body::Bytes;

use crate::tool::scrub::Scrub;

/// Bytes of text that are looked through together with the next, at least: room for a token of a
/// gate, whatever stands between its characters.
const WINDOW: usize = 256;

/// An answer holds a credential of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the answer holds a credential of the gate")]
pub(super) struct HoldsCredential;

/// Frames that may leave only if what follows does not complete a credential.
#[derive(Debug)]
pub(super) struct HoldBack<'a> {
    scrub: &'a Scrub,
    window: String,
    waiting: VecDeque<Bytes>,
}

impl<'a> HoldBack<'a> {
    pub fn new(scrub: &'a Scrub) -> Self {
        Self { scrub, window: String::new(), waiting: VecDeque::new() }
    }

    /// Takes a frame with the text that it shows; returns the frames that may leave now.
    ///
    /// # Errors
    /// The frame, or the text together with that before it, holds a credential.
    pub fn push(&mut self, frame: Bytes, text: &str) -> Result<Vec<Bytes>, HoldsCredential> {
        if self.scrub.hides_in(&frame) {
            return Err(HoldsCredential);
        }
        if !text.is_empty() {
            self.window.push_str(text);
            if self.scrub.holds(&self.window) {
                return Err(HoldsCredential);
            }
            self.shorten();
        }
        self.waiting.push_back(frame);
        if self.scrub.may_begin(&self.window) {
            return Ok(Vec::new());
        }
        Ok(self.flush())
    }

    /// Whether these bytes hold a credential by themselves.
    pub fn hides_in(&self, bytes: &[u8]) -> bool {
        self.scrub.hides_in(bytes)
    }

    /// The text ends here: what waits may leave.
    pub fn flush(&mut self) -> Vec<Bytes> {
        self.waiting.drain(..).collect()
    }

    fn shorten(&mut self) {
        // Twice the longest: characters between its own do not push its beginning out.
        let kept = self.scrub.longest().saturating_mul(2).max(WINDOW);
        let mut from = self.window.len().saturating_sub(kept);
        while !self.window.is_char_boundary(from) {
            from = from.saturating_add(1);
        }
        self.window.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::secret::Secret;

    const TOKEN: &str = "sk-live/Abc+123=xyz";

    #[test]
    fn a_credential_never_leaves_however_it_is_cut() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        for first in 0..TOKEN.len() {
            for second in first..TOKEN.len() {
                let mut out = HoldBack::new(&scrub);
                let (start, rest) = TOKEN.split_at(first);
                let (middle, end) = rest.split_at(second - first);
                let parts = [start, middle, end];
                let mut left = String::from("");
                let broke = ["see ", parts[0], parts[1], parts[2]].iter().any(|text| {
                    match out.push(Bytes::from(text.to_string()), text) {
                        Ok(frames) => {
                            for frame in frames {
                                left.push_str(std::str::from_utf8(&frame).unwrap());
                            }
                            false
                        }
                        Err(HoldsCredential) => true,
                    }
                });
                assert!(broke, "{parts:?}");
                let longest =
                    (0..TOKEN.len()).rev().find(|end| left.contains(TOKEN.split_at(*end).0));
                assert!(longest.unwrap() < BEGINNING, "{parts:?}: {left}");
            }
        }
    }

    const BEGINNING: usize = 4;

    #[test]
    fn text_without_one_leaves_at_once_or_with_the_next_piece() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let mut out = HoldBack::new(&scrub);
        let mut push = |text: &str| out.push(Bytes::from(text.to_owned()), text).unwrap().len();
        assert_eq!([push("hello"), push(" sk-l"), push("amp"), push("")], [1, 0, 2, 1]);
        assert_eq!(push("x sk-li"), 0);
        assert_eq!(out.flush().len(), 1);
    }
}
