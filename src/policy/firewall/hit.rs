//! One finding with all that is known about it, and the walk through a document that makes them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use super::kinds::{Class, Confidence, How, UNSCANNED, class_of};
use super::views::Span;
use super::{hygiene, joined, look, spelled, step};
use crate::domain::canonical;
use crate::domain::facts::{Finding, FindingAge};
use crate::domain::json::Json;
use crate::domain::pointer;

/// Findings of one call: sure secrets, other secrets and the rest are counted apart. A further one, of kind
/// `unscanned`, means that some were dropped.
pub const FINDINGS_MAX: usize = 64;

/// One finding, without its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hit {
    /// What it is: a name of [`super::kinds`].
    pub kind: &'static str,
    /// What that is about.
    pub class: Class,
    /// How sure it is.
    pub confidence: Confidence,
    /// How it was written.
    pub how: How,
    /// JSON pointer of the text with it; of a member, if the name of the member has it.
    pub path: String,
    /// Where in that text.
    span: Option<Range<usize>>,
}

impl Hit {
    /// The finding as a policy sees it, in this place and without a mark.
    #[must_use]
    pub fn finding(&self, path: impl Into<String>, since: FindingAge) -> Finding {
        let (confidence, how) = (Some(self.confidence), Some(self.how));
        let (kind, path) = (self.kind.to_owned(), path.into());
        Finding { kind, path, since, confidence, how, mark: None }
    }

    /// The same, of a document that is not the one at hand: nothing has its value.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        Self { span: None, ..self }
    }

    /// What was found, in the document that was looked through: for a keyed mark of it, and nothing
    /// else. `None` for what has no place in one value: a name of a member, several texts.
    #[must_use]
    pub fn value(&self, document: &Json) -> Option<String> {
        let span = self.span.clone()?;
        let text = match at(document, &self.path)? {
            Json::String(text) => text.clone(),
            number @ (Json::Int(_) | Json::Float(_)) => canonical::text(number),
            Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => return None,
        };
        text.get(span).map(str::to_owned)
    }
}

/// Every value of this kind in the text at this place. `None`: some of what is found there has no value of
/// its own: it is in a name, or spread over several texts.
#[must_use]
pub fn values(document: &Json, kind: &str, path: &str) -> Option<Vec<String>> {
    let (mut name, mut is_member, mut value) = (None, false, document);
    for step in pointer::steps(path) {
        match value {
            Json::Object(members) => {
                let (own, below) = members.get_key_value(&step)?;
                (name, is_member, value) = (Some(own.as_str()), true, below);
            }
            Json::Array(items) => {
                (is_member, value) = (false, items.get(step.parse::<usize>().ok()?)?);
            }
            Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {
                return None;
            }
        }
    }
    let (text, is_number) = match value {
        Json::String(text) => (text.clone(), false),
        Json::Int(_) | Json::Float(_) => (canonical::text(value), true),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => return None,
    };
    let is_named = name
        .filter(|_| is_member)
        .is_some_and(|name| look::text(name).spans.iter().any(|span| span.kind == kind));
    let seen = look::member(name, &text, is_number);
    let spans: Vec<Range<usize>> =
        seen.spans.into_iter().filter(|span| span.kind == kind).map(|span| span.range).collect();
    // WHY without the values: one of them with the beginning of the next text is no other secret.
    let mut rest = text.clone().into_bytes();
    for span in &spans {
        rest.get_mut(span.clone())?.fill(b' ');
    }
    let rest = Json::from(String::from_utf8(rest).ok()?);
    let joints = joined::look(&replaced(document, path, &rest));
    // WHY the count: of more than those, the places are not known.
    let is_joined = joints.len() >= FINDINGS_MAX
        || joints.iter().any(|one| one.kind == kind && one.path == path);
    if is_named || is_joined || spans.is_empty() {
        return None;
    }
    spans.into_iter().map(|span| text.get(span).map(str::to_owned)).collect()
}

/// The document with another value in this place.
fn replaced(document: &Json, path: &str, new: &Json) -> Json {
    let Some((first, rest)) = path
        .strip_prefix('/')
        .map(|path| path.find('/').map_or((path, ""), |at| path.split_at(at)))
    else {
        return new.clone();
    };
    match document {
        Json::Object(members) => {
            let one = |(name, value): (&String, &Json)| {
                let is_it = pointer::step(name) == first;
                (name.clone(), if is_it { replaced(value, rest, new) } else { value.clone() })
            };
            Json::Object(members.iter().map(one).collect())
        }
        Json::Array(items) => {
            let one = |(i, value): (usize, &Json)| {
                if i.to_string() == first { replaced(value, rest, new) } else { value.clone() }
            };
            Json::Array(items.iter().enumerate().map(one).collect())
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {
            document.clone()
        }
    }
}

/// The value that a JSON pointer names.
fn at<'j>(document: &'j Json, path: &str) -> Option<&'j Json> {
    pointer::steps(path).try_fold(document, |value, step| match value {
        Json::Object(members) => members.get(&step),
        Json::Array(items) => items.get(step.parse::<usize>().ok()?),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => None,
    })
}

/// The findings in a value, sorted by kind and place; those of one kind in one place are one, the
/// surest.
///
/// If there are more than one call may have, one of kind `unscanned` with an empty path says so.
#[must_use]
pub fn scan(value: &Json) -> Vec<Hit> {
    let mut walk = Walk::default();
    walk.value(None, value, &mut String::new());
    for one in joined::look(value) {
        walk.add(one.kind, one.confidence, How::Joined, (&one.path, None));
    }
    if walk.is_full {
        // WHY joined: work that had an end in the one text of a document has the same place.
        walk.put(UNSCANNED, Confidence::High, How::Joined, ("", None));
    }
    walk.found.into_values().collect()
}

/// Whether a finding says only that there are more than a scan names.
#[must_use]
pub fn is_flood(hit: &Hit) -> bool {
    hit.class == Class::Unscanned && hit.how == How::Joined
}

/// Whether every finding that surely is a secret is among these, however many others were dropped.
#[must_use]
pub fn names_every_secret(hits: &[Hit]) -> bool {
    let sure = |hit: &&Hit| Rank::of(hit.kind, hit.confidence) == Rank::Sure && !is_flood(hit);
    hits.iter().filter(sure).count() < FINDINGS_MAX
}

/// What is counted apart, so that many findings of one rank leave out none of another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// A secret that surely is one, or work that had an end.
    Sure,
    /// A secret that may well be none.
    Weak,
    /// Everything else.
    Other,
}

impl Rank {
    fn of(kind: &str, confidence: Confidence) -> Self {
        match (class_of(kind), confidence) {
            (Some(Class::Secret | Class::Unscanned), Confidence::High) => Self::Sure,
            (Some(Class::Secret), Confidence::Low) => Self::Weak,
            (Some(Class::Unscanned), Confidence::Low)
            | (Some(Class::Personal | Class::Injection | Class::Unicode) | None, _) => Self::Other,
        }
    }
}

/// How many findings there are of each rank.
#[derive(Default)]
struct Counts {
    sure: usize,
    weak: usize,
    other: usize,
}

impl Counts {
    fn of(&mut self, rank: Rank) -> &mut usize {
        match rank {
            Rank::Sure => &mut self.sure,
            Rank::Weak => &mut self.weak,
            Rank::Other => &mut self.other,
        }
    }
}

/// A walk through a document.
#[derive(Default)]
struct Walk {
    found: BTreeMap<(&'static str, String), Hit>,
    counts: Counts,
    /// Some findings were dropped.
    is_full: bool,
}

impl Walk {
    fn value(&mut self, name: Option<&str>, value: &Json, path: &mut String) {
        match value {
            Json::String(text) => self.note(look::member(name, text, false), path, true),
            Json::Int(_) | Json::Float(_) => {
                self.note(look::member(name, &canonical::text(value), true), path, true);
            }
            Json::Array(items) => {
                for text in spelled(items) {
                    self.note(look::text(&text), path, false);
                }
                for (i, item) in items.iter().enumerate() {
                    step(path, &i.to_string(), |path| self.value(name, item, path));
                }
            }
            Json::Object(members) => {
                for (name, item) in members {
                    step(path, &pointer::step(name), |path| {
                        self.note(look::text(name), path, false);
                        self.value(Some(name), item, path);
                    });
                }
            }
            Json::Null | Json::Bool(_) => {}
        }
    }

    /// Notes what a text has. `is_value`: whether it is the text in this place.
    fn note(&mut self, seen: look::TextFindings, path: &str, is_value: bool) {
        // A text of a MiB may have a hidden character at every other place: one of them counts.
        let mut newest: Option<(&str, Confidence, How)> = None;
        for Span { kind, confidence, how, range } in seen.spans {
            if newest.replace((kind, confidence, how)) == Some((kind, confidence, how)) {
                continue;
            }
            let span = is_value.then_some(range);
            self.add(kind, confidence, how, (path, span));
        }
        if seen.opaque {
            self.add(UNSCANNED, Confidence::Low, How::Plain, (path, None));
        }
        if seen.over {
            self.add(UNSCANNED, Confidence::High, How::Plain, (path, None));
        }
    }

    fn add(
        &mut self,
        kind: &'static str,
        sure: Confidence,
        how: How,
        at: (&str, Option<Range<usize>>),
    ) {
        let rank = Rank::of(kind, sure);
        let known = self.found.get(&(kind, at.0.to_owned()));
        if known.is_none_or(|known| Rank::of(kind, known.confidence) != rank) {
            let count = self.counts.of(rank);
            if *count >= FINDINGS_MAX {
                self.is_full = true;
                return;
            }
            *count += 1;
        }
        self.put(kind, sure, how, at);
    }

    fn put(
        &mut self,
        kind: &'static str,
        confidence: Confidence,
        how: How,
        at: (&str, Option<Range<usize>>),
    ) {
        let (path, span) = (at.0.to_owned(), at.1);
        let class = class_of(kind).unwrap_or(Class::Unscanned);
        let hit = Hit { kind, class, confidence, how, path: path.clone(), span };
        match self.found.entry((kind, path)) {
            Entry::Vacant(place) => {
                place.insert(hit);
            }
            Entry::Occupied(mut known) => {
                let rank = |one: &Hit| (one.confidence, one.how);
                if rank(&hit) < rank(known.get()) {
                    known.insert(hit);
                }
            }
        }
    }
}

/// The value without characters that no person reads, and how many stretches of them there were; `None`
/// if it has none.
#[must_use]
pub fn strip(value: &Json) -> Option<(Json, u64)> {
    let count = std::cell::Cell::new(0_u64);
    let without = |text: &str| {
        let (text, removed) = hygiene::stripped(text)?;
        count.set(count.get().saturating_add(removed));
        Some(text)
    };
    let stripped = super::map_text(value, &without);
    (count.get() > 0).then_some((stripped, count.get()))
}

/// As [`strip`], of a text.
#[must_use]
pub fn strip_text(text: &str) -> Option<(String, u64)> {
    hygiene::stripped(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap()
    }

    #[test]
    fn every_value_of_a_kind_in_one_text_is_named_or_none_is() {
        let of = |text: &str, path: &str| values(&json(text), "email", path);
        let some = |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        let text = r#"{"a":{"b/c":["x","to ann@example.com and bo@example.com"]}}"#;
        assert_eq!(of(text, "/a/b~1c/1"), some(&["ann@example.com", "bo@example.com"]));
        // Another place, and what is no text.
        for path in ["/a/b~1c/0", "/a/b~1c/2", "/a/b~1c", "/a", "", "/x"] {
            assert_eq!(of(text, path), None, "{path}");
        }
        // The name of the member has one too: no value covers that.
        assert_eq!(of(r#"{"ann@example.com":"bo@example.com"}"#, "/ann@example.com"), None);
    }

    #[test]
    fn what_begins_in_a_text_and_ends_in_the_next_is_covered_by_no_value_before_it() {
        let token = |n: u8| {
            format!("ghp_{}", "b7Qk2Zr9Xw4Lm1Nc8Vd5Ht3Py6Js0Fg2Ra4e".replace('b', &n.to_string()))
        };
        let (first, second) = (token(1), token(2));
        let whole = json(&format!(r#"{{"a":"see {first}","b":"next words"}}"#));
        assert_eq!(values(&whole, "github", "/a"), Some(vec![first.clone()]));
        let (head, tail) = second.split_at(20);
        let split = json(&format!(r#"{{"a":"{first} {head}","b":"{tail}"}}"#));
        assert_eq!(values(&split, "github", "/a"), None);
    }
}
