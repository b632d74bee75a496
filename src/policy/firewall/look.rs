//! Scans one text, as it is written and as a recipient would decode it.

use std::ops::Range;

use super::kinds::{Confidence, How};
use super::rules::{self, Mode};
use super::views::{self, SHORT_MIN, Span, Views};
use super::{hygiene, plain};

/// The findings in a text.
#[derive(Default)]
pub(super) struct TextFindings {
    /// Kinds and their places, in no order; they may overlap.
    pub spans: Vec<Span>,
    /// It holds something encoded that is no text.
    pub opaque: bool,
    /// The work had an end before the text had.
    pub over: bool,
}

impl TextFindings {
    /// Whether it holds something that the scan could not read.
    pub const fn unscanned(&self) -> bool {
        self.opaque || self.over
    }
}

/// Looks through a text.
pub(super) fn text(source: &str) -> TextFindings {
    // Nothing shorter holds anything, however it is written.
    let views = if source.len() >= SHORT_MIN { views::look(source) } else { Views::default() };
    let Views { spans, is_opaque: opaque, is_over: over, .. } = views;
    let mut seen = TextFindings { spans, opaque, over };
    seen.spans.extend(hygiene::look(source));
    seen
}

/// Looks through the value of a member, or of an item in the list that is its value.
pub(super) fn member(name: Option<&str>, source: &str, is_number: bool) -> TextFindings {
    let mut seen = if is_number { number(source) } else { text(source) };
    if let Some(name) = name
        && BESIDE.contains(&source.len())
        && name.len() <= NAME_MAX
        && plain::names_something(name)
    {
        seen.spans.extend(beside(name, source));
    }
    seen
}

/// What a text is if its name stands before it.
fn beside(name: &str, source: &str) -> impl Iterator<Item = Span> {
    let whole = format!("{name}: {source}");
    let before = name.len().saturating_add(2);
    plain::scan(whole.as_bytes(), false, Mode::Written).into_iter().filter_map(move |found| {
        let range = found.range.start.checked_sub(before)?..found.range.end.checked_sub(before)?;
        Some(Span { kind: found.kind, confidence: found.confidence, how: How::Plain, range })
    })
}

/// Bytes of a text that its name may explain, and of such a name.
const BESIDE: Range<usize> = 8..4096;
const NAME_MAX: usize = 128;

/// Scans a number: plain digits only, since numbers carry no encoded text.
fn number(source: &str) -> TextFindings {
    let hits = rules::scan(source.as_bytes(), Mode::Written).into_iter();
    let span = |hit: rules::RuleHit| Span {
        kind: hit.kind,
        confidence: Confidence::High,
        how: How::Plain,
        range: hit.start..hit.end,
    };
    TextFindings { spans: hits.map(span).collect(), ..TextFindings::default() }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Ways to write a text so that a recipient can read it again.
    fn written(text: &str) -> Vec<(&'static str, String)> {
        let each = |form: &dyn Fn(u8) -> String| text.bytes().map(form).collect::<String>();
        let lines = STANDARD.encode(text);
        let lines = lines.as_bytes().chunks(7).map(|line| std::str::from_utf8(line).unwrap());
        let turned = |c: char| match c {
            'a'..='m' | 'A'..='M' => char::from(u8::try_from(c).unwrap() + 13),
            'n'..='z' | 'N'..='Z' => char::from(u8::try_from(c).unwrap() - 13),
            other => other,
        };
        let mut all = vec![
            ("plain", text.to_owned()),
            ("base64", STANDARD.encode(text)),
            ("base64 in lines", lines.collect::<Vec<_>>().join("\r\n")),
            (
                "base64 in escaped lines",
                STANDARD
                    .encode(text)
                    .chars()
                    .enumerate()
                    .map(|(n, c)| if n % 7 == 6 { format!("{c}\\r\\n") } else { c.to_string() })
                    .collect(),
            ),
            ("hex", hex::encode(text)),
            ("hex in pairs", each(&|b| format!("{b:02x} "))),
            ("an array", each(&|b| format!("0x{b:02x}, "))),
            ("numbers", each(&|b| format!("{b},"))),
            ("percent", each(&|b| format!("%{b:02x}"))),
            ("entities", each(&|b| format!("&#{b};"))),
            ("quoted-printable", each(&|b| format!("={b:02X}"))),
            ("escapes", each(&|b| format!("\\x{b:02x}"))),
            ("letters apart", each(&|b| format!("{} ", char::from(b)))),
            ("with nothing between", each(&|b| format!("{}\0", char::from(b)))),
            ("backwards", text.chars().rev().collect()),
        ];
        if text.starts_with("DE") {
            all.push(("thirteen places on", text.chars().map(turned).collect()));
        }
        all
    }

    #[test]
    fn numbers_and_addresses_are_found_however_a_recipient_reads_them() {
        for (kind, item) in [
            ("email", "ann@example.com"),
            ("card", "4111 1111 1111 1111"),
            ("card", "5500-0000-0000-0004"),
            ("iban", "DE89370400440532013000"),
            ("us_ssn", "219-09-9999"),
        ] {
            for (how, form) in written(item) {
                let text = format!("see {form} now");
                assert!(text_kinds(&text).contains(&kind), "{item} as {how}: {text}");
                for (outer, form) in written(&form) {
                    // What is apart twice, or turned within another, has no reader.
                    let is_plain =
                        |name: &str| ["base64", "hex", "percent", "entities"].contains(&name);
                    let text = format!("see {form} now");
                    let is_found = text_kinds(&text).contains(&kind);
                    assert!(is_found || !is_plain(outer), "{item} as {how} in {outer}: {text}");
                }
            }
        }
    }

    #[test]
    fn letters_apart_are_read_from_their_first_one_whatever_stands_before_it() {
        for before in ["", "see ", "{\"text\":\"", "n:", "("] {
            let text = format!("{before}5 5 0 0 - 0 0 0 0 - 0 0 0 0 - 0 0 0 4 \"}}");
            assert!(text_kinds(&text).contains(&"card"), "{text}");
        }
    }

    #[test]
    fn letters_of_two_bytes_are_read_where_the_empty_ones_are_escapes() {
        for empty in ["\\u0000", "\\x00", "%00"] {
            let text: String = "ann@mail.example.org"
                .chars()
                .flat_map(|c| [c.to_string(), empty.to_owned()])
                .collect();
            assert!(text_kinds(&format!("{{\"text\":\"{text}\"}}")).contains(&"email"), "{text}");
        }
    }

    #[test]
    fn letters_before_an_encoded_text_do_not_hide_it() {
        // `AEA` decodes to bytes that no text has; what follows it is one.
        let wide: Vec<u8> = "ann@example.com".bytes().flat_map(|byte| [byte, 0]).collect();
        let twice = STANDARD.encode("ann@example.com");
        for item in [
            "a%40b.de".to_owned(),
            "a=40b.de".into(),
            "a@b.de".into(),
            twice,
            STANDARD.encode(wide),
        ] {
            for before in ["", "AEA", "EAA", "Ax", "A"] {
                let text = format!("see {before}{} now", STANDARD.encode(&item));
                let kinds = text_kinds(&text);
                assert!(kinds.contains(&"email"), "{item} in {text}: {kinds:?}");
            }
        }
    }

    fn text_kinds(source: &str) -> Vec<&'static str> {
        text(source).spans.into_iter().map(|span| span.kind).collect()
    }
}
