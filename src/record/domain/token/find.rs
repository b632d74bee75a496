//! Finds tokens in a text, in each encoding that can be decoded without knowing the token.

use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use regex::Regex;

use super::{CHARS, DIGITS, Family, PREFIX, parse};
use crate::domain::json::Json;
use crate::domain::readings::readings;

/// The encoding of a token, recognised by its prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Writing {
    /// Plain.
    Plain,
    /// In reverse order.
    Backwards,
    /// Letters shifted by thirteen places (ROT13).
    Turned,
    /// Two hexadecimal digits each.
    Hex,
    /// A decimal number each, with commas between.
    Numbers,
    /// Digits of this many bits (base64, base32), with the token `shift` bytes after the beginning
    /// of a group. `known`: the digits before the first that depends on the token alone.
    Digits { bits: u32, shift: usize, known: Vec<u8> },
}

/// Every possible beginning of an encoded token, with its encoding (for a reversed token, the end).
struct Fronts {
    all: Vec<(String, Writing)>,
    /// All of them in one pass.
    any: Option<Regex>,
}

/// Bytes of a token in the longest of these encodings: numbers.
pub const WRITTEN_MAX: usize = CHARS * 4;

static FRONTS: LazyLock<Fronts> = LazyLock::new(|| {
    let all: Vec<_> = Family::ALL.iter().flat_map(|family| fronts(family.prefix())).collect();
    let mut patterns: Vec<String> = all.iter().map(|(front, _)| regex::escape(front)).collect();
    patterns.sort();
    patterns.dedup();
    // INVARIANT: escaped literals form a valid pattern. Otherwise each is searched by itself.
    let any = Regex::new(&patterns.join("|")).ok();
    Fronts { all, any }
});

fn fronts(prefix: &str) -> Vec<(String, Writing)> {
    let numbers: String = prefix.bytes().map(|byte| format!("{byte},")).collect();
    let mut all = vec![
        (prefix.to_owned(), Writing::Plain),
        (prefix.chars().rev().collect(), Writing::Backwards),
        (prefix.chars().map(turned).collect(), Writing::Turned),
        (hex::encode(prefix), Writing::Hex),
        (hex::encode_upper(prefix), Writing::Hex),
        (numbers, Writing::Numbers),
    ];
    for (bits, shifts) in [(6, 0..3_usize), (5, 0..5)] {
        for shift in shifts {
            let digits = digits(prefix, bits, shift);
            let first = div_ceil(shift.saturating_mul(8), bits);
            let known = digits.get(..first).unwrap_or_default().to_vec();
            let core = digits.get(first..).unwrap_or_default();
            for alphabet in alphabets(bits) {
                let letter = |digit: &u8| alphabet.get(usize::from(*digit)).copied();
                let front = core.iter().filter_map(letter).map(char::from).collect();
                let known = known.clone();
                all.push((front, Writing::Digits { bits, shift, known }));
            }
        }
    }
    all
}

/// The complete digits of a text that stands `shift` bytes after the beginning of a group filled
/// with zeros.
fn digits(text: &str, bits: u32, shift: usize) -> Vec<u8> {
    let all = std::iter::repeat_n(0, shift).chain(text.bytes());
    let all: Vec<u8> =
        all.flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1)).collect();
    let width = usize::try_from(bits).unwrap_or(8);
    all.chunks_exact(width).map(|bits| bits.iter().fold(0, |sum, bit| (sum << 1) | bit)).collect()
}

fn alphabets(bits: u32) -> [&'static [u8]; 2] {
    match bits {
        6 => [
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
        ],
        _five => [b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"abcdefghijklmnopqrstuvwxyz234567"],
    }
}

fn div_ceil(bits: usize, width: u32) -> usize {
    usize::try_from(width).map_or(bits, |width| bits.div_ceil(width.max(1)))
}

/// Letters shifted by thirteen places, everything else unchanged.
pub fn turned(c: char) -> char {
    let rotate = |first: u8| {
        u8::try_from(c).ok().map(|byte| {
            let offset = byte.saturating_sub(first).saturating_add(13).checked_rem(26);
            char::from(first.saturating_add(offset.unwrap_or_default()))
        })
    };
    match c {
        'a'..='z' => rotate(b'a').unwrap_or(c),
        'A'..='Z' => rotate(b'A').unwrap_or(c),
        _other => c,
    }
}

/// The places of tokens in this text, in any of the encodings.
pub fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if text.len() < CHARS {
        return found;
    }
    let Fronts { all, any } = &*FRONTS;
    let mut from = 0_usize;
    while let Some(at) = next(any.as_ref(), text, from) {
        let rest = text.get(at..).unwrap_or_default();
        let here = all.iter().filter(|(front, _)| rest.starts_with(front.as_str()));
        found.extend(
            here.filter_map(|(_, writing)| writing.token(text, at)).max_by_key(|span| span.end),
        );
        // Fronts are ASCII, so the byte after the first byte of one begins a character.
        from = at.saturating_add(1);
    }
    found
}

fn next(any: Option<&Regex>, text: &str, from: usize) -> Option<usize> {
    match any {
        Some(any) => any.find_at(text, from).map(|front| front.start()),
        None => (from..text.len()).find(|at| text.is_char_boundary(*at)),
    }
}

/// How many letters and digits at the end of a text may be the end of a token in reverse order. WHY not
/// any number: a text without gaps would never leave.
const REVERSED: RangeInclusive<usize> = 16..=CHARS * 4;

/// Whether a text ends with what may be a token in reverse order, whose prefix comes last.
#[must_use]
pub fn may_begin_reversed(text: &str) -> bool {
    // Of the prefix, the part that is no letter comes first.
    let text =
        text.rsplit_once('_').filter(|(_, end)| end.len() < PREFIX).map_or(text, |cut| cut.0);
    let digits = text.bytes().rev().take_while(|byte| DIGITS.contains(byte)).count();
    REVERSED.contains(&digits)
}

/// Whether a text ends with the beginning of a token, in any of the other encodings: its prefix, and
/// fewer characters than a token has.
#[must_use]
pub fn may_begin(text: &str) -> bool {
    let Fronts { all, any } = &*FRONTS;
    let mut from = floor(text, text.len().saturating_sub(WRITTEN_MAX));
    while let Some(at) = next(any.as_ref(), text, from) {
        let rest = text.get(at..).unwrap_or_default();
        let mut here = all.iter().filter(|(front, _)| rest.starts_with(front.as_str()));
        if here.any(|(_, writing)| writing.goes_on(rest)) {
            return true;
        }
        from = at.saturating_add(1);
    }
    false
}

/// The character boundary at or before this place.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
}

/// Whether this text holds a token, directly or after decoding by a later reader.
#[must_use]
pub fn holds(text: &str) -> bool {
    if text.len() < CHARS {
        return false;
    }
    let mut held = !find(text).is_empty();
    if !held {
        readings(text, |reading| held = held || !find(reading.text).is_empty());
    }
    held
}

/// Whether a value holds a token: in one of its texts or names, or in its canonical form (numbers
/// in a row).
#[must_use]
pub fn stands_in(value: &Json, canonical: &[u8]) -> bool {
    canonical.len() >= CHARS
        && (std::str::from_utf8(canonical).is_ok_and(holds) || in_a_text(value))
}

fn in_a_text(value: &Json) -> bool {
    match value {
        Json::String(text) => holds(text),
        Json::Array(items) => items.iter().any(in_a_text),
        Json::Object(members) => {
            members.iter().any(|(name, member)| holds(name) || in_a_text(member))
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => false,
    }
}

impl Writing {
    /// Whether a text that begins with the front of this encoding is a token so far, and not all of it.
    fn goes_on(&self, text: &str) -> bool {
        let is_digit = |byte: u8| DIGITS.contains(&byte);
        let after = text.bytes().skip(PREFIX);
        match self {
            Self::Plain => text.len() < CHARS && after.clone().all(is_digit),
            Self::Turned => {
                let all = text.len() < CHARS && text.is_ascii();
                all && text.chars().skip(PREFIX).all(|c| c.is_ascii_alphanumeric())
            }
            Self::Backwards => false,
            Self::Hex => text.len() < CHARS * 2 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Numbers => {
                let is_number = |byte: u8| byte.is_ascii_digit() || byte == b',';
                text.split(',').count() <= CHARS && text.bytes().all(is_number)
            }
            Self::Digits { bits, shift, known } => {
                let all = div_ceil(shift.saturating_add(CHARS).saturating_mul(8), *bits);
                let alphabets = alphabets(*bits);
                let is_letter = |b: u8| alphabets.iter().any(|letters| letters.contains(&b));
                text.len() < all.saturating_sub(known.len()) && text.bytes().all(is_letter)
            }
        }
    }

    /// The token of this encoding whose front is at `at`, and its place.
    fn token(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let after = |length: usize| at..at.saturating_add(length);
        let (written, span) = match self {
            Self::Plain => (text.get(after(CHARS))?.to_owned(), after(CHARS)),
            Self::Turned => (text.get(after(CHARS))?.chars().map(turned).collect(), after(CHARS)),
            Self::Backwards => {
                let end = at.saturating_add(PREFIX);
                let span = end.checked_sub(CHARS)?..end;
                (text.get(span.clone())?.chars().rev().collect(), span)
            }
            Self::Hex => {
                let span = after(CHARS.saturating_mul(2));
                (String::from_utf8(hex::decode(text.get(span.clone())?).ok()?).ok()?, span)
            }
            Self::Numbers => {
                let (written, length) = numbers(text.get(at..)?)?;
                (written, after(length))
            }
            Self::Digits { bits, shift, known } => {
                let (written, length) = undone(text.get(at..)?, *bits, *shift, known)?;
                (written, after(length))
            }
        };
        parse(&written).map(|_| span)
    }
}

/// As many characters as a token has, each a decimal number, and their length.
fn numbers(text: &str) -> Option<(String, usize)> {
    let (mut written, mut length) = (String::new(), 0_usize);
    for (i, number) in text.splitn(CHARS.saturating_add(1), ',').take(CHARS).enumerate() {
        // Text behind the last one does not belong to it.
        let number = match i.saturating_add(1) == CHARS {
            true => number.get(..number.bytes().take_while(u8::is_ascii_digit).count())?,
            false => number,
        };
        written.push(char::from(number.parse::<u8>().ok()?));
        length = length.saturating_add(number.len()).saturating_add(usize::from(i > 0));
    }
    Some((written, length))
}

/// As many characters as a token has, from digits of this many bits, and the number of digits.
fn undone(text: &str, bits: u32, shift: usize, known: &[u8]) -> Option<(String, usize)> {
    let all = div_ceil(shift.saturating_add(CHARS).saturating_mul(8), bits);
    let length = all.checked_sub(known.len())?;
    let value = |letter: u8| {
        let places = alphabets(bits);
        let digit = places.iter().find_map(|letters| letters.iter().position(|l| *l == letter))?;
        u8::try_from(digit).ok()
    };
    let (mut bytes, mut rest, mut held) = (Vec::new(), 0_u32, 0_u32);
    let written = text.get(..length)?.bytes().map(value);
    for digit in known.iter().copied().map(Some).chain(written) {
        rest = (rest << bits) | u32::from(digit?);
        held = held.saturating_add(bits);
        if held >= 8 {
            held = held.saturating_sub(8);
            bytes.push(u8::try_from((rest >> held) & 0xff).ok()?);
            rest &= (1_u32 << held).saturating_sub(1);
        }
    }
    let token = bytes.get(shift..shift.saturating_add(CHARS))?.to_vec();
    Some((String::from_utf8(token).ok()?, length))
}

#[cfg(test)]
mod tests {
    use super::super::{PREFIX, write};
    use super::*;
    use crate::domain::canonical;

    fn token() -> String {
        write(Family::Run, &std::array::from_fn(|i| u8::try_from(i * 7).unwrap()))
    }

    #[test]
    fn every_run_token_in_a_text_is_found_at_its_position() {
        let token = token();
        let text = format!("é{token}-{token}{}", token.chars().rev().collect::<String>());
        assert_eq!(find(&text), [2..55, 56..109, 109..162]);
        assert!(
            holds(&text)
                && !holds(token.get(1..).unwrap())
                && !holds(token.get(..CHARS - 1).unwrap())
        );
        let broken = format!("wgr_{}", token.get(..CHARS - PREFIX).unwrap());
        assert!(find(&broken).is_empty());
    }

    #[test]
    fn numbers_in_a_row_and_names_are_looked_at() {
        let token = token();
        let numbers: Vec<Json> = token.bytes().map(|byte| Json::from(u64::from(byte))).collect();
        let list = Json::object([("a", Json::Array(numbers.clone()))]);
        let name = Json::object([(token.as_str(), Json::Null)]);
        let short = Json::object([("a", Json::Array(numbers[1..].to_vec()))]);
        let seen = [list, name, short].map(|json| stands_in(&json, &canonical::bytes(&json)));
        assert_eq!(seen, [true, true, false]);
    }
}
