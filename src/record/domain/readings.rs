//! Text as later readers would decode it, and the source position of each character.
//!
//! A secret, or personal data, that is percent-encoded, written in HTML entities or broken over
//! lines is still readable after decoding. So the search covers the text and its decoded forms.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

pub use super::spelled::OTHER;
use super::spelled::{escape, first, printed};

/// How often a decoded text is decoded again.
pub const LAYERS: usize = 3;
/// Length from which a line counts as broken by a program.
const WRAPPED_MIN: usize = 56;
/// How many spaced letters in a row count as one word.
const APART_MIN: usize = 6;

/// ASCII text, and for each of its bytes the position in the source.
///
/// At most nine bytes per byte of text: a result may have megabytes, and many calls run at once.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The text.
    pub text: String,
    from: Source,
}

/// Where each byte of a reading stands in the source.
#[derive(Clone, Debug)]
enum Source {
    /// There, byte for byte: the source is ASCII and is read as it stands.
    Same,
    /// In these places.
    Places(Vec<Range<u32>>),
}

impl Reading {
    /// The text as it stands there.
    pub fn of(source: &str) -> Self {
        if source.is_ascii() {
            return Self { text: source.to_owned(), from: Source::Same };
        }
        let mut reading = Self::empty(source.len());
        for (at, c) in source.char_indices() {
            let from = at..at.saturating_add(c.len_utf8());
            if let Some(c) = folded(c) {
                reading.push(c, from);
            }
        }
        reading
    }

    /// An empty text with this capacity.
    pub fn empty(capacity: usize) -> Self {
        let from = Source::Places(Vec::with_capacity(capacity));
        Self { text: String::with_capacity(capacity), from }
    }

    /// Adds a character that stands for this range of the source.
    pub fn push(&mut self, c: char, from: Range<usize>) {
        if matches!(self.from, Source::Same) {
            self.from = Source::Places(self.places().into_owned());
        }
        if let Source::Places(places) = &mut self.from {
            places.push(placed(&from));
            self.text.push(if c.is_ascii() { c } else { OTHER });
        }
    }

    /// The place of this stretch in the source.
    pub fn source(&self, found: &Range<usize>) -> Option<Range<usize>> {
        let last = found.end.checked_sub(1)?;
        let Source::Places(places) = &self.from else {
            return (found.start < self.text.len() && last < self.text.len())
                .then(|| found.start.min(last)..found.start.saturating_add(1).max(found.end));
        };
        let (first, last) = (places.get(found.start)?, places.get(last)?);
        // In a reversed reading the last character comes first.
        let (start, end) = (first.start.min(last.start), first.end.max(last.end));
        Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// The place of each byte in the source.
    fn places(&self) -> Cow<'_, [Range<u32>]> {
        match &self.from {
            Source::Same => {
                let one = |at: usize| placed(&(at..at.saturating_add(1)));
                (0..self.text.len()).map(one).collect::<Vec<_>>().into()
            }
            Source::Places(places) => places.into(),
        }
    }

    /// This stretch of it.
    pub fn part(&self, range: Range<usize>) -> Self {
        let places = self.places();
        let from = Source::Places(places.get(range.clone()).unwrap_or_default().to_vec());
        Self { text: self.text.get(range).unwrap_or_default().to_owned(), from }
    }

    /// The text in reverse order.
    pub fn reversed(&self) -> Self {
        let text = self.text.chars().rev().collect();
        Self { text, from: Source::Places(self.places().iter().rev().cloned().collect()) }
    }

    /// Letters shifted by thirteen places (ROT13).
    pub fn turned(&self) -> Self {
        let rotated = |byte: u8, first: u8| {
            let offset = byte.saturating_sub(first).saturating_add(13).checked_rem(26);
            first.saturating_add(offset.unwrap_or_default())
        };
        self.walked(|rest| {
            let byte = rest.first().map(|byte| match byte {
                b'a'..=b'z' => rotated(*byte, b'a'),
                b'A'..=b'Z' => rotated(*byte, b'A'),
                _other => *byte,
            });
            (byte.map(char::from), 1)
        })
    }

    /// Without invisible bytes: UTF-16 that was taken for UTF-8 has one beside each letter.
    pub fn plain(&self) -> Option<Self> {
        has_hidden(&self.text).then(|| {
            self.walked(|rest| (first(rest).filter(|c| !u8::try_from(*c).is_ok_and(is_hidden)), 1))
        })
    }

    /// Without the line breaks of programs that break lines at a fixed length: base64 in a mail or
    /// a key file.
    pub fn unwrapped(&self) -> Option<Self> {
        is_wrapped(&self.text).then(|| {
            let (mut out, mut at) = (Self::empty(self.text.len()), 0_usize);
            for line in self.text.split_inclusive('\n') {
                let joined = is_wrapped_line(line);
                for byte in line.bytes() {
                    let kept = !joined || byte > b' ';
                    let range = at..at.saturating_add(1);
                    if let Some(from) = self.source(&range).filter(|_| kept) {
                        out.push(char::from(byte), from);
                    }
                    at = range.end;
                }
            }
            out
        })
    }

    /// Joins letters that are spaced apart: `a n n`.
    pub fn together(&self) -> Option<Self> {
        has_letters_apart(self.text.as_bytes()).then(|| {
            self.walked(|rest| match rest {
                // A single letter, and the gap before the next single letter.
                [space, letter, ..] if *space <= b' ' && *letter > b' ' => {
                    let alone = rest.get(2).is_none_or(|next| *next <= b' ');
                    (Some(if alone { char::from(*letter) } else { ' ' }), if alone { 2 } else { 1 })
                }
                [space, ..] if *space <= b' ' => (None, 1),
                _letter => (first(rest), 1),
            })
        })
    }

    /// Converts a list of numbers to the bytes they represent: `97, 110, 110`.
    pub fn numbers(&self) -> Self {
        let bytes = self.text.as_bytes();
        let mut out = Self::empty(bytes.len() / 2);
        let mut at = 0_usize;
        while let Some(byte) = bytes.get(at) {
            let rest = bytes.get(at..).unwrap_or_default();
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let value = rest.get(..digits).and_then(small_number);
            let next = at.saturating_add(digits.max(1));
            let c = match value {
                Some(value) => Some(if u8::is_ascii(&value) { char::from(value) } else { OTHER }),
                None => Some(OTHER).filter(|_| !b" ,;\t\r\n".contains(byte)),
            };
            if let (Some(c), Some(from)) = (c, self.source(&(at..next))) {
                out.push(c, from);
            }
            at = next;
        }
        out
    }

    /// The reading with each step that `step` takes: the character it represents (`None` drops it),
    /// and the number of bytes it took.
    fn walked(&self, step: impl Fn(&[u8]) -> (Option<char>, usize)) -> Self {
        let mut text = String::with_capacity(self.text.len());
        let mut places = Vec::with_capacity(self.text.len());
        let bytes = self.text.as_bytes();
        let mut at = 0_usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let (c, took) = step(rest);
            let next = at.saturating_add(took.max(1));
            let from = c.and_then(|_| match &self.from {
                Source::Same => (next <= bytes.len()).then_some(at..next),
                Source::Places(_) => self.source(&(at..next)),
            });
            if let (Some(c), Some(from)) = (c, from) {
                text.push(if c.is_ascii() { c } else { OTHER });
                places.push(placed(&from));
            }
            at = next;
        }
        Self { text, from: Source::Places(places) }
    }

    /// The text without its escapes, if it has any.
    pub fn unescaped(&self) -> Option<Self> {
        let next = self.walked(|rest| match escape(rest) {
            Some((c, took)) => (Some(c), took),
            None => (first(rest), 1),
        });
        (next.text.len() != self.text.len()).then_some(next)
    }

    /// Without line breaks and spacing between letters.
    pub fn squeezed(&self) -> Self {
        self.walked(|rest| (first(rest).filter(|c| *c > ' '), 1))
    }

    /// Without soft line breaks, and with quoted-printable escapes decoded.
    pub fn printable(&self) -> Self {
        self.walked(|rest| match rest {
            [b'=', ..] => printed(rest),
            _plain => (first(rest), 1),
        })
    }

    /// Hexadecimal digits only, lowercase, without common separators.
    pub fn digits(&self) -> Self {
        self.walked(|rest| match rest {
            [b'0', b'x' | b'X', ..] => (None, 2),
            [b' ' | b':' | b'-' | b',' | b';' | b'\r' | b'\n' | b'\t', ..] => (None, 1),
            _other => (first(rest).map(|c| c.to_ascii_lowercase()), 1),
        })
    }
}

/// A reading of which only the text is known: most texts hold nothing, and the places of each
/// character cost more than the text.
pub struct LazyReading<'a> {
    /// The text.
    pub text: &'a str,
    make: MadeReading<'a>,
}

enum MadeReading<'a> {
    Now(&'a Reading),
    Later(&'a dyn Fn() -> Reading, OnceCell<Reading>),
}

impl std::fmt::Debug for LazyReading<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyReading").field("text", &self.text).finish_non_exhaustive()
    }
}

impl<'a> LazyReading<'a> {
    /// The reading that `make` makes; `text` is its text.
    pub fn of(text: &'a str, make: &'a dyn Fn() -> Reading) -> Self {
        Self { text, make: MadeReading::Later(make, OnceCell::new()) }
    }

    /// A reading that is there already.
    pub fn made(reading: &'a Reading) -> Self {
        Self { text: &reading.text, make: MadeReading::Now(reading) }
    }

    /// The reading with its places.
    pub fn reading(&self) -> &Reading {
        match &self.make {
            MadeReading::Now(reading) => reading,
            MadeReading::Later(make, made) => made.get_or_init(make),
        }
    }

    /// The place of this stretch in the source.
    pub fn source(&self, found: &Range<usize>) -> Option<Range<usize>> {
        self.reading().source(found)
    }
}

/// Passes on the readings of a text except itself: its decoded forms, layer by layer, and each of
/// those read as quoted-printable, as digits or as broken lines. One at a time, because each has
/// the size of the text.
pub fn readings(source: &str, mut visit: impl FnMut(&LazyReading<'_>)) {
    let plain = folded_text(source);
    let layer_of = |layers: usize| {
        let mut reading = Reading::of(source);
        for _ in 0..layers {
            reading = reading.unescaped().unwrap_or(reading);
        }
        reading
    };
    beside(&plain, &|| layer_of(0), &mut visit);
    if !source.is_ascii() && source.chars().any(|c| folded(c) != Some(c)) {
        visit(&LazyReading::of(&plain, &|| layer_of(0)));
    }
    let mut layer = unescaped_text(&plain);
    drop(plain);
    for layers in 1..=LAYERS {
        let Some(text) = layer else { break };
        beside(&text, &|| layer_of(layers), &mut visit);
        visit(&LazyReading::of(&text, &|| layer_of(layers)));
        layer = unescaped_text(&text);
    }
}

/// Passes on the alternative readings of a reading, each only where it could show something new.
fn beside(text: &str, make: &dyn Fn() -> Reading, visit: &mut impl FnMut(&LazyReading<'_>)) {
    let any = |is: fn(u8) -> bool| text.bytes().any(is);
    let is_separator = |b: u8| b <= b' ' || b":-,;".contains(&b) || (b'A'..=b'F').contains(&b);
    if text.contains('=') {
        visit(&LazyReading::of(&printable_text(text), &|| make().printable()));
    }
    if any(is_separator) {
        visit(&LazyReading::of(&digits_text(text), &|| make().digits()));
    }
    if any(|b| b <= b' ') {
        visit(&LazyReading::of(&squeezed_text(text), &|| make().squeezed()));
    }
}

/// The text of [`Reading::of`].
pub fn folded_text(source: &str) -> Cow<'_, str> {
    if source.is_ascii() {
        return source.into();
    }
    let shown = |c: char| if c.is_ascii() { c } else { OTHER };
    source.chars().filter_map(folded).map(shown).collect()
}

/// The text of [`Reading::unescaped`].
pub fn unescaped_text(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|b| matches!(b, b'%' | b'\\' | b'&')) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        let (c, took) = escape(escaped).or_else(|| Some((first(escaped)?, 1)))?;
        out.push(u8::try_from(c).unwrap_or_default());
        rest = escaped.get(took..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    (out.len() != text.len()).then(|| ascii(out))
}

/// Whether something in these bytes stands for another character: an escape, or one of
/// quoted-printable text.
#[must_use]
pub fn is_escaped(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| matches!(b, b'%' | b'\\' | b'&' | b'=')) {
        let (_, from) = rest.split_at(at);
        if escape(from).is_some() || printed(from).1 > 1 {
            return true;
        }
        rest = from.get(1..).unwrap_or_default();
    }
    false
}

/// The text of [`Reading::together`]: nothing if few letters are spaced apart.
#[must_use]
pub fn together_text(text: &str) -> Option<String> {
    if !has_letters_apart(text.as_bytes()) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match after {
            _ if *byte > b' ' => out.push(*byte),
            [letter, behind @ ..] if *letter > b' ' => {
                if behind.first().is_none_or(|next| *next <= b' ') {
                    out.push(*letter);
                    rest = behind;
                } else {
                    out.push(b' ');
                }
            }
            _ => {}
        }
    }
    Some(ascii(out))
}

/// Whether so many words are single letters that they may spell one.
fn has_letters_apart(text: &[u8]) -> bool {
    let (mut letters, mut length) = (0_usize, 0_usize);
    for byte in text {
        if byte.is_ascii_whitespace() {
            letters = letters.saturating_add(usize::from(length == 1));
            length = 0;
        } else {
            length = length.saturating_add(1);
        }
    }
    letters.saturating_add(usize::from(length == 1)) >= APART_MIN
}

/// The text of [`Reading::printable`].
pub fn printable_text(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|b| *b == b'=') {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        let (c, took) = printed(escaped);
        out.extend(c.and_then(|c| u8::try_from(c).ok()));
        rest = escaped.get(took..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    ascii(out)
}

/// The text of [`Reading::squeezed`].
pub fn squeezed_text(text: &str) -> String {
    kept(text.bytes().map(|byte| (byte, byte > b' ')), text.len())
}

/// The text of [`Reading::digits`].
pub fn digits_text(text: &str) -> String {
    let after = text.bytes().skip(1).chain([b' ']);
    let mut is_x = false;
    let digits = text.bytes().zip(after).map(|(byte, next)| {
        let begins = byte == b'0' && matches!(next, b'x' | b'X');
        let separates = matches!(byte, b' ' | b':' | b'-' | b',' | b';' | b'\r' | b'\n' | b'\t');
        let keeps = !begins && !separates && !is_x;
        is_x = begins;
        (byte.to_ascii_lowercase(), keeps)
    });
    kept(digits, text.len())
}

/// The text of [`Reading::numbers`].
pub fn numbers_text(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut rest = text.as_bytes();
    while let Some(byte) = rest.first() {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, after) = rest.split_at(digits.max(1));
        rest = after;
        match small_number(number) {
            Some(value) => out.push(if value.is_ascii() { value } else { OTHER_BYTE }),
            None if b" ,;\t\r\n".contains(byte) => {}
            None => out.push(OTHER_BYTE),
        }
    }
    ascii(out)
}

/// The byte that one to three digits stand for.
fn small_number(digits: &[u8]) -> Option<u8> {
    if !(1..=3).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_u16, |value, digit| {
        value.saturating_mul(10).saturating_add(u16::from(digit.saturating_sub(b'0')))
    });
    u8::try_from(value).ok()
}

/// [`OTHER`], as a byte.
const OTHER_BYTE: u8 = 0x7f;

/// Whether an invisible byte is there: then [`Reading::plain`] differs.
#[must_use]
pub fn has_hidden(text: &str) -> bool {
    text.bytes().any(is_hidden)
}

fn is_hidden(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Whether a line is there that a program broke: then [`Reading::unwrapped`] differs.
#[must_use]
pub fn is_wrapped(text: &str) -> bool {
    text.contains('\n')
        && text.split_inclusive('\n').any(|line| line.ends_with('\n') && is_wrapped_line(line))
}

fn is_wrapped_line(line: &str) -> bool {
    if line.len() < WRAPPED_MIN {
        return false;
    }
    let line = line.trim_matches(['\r', '\n', ' ', '\t']);
    line.len() >= WRAPPED_MIN
        && line.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=-_".contains(&b))
}

/// The bytes that are kept.
///
/// WHY each is written, and the next one over it if it is not kept: words are short, and a wrong
/// guess of the processor costs more than ten bytes.
fn kept(bytes: impl Iterator<Item = (u8, bool)>, bytes_max: usize) -> String {
    let mut out = vec![0; bytes_max];
    let mut length = 0_usize;
    for (byte, keeps) in bytes {
        if let Some(place) = out.get_mut(length) {
            *place = byte;
        }
        length = length.saturating_add(usize::from(keeps));
    }
    out.truncate(length);
    ascii(out)
}

/// Bytes of a reading, which are ASCII.
fn ascii(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// No text that comes here has gigabytes: results and arguments have bounds far below.
fn placed(range: &Range<usize>) -> Range<u32> {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    place(range.start)..place(range.end)
}

/// The ASCII character that a person sees in a lookalike; `None` for an invisible one.
fn folded(c: char) -> Option<char> {
    let ascii = |base: u32| u32::from(c).checked_sub(base).and_then(char::from_u32);
    match c {
        // Soft hyphen, joiners, marks without a width, and variation selectors.
        '\u{ad}'
        | '\u{34f}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2060}'..='\u{2064}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' => None,
        '\u{ff00}'..='\u{ff5e}' => ascii(0xfee0),
        // Dashes, spaces and dots of other widths.
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => Some('-'),
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => Some(' '),
        '\u{2024}' | '\u{3002}' | '\u{fe52}' | '\u{ff61}' => Some('.'),
        '\u{fe6b}' => Some('@'),
        // Digits of other scripts.
        '\u{660}'..='\u{669}' => ascii(0x630),
        '\u{6f0}'..='\u{6f9}' => ascii(0x6c0),
        '\u{966}'..='\u{96f}' => ascii(0x936),
        '\u{1d7ce}'..='\u{1d7ff}' => {
            let offset =
                u32::from(c).checked_sub(0x1_d7ce).and_then(|offset| offset.checked_rem(10));
            offset.and_then(|digit| char::from_digit(digit, 10))
        }
        // Tags: ASCII that is invisible to people and readable to models.
        '\u{e0020}'..='\u{e007e}' => ascii(0xe_0000),
        _plain => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_text_of_a_lazy_reading_is_that_of_the_reading_with_its_places(
            text in "(=[0-9A-F]{2}|=\r?\n|%[0-9a-f]{2}|\\\\u00[0-9a-f]{2}|\\\\x[0-9a-f]{2}|&#?[a-z0-9]{1,4};|0x|[ -~]|[\r\n\t]|[ａ-ｚé\u{ad}\u{200b}]){0,60}",
        ) {
            let plain = Reading::of(&text);
            prop_assert_eq!(&*folded_text(&text), &plain.text);
            prop_assert_eq!(digits_text(&plain.text), plain.digits().text);
            prop_assert_eq!(squeezed_text(&plain.text), plain.squeezed().text);
            prop_assert_eq!(printable_text(&plain.text), plain.printable().text);
            prop_assert_eq!(numbers_text(&plain.text), plain.numbers().text);
            prop_assert_eq!(together_text(&plain.text), plain.together().map(|next| next.text));
            let is_changed = unescaped_text(&plain.text).is_some()
                || printable_text(&plain.text).len() != plain.text.len();
            prop_assert_eq!(is_escaped(plain.text.as_bytes()), is_changed);
            prop_assert_eq!(unescaped_text(&plain.text), plain.unescaped().map(|next| next.text));
            readings(&text, |lazy| {
                let whole = 0..lazy.text.len();
                assert_eq!(lazy.reading().text, lazy.text, "{text:?}");
                assert!(whole.is_empty() || lazy.source(&whole).is_some());
            });
        }
    }
}
