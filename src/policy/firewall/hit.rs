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
        for Span { kind, confidence, how, range } in seen.spans {
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
