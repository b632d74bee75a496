//! The seed of a deterministic run, from which every minted value of the run derives.

use std::fmt;

use super::closed::textual;
use super::digest::Digest;

/// 64 bits that are drawn once for a run and shown to its agent. Not a secret: no security depends
/// on it, and everyone with the seed derives the same values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(u64);

impl Seed {
    /// The seed these random bytes are.
    pub const fn from_random(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }

    /// Reads 16 lowercase hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let fits = text.len() == 16 && text.bytes().all(plain);
        fits.then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }

    /// 16 bytes derived from this seed for this purpose and these parts; other seeds give other
    /// bytes.
    pub fn derive(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 16] {
        let of_parts: Vec<u8> =
            parts.iter().flat_map(|part| *Digest::of(&[part]).as_bytes()).collect();
        let pieces: [&[u8]; 5] =
            [b"wicketgate/seed/1\0", &self.0.to_be_bytes(), purpose.as_bytes(), &[0], &of_parts];
        let mut bytes = [0_u8; 16];
        for (to, from) in bytes.iter_mut().zip(Digest::of(&pieces).as_bytes()) {
            *to = *from;
        }
        bytes
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

textual!(Seed, "16 lowercase hex digits", "^[0-9a-f]{16}$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_spelling_and_gives_the_same_again() {
        let seed = Seed::from_random([0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(seed.to_string(), "0001020304050607");
        assert_eq!(Seed::parse(&seed.to_string()), Some(seed));
        for text in ["", "1", "000102030405060", "000102030405060A", "+001020304050607"] {
            assert_eq!(Seed::parse(text), None, "{text}");
        }
        let given = seed.derive("call", &[b"a", b"b"]);
        assert_eq!(seed.derive("call", &[b"a", b"b"]), given);
        assert_ne!(seed.derive("run", &[b"a", b"b"]), given);
        // The boundaries between parts count.
        assert_ne!(seed.derive("call", &[b"ab", b""]), given);
        assert_ne!(Seed::from_random([9; 8]).derive("call", &[b"a", b"b"]), given);
    }
}
