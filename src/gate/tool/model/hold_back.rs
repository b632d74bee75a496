//! Text that leaves in pieces, without a credential of the gate in any sequence of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hyper::body::Bytes;

use crate::catalog::llm::answer::FrameText;
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
    /// The end of all texts, in the order in which they come.
    all: String,
    /// The end of each text by itself: clients put its pieces together, whatever comes between.
    windows: BTreeMap<String, String>,
    /// The texts that end with what may be the beginning of a credential.
    begun: BTreeSet<String>,
    waiting: VecDeque<Bytes>,
}

impl<'a> HoldBack<'a> {
    pub fn new(scrub: &'a Scrub) -> Self {
        let (windows, begun) = (BTreeMap::new(), BTreeSet::new());
        Self { scrub, all: String::new(), windows, begun, waiting: VecDeque::new() }
    }

    /// Takes a frame with the texts that it shows; returns the frames that may leave now.
    ///
    /// # Errors
    /// The frame, or a text together with that before it, holds a credential.
    pub fn push(
        &mut self,
        frame: Bytes,
        texts: &[FrameText],
    ) -> Result<Vec<Bytes>, HoldsCredential> {
        if self.scrub.hides_in(&frame) {
            return Err(HoldsCredential);
        }
        for piece in texts {
            self.look(piece)?;
        }
        self.waiting.push_back(frame);
        if !self.begun.is_empty() || self.scrub.may_begin(&self.all) {
            return Ok(Vec::new());
        }
        Ok(self.flush())
    }

    fn look(&mut self, piece: &FrameText) -> Result<(), HoldsCredential> {
        let FrameText { place, text } = piece;
        let window = self.windows.entry(place.clone()).or_default();
        // A text that is the only one is looked through once.
        let is_apart = *window != self.all;
        self.all.push_str(text);
        window.push_str(text);
        if self.scrub.holds(&self.all) || is_apart && self.scrub.holds(window) {
            return Err(HoldsCredential);
        }
        // Twice the longest: characters between its own do not push its beginning out.
        let kept = self.scrub.longest().saturating_mul(2).max(WINDOW);
        shorten(&mut self.all, kept);
        shorten(window, kept);
        if self.scrub.may_begin(window) {
            self.begun.insert(place.clone());
        } else {
            self.begun.remove(place);
        }
        Ok(())
    }

    /// Whether these bytes hold a credential by themselves.
    pub fn hides_in(&self, bytes: &[u8]) -> bool {
        self.scrub.hides_in(bytes)
    }

    /// The text ends here: what waits may leave.
    pub fn flush(&mut self) -> Vec<Bytes> {
        self.waiting.drain(..).collect()
    }
}

/// Keeps this many bytes at the end of a text, or the whole characters among them.
fn shorten(text: &mut String, kept: usize) {
    let mut from = text.len().saturating_sub(kept);
    while !text.is_char_boundary(from) {
        from = from.saturating_add(1);
    }
    text.drain(..from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::secret::Secret;
    use crate::domain::token::{self, Family};

    const TOKEN: &str = "sk-live/Abc+123=xyz";

    fn piece(place: &str, text: &str) -> FrameText {
        FrameText { place: place.to_owned(), text: text.to_owned() }
    }

    /// Whether these pieces end in a credential, and what left before.
    fn left(scrub: &Scrub, pieces: &[(&str, &str)]) -> (bool, String) {
        let (mut out, mut left) = (HoldBack::new(scrub), String::new());
        for (place, text) in pieces {
            match out.push(Bytes::from((*text).to_owned()), &[piece(place, text)]) {
                Ok(frames) => {
                    for frame in frames {
                        left.push_str(std::str::from_utf8(&frame).unwrap());
                    }
                }
                Err(HoldsCredential) => return (true, left),
            }
        }
        (false, left)
    }

    #[test]
    fn a_credential_never_leaves_between_the_pieces_of_another_text() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        for at in BEGINNING..TOKEN.len() {
            let (first, rest) = TOKEN.split_at(at);
            let between =
                [("content", "see "), ("content", first), ("reasoning", "zzz"), ("content", rest)];
            assert_eq!(left(&scrub, &between), (true, "see ".to_owned()), "{at}");
            // Some servers say the same in two members of each chunk.
            let (second, third) = rest.split_at(rest.len() / 2);
            let twice = [first, second, third].map(|text| [("a", text), ("b", text)]).concat();
            assert_eq!(left(&scrub, &twice), (true, String::new()), "{at}");
        }
        let harmless = [("content", "sk-live"), ("reasoning", "zzz"), ("content", "ly")];
        assert_eq!(left(&scrub, &harmless), (false, "sk-livezzzly".to_owned()));
    }

    #[test]
    fn a_token_of_a_gate_does_not_leave_character_by_character() {
        let written = token::write(Family::Run, &[7; 32]);
        let characters: Vec<String> = written.chars().map(String::from).collect();
        let pieces: Vec<(&str, &str)> = characters.iter().map(|c| ("", c.as_str())).collect();
        assert_eq!(left(&Scrub::default(), &pieces), (true, "wgr".to_owned()));
    }

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
                    match out.push(Bytes::from(text.to_string()), &[piece("", text)]) {
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
        let mut push =
            |text: &str| out.push(Bytes::from(text.to_owned()), &[piece("", text)]).unwrap().len();
        assert_eq!([push("hello"), push(" sk-l"), push("amp"), push("")], [1, 0, 2, 1]);
        assert_eq!(push("x sk-li"), 0);
        assert_eq!(out.flush().len(), 1);
    }
}
