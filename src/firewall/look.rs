//! One text, looked through as it is written and as whoever decodes it would read it.

use std::ops::Range;

use super::encoded::{self, Decoded, Which};
use super::rules::{self, Mode};
use crate::domain::readings::{LAYERS, Reading};

/// Bytes of readings for each byte of the text, and beside that, until nobody looks any further.
const READINGS_PER_BYTE: usize = 96;
const READINGS_BYTES: usize = 1 << 20;
const READINGS_BYTES_MAX: usize = 1 << 29;
/// Bytes of a text that stands among others which are none.
const AMONG_MIN: usize = 24;

/// What was seen in a text.
#[derive(Default)]
pub(super) struct Seen {
    /// Kinds and where they stand, in no order; they may overlap.
    pub spans: Vec<(&'static str, Range<usize>)>,
    /// It holds something that nobody could look through.
    pub unscanned: bool,
}

/// Looks through a text.
pub(super) fn text(source: &str) -> Seen {
    let mut look = Look { seen: Seen::default(), left: budget(source.len()), over: false };
    // Nothing shorter holds anything, however it is written.
    if source.len() >= 6 {
        let plain = Reading::of(source);
        look.open(&plain, LAYERS);
        look.decode(&plain.reversed(), 1);
    }
    look.seen
}

/// Looks at a number: nobody encodes with those.
pub(super) fn number(source: &str) -> Seen {
    let hits = rules::scan(source, Mode::Written).into_iter();
    Seen { spans: hits.map(|hit| (hit.kind, hit.start..hit.end)).collect(), unscanned: false }
}

fn budget(bytes: usize) -> usize {
    bytes.saturating_mul(READINGS_PER_BYTE).saturating_add(READINGS_BYTES).min(READINGS_BYTES_MAX)
}

struct Look {
    seen: Seen,
    left: usize,
    /// There was more than there is time for.
    over: bool,
}

impl Look {
    /// Whether there is still time for so much.
    fn afford(&mut self, reading: &Reading) -> bool {
        match self.left.checked_sub(reading.text.len()) {
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

    /// What this text says, forwards and backwards, and what is encoded in it.
    fn read(&mut self, reading: &Reading, layers: usize) {
        if !self.afford(reading) {
            return;
        }
        self.scan(reading, Mode::Written);
        if rules::possible(&reading.text) {
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
        self.seen.unscanned |= self.decode(whole, deeper);
        let apart = |b: u8| b <= b' ' || b":-,;".contains(&b) || (b'A'..=b'F').contains(&b);
        if reading.text.bytes().any(apart) {
            self.decode_as(&reading.digits(), Which::Hex, deeper);
        }
        if reading.text.bytes().any(|b| b <= b' ') {
            self.decode(&reading.squeezed(), deeper);
        }
    }

    fn decode(&mut self, reading: &Reading, layers: usize) -> bool {
        self.decode_as(reading, Which::All, layers)
    }

    /// Looks at what the reading's letters decode to; whether some of them are bytes.
    fn decode_as(&mut self, reading: &Reading, which: Which, layers: usize) -> bool {
        encoded::each(reading, which, |decoded| self.decoded(decoded, layers))
    }

    fn decoded(&mut self, Decoded { reading, is_text }: &Decoded, layers: usize) {
        if !self.afford(reading) {
            return;
        }
        if *is_text {
            self.open(reading, layers);
            return;
        }
        self.scan(reading, Mode::Bytes);
        let plain = |b: &u8| (b' '..0x7f).contains(b) || b"\t\n\r".contains(b);
        let bytes = reading.text.as_bytes();
        let mut at = 0_usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let length = rest.iter().take_while(|b| plain(b)).count();
            if length >= AMONG_MIN {
                self.open(&reading.part(at..at.saturating_add(length)), layers);
            }
            at = at.saturating_add(length.max(1));
        }
    }
}
