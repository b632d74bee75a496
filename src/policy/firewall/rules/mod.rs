//! The shapes and checksums themselves.

mod issuers;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::special;
use issuers::{IBAN_LENGTHS, is_frequent, is_issued};

/// One place in a reading.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RuleHit {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// What it is.
    pub kind: &'static str,
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
}

/// Digits of a card in groups with more than one character between them, or on two lines.
static GROUPED_CARD: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a constant pattern, compiled by every test")]
    Regex::new(
        r"\A(?:[2-6][0-9]{3}(?:[ \t._/\x7f-]{1,3}[0-9]{4}){3}|3[47][0-9]{2}[ \t._/\x7f-]{1,3}[0-9]{6}[ \t._/\x7f-]{1,3}[0-9]{5}|[2-6][0-9]{3}[ -]?[0-9]{4}[ -]?\r?\n[0-9]{4}[ -][0-9]{4})",
    )
    .expect("a constant pattern")
});

/// Bytes of the longest number of a card, with what stands between its groups.
const CARD_BYTES: usize = 74;
/// Characters that stand between groups of digits.
pub(super) const GAPS: &[u8] = b" \t._/\x7f-\r\n";
/// Bytes of the local part of an address, of a label of its domain and of the last of them.
const LOCAL_MAX: usize = 64;
const LABEL_MAX: usize = 63;
const END_MAX: usize = 24;
const LABELS_MAX: usize = 8;

/// Every card, account, address and social security number in a reading.
pub(super) fn scan(text: &[u8], mode: Mode) -> Vec<RuleHit> {
    scan_groups(text, &groups(text), mode)
}

/// The same, with the groups of digits of the reading.
pub(super) fn scan_groups(text: &[u8], groups: &[DigitGroup], mode: Mode) -> Vec<RuleHit> {
    let mut hits = Vec::new();
    addresses(text, mode, &mut hits);
    let (mut ends, mut account_end) = ([0; 2], 0);
    for DigitGroup { start, digits } in groups.iter().copied() {
        let before = start.checked_sub(1).and_then(|at| text.get(at)).copied();
        if before.is_some_and(|byte| byte.is_ascii_alphabetic()) {
            let front = start.checked_sub(2).filter(|front| digits >= 2 && *front >= account_end);
            if let Some((front, end)) = front.and_then(|front| Some((front, account(text, front)?)))
            {
                hits.push(RuleHit { start: front, end, kind: "iban" });
                account_end = end;
            }
        } else {
            if digits == 3 && is_ssn_at(text, start) {
                hits.push(RuleHit { start, end: start + SSN_BYTES, kind: "us_ssn" });
            }
            // Each of the two ways to write one goes on behind its own.
            for (end, last) in cards(text, start, mode).into_iter().zip(&mut ends) {
                if let Some(end) = end.filter(|_| start >= *last) {
                    hits.push(RuleHit { start, end, kind: "card" });
                    *last = end;
                }
            }
        }
    }
    hits.sort();
    // Both may know the same card.
    hits.dedup();
    hits
}

/// Digits in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct DigitGroup {
    /// Where they begin.
    pub start: usize,
    /// How many there are.
    pub digits: usize,
}

/// The groups of digits in a text, in order. Five looks at a text begin at them, so they are sought once.
pub(super) fn groups(text: &[u8]) -> Vec<DigitGroup> {
    let mut at = 0;
    let next = || {
        let rest = text.get(at..)?;
        let start = at + rest.iter().position(u8::is_ascii_digit)?;
        let group = text.get(start..)?;
        let digits = group.iter().take_while(|byte| byte.is_ascii_digit()).count();
        at = start + digits;
        Some(DigitGroup { start, digits })
    };
    std::iter::from_fn(next).collect()
}

/// Whether a letter or a digit stands in this place.
fn is_word(text: &[u8], at: Option<usize>) -> bool {
    at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_alphanumeric)
}

/// The ASCII text that stands there, at most so many bytes.
fn ascii(text: &[u8], start: usize, most: usize) -> &str {
    let rest = text.get(start..).unwrap_or_default();
    let length = rest.iter().take(most).take_while(|byte| byte.is_ascii()).count();
    rest.get(..length).and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default()
}

/// Where a card ends that begins here: in groups with single gaps, and with more between them.
fn cards(text: &[u8], start: usize, mode: Mode) -> [Option<usize>; 2] {
    let rest = text.get(start..).unwrap_or_default();
    if !rest.first().is_some_and(|first| (b'2'..=b'6').contains(first)) {
        return [None; 2];
    }
    let near = rest.iter().take(26).take_while(|b| b.is_ascii_digit() || GAPS.contains(b));
    if near.filter(|byte| byte.is_ascii_digit()).count() < CARD_DIGITS_MIN {
        return [None; 2];
    }
    let part = ascii(text, start, CARD_BYTES);
    let close = part.get(..in_groups(part.as_bytes())).unwrap_or_default();
    let wide = GROUPED_CARD.find(part).map(|found| found.as_str());
    let wide = wide.filter(|text| CardNumber::of(text).is_card() && is_issued(text));
    let end = |length: Option<usize>| length.map(|length| start + length);
    // A longer number is another one.
    [card(close, mode), wide.map(str::len)]
        .map(end)
        .map(|end| end.filter(|end| !is_word(text, Some(*end))))
}

/// Bytes of a number in groups with single gaps between them.
fn in_groups(text: &[u8]) -> usize {
    let (mut end, mut digits) = (0, 0);
    while digits < 37 {
        let gap =
            usize::from(digits > 0 && text.get(end).is_some_and(|b| matches!(b, b' ' | b'-')));
        if !text.get(end + gap).is_some_and(u8::is_ascii_digit) {
            break;
        }
        (end, digits) = (end + gap + 1, digits + 1);
    }
    end
}

/// Bytes of a social security number.
const SSN_BYTES: usize = 11;

fn is_ssn_at(text: &[u8], start: usize) -> bool {
    let part = ascii(text, start, SSN_BYTES);
    let end = start + SSN_BYTES;
    let fits = |(at, byte): (usize, u8)| match at {
        3 | 6 => matches!(byte, b'-' | b' '),
        _ => byte.is_ascii_digit(),
    };
    part.len() == SSN_BYTES
        && part.bytes().enumerate().all(fits)
        && is_ssn(part)
        && !is_word(text, Some(end))
        // A longer number with dashes is another one.
        && !special::is_within(text, start, end)
}

/// Where an account ends that begins here.
pub(super) fn account(text: &[u8], start: usize) -> Option<usize> {
    if is_word(text, start.checked_sub(1)) {
        return None;
    }
    let [first, second] = *text.get(start..)?.first_chunk()?;
    let wanted = iban_length([first, second])?;
    let (mut found, mut is_gap, mut length) = (0, false, 0);
    for byte in text.get(start..)? {
        length += 1;
        if byte.is_ascii_alphanumeric() {
            (found, is_gap) = (found + 1, false);
        } else if is_gap || found < 4 || !matches!(byte, b' ' | b'-') {
            return None;
        } else {
            is_gap = true;
        }
        if found == wanted {
            let part = ascii(text, start, length);
            return is_iban(part).then_some(start + length);
        }
    }
    None
}

/// Letters and digits of an account of this country.
fn iban_length(country: [u8; 2]) -> Option<usize> {
    let country = country.map(|letter| letter.to_ascii_uppercase());
    if !country.iter().all(u8::is_ascii_uppercase) {
        return None;
    }
    let of = |(name, _): &&(&str, usize)| name.as_bytes().first_chunk() == Some(&country);
    IBAN_LENGTHS.iter().find(of).map(|(_, length)| *length)
}

/// Every address of a mailbox.
fn addresses(text: &[u8], mode: Mode, hits: &mut Vec<RuleHit>) {
    // Most texts have none, which this finds out several bytes at a time.
    if !text.contains(&b'@') {
        return;
    }
    let (mut from, mut end) = (0, 0);
    while let Some(next) = text.get(from..).and_then(|rest| rest.iter().position(|b| *b == b'@')) {
        let at = from + next;
        from = at + 1;
        let is_local = |byte: &u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(byte);
        let before = text.get(end..at).unwrap_or_default();
        let local = before.iter().rev().take(LOCAL_MAX).take_while(|byte| is_local(byte)).count();
        let mut start = at - local;
        // The letter of an escape does not belong to an address: `\\n@app.route`.
        let is_escape = start.checked_sub(1).and_then(|at| text.get(at)) == Some(&b'\\');
        if is_escape && text.get(start).is_some_and(|byte| b"bfnrt".contains(byte)) {
            start += 1;
        }
        let Some(last) = domain(text, from).filter(|_| start < at) else { continue };
        let address = ascii(text, start, last - start);
        if !special::is_no_mailbox(text, start, address) && fits(address, mode) {
            hits.push(RuleHit { start, end: last, kind: "email" });
            (from, end) = (last, last);
        }
    }
}

/// Where a domain ends that begins here. A byte of another script belongs to it: `ann@ex\x7fmple.de`.
fn domain(text: &[u8], from: usize) -> Option<usize> {
    let is_label = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | 0x7f);
    let (mut at, mut end) = (from, None);
    for _ in 0..LABELS_MAX {
        let rest = text.get(at..).unwrap_or_default();
        let label = rest.iter().take(LABEL_MAX + 1).take_while(|byte| is_label(byte)).count();
        if !(1..=LABEL_MAX).contains(&label) || rest.get(label) != Some(&b'.') {
            break;
        }
        at += label + 1;
        let rest = text.get(at..).unwrap_or_default();
        let last = rest.iter().take(END_MAX).take_while(|b| b.is_ascii_alphabetic()).count();
        if last >= 2 {
            end = Some(at + last);
        }
    }
    end
}

/// The windows in which numbers or addresses may stand from their end to their beginning.
pub(super) fn turned_windows(text: &[u8], groups: &[DigitGroup]) -> Vec<Range<usize>> {
    let mut windows: Vec<Range<usize>> = Vec::new();
    let mut note = |from: usize, to: usize| match windows.last_mut() {
        Some(last) if last.end >= from => last.end = last.end.max(to),
        _ => windows.push(from..to),
    };
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._%+-@\x7f".contains(byte);
    let mut places: Vec<(usize, usize)> = Vec::new();
    let mut from = if text.contains(&b'@') { 0 } else { text.len() };
    while let Some(next) = text.get(from..).and_then(|rest| rest.iter().position(|b| *b == b'@')) {
        let at = from + next;
        from = at + 1;
        let (before, after) =
            (text.get(..at).unwrap_or_default(), text.get(from..).unwrap_or_default());
        let is_host = |byte: &&u8| is_part(byte) && **byte != b'@';
        let front = before.iter().rev().take(ADDRESS_MAX).take_while(is_host).count();
        let back = after.iter().take(LOCAL_MAX).take_while(is_part).count();
        if front > 3 && back > 0 && before.iter().rev().take(front).any(|byte| *byte == b'.') {
            places.push((at - front, from + back));
        }
    }
    for DigitGroup { start, digits } in groups.iter().copied() {
        let end = start + digits;
        let next = text.get(end).copied();
        if next.is_some_and(|byte| byte.is_ascii_alphabetic()) {
            let behind = text.get(end..).unwrap_or_default();
            let country =
                behind.first_chunk().filter(|_| digits >= 2 && !is_word(text, Some(end + 2)));
            if country.and_then(|[second, first]| iban_length([*first, *second])).is_some() {
                places.push((end.saturating_sub(CARD_BYTES), end + 2));
            }
            continue;
        }
        if is_number_backwards(text.get(..end).unwrap_or_default()) {
            places.push((end.saturating_sub(CARD_BYTES), end));
        }
    }
    places.sort_unstable();
    for (from, to) in places {
        // One byte more on each side: whether a word ends there.
        note(from.saturating_sub(1), (to + 1).min(text.len()));
    }
    windows
}

/// Whether a text may end with the beginning of a card or of a social security number.
fn is_number_backwards(text: &[u8]) -> bool {
    let near = text.iter().rev().take(26);
    let near = near.take_while(|byte| byte.is_ascii_digit() || GAPS.contains(byte));
    let [.., last] = text else { return false };
    let is_gap = |at: Option<&u8>| at.is_some_and(|byte| matches!(byte, b'-' | b' '));
    let may_be_card = (b'2'..=b'6').contains(last)
        && near.filter(|byte| byte.is_ascii_digit()).count() >= CARD_DIGITS_MIN;
    may_be_card
        || text
            .last_chunk::<SSN_BYTES>()
            .is_some_and(|part| is_gap(part.get(4)) && is_gap(part.get(7)))
}

/// Bytes of a domain that is looked at backwards.
const ADDRESS_MAX: usize = 256;

/// With fewer digits than this, a text can only contain an address.
pub(super) const DIGITS_MIN: usize = 9;

/// The most frequent top-level domains of addresses; those of two letters are countries.
const ENDS: [&str; 24] = [
    "com", "org", "net", "edu", "gov", "mil", "int", "info", "biz", "name", "pro", "mobi", "dev",
    "app", "xyz", "online", "site", "shop", "store", "tech", "cloud", "email", "example", "test",
];

fn fits(text: &str, mode: Mode) -> bool {
    match mode {
        Mode::Written => true,
        // Not an address: `first.last@host`, which looks like one backwards.
        Mode::Backwards => {
            let end = text.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
            end.len() == 2 || ENDS.contains(&end.as_str())
        }
        // Six bytes of any kind may look like a short one.
        Mode::Bytes => text.len() >= 10,
    }
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
    let part = |range: Range<usize>| text.get(range).unwrap_or_default();
    let area = part(0..3);
    !matches!(area, "000" | "666")
        && !area.starts_with('9')
        && part(4..6) != "00"
        && part(7..11) != "0000"
}
