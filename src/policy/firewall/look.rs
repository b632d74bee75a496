//! Scans one text, as it is written and as a recipient would decode it.

use std::cell::OnceCell;
use std::ops::Range;

use super::encoded::{self, Decoded, Which};
use super::rules::{self, Mode};
use crate::domain::readings::{LAYERS, Reading};

/// Budget of decoded readings: bytes for each byte of the text, and beside that. The scan stops
/// when it is used up.
const READINGS_PER_BYTE: usize = 96;
const READINGS_BYTES: usize = 1 << 20;
const READINGS_BYTES_MAX: usize = 1 << 29;
/// Bytes of plain characters in a row that are scanned as a text, among bytes that are not one.
const AMONG_MIN: usize = 24;

/// The findings in a text.
#[derive(Default)]
pub(super) struct TextFindings {
    /// Kinds and their places, in no order; they may overlap.
    pub spans: Vec<(&'static str, Range<usize>)>,
    /// It holds something that the scan could not read.
    pub unscanned: bool,
}

/// Looks through a text.
pub(super) fn text(source: &str) -> TextFindings {
    through(source, true)
}

fn through(source: &str, sifts: bool) -> TextFindings {
    let left = budget(source.len());
    let mut scan = TextScan { seen: TextFindings::default(), left, over: false, sifts };
    // Nothing shorter holds anything, however it is written.
    if source.len() >= 6 {
        let plain = Reading::of(source);
        scan.open(&plain, LAYERS);
        let reversed: Vec<u8> = plain.text.bytes().rev().collect();
        scan.decode_derived(&reversed, || plain.reversed(), Which::All, 1);
    }
    scan.seen
}

/// Scans a number: plain digits only, since numbers carry no encoded text.
pub(super) fn number(source: &str) -> TextFindings {
    let hits = rules::scan(source, Mode::Written).into_iter();
    TextFindings {
        spans: hits.map(|hit| (hit.kind, hit.start..hit.end)).collect(),
        unscanned: false,
    }
}

fn budget(bytes: usize) -> usize {
    bytes.saturating_mul(READINGS_PER_BYTE).saturating_add(READINGS_BYTES).min(READINGS_BYTES_MAX)
}

struct TextScan {
    seen: TextFindings,
    left: usize,
    /// There was more than there is time for.
    over: bool,
    /// Whether to drop decoded text that cannot hold a finding.
    sifts: bool,
}

/// Whether decoded text holds no finding in any reading: with parts removed, reversed or unescaped.
fn is_inert(decoded: &Decoded<'_>, layers: usize) -> bool {
    let bytes = decoded.bytes;
    if !decoded.is_text {
        return !rules::possible_among(bytes) && !has_plain(bytes, AMONG_MIN);
    }
    if rules::possible(bytes) {
        return false;
    }
    // Unescaping these may produce any character.
    let escapes = bytes.iter().any(|b| b"%\\&=".contains(b));
    let letters = || bytes.iter().filter(|b| encoded::is_letter(**b)).count();
    !escapes && (layers == 0 || letters() < encoded::LETTERS_MIN)
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
            None => (self.over, self.seen.unscanned) = (true, true),
        }
        !self.over
    }

    fn scan(&mut self, reading: &Reading, mode: Mode) {
        let hits = rules::scan(&reading.text, mode).into_iter();
        let placed =
            hits.filter_map(|hit| Some((hit.kind, reading.source(&(hit.start..hit.end))?)));
        self.seen.spans.extend(placed);
    }

    /// Everything that a reader could make of this text.
    fn open(&mut self, reading: &Reading, layers: usize) {
        self.read(reading, layers);
        let escapes = reading.text.contains(['%', '\\', '&']);
        let mut layer = escapes.then(|| reading.unescaped()).flatten();
        for _ in 0..LAYERS {
            let Some(escaped) = layer else { break };
            self.read(&escaped, layers);
            layer = escaped.unescaped();
        }
    }

    /// Scans this text, forwards and backwards, and the encoded text in it.
    fn read(&mut self, reading: &Reading, layers: usize) {
        if !self.afford(reading.text.len()) {
            return;
        }
        self.scan(reading, Mode::Written);
        if rules::possible(reading.text.as_bytes()) {
            self.scan(&reading.reversed(), Mode::Backwards);
            self.scan(&reading.turned(), Mode::Turned);
            self.scan(&reading.numbers(), Mode::Written);
        }
        for other in [reading.plain(), reading.together()].into_iter().flatten() {
            self.scan(&other, Mode::Written);
        }
        if reading.text.contains('=') {
            self.scan(&reading.printable(), Mode::Written);
        }
        let Some(deeper) = layers.checked_sub(1) else { return };
        let unwrapped = reading.unwrapped();
        let whole = unwrapped.as_ref().unwrap_or(reading);
        let blob = self.decode_as(whole.text.as_bytes(), &|| whole, Which::All, deeper);
        self.seen.unscanned |= blob;
        let text = reading.text.as_bytes();
        let is_separator = |b: &u8| *b <= b' ' || b":-,;".contains(b) || (b'A'..=b'F').contains(b);
        let separated = text.iter().any(is_separator);
        if separated && (!self.sifts || encoded::may_have_digits(text)) {
            let digits = reading.digits();
            self.decode_as(digits.text.as_bytes(), &|| &digits, Which::Hex, deeper);
        }
        let squeezed: Vec<u8> = text.iter().copied().filter(|b| *b > b' ').collect();
        if squeezed.len() < text.len() {
            self.decode_derived(&squeezed, || reading.squeezed(), Which::All, deeper);
        }
    }

    /// As [`Self::decode_as`], of a reading that is made only if something may be in it.
    fn decode_derived(
        &mut self,
        text: &[u8],
        make: impl Fn() -> Reading,
        which: Which,
        layers: usize,
    ) {
        let made = OnceCell::new();
        self.decode_as(text, &|| made.get_or_init(&make), which, layers);
    }

    /// Scans the decoded letters of a reading, of which this is the text; `true` if some of them are
    /// bytes.
    fn decode_as<'a>(
        &mut self,
        text: &[u8],
        reading: &dyn Fn() -> &'a Reading,
        which: Which,
        layers: usize,
    ) -> bool {
        encoded::each(text, which, |decoded| self.decoded(decoded, reading, layers))
    }

    fn decoded<'a>(
        &mut self,
        decoded: &Decoded<'_>,
        letters: &dyn Fn() -> &'a Reading,
        layers: usize,
    ) {
        // Most decoded pieces come from plain words and hold nothing.
        if !self.afford(decoded.bytes.len()) || (self.sifts && is_inert(decoded, layers)) {
            return;
        }
        let reading = &decoded.reading(letters());
        if decoded.is_text {
            self.open(reading, layers);
            return;
        }
        self.scan(reading, Mode::Bytes);
        let bytes = reading.text.as_bytes();
        let mut at = 0_usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let length = rest.iter().take_while(|b| is_plain(**b)).count();
            if length >= AMONG_MIN {
                self.open(&reading.part(at..at.saturating_add(length)), layers);
            }
            at = at.saturating_add(length.max(1));
        }
    }
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
        prop_assert_eq!(fast.unscanned, slow.unscanned, "{}", text);
        Ok(())
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
        ) {
            let text = hows.iter().fold(format!("{before}{item}{after}"), |text, how| written(&text, *how));
            same(&text)?;
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
}
