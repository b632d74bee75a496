//! Finds credentials as a recipient would read a text: decoded, folded, unpacked.
//!
//! Each view opens only where the text shows what it is for: an escape that stands for a letter of a
//! token, a long run of letters, pairs of hexadecimal digits. Clean text pays for the question alone.

use std::ops::Range;

use super::fold;
use super::kinds::{Confidence, How};
use super::letters::{
    BASE32_LETTERS, BASE64_LETTERS, HEX_LETTERS, Letters, is_text, unpack, unpacked,
};
use super::rules::{self, DIGITS_MIN, Mode};
use super::shape::{ALNUM, Alphabet, BASE32, BASE32_LOWER, HEX_ANY};
use super::{own, plain};
use crate::domain::readings::{Reading, has_hidden};

/// One place in the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// What it is.
    pub kind: &'static str,
    /// How sure that is.
    pub confidence: Confidence,
    /// How it was written.
    pub how: How,
    /// Where.
    pub range: Range<usize>,
}

/// How often what was decoded is decoded again.
const LAYERS: usize = 3;
/// Bytes of a window around an escape, and how far the next one reaches back.
pub(super) const WINDOW: usize = 2400;
pub(super) const OVERLAP: usize = 600;
/// Letters of the shortest run that is decoded.
pub(super) const RUN_MIN: usize = 16;
/// Letters of a line after which an encoded text goes on in the next one.
const LINE_MIN: usize = 56;
/// Characters of text in a row, among decoded bytes, that are looked through.
const STRETCH_MIN: usize = 12;
/// Pairs of digits in a row that are decoded, and how far one look for them is from the next.
const PAIRS_MIN: usize = 6;
const PAIRS_STEP: usize = 11;
/// Bytes of the shortest finding.
pub(super) const SHORT_MIN: usize = 6;
/// Work: bytes looked at for each byte of the source, and beside that, unless the configuration asks for
/// other work.
const WORK_PER_BYTE: usize = 24;
const WORK_BYTES: usize = 4 << 20;

/// What is found in a text, and whether the work had an end before the text had.
#[derive(Default, Debug)]
pub(super) struct Views {
    /// The findings; they may overlap.
    pub spans: Vec<Span>,
    /// It holds something encoded that is no text.
    pub is_opaque: bool,
    /// Not everything was looked through.
    pub is_over: bool,
    work: usize,
}

/// Where a part of a view stands in the source.
pub(super) type Place<'p> = &'p dyn Fn(&Range<usize>) -> Range<usize>;

/// A text within a text.
#[derive(Clone, Copy)]
pub(super) struct ViewLevel<'p> {
    /// Where its parts stand in the source.
    pub place: Place<'p>,
    /// How it was written.
    pub how: How,
    /// How sure numbers and addresses in it are.
    pub mode: Mode,
    /// How often what is encoded in it is decoded.
    pub layers: usize,
}

impl<'p> ViewLevel<'p> {
    /// What is decoded from it, in so many layers.
    pub const fn decoded(self, place: Place<'p>, layers: usize) -> Self {
        Self { place, how: How::Decoded, mode: Mode::Written, layers }
    }
}

/// Looks through a text.
pub(super) fn look(source: &str) -> Views {
    let work = source.len().saturating_mul(WORK_PER_BYTE).saturating_add(WORK_BYTES);
    let work = own::work(work);
    let mut views = Views { work, ..Views::default() };
    let place: Place<'_> = &Range::clone;
    let level = ViewLevel { place, how: How::Plain, mode: Mode::Written, layers: LAYERS };
    views.text(source.as_bytes(), level);
    if source.is_ascii() && !has_hidden(source) {
        return views;
    }
    // Numbers in the digits of any script, and addresses with letters of any.
    let reading = Reading::of(source);
    let place: Place<'_> = &|range| reading.source(range).unwrap_or_else(|| range.clone());
    views.numbers(reading.text.as_bytes(), ViewLevel { place, ..level });
    if let Some(plain) = reading.plain() {
        let place: Place<'_> = &|range| plain.source(range).unwrap_or_else(|| range.clone());
        views.text(plain.text.as_bytes(), ViewLevel { place, how: How::Folded, ..level });
    }
    if let Some(folded) = fold::folded(source) {
        let place: Place<'_> = &|range| folded.place(range);
        views.text(&folded.text, ViewLevel { place, how: How::Folded, ..level });
    }
    views
}

impl Views {
    /// Whether there is work left for so many bytes.
    pub fn spend(&mut self, bytes: usize) -> bool {
        match self.work.checked_sub(bytes) {
            Some(left) => self.work = left,
            None => (self.work, self.is_over) = (0, true),
        }
        !self.is_over
    }

    /// Everything in a text, and in what it encodes.
    pub fn text(&mut self, text: &[u8], level: ViewLevel<'_>) {
        if !self.spend(text.len()) {
            return;
        }
        let groups = rules::groups(text);
        for found in plain::scan_groups(text, &groups, level.how == How::Decoded, level.mode) {
            self.note(found.kind, found.confidence, level.how, (level.place)(&found.range));
        }
        self.turned(text, &groups, level);
        let Some(deeper) = level.layers.checked_sub(1) else { return };
        let deeper = ViewLevel { layers: deeper, ..level };
        self.escapes(text, deeper);
        self.runs(text, deeper);
        self.pairs(text, deeper);
        self.apart(text, &groups, deeper);
    }

    /// Notes what was found, unless something that says all of it is noted already.
    pub fn note(
        &mut self,
        kind: &'static str,
        confidence: Confidence,
        how: How,
        range: Range<usize>,
    ) {
        let span = Span { kind, confidence, how, range };
        if !self.spans.iter().rev().take(16).any(|known| says_more(known, &span)) {
            self.spans.push(span);
        }
    }

    /// Numbers and addresses alone.
    fn numbers(&mut self, text: &[u8], level: ViewLevel<'_>) {
        let groups = rules::groups(text);
        for hit in rules::scan_groups(text, &groups, level.mode) {
            let range = (level.place)(&(hit.start..hit.end));
            self.note(hit.kind, Confidence::High, level.how, range);
        }
        self.turned(text, &groups, level);
    }

    /// The windows around escapes that stand for letters of a token.
    fn escapes(&mut self, text: &[u8], level: ViewLevel<'_>) {
        let is_mark = |byte: &u8| matches!(byte, b'%' | b'\\' | b'&');
        if text.iter().filter(|byte| is_mark(byte)).count() == 0 {
            return;
        }
        let mut from = 0;
        while let Some(rest) = text.get(from..) {
            let Some(next) = rest.iter().position(is_mark) else { return };
            let at = from + next;
            if !stands_for_letter(text.get(at..).unwrap_or_default()) {
                from = at + 1;
                continue;
            }
            let window = word(text, at);
            self.unescape(text, &window, level);
            from = if window.end > at + OVERLAP
                && window.end < text.len()
                && is_part(text, window.end)
            {
                window.end - OVERLAP
            } else {
                window.end.max(at + 1)
            };
        }
    }

    fn unescape(&mut self, text: &[u8], window: &Range<usize>, level: ViewLevel<'_>) {
        let part = text.get(window.clone()).unwrap_or_default();
        let Ok(part) = std::str::from_utf8(part) else { return };
        let mut reading = Reading::of(part);
        for _ in 0..LAYERS {
            let Some(next) = reading.unescaped() else { return };
            reading = next;
            let here = |range: &Range<usize>| {
                let source = reading.source(range).unwrap_or(0..window.len());
                (level.place)(&(window.start + source.start..window.start + source.end))
            };
            // What these hold is found in the next layer of escapes; other encodings open here.
            let text = reading.text.as_bytes();
            if !self.spend(text.len()) {
                return;
            }
            self.text(text, level.decoded(&here, level.layers.min(1)));
        }
    }

    /// The runs of letters that may be encoded.
    fn runs(&mut self, text: &[u8], level: ViewLevel<'_>) {
        let mut at = RUN_MIN - 1;
        while let Some(byte) = text.get(at) {
            if !is_letter(*byte) {
                at += RUN_MIN;
                continue;
            }
            let (before, after) = text.split_at_checked(at).unwrap_or_default();
            let start = at - before.iter().rev().take_while(|byte| is_letter(**byte)).count();
            let end = at + after.iter().take_while(|byte| is_letter(**byte)).count();
            let (letters, end) = wrapped(text, start, end);
            if letters.len() >= RUN_MIN {
                let whole = (level.place)(&(start..end));
                self.letters(&letters, &whole, level);
            }
            at = end + RUN_MIN;
        }
    }

    /// What letters decode to, in each alphabet and from each place where bytes may begin.
    fn letters(&mut self, letters: &[u8], whole: &Range<usize>, level: ViewLevel<'_>) {
        self.digits(letters, whole, level);
        let is_only = |alphabet: Alphabet| letters.iter().all(|byte| alphabet.has(*byte));
        if is_only(HEX_ANY) {
            return;
        }
        if is_only(BASE32) || is_only(BASE32_LOWER) {
            self.decode(letters, &BASE32_LETTERS, (whole, level));
        }
        // Each third character of a text would be one of the last twenty: names and paths are, and no key is.
        if letters.iter().any(u8::is_ascii_uppercase) && self.spend(3 * letters.len()) {
            self.decode(letters, &BASE64_LETTERS, (whole, level));
        }
    }

    /// What the hexadecimal digits among letters decode to.
    fn digits(&mut self, letters: &[u8], whole: &Range<usize>, level: ViewLevel<'_>) {
        for run in letters.split(|byte| !HEX_ANY.has(*byte)) {
            if run.len() >= RUN_MIN {
                self.decode(run, &HEX_LETTERS, (whole, level));
            }
        }
    }

    /// What a run decodes to, from each place where bytes may begin. It is noted if that is no text although it is
    /// encoded.
    fn decode(
        &mut self,
        run: &[u8],
        alphabet: &Letters,
        (whole, level): (&Range<usize>, ViewLevel<'_>),
    ) {
        let (mut bytes, mut has_text) = (Vec::with_capacity(run.len()), false);
        let is_blob = (alphabet.is_blob)(run);
        for skip in 0..alphabet.turns {
            unpack(run.get(skip..).unwrap_or_default(), alphabet, &mut bytes);
            has_text = has_text || (is_blob && is_text(&bytes));
            self.bytes(&bytes, whole, level);
        }
        self.is_opaque |= is_blob && !has_text;
    }

    /// Pairs of hexadecimal digits with one separator between them: `67:68:70`.
    fn pairs(&mut self, text: &[u8], level: ViewLevel<'_>) {
        let mut at = 0;
        while let Some(window) = text.get(at..at + 6) {
            let Some(shift) = (0..3).find(|shift| is_pair(window, *shift)) else {
                at += PAIRS_STEP;
                continue;
            };
            let mark = text.get(at + shift).copied();
            // A separator stands at each third place from here on, in both directions.
            let is_at = |at: usize| text.get(at).copied() == mark;
            let is_digits = |from: usize| {
                text.get(from..from + 2).is_some_and(|two| two.iter().all(|b| HEX_ANY.has(*b)))
            };
            let (mut first, mut last) = (at + shift, at + shift);
            while first >= 3 && is_at(first - 3) && is_digits(first - 2) {
                first -= 3;
            }
            while is_at(last + 3) && is_digits(last + 1) {
                last += 3;
            }
            // The end of a word is no pair, nor is its beginning.
            let is_word = |at: Option<usize>| {
                at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_alphanumeric)
            };
            let begins = first >= 2 && is_digits(first - 2) && !is_word(first.checked_sub(3));
            let start = if begins { first - 2 } else { first + 1 };
            let ends = is_digits(last + 1) && !is_word(Some(last + 3));
            let end = if ends { last + 3 } else { last };
            let run = text.get(start..end).unwrap_or_default();
            let digits: Vec<u8> = run.iter().filter(|byte| HEX_ANY.has(**byte)).copied().collect();
            if digits.len() >= 2 * PAIRS_MIN && self.spend(run.len()) {
                let mut bytes = Vec::new();
                unpack(&digits, &HEX_LETTERS, &mut bytes);
                self.bytes(&bytes, &(level.place)(&(start..end)), level);
            }
            at = end.max(at) + 1;
        }
    }

    /// The text among decoded bytes, and in what they are packed from.
    pub fn bytes(&mut self, bytes: &[u8], whole: &Range<usize>, level: ViewLevel<'_>) {
        if let Some(unpacked) = unpacked(bytes)
            && self.spend(unpacked.len())
        {
            self.stretches(&unpacked, whole, level);
        }
        let place: Place<'_> = &|_| whole.clone();
        self.read(bytes, place, level);
    }

    /// As [`Self::bytes`], of what is not packed.
    pub fn read(&mut self, bytes: &[u8], place: Place<'_>, level: ViewLevel<'_>) {
        let level = level.decoded(place, level.layers);
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        if zeros >= SHORT_MIN && zeros * 5 >= bytes.len() * 2 {
            // UTF-16: every other byte of plain text is zero.
            let narrow: Vec<u8> = bytes.iter().filter(|byte| **byte != 0).copied().collect();
            let all = place(&(0..bytes.len()));
            return self.stretches(&narrow, &all, level);
        }
        if bytes.len() >= SHORT_MIN && is_text(bytes) {
            return self.text(bytes, level);
        }
        let level = ViewLevel { mode: Mode::Bytes, ..level };
        let digits = || bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
        if bytes.contains(&b'@') || digits() >= DIGITS_MIN {
            self.numbers(bytes, level);
        }
        self.ranges(bytes, level);
    }

    fn stretches(&mut self, bytes: &[u8], whole: &Range<usize>, level: ViewLevel<'_>) {
        let place: Place<'_> = &|_| whole.clone();
        let level = level.decoded(place, level.layers);
        if bytes.len() >= SHORT_MIN && is_text(bytes) {
            return self.text(bytes, level);
        }
        self.ranges(bytes, level);
    }

    /// The stretches of plain characters.
    fn ranges(&mut self, bytes: &[u8], level: ViewLevel<'_>) {
        let is_text = |byte: &u8| (b' '..0x7f).contains(byte) || b"\t\n\r".contains(byte);
        let mut at = STRETCH_MIN - 1;
        while let Some(byte) = bytes.get(at) {
            if !is_text(byte) {
                at += STRETCH_MIN;
                continue;
            }
            let (before, after) = bytes.split_at_checked(at).unwrap_or_default();
            let start = at - before.iter().rev().take_while(|byte| is_text(byte)).count();
            let end = at + after.iter().take_while(|byte| is_text(byte)).count();
            if end - start >= STRETCH_MIN {
                let text = bytes.get(start..end).unwrap_or_default();
                let here =
                    |range: &Range<usize>| (level.place)(&(start + range.start..start + range.end));
                self.text(text, ViewLevel { place: &here, ..level });
            }
            at = end + STRETCH_MIN;
        }
    }
}

/// Whether a finding says all that another one does.
fn says_more(known: &Span, other: &Span) -> bool {
    known.kind == other.kind
        && known.confidence <= other.confidence
        && known.range.start <= other.range.start
        && known.range.end >= other.range.end
}

pub(super) fn is_letter(byte: u8) -> bool {
    ALNUM.has(byte) || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Whether an escape stands here for a letter that a token may have, for the mark of another escape, or for
/// nothing: between letters of two bytes each.
fn stands_for_letter(text: &[u8]) -> bool {
    let value = |from: usize, count: usize| {
        let digits = text.get(from..from + count)?;
        digits
            .iter()
            .try_fold(0_u32, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
    };
    let is_letter = |value: Option<u32>| {
        value
            .and_then(|value| u8::try_from(value).ok())
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"\0_-%\\&+/=.:@$".contains(&byte))
    };
    match text {
        [b'%', ..] => is_letter(value(1, 2)),
        [b'\\', b'u', b'{', ..] => true,
        [b'\\', b'u', ..] => is_letter(value(2, 4)),
        [b'\\', b'x', ..] => is_letter(value(2, 2)),
        [b'\\', b'U', ..] => is_letter(value(2, 8)),
        [b'&', b'#', ..] => true,
        _ => false,
    }
}

/// Whether a byte may belong to the word around an escape.
pub(super) fn is_part(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(|byte| byte.is_ascii_graphic() && !b"\"'`<>".contains(byte))
}

/// The word around this place, at most half a window in each direction.
fn word(text: &[u8], at: usize) -> Range<usize> {
    let before = (0..at).rev().take(OVERLAP).take_while(|at| is_part(text, *at)).count();
    let after = (at..text.len()).take(WINDOW - OVERLAP).take_while(|at| is_part(text, *at)).count();
    at - before..at + after.max(1)
}

/// The letters of a run, and of the lines that go on from it, and where they end.
fn wrapped(text: &[u8], start: usize, end: usize) -> (std::borrow::Cow<'_, [u8]>, usize) {
    let line = text.get(start..end).unwrap_or_default();
    let (mut at, mut long) = (end, line.len() >= LINE_MIN);
    let mut letters = std::borrow::Cow::Borrowed(line);
    while long {
        let rest = text.get(at..).unwrap_or_default();
        let gap =
            [&b"\r\n"[..], b"\n", b"\\r\\n", b"\\n"].into_iter().find(|gap| rest.starts_with(gap));
        let Some(gap) = gap.map(<[u8]>::len) else { break };
        let next = rest.get(gap..).unwrap_or_default();
        let length = next.iter().take_while(|byte| is_letter(**byte)).count();
        if length == 0 {
            break;
        }
        letters.to_mut().extend_from_slice(next.get(..length).unwrap_or_default());
        at += gap + length;
        long = length >= LINE_MIN;
    }
    (letters, at)
}

/// Whether digits, a separator, digits and the same separator stand in these six bytes from there on.
fn is_pair(window: &[u8], shift: usize) -> bool {
    let mark = window.get(shift).copied();
    let is_mark = |byte: u8| !byte.is_ascii_alphanumeric() && byte.is_ascii();
    mark.is_some_and(is_mark)
        && window.get(shift + 3).copied() == mark
        && window.iter().enumerate().all(|(at, byte)| at % 3 == shift || HEX_ANY.has(*byte))
}
