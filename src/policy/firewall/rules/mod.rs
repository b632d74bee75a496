//! The shapes and checksums themselves.

mod issuers;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex::Regex;

use super::special;
use issuers::{IBAN_LENGTHS, is_frequent, is_issued};

/// One place in a reading.
pub(super) struct RuleHit {
    /// What it is.
    pub kind: &'static str,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// How a reading was derived: the further from the original, the stronger a hit's evidence must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// As it was written, or as a recipient decodes it.
    Written,
    /// From its end to its beginning.
    Backwards,
    /// Bytes that are mostly no text.
    Bytes,
    /// Letters by thirteen places.
    Turned,
}

struct Rule {
    kind: &'static str,
    shape: Regex,
    /// Bytes at the start of a shape that really are one; shapes are greedy and run on.
    fit: fn(&str, Mode) -> Option<usize>,
}

static RULES: LazyLock<[Rule; 5]> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "constant patterns, compiled by every test")]
    let rule = |kind, shape: &str, fit| Rule {
        kind,
        shape: Regex::new(shape).expect("a constant pattern"),
        fit,
    };
    [
        // `\x7f` stands for a letter of another script: `ann@exämple.de`.
        rule(
            "email",
            r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9\x7f-]{1,63}\.){1,8}[A-Za-z]{2,24}",
            email,
        ),
        rule("iban", r"[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}", |text, _mode| iban(text)),
        rule("us_ssn", r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}", |text, _mode| {
            is_ssn(text).then_some(text.len())
        }),
        rule("card", r"[2-6](?:[ -]?[0-9]){12,36}", card),
        rule(
            "card",
            r"[2-6][0-9]{3}(?:[ \t._/\x7f-]{1,3}[0-9]{4}){3}|3[47][0-9]{2}[ \t._/\x7f-]{1,3}[0-9]{6}[ \t._/\x7f-]{1,3}[0-9]{5}|[2-6][0-9]{3}[ -]?[0-9]{4}[ -]?\r?\n[0-9]{4}[ -][0-9]{4}",
            |text, _mode| (CardNumber::of(text).is_card() && is_issued(text)).then_some(text.len()),
        ),
    ]
});

/// With fewer digits than this, a text can only contain an address.
pub(super) const DIGITS_MIN: usize = 9;

/// Whether any rule could find something in here.
pub(super) fn possible(text: &[u8]) -> bool {
    // Nothing shorter is any of them.
    text.len() >= 6
        && (text.contains(&b'@')
            || text.iter().filter(|b| b.is_ascii_digit()).count() >= DIGITS_MIN)
}

/// Whether any rule could find something among bytes that are no text, where a byte that is not
/// ASCII stands for any character. Of what a shape needs it asks a part that chance seldom makes.
pub(super) fn possible_among(bytes: &[u8]) -> bool {
    bytes.len() >= 6
        && (may_be_address(bytes)
            || bytes.iter().filter(|b| b.is_ascii_digit()).count() >= DIGITS_MIN
                && (may_be_number(bytes) || may_be_iban(bytes)))
}

/// Whether an `@` is there with what an address has around it.
fn may_be_address(bytes: &[u8]) -> bool {
    let byte = |at: usize| bytes.get(at).copied();
    bytes.contains(&b'@')
        && (0..bytes.len()).any(|at| byte(at) == Some(b'@') && is_around_at(&byte, at))
}

/// Whether the bytes around the `@` in this place are those of an address: one before it, and behind
/// it a label with its dot and a further character.
pub(super) fn is_around_at(byte: &impl Fn(usize) -> Option<u8>, at: usize) -> bool {
    let is_local = |b: u8| b.is_ascii_alphanumeric() || b"._%+-".contains(&b);
    let is_label = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b >= 0x7f;
    let first = at.saturating_add(1);
    let ahead =
        (first..first.saturating_add(LABEL_MAX)).take_while(|n| byte(*n).is_some_and(is_label));
    let dot = first.saturating_add(ahead.count());
    dot > first
        && at.checked_sub(1).and_then(byte).is_some_and(is_local)
        && byte(dot) == Some(b'.')
        && byte(dot.saturating_add(1)).is_some_and(is_label)
}

/// Characters of a label of a domain.
const LABEL_MAX: usize = 63;
/// Every number has this many digits among as many bytes, whatever stands between its groups.
const DENSE_DIGITS: u32 = 9;
pub(super) const DENSE_BYTES: usize = 17;

/// Whether enough digits stand close enough together for a card or a social security number.
pub(super) fn are_dense(bytes: impl Iterator<Item = u8>) -> bool {
    let mut newest = 0_u32;
    let mut bytes = bytes;
    bytes.any(|byte| {
        newest = ((newest << 1) | u32::from(byte.is_ascii_digit())) & ((1 << DENSE_BYTES) - 1);
        newest.count_ones() >= DENSE_DIGITS
    })
}

fn may_be_number(bytes: &[u8]) -> bool {
    are_dense(bytes.iter().copied())
}

/// Whether two letters and two digits begin as many letters and digits as the shortest IBAN has, with
/// single gaps between them.
pub(super) fn may_be_iban(bytes: &[u8]) -> bool {
    let is_front = |[a, b, c, d]: &[u8; 4]| {
        c.is_ascii_digit()
            && d.is_ascii_digit()
            && a.is_ascii_alphabetic()
            && b.is_ascii_alphabetic()
    };
    let mut fronts = bytes.array_windows().enumerate().filter(|(_, front)| is_front(front));
    fronts.any(|(at, _)| {
        let (mut found, mut is_gap) = (0_usize, false);
        for byte in bytes.iter().skip(at) {
            if byte.is_ascii_alphanumeric() {
                found = found.saturating_add(1);
                is_gap = false;
            } else if is_gap || !matches!(byte, b' ' | b'-') {
                break;
            } else {
                is_gap = true;
            }
            if found >= IBAN_MIN {
                return true;
            }
        }
        false
    })
}

/// Letters and digits of the shortest IBAN.
const IBAN_MIN: usize = 15;

/// Every hit of every rule in a reading.
pub(super) fn scan(text: &str, mode: Mode) -> Vec<RuleHit> {
    let mut hits = Vec::new();
    if !possible(text.as_bytes()) {
        return hits;
    }
    let bytes = text.as_bytes();
    let alphanumeric =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    let (addresses, ibans) = (may_be_address(bytes), may_be_iban(bytes));
    let numbers = may_be_number(bytes);
    for rule in RULES.iter() {
        let email = rule.kind == "email";
        let possible = match rule.kind {
            "iban" => ibans,
            "email" => addresses && mode != Mode::Turned,
            _number => numbers && mode != Mode::Turned,
        };
        // The middle of a longer word or number is no hit; any part of an address is one.
        let inside = |at: usize| !email && alphanumeric(at.checked_sub(1));
        let mut at = 0;
        while possible && let Some(found) = rule.shape.find_at(text, at) {
            let start = found.start();
            // The letter of an escape does not belong to an address: `\\n@app.route`.
            let escape = email && start.checked_sub(1).and_then(|at| bytes.get(at)) == Some(&b'\\');
            if escape && bytes.get(start).is_some_and(|b| b"bfnrt".contains(b)) {
                at = start.saturating_add(1);
                continue;
            }
            if email && special::is_no_mailbox(bytes, start, found.as_str()) {
                let local = found.as_str().bytes().take_while(|byte| *byte != b'@').count();
                at = start.saturating_add(local).saturating_add(1);
                continue;
            }
            let fits = if inside(start) { None } else { (rule.fit)(found.as_str(), mode) };
            let end = fits.map(|length| start.saturating_add(length));
            let end = end.filter(|end| email || rule.kind == "iban" || !alphanumeric(Some(*end)));
            // A longer number with dashes is another one.
            let end =
                end.filter(|end| rule.kind != "us_ssn" || !special::is_within(bytes, start, *end));
            // A shape begins with an ASCII character, so the next one starts one byte on.
            at = match end {
                Some(end) => {
                    hits.push(RuleHit { kind: rule.kind, start, end });
                    end
                }
                None => start.saturating_add(1),
            };
            // WHY not shape by shape: a long number has one at each digit.
            while at < bytes.len() && inside(at) {
                at = at.saturating_add(1);
            }
        }
    }
    // Two rules may know the same card.
    hits.sort_by_key(|hit| (hit.start, hit.end, hit.kind));
    hits.dedup_by_key(|hit| (hit.start, hit.end, hit.kind));
    hits
}

/// The most frequent top-level domains of addresses; those of two letters are countries.
const ENDS: [&str; 24] = [
    "com", "org", "net", "edu", "gov", "mil", "int", "info", "biz", "name", "pro", "mobi", "dev",
    "app", "xyz", "online", "site", "shop", "store", "tech", "cloud", "email", "example", "test",
];

fn email(text: &str, mode: Mode) -> Option<usize> {
    let fits = match mode {
        Mode::Written => true,
        // Not an address: `first.last@host`, which looks like one backwards.
        Mode::Backwards => {
            let end = text.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
            end.len() == 2 || ENDS.contains(&end.as_str())
        }
        // Six bytes of any kind may look like a short one.
        Mode::Bytes => text.len() >= 10,
        Mode::Turned => false,
    };
    fits.then_some(text.len())
}

/// Where an IBAN begins that is not complete at the end of the text.
pub(super) fn open_iban(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let begins = bytes.array_windows().enumerate().filter(|(at, [a, b, c, d])| {
        let is_front = a.is_ascii_alphabetic() && b.is_ascii_alphabetic();
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        is_front
            && c.is_ascii_digit()
            && d.is_ascii_digit()
            && !before.is_some_and(u8::is_ascii_alphanumeric)
    });
    let mut open = begins.filter(|(at, _)| {
        let rest = text.get(*at..).unwrap_or_default();
        let country = rest.get(..2).unwrap_or_default().to_ascii_uppercase();
        let wanted = IBAN_LENGTHS.iter().find(|(name, _)| *name == country).map(|(_, n)| *n);
        wanted.is_some_and(|wanted| is_open(rest, wanted))
    });
    open.next().map(|(at, _)| at)
}

/// Whether the text is fewer than so many letters and digits, with single gaps between them.
fn is_open(text: &str, wanted: usize) -> bool {
    let (mut found, mut is_gap) = (0_usize, false);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            found = found.saturating_add(1);
            is_gap = false;
        } else if is_gap || !matches!(byte, b' ' | b'-') {
            return false;
        } else {
            is_gap = true;
        }
        if found >= wanted {
            return false;
        }
    }
    true
}

/// The country determines the length of an IBAN.
fn iban(text: &str) -> Option<usize> {
    let country = text.get(..2)?.to_ascii_uppercase();
    let wanted = IBAN_LENGTHS.iter().find(|(name, _)| *name == country).map(|(_, n)| *n)?;
    let mut places = text.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric());
    let end = places.nth(wanted.checked_sub(1)?)?.0.saturating_add(1);
    text.get(..end).is_some_and(is_iban).then_some(end)
}

/// The longest run of whole groups of digits that is a card.
fn card(text: &str, mode: Mode) -> Option<usize> {
    // WHY stricter: of numbers that are read in another way than they are written, there are many.
    let is_known = if mode == Mode::Written { is_issued } else { is_frequent };
    let issued = |end: usize| text.get(..end).is_some_and(is_known);
    let mut number = CardNumber::default();
    let mut best = None;
    for (at, digit) in digits(text) {
        number.push(digit);
        if number.length > CARD_DIGITS_MAX {
            break;
        }
        let end = at.saturating_add(1);
        let group_ends = !text.as_bytes().get(end).is_some_and(u8::is_ascii_digit);
        if group_ends && number.is_card() && issued(end) {
            best = Some(end);
        }
    }
    best
}

/// The digits in a text, with their places.
fn digits(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let digits = text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
    digits.map(|(at, byte)| (at, byte.saturating_sub(b'0')))
}

/// Digits of the shortest and of the longest card.
const CARD_DIGITS_MIN: usize = 13;
const CARD_DIGITS_MAX: usize = 19;

/// The digits of a number up to one of them: what Luhn's checksum needs of them.
#[derive(Default)]
struct CardNumber {
    length: usize,
    first: u8,
    /// Not all digits are the same.
    differs: bool,
    /// The checksum if the first, third, … digit is doubled.
    odd_doubled: u32,
    /// The checksum if the second, fourth, … digit is doubled.
    even_doubled: u32,
}

impl CardNumber {
    fn of(text: &str) -> Self {
        let mut number = Self::default();
        digits(text).for_each(|(_, digit)| number.push(digit));
        number
    }

    fn push(&mut self, digit: u8) {
        if self.length == 0 {
            self.first = digit;
        }
        self.differs |= digit != self.first;
        let once = u32::from(digit);
        let twice = once.saturating_mul(2);
        let doubled = if twice > 9 { twice.saturating_sub(9) } else { twice };
        self.length = self.length.saturating_add(1);
        let (odd, even) = if self.length % 2 == 1 { (doubled, once) } else { (once, doubled) };
        self.odd_doubled = self.odd_doubled.saturating_add(odd);
        self.even_doubled = self.even_doubled.saturating_add(even);
    }

    /// Luhn's checksum and an issuer that exists.
    fn is_card(&self) -> bool {
        // The last digit is not doubled, the one before it is.
        let sum = if self.length.is_multiple_of(2) { self.odd_doubled } else { self.even_doubled };
        (CARD_DIGITS_MIN..=CARD_DIGITS_MAX).contains(&self.length)
            && matches!(self.first, 2..=6)
            && self.differs
            && sum.is_multiple_of(10)
    }
}

fn is_iban(text: &str) -> bool {
    let plain: String =
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect();
    let Some((country, _)) = plain.split_at_checked(2) else { return false };
    if IBAN_LENGTHS.iter().find(|(name, _)| *name == country).map(|(_, n)| *n) != Some(plain.len())
    {
        return false;
    }
    let Some((head, tail)) = plain.split_at_checked(4) else { return false };
    let remainder =
        tail.chars().chain(head.chars()).filter_map(|c| c.to_digit(36)).fold(0_u32, |r, d| {
            let shifted = if d > 9 { r.saturating_mul(100) } else { r.saturating_mul(10) };
            shifted.saturating_add(d) % 97
        });
    remainder == 1
}

/// Areas, groups and serials that are issued.
fn is_ssn(text: &str) -> bool {
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let area = part(0..3);
    !matches!(area, "000" | "666")
        && !area.starts_with('9')
        && part(4..6) != "00"
        && part(7..11) != "0000"
}
