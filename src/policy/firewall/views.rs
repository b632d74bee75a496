//! Finds credentials as a recipient would read a text: decoded, folded, unpacked.
//!
//! Each view opens only where the text shows what it is for: an escape that stands for a letter of a
//! token, a long run of letters, pairs of hexadecimal digits. Clean text pays for the question alone.

use std::ops::Range;

use super::fold;
use super::kinds::{Confidence, How};
use super::shape::{ALNUM, Alphabet, BASE32, BASE32_LOWER, HEX_ANY};
use super::{own, plain};
use crate::domain::readings::Reading;

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
const WINDOW: usize = 2400;
const OVERLAP: usize = 600;
/// Letters of the shortest run that is decoded.
const RUN_MIN: usize = 24;
/// Letters of a line after which an encoded text goes on in the next one.
const LINE_MIN: usize = 56;
/// Characters of text in a row, among decoded bytes, that are looked through.
const STRETCH_MIN: usize = 12;
/// Bytes to which something packed is unpacked.
const UNPACKED_MAX: usize = 64 * 1024;
/// Pairs of digits in a row that are decoded.
const PAIRS_MIN: usize = 16;
/// Work: bytes looked at for each byte of the source, and beside that, unless the configuration asks for
/// other work.
const WORK_PER_BYTE: usize = 24;
const WORK_BYTES: usize = 4 << 20;

/// What is found in a text, and whether the work had an end before the text had.
#[derive(Default, Debug)]
pub(super) struct Views {
    /// The findings; they may overlap.
    pub spans: Vec<Span>,
    /// Not everything was looked through.
    pub is_over: bool,
    work: usize,
}

/// Where a part of a view stands in the source.
type Place<'p> = &'p dyn Fn(&Range<usize>) -> Range<usize>;

/// Looks through a text.
pub(super) fn look(source: &str) -> Views {
    let work = source.len().saturating_mul(WORK_PER_BYTE).saturating_add(WORK_BYTES);
    let work = own::work(work);
    let mut views = Views { spans: Vec::new(), is_over: false, work };
    let place: Place<'_> = &Range::clone;
    views.text(source.as_bytes(), place, How::Plain, LAYERS);
    if !source.is_ascii()
        && let Some(folded) = fold::folded(source)
    {
        let place: Place<'_> = &|range| folded.place(range);
        views.text(&folded.text, place, How::Folded, LAYERS);
    }
    views
}

impl Views {
    /// Whether there is work left for so many bytes.
    fn spend(&mut self, bytes: usize) -> bool {
        match self.work.checked_sub(bytes) {
            Some(left) => self.work = left,
            None => (self.work, self.is_over) = (0, true),
        }
        !self.is_over
    }

    /// Everything in a text, and in what it encodes.
    fn text(&mut self, text: &[u8], place: Place<'_>, how: How, layers: usize) {
        if !self.spend(text.len()) {
            return;
        }
        for found in plain::scan(text, how == How::Decoded) {
            let span = Span {
                kind: found.kind,
                confidence: found.confidence,
                how,
                range: place(&found.range),
            };
            if !self.spans.iter().rev().take(16).any(|known| says_more(known, &span)) {
                self.spans.push(span);
            }
        }
        let Some(deeper) = layers.checked_sub(1) else { return };
        self.escapes(text, place, deeper);
        self.runs(text, place, deeper);
        self.pairs(text, place, deeper);
    }

    /// The windows around escapes that stand for letters of a token.
    fn escapes(&mut self, text: &[u8], place: Place<'_>, layers: usize) {
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
            self.unescape(text, &window, place, layers);
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

    fn unescape(&mut self, text: &[u8], window: &Range<usize>, place: Place<'_>, layers: usize) {
        let part = text.get(window.clone()).unwrap_or_default();
        let Ok(part) = std::str::from_utf8(part) else { return };
        let mut reading = Reading::of(part);
        for _ in 0..LAYERS {
            let Some(next) = reading.unescaped() else { return };
            reading = next;
            let here = |range: &Range<usize>| {
                let source = reading.source(range).unwrap_or(0..window.len());
                place(&(window.start + source.start..window.start + source.end))
            };
            // What these hold is found in the next layer of escapes; other encodings open here.
            let text = reading.text.as_bytes();
            if !self.spend(text.len()) {
                return;
            }
            self.text(text, &here, How::Decoded, layers.min(1));
        }
    }

    /// The runs of letters that may be encoded.
    fn runs(&mut self, text: &[u8], place: Place<'_>, layers: usize) {
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
                let whole = place(&(start..end));
                self.letters(&letters, &whole, layers);
            }
            at = end + RUN_MIN;
        }
    }

    /// What letters decode to, in each alphabet and from each place where bytes may begin.
    fn letters(&mut self, letters: &[u8], whole: &Range<usize>, layers: usize) {
        self.digits(letters, whole, layers);
        let is_only = |alphabet: Alphabet| letters.iter().all(|byte| alphabet.has(*byte));
        if is_only(HEX_ANY) {
            return;
        }
        let mut bytes = Vec::new();
        if is_only(BASE32) || is_only(BASE32_LOWER) {
            for skip in 0..8 {
                unpack(letters.get(skip..).unwrap_or_default(), base32, 5, &mut bytes);
                self.bytes(&bytes, whole, layers);
            }
        }
        for skip in 0..4 {
            if !self.spend(letters.len()) {
                return;
            }
            unpack(letters.get(skip..).unwrap_or_default(), base64, 6, &mut bytes);
            self.bytes(&bytes, whole, layers);
        }
    }

    /// What the hexadecimal digits among letters decode to.
    fn digits(&mut self, letters: &[u8], whole: &Range<usize>, layers: usize) {
        let mut bytes = Vec::new();
        for run in letters.split(|byte| !HEX_ANY.has(*byte)).filter(|run| run.len() >= RUN_MIN) {
            for skip in 0..2 {
                unpack(run.get(skip..).unwrap_or_default(), hex, 4, &mut bytes);
                self.bytes(&bytes, whole, layers);
            }
        }
    }

    /// Pairs of hexadecimal digits with one separator between them: `67:68:70`.
    fn pairs(&mut self, text: &[u8], place: Place<'_>, layers: usize) {
        let mut at = 0;
        while let Some(window) = text.get(at..at + 6) {
            let Some(shift) = (0..3).find(|shift| is_pair(window, *shift)) else {
                at += RUN_MIN;
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
            let start = if first >= 2 && is_digits(first - 2) { first - 2 } else { first + 1 };
            let end = if is_digits(last + 1) { last + 3 } else { last };
            let run = text.get(start..end).unwrap_or_default();
            let digits: Vec<u8> = run.iter().filter(|byte| HEX_ANY.has(**byte)).copied().collect();
            if digits.len() >= 2 * PAIRS_MIN && self.spend(run.len()) {
                let mut bytes = Vec::new();
                unpack(&digits, hex, 4, &mut bytes);
                self.bytes(&bytes, &place(&(start..end)), layers);
            }
            at = end.max(at) + 1;
        }
    }

    /// The text among decoded bytes, or in what they are packed from.
    fn bytes(&mut self, bytes: &[u8], whole: &Range<usize>, layers: usize) {
        if let Some(unpacked) = unpacked(bytes) {
            if self.spend(unpacked.len()) {
                self.stretches(&unpacked, whole, layers);
            }
            return;
        }
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        if zeros >= STRETCH_MIN && zeros * 5 >= bytes.len() * 2 {
            // UTF-16: every other byte of plain text is zero.
            let narrow: Vec<u8> = bytes.iter().filter(|byte| **byte != 0).copied().collect();
            return self.stretches(&narrow, whole, layers);
        }
        self.stretches(bytes, whole, layers);
    }

    fn stretches(&mut self, bytes: &[u8], whole: &Range<usize>, layers: usize) {
        let place: Place<'_> = &|_| whole.clone();
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
                self.text(text, place, How::Decoded, layers);
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

fn is_letter(byte: u8) -> bool {
    ALNUM.has(byte) || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Whether an escape stands here for a letter that a token may have, or for the mark of another escape.
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
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-%\\&+/=.:@$".contains(&byte))
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
fn is_part(text: &[u8], at: usize) -> bool {
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

/// The bits of letters in a row; what no letter stands for ends them.
fn unpack(letters: &[u8], value: fn(u8) -> Option<u8>, width: u32, bytes: &mut Vec<u8>) {
    bytes.clear();
    let (mut bits, mut count) = (0_u32, 0_u32);
    for letter in letters {
        let Some(value) = value(*letter) else { return };
        bits = (bits << width) | u32::from(value);
        count += width;
        if count >= 8 {
            count -= 8;
            let [_, _, _, byte] = (bits >> count).to_be_bytes();
            bytes.push(byte);
        }
    }
}

fn base64(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

fn base32(letter: u8) -> Option<u8> {
    Some(match letter.to_ascii_uppercase() {
        upper @ b'A'..=b'Z' => upper - b'A',
        digit @ b'2'..=b'7' => digit - b'2' + 26,
        _ => return None,
    })
}

fn hex(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// What bytes are packed from with gzip or zlib; the first 64 KiB.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_with_limit};
    let (first, second) = (bytes.first()?, bytes.get(1)?);
    let body = if (*first, *second) == (0x1f, 0x8b) {
        bytes.get(gzip_head(bytes)?..)?
    } else if first & 15 == 8
        && first >> 4 <= 7
        && (u16::from(*first) * 256 + u16::from(*second)).is_multiple_of(31)
    {
        bytes.get(2..)?
    } else {
        return None;
    };
    match decompress_to_vec_with_limit(body, UNPACKED_MAX) {
        Ok(all) => Some(all),
        // More than is looked through, or the end is missing: what there is counts.
        Err(failure)
            if matches!(
                failure.status,
                TINFLStatus::HasMoreOutput
                    | TINFLStatus::FailedCannotMakeProgress
                    | TINFLStatus::NeedsMoreInput
            ) =>
        {
            Some(failure.output).filter(|output| !output.is_empty())
        }
        Err(_) => None,
    }
}

/// Bytes of the head of a gzip member.
fn gzip_head(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(3)?;
    let mut at = 10_usize;
    if flags & 4 != 0 {
        let low = usize::from(*bytes.get(at)?);
        at += 2 + low + 256 * usize::from(*bytes.get(at + 1)?);
    }
    for flag in [8, 16] {
        if flags & flag != 0 {
            at += 1 + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        }
    }
    Some(at + if flags & 2 != 0 { 2 } else { 0 })
}
