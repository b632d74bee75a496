//! Each rule alone, and what it needs.

use proptest::prelude::*;

use super::*;

/// Luhn's checksum as it is defined, from the last digit to the first.
fn is_card(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, u32::from(*digit) * 2) {
            (1, twice @ 10..) => twice - 9,
            (1, twice) => twice,
            (_, _) => u32::from(*digit),
        })
        .sum();
    (13..=19).contains(&digits.len())
        && matches!(digits[0], 2..=6)
        && digits.iter().any(|digit| *digit != digits[0])
        && sum.is_multiple_of(10)
        && is_issued(&digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>())
}

proptest! {
    #[test]
    fn the_longest_card_of_whole_groups_is_found(
        groups in prop::collection::vec("[0-9]{1,6}", 1..12), first in 2_u8..7,
    ) {
        let text = format!("{first}{}", groups.join(" "));
        let mut longest = None;
        let mut end = 0;
        for group in text.split(' ') {
            end += group.len();
            let digits: Vec<u8> = text
                .bytes()
                .take(end)
                .filter(u8::is_ascii_digit)
                .map(|byte| byte - b'0')
                .collect();
            if is_card(&digits) {
                longest = Some(end);
            }
            end += 1;
        }
        prop_assert_eq!(card(&text, Mode::Written), longest);
    }
}

/// The shapes as expressions: what is found by walking must be what these find.
fn naive(text: &str) -> Vec<RuleHit> {
    let rule =
        |kind, shape: &str, fit: fn(&str) -> Option<usize>| (kind, Regex::new(shape).unwrap(), fit);
    let rules = [
        rule(
            "email",
            r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9\x7f-]{1,63}\.){1,8}[A-Za-z]{2,24}",
            |text| Some(text.len()),
        ),
        rule("iban", r"[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}", |text| {
            account(text.as_bytes(), 0)
        }),
        rule("us_ssn", r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}", |text| {
            is_ssn(text).then_some(text.len())
        }),
        rule("card", r"[2-6](?:[ -]?[0-9]){12,36}", |text| card(text, Mode::Written)),
        rule("card", GROUPED_CARD.as_str().trim_start_matches(r"\A"), |text| {
            (CardNumber::of(text).is_card() && is_issued(text)).then_some(text.len())
        }),
    ];
    let bytes = text.as_bytes();
    let mut hits = Vec::new();
    for (kind, shape, fit) in rules {
        let is_address = kind == "email";
        let mut at = 0;
        while let Some(found) = shape.find_at(text, at) {
            let start = found.start();
            let inside = !is_address && is_word(bytes, start.checked_sub(1));
            let end = if inside { None } else { fit(found.as_str()).map(|length| start + length) };
            let end = end.filter(|end| is_address || kind == "iban" || !is_word(bytes, Some(*end)));
            let end = end.filter(|end| kind != "us_ssn" || !special::is_within(bytes, start, *end));
            at = end.unwrap_or(start + 1);
            hits.extend(end.map(|end| RuleHit { start, end, kind }));
        }
    }
    hits.sort();
    hits.dedup();
    hits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn walking_finds_what_expressions_find(
        before in "([0-9]{1,6}|[ ./_-]|[A-Z]{2}|[a-z@.]{1,6}|\x7f){0,6}",
        item in prop::sample::select(vec![
            "4111 1111 1111 1111", "4111-1111-1111-1111", "4111 / 1111 / 1111 / 1111", "378282246310005",
            "3782.822463.10005", "4111 1111\n1111 1111", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
            "GB29 NWBK 6016 1331 9268 19", "NO9386011117947", "MT84MALT011000012345MTLCAST001S",
            "219-09-9999", "219 09 9999", "a.b+c@mail.example.com", "a@b.de", "ann@ex\x7fmple.de", "none",
        ]),
        after in "([0-9]{1,6}|[ ./_-]|[A-Z]{2}|[a-z@.]{1,6}|\x7f){0,6}",
    ) {
        let text = format!("{before}{item}{after}");
        prop_assert_eq!(scan(text.as_bytes(), Mode::Written), naive(&text), "{:?}", text);
    }
}

fn kinds(text: &str) -> Vec<(&'static str, String)> {
    scan(text.as_bytes(), Mode::Written)
        .into_iter()
        .map(|h| (h.kind, text.get(h.start..h.end).unwrap().to_owned()))
        .collect()
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
    let after = "AB12 DE89 3704 0044 0532 0130 00 x";
    assert_eq!(kinds(after), [("iban", "DE89 3704 0044 0532 0130 00".into())]);
    for text in
        ["order 2235 4111 1111 1111 1111", "4111 1111 1111 1111 2026", "2 4111-1111-1111-1111"]
    {
        assert_eq!(kinds(text).len(), 1, "{text}");
        assert!(kinds(text)[0].1.starts_with("4111") && kinds(text)[0].1.len() == 19);
    }
    assert!(kinds("41111111111111112").is_empty(), "a longer number is no card");
    // The checksum fits, and no issuer has such numbers.
    for number in ["2028240960365167042", "324789537938521", "400263885306647", "2053400302939156"]
    {
        assert!(kinds(number).is_empty(), "{number}");
    }
    assert_eq!(kinds("ssn 219-09-9999"), [("us_ssn", "219-09-9999".into())]);
    for number in ["000-12-3456", "666-12-3456", "912-12-3456", "123-00-4567", "123-45-0000"] {
        assert!(kinds(number).is_empty(), "{number}");
    }
    assert_eq!(kinds("a.b+c@mail.example.com;"), [("email", "a.b+c@mail.example.com".into())]);
    for fine in ["2026-11-21T22:25:24Z", "no@address", "v1.2.3", "127.0.0.1", "@user", "1234567"] {
        assert!(kinds(fine).is_empty(), "{fine}");
    }
}

#[test]
fn an_underscore_prefix_or_other_separators_do_not_hide_personal_data() {
    for text in [
        "card_4111111111111111",
        "4111.1111.1111.1111",
        "4111 / 1111 / 1111 / 1111",
        "4111\t1111\t1111\t1111",
        "3782.822463.10005",
        "4111 1111\n1111 1111",
        "n=4111_1111_1111_1111;",
    ] {
        assert_eq!(kinds(text).first().map(|(kind, _)| *kind), Some("card"), "{text}");
    }
    assert_eq!(kinds("iban_DE89370400440532013000")[0].0, "iban");
    assert_eq!(kinds("_219-09-9999_")[0].0, "us_ssn");
    for fine in ["2019 2020 2021 2022", "x219-09-9999", "219-09-99991", "1234.5678.9012.3456"] {
        assert!(kinds(fine).is_empty(), "{fine}");
    }
}

#[test]
fn a_megabyte_of_digits_is_scanned_and_not_dwelt_on() {
    assert!(scan("1 ".repeat(500_000).as_bytes(), Mode::Written).len() < 500_000);
    assert!(scan("a@".repeat(500_000).as_bytes(), Mode::Written).is_empty());
    let all = "4".repeat(500_000) + " 4111 1111 1111 1111 " + &"0".repeat(500_000);
    assert_eq!(scan(all.as_bytes(), Mode::Written).len(), 1);
}
