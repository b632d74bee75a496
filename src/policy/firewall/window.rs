//! Masks a text that comes in pieces.
//!
//! A part of the text leaves once nothing that follows can make it a part of a finding. White space
//! ends a finding, but for numbers in groups, letters that are spaced apart and broken lines: the
//! window holds back the last word and all that such a chain joins to it. What has left stays in
//! sight for a while. A finding that begins there, unmasked, and goes on cannot be masked any more: it
//! ends the text.
//!
//! A text may pause, and go on elsewhere: in the next block of an answer. What was held leaves then,
//! and the window is [open](RedactWindow::is_open) until nothing that follows can make it a part of a
//! finding.

use std::ops::Range;

use super::views::Span;
use super::{Mask, look, redact_text, rules, special};

/// Bytes of a chain that are held back at most.
const HELD_MAX: usize = 16 * 1024;
/// Bytes of a longer chain that stay: more than any finding takes that is written plainly.
const HELD_KEPT: usize = 4 * 1024;
/// Bytes that have left and are looked through together with those that follow.
const SIGHT: usize = 1024;
/// Bytes of a plain word, at most.
const WORD: usize = 24;
/// Bytes of the longest address, about.
const ADDRESS: usize = 640;

/// Why a text that comes in pieces cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unmaskable {
    /// A finding begins in what has left.
    #[error("what must be masked goes on from a part that has left")]
    Late,
    /// Something in it cannot be looked through, and the policy does not let that pass.
    #[error("it holds something encoded that is no text")]
    Unscanned,
    /// Each mask makes another finding.
    #[error("it cannot be masked")]
    Endless,
    /// Two of its texts come in turns, so that neither can be followed.
    #[error("two of its texts come mixed with each other")]
    Mixed,
    /// What must stay as it is has a finding.
    #[error("the id or the name of a tool call holds what must be masked")]
    Named,
}

/// One text on its way out.
#[derive(Clone, Debug)]
pub struct RedactWindow {
    kinds: Vec<String>,
    /// Whether what cannot be looked through may leave.
    opaque: bool,
    /// The newest that has left, as it came.
    left: String,
    /// Bytes at its end that left when the text paused, and that may be the beginning of a finding.
    open: usize,
    /// The findings in `left`.
    found: Vec<Range<usize>>,
    held: String,
    masked: u64,
}

impl RedactWindow {
    /// A window that masks findings of these kinds. `opaque`: whether what cannot be looked through
    /// may leave.
    #[must_use]
    pub fn new(kinds: &[String], opaque: bool) -> Self {
        let (left, held) = (String::new(), String::new());
        Self { kinds: kinds.to_vec(), opaque, left, open: 0, found: Vec::new(), held, masked: 0 }
    }

    /// Takes a piece of the text; returns what may leave now, masked.
    ///
    /// # Errors
    /// The text must end here.
    pub fn push(&mut self, piece: &str) -> Result<String, Unmaskable> {
        self.held.push_str(piece);
        let (settled, was_open) = (self.settled(), self.open);
        self.open = was_open.saturating_sub(settled);
        self.leave(settled.saturating_sub(was_open), was_open > 0)
    }

    /// The text ends here or pauses: returns the rest, masked. The window stays open for what follows.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn flush(&mut self) -> Result<String, Unmaskable> {
        let ahead = self.open.saturating_add(self.held.len());
        self.open = ahead.saturating_sub(self.settled());
        self.leave(self.held.len(), false)
    }

    /// Whether the text has paused, and what follows may show that its last part is the beginning of a
    /// finding.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Whether the window is open, and its last part is more than a plain word.
    #[must_use]
    pub fn is_open_behind_more_than_a_word(&self) -> bool {
        let from = self.left.len().saturating_sub(self.open);
        let tail = self.left.get(from..).unwrap_or_default().trim();
        let is_plain = |c: char| c.is_alphabetic() || ".,;:!?'\"()*`".contains(c);
        self.is_open() && !(tail.chars().all(is_plain) && tail.len() <= WORD)
    }

    /// The number of findings that were masked.
    #[must_use]
    pub const fn masked(&self) -> u64 {
        self.masked
    }

    /// How many bytes are settled, from where the text is open.
    fn settled(&self) -> usize {
        if self.open == 0 {
            return settled(&self.held);
        }
        let from = self.left.len().saturating_sub(self.open);
        settled(&format!("{}{}", self.left.get(from..).unwrap_or_default(), self.held))
    }

    /// Lets so many bytes of what is held leave; fewer, if they end within a finding. `looks`: whether
    /// to look through the text even if nothing leaves.
    fn leave(&mut self, bytes: usize, looks: bool) -> Result<String, Unmaskable> {
        if bytes == 0 && !looks {
            return Ok(String::new());
        }
        let begin = self.left.len();
        let all = format!("{}{}", self.left, self.held);
        let mut seen = look::text(&all);
        if seen.unscanned() && !self.opaque {
            return Err(Unmaskable::Unscanned);
        }
        seen.spans.retain(|one| self.kinds.iter().any(|wanted| wanted == one.kind));
        let found: Vec<Range<usize>> = seen.spans.iter().map(|one| one.range.clone()).collect();
        // What follows a masked beginning is masked as well.
        for span in seen.spans.iter_mut().map(|one| &mut one.range).filter(|one| one.start < begin)
        {
            if !is_covered(span.start..span.end.min(begin), &self.found) {
                return Err(Unmaskable::Late);
            }
            span.start = begin;
        }
        let end = uncut(&seen.spans, begin.saturating_add(bytes));
        let leaves = all.get(begin..end).unwrap_or_default();
        let sight = floor(&all, end.saturating_sub(SIGHT.max(self.open)));
        self.found.extend(found);
        self.found.retain(|span| span.end <= end && span.end > sight);
        self.found.iter_mut().for_each(|span| *span = moved(span, sight));
        self.found.dedup();
        seen.spans.retain(|one| one.range.start < one.range.end && one.range.end <= end);
        seen.spans.iter_mut().for_each(|one| one.range = moved(&one.range, begin));
        let value = self.masks(leaves, seen)?;
        self.held = all.get(end..).unwrap_or_default().to_owned();
        self.left = all.get(sight..end).unwrap_or_default().to_owned();
        Ok(value)
    }

    /// The text without these findings, and without those that their masks make.
    fn masks(&mut self, text: &str, seen: look::TextFindings) -> Result<String, Unmaskable> {
        let mut mask = Mask::of(&self.kinds);
        let once = mask.spans(text, seen).unwrap_or_else(|| text.to_owned());
        let masked = mask.masked;
        let done = redact_text(&once, &self.kinds).ok_or(Unmaskable::Endless)?;
        if done.unscanned && !self.opaque {
            return Err(Unmaskable::Unscanned);
        }
        self.masked = self.masked.saturating_add(masked).saturating_add(done.masked);
        Ok(done.value)
    }
}

/// Whether these findings cover a stretch together.
fn is_covered(stretch: Range<usize>, found: &[Range<usize>]) -> bool {
    let mut at = stretch.start;
    while at < stretch.end {
        let covering = found.iter().filter(|span| span.start <= at && span.end > at);
        let Some(end) = covering.map(|span| span.end).max() else { return false };
        at = end;
    }
    true
}

/// The same stretch, counted from this place.
fn moved(span: &Range<usize>, from: usize) -> Range<usize> {
    span.start.saturating_sub(from)..span.end.saturating_sub(from)
}

/// The place at or before this one that cuts no finding in two.
fn uncut(spans: &[Span], mut at: usize) -> usize {
    let cuts = |one: &&Span, at: usize| one.range.start < at && one.range.end > at;
    while let Some(cut) = spans.iter().find(|one| cuts(one, at)) {
        at = cut.range.start;
    }
    at
}

/// The character boundary at or before this place.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
}

/// How many bytes at the front nothing that follows can make a part of a finding.
fn settled(text: &str) -> usize {
    let words = words(text);
    let mut chain = 0;
    let mut former: Option<&Range<usize>> = None;
    for word in &words {
        if former.is_none_or(|former| !joined(text, chain, former, word)) {
            chain = word.start;
        }
        former = Some(word);
    }
    let open = [rules::open_iban(text), special::open_pem(text)];
    let chain = open.into_iter().flatten().fold(chain, usize::min);
    if text.len().saturating_sub(chain) <= HELD_MAX {
        return chain;
    }
    let end = text.len().saturating_sub(HELD_KEPT);
    let mut starts = words.iter().map(|word| word.start);
    let start = starts.rfind(|start| *start > chain && *start <= end);
    start.unwrap_or_else(|| floor(text, end))
}

/// The words of a text. The last one may go on; it is empty behind a gap.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut begun: Option<usize> = None;
    for (at, c) in text.char_indices() {
        if !is_gap(c) {
            begun.get_or_insert(at);
        } else if let Some(start) = begun.take() {
            words.push(start..at);
        }
    }
    words.push(begun.unwrap_or(text.len())..text.len());
    words
}

/// Whether a word ends before this character: white space, and scripts that have no gaps between
/// their words.
fn is_gap(c: char) -> bool {
    let is_wide = matches!(u32::from(c), 0x2e80..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff);
    c.is_whitespace() || is_wide
}

/// Whether a finding may reach from one word into the next one. `chain` is where those begin that
/// are joined before.
fn joined(text: &str, chain: usize, former: &Range<usize>, word: &Range<usize>) -> bool {
    let of = |range: Range<usize>| text.get(range).unwrap_or_default();
    let (gap, may_go_on) = (of(former.end..word.start), word.end == text.len());
    let (former, next) = (of(former.clone()), of(word.clone()));
    let is_soft_break = former.ends_with('=') && gap.starts_with(['\r', '\n']);
    // A word may end with the first of the letters that are spaced apart.
    let is_spelled = gap.trim().is_empty() && (is_letter(next) || next.is_empty());
    let is_counted = is_number(former) && (is_number(next) || may_go_on && has_only_digits(next));
    // A domain may have characters of any script.
    let near = floor(text, word.start.saturating_sub(ADDRESS).max(chain));
    let is_address = !gap.contains(char::is_whitespace) && of(near..word.start).contains('@');
    is_soft_break || is_spelled || is_counted || is_address
}

/// One character alone.
fn is_letter(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some() && chars.next().is_none()
}

/// A group of digits, as they are written in any base, with whatever is beside them.
fn is_number(word: &str) -> bool {
    let has_digit = word.chars().any(char::is_numeric);
    let has_letter = word.chars().any(char::is_alphanumeric);
    !word.is_empty() && has_only_digits(word) && (has_digit || !has_letter)
}

/// Whether the word has no letter but those of hexadecimal digits and their marks.
fn has_only_digits(word: &str) -> bool {
    let is_digit = |c: char| c.is_numeric() || c.is_ascii_hexdigit() || "xXuU".contains(c);
    word.chars().filter(|c| c.is_alphanumeric()).all(is_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::KINDS;
    use super::*;

    fn kinds() -> Vec<String> {
        KINDS.iter().map(|kind| (*kind).to_owned()).collect()
    }

    /// What leaves of a text that comes in pieces of these numbers of characters.
    fn masked(text: &str, cuts: &[usize]) -> Result<String, Unmaskable> {
        let mut window = RedactWindow::new(&kinds(), true);
        let mut out = String::new();
        let mut chars = text.chars();
        for cut in cuts.iter().cycle() {
            let piece: String = chars.by_ref().take(*cut).collect();
            if piece.is_empty() {
                break;
            }
            out.push_str(&window.push(&piece)?);
        }
        out.push_str(&window.flush()?);
        Ok(out)
    }

    fn whole(text: &str) -> String {
        redact_text(text, &kinds()).unwrap().value
    }

    #[test]
    fn prose_leaves_word_by_word() {
        let mut window = RedactWindow::new(&kinds(), false);
        let mut push = |text: &str| window.push(text).unwrap();
        assert_eq!(push("The answer"), "The ");
        assert_eq!(push(" is "), "answer ");
        assert_eq!(push("42"), "is ");
        assert_eq!(push(" of"), "42 ");
        assert_eq!(push(" ann@exam"), "of ");
        assert_eq!(push("ple.com and"), "[REDACTED:email] ");
        assert_eq!(push("日本語です。"), "and日本語です。");
        assert_eq!(window.masked(), 1);
        assert_eq!(window.flush().unwrap(), "");
    }

    #[test]
    fn groups_wait_for_each_other() {
        for (text, mask) in [
            ("4111 1111 1111 1111", "card"),
            ("4111 - 1111 - 1111 - 1111", "card"),
            ("GB29 NW BK 60161331926819", "iban"),
            ("219 09 9999", "us_ssn"),
            ("a n n @ e x a m p l e . c o m", "email"),
            ("97 110 110 64 98 46 100 101", "email"),
            ("61 6e 6e 40 62 2e 64 65", "email"),
            ("ann=40exa=\nmple.com", "email"),
        ] {
            let text = format!("see {text} now");
            assert!(whole(&text).contains(mask), "{text}");
            for cut in 1..6 {
                assert_eq!(masked(&text, &[cut]), Ok(whole(&text)), "{text} in pieces of {cut}");
            }
        }
    }

    #[test]
    fn a_finding_that_goes_on_from_what_has_left_ends_the_text() {
        let mut window = RedactWindow::new(&kinds(), true);
        assert_eq!(window.push("ann@exam").unwrap(), "");
        assert_eq!(window.flush().unwrap(), "ann@exam");
        assert_eq!(window.push("ple.com and").unwrap_err(), Unmaskable::Late);
    }

    #[test]
    fn a_text_that_pauses_is_open_until_what_follows_shows_that_nothing_goes_on() {
        let mut window = RedactWindow::new(&kinds(), true);
        assert_eq!(window.push("I use ls.").unwrap(), "I use ");
        assert!(!window.is_open(), "it goes on in the same place");
        assert_eq!(window.flush().unwrap(), "ls.");
        assert!(window.is_open() && !window.is_open_behind_more_than_a_word());
        assert_eq!(window.push("n").unwrap(), "");
        assert!(window.is_open(), "`ls.n` may be a name of a host");
        assert_eq!(window.push("ow, it").unwrap(), "now, ");
        assert!(!window.is_open());
        // Nothing is left of a number whose groups stand on both sides of a pause.
        window.push("is. Pay 4111 1111").unwrap();
        assert_eq!(window.flush().unwrap(), "4111 1111");
        assert!(window.is_open_behind_more_than_a_word());
        assert_eq!(window.push(" 1111").unwrap(), "");
        assert!(window.is_open());
        assert_eq!(window.push(" 1111 now").unwrap_err(), Unmaskable::Late);
    }

    #[test]
    fn what_goes_on_from_a_masked_part_does_not_end_the_text() {
        let mut window = RedactWindow::new(&kinds(), true);
        window.push("see ann@example.com").unwrap();
        assert_eq!(window.flush().unwrap(), "[REDACTED:email]");
        assert!(window.push("munity of ").is_ok());
        assert!(!window.is_open());
    }

    #[test]
    fn a_long_text_that_paused_stays_in_sight() {
        let mut window = RedactWindow::new(&kinds(), true);
        // Numbers in a row are one chain.
        let long = "12 ".repeat(1000);
        window.push(&format!("{long}4111 1111")).unwrap();
        window.flush().unwrap();
        assert_eq!(window.push(" 1111 1111 now").unwrap_err(), Unmaskable::Late);
    }

    #[test]
    fn a_word_without_end_leaves_in_parts_and_its_findings_do_not() {
        let long = "x".repeat(HELD_MAX);
        let text = format!("{long}{long}/ann@example.com/{long}{long}");
        let out = masked(&text, &[700]).unwrap();
        assert_eq!(out.matches("[REDACTED:email]").count(), 1);
        assert!(!out.contains("example"));
        let mut window = RedactWindow::new(&kinds(), true);
        assert!(!window.push(&format!("{long}y")).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_looked_through_leaves_only_if_the_policy_says_so() {
        let blob: String =
            (0..200_u32).map(|i| char::from(b"AZqz5/+k"[(i * i % 8) as usize])).collect();
        let text = format!("see {blob} now");
        let is_blob = redact_text(&text, &kinds()).unwrap().unscanned;
        let mut window = RedactWindow::new(&kinds(), false);
        let out = window.push(&text).and_then(|_| window.flush());
        assert_eq!(out.is_err(), is_blob);
        assert!(is_blob, "the sample is one");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn masked_in_any_pieces_is_masked_as_a_whole(
            parts in prop::collection::vec((prop::sample::select(vec![
                "ann@example.com", "mail:ann@b.de,", "ann@exämple.de", "ann@例え.com",
                "4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111",
                "DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19", "GB29NWBK60161331926819",
                "219-09-9999", "219 09 9999", "3.14", "2024", "0x2f", "GB", "GB29", "10",
                "hello", "the", "In", "{}", "x=5;", "deed", "日本語です。",
            ]), prop::sample::select(vec![" ", "\n", ", ", "\n\n", "  ", ". "])), 0..12),
            cuts in prop::collection::vec(1_usize..9, 1..8),
        ) {
            let text: String = parts.iter().flat_map(|(part, gap)| [*part, *gap]).collect();
            prop_assert_eq!(masked(&text, &cuts), Ok(whole(&text)), "{:?}", text);
        }

        #[test]
        fn a_text_with_pauses_is_masked_or_ends(
            before in prop::sample::select(vec!["", "hello the ", "x=5; 10 ", "GB29 "]),
            item in prop::sample::select(vec![
                "ann@example.com", "4111 1111 1111 1111", "219-09-9999", "a n n @ b . d e",
                "GB29 NWBK 6016 1331 9268 19",
            ]),
            after in prop::sample::select(vec!["", " now", ". In 2024"]),
            cuts in prop::collection::vec(1_usize..9, 1..8),
        ) {
            let text = format!("{before}{item}{after}");
            let (mut window, mut left) = (RedactWindow::new(&kinds(), true), String::new());
            let mut chars = text.chars();
            for cut in cuts.iter().cycle() {
                let piece: String = chars.by_ref().take(*cut).collect();
                let leaves = window.push(&piece).and_then(|text| Ok(text + &window.flush()?));
                match leaves {
                    Ok(leaves) if !piece.is_empty() => left.push_str(&leaves),
                    Ok(_) | Err(_) => break,
                }
            }
            // A finding never leaves whole: the text ends before its last piece.
            let is_found = !whole(&text).contains(item);
            prop_assert!(!is_found || !left.contains(item), "{} {:?}", left, cuts);
        }

        #[test]
        fn nothing_that_can_be_found_leaves_whatever_the_text(
            text in "[ -~\n日@]{0,300}",
            more in prop::sample::select(vec!["", "ann@example.com", "a n n @ b . d e", "4111 1111 1111 1111"]),
            cuts in prop::collection::vec(1_usize..40, 1..8),
        ) {
            let text = format!("{text} {more}");
            if let Ok(out) = masked(&text, &cuts) {
                let is_clean = redact_text(&out, &kinds()).is_some_and(|done| done.masked == 0);
                prop_assert!(is_clean || out == whole(&text), "{:?}", text);
            }
        }
    }
}
