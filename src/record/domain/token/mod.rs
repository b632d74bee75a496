//! Tokens of this gate: how they are written, and what distinguishes them from other text.
//!
//! A token is recognisable by itself: a prefix, 256 random bits and a checksum of both, as in
//! `wgr_` + 43 + 6 letters and digits. So a gate also recognises tokens that another gate made, or
//! of which it keeps only a hash, anywhere in a call; a text that only looks like one is ordinary
//! text.

use crate::domain::closed::texts;
use crate::domain::crc32::crc32;

mod find;

pub use find::{WRITTEN_MAX, find, holds, may_begin, may_begin_reversed, stands_in, turned};

/// Characters of 256 bits in base62.
const BODY: usize = 43;
/// Characters of the checksum in base62.
const CHECK: usize = 6;
/// Characters of a prefix.
const PREFIX: usize = 4;
/// Characters of every token.
pub const CHARS: usize = PREFIX + BODY + CHECK;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

texts! {
    /// What a token lets its bearer do.
    pub enum Family {
        /// Go on with one run.
        Run = "run",
        /// Be one agent.
        Agent = "agent",
        /// Be one operator.
        Operator = "operator",
    }
}

impl Family {
    /// The prefix of every token of the family, by which scanners find a leaked one.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Run => "wgr_",
            Self::Agent => "wga_",
            Self::Operator => "wgo_",
        }
    }
}

/// The token of these random bits.
pub fn write(family: Family, bits: &[u8; 32]) -> String {
    let checked = format!("{}{}", family.prefix(), base62::<BODY>(bits));
    let check = checksum(&checked);
    checked + &check
}

/// Parses a text that consists of one token: prefix, length, alphabet and checksum.
pub fn parse(text: &str) -> Option<(Family, zeroize::Zeroizing<[u8; 32]>)> {
    let family = family(text).filter(|_| text.len() == CHARS)?;
    let (checked, check) = text.split_at_checked(PREFIX.saturating_add(BODY))?;
    if check != checksum(checked) {
        return None;
    }
    Some((family, zeroize::Zeroizing::new(bits(checked.get(PREFIX..)?)?)))
}

/// The family whose prefix this text has, whether or not it is a token.
pub fn family(text: &str) -> Option<Family> {
    Family::ALL.iter().copied().find(|family| text.starts_with(family.prefix()))
}

fn checksum(checked: &str) -> String {
    base62::<CHECK>(&crc32(checked.as_bytes()).to_be_bytes())
}

/// A big-endian number in base 62, with leading zeros.
fn base62<const N: usize>(bytes: &[u8]) -> String {
    let mut number = zeroize::Zeroizing::new(bytes.to_vec());
    let mut digits = [0_u8; N];
    for place in digits.iter_mut().rev() {
        let rest = number.iter_mut().fold(0_u16, |rest, byte| {
            let value = (rest << 8) | u16::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or_default();
            value % 62
        });
        *place = DIGITS.get(usize::from(rest)).copied().unwrap_or_default();
    }
    digits.into_iter().map(char::from).collect()
}

/// The 256 bits of a number in base 62; `None` if it has more, or another character.
fn bits(text: &str) -> Option<[u8; 32]> {
    let mut number = [0_u8; 32];
    for digit in text.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        let mut carry = u16::try_from(value).ok()?;
        for byte in number.iter_mut().rev() {
            let product = u16::from(*byte).saturating_mul(62).saturating_add(carry);
            let [high, low] = product.to_be_bytes();
            *byte = low;
            carry = u16::from(high);
        }
        if carry > 0 {
            return None;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_may_begin_where_its_prefix_stands_until_it_is_whole() {
        for family in Family::ALL {
            let token = write(*family, &[7; 32]);
            let text = format!("see {token}");
            for end in 0..=text.len() {
                let is_begun = (8..text.len()).contains(&end);
                assert_eq!(may_begin(text.split_at(end).0), is_begun, "{end}");
            }
            assert!(!may_begin(&format!("{} ", family.prefix())));
            let reversed: String = token.chars().rev().collect();
            for end in 0..CHARS {
                assert_eq!(may_begin_reversed(reversed.split_at(end).0), end >= 16, "{end}");
            }
            let numbers: String = token.bytes().map(|byte| format!("{byte},")).collect();
            for (written, front) in [(hex::encode(&token), 8), (numbers, 15)] {
                for end in front..CHARS * 2 {
                    let (begun, _) = written.split_at(end);
                    assert!(may_begin(begun), "{begun}");
                    assert!(!may_begin(&format!("{begun} ")), "{begun}");
                }
            }
        }
        assert!(!may_begin("as she said") && !may_begin_reversed("she said a word"));
    }

    #[test]
    fn the_smallest_and_the_greatest_are_tokens() {
        let least = write(Family::Run, &[0; 32]);
        assert_eq!(least.get(..47), Some(format!("wgr_{}", "0".repeat(43)).as_str()));
        for bits in [[0; 32], [255; 32]] {
            let text = write(Family::Agent, &bits);
            assert_eq!(text.len(), CHARS);
            assert_eq!(*parse(&text).unwrap().1, bits);
        }
        // 62^43 is a little more than 2^256: numbers above 2^256 have no token.
        let above = format!("wgr_{}", "z".repeat(43));
        assert_eq!(parse(&format!("{above}{}", checksum(&above))), None);
    }

    proptest! {
        #[test]
        fn a_token_is_read_back_and_no_neighbour_of_it_is_one(
            bits: [u8; 32],
            family in prop::sample::select(Family::ALL),
            at in 0..CHARS,
            other in prop::sample::select(&DIGITS[..]),
        ) {
            let token = write(family, &bits);
            prop_assert_eq!(parse(&token).map(|(family, bits)| (family, *bits)), Some((family, bits)));
            let mut near = token.clone().into_bytes();
            near[at] = other;
            let near = String::from_utf8(near).unwrap();
            // A checksum of 32 bits finds every change of one character.
            prop_assert_eq!(parse(&near).is_some(), near == token);
            let cut = parse(token.get(..at).unwrap());
            prop_assert!(cut.is_none());
            for longer in [format!("{token}0"), format!(" {token}"), token.to_ascii_lowercase() + "\n"] {
                prop_assert!(parse(&longer).is_none());
            }
        }
    }
}
