//! What must not travel unseen: personal data by checksum and shape, found in arguments, masked in
//! results.
//!
//! The firewall scans a text as it is written and as a recipient would decode it, in one pass for each
//! way to read it: a view opens only where the text shows what it is for. Every scan is linear and
//! bounded; it reports what it cannot finish, and what is encoded and holds no text, as `unscanned`, and
//! a policy may deny it.

mod address;
mod apart;
mod digests;
mod fold;
mod hit;
mod hygiene;
mod joined;
mod kinds;
mod letters;
mod look;
mod own;
mod patterns;
mod personal;
mod plain;
#[cfg(test)]
mod recall;
mod rules;
#[cfg(test)]
mod samples;
mod shape;
mod shapes;
mod special;
mod steering;
mod views;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::canonical;
use crate::domain::facts::{Finding, FindingAge};
use crate::domain::json::Json;
use crate::domain::pointer;

pub use hit::{FINDINGS_MAX, Hit, is_flood, names_every_secret, scan, strip, strip_text, values};
pub use kinds::{Class, Confidence, How, KindRow, class_of, kinds, rules_digest};
pub use own::{
    MIB_MS, OwnRules, RuleError, RuleFile, RuleForm, document_in_force, install, is_own,
};
pub use window::{RedactWindow, Unmaskable};

use kinds::UNSCANNED;
use views::Span;

/// The kinds of the first rules: what a recorded input names that has no digest of its rules.
pub const KINDS: [&str; 4] = ["card", "email", "iban", "us_ssn"];
/// Passes of masking over a value until it has no finding.
const PASSES_MAX: usize = 4;
/// Items of a list that could spell something.
const SPELLED_MIN: usize = 6;

/// Whether a policy may ask for this kind to be masked.
#[must_use]
pub fn is_kind(kind: &str) -> bool {
    class_of(kind).is_some_and(|class| class != Class::Unscanned)
}

/// The findings with their places (JSON pointer), without the values, sorted by kind and place.
pub fn findings(value: &Json) -> Vec<Finding> {
    findings_of(&scan(value))
}

/// The findings of a scan, sorted by kind and place.
fn findings_of(hits: &[Hit]) -> Vec<Finding> {
    let found = hits.iter().map(|hit| hit.finding(hit.path.clone(), FindingAge::New));
    found.collect::<BTreeSet<Finding>>().into_iter().collect()
}

/// No more findings than one call may have; if some are dropped, one of kind `unscanned` says so.
pub fn bounded(found: BTreeSet<Finding>) -> Vec<Finding> {
    let dropped = found.len() > FINDINGS_MAX;
    let mut all: Vec<Finding> = found.into_iter().take(FINDINGS_MAX).collect();
    if dropped {
        all.push(Finding::new(UNSCANNED, ""));
        all.sort();
    }
    all
}

fn step(path: &mut String, name: &str, run: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(name);
    run(path);
    path.truncate(length);
}

/// What a list of letters or of bytes spells, if it could be one: its numbers, and the text of those.
fn spelled(items: &[Json]) -> Vec<String> {
    if items.len() < SPELLED_MIN {
        return Vec::new();
    }
    let bytes = items.iter().map(|item| item.as_u64().and_then(|byte| u8::try_from(byte).ok()));
    if let Some(bytes) = bytes.collect::<Option<Vec<u8>>>() {
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let text = String::from_utf8(bytes).ok();
        return [numbers.join(",")].into_iter().chain(text).collect();
    }
    let letter =
        |item: &Json| item.as_str().filter(|text| text.chars().nth(1).is_none()).map(str::to_owned);
    items.iter().map(letter).collect::<Option<String>>().into_iter().collect()
}

/// What was looked through for some kinds of findings.
#[derive(Clone, PartialEq, Debug)]
pub struct Redacted<T> {
    /// The value, with every finding of these kinds replaced by `[REDACTED:kind]`.
    pub value: T,
    /// Places that were.
    pub masked: u64,
    /// It holds something that the scan could not read.
    pub unscanned: bool,
}

/// The value with every finding of these kinds masked; `None` if it cannot be masked.
///
/// Member names are masked too. A number that is a finding becomes the mask as text, and so does a list of
/// letters or bytes that spells one.
#[must_use]
pub fn redact(value: &Json, kinds: &[String]) -> Option<Redacted<Json>> {
    redact_sparing(value, kinds, &SparedPlaces::new())
}

/// Kinds and places whose findings stay as they are.
pub type SparedPlaces = BTreeSet<(String, String)>;

/// As [`redact`], without the findings in these places.
#[must_use]
pub fn redact_sparing(
    value: &Json,
    kinds: &[String],
    spared: &SparedPlaces,
) -> Option<Redacted<Json>> {
    let once = |value: &Json, mask: &mut Mask<'_>| mask.value(None, value, &mut String::new());
    masked(value.clone(), once, (kinds, spared))
}

/// As `redact`, of a text.
#[must_use]
pub fn redact_text(text: &str, kinds: &[String]) -> Option<Redacted<String>> {
    let once = |text: &String, mask: &mut Mask<'_>| mask.text(text).unwrap_or_else(|| text.clone());
    masked(text.to_owned(), once, (kinds, &SparedPlaces::new()))
}

/// WHY more than once: the text around a mask may itself become a finding.
fn masked<T>(
    first: T,
    once: impl Fn(&T, &mut Mask<'_>) -> T,
    (kinds, spared): (&[String], &SparedPlaces),
) -> Option<Redacted<T>> {
    let mut done = Redacted { value: first, masked: 0, unscanned: false };
    for _ in 0..PASSES_MAX {
        let mut mask = Mask { spared: Some(spared), ..Mask::of(kinds) };
        let value = once(&done.value, &mut mask);
        done.unscanned |= mask.unscanned;
        if mask.masked == 0 {
            return Some(done);
        }
        done.value = value;
        done.masked = done.masked.saturating_add(mask.masked);
    }
    None
}

/// One pass over a value.
struct Mask<'a> {
    kinds: &'a [String],
    /// Where findings of a kind stay; `None`: nowhere.
    spared: Option<&'a SparedPlaces>,
    masked: u64,
    unscanned: bool,
}

impl<'a> Mask<'a> {
    const fn of(kinds: &'a [String]) -> Self {
        Self { kinds, spared: None, masked: 0, unscanned: false }
    }
}

impl Mask<'_> {
    fn value(&mut self, name: Option<&str>, value: &Json, path: &mut String) -> Json {
        match value {
            Json::String(text) => {
                let seen = self.unspared(look::member(name, text, false), path);
                self.spans(text, seen).map_or_else(|| value.clone(), Json::String)
            }
            Json::Int(_) | Json::Float(_) => {
                let text = canonical::text(value);
                let seen = self.unspared(look::member(name, &text, true), path);
                self.spans(&text, seen).map_or_else(|| value.clone(), Json::String)
            }
            Json::Array(items) => match spelled(items).iter().find_map(|text| self.first(text)) {
                Some(mask) => Json::String(mask),
                None => {
                    let mut masked = Vec::with_capacity(items.len());
                    for (i, item) in items.iter().enumerate() {
                        step(path, &i.to_string(), |path| {
                            masked.push(self.value(name, item, path));
                        });
                    }
                    Json::Array(masked)
                }
            },
            Json::Object(members) => {
                let mut out = BTreeMap::new();
                for (name, item) in members {
                    let mut masked = self.text(name).unwrap_or_else(|| name.clone());
                    // Two names may become one mask; keep both values.
                    while out.contains_key(&masked) {
                        masked.push('+');
                    }
                    step(path, &pointer::step(name), |path| {
                        out.insert(masked, self.value(Some(name), item, path));
                    });
                }
                Json::Object(out)
            }
            Json::Null | Json::Bool(_) => value.clone(),
        }
    }

    /// What is to be masked of what the text in this place has.
    fn unspared(&self, mut seen: look::TextFindings, path: &str) -> look::TextFindings {
        if let Some(spared) = self.spared.filter(|spared| !spared.is_empty()) {
            seen.spans.retain(|one| !spared.contains(&(one.kind.to_owned(), path.to_owned())));
        }
        seen
    }

    /// The text masked; `None` if there is nothing to mask.
    fn text(&mut self, text: &str) -> Option<String> {
        self.spans(text, look::text(text))
    }

    fn wants(&self, kind: &str) -> bool {
        self.kinds.iter().any(|wanted| wanted == kind)
    }

    /// The mask of the first finding in the text that a list spells.
    fn first(&mut self, text: &str) -> Option<String> {
        let seen = look::text(text);
        self.unscanned |= seen.unscanned();
        let kind = seen.spans.into_iter().find(|one| self.wants(one.kind))?.kind;
        self.masked = self.masked.saturating_add(1);
        Some(format!("[REDACTED:{kind}]"))
    }

    fn spans(&mut self, text: &str, seen: look::TextFindings) -> Option<String> {
        self.unscanned |= seen.unscanned();
        let mut spans = seen.spans;
        spans.retain(|one| self.wants(one.kind));
        // Where several begin, the longest counts: it contains the others.
        spans.sort_by_key(|one| (one.range.start, std::cmp::Reverse(one.range.end)));
        let (mut out, mut at, mut masked) = (String::with_capacity(text.len()), 0, 0_u64);
        for Span { kind, range: span, .. } in spans {
            if masked == 0 || span.start >= at {
                out.push_str(text.get(at..span.start).unwrap_or_default());
                out.push_str("[REDACTED:");
                out.push_str(kind);
                out.push(']');
                masked = masked.saturating_add(1);
            }
            at = at.max(span.end);
        }
        if masked == 0 {
            return None;
        }
        self.masked = self.masked.saturating_add(masked);
        out.push_str(text.get(at..).unwrap_or_default());
        Some(out)
    }
}

/// The value with every text, member name and number replaced for which `change` gives a new text.
pub fn map_text(value: &Json, change: &dyn Fn(&str) -> Option<String>) -> Json {
    match value {
        Json::String(text) => change(text).map_or_else(|| value.clone(), Json::String),
        Json::Int(_) | Json::Float(_) => {
            change(&canonical::text(value)).map_or_else(|| value.clone(), Json::String)
        }
        Json::Array(items) => Json::Array(items.iter().map(|i| map_text(i, change)).collect()),
        Json::Object(members) => {
            let mut out = BTreeMap::new();
            for (name, item) in members {
                let mut masked = change(name).unwrap_or_else(|| name.clone());
                // Two names may become one mask; keep both values.
                while out.contains_key(&masked) {
                    masked.push('+');
                }
                out.insert(masked, map_text(item, change));
            }
            Json::Object(out)
        }
        Json::Null | Json::Bool(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap()
    }

    fn seen(text: &str) -> Vec<(String, String)> {
        findings(&json(text)).into_iter().map(|f| (f.kind, f.path)).collect()
    }

    #[test]
    fn findings_say_kind_and_place_and_never_the_value() {
        let found = seen(
            r#"{"to":"Ann <ann@example.com>","pay":[{"card":4111111111111111},
               {"n~a/b":"4111 1111 1111 1111"}],"iban":"DE89 3704 0044 0532 0130 00",
               "ssn":"219-09-9999","x@example.org":1}"#,
        );
        let wanted = [
            ("card", "/pay/0/card"),
            ("card", "/pay/1/n~0a~1b"),
            ("email", "/to"),
            ("email", "/x@example.org"),
            ("iban", "/iban"),
            ("us_ssn", "/ssn"),
        ];
        assert_eq!(found, wanted.map(|(k, p)| (k.to_owned(), p.to_owned())));
    }

    #[test]
    fn only_the_requested_kinds_are_masked() {
        let value = json(
            r#"{"a":"mail ann@example.com, card 4111-1111-1111-1111.","b":4111111111111111,"c":5}"#,
        );
        let masked = redact(&value, &["card".into()]).unwrap();
        assert_eq!((masked.masked, masked.unscanned), (2, false));
        assert_eq!(
            canonical::text(&masked.value),
            r#"{"a":"mail ann@example.com, card [REDACTED:card].","b":"[REDACTED:card]","c":5}"#
        );
        assert_eq!(redact(&value, &[]).unwrap().value, value);
        let names = json(r#"{"a@example.com":1,"b@example.com":2}"#);
        let names = redact(&names, &["email".into()]).unwrap().value;
        assert_eq!(names.as_object().unwrap().len(), 2);
        assert!(!canonical::text(&names).contains("example"));
    }

    #[test]
    fn a_flood_of_findings_is_bounded_and_says_so() {
        let many: Vec<String> = (0..500).map(|i| format!("\"u{i}@example.com\"")).collect();
        let found = seen(&format!("[{}]", many.join(",")));
        assert_eq!(found.len(), FINDINGS_MAX + 1);
        assert!(found.iter().any(|(kind, _)| kind == "unscanned"));
    }
}
