//! The texts of readings alone, and what a text must have for one of them to differ: most texts hold
//! nothing, and the places of each character cost more than the text.

use std::borrow::Cow;

use super::spelled::{OTHER, escape, first, printed};

/// Length from which a line counts as broken by a program.
const WRAPPED_MIN: usize = 56;
/// How many spaced letters in a row count as one word.
const APART_MIN: usize = 6;

/// The text of [`super::readings::Reading::of`].
pub fn folded_text(source: &str) -> Cow<'_, str> {
    if source.is_ascii() {
        return source.into();
    }
    let shown = |c: char| if c.is_ascii() { c } else { OTHER };
    source.chars().filter_map(folded).map(shown).collect()
}

/// The text of [`super::readings::Reading::unescaped`].
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

/// The text of [`super::readings::Reading::together`]: nothing if few letters are spaced apart.
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
pub(super) fn has_letters_apart(text: &[u8]) -> bool {
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

/// The text of [`super::readings::Reading::printable`].
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

/// The text of [`super::readings::Reading::squeezed`].
pub fn squeezed_text(text: &str) -> String {
    kept(text.bytes().map(|byte| (byte, byte > b' ')), text.len())
}

/// The text of [`super::readings::Reading::digits`].
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

/// The text of [`super::readings::Reading::numbers`].
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
pub(super) fn small_number(digits: &[u8]) -> Option<u8> {
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

/// Whether an invisible byte is there: then [`super::readings::Reading::plain`] differs.
#[must_use]
pub fn has_hidden(text: &str) -> bool {
    text.bytes().any(is_hidden)
}

pub(super) fn is_hidden(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Whether a line is there that a program broke: then [`super::readings::Reading::unwrapped`] differs.
#[must_use]
pub fn is_wrapped(text: &str) -> bool {
    text.contains('\n')
        && text.split_inclusive('\n').any(|line| line.ends_with('\n') && is_wrapped_line(line))
}

pub(super) fn is_wrapped_line(line: &str) -> bool {
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

/// The ASCII character that a person sees in a lookalike; `None` for an invisible one.
pub(super) fn folded(c: char) -> Option<char> {
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
