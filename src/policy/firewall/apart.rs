//! Encodings whose letters stand apart, or that are too short for a run: lists of numbers, letters with gaps
//! between them, quoted-printable, short base64 and broken lines of it, and texts from their end.

use std::ops::Range;
use std::sync::LazyLock;

use super::kinds::{Confidence, How};
use super::letters::{BASE64_LETTERS, unpack};
use super::rules::{self, DIGITS_MIN, DigitGroup, Mode};
use super::views::{OVERLAP, RUN_MIN, SHORT_MIN, ViewLevel, Views, WINDOW, is_letter, is_part};
use crate::domain::readings::Reading;

/// Letters of base64 around the ones that show it, before and behind.
const BEFORE: usize = 96;
const BEHIND: usize = 192;

impl Views {
    /// Everything whose parts stand apart.
    pub fn apart(&mut self, text: &[u8], groups: &[DigitGroup], level: ViewLevel<'_>) {
        let is_opaque = self.is_opaque;
        self.lists(text, groups, level);
        self.spaced(text, level);
        self.printable(text, level);
        self.short(text, level);
        // Numbers in a row are no text in most readings, and not for that reason something encoded.
        self.is_opaque = is_opaque;
    }

    /// Numbers and addresses from their end to their beginning, and accounts with letters thirteen places on.
    pub fn turned(&mut self, text: &[u8], groups: &[DigitGroup], level: ViewLevel<'_>) {
        let note = |views: &mut Self, kind, range: Range<usize>| {
            views.note(kind, Confidence::High, How::Decoded, (level.place)(&range));
        };
        for window in rules::turned_windows(text, groups) {
            let part = text.get(window.clone()).unwrap_or_default();
            let reversed: Vec<u8> = part.iter().rev().copied().collect();
            for hit in rules::scan(&reversed, Mode::Backwards) {
                note(self, hit.kind, window.end - hit.end..window.end - hit.start);
            }
        }
        for DigitGroup { start, digits } in groups.iter().copied() {
            let Some(front) = start.checked_sub(2).filter(|_| digits >= 2) else { continue };
            let letters = text.get(front..start).unwrap_or_default();
            if !letters.iter().all(u8::is_ascii_alphabetic) {
                continue;
            }
            let from = front.saturating_sub(1);
            let part = text.get(from..(front + ACCOUNT_BYTES).min(text.len())).unwrap_or_default();
            let part: Vec<u8> = part.iter().map(|byte| rotated(*byte)).collect();
            if let Some(end) = rules::account(&part, front - from) {
                note(self, "iban", front..from + end);
            }
        }
    }

    /// Lists of the numbers of bytes: `97, 110, 110`, `0x61, 0x6e`.
    fn lists(&mut self, text: &[u8], groups: &[DigitGroup], level: ViewLevel<'_>) {
        let mut end = 0;
        for DigitGroup { start, .. } in groups.iter().copied() {
            if start < end || numbers(text, start).take(SHORT_MIN).count() < SHORT_MIN {
                continue;
            }
            let (mut bytes, mut places) = (Vec::new(), Vec::new());
            for (byte, place) in numbers(text, start) {
                bytes.push(byte);
                end = place.end;
                places.push(place);
            }
            self.placed(&bytes, &places, level);
        }
    }

    /// Letters with a gap between each of them and the next.
    fn spaced(&mut self, text: &[u8], level: ViewLevel<'_>) {
        let is_gap = |byte: &u8| *byte <= b' ';
        let is_apart = |gap: usize| {
            let behind = text.get(gap + 1..gap + 5);
            behind.is_some_and(|behind| behind.iter().map(is_gap).eq([false, true, false, true]))
        };
        let mut from = 0;
        while let Some(next) = text.get(from..).and_then(|rest| rest.iter().position(is_gap)) {
            let gap = from + next;
            if !is_apart(gap) {
                from = gap + 1;
                continue;
            }
            let first = gap.checked_sub(1).filter(|first| {
                let before = first.checked_sub(1).and_then(|at| text.get(at));
                let is_ascii = text.get(*first).is_some_and(|byte| byte.is_ascii_graphic());
                // A quote or a colon before the first letter is none of the text.
                is_ascii && before.is_none_or(|byte| !byte.is_ascii_alphanumeric())
            });
            let (mut bytes, mut places) = (Vec::new(), Vec::new());
            let mut at = first.unwrap_or(gap + 1);
            while let Some(byte) = text.get(at).filter(|byte| byte.is_ascii_graphic()) {
                let rest = text.get(at + 1..).unwrap_or_default();
                let gaps = rest.iter().take(3).take_while(|byte| **byte <= b' ').count();
                if gaps == 0 && !rest.is_empty() {
                    break;
                }
                bytes.push(*byte);
                places.push(at..at + 1);
                at += 1 + gaps;
            }
            from = at.max(gap + 1);
            self.placed(&bytes, &places, level);
        }
    }

    /// What bytes say that stand in these places.
    fn placed(&mut self, bytes: &[u8], places: &[Range<usize>], level: ViewLevel<'_>) {
        if bytes.len() < SHORT_MIN || !self.spend(bytes.len()) {
            return;
        }
        let here = |range: &Range<usize>| {
            let first = places.get(range.start).map_or(0, |place| place.start);
            let last = range.end.checked_sub(1).and_then(|at| places.get(at));
            (level.place)(&(first..last.map_or(first, |place| place.end)))
        };
        self.read(bytes, &here, level);
    }

    /// Quoted-printable text, and lines that are broken as it breaks them.
    fn printable(&mut self, text: &[u8], level: ViewLevel<'_>) {
        let mut from = if text.contains(&b'=') { 0 } else { text.len() };
        while let Some(next) =
            text.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'='))
        {
            let at = from + next;
            from = at + 1;
            if !is_printed(text.get(from..).unwrap_or_default()) {
                continue;
            }
            let start =
                at - (0..at).rev().take(OVERLAP).take_while(|at| is_part(text, *at)).count();
            let mut end = at;
            while end < text.len().min(at + WINDOW) {
                let rest = text.get(end..).unwrap_or_default();
                end += match rest {
                    [b'=', b'\r', b'\n', ..] => 3,
                    [b'=', b'\n', ..] => 2,
                    _ if is_part(text, end) => 1,
                    _ => break,
                };
            }
            from = from.max(if end >= at + WINDOW { end - OVERLAP } else { end });
            let part = text.get(start..end).unwrap_or_default();
            let Ok(part) = std::str::from_utf8(part) else { continue };
            let reading = Reading::of(part).printable();
            let here = |range: &Range<usize>| {
                let source = reading.source(range).unwrap_or(0..end - start);
                (level.place)(&(start + source.start..start + source.end))
            };
            if reading.text.len() != part.len() {
                self.text(reading.text.as_bytes(), level.decoded(&here, level.layers));
            }
        }
    }

    /// Base64 that is too short for a run, or that stands in short lines: only where the letters of an `@` or
    /// of two digits are, from any place where bytes may begin.
    fn short(&mut self, text: &[u8], level: ViewLevel<'_>) {
        let marks = &*MARKS;
        let (mut last, mut from) = (0_u16, 0);
        for (at, byte) in text.iter().enumerate() {
            let marks = marks.get(usize::from(*byte)).copied().unwrap_or_default();
            let is_mark = last & (marks >> 8) != 0 && at >= from;
            let may_break = matches!(byte, b'\r' | b'\n' | b'\\' | b'r' | b'n');
            if !may_break || !is_break(text, at) {
                last = marks & 0xff;
            }
            if is_mark {
                let places = around(text, at);
                from = at + BEFORE / 2;
                let is_broken = places.len() < RUN_MIN
                    || places.array_windows().any(|[a, b]: &[usize; 2]| a + 1 != *b);
                if is_broken && places.len() >= 8 {
                    self.encoded(text, &places, level);
                }
            }
        }
    }

    /// What letters in these places encode.
    fn encoded(&mut self, text: &[u8], places: &[usize], level: ViewLevel<'_>) {
        let letters: Vec<u8> = places.iter().filter_map(|at| text.get(*at)).copied().collect();
        let mut bytes = Vec::new();
        for skip in 0..4 {
            if !self.spend(letters.len()) {
                return;
            }
            unpack(letters.get(skip..).unwrap_or_default(), &BASE64_LETTERS, &mut bytes);
            let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
            let has_escape = || bytes.array_windows().any(|two| two == b"40");
            if !bytes.contains(&b'@') && digits < DIGITS_MIN && !has_escape() {
                continue;
            }
            let here = |range: &Range<usize>| {
                let place = |byte: usize| places.get(skip + byte * 8 / 6).copied();
                let first = place(range.start).unwrap_or_default();
                let last =
                    range.end.checked_sub(1).and_then(|last| places.get(skip + (last * 8 + 7) / 6));
                (level.place)(&(first..last.map_or(first, |last| last + 1)))
            };
            self.read(&bytes, &here, level);
        }
    }
}

/// Bytes of the longest account, with its gaps.
const ACCOUNT_BYTES: usize = 68;

/// A letter thirteen places on.
fn rotated(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        _ => byte,
    }
}

/// The numbers of a list that begins here, and where each stands.
fn numbers(text: &[u8], start: usize) -> impl Iterator<Item = (u8, Range<usize>)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let (from, radix) = match rest {
            [b'0', b'x' | b'X', ..] => (2, 16),
            _ => (0, 10),
        };
        let digits = rest.get(from..)?;
        let (mut number, mut count) = (0, 0);
        for digit in digits.iter().take(4).map_while(|byte| char::from(*byte).to_digit(radix)) {
            number = number * radix + digit;
            count += 1;
        }
        let number = u8::try_from(number).ok().filter(|_| count > 0)?;
        let end = at + from + count;
        if text.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            return None;
        }
        let behind = text.get(end..).unwrap_or_default();
        let gap = behind.iter().take(4).take_while(|byte| b" ,;\t\r\n".contains(byte)).count();
        let place = at..end;
        at = if gap == 0 { text.len() } else { end + gap };
        Some((number, place))
    })
}

/// Whether an escape of quoted-printable, or the end of a line, stands behind a `=`.
fn is_printed(rest: &[u8]) -> bool {
    match rest {
        [b'\n', ..] | [b'\r', b'\n', ..] => true,
        [a, b, ..] => {
            let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
            let digit = |byte: &u8| char::from(*byte).to_digit(16).filter(|_| is_digit(byte));
            let value = digit(a).zip(digit(b)).map(|(a, b)| a * 16 + b);
            value.is_some_and(|value| (0x21..0x7f).contains(&value))
        }
        _ => false,
    }
}

/// The places of the letters around this one. What breaks a line is skipped.
fn around(text: &[u8], at: usize) -> Vec<usize> {
    let (mut first, mut end) = (at, at);
    while at - first < BEFORE && first > 0 && is_one(text, first - 1) {
        first -= 1;
    }
    while end - at < BEHIND && end < text.len() && is_one(text, end) {
        end += 1;
    }
    (first..end).filter(|at| !is_break(text, *at)).collect()
}

/// Whether this is a part of a line break, as it is or escaped: `\r\n`.
fn is_break(text: &[u8], at: usize) -> bool {
    let byte = |at: Option<usize>| at.and_then(|at| text.get(at)).copied();
    let is_end = |at: Option<usize>| matches!(byte(at), Some(b'r' | b'n'));
    match byte(Some(at)) {
        Some(b'\r' | b'\n') => true,
        Some(b'\\') => is_end(at.checked_add(1)),
        Some(b'r' | b'n') => byte(at.checked_sub(1)) == Some(b'\\'),
        Some(_) | None => false,
    }
}

/// Whether a letter or a part of a line break stands there.
fn is_one(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(|byte| is_letter(*byte)) || is_break(text, at)
}

/// What a letter of base64 may be a part of: in the lower bits the first of two letters, in the higher ones the
/// second. An `@` has two letters in each of three places, and so have two digits or a digit and a gap, and the
/// digits of an `@` in an escape.
static MARKS: LazyLock<[u16; 256]> = LazyLock::new(|| {
    let pairs: [(&[u8], &[u8]); 6] = [
        (b"Q", b"ABCDEFGHIJKLMNOP"),
        (b"EUk0", b"ABCD"),
        (b"BFJNRVZdhlptx159", b"A"),
        (b"MNO", b"DTjzCSiy"),
        (b"T", b"Q"),
        (b"0", b"M"),
    ];
    let bits = |byte: u8, (pair, (first, second)): (usize, &(&[u8], &[u8]))| {
        u16::from(first.contains(&byte)) << pair | u16::from(second.contains(&byte)) << (pair + 8)
    };
    let of = |byte: u8| pairs.iter().enumerate().fold(0, |all, pair| all | bits(byte, pair));
    std::array::from_fn(|byte| u8::try_from(byte).map(of).unwrap_or_default())
});
