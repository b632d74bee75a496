//! Invented keys and numbers, made from the tables and a seed: none stands in the source.

use std::collections::BTreeSet;

use base64::Engine as _;

use super::digests;
use super::shape::{ALNUM, Alphabet, BASE64, DIGIT, HEX, KeyShape, Keyed, LOWER, Part, UPPER, URL};
use super::shapes;
use crate::domain::digest::Digest;

/// Numbers by a seed (SplitMix64).
pub(super) struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most.max(1)).unwrap()).unwrap()
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    pub fn text(&mut self, alphabet: Alphabet, length: usize) -> String {
        let letters: Vec<u8> = (0..128).filter(|byte| alphabet.has(*byte)).collect();
        (0..length).map(|_| char::from(*self.pick(&letters))).collect()
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    fn digits(&mut self, length: usize, check: impl Fn(&[u8]) -> bool) -> String {
        loop {
            let digits: Vec<u8> = (0..length).map(|_| self.next().to_le_bytes()[0] % 10).collect();
            if check(&digits) {
                return digits.iter().map(|digit| char::from(b'0' + digit)).collect();
            }
        }
    }
}

/// A body of these parts; each run has `extra` bytes more than its shortest, at most.
pub(super) fn body(dice: &mut Dice, parts: &[Part], extra: usize) -> String {
    let part = |part: &Part| match part {
        Part::Is(literal) => (*literal).to_owned(),
        Part::Run(alphabet, min, max) => {
            let length = (min + dice.below(extra + 1)).min(*max);
            let mut text = dice.text(*alphabet, length);
            // What ends a sentence ends no key.
            while text.ends_with(['.', '-']) {
                text.pop();
                text.push_str(&dice.text(*alphabet, 1));
            }
            text
        }
    };
    parts.iter().map(part).collect()
}

pub(super) fn of_shape(dice: &mut Dice, shape: &KeyShape, extra: usize) -> String {
    let lead = shape.lead.map_or_else(String::new, |(alphabet, min, max)| {
        let length = (min + dice.below(extra + 1)).min(max);
        let letters = dice.text(alphabet, length);
        letters.replace(['.', '-', '/', '+', '_'], "q")
    });
    let prefix = *dice.pick(shape.prefixes);
    let body = body(dice, shape.parts, extra);
    format!("{lead}{prefix}{body}")
}

fn of_keyed(dice: &mut Dice, keyed: &Keyed) -> String {
    let name = *dice.pick(keyed.names);
    let parts = *dice.pick(keyed.bodies);
    let body = body(dice, parts, 8);
    match dice.below(3) {
        0 => format!("{name}_key={body}"),
        1 => format!("\"{name}\": \"{body}\""),
        _ => format!("{}: {body}", name.to_uppercase()),
    }
}

pub(super) fn base64url(bytes: &[u8]) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn pem(dice: &mut Dice) -> String {
    let label = *dice.pick(&[
        "RSA PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
        "PRIVATE KEY",
    ]);
    let body = base64::engine::general_purpose::STANDARD.encode(dice.bytes(600));
    let lines: Vec<&str> =
        body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----", lines.join("\n"))
}

fn special(dice: &mut Dice, kind: &str) -> Option<String> {
    Some(match kind {
        "private_key" => pem(dice),
        "jwt" => {
            let head =
                *dice.pick(&[r#"{"alg":"RS256","typ":"JWT"}"#, r#"{"kid":"a","alg":"ES256"}"#]);
            let claims = format!(r#"{{"sub":"{}","exp":1900000000}}"#, dice.text(LOWER, 12));
            let signature = dice.bytes(64);
            [head.as_bytes(), claims.as_bytes(), &signature].map(base64url).join(".")
        }
        "url_password" => {
            let scheme = *dice.pick(&["postgres", "https", "redis", "mongodb+srv", "amqp"]);
            format!("{scheme}://svc:{}@db.internal:5432/app", dice.text(ALNUM, 20))
        }
        "authorization" => {
            let token = dice.text(URL, 40);
            match dice.below(3) {
                0 => format!("Authorization: Bearer a{token}"),
                1 => format!("-H 'authorization: token a{token}'"),
                _ => {
                    let pair = format!("user:{}", dice.text(ALNUM, 16));
                    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                    format!("Authorization: Basic {pair}")
                }
            }
        }
        "discord" => {
            let id = base64url(dice.digits(18, |digits| digits[0] > 0).as_bytes());
            format!("{id}.{}.{}", dice.text(ALNUM, 6), dice.text(ALNUM, 38))
        }
        "assigned" => {
            let name =
                *dice.pick(&["password", "db_passwd", "CLIENT_SECRET", "apiKey", "access-key"]);
            let sign = *dice.pick(&["=", ": ", " = ", "=\""]);
            format!("{name}{sign}{}", dice.text(ALNUM, 24))
        }
        _ => return None,
    })
}

fn personal(dice: &mut Dice, kind: &str) -> Option<String> {
    let grouped = |digits: &str, shape: &str| {
        let mut digits = digits.chars();
        shape.chars().map(|c| if c == '0' { digits.next().unwrap() } else { c }).collect::<String>()
    };
    Some(match kind {
        "phone" => {
            let code = *dice.pick(&["+44", "+49", "+1", "+353", "+91", "+55"]);
            let rest = dice.digits(9, |digits| digits[0] > 0 && digits[1] != digits[2]);
            match dice.below(3) {
                0 => format!("{code}{rest}"),
                1 => grouped(&rest, &format!("{code} 00 000 0000")),
                _ => grouped(&rest, "phone: 000-000-000"),
            }
        }
        "card" => {
            let (prefix, length) = *dice.pick(&[
                ("4", 16),
                ("51", 16),
                ("2221", 16),
                ("37", 15),
                ("6011", 16),
                ("3528", 16),
            ]);
            let number = carded(dice, prefix, length);
            match (dice.below(3), length) {
                (0, 16) => grouped(&number, "0000 0000 0000 0000"),
                (1, 16) => grouped(&number, "0000-0000-0000-0000"),
                _ => number,
            }
        }
        "iban" => {
            let (country, letters) = *dice.pick(&[("DE", 18), ("FR", 23), ("ES", 20), ("PL", 24)]);
            account(dice, country, letters)
        }
        "us_ssn" => {
            let area = dice.digits(3, |area| area[0] < 9 && area != [6, 6, 6] && area != [0, 0, 0]);
            let group = dice.digits(2, |group| group != [0, 0]);
            format!("{area}-{group}-{}", dice.digits(4, |serial| serial != [0; 4]))
        }
        "email" => {
            let (name, host) = (dice.text(LOWER, 8), dice.text(LETTERS, 9).to_lowercase());
            format!("a{name}@{host}.example.com")
        }
        "btc_address" => {
            let body = [vec![0], dice.bytes(20)].concat();
            let once = Digest::of(&[&body]);
            let sum = Digest::of(&[once.as_bytes()]);
            base58(&[&body, sum.as_bytes().get(..4).unwrap()].concat())
        }
        "eth_address" => format!("ethereum wallet 0x{}", dice.text(HEX, 40)),
        "nhs" => grouped(&dice.digits(10, digests::is_nhs), "NHS number 000 000 0000"),
        "aadhaar" => grouped(&dice.digits(12, digests::is_aadhaar), "Aadhaar: 0000 0000 0000"),
        "cpf" => grouped(&dice.digits(11, digests::is_cpf), "000.000.000-00"),
        "cnpj" => grouped(&dice.digits(14, digests::is_cnpj), "00.000.000/0000-00"),
        "bsn" => grouped(&dice.digits(9, digests::is_bsn), "BSN 000000000"),
        "nir" => grouped(&dice.digits(15, digests::is_nir), "0 00 00 00 000 000 00"),
        "pesel" => grouped(&dice.digits(11, digests::is_pesel), "PESEL: 00000000000"),
        "codice_fiscale" => fiscal_code(dice),
        _ => return None,
    })
}

fn fiscal_code(dice: &mut Dice) -> String {
    loop {
        let code = [
            dice.text(LETTERS, 6),
            dice.text(DIGIT, 2),
            dice.text(MONTHS, 1),
            dice.text(DIGIT, 2),
            dice.text(LETTERS, 1),
            dice.text(DIGIT, 3),
            dice.text(LETTERS, 1),
        ]
        .concat();
        if digests::is_fiscal_code(code.as_bytes()) {
            return code;
        }
    }
}

/// Bytes in base58; each zero at their beginning is a one.
fn base58(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits: Vec<usize> = Vec::new();
    for byte in bytes {
        let mut carry = usize::from(*byte);
        for digit in &mut digits {
            carry += *digit * 256;
            *digit = carry % 58;
            carry /= 58;
        }
        while carry > 0 {
            digits.push(carry % 58);
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).map(|_| 0);
    zeros.chain(digits.into_iter().rev()).map(|digit| char::from(LETTERS[digit])).collect()
}

/// A number that is no telephone's, of one of ten sorts.
pub(super) fn no_telephone(dice: &mut Dice, sort: usize) -> String {
    let mut digits = |length: usize| dice.text(DIGIT, length);
    match sort % 10 {
        0 => format!("order {}", digits(10)),
        1 => format!("at {}", digits(13)),
        2 => format!("+{}.{}, -{}.{}", digits(2), digits(6), digits(2), digits(6)),
        3 => format!("2026-11-27T1{}:{}:30+01:00 took {} ms", digits(1), digits(2), digits(5)),
        4 => format!("{} files changed, +{} -{}", digits(2), digits(4), digits(3)),
        5 => format!("v{}.{}.{} build {}", digits(1), digits(2), digits(2), digits(8)),
        6 => format!("{},{},{} bytes", digits(1), digits(3), digits(3)),
        7 => format!("part no. {}-{}-{}", digits(3), digits(4), digits(4)),
        8 => format!("10.{}.{}.{}:{}", digits(2), digits(2), digits(2), digits(5)),
        _ => format!("{} {} {} {}", digits(4), digits(4), digits(4), digits(2)),
    }
}

/// A number with this beginning and Luhn's digit.
fn carded(dice: &mut Dice, prefix: &str, length: usize) -> String {
    let body = format!("{prefix}{}", dice.text(DIGIT, length - 1 - prefix.len()));
    let doubled = |(place, digit): (usize, char)| match (place % 2, digit.to_digit(10).unwrap() * 2)
    {
        (0, twice @ 10..) => twice - 9,
        (0, twice) => twice,
        _ => digit.to_digit(10).unwrap(),
    };
    let sum: u32 = body.chars().rev().enumerate().map(doubled).sum();
    format!("{body}{}", (10 - sum % 10) % 10)
}

/// An account of this country, whose number has so many digits.
fn account(dice: &mut Dice, country: &str, length: usize) -> String {
    let number = dice.text(DIGIT, length);
    let all = format!("{number}{country}00");
    let rest = all.chars().fold(0_u32, |rest, c| {
        let digit = c.to_digit(36).unwrap();
        (rest * if digit > 9 { 100 } else { 10 } + digit) % 97
    });
    format!("{country}{:02}{number}", 98 - rest)
}

const LETTERS: Alphabet = Alphabet::of("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
const MONTHS: Alphabet = Alphabet::of("ABCDEHLMPRST");

/// Numbers and addresses of persons that are made here.
pub(super) const PERSONAL: [&str; 15] = [
    "aadhaar",
    "bsn",
    "btc_address",
    "card",
    "cnpj",
    "codice_fiscale",
    "cpf",
    "email",
    "eth_address",
    "iban",
    "nhs",
    "nir",
    "pesel",
    "phone",
    "us_ssn",
];

/// Kinds that are made here.
pub(super) fn kinds() -> Vec<&'static str> {
    let vendors = shapes::vendors().map(|one| one.kind);
    let keyed = shapes::keyed().iter().map(|one| one.kind);
    let special = ["private_key", "jwt", "url_password", "authorization", "discord", "assigned"];
    let all: BTreeSet<&str> = vendors.chain(keyed).chain(special).chain(PERSONAL).collect();
    all.into_iter().collect()
}

/// A sample of a kind.
pub(super) fn sample(dice: &mut Dice, kind: &str) -> String {
    if let Some(text) = special(dice, kind).or_else(|| personal(dice, kind)) {
        return text;
    }
    if let Some(vendor) = shapes::vendors().find(|one| one.kind == kind) {
        let shape = dice.pick(vendor.shapes);
        return of_shape(dice, shape, 12);
    }
    let keyed = shapes::keyed().iter().find(|one| one.kind == kind).unwrap();
    of_keyed(dice, keyed)
}

/// What looks like a credential and is none, of one of so many sorts.
pub(super) fn lookalike(dice: &mut Dice, sort: usize) -> String {
    let words = ["alpha", "build", "cache", "delta", "engine", "frame", "guide", "hotel", "index"];
    let mut slug = |mark: &str, count: usize| {
        (0..count).map(|_| *dice.pick(&words)).collect::<Vec<_>>().join(mark)
    };
    match sort % SORTS {
        0 => format!("sk-{}", slug("-", 5)),
        1 => format!("hf_{}", slug("_", 5)),
        2 => {
            format!("let {} = {}::{}({});", slug("_", 3), slug("_", 1), slug("_", 2), slug(", ", 2))
        }
        3 => format!("/usr/lib/{}.so.1.2.3", slug("/", 4)),
        4 => format!("password = os.environ[\"{}\"]", slug("_", 2).to_uppercase()),
        5 => format!("token: ${{{}}}", slug("_", 3).to_uppercase()),
        6 => format!("api_key=<your-{}-here>", slug("-", 2)),
        7 => format!("https://{}.example.com/{}?page=2&size=50", slug("-", 2), slug("/", 3)),
        8 => format!("secret_{}: {}.{}.{}", slug("_", 1), slug("", 1), slug("", 1), slug("", 1)),
        9 => dice.text(HEX, 40),
        10 => format!("sha256:{}", dice.text(HEX, 64)),
        11 => {
            let parts = [8, 4, 4, 4, 12].map(|length| dice.text(HEX, length));
            parts.join("-")
        }
        12 => format!("integrity sha512-{}==", dice.text(BASE64, 86)),
        13 => format!("etag: W/\"{}\"", dice.text(HEX, 32)),
        14 => format!("arn:aws:iam::123456789012:role/{}", slug("-", 2)),
        15 => format!("ghp_{}", "x".repeat(36)),
        16 => format!("commit {} by a person", dice.text(HEX, 12)),
        17 => format!("AKIA{}", dice.text(UPPER, 10)),
        18 => format!(
            "2026-11-{:02}T{:02}:15:00Z v1.{}.0",
            dice.below(30),
            dice.below(24),
            dice.below(90)
        ),
        _ => format!("id={}", dice.text(ALNUM, 22)),
    }
}

/// Sorts of [`lookalike`].
pub(super) const SORTS: usize = 20;
