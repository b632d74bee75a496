//! Numbers of persons, by checksum, and by a word beside them where chance passes the checksum.

use super::digests::{self, bech32_checks};
use super::kinds::Confidence::High;
use super::plain::Pass;
use super::rules::DigitGroup;
use super::shape::{ALNUM, Alphabet, HEX_ANY, LOWER, UPPER};

/// What a word before a number says it is: a bit for each.
const PHONE: u16 = 1;
const NHS: u16 = 1 << 1;
const AADHAAR: u16 = 1 << 2;
const CPF: u16 = 1 << 3;
const CNPJ: u16 = 1 << 4;
const BSN: u16 = 1 << 5;
const NIR: u16 = 1 << 6;
const PESEL: u16 = 1 << 7;
const CHAIN: u16 = 1 << 8;

/// Words before a number, in lower case, sorted.
const CONTEXT: [(&[u8], u16); 49] = [
    (b"aadhaar", AADHAAR),
    (b"aadhar", AADHAAR),
    (b"adhar", AADHAAR),
    (b"bsn", BSN),
    (b"burgerservicenummer", BSN),
    (b"cell", PHONE),
    (b"cellphone", PHONE),
    (b"celular", PHONE),
    (b"cnpj", CNPJ),
    (b"cpf", CPF),
    (b"dial", PHONE),
    (b"erc", CHAIN),
    (b"eth", CHAIN),
    (b"ether", CHAIN),
    (b"ethereum", CHAIN),
    (b"fax", PHONE),
    (b"fon", PHONE),
    (b"fono", PHONE),
    (b"handy", PHONE),
    (b"handynummer", PHONE),
    (b"hotline", PHONE),
    (b"insee", NIR),
    (b"landline", PHONE),
    (b"mobil", PHONE),
    (b"mobile", PHONE),
    (b"mobilnummer", PHONE),
    (b"movil", PHONE),
    (b"nhs", NHS),
    (b"nir", NIR),
    (b"pesel", PESEL),
    (b"phone", PHONE),
    (b"phonenumber", PHONE),
    (b"rufnummer", PHONE),
    (b"secu", NIR),
    (b"sms", PHONE),
    (b"sociale", NIR),
    (b"sofinummer", BSN),
    (b"tel", PHONE),
    (b"telefon", PHONE),
    (b"telefone", PHONE),
    (b"telefonnummer", PHONE),
    (b"telefono", PHONE),
    (b"telephone", PHONE),
    (b"telf", PHONE),
    (b"tlf", PHONE),
    (b"uid", AADHAAR),
    (b"uidai", AADHAAR),
    (b"wallet", CHAIN),
    (b"whatsapp", PHONE),
];
/// Bytes before a number in which such a word stands.
const CONTEXT_BYTES: usize = 40;
/// Digits of the shortest and of the longest number here, and what stands between their groups.
const DIGITS_MIN: usize = 8;
const DIGITS_MAX: usize = 15;
const MARKS: &[u8] = b" .-/()";

/// The words before a number say so much.
fn context(text: &[u8], at: usize) -> u16 {
    let from = at.saturating_sub(CONTEXT_BYTES);
    let before = text.get(from..at).unwrap_or_default();
    if !before.iter().any(u8::is_ascii_alphabetic) {
        return 0;
    }
    let words = before.split(|byte| !byte.is_ascii_alphabetic());
    let mut said = 0;
    // A name in a program: `phoneNumber`.
    for word in words.filter(|word| word.len() >= 3) {
        let folded = word.to_ascii_lowercase();
        let humps = word.iter().skip(1).position(u8::is_ascii_uppercase);
        let first = humps.and_then(|at| folded.get(..=at));
        for word in [Some(folded.as_slice()), first].into_iter().flatten() {
            if let Ok(found) = CONTEXT.binary_search_by_key(&word, |(word, _)| word) {
                said |= CONTEXT.get(found).map_or(0, |(_, bit)| *bit);
            }
        }
    }
    said
}

/// Whether a name says that its value is a number of a person.
pub(super) fn names_number(name: &[u8]) -> bool {
    context(name, name.len()) != 0
}

/// Notes every number of a person.
pub(super) fn numbers(pass: &mut Pass<'_>, groups: &[DigitGroup]) {
    let text = pass.text;
    for DigitGroup { start, digits } in groups.iter().copied() {
        let before = start.checked_sub(1).and_then(|at| text.get(at)).copied();
        if before.is_some_and(|byte| byte.is_ascii_alphabetic()) {
            if digits == 2 {
                fiscal_code(pass, start);
            }
        } else {
            coin(pass, start);
            number(pass, start, before == Some(b'+'));
        }
    }
}

/// A number in groups, at each of whose ends it may be complete.
#[derive(Default)]
struct Grouped {
    digits: Digits,
    groups: Digits,
    said: Option<u16>,
}

/// Small numbers, no more than a number here has digits.
#[derive(Default)]
struct Digits {
    all: [u8; DIGITS_MAX],
    count: usize,
}

impl Digits {
    /// Adds one, if there is a place for it.
    fn push(&mut self, number: u8) {
        if let Some(place) = self.all.get_mut(self.count) {
            (*place, self.count) = (number, self.count + 1);
        }
    }

    fn as_slice(&self) -> &[u8] {
        self.all.get(..self.count).unwrap_or_default()
    }
}

fn number(pass: &mut Pass<'_>, start: usize, is_international: bool) {
    let text = pass.text;
    let rest = text.get(start..).unwrap_or_default();
    // Most numbers are shorter than any of these.
    let near = rest.iter().take(3 * DIGITS_MIN);
    let near = near.take_while(|byte| byte.is_ascii_digit() || MARKS.contains(byte));
    if near.filter(|byte| byte.is_ascii_digit()).count() < DIGITS_MIN {
        return;
    }
    let mut number = Grouped::default();
    let (mut at, mut best) = (0_usize, None);
    loop {
        let group = rest.get(at..).unwrap_or_default();
        let length = group.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_long = number.digits.count + length > DIGITS_MAX;
        if length == 0 || is_long {
            break;
        }
        group.iter().take(length).for_each(|byte| number.digits.push(byte - b'0'));
        number.groups.push(u8::try_from(length).unwrap_or(u8::MAX));
        at += length;
        let follows = rest.get(at).copied();
        let ends = !follows.is_some_and(|byte| byte.is_ascii_alphanumeric());
        if ends && number.digits.count >= DIGITS_MIN {
            let part = rest.get(..at).unwrap_or_default();
            if let Some(kind) = number.kind(part, (text, start), is_international) {
                best = Some((kind, at));
            }
        }
        let gap = rest.get(at..).unwrap_or_default();
        // A year of more than four digits has a sign: `+10000-01-01`.
        if is_international && number.is_far_date() && gap.first().is_none_or(|byte| *byte == b'T')
        {
            return;
        }
        let marks = gap.iter().take(3).take_while(|byte| MARKS.contains(byte)).count();
        if marks == 0 || marks > 2 {
            break;
        }
        at += marks;
    }
    if let Some((kind, length)) = best {
        let from = if kind == "phone" && is_international { start - 1 } else { start };
        if !pass.is_in(kind, from) {
            pass.note(kind, High, from..start + length);
        }
    }
}

impl Grouped {
    /// Whether these may be a year with a sign, a month and a day.
    fn is_far_date(&self) -> bool {
        matches!(self.groups.as_slice(), [year, 2, 2] if *year > 4)
    }

    /// What these digits are.
    fn kind(
        &mut self,
        part: &[u8],
        (text, start): (&[u8], usize),
        plus: bool,
    ) -> Option<&'static str> {
        if plus {
            // A number with decimals: `+48.856614`.
            let mut marks = part.iter().filter(|byte| !byte.is_ascii_digit());
            let is_decimal = marks.next() == Some(&b'.')
                && marks.next().is_none()
                && self.groups.as_slice().last().is_some_and(|decimals| *decimals < 9);
            return (!is_decimal && is_phone(self.digits.as_slice())).then_some("phone");
        }
        let digits = self.digits.as_slice();
        let shaped = |shape: &[u8]| {
            part.len() == shape.len()
                && part.iter().zip(shape).all(|(byte, wanted)| match wanted {
                    b'0' => byte.is_ascii_digit(),
                    other => byte == other,
                })
        };
        match digits.len() {
            11 if shaped(b"000.000.000-00") && digests::is_cpf(digits) => return Some("cpf"),
            14 if shaped(b"00.000.000/0000-00") && digests::is_cnpj(digits) => return Some("cnpj"),
            15 if self.groups.as_slice() == [1, 2, 2, 2, 3, 3, 2] && digests::is_nir(digits) => {
                return Some("nir");
            }
            _ => {}
        }
        let said = *self.said.get_or_insert_with(|| context(text, start));
        if said == 0 {
            return None;
        }
        let says = |what: u16| said & what != 0;
        match digits.len() {
            9 if says(BSN) && digests::is_bsn(digits) => return Some("bsn"),
            10 if says(NHS) && digests::is_nhs(digits) => return Some("nhs"),
            11 if says(CPF) && digests::is_cpf(digits) => return Some("cpf"),
            11 if says(PESEL) && digests::is_pesel(digits) => return Some("pesel"),
            12 if says(AADHAAR) && digests::is_aadhaar(digits) => return Some("aadhaar"),
            14 if says(CNPJ) && digests::is_cnpj(digits) => return Some("cnpj"),
            15 if says(NIR) && digests::is_nir(digits) => return Some("nir"),
            _ => {}
        }
        let is_date = matches!(self.groups.as_slice(), [4, 2, 2, ..] | [2, 2, 4, ..]);
        let differ = digits.iter().any(|digit| Some(digit) != digits.first());
        (says(PHONE) && !is_date && differ).then_some("phone")
    }
}

/// Digits of a number of a telephone behind a `+`, which begin with the code of a country (ITU-T E.164).
fn is_phone(digits: &[u8]) -> bool {
    let number =
        |count: usize| digits.iter().take(count).fold(0_u16, |n, d| n * 10 + u16::from(*d));
    let (one, two, three) = (number(1), number(2), number(3));
    let is_code = one == 1
        || one == 7
        || matches!(two, 20 | 27 | 30..=34 | 36 | 39..=41 | 43..=49 | 51..=58 | 60..=66)
        || matches!(two, 81 | 82 | 84 | 86 | 90..=95 | 98)
        || matches!(three, 210..=269 | 290..=299 | 350..=389 | 420..=423 | 500..=509 | 590..=599)
        || matches!(three, 670..=692 | 800 | 808 | 850..=859 | 870 | 878 | 880..=888 | 960..=998);
    let differ = digits.iter().skip(2).any(|digit| Some(digit) != digits.last());
    (8..=15).contains(&digits.len()) && is_code && differ
}

/// Letters and digits of an Italian tax code, from the two digits of a year on.
fn fiscal_code(pass: &mut Pass<'_>, year: usize) {
    let Some(start) = year.checked_sub(6) else { return };
    let Some(code) = pass.text.get(start..start + 16) else { return };
    let fits = code.iter().zip(b"AAAAAA00A00A000A").all(|(byte, wanted)| match wanted {
        b'A' => byte.is_ascii_alphabetic(),
        _digit => byte.is_ascii_digit(),
    });
    if fits && pass.begins_at(start) && pass.ends_at(start + 16) && digests::is_fiscal_code(code) {
        pass.note("codice_fiscale", High, start..start + 16);
    }
}

const BASE58: Alphabet = Alphabet::of("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz");

/// An address of Bitcoin or of Ethereum that begins with a digit.
fn coin(pass: &mut Pass<'_>, start: usize) {
    match pass.byte(start) {
        Some(b'1' | b'3') => {
            let end = pass.run_end(start, BASE58);
            let letters = pass.text.get(start..end).unwrap_or_default();
            if (26..=35).contains(&letters.len())
                && pass.ends_at(end)
                && digests::is_base58_checked(letters)
            {
                pass.note("btc_address", High, start..end);
            }
        }
        Some(b'0') if pass.byte(start + 1) == Some(b'x') => {
            let end = pass.run_end(start + 2, HEX_ANY);
            let letters = pass.text.get(start + 2..end).unwrap_or_default();
            if letters.len() != 40 || !pass.ends_at(end) {
                return;
            }
            let is_mixed = letters.iter().any(u8::is_ascii_lowercase)
                && letters.iter().any(u8::is_ascii_uppercase);
            let is_address = if is_mixed {
                digests::is_eip55(letters)
            } else {
                context(pass.text, start) & CHAIN != 0 && letters.iter().any(|byte| *byte != b'0')
            };
            if is_address {
                pass.note("eth_address", High, start..end);
            }
        }
        _ => {}
    }
}

/// An address of Bitcoin in bech32.
pub(super) fn bech32(pass: &mut Pass<'_>, at: usize) {
    let alphabet = if pass.byte(at) == Some(b'b') { LOWER } else { UPPER };
    let end = pass.run_end(at, alphabet);
    let letters = pass.text.get(at..end).unwrap_or_default();
    let fits = (14..=74).contains(&letters.len()) && letters.iter().all(|byte| ALNUM.has(*byte));
    if fits && pass.begins_at(at) && pass.ends_at(end) && bech32_checks(letters) {
        pass.note("btc_address", High, at..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_before_a_number_are_sorted() {
        assert!(CONTEXT.is_sorted_by_key(|(word, _)| *word));
    }
}
