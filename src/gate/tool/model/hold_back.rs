//! Text that leaves in pieces, without a credential of the gate in any sequence of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hyper::body::Bytes;

use crate::catalog::llm::answer::FrameText;
use crate::ledger::flow::Cleared;
use crate::tool::scrub::{Scrub, TextEnd};

/// Bytes of text that are looked through together with the next, at least: room for a token of a
/// gate, however each of its characters is escaped (`&amp;#x77;`).
const WINDOW: usize = 1024;

/// An answer holds a credential of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the answer holds a credential of the gate")]
pub(super) struct HoldsCredential;

/// A part of an answer on its way out.
#[derive(Debug)]
pub(super) enum Leaving {
    /// Frames that are no tool call.
    Piece(Bytes),
    /// The frames of a tool call that was allowed.
    Call(Cleared, Bytes),
}

/// Frames that may leave only if what follows does not complete a credential. Tool calls wait with the
/// text before them: it may go on behind them.
#[derive(Debug)]
pub(super) struct HoldBack<'a> {
    scrub: &'a Scrub,
    /// The end of all texts, in the order in which they come.
    all: String,
    /// Whether that ends with what may be the beginning of a credential.
    all_begun: bool,
    /// The end of each text, and of all texts of each kind: clients put them together, whatever comes
    /// between.
    windows: BTreeMap<String, String>,
    /// The texts that end with what may be the beginning of a credential.
    begun: BTreeSet<String>,
    waiting: VecDeque<Leaving>,
}

/// Texts that hold no credential, each with that before it.
struct LookedTexts<'t> {
    all: LookedText,
    windows: BTreeMap<&'t str, LookedText>,
}

struct LookedText {
    text: String,
    /// Bytes of it that were found clear before.
    clear: usize,
    /// Whether it ends with what may be the beginning of a credential.
    begun: bool,
}

impl LookedText {
    /// A text that was looked through; `begun`: it ended with what may be the beginning of a credential.
    fn after(text: String, begun: bool) -> Self {
        Self { clear: if begun { 0 } else { text.len() }, text, begun }
    }

    /// How many bytes it grew by since it was clear, if it ever was.
    fn new_bytes(&self) -> Option<usize> {
        let new = self.text.len().saturating_sub(self.clear);
        Some(new).filter(|_| self.clear > 0)
    }
}

impl<'a> HoldBack<'a> {
    pub fn new(scrub: &'a Scrub) -> Self {
        let (windows, begun) = (BTreeMap::new(), BTreeSet::new());
        let (all, waiting) = (String::new(), VecDeque::new());
        Self { scrub, all, all_begun: false, windows, begun, waiting }
    }

    /// Takes a frame with the texts that it shows; returns the frames that may leave now.
    ///
    /// # Errors
    /// The frame, or a text together with that before it, holds a credential.
    pub fn push(
        &mut self,
        frame: Bytes,
        texts: &[FrameText],
    ) -> Result<Vec<Leaving>, HoldsCredential> {
        if self.scrub.hides_in(&frame) {
            return Err(HoldsCredential);
        }
        for piece in texts {
            let looked = self.look([piece])?;
            self.keep(looked);
        }
        Ok(self.follow(Leaving::Piece(frame)))
    }

    /// Takes frames that came together and may all leave now; none of them, if they have to be taken
    /// one by one. WHY: each look goes through the texts before it, so one look for all is as much
    /// work as one for each.
    pub fn push_all(&mut self, frames: &[(Bytes, Vec<FrameText>)]) -> Option<Vec<Leaving>> {
        if frames.len() < 2 || !self.begun.is_empty() || self.all_begun {
            return None;
        }
        let bytes: Vec<u8> = frames.iter().flat_map(|(frame, _)| frame).copied().collect();
        if self.scrub.hides_in(&bytes) {
            return None;
        }
        let looked = self.look(frames.iter().flat_map(|(_, texts)| texts)).ok()?;
        if looked.all.begun || looked.windows.values().any(|window| window.begun) {
            return None;
        }
        self.keep(looked);
        Some(self.follow(Leaving::Piece(bytes.into())))
    }

    /// Takes a part in which nothing goes on; returns what may leave now.
    pub fn follow(&mut self, part: Leaving) -> Vec<Leaving> {
        self.waiting.push_back(part);
        if !self.begun.is_empty() || self.all_begun {
            return Vec::new();
        }
        self.flush()
    }

    /// Looks through these texts, each together with that before it.
    fn look<'t>(
        &self,
        pieces: impl IntoIterator<Item = &'t FrameText>,
    ) -> Result<LookedTexts<'t>, HoldsCredential> {
        let mut all = LookedText::after(self.all.clone(), self.all_begun);
        let mut windows: BTreeMap<&str, LookedText> = BTreeMap::new();
        for piece in pieces {
            all.text.push_str(&piece.text);
            for name in names(piece) {
                let before = || {
                    let text = self.windows.get(name).cloned().unwrap_or_default();
                    LookedText::after(text, self.begun.contains(name))
                };
                let window = windows.entry(name).or_insert_with(before);
                window.text.push_str(&piece.text);
            }
        }
        all.begun = self.begins(&all)?;
        for window in windows.values_mut() {
            // A text that is the only one is looked through once.
            let is_all = (&window.text, window.clear) == (&all.text, all.clear);
            window.begun = if is_all { all.begun } else { self.begins(window)? };
        }
        Ok(LookedTexts { all, windows })
    }

    fn keep(&mut self, looked: LookedTexts<'_>) {
        let kept = self.kept();
        for (name, mut window) in looked.windows {
            shorten(&mut window.text, kept);
            match self.windows.get_mut(name) {
                Some(kept) => *kept = window.text,
                None => drop(self.windows.insert(name.to_owned(), window.text)),
            }
            if window.begun {
                self.begun.insert(name.to_owned());
            } else {
                self.begun.remove(name);
            }
        }
        (self.all, self.all_begun) = (looked.all.text, looked.all.begun);
        shorten(&mut self.all, kept);
    }

    /// Bytes of a text that are kept: twice the longest form, so that characters between its own do
    /// not push its beginning out.
    fn kept(&self) -> usize {
        self.scrub.longest().saturating_mul(2).max(WINDOW)
    }

    /// Whether this text ends with what may be the beginning of a credential.
    fn begins(&self, looked: &LookedText) -> Result<bool, HoldsCredential> {
        match self.scrub.end_of(&looked.text, looked.new_bytes()) {
            TextEnd::Holds => Err(HoldsCredential),
            TextEnd::Begins => Ok(true),
            TextEnd::Clear => Ok(false),
        }
    }

    /// Whether these bytes hold a credential by themselves.
    pub fn hides_in(&self, bytes: &[u8]) -> bool {
        self.scrub.hides_in(bytes)
    }

    /// The text ends here: what waits may leave.
    pub fn flush(&mut self) -> Vec<Leaving> {
        self.waiting.drain(..).collect()
    }
}

/// The names of the texts that this piece goes on.
fn names(piece: &FrameText) -> impl Iterator<Item = &str> {
    let FrameText { place, kind, .. } = piece;
    [Some(place), Some(kind).filter(|kind| *kind != place)]
        .into_iter()
        .flatten()
        .map(String::as_str)
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
    use base64::Engine as _;
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::secret::Secret;
    use crate::domain::token::{self, Family};

    const TOKEN: &str = "sk-live/Abc+123=xyz";

    fn piece(place: &str, text: &str) -> FrameText {
        let (place, kind) = place.split_once(' ').unwrap_or((place, place));
        let [place, kind, text] = [place, kind, text].map(str::to_owned);
        FrameText { place, kind, text }
    }

    /// The text of what leaves.
    fn text_of(parts: Vec<Leaving>) -> String {
        let bytes = parts.into_iter().map(|part| match part {
            Leaving::Piece(bytes) | Leaving::Call(_, bytes) => bytes,
        });
        bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
    }

    /// Whether these pieces end in a credential, and what left before.
    fn left(scrub: &Scrub, pieces: &[(&str, &str)]) -> (bool, String) {
        let (mut out, mut left) = (HoldBack::new(scrub), String::new());
        for (place, text) in pieces {
            match out.push(Bytes::from((*text).to_owned()), &[piece(place, text)]) {
                Ok(parts) => left.push_str(&text_of(parts)),
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
        assert_eq!(left_of(&Scrub::default(), &written), (true, "wgr".to_owned()));
    }

    /// What leaves of a text that comes character by character.
    fn left_of(scrub: &Scrub, written: &str) -> (bool, String) {
        let characters: Vec<String> = written.chars().map(String::from).collect();
        let pieces: Vec<(&str, &str)> = characters.iter().map(|c| ("", c.as_str())).collect();
        left(scrub, &pieces)
    }

    #[test]
    fn nor_does_one_that_is_encoded_or_the_rest_of_a_secret() {
        let token = token::write(Family::Run, &[7; 32]);
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        for (text, fronts) in [(token.as_str(), 4), (TOKEN, 4)] {
            let each = |form: fn(u8) -> String| text.bytes().map(form).collect::<String>();
            // As written, and the bytes that each of the first characters takes.
            for (written, width) in [
                (each(|b| format!("%{b:02X}")), 3),
                (each(|b| format!("%25{b:02x}")), 5),
                (each(|b| format!("\\u{b:04x}")), 6),
                (each(|b| format!("\\x{b:02X}")), 4),
                (each(|b| format!("&#x{b:x};")), 6),
                (each(|b| format!("={b:02X}")), 3),
                (each(|b| format!("{b:02x}")), 2),
                (each(|b| format!("{b:02X} ")), 3),
                (each(|b| format!("{b},")), 4),
                (base64::engine::general_purpose::STANDARD.encode(text), 2),
                (base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("x{text}")), 3),
            ] {
                let (is_found, left) = left_of(&scrub, &written);
                assert!(is_found, "{written}");
                assert!(left.len() <= fronts * width + 12, "{written}: {left}");
            }
        }
    }

    #[test]
    fn a_tool_call_waits_behind_the_beginning_of_a_credential() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let mut out = HoldBack::new(&scrub);
        let call = || Leaving::Call(Cleared::of(None), Bytes::from_static(b"call"));
        let push = |out: &mut HoldBack<'_>, text: &str| {
            out.push(Bytes::from(text.to_owned()), &[piece("", text)]).map(text_of)
        };
        assert_eq!(push(&mut out, "see "), Ok("see ".to_owned()));
        assert_eq!(text_of(out.follow(call())), "call");
        assert_eq!(push(&mut out, "sk-live/Abc"), Ok(String::new()));
        assert_eq!(text_of(out.follow(call())), "");
        assert_eq!(push(&mut out, "+123=xyz"), Err(HoldsCredential));
        let mut out = HoldBack::new(&scrub);
        assert_eq!(push(&mut out, "sk-live/Abc"), Ok(String::new()));
        assert_eq!(text_of(out.follow(call())), "");
        assert_eq!(push(&mut out, "d"), Ok("sk-live/Abccalld".to_owned()));
    }

    #[test]
    fn texts_of_one_kind_are_put_together_over_others() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let (first, rest) = TOKEN.split_at(9);
        let blocks = [("0/0 text", first), ("1/0 thought", "zzz"), ("2/0 text", rest)];
        assert_eq!(left(&scrub, &blocks), (true, String::new()));
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
                        Ok(parts) => {
                            left.push_str(&text_of(parts));
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

    proptest! {
        #[test]
        fn frames_that_come_together_leave_as_they_do_one_by_one(
            parts in prop::collection::vec((
                prop::sample::select(vec!["a", "b", "0 a"]),
                prop::sample::select(vec!["sk-li", "ve/Abc", "+123=x", "yz", "see ", "é.", "wgr_", "73 6b 2d 6c", " 69 76"]),
            ), 0..12),
            together in 1_usize..5,
        ) {
            let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
            let (mut out, mut text, mut broke) = (HoldBack::new(&scrub), String::new(), false);
            for parts in parts.chunks(together) {
                let frame = |(place, text): &(&str, &str)| {
                    (Bytes::from((*text).to_owned()), vec![piece(place, text)])
                };
                let frames: Vec<_> = parts.iter().map(frame).collect();
                if let Some(parts) = out.push_all(&frames) {
                    text.push_str(&text_of(parts));
                    continue;
                }
                broke = frames.iter().any(|(frame, texts)| match out.push(frame.clone(), texts) {
                    Ok(parts) => {
                        text.push_str(&text_of(parts));
                        false
                    }
                    Err(HoldsCredential) => true,
                });
                if broke {
                    break;
                }
            }
            prop_assert_eq!((broke, text), left(&scrub, &parts));
        }
    }

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
