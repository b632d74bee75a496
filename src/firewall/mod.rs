//! What must not travel unseen: personal data by checksum and shape, found in arguments, masked in
//! results.
//!
//! Small on purpose: kinds whose shape or checksum says what they are. Every scan is linear and
//! bounded; what a scan cannot finish is reported as `unscanned`, and a policy may deny it.

mod rules;

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::canonical;
use crate::domain::json::Json;
use crate::domain::pointer;
use crate::domain::prepared::Finding;

/// Every kind of finding.
pub const KINDS: [&str; 4] = ["card", "email", "iban", "us_ssn"];
/// Findings of one call; one more, of kind `unscanned`, says that there were others.
const FINDINGS_MAX: usize = 64;

/// Whether a policy may ask for this kind to be masked.
#[must_use]
pub fn is_kind(kind: &str) -> bool {
    KINDS.contains(&kind)
}

/// What was seen and where (JSON pointer), without the value, sorted by kind and place.
#[must_use]
pub fn findings(value: &Json) -> Vec<Finding> {
    let mut found = BTreeSet::new();
    look(value, &mut String::new(), &mut found);
    found.into_iter().collect()
}

fn look(value: &Json, path: &mut String, found: &mut BTreeSet<Finding>) {
    if found.len() > FINDINGS_MAX {
        return;
    }
    match value {
        Json::String(text) => note(text, path, found),
        Json::Int(_) | Json::Float(_) => note(&canonical::text(value), path, found),
        Json::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                step(path, &i.to_string(), |path| look(item, path, found));
            }
        }
        Json::Object(members) => {
            for (name, item) in members {
                step(path, &pointer::step(name), |path| {
                    note(name, path, found);
                    look(item, path, found);
                });
            }
        }
        Json::Null | Json::Bool(_) => {}
    }
}

fn step(path: &mut String, name: &str, run: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(name);
    run(path);
    path.truncate(length);
}

fn note(text: &str, path: &str, found: &mut BTreeSet<Finding>) {
    for hit in rules::scan(text) {
        if found.len() >= FINDINGS_MAX {
            found.insert(Finding { kind: "unscanned".into(), path: String::new() });
            return;
        }
        found.insert(Finding { kind: hit.kind.into(), path: path.to_owned() });
    }
}

/// The value with every finding of these kinds replaced by `[REDACTED:kind]`.
///
/// Member names are masked too. A number that is a finding becomes the mask as text.
#[must_use]
pub fn redact(value: &Json, kinds: &[String]) -> Json {
    map_text(value, &|text| {
        let hits = rules::scan(text);
        let wanted = |hit: &&rules::Hit| kinds.iter().any(|kind| kind == hit.kind);
        let mut spans: Vec<_> = hits.iter().filter(wanted).collect();
        spans.sort_by_key(|hit| hit.start);
        if spans.is_empty() {
            return None;
        }
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for hit in spans.into_iter() {
            if hit.start >= at {
                out.push_str(text.get(at..hit.start).unwrap_or_default());
                out.push_str("[REDACTED:");
                out.push_str(hit.kind);
                out.push(']');
            }
            at = at.max(hit.end);
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Some(out)
    })
}

/// The value with every text, member name and number for which `change` gives a new text replaced.
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
                // Two names may become one mask; none of the values is lost for that.
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
    fn only_the_asked_kinds_are_masked() {
        let value = json(
            r#"{"a":"mail ann@example.com, card 4111-1111-1111-1111.","b":4111111111111111,"c":5}"#,
        );
        let masked = redact(&value, &["card".into()]);
        assert_eq!(
            canonical::text(&masked),
            r#"{"a":"mail ann@example.com, card [REDACTED:card].","b":"[REDACTED:card]","c":5}"#
        );
        assert_eq!(redact(&value, &[]), value);
        let names = redact(&json(r#"{"a@example.com":1,"b@example.com":2}"#), &["email".into()]);
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
