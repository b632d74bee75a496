//! A shape: how a vendor writes a credential, as data. One walk reads them all.
//!
//! A shape has a prefix that stands for the vendor, and behind it runs of letters and fixed text. No
//! checksum of a vendor is asked for: forks and older keys carry none.

/// The bytes of ASCII that may stand in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Alphabet(u128);

impl Alphabet {
    pub const fn of(text: &str) -> Self {
        let (mut set, mut rest) = (0_u128, text.as_bytes());
        while let [byte, after @ ..] = rest {
            set |= 1_u128 << (*byte & 0x7f);
            rest = after;
        }
        Self(set)
    }

    pub const fn and(self, text: &str) -> Self {
        Self(self.0 | Self::of(text).0)
    }

    /// Whether a byte is one of them.
    pub const fn has(self, byte: u8) -> bool {
        byte < 0x80 && (self.0 >> (byte & 0x7f)) & 1 == 1
    }

    /// How many of them there are.
    pub const fn size(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether it has letters of both cases.
    const fn is_mixed(self) -> bool {
        self.has(b'k') && self.has(b'K')
    }
}

pub(super) const DIGIT: Alphabet = Alphabet::of("0123456789");
/// Hexadecimal digits in lower case.
pub(super) const HEX: Alphabet = DIGIT.and("abcdef");
pub(super) const HEX_ANY: Alphabet = HEX.and("ABCDEF");
/// Lower case and digits.
pub(super) const LOWER: Alphabet = DIGIT.and("abcdefghijklmnopqrstuvwxyz");
/// Upper case and digits.
pub(super) const UPPER: Alphabet = DIGIT.and("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
pub(super) const BASE32: Alphabet = Alphabet::of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
pub(super) const BASE32_LOWER: Alphabet = Alphabet::of("abcdefghijklmnopqrstuvwxyz234567");
pub(super) const BECH32: Alphabet = Alphabet::of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L");
pub(super) const ALNUM: Alphabet = LOWER.and("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
pub(super) const WORD: Alphabet = ALNUM.and("_");
/// Base64 for URLs.
pub(super) const URL: Alphabet = WORD.and("-");
pub(super) const URL_PADDED: Alphabet = URL.and("=");
pub(super) const DOTTED: Alphabet = URL.and(".");
pub(super) const BASE64: Alphabet = ALNUM.and("+/");
pub(super) const BASE64_PADDED: Alphabet = BASE64.and("=");
/// What may stand in a token of any vendor.
pub(super) const TOKEN: Alphabet = URL.and("+/.=~");

/// A piece of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// From so many to so many bytes of an alphabet.
    Run(Alphabet, usize, usize),
    /// This text.
    Is(&'static str),
}

/// How much a shape that fits says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    /// It is a key.
    Live,
    /// It is a key of a test account.
    Test,
    /// It is an address that admits every caller; words in it are no placeholder.
    Address,
}

/// How one sort of key of a vendor is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeyShape {
    /// What it begins with, or what stands in it behind `lead`.
    pub prefixes: &'static [&'static str],
    /// What stands before the prefix: an alphabet, and from so many to so many bytes.
    pub lead: Option<(Alphabet, usize, usize)>,
    /// What follows.
    pub parts: &'static [Part],
    /// What it is.
    pub sort: Sort,
    /// How many different bytes a body has, if neither words nor examples are told apart by their look.
    pub distinct_min: Option<usize>,
    /// What may stand before it, and behind it.
    pub edges: (Edge, Edge),
}

/// What may stand beside a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// Nothing that belongs to a word.
    Word,
    /// Anything.
    Any,
}

impl KeyShape {
    /// Edges of every shape of ours.
    pub const WORDS: (Edge, Edge) = (Edge::Word, Edge::Word);
}

/// The keys of one vendor: one kind of finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Vendor {
    /// The kind.
    pub kind: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Its shapes.
    pub shapes: &'static [KeyShape],
}

/// A key without a prefix of its own, that a name beside it makes one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Keyed {
    /// The kind.
    pub kind: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What the name has in it, in lower case, one of.
    pub names: &'static [&'static str],
    /// How the value is written, one of.
    pub bodies: &'static [&'static [Part]],
}

pub(super) const UUID: &[Part] = &[
    Part::Run(HEX_ANY, 8, 8),
    Part::Is("-"),
    Part::Run(HEX_ANY, 4, 4),
    Part::Is("-"),
    Part::Run(HEX_ANY, 4, 4),
    Part::Is("-"),
    Part::Run(HEX_ANY, 4, 4),
    Part::Is("-"),
    Part::Run(HEX_ANY, 12, 12),
];

/// A shape: prefixes, what stands before one, what follows, what it is.
macro_rules! shape {
    ([$($prefix:literal),+ $(,)?], $alphabet:expr, $min:literal ..= $max:literal) => {
        $crate::firewall::shape::KeyShape {
            prefixes: &[$($prefix),+],
            lead: None,
            parts: &[$crate::firewall::shape::Part::Run($alphabet, $min, $max)],
            sort: $crate::firewall::shape::Sort::Live,
            distinct_min: None,
            edges: $crate::firewall::shape::KeyShape::WORDS,
        }
    };
    ([$($prefix:literal),+ $(,)?], $parts:expr) => {
        $crate::firewall::shape::KeyShape {
            prefixes: &[$($prefix),+],
            lead: None,
            parts: $parts,
            sort: $crate::firewall::shape::Sort::Live,
            distinct_min: None,
            edges: $crate::firewall::shape::KeyShape::WORDS,
        }
    };
    ($sort:ident [$($prefix:literal),+ $(,)?], $parts:expr) => {
        $crate::firewall::shape::KeyShape {
            prefixes: &[$($prefix),+],
            lead: None,
            parts: $parts,
            sort: $crate::firewall::shape::Sort::$sort,
            distinct_min: None,
            edges: $crate::firewall::shape::KeyShape::WORDS,
        }
    };
    ($lead:expr, [$($prefix:literal),+ $(,)?], $parts:expr) => {
        $crate::firewall::shape::KeyShape {
            prefixes: &[$($prefix),+],
            lead: Some($lead),
            parts: $parts,
            sort: $crate::firewall::shape::Sort::Live,
            distinct_min: None,
            edges: $crate::firewall::shape::KeyShape::WORDS,
        }
    };
}
pub(super) use shape;

/// Bytes of a body that are looked at for whether chance made them.
const LOOKED_AT: usize = 96;

/// Bytes of the shortest body.
pub(super) fn least(parts: &[Part]) -> usize {
    let length = |part: &Part| match part {
        Part::Is(literal) => literal.len(),
        Part::Run(_, min, _) => *min,
    };
    parts.iter().map(length).sum()
}

/// What a body tells by its bytes alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// Chance made it.
    Random,
    /// A person made it up, as an example.
    Example,
    /// It is a name or a placeholder.
    Words,
}

/// Words that stand in example keys.
const EXAMPLES: [&[u8]; 9] = [
    b"example",
    b"sample",
    b"dummy",
    b"placeholder",
    b"redacted",
    b"changeme",
    b"yourkey",
    b"your_",
    b"xxxxx",
];

/// What the bytes of a body tell. `alphabet`: that of its longest run.
pub(super) fn look(body: &[u8], alphabet: Alphabet) -> Look {
    let body = body.get(..LOOKED_AT).unwrap_or(body);
    let mut seen = 0_u128;
    let (mut digits, mut capitals, mut small) = (0_usize, 0_usize, 0_usize);
    let (mut climb, mut climbs) = (0_usize, 0_usize);
    let mut last = 0_u8;
    for byte in body {
        seen |= 1_u128 << (byte & 0x7f);
        digits += usize::from(byte.is_ascii_digit());
        capitals += usize::from(byte.is_ascii_uppercase());
        small += usize::from(byte.is_ascii_lowercase());
        climb = if *byte == last.wrapping_add(1) { climb + 1 } else { 0 };
        climbs = climbs.max(climb);
        last = *byte;
    }
    let distinct = usize::try_from(seen.count_ones()).unwrap_or_default();
    if distinct == 1 {
        // `ghp_000…` is an example; `sk-xxx…` and `***` are placeholders.
        return if b"xX*.-_#".contains(&last) { Look::Words } else { Look::Example };
    }
    if distinct < distinct_min(body.len(), alphabet) {
        return Look::Words;
    }
    let enough = if alphabet.is_mixed() {
        digits + capitals >= 4.min(body.len() / 4) && (digits > 0 || capitals > 2 && small > 2)
    } else if alphabet == HEX || alphabet == HEX_ANY {
        digits >= 3.min(body.len() / 4)
    } else if alphabet.has(b'k') {
        digits
            >= match body.len() {
                0..24 => 1,
                24..32 => 2,
                _ => 3,
            }
    } else {
        true
    };
    if !enough {
        return Look::Words;
    }
    let folded = body.to_ascii_lowercase();
    let is_example = |word: &&[u8]| folded.windows(word.len()).any(|part| part == *word);
    if climbs >= 7 || EXAMPLES.iter().any(is_example) {
        return Look::Example;
    }
    Look::Random
}

/// How many different bytes a body has.
pub(super) fn distinct(body: &[u8]) -> usize {
    let seen = body.iter().fold(0_u128, |seen, byte| seen | 1_u128 << (byte & 0x7f));
    usize::try_from(seen.count_ones()).unwrap_or_default()
}

/// How many different bytes a body of this length has at least, if chance made it.
fn distinct_min(length: usize, alphabet: Alphabet) -> usize {
    let most = match length {
        0..12 => 4,
        12..16 => 5,
        16..24 => 7,
        24..32 => 8,
        _ => 9,
    };
    // Ten digits, or sixteen, cannot differ as often.
    match alphabet.size() {
        0..=10 => most.min(4),
        11..=22 => most.min(7),
        _ => most,
    }
}

/// The alphabet of the longest run of these parts.
pub(super) fn widest(parts: &[Part]) -> Alphabet {
    let runs = parts.iter().filter_map(|part| match part {
        Part::Run(alphabet, min, _) => Some((*min, *alphabet)),
        Part::Is(_) => None,
    });
    runs.max_by_key(|(min, _)| *min).map_or(ALNUM, |(_, alphabet)| alphabet)
}
