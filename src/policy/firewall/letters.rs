//! Bytes that are written as letters: base64, base32, hexadecimal digits, and what is packed in them.

use std::sync::LazyLock;

/// Bytes to which something packed is unpacked.
const UNPACKED_MAX: usize = 64 * 1024;

/// One way to write bytes as letters.
pub(super) struct Letters {
    /// The bits of each letter, [`NO_LETTER`] for every other byte.
    pub values: LazyLock<[u8; 256]>,
    /// How many they are.
    pub width: u32,
    /// The letters after which bits and bytes align again.
    pub turns: usize,
    /// Whether letters that decode to no text are encoded bytes and not plain text.
    pub is_blob: fn(&[u8]) -> bool,
}

/// Base64, and base64 of URLs.
pub(super) static BASE64_LETTERS: Letters =
    Letters { values: LazyLock::new(|| table(base64)), width: 6, turns: 4, is_blob: is_base64 };
/// Base32.
pub(super) static BASE32_LETTERS: Letters =
    Letters { values: LazyLock::new(|| table(base32)), width: 5, turns: 8, is_blob: is_base32 };
/// Hexadecimal digits.
pub(super) static HEX_LETTERS: Letters =
    Letters { values: LazyLock::new(|| table(hex)), width: 4, turns: 2, is_blob: is_hex };

/// The bits of letters in a row; what no letter stands for ends them.
pub(super) fn unpack(letters: &[u8], alphabet: &Letters, bytes: &mut Vec<u8>) {
    bytes.clear();
    let values = &*alphabet.values;
    let (mut bits, mut count) = (0_u32, 0_u32);
    for letter in letters {
        let value = values.get(usize::from(*letter)).copied().unwrap_or(NO_LETTER);
        if value == NO_LETTER {
            return;
        }
        bits = (bits << alphabet.width) | u32::from(value);
        count += alphabet.width;
        if count >= 8 {
            count -= 8;
            let [_, _, _, byte] = (bits >> count).to_be_bytes();
            bytes.push(byte);
        }
    }
}

/// What stands in a table for a byte that is no letter.
const NO_LETTER: u8 = u8::MAX;

fn table(value: fn(u8) -> Option<u8>) -> [u8; 256] {
    let of = |byte| u8::try_from(byte).ok().and_then(value).unwrap_or(NO_LETTER);
    std::array::from_fn(of)
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
pub(super) fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
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
/// Letters of a stretch that is bytes; a digest of 64 bytes has less.
const BASE64_BLOB: usize = 96;
const BASE32_BLOB: usize = 112;
const HEX_BLOB: usize = 136;
/// Whether these bytes can be text: UTF-8, UTF-16 or an 8-bit set, without control characters for
/// terminals.
pub(super) fn is_text(bytes: &[u8]) -> bool {
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
