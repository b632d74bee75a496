//! Text as later readers would decode it, and the source position of each character.
//!
//! A secret, or personal data, that is percent-encoded, written in HTML entities or broken over
//! lines is still readable after decoding. So the search covers the text and its decoded forms.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

pub use super::spelled::OTHER;
use super::spelled::{escape, first, printed};
pub use super::texts::{
    digits_text, folded_text, has_hidden, is_escaped, is_wrapped, numbers_text, printable_text,
    squeezed_text, together_text, unescaped_text,
};
use super::texts::{folded, has_letters_apart, is_hidden, is_wrapped_line, small_number};

/// How often a decoded text is decoded again.
pub const LAYERS: usize = 3;

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

/// No text that comes here has gigabytes: results and arguments have bounds far below.
fn placed(range: &Range<usize>) -> Range<u32> {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    place(range.start)..place(range.end)
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
