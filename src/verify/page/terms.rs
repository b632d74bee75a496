//! Plain terms for entries, and spelled-out characters that could deceive a reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};
use serde::{Deserialize, Deserializer};

use crate::domain::canonical;
use crate::domain::json::Json;

/// The most characters of one payload on the page; `payloads/` has all of it.
const SHOWN_MAX: usize = 4000;

/// A verdict in plain terms.
pub(super) fn verdict(name: &str) -> &str {
    match name {
        "allow" => "ALLOWED",
        "deny" => "REFUSED",
        "require_approval" => "HELD",
        other => other,
    }
}

/// A point in time: date and time on lines of their own, each unbroken.
pub(super) fn moment(ts: &str) -> Markup {
    let (date, time) = ts.split_once('T').unwrap_or((ts, ""));
    html! { span .n { (date) } @if !time.is_empty() { " " span .n { (time) } } }
}

/// The outcome of a call, by its last entry.
pub(super) fn outcome(kind: &str) -> &str {
    match kind {
        "call.authorized" => "allowed and started; no outcome is recorded",
        "call.denied" => "refused: it did not run",
        "call.held" => "waits for a person",
        "call.completed" => "completed",
        "call.failed" => "failed",
        "call.unknown" => "ended, outcome unknown",
        "call.cancelled" => "cancelled: it did not run",
        "call.expired" => "expired while it waited: it did not run",
        "call.progress" => "under way",
        other => other,
    }
}

/// An event of a call in plain terms.
pub(super) fn event(kind: &str) -> &str {
    match kind {
        "call.authorized" => "allowed; ran only after this entry was on disk",
        "call.denied" => "refused",
        "call.held" => "held for an approval",
        "call.progress" => "the answer was leaving",
        "approval.granted" => "approved by a person",
        "approval.refused" => "refused by a person",
        other => outcome(other),
    }
}

/// A payload in the form of the projections, as far as it is disclosed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Shown {
    state: String,
    commitment: String,
    bytes: u64,
    #[serde(rename = "media_type")]
    _media_type: String,
    #[serde(deserialize_with = "there")]
    json: Option<Json>,
    text: Option<String>,
    base64: Option<String>,
    /// Members that stand for a payload that is not disclosed.
    #[serde(flatten)]
    rest: BTreeMap<String, Json>,
}

/// A member that is present, `null` included.
fn there<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

/// State, size and content of a payload, and the file with all of it.
pub(super) fn payload(name: &str, shown: Option<Json>) -> Markup {
    let Some(shown) = shown.and_then(|shown| shown.read::<Shown>().ok()) else { return html! {} };
    let Shown { state, commitment, bytes, .. } = &shown;
    html! {
        p {
            strong { (name) } ": " span .word { (state.to_uppercase()) } ", "
            (bytes) " bytes. "
            span .small { "Commitment " code { (commitment) } }
        }
        @if let Some((content, left)) = content(&shown) {
            pre { (content) }
            @if left > 0 {
                p .small { (left) " more characters are in " code { "payloads/" (commitment) ".bin" } }
            }
        }
    }
}

/// The shown part of a payload, and the number of characters left out.
fn content(shown: &Shown) -> Option<(String, usize)> {
    let plain = || shown.text.clone().or_else(|| shown.base64.clone());
    let rest = || (!shown.rest.is_empty()).then(|| pretty(&Json::Object(shown.rest.clone())));
    let whole = shown.json.as_ref().map(pretty).or_else(plain).or_else(rest)?;
    let all = whole.chars().count();
    Some((whole.chars().take(SHOWN_MAX).collect(), all.saturating_sub(SHOWN_MAX)))
}

/// JSON on several lines; strings and numbers as the canonical form writes them.
pub(super) fn pretty(value: &Json) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Json, depth: usize) {
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    match (value.as_object(), value.as_array()) {
        (Some(members), _) if !members.is_empty() => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                newline(out, depth.saturating_add(1));
                out.push_str(&canonical::text(&Json::from(name.as_str())));
                out.push_str(": ");
                write(out, value, depth.saturating_add(1));
            }
            newline(out, depth);
            out.push('}');
        }
        (_, Some(values)) if !values.is_empty() => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                newline(out, depth.saturating_add(1));
                write(out, value, depth.saturating_add(1));
            }
            newline(out, depth);
            out.push(']');
        }
        (_, _) => out.push_str(&canonical::text(value)),
    }
}

/// Spells out characters that are invisible, or that change how others appear.
pub(super) fn visible(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    for c in page.chars() {
        if hides(c) {
            // INVARIANT: writing to a String cannot fail.
            write!(out, "[U+{:04X}]", u32::from(c)).unwrap_or_default();
        } else {
            out.push(c);
        }
    }
    out
}

const fn hides(c: char) -> bool {
    (c.is_ascii_control() && c != '\n')
        || matches!(c,
            '\u{0080}'..='\u{009F}'
            | '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    #[test]
    fn what_hides_or_reorders_is_spelled_out_and_everything_else_is_left_alone() {
        assert_eq!(visible("a\u{202e}b\u{1b}\u{e0041}\n"), "a[U+202E]b[U+001B][U+E0041]\n");
        assert_eq!(visible("Grüße, 東京 €"), "Grüße, 東京 €");
    }

    #[test]
    fn json_is_shown_on_lines_and_keeps_its_numbers() {
        let value =
            Json::parse(br#"{"a":[1,{}],"b":{"c":0.5,"d":"x\ny"}}"#, &Limits::FILE).unwrap();
        let lines = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": 0.5,\n    \"d\": \"x\\ny\"\n  }\n}";
        assert_eq!(pretty(&value), lines);
    }
}
