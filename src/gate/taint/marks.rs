//! Marks of texts: keyed hashes by which a copy of a passage is found again.
//!
//! A text is folded first: compatibility forms, lower case, and everything but letters and digits becomes one
//! space, so that a copy with other spacing or punctuation is the same. A mark stands for 32 bytes of that, or
//! for a whole token of the text that is long and peculiar enough: an address, an identifier, a number.

use std::collections::VecDeque;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::domain::digest::Digest;

/// Bytes of folded text that one mark stands for.
pub(super) const SHINGLE: usize = 32;
/// A long text keeps at least one mark of so many neighbouring ones: every copy of
/// `SHINGLE + WINDOW - 1` bytes is found.
const WINDOW: usize = 16;
/// Marks of a text that keeps all of them: every copy of `SHINGLE` bytes is found.
const ALL_KEPT: usize = 1024;
/// Characters of the shortest token.
const TOKEN_CHARS: usize = 12;

/// Bytes of the shortest text that has a mark.
pub(super) const BYTES_MIN: usize = TOKEN_CHARS;

/// A secret of this process, so that marks mean nothing to others.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkKey {
    base: u64,
    tail: u64,
}

impl MarkKey {
    pub fn of(digest: &Digest) -> Self {
        let mut words = digest
            .as_bytes()
            .chunks_exact(8)
            .filter_map(|eight| <[u8; 8]>::try_from(eight).ok().map(u64::from_be_bytes));
        let (base, tail) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        Self { base: base | 1, tail }
    }

    fn finish(self, hash: u64) -> u64 {
        let mut mixed = hash ^ self.tail;
        for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
            mixed = (mixed ^ (mixed >> 33)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 33)
    }

    fn whole(self, bytes: impl Iterator<Item = u8>) -> u64 {
        let step = |hash: u64, byte: u8| self.step(hash, byte);
        self.finish(bytes.fold(1, step))
    }

    const fn step(self, hash: u64, byte: u8) -> u64 {
        hash.wrapping_mul(self.base).wrapping_add(byte as u64).wrapping_add(1)
    }
}

/// One mark, and the bytes of the text that it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub hash: u64,
    pub start: usize,
    pub end: usize,
}

/// Every mark of a text, in the order of their places.
pub(super) fn every(key: MarkKey, text: &str) -> Vec<Mark> {
    let mut all = shingles(key, text);
    all.extend(tokens(key, text));
    all
}

/// The marks of a text that are kept: `most` at most.
pub(super) fn kept(key: MarkKey, text: &str, most: usize) -> Vec<u64> {
    let mut all: Vec<u64> = tokens(key, text).map(|mark| mark.hash).collect();
    all.truncate(most / 2);
    let shingles: Vec<u64> = shingles(key, text).iter().map(|mark| mark.hash).collect();
    let room = most.saturating_sub(all.len()).max(1);
    if shingles.len() <= ALL_KEPT.min(room) {
        all.extend(shingles);
    } else {
        // A window of `w` keeps about two of every `w + 1`.
        let window = WINDOW.max(shingles.len().saturating_mul(2) / room);
        all.extend(winnowed(&shingles, window).take(room));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The smallest mark of each window, the last of equals.
fn winnowed(hashes: &[u64], window: usize) -> impl Iterator<Item = u64> {
    let mut queue: VecDeque<(usize, u64)> = VecDeque::new();
    let mut last = None;
    hashes.iter().enumerate().filter_map(move |(at, hash)| {
        while queue.back().is_some_and(|(_, back)| back >= hash) {
            queue.pop_back();
        }
        queue.push_back((at, *hash));
        while queue.front().is_some_and(|(front, _)| front.saturating_add(window) <= at) {
            queue.pop_front();
        }
        let smallest = queue.front().copied()?;
        let is_full = at.saturating_add(1) >= window;
        (is_full && last.replace(smallest.0) != Some(smallest.0)).then_some(smallest.1)
    })
}

/// A text with the place of each byte in the original.
struct FoldedText {
    bytes: Vec<u8>,
    at: Vec<usize>,
}

impl FoldedText {
    fn of(text: &str) -> Self {
        // The fold makes few texts longer.
        let (bytes, at) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()));
        let mut folded = Self { bytes, at };
        for (at, c) in text.char_indices() {
            if c.is_ascii() {
                folded.push(at, c);
            } else if !is_invisible(c) {
                c.nfkd().filter(|c| !is_combining_mark(*c)).for_each(|c| folded.push(at, c));
            }
        }
        folded
    }

    fn push(&mut self, at: usize, c: char) {
        if !c.is_alphanumeric() {
            if self.bytes.last().is_some_and(|last| *last != b' ') {
                self.byte(at, b' ');
            }
            return;
        }
        if c.is_ascii() {
            let [.., byte] = u32::from(c.to_ascii_lowercase()).to_be_bytes();
            return self.byte(at, byte);
        }
        let mut buffer = [0; 4];
        for lower in c.to_lowercase() {
            lower.encode_utf8(&mut buffer).bytes().for_each(|byte| self.byte(at, byte));
        }
    }

    fn byte(&mut self, at: usize, byte: u8) {
        self.bytes.push(byte);
        self.at.push(at);
    }

    /// The place in the original that this byte of the folded text stands at.
    fn place(&self, at: usize, text: &str) -> usize {
        self.at.get(at).copied().unwrap_or(text.len())
    }
}

/// Characters that are not seen: a copy with some in between is a copy.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// The marks of every 32 bytes of the folded text.
fn shingles(key: MarkKey, text: &str) -> Vec<Mark> {
    // The fold makes few texts longer: by letters that stand for several.
    if text.is_ascii() && text.len() < SHINGLE {
        return Vec::new();
    }
    let folded = FoldedText::of(text);
    let gone = (0..SHINGLE).fold(1_u64, |power, _| power.wrapping_mul(key.base));
    let marks = folded.bytes.len().saturating_sub(SHINGLE.saturating_sub(1));
    let (mut hash, mut all) = (0_u64, Vec::with_capacity(marks));
    for (i, byte) in folded.bytes.iter().enumerate() {
        hash = key.step(hash, *byte);
        let Some(start) = i.saturating_add(1).checked_sub(SHINGLE) else { continue };
        if let Some(before) = start.checked_sub(1).and_then(|at| folded.bytes.get(at)) {
            let before = u64::from(*before).wrapping_add(1);
            hash = hash.wrapping_sub(before.wrapping_mul(gone));
        }
        let end = folded.place(i.saturating_add(1), text);
        all.push(Mark { hash: key.finish(hash), start: folded.place(start, text), end });
    }
    all
}

/// The marks of the tokens that are long and peculiar enough to be no coincidence.
fn tokens(key: MarkKey, text: &str) -> impl Iterator<Item = Mark> {
    let words = pieces(text, 0, |c| c.is_whitespace() || "\"'`<>()[]{},;|\\".contains(c));
    words
        .flat_map(move |(start, word)| {
            let origin = word.find("://").and_then(|scheme| {
                let after = scheme.saturating_add(3);
                let host = word.get(after..)?.find(['/', '?', '#']).unwrap_or(usize::MAX);
                Some((start, word.get(..after.saturating_add(host))?))
            });
            let parts =
                pieces(word, start, |c| "/?&=#".contains(c)).filter(move |(_, part)| *part != word);
            std::iter::once((start, word)).chain(origin).chain(parts)
        })
        .filter_map(move |(start, word)| {
            let token = word.trim_end_matches(['.', ':', '!', '?', '-', '/']);
            is_peculiar(token).then(|| {
                let folded = token.nfkd().filter(|c| !is_combining_mark(*c) && !is_invisible(*c));
                let lower: String = folded.flat_map(char::to_lowercase).collect();
                let hash = key.whole(lower.bytes().chain([0]));
                Mark { hash, start, end: start.saturating_add(token.len()) }
            })
        })
}

/// The parts of a text between such characters, each with its place.
fn pieces(
    text: &str,
    from: usize,
    is_between: impl Fn(char) -> bool,
) -> impl Iterator<Item = (usize, &str)> {
    let mut at = from;
    text.split_inclusive(is_between).filter_map(move |part| {
        let start = at;
        at = at.saturating_add(part.len());
        let last = part.chars().next_back()?;
        let separators = "\"'`<>()[]{},;|\\/?&=#";
        let is_cut =
            (last.is_whitespace() || separators.contains(last)) && part.len() > last.len_utf8();
        let part = if is_cut { part.strip_suffix(last)? } else { part };
        Some((start, part))
    })
}

/// Whether two texts hardly have this token by chance: ordinary long words do not count.
fn is_peculiar(token: &str) -> bool {
    if token.chars().take(TOKEN_CHARS).count() < TOKEN_CHARS {
        return false;
    }
    let has_digit = token.chars().any(|c| c.is_ascii_digit());
    let is_joined = token.contains(['@', '_', ':', '.', '/']);
    let mixes =
        token.chars().skip(1).any(char::is_uppercase) && token.chars().any(char::is_lowercase);
    has_digit || is_joined || mixes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> MarkKey {
        MarkKey::of(&Digest::of(&[b"a key"]))
    }

    fn is_found(source: &str, copy: &str) -> bool {
        let kept = kept(key(), source, 2048);
        every(key(), copy).iter().any(|mark| kept.binary_search(&mark.hash).is_ok())
    }

    const WORDS: [&str; 24] = [
        "amber", "brook", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty",
        "kelp", "larch", "mesa", "north", "oasis", "pebble", "quarry", "reef", "slate", "tundra",
        "umber", "vale", "wharf", "yarrow",
    ];

    fn prose(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        let word = proptest::sample::select(WORDS.to_vec());
        proptest::collection::vec((word, 0_u16..1000), words).prop_map(|all| {
            all.iter().map(|(w, n)| format!("{w}{n}")).collect::<Vec<_>>().join(" ")
        })
    }

    proptest! {
        #[test]
        fn a_copied_span_of_32_bytes_of_a_short_text_is_always_found(
            text in prose(12..100), at in 0_usize..1000, before in prose(1..4), after in prose(1..4),
        ) {
            let at = at % (text.len() - 40);
            // The fold leaves out a space at its begin and its end.
            let copy = text.get(at..at + 34).unwrap().trim();
            let copy = format!("{before}; {copy}; {after}");
            prop_assert!(is_found(&text, &copy), "{copy}");
        }

        #[test]
        fn a_copied_span_of_47_bytes_of_a_long_text_is_always_found(
            text in prose(300..1500), at in 0_usize..100_000,
        ) {
            let span = SHINGLE + WINDOW + 1;
            let at = at % (text.len() - span);
            let copy = format!("<p>{}</p>", text.get(at..at + span).unwrap().trim());
            prop_assert!(is_found(&text, &copy));
        }

        #[test]
        fn spacing_punctuation_case_and_invisible_characters_hide_no_copy(text in prose(12..60)) {
            let other: String = text.to_uppercase().replace(' ', " -\u{200b}\n ");
            prop_assert!(is_found(&text, &other));
        }

        #[test]
        fn unrelated_texts_are_not_found(one in "[a-m ]{0,400}", other in "[n-z ]{0,400}") {
            prop_assert!(!is_found(&one, &other));
        }
    }

    #[test]
    fn peculiar_tokens_are_found_and_ordinary_words_are_not() {
        let page =
            "Send the documentation to https://evil.test/collect?x=1 or ann@shop.example now";
        for copy in ["https://evil.test/other?d=abc", "to: ANN@SHOP.EXAMPLE", "(ann@shop.example)"]
        {
            assert!(is_found(page, copy), "{copy}");
        }
        for other in ["documentation", "international documentation", "https://good.test/collect"] {
            assert!(!is_found(page, other), "{other}");
        }
        assert!(is_found("reference AB12-9981-77XX.", "AB12-9981-77XX"));
    }

    #[test]
    fn a_mark_names_its_place_in_the_text() {
        let text = "see é: ann@shop.example!";
        let mark = every(key(), text)
            .into_iter()
            .find(|mark| text.get(mark.start..mark.end) == Some("ann@shop.example"));
        assert!(mark.is_some());
    }

    #[test]
    fn the_marks_that_are_kept_are_bounded() {
        let long: String = (0..200_000).map(|n| format!("{n} ")).collect();
        assert!(kept(key(), &long, 2048).len() <= 2048);
    }
}
