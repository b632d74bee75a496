//! Finds out what a stretch of letters cannot hold, at all starts at once and without decoding it.
//!
//! The bits of the letters stand in a row; each start is this row, moved by a few bits. Eight bytes of
//! it at a time are asked for what chance seldom makes. Only where something is, single bytes are.

use super::encoded::{self, Encoding, LETTERS_MIN, Starts};
use super::rules::{self, DENSE_BYTES};
use crate::domain::readings;

/// One byte eight times: 1, its highest bit, `@`, the first digit, a control character, and what those
/// two share with the fifteen that follow.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
const AT: u64 = 0x4040_4040_4040_4040;
const DIGITS: u64 = 0x3030_3030_3030_3030;
const STEERING: u64 = 0x1010_1010_1010_1010;
const NIBBLES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
/// Bytes of a text up to which an escape in it makes no room for a finding.
const ESCAPED_MIN: usize = 8;
/// Plain bytes in a row that may be an IBAN, or a text among other bytes.
const PLAIN_MIN: usize = 15;
/// Bytes that are looked at one by one.
const FEW: usize = 16;

/// What decoded text is asked for.
pub(super) struct Sieve {
    /// How often text that is encoded in it will be decoded again.
    layers: usize,
    bits: Vec<u8>,
    bytes: Vec<u8>,
}

impl Sieve {
    /// For text in which so many layers are decoded.
    pub const fn new(layers: usize) -> Self {
        Self { layers, bits: Vec::new(), bytes: Vec::new() }
    }

    /// The starts at which these letters may hold a finding; all, if they may be bytes that are no
    /// text.
    pub fn starts(&mut self, encoding: &Encoding, letters: &[u8]) -> Starts {
        if (encoding.is_blob)(letters) {
            return Starts::ALL;
        }
        encoding.pack(letters, &mut self.bits);
        let bits = letters.len().saturating_mul(encoding.width);
        let Self { layers, bits: row, bytes } = self;
        (0..encoding.turns).fold(Starts::NONE, |starts, skip| {
            // WHY without the whole bytes before it: they may be no text where what begins here is one.
            let first = skip.saturating_mul(encoding.width);
            let length = bits.saturating_sub(first) / 8;
            let rest = row.get(first / 8..).unwrap_or_default();
            let moved = MovedBits { bits: rest, by: encoding.by(skip), length };
            if moved.is_inert(*layers, bytes) { starts } else { starts.and(moved.by) }
        })
    }
}

/// The bytes that begin so many bits behind the first of these.
struct MovedBits<'a> {
    bits: &'a [u8],
    by: usize,
    length: usize,
}

impl MovedBits<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        let high = *self.bits.get(at).filter(|_| at < self.length)?;
        let low = *self.bits.get(at.saturating_add(1))?;
        let [_, byte] = ((u16::from_be_bytes([high, low]) << self.by) >> 8).to_be_bytes();
        Some(byte)
    }

    /// Eight bytes at a time; behind the last byte come bytes that are nothing.
    fn words(&self) -> impl Iterator<Item = (usize, u64)> {
        let (words, _) = self.bits.as_chunks::<8>();
        let next = words.iter().skip(1);
        let words = words.iter().zip(next).zip((0..self.length).step_by(8));
        words.map(|((word, next), at)| {
            let both = (u128::from(u64::from_be_bytes(*word)) << 64)
                | u128::from(u64::from_be_bytes(*next));
            let [_, _, _, _, _, _, _, _, moved @ ..] =
                (both >> (64_usize.saturating_sub(self.by))).to_be_bytes();
            let word = u64::from_be_bytes(moved);
            let valid = self.length.saturating_sub(at);
            (at, if valid < 8 { word | (u64::MAX >> (valid * 8)) } else { word })
        })
    }

    fn is_inert(&self, layers: usize, bytes: &mut Vec<u8>) -> bool {
        let mut steers = false;
        if self.length > FEW {
            for (at, word) in self.words() {
                steers |= has_zero((word ^ STEERING) & NIBBLES);
                let suspect = has_zero(word ^ AT) && self.has_address(at)
                    || word & HIGH == 0 && self.has_plain(at)
                    || has_three_zeros((word ^ DIGITS) & NIBBLES) && self.has_number(at);
                if suspect {
                    return false;
                }
            }
        }
        if steers {
            return true;
        }
        self.put(bytes);
        (self.length > FEW && bytes.len() < self.length) || is_inert_text(bytes, layers)
    }

    fn has_address(&self, from: usize) -> bool {
        let byte = |at: usize| self.byte(at);
        let mut here = from..from.saturating_add(8);
        here.any(|at| byte(at) == Some(b'@') && rules::is_around_at(&byte, at))
    }

    /// Whether these eight bytes are among so many plain ones that they may be an IBAN, or a text.
    fn has_plain(&self, from: usize) -> bool {
        let plain = |at: &usize| self.byte(*at).is_some_and(is_plain);
        let end = from.saturating_add(8);
        if !(from..end).all(|at| plain(&at)) {
            return false;
        }
        let before = (0..from).rev().take_while(plain).take(PLAIN_MIN).count();
        let after = (end..self.length).take_while(plain).take(PLAIN_MIN).count();
        before.saturating_add(after).saturating_add(8) >= PLAIN_MIN
    }

    fn has_number(&self, from: usize) -> bool {
        let around = from.saturating_sub(DENSE_BYTES)..from.saturating_add(8 + DENSE_BYTES);
        rules::are_dense(around.map_while(|at| self.byte(at)))
    }

    /// All bytes; fewer if among many of them is one that no text has.
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        for byte in (0..self.length).map_while(|at| self.byte(at)) {
            bytes.push(byte);
            if self.length > FEW && is_steering(byte) {
                return;
            }
        }
    }
}

/// Whether these bytes hold nothing in any reading, if they are a text; if they are none, whether they
/// are too few for what is found among bytes.
pub(super) fn is_inert_text(bytes: &[u8], layers: usize) -> bool {
    let has = |wanted: u8| bytes.contains(&wanted);
    let digits = || bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if has(b'@') && (has(b'.') || bytes.len() >= ESCAPED_MIN && readings::is_escaped(bytes)) {
        return false;
    }
    if bytes.len() >= rules::DIGITS_MIN && digits() >= rules::DIGITS_MIN {
        return false;
    }
    // Without an escape, every reading has the characters of the text, or fewer.
    bytes.iter().any(|byte| is_steering(*byte))
        || !(bytes.len() >= ESCAPED_MIN && readings::is_escaped(bytes))
            && (layers == 0 || bytes.len() < LETTERS_MIN || encoded::letters(bytes) < LETTERS_MIN)
}

/// Whether no text has this byte, in any set of characters.
fn is_steering(byte: u8) -> bool {
    (byte < b' ' && !matches!(byte, 0 | b'\t' | b'\n' | b'\r')) || byte == 0x7f
}

fn is_plain(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) || b"\t\n\r".contains(&byte)
}

fn has_zero(word: u64) -> bool {
    word.wrapping_sub(ONES) & !word & HIGH != 0
}

fn has_three_zeros(word: u64) -> bool {
    let zeros = !((word & !HIGH).wrapping_add(!HIGH) | word) & HIGH;
    let fewer = zeros & zeros.wrapping_sub(1);
    fewer & fewer.wrapping_sub(1) != 0
}
