//! Scans one text, as it is written and as a recipient would decode it.

use std::ops::Range;

use super::encoded::{self, Decoded, Stretches, Which};
use super::kinds::{Confidence, How};
use super::rules::{self, Mode};
use super::sieve::{self, Sieve};
use super::views::{self, Span, Views};
use super::{hygiene, own, plain};
use crate::domain::readings::{
    self, LAYERS, LazyReading, Reading, digits_text, folded_text, has_hidden, numbers_text,
    printable_text, squeezed_text, together_text, unescaped_text,
};

/// Budget of decoded readings: bytes for each byte of the text, and beside that, unless the configuration
/// asks for other work. The scan stops when it is used up.
const READINGS_PER_BYTE: usize = 96;
const READINGS_BYTES: usize = 1 << 20;
const READINGS_BYTES_MAX: usize = 1 << 29;
/// Bytes of plain characters in a row that are scanned as a text, among bytes that are not one.
const AMONG_MIN: usize = 24;

/// The findings in a text.
#[derive(Default)]
pub(super) struct TextFindings {
    /// Kinds and their places, in no order; they may overlap.
    pub spans: Vec<Span>,
    /// It holds something encoded that is no text.
    pub opaque: bool,
    /// The work had an end before the text had.
    pub over: bool,
}

impl TextFindings {
    /// Whether it holds something that the scan could not read.
    pub const fn unscanned(&self) -> bool {
        self.opaque || self.over
    }

    fn add(&mut self, views: Views) {
        self.spans.extend(views.spans);
        self.over |= views.is_over;
    }
}

/// Looks through a text.
pub(super) fn text(source: &str) -> TextFindings {
    let mut seen = through(source, true);
    if source.len() >= SECRET_MIN {
        seen.add(views::look(source));
    }
    seen.spans.extend(hygiene::look(source));
    seen
}

/// Looks through the value of a member, or of an item in the list that is its value.
pub(super) fn member(name: Option<&str>, source: &str, is_number: bool) -> TextFindings {
    let mut seen = if is_number { number(source) } else { text(source) };
    if let Some(name) = name
        && BESIDE.contains(&source.len())
        && name.len() <= NAME_MAX
        && plain::names_something(name)
    {
        seen.spans.extend(beside(name, source));
    }
    seen
}

/// What a text is if its name stands before it.
fn beside(name: &str, source: &str) -> impl Iterator<Item = Span> {
    let whole = format!("{name}: {source}");
    let before = name.len().saturating_add(2);
    plain::scan(whole.as_bytes(), false).into_iter().filter_map(move |found| {
        let range = found.range.start.checked_sub(before)?..found.range.end.checked_sub(before)?;
        Some(Span { kind: found.kind, confidence: found.confidence, how: How::Plain, range })
    })
}

/// Bytes of the shortest text with a finding of the newer kinds.
const SECRET_MIN: usize = 8;
/// Bytes of a text that its name may explain, and of such a name.
const BESIDE: Range<usize> = 8..4096;
const NAME_MAX: usize = 128;

fn through(source: &str, sifts: bool) -> TextFindings {
    let mut scan = TextScan { seen: TextFindings::default(), left: 0, is_first: true, sifts };
    // Nothing shorter holds anything, however it is written.
    if source.len() >= 6 {
        scan.left = own::work(budget(source.len()));
        let text = folded_text(source);
        let make = || Reading::of(source);
        let plain = LazyReading::of(&text, &make);
        scan.open(&plain, LAYERS);
        let reversed = backwards(&text);
        let make = || plain.reading().reversed();
        scan.decode(&LazyReading::of(&reversed, &make), Which::All, 1);
    }
    scan.seen
}

/// Scans a number: plain digits only, since numbers carry no encoded text.
pub(super) fn number(source: &str) -> TextFindings {
    let hits = rules::scan(source, Mode::Written).into_iter();
    TextFindings {
        spans: hits.map(|hit| span(hit.kind, How::Plain, hit.start..hit.end)).collect(),
        ..TextFindings::default()
    }
}

fn span(kind: &'static str, how: How, range: Range<usize>) -> Span {
    Span { kind, confidence: Confidence::High, how, range }
}

fn budget(bytes: usize) -> usize {
    bytes.saturating_mul(READINGS_PER_BYTE).saturating_add(READINGS_BYTES).min(READINGS_BYTES_MAX)
}

struct TextScan {
    seen: TextFindings,
    left: usize,
    /// Nothing was read yet: the text comes as it is written.
    is_first: bool,
    /// Whether to drop decoded text that cannot hold a finding.
    sifts: bool,
}

/// Whether decoded text holds no finding in any reading: with parts removed, reversed or unescaped.
fn is_inert(decoded: &Decoded<'_>, layers: usize) -> bool {
    let bytes = decoded.bytes;
    if !decoded.is_text {
        return !rules::possible_among(bytes) && !has_plain(bytes, AMONG_MIN);
    }
    sieve::is_inert_text(bytes, layers)
}

fn is_plain(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) || b"\t\n\r".contains(&byte)
}

/// Whether so many plain characters stand in a row. One of them is where every `least`-th byte is
/// looked at.
fn has_plain(bytes: &[u8], least: usize) -> bool {
    let mut at = least.saturating_sub(1);
    while let Some((before, after)) =
        bytes.split_at_checked(at).filter(|(_, rest)| !rest.is_empty())
    {
        let ahead = after.iter().take_while(|b| is_plain(**b)).count();
        let behind = before.iter().rev().take_while(|b| is_plain(**b)).count();
        if ahead > 0 && ahead.saturating_add(behind) >= least {
            return true;
        }
        at = at.saturating_add(ahead.saturating_add(least));
    }
    false
}

impl TextScan {
    /// Whether there is still time for so much.
    fn afford(&mut self, bytes: usize) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => self.seen.over = true,
        }
        !self.seen.over
    }

    fn scan(&mut self, reading: &LazyReading<'_>, mode: Mode) {
        let how = if std::mem::take(&mut self.is_first) { How::Plain } else { How::Decoded };
        let hits = rules::scan(reading.text, mode).into_iter();
        let placed = hits
            .filter_map(|hit| Some(span(hit.kind, how, reading.source(&(hit.start..hit.end))?)));
        self.seen.spans.extend(placed);
    }

    /// Everything that a reader could make of this text.
    fn open(&mut self, reading: &LazyReading<'_>, layers: usize) {
        self.read(reading, layers);
        self.unescape(reading, layers, LAYERS);
    }

    /// The text without its escapes, so many times.
    fn unescape(&mut self, reading: &LazyReading<'_>, layers: usize, times: usize) {
        let Some(times) = times.checked_sub(1) else { return };
        if !reading.text.bytes().any(|b| matches!(b, b'%' | b'\\' | b'&')) {
            return;
        }
        let Some(text) = unescaped_text(reading.text) else { return };
        let made = || reading.reading();
        let make = || made().unescaped().unwrap_or_else(|| made().clone());
        let escaped = LazyReading::of(&text, &make);
        self.read(&escaped, layers);
        self.unescape(&escaped, layers, times);
    }

    /// Scans this text, forwards and backwards, and the encoded text in it.
    fn read(&mut self, reading: &LazyReading<'_>, layers: usize) {
        if !self.afford(reading.text.len()) {
            return;
        }
        let text = reading.text;
        if rules::possible(text.as_bytes()) {
            self.scan(reading, Mode::Written);
        }
        self.is_first = false;
        if rules::possible(text.as_bytes()) {
            let (reversed, numbers) = (backwards(text), numbers_text(text));
            let made = || reading.reading();
            self.scan(&LazyReading::of(&reversed, &|| made().reversed()), Mode::Backwards);
            if rules::may_be_iban(text.as_bytes()) {
                self.scan(&LazyReading::made(&made().turned()), Mode::Turned);
            }
            self.scan(&LazyReading::of(&numbers, &|| made().numbers()), Mode::Written);
            // These have fewer characters of the text, and no others.
            if let Some(plain) = has_hidden(text).then(|| made().plain()).flatten() {
                self.scan(&LazyReading::made(&plain), Mode::Written);
            }
            if let Some(together) = together_text(text) {
                let make = || made().together().unwrap_or_else(|| made().clone());
                self.scan(&LazyReading::of(&together, &make), Mode::Written);
            }
        }
        if text.contains('=') {
            let printable = printable_text(text);
            if printable.len() != text.len() {
                let make = || reading.reading().printable();
                self.scan(&LazyReading::of(&printable, &make), Mode::Written);
            }
        }
        if let Some(deeper) = layers.checked_sub(1) {
            self.read_encoded(reading, deeper);
        }
    }

    fn read_encoded(&mut self, reading: &LazyReading<'_>, deeper: usize) {
        let text = reading.text;
        let unwrapped = readings::is_wrapped(text).then(|| reading.reading().unwrapped()).flatten();
        let blob = match &unwrapped {
            Some(whole) => self.decode(&LazyReading::made(whole), Which::All, deeper),
            None => self.decode(reading, Which::All, deeper),
        };
        self.seen.opaque |= blob;
        let is_separator = |b: u8| b <= b' ' || b":-,;".contains(&b) || (b'A'..=b'F').contains(&b);
        let may_have_digits = !self.sifts || encoded::may_have_digits(text.as_bytes());
        if may_have_digits && text.bytes().any(is_separator) {
            let digits = digits_text(text);
            let make = || reading.reading().digits();
            self.decode(&LazyReading::of(&digits, &make), Which::Hex, deeper);
        }
        if text.bytes().any(|b| b <= b' ') {
            let squeezed = squeezed_text(text);
            let make = || reading.reading().squeezed();
            self.decode(&LazyReading::of(&squeezed, &make), Which::All, deeper);
        }
    }

    /// Scans the decoded letters of a reading; `true` if some of them are bytes.
    fn decode(&mut self, reading: &LazyReading<'_>, which: Which, layers: usize) -> bool {
        let text = reading.text.as_bytes();
        let mut sieve = Sieve::new(layers);
        let stretches = Stretches::of(text, which, self.sifts.then_some(&mut sieve));
        let blob = stretches.each(text, |decoded| self.decoded(decoded, reading, layers));
        self.afford(stretches.passed);
        blob
    }

    fn decoded(&mut self, decoded: &Decoded<'_>, letters: &LazyReading<'_>, layers: usize) {
        // Most decoded pieces come from plain words and hold nothing.
        if !self.afford(decoded.bytes.len()) || (self.sifts && is_inert(decoded, layers)) {
            return;
        }
        let text = decoded.text();
        let make = || decoded.reading(letters.reading());
        let reading = &LazyReading::of(&text, &make);
        if decoded.is_text {
            return self.open(reading, layers);
        }
        self.scan(reading, Mode::Bytes);
        let mut at = 0_usize;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let length = rest.bytes().take_while(|b| is_plain(*b)).count();
            if length >= AMONG_MIN {
                let make = || reading.reading().part(at..at.saturating_add(length));
                let part = rest.get(..length).unwrap_or_default();
                self.open(&LazyReading::of(part, &make), layers);
            }
            at = at.saturating_add(length.max(1));
        }
    }
}

/// The text from its end to its beginning: readings are ASCII.
fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let mut block = [0_u8; 4];
            block[1..=chunk.len()].copy_from_slice(chunk);
            let bits = u32::from_be_bytes(block);
            for place in 0..=chunk.len() {
                let value = (bits >> (18 - 6 * place)) & 63;
                out.push(char::from(alphabet[value as usize]));
            }
        }
        out
    }

    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    /// One way to encode a text so that a recipient can decode it again.
    fn written(text: &str, how: u8) -> String {
        match how {
            0 => base64(text.as_bytes(), ALPHABET),
            1 => hex::encode(text),
            2 => text.bytes().map(|b| format!("%{b:02x}")).collect(),
            3 => text.chars().rev().collect(),
            4 => text.bytes().map(|b| format!("&#{b};")).collect(),
            5 => text.bytes().map(|b| format!("={b:02X}")).collect(),
            6 => text.chars().flat_map(|c| [c, '\0']).collect(),
            7 => text.bytes().map(|b| format!("{b} ")).collect(),
            8 => text.chars().flat_map(|c| [c, ' ']).collect(),
            9 => text.bytes().map(|b| format!("\\x{b:02x}")).collect(),
            _plain => text.to_owned(),
        }
    }

    fn same(text: &str) -> Result<(), TestCaseError> {
        let (fast, slow) = (through(text, true), through(text, false));
        prop_assert_eq!(&fast.spans, &slow.spans, "{}", text);
        prop_assert_eq!(fast.unscanned(), slow.unscanned(), "{}", text);
        Ok(())
    }

    #[test]
    fn letters_before_an_encoded_text_do_not_hide_it() {
        // `AEA` decodes to bytes that no text has; what follows it is one.
        for item in ["a%40b.de", "a=40b.de", "YUBiLmRl", &written("ann@example.com", 6)] {
            for before in ["", "AEA", "EAA", "Ax", "A"] {
                let text = format!("see {before}{} now", written(item, 0));
                let kinds = text_kinds(&text);
                assert!(kinds.contains(&"email"), "{item} in {text}: {kinds:?}");
            }
        }
    }

    fn text_kinds(source: &str) -> Vec<&'static str> {
        text(source).spans.into_iter().map(|span| span.kind).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn what_is_dropped_unread_would_have_shown_nothing(
            before in "[ -~]{0,12}",
            item in prop::sample::select(vec![
                "ann@example.com", "4111 1111 1111 1111", "DE89370400440532013000", "219-09-9999",
                "a@b.de", "nobody", "0123456789", "line\nbreak", "%61%40b.de", "a=40b.de",
            ]),
            hows in prop::collection::vec(0_u8..11, 0..4),
            after in "[ -~]{0,12}",
            letters in "[A-Za-z0-9+/]{1,7}",
        ) {
            let text = hows.iter().fold(format!("{before}{item}{after}"), |text, how| written(&text, *how));
            same(&text)?;
            same(&format!("{letters}{text}"))?;
            same(&format!("{before} {text}{after}"))?;
        }

        #[test]
        fn nor_among_bytes_that_are_no_text(
            before in prop::collection::vec(any::<u8>(), 0..500),
            item in prop::sample::select(vec![
                "ann@example.com", "a@b.de", "4111111111111111", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
                "3782 822463 10005", "GB29NWBK60161331926819", "DE89 3704 0044 0532 0130 00",
                "219-09-9999", "@", "0123456789",
            ]),
            after in prop::collection::vec(any::<u8>(), 0..500),
        ) {
            let bytes = [&before, item.as_bytes(), &after].concat();
            same(&base64(&bytes, ALPHABET))?;
            same(&hex::encode(&bytes))?;
        }

        #[test]
        fn nor_in_any_other_text(text in "[ -~\\n]{0,200}", letters in "[A-Za-z0-9+/]{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            same(&text)?;
            same(&letters)?;
            same(&base64(&bytes, ALPHABET))?;
            same(&hex::encode(&bytes))?;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn nor_in_long_texts_with_words_around(
            words in prop::collection::vec(prop::sample::select(vec![
                "order", "the", "parcel", "HTTPServerConfiguration", "is", "x=10", "%41", "2026-11-21",
                "deadbeef", "\n", "a", ".", "é", "user@host", "0x2f, ",
            ]), 20..160),
            gap in prop::sample::select(vec!["", " "]),
            item in prop::sample::select(vec![
                "ann@example.com", "4111 1111 1111 1111", "DE89370400440532013000", "219-09-9999",
                "a@b.de", "nobody", "0123456789",
            ]),
            hows in prop::collection::vec(0_u8..11, 0..3),
            place in any::<prop::sample::Index>(),
        ) {
            let item = hows.iter().fold(item.to_owned(), |text, how| written(&text, *how));
            let mut words: Vec<&str> = words;
            words.insert(place.index(words.len()), &item);
            same(&words.join(gap))?;
        }
    }
}
