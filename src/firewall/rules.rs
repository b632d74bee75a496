//! The shapes and checksums themselves.

use std::sync::LazyLock;

use regex::Regex;

/// One place in a text.
pub(super) struct Hit {
    /// What it is.
    pub kind: &'static str,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

struct Rule {
    kind: &'static str,
    shape: Regex,
    check: fn(&str) -> bool,
}

static RULES: LazyLock<[Rule; 4]> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "constant patterns, compiled by every test")]
    let rule = |kind, shape: &str, check| Rule {
        kind,
        shape: Regex::new(shape).expect("a constant pattern"),
        check,
    };
    [
        rule(
            "email",
            r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}",
            |_| true,
        ),
        rule("iban", r"\b[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}\b", is_iban),
        rule("us_ssn", r"\b[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}\b", is_ssn),
        rule("card", r"\b[0-9](?:[ -]?[0-9]){12,18}\b", is_card),
    ]
});

/// Every hit of every rule.
pub(super) fn scan(text: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    // Nothing shorter is any of them.
    if text.len() < 6 {
        return hits;
    }
    let digits = text.bytes().any(|b| b.is_ascii_digit());
    for rule in RULES.iter() {
        let possible = if rule.kind == "email" { text.contains('@') } else { digits };
        if !possible {
            continue;
        }
        for found in rule.shape.find_iter(text) {
            if rule.kind == "iban" {
                hits.extend(iban_within(found.as_str(), found.start()));
            } else if (rule.check)(found.as_str()) {
                hits.push(Hit { kind: rule.kind, start: found.start(), end: found.end() });
            }
        }
    }
    hits
}

/// The shape is greedy and may run on into the next words; the country says where an IBAN ends.
fn iban_within(text: &str, start: usize) -> Option<Hit> {
    let mut length = 0_usize;
    for (at, c) in text.char_indices() {
        if !c.is_ascii_alphanumeric() {
            continue;
        }
        length = length.saturating_add(1);
        let end = at.saturating_add(1);
        if (15..=34).contains(&length) && text.get(..end).is_some_and(is_iban) {
            return Some(Hit { kind: "iban", start, end: start.saturating_add(end) });
        }
    }
    None
}

/// Luhn's checksum and an issuer that exists.
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let issuer = matches!(digits.first(), Some(2..=6))
        && matches!(digits.len(), 13..=19)
        && digits.iter().any(|d| Some(d) != digits.first());
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| match (i % 2, d.saturating_mul(2)) {
            (1, doubled @ 10..) => doubled.saturating_sub(9),
            (1, doubled) => doubled,
            (_, _) => *d,
        })
        .sum();
    issuer && sum.is_multiple_of(10)
}

/// ISO 13616 country lengths of the registry.
const IBAN_LENGTHS: &[(&str, usize)] = &[
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("LY", 25),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NL", 18),
    ("NO", 15),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("SA", 24),
    ("SC", 31),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("ST", 25),
    ("SV", 28),
    ("TL", 23),
    ("TN", 24),
    ("TR", 26),
    ("UA", 29),
    ("VA", 22),
    ("VG", 24),
    ("XK", 20),
];

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

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(&'static str, String)> {
        scan(text).into_iter().map(|h| (h.kind, text[h.start..h.end].to_owned())).collect()
    }

    #[test]
    fn checksums_decide() {
        assert_eq!(kinds("pay 4111111111111111 now"), [("card", "4111111111111111".into())]);
        assert_eq!(kinds("378282246310005"), [("card", "378282246310005".into())]);
        assert!(kinds("4111111111111112").is_empty() && kinds("0000000000000000").is_empty());
        assert_eq!(
            kinds("to GB29 NWBK 6016 1331 9268 19 today"),
            [("iban", "GB29 NWBK 6016 1331 9268 19".into())]
        );
        assert!(kinds("GB29 NWBK 6016 1331 9268 18").is_empty());
        assert_eq!(kinds("ssn 219-09-9999"), [("us_ssn", "219-09-9999".into())]);
        for bad in ["000-12-3456", "666-12-3456", "912-12-3456", "123-00-4567", "123-45-0000"] {
            assert!(kinds(bad).is_empty(), "{bad}");
        }
        assert_eq!(kinds("a.b+c@mail.example.com;"), [("email", "a.b+c@mail.example.com".into())]);
        for fine in
            ["2026-11-21T22:25:24Z", "no@address", "v1.2.3", "127.0.0.1", "@user", "1234567"]
        {
            assert!(kinds(fine).is_empty(), "{fine}");
        }
    }

    #[test]
    fn a_megabyte_of_digits_is_scanned_and_not_dwelt_on() {
        assert!(scan(&"1 ".repeat(500_000)).len() < 500_000);
        assert!(scan(&"a@".repeat(500_000)).is_empty());
    }
}
