//! Finds base64, base32 and hexadecimal digits in a reading, and opaque pieces among them.

use std::ops::Range;
use std::sync::LazyLock;

use super::sieve::Sieve;
use crate::domain::readings::{OTHER, Reading};

/// One way to write bytes as letters.
pub(super) struct Encoding {
    /// The bits of each byte that is a letter; [`NO_LETTER`] for any other.
    values: [u8; 256],
    /// How many bits.
    pub(super) width: usize,
    /// The letters after which bits and bytes align again.
    pub(super) turns: usize,
    /// The shortest stretch that can hold a finding.
    least: usize,
    /// Whether letters that decode to no text are encoded bytes and not plain text.
    pub(super) is_blob: fn(&[u8]) -> bool,
}

/// A byte that is no letter of an encoding.
const NO_LETTER: u8 = 0xff;

static ENCODINGS: LazyLock<[Encoding; 3]> = LazyLock::new(|| {
    [
        Encoding { values: of(base64), width: 6, turns: 4, least: LETTERS_MIN, is_blob: is_base64 },
        Encoding { values: of(base32), width: 5, turns: 8, least: 10, is_blob: is_base32 },
        Encoding { values: of(hex), width: 4, turns: 2, least: 12, is_blob: is_hex },
    ]
});

/// The values as a table: the search reads each byte of a text a dozen times.
fn of(value: fn(u8) -> Option<u8>) -> [u8; 256] {
    std::array::from_fn(|byte| u8::try_from(byte).ok().and_then(value).unwrap_or(NO_LETTER))
}

impl Encoding {
    /// The bits of a letter; [`NO_LETTER`] for a byte that is none.
    fn value(&self, byte: u8) -> u8 {
        self.values.get(usize::from(byte)).copied().unwrap_or(NO_LETTER)
    }

    fn is_letter(&self, byte: u8) -> bool {
        self.value(byte) != NO_LETTER
    }

    /// The bytes of so many letters but the first ones.
    fn decoded_bytes(&self, letters: usize, skip: usize) -> usize {
        letters.saturating_sub(skip).saturating_mul(self.width) / 8
    }

    /// How many bits behind a byte of the whole the bytes begin, without so many letters.
    pub(super) fn by(&self, skip: usize) -> usize {
        skip.saturating_mul(self.width) % 8
    }

    /// The bits of the letters, in a row, with at least sixteen bytes of zeros behind them.
    pub(super) fn pack(&self, letters: &[u8], bytes: &mut Vec<u8>) {
        let groups = letters.len().div_ceil(self.turns.max(1));
        let used = groups.saturating_mul(self.turns.saturating_mul(self.width)) / 8;
        bytes.clear();
        bytes.resize(used.next_multiple_of(8).saturating_add(16), 0);
        match self.width {
            6 => unpack_groups::<6, 4, 3>(self, letters, bytes),
            5 => unpack_groups::<5, 8, 5>(self, letters, bytes),
            _four => unpack_groups::<4, 2, 1>(self, letters, bytes),
        }
    }
}

/// Letters of a stretch that is bytes; a digest of 64 bytes has less.
const BASE64_BLOB: usize = 96;
const BASE32_BLOB: usize = 112;
const HEX_BLOB: usize = 136;
/// A stretch longer than this is looked through only if its beginning is text.
const LONG: usize = 8192;

/// Which of them a text is looked through for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    /// All.
    All,
    /// Hexadecimal digits, with the separators between them removed.
    Hex,
}

/// A stretch that was decoded.
pub(super) struct Decoded<'a> {
    /// What it decodes to.
    pub bytes: &'a [u8],
    /// All of that is text.
    pub is_text: bool,
    encoding: &'static Encoding,
    from: usize,
}

impl Decoded<'_> {
    /// The text of [`Self::reading`].
    pub fn text(&self) -> String {
        self.bytes
            .iter()
            .map(|byte| if byte.is_ascii() { char::from(*byte) } else { OTHER })
            .collect()
    }

    /// The bytes, and the place of each byte's letters in the source of the reading that has them.
    pub fn reading(&self, letters: &Reading) -> Reading {
        placed(self.encoding, letters, self.bytes, self.from)
    }
}

/// Whether there may be enough hexadecimal digits in a row, if the separators between them, which
/// [`Reading::digits`] drops, are not counted.
pub(super) fn may_have_digits(text: &[u8]) -> bool {
    let [.., digits] = &*ENCODINGS;
    let mut length = 0_usize;
    text.iter().any(|byte| {
        if digits.is_letter(*byte) {
            length = length.saturating_add(1);
        } else if !b" :-,;\r\n\txX".contains(byte) {
            length = 0;
        }
        length >= digits.least
    })
}

/// How many bytes may be letters of an encoding.
pub(super) fn letters(bytes: &[u8]) -> usize {
    // Base64 has all letters of the other two.
    let [base64, ..] = &*ENCODINGS;
    bytes.iter().filter(|byte| base64.is_letter(**byte)).count()
}

/// Letters of the shortest stretch that is decoded.
pub(super) const LETTERS_MIN: usize = 8;

/// Starts of a stretch: a bit for each, by how many bits its bytes begin behind the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Starts(u8);

impl Starts {
    pub const ALL: Self = Self(u8::MAX);
    pub const NONE: Self = Self(0);

    /// These and the one that begins so many bits behind.
    pub fn and(self, by: usize) -> Self {
        Self(self.0 | Self::bit(by))
    }

    fn has(self, by: usize) -> bool {
        self.0 & Self::bit(by) != 0
    }

    fn bit(by: usize) -> u8 {
        1_u8.rotate_left(u32::try_from(by).unwrap_or_default())
    }
}

/// The stretches of a text that may be encoded.
pub(super) struct Stretches {
    /// The encoding by its number, the place of the letters, and the starts that are decoded.
    all: Vec<(usize, Range<usize>, Starts)>,
    /// Bytes to which the letters decode at the other starts, and in stretches that hold nothing.
    pub passed: usize,
}

impl Stretches {
    /// Those of this text. `sieve`: whether one that holds nothing is left out, unless it may be bytes.
    pub fn of(text: &[u8], which: Which, mut sieve: Option<&mut Sieve>) -> Self {
        let mut found = Self { all: Vec::new(), passed: 0 };
        // Base64 has all letters of the other two.
        let [base64, narrower @ ..] = &*ENCODINGS;
        for (at, letters) in runs(text, base64) {
            if which == Which::All {
                found.add((0, base64), (at, letters), sieve.as_deref_mut());
            }
            for (number, encoding) in (1..).zip(narrower) {
                if letters.len() < encoding.least || which == Which::Hex && encoding.width != 4 {
                    continue;
                }
                for (within, run) in runs(letters, encoding) {
                    let run = (at.saturating_add(within), run);
                    found.add((number, encoding), run, sieve.as_deref_mut());
                }
            }
        }
        found.all.sort_by_key(|(number, at, _)| (*number, at.start));
        found
    }

    fn add(
        &mut self,
        (number, encoding): (usize, &Encoding),
        (at, letters): (usize, &[u8]),
        sieve: Option<&mut Sieve>,
    ) {
        let starts = sieve.map_or(Starts::ALL, |sieve| sieve.starts(encoding, letters));
        if starts != Starts::NONE {
            self.all.push((number, at..at.saturating_add(letters.len()), starts));
        }
        let others = (0..encoding.turns).filter(|skip| !starts.has(encoding.by(*skip)));
        let passed: usize = others.map(|skip| encoding.decoded_bytes(letters.len(), skip)).sum();
        self.passed = self.passed.saturating_add(passed);
    }

    /// Passes every decoded stretch to `visit`, at every possible start; `true` if one of them holds
    /// bytes.
    pub fn each(&self, text: &[u8], mut visit: impl FnMut(&Decoded<'_>)) -> bool {
        let (mut blob, mut buffer) = (false, Vec::new());
        for (number, at, starts) in &self.all {
            let Some(encoding) = ENCODINGS.get(*number) else { continue };
            let letters = text.get(at.clone()).unwrap_or_default();
            blob |= stretch((encoding, *starts), (at.start, letters), &mut buffer, &mut visit);
        }
        blob
    }
}

/// The longest stretches of letters of an encoding that may be one, and where they begin.
fn runs<'t>(text: &'t [u8], encoding: &Encoding) -> impl Iterator<Item = (usize, &'t [u8])> {
    let (values, least) = (&encoding.values, encoding.least);
    let is_letter =
        |byte: u8| values.get(usize::from(byte)).is_some_and(|value| *value != NO_LETTER);
    let mut at = 0_usize;
    std::iter::from_fn(move || {
        while let Some(rest) = text.get(at..).filter(|rest| rest.len() >= least) {
            let length = rest.iter().take_while(|byte| is_letter(**byte)).count();
            let start = at;
            at = at.saturating_add(length).saturating_add(1);
            if length >= least {
                return Some((start, rest.get(..length).unwrap_or_default()));
            }
        }
        None
    })
}

fn stretch(
    (encoding, starts): (&'static Encoding, Starts),
    (at, letters): (usize, &[u8]),
    buffer: &mut Vec<u8>,
    visit: &mut impl FnMut(&Decoded<'_>),
) -> bool {
    if letters.len() > LONG && (encoding.is_blob)(letters) {
        let prefix = letters.get(..LONG).unwrap_or_default();
        let mut places = (0..encoding.turns).filter_map(|skip| prefix.get(skip..));
        let mut reads = |prefix: &[u8]| {
            unpack(encoding, prefix, buffer);
            is_text(buffer)
        };
        if !places.any(&mut reads) {
            return true;
        }
    }
    let mut some_text = false;
    for skip in (0..encoding.turns).filter(|skip| starts.has(encoding.by(*skip))) {
        let rest = letters.get(skip..).unwrap_or_default();
        unpack(encoding, rest, buffer);
        let is_text = is_text(buffer);
        some_text |= is_text;
        let from = at.saturating_add(skip);
        visit(&Decoded { bytes: buffer, is_text, encoding, from });
    }
    !some_text && (encoding.is_blob)(letters)
}

/// Decodes into `bytes`, and replaces its old contents. The bits of the last letters that fill no byte
/// are dropped.
fn unpack(encoding: &Encoding, letters: &[u8], bytes: &mut Vec<u8>) {
    encoding.pack(letters, bytes);
    bytes.truncate(letters.len().saturating_mul(encoding.width) / 8);
}

/// Letters of so many bits; they and `BYTES` bytes align after `TURNS` of them.
fn unpack_groups<const WIDTH: usize, const TURNS: usize, const BYTES: usize>(
    encoding: &Encoding,
    letters: &[u8],
    bytes: &mut [u8],
) {
    let bits = |letters: &[u8]| {
        letters
            .iter()
            .fold(0_u64, |bits, letter| (bits << WIDTH) | u64::from(encoding.value(*letter)))
    };
    let put = |bits: u64, out: &mut [u8; BYTES]| {
        let decoded = bits.to_be_bytes().into_iter().skip(8_usize.saturating_sub(BYTES));
        out.iter_mut().zip(decoded).for_each(|(out, byte)| *out = byte);
    };
    let (groups, rest) = letters.as_chunks::<TURNS>();
    let (out, _) = bytes.as_chunks_mut::<BYTES>();
    let mut out = out.iter_mut();
    for (group, out) in groups.iter().zip(out.by_ref()) {
        put(bits(group), out);
    }
    let missing = TURNS.saturating_sub(rest.len()).saturating_mul(WIDTH);
    if let Some(out) = out.next().filter(|_| !rest.is_empty()) {
        put(bits(rest) << missing, out);
    }
}

/// These bytes, with the letters that encode each.
fn placed(encoding: &Encoding, reading: &Reading, bytes: &[u8], from: usize) -> Reading {
    let mut out = Reading::empty(bytes.len());
    let letter =
        |bit: usize| bit.checked_div(encoding.width).unwrap_or_default().saturating_add(from);
    for (number, byte) in bytes.iter().enumerate() {
        let bit = number.saturating_mul(8);
        let range = letter(bit)..letter(bit.saturating_add(7)).saturating_add(1);
        if let Some(source) = reading.source(&range) {
            out.push(char::from(*byte), source);
        }
    }
    out
}

/// Whether these bytes can be text: UTF-8, UTF-16 or an 8-bit set, without control characters for
/// terminals.
fn is_text(bytes: &[u8]) -> bool {
    let steers = |b: &u8| (*b < b' ' && !b"\t\n\r".contains(b)) || *b == 0x7f;
    // Most bytes that are no text have one of these near their beginning.
    if bytes.iter().any(|b| *b != 0 && steers(b)) {
        return false;
    }
    // In UTF-16, every other byte of a plain letter is zero.
    let zeros = bytes.iter().filter(|b| **b == 0).count();
    if zeros > 0 {
        return zeros.saturating_mul(5) >= bytes.len().saturating_mul(2);
    }
    let broken: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // Where it begins and ends a character may be cut.
    broken <= 6 || !bytes.iter().any(|b| (0x80..0xa0).contains(b))
}

fn base64(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter.saturating_sub(b'A'),
        b'a'..=b'z' => letter.saturating_sub(b'a').saturating_add(26),
        b'0'..=b'9' => letter.saturating_sub(b'0').saturating_add(52),
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _other => return None,
    })
}

fn base32(letter: u8) -> Option<u8> {
    Some(match letter.to_ascii_uppercase() {
        upper @ b'A'..=b'Z' => upper.saturating_sub(b'A'),
        digit @ b'2'..=b'7' => digit.saturating_sub(b'2').saturating_add(26),
        _other => return None,
    })
}

fn hex(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Letters of both cases and digits, and hardly a separator: a path or a name in a program looks
/// different.
fn is_base64(letters: &[u8]) -> bool {
    let share = |is: fn(&u8) -> bool| letters.iter().filter(|b| is(b)).count().saturating_mul(100);
    let of = |percent: usize| letters.len().saturating_mul(percent);
    letters.len() >= BASE64_BLOB
        && share(u8::is_ascii_uppercase) >= of(2)
        && share(u8::is_ascii_lowercase) >= of(2)
        && share(u8::is_ascii_digit) >= of(2)
        && share(|b| b"+/-_".contains(b)) <= of(8)
}

fn is_base32(letters: &[u8]) -> bool {
    let digits = letters.iter().filter(|b| b.is_ascii_digit()).count();
    letters.len() >= BASE32_BLOB
        && !letters.iter().any(u8::is_ascii_lowercase)
        && digits.saturating_mul(20) >= letters.len()
}

fn is_hex(letters: &[u8]) -> bool {
    letters.len() >= HEX_BLOB && letters.iter().any(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every bit of the letters, eight of them a byte.
    fn bit_by_bit(encoding: &Encoding, letters: &[u8]) -> Vec<u8> {
        let bits = letters.iter().flat_map(|letter| {
            let value = encoding.value(*letter);
            (0..encoding.width).rev().map(move |bit| (value >> bit) & 1)
        });
        let bits: Vec<u8> = bits.collect();
        bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |sum, bit| (sum << 1) | bit)).collect()
    }

    proptest! {
        #[test]
        fn letters_decode_to_their_bits(text in "[0-9A-Fa-f]{0,40}[0-9A-Za-z+/_-]{0,80}") {
            for encoding in ENCODINGS.iter() {
                let letters: Vec<u8> =
                    text.bytes().filter(|byte| encoding.is_letter(*byte)).collect();
                let mut bytes = vec![7];
                unpack(encoding, &letters, &mut bytes);
                prop_assert_eq!(bytes, bit_by_bit(encoding, &letters));
            }
        }
    }
}
