//! What is looked for in a text, all at once: the first three bytes of every prefix and of every word
//! are asked for at each place, and only where they stand is more compared.

use std::sync::LazyLock;

use super::own::{self, LeakRule};
use super::shape::{KeyShape, Keyed, Vendor};
use super::{shapes, steering};

/// What follows from a prefix or a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The body of a vendor's shape.
    Shape(&'static Vendor, &'static KeyShape),
    /// The value beside the name of a vendor.
    Keyed(&'static Keyed),
    /// What an expression of the operator's finds.
    Leak(&'static LeakRule),
    /// Something with rules of its own.
    Special(Special),
}

/// What has rules of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    /// A private key between two lines.
    Pem,
    /// A private key of PuTTY.
    Putty,
    /// A signed token.
    Jwt,
    /// The password in a URL.
    Url,
    /// The value of a header.
    Authorization,
    /// The value behind the name of a scheme.
    Bearer,
    /// The signature of an address.
    Signature,
    /// The value of something that is named like a secret.
    Assigned,
    /// An address of Bitcoin.
    Bech32,
    /// A mark of a conversation.
    Markup,
    /// What pretends to come from the machinery around a model.
    Forged,
    /// An order to a model.
    Phrase,
    /// What no page shows.
    Hidden,
}

/// Words and what follows from them, in lower case; case does not count.
const SPECIALS: [(&str, Special); 30] = [
    ("-----begin", Special::Pem),
    ("putty-user-key-file-", Special::Putty),
    ("eyj", Special::Jwt),
    ("://", Special::Url),
    ("authorization", Special::Authorization),
    ("bearer ", Special::Bearer),
    ("sig=", Special::Signature),
    ("bc1", Special::Bech32),
    ("password", Special::Assigned),
    ("passwd", Special::Assigned),
    ("passwort", Special::Assigned),
    ("passphrase", Special::Assigned),
    ("contrasena", Special::Assigned),
    ("mot_de_passe", Special::Assigned),
    ("pwd", Special::Assigned),
    ("secret", Special::Assigned),
    ("token", Special::Assigned),
    ("api_key", Special::Assigned),
    ("apikey", Special::Assigned),
    ("api-key", Special::Assigned),
    ("api key", Special::Assigned),
    ("access_key", Special::Assigned),
    ("accesskey", Special::Assigned),
    ("access-key", Special::Assigned),
    ("private_key", Special::Assigned),
    ("privatekey", Special::Assigned),
    ("credential", Special::Assigned),
    ("auth_key", Special::Assigned),
    ("signing_key", Special::Assigned),
    ("encryption_key", Special::Assigned),
];

/// One prefix or word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Its bytes; in lower case if case does not count.
    pub text: &'static str,
    folds: bool,
    /// What follows from it.
    pub what: What,
}

impl Pattern {
    fn key(&self) -> u32 {
        self.text.bytes().take(WIDTH).fold(0, pushed)
    }

    /// How much of a text that begins with it is it.
    pub fn begins(&self, text: &[u8]) -> Option<usize> {
        if matches!(self.what, What::Special(Special::Phrase)) {
            return steering::phrase(text, self.text);
        }
        let front = text.get(..self.text.len())?;
        let is_same = if self.folds {
            front.eq_ignore_ascii_case(self.text.as_bytes())
        } else {
            front == self.text.as_bytes()
        };
        is_same.then_some(front.len())
    }
}

/// Bytes that are asked for at each place.
pub(super) const WIDTH: usize = 3;

/// The newest three bytes, whatever their case.
pub(super) fn pushed(key: u32, byte: u8) -> u32 {
    ((key << 8) | u32::from(byte.to_ascii_lowercase())) & 0x00ff_ffff
}

/// Every prefix and word, by their first bytes.
#[derive(Debug)]
pub(super) struct Patterns {
    /// A bit for each slot in which patterns are.
    sieve: Box<[u64; 1024]>,
    /// For each word of the sieve, how many bits the words before it have.
    before: Box<[u32; 1024]>,
    /// Where the patterns of each slot begin, in the order of the slots that have some; and their end.
    starts: Vec<usize>,
    /// In the order of their slots.
    all: Vec<(u32, Pattern)>,
}

/// The one set of them.
pub(super) static PATTERNS: LazyLock<Patterns> = LazyLock::new(Patterns::new);

impl Patterns {
    fn new() -> Self {
        let of = |text, folds, what| Pattern { text, folds, what };
        let own = own::in_force();
        let vendors = shapes::vendors()
            .chain(&own.vendors)
            .flat_map(|vendor| vendor.shapes.iter().map(move |shape| (vendor, shape)));
        let shapes = vendors.flat_map(|(vendor, shape)| {
            shape.prefixes.iter().map(move |text| of(text, false, What::Shape(vendor, shape)))
        });
        let keyed = shapes::keyed().iter().flat_map(|keyed| {
            keyed.names.iter().map(move |text| of(text, true, What::Keyed(keyed)))
        });
        let steering = [
            (&steering::MARKUP[..], Special::Markup),
            (&steering::FORGED, Special::Forged),
            (&steering::PHRASES, Special::Phrase),
            (&steering::HIDDEN, Special::Hidden),
        ];
        let steering = steering
            .into_iter()
            .flat_map(|(texts, special)| texts.iter().map(move |text| (*text, special)));
        let leaks = own.leaks.iter().flat_map(|rule| {
            rule.keywords.iter().map(move |word| of(word.as_str(), true, What::Leak(rule)))
        });
        let specials = SPECIALS.into_iter().chain(steering);
        let specials = specials.map(|(text, special)| of(text, true, What::Special(special)));
        let all = shapes.chain(keyed).chain(leaks).chain(specials);
        let mut all: Vec<(u32, Pattern)> = all.map(|pattern| (pattern.key(), pattern)).collect();
        all.sort_by_key(|(key, pattern)| (place(*key), *key, pattern.text));
        let mut sieve = Box::new([0_u64; 1024]);
        let (mut starts, mut last) = (Vec::new(), None);
        for (index, (key, _)) in all.iter().enumerate() {
            let (word, bit) = place(*key);
            if let Some(word) = sieve.get_mut(word) {
                *word |= 1 << bit;
            }
            if last.replace((word, bit)) != Some((word, bit)) {
                starts.push(index);
            }
        }
        starts.push(all.len());
        let (mut before, mut count) = (Box::new([0; 1024]), 0);
        for (word, before) in sieve.iter().zip(before.iter_mut()) {
            *before = count;
            count += word.count_ones();
        }
        Self { sieve, before, starts, all }
    }

    /// Whether a pattern may begin with these bytes.
    pub fn may_begin(&self, key: u32) -> bool {
        let (word, bit) = place(key);
        self.sieve.get(word).is_some_and(|word| (word >> bit) & 1 == 1)
    }

    /// Those that begin with these bytes.
    pub fn beginning(&self, key: u32) -> impl Iterator<Item = &Pattern> {
        let here = self.slot(key).unwrap_or_default().iter();
        here.filter(move |(other, _)| *other == key).map(|(_, pattern)| pattern)
    }

    /// The patterns in the slot of these bytes.
    fn slot(&self, key: u32) -> Option<&[(u32, Pattern)]> {
        let (word, bit) = place(key);
        let smaller = self.sieve.get(word)? & ((1 << bit) - 1);
        let slot = usize::try_from(self.before.get(word)? + smaller.count_ones()).ok()?;
        self.all.get(*self.starts.get(slot)?..*self.starts.get(slot + 1)?)
    }

    /// Every one of them.
    #[cfg(test)]
    pub fn each(&self) -> impl Iterator<Item = &Pattern> {
        self.all.iter().map(|(_, pattern)| pattern)
    }
}

/// Where the sieve has a bit for these bytes.
fn place(key: u32) -> (usize, u32) {
    let mixed = key.wrapping_mul(0x9e37_79b1) >> 16;
    (usize::try_from(mixed >> 6).unwrap_or_default(), mixed & 63)
}
