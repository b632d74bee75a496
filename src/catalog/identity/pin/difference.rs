//! Where a text leaves the pinned text that is closest to it.

use super::super::templates::{InstructionTemplate, is_hole};
use super::diff::common;
use super::tokens::tokens;
use super::{SHARED_MIN, shared_bytes};

/// Characters that are shown on each side of a difference.
const AROUND: usize = 32;

/// A text that an entry of the manifest pins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinnedText {
    /// Index of the entry in `spec.instructions`.
    pub entry: usize,
    /// The text, or the template.
    pub text: String,
    /// Whether the text is a template.
    pub is_template: bool,
}

/// The first place where a text differs from a pinned one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextDifference {
    /// Index of the entry in `spec.instructions`.
    pub entry: usize,
    /// Line of the place in the text that was seen, from 1.
    pub line: usize,
    /// Column of the place, in characters from 1.
    pub column: usize,
    /// The pinned text around the place.
    pub pinned: String,
    /// The text that was seen, around the place.
    pub seen: String,
}

/// Compares a text with the pinned one that is closest to it. `None`: no pinned text is close.
#[must_use]
pub fn difference(seen: &str, pinned: &[PinnedText]) -> Option<TextDifference> {
    let shared = pinned.iter().filter_map(|one| Some((shared_bytes(&one.text, seen)?, one)));
    let close = shared.filter(|(shared, one)| {
        let least = seen.len().min(one.text.len());
        *shared > 0 && shared.saturating_mul(100) >= least.saturating_mul(SHARED_MIN)
    });
    // The former of two that are equally close.
    let (_, closest) = close.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let (at_pinned, at_seen) = first(closest, seen)?;
    let before = seen.get(..at_seen)?;
    let line = before.matches('\n').count().saturating_add(1);
    let behind_break = before.rsplit('\n').next().unwrap_or_default();
    Some(TextDifference {
        entry: closest.entry,
        line,
        column: behind_break.chars().count().saturating_add(1),
        pinned: around(&closest.text, at_pinned),
        seen: around(seen, at_seen),
    })
}

/// The bytes at which both texts part.
fn first(pinned: &PinnedText, seen: &str) -> Option<(usize, usize)> {
    let (one, other) = (tokens(&pinned.text), tokens(seen));
    let mut pairs = common(&one, &other)?;
    pairs.push((one.len(), other.len()));
    let (mut x, mut y) = (0_usize, 0_usize);
    let (mut at_pinned, mut at_seen) = (0_usize, 0_usize);
    for (next_x, next_y) in pairs {
        let (left, right) = (one.get(x..next_x)?.concat(), other.get(y..next_y)?.concat());
        let is_filled = pinned.is_template && fills(&left, &right);
        if left != right && !is_filled {
            let same = left.char_indices().zip(right.chars()).find(|((_, a), b)| a != b);
            let least = left.len().min(right.len());
            // A hole is shown from its braces on.
            let same =
                if is_hole(&left).is_some() { 0 } else { same.map_or(least, |((at, _), _)| at) };
            return Some((at_pinned.saturating_add(same), at_seen.saturating_add(same)));
        }
        let piece = |all: &[&str], at: usize| all.get(at).map_or(0, |piece| piece.len());
        at_pinned = at_pinned.saturating_add(left.len()).saturating_add(piece(&one, next_x));
        at_seen = at_seen.saturating_add(right.len()).saturating_add(piece(&other, next_y));
        (x, y) = (next_x.saturating_add(1), next_y.saturating_add(1));
    }
    None
}

/// Whether a text fills the holes of this part of a template.
fn fills(part: &str, text: &str) -> bool {
    // A template needs fixed text: these characters stand for what surrounds the part.
    let template = InstructionTemplate::parse(format!("\u{2}{part}\u{3}").as_bytes());
    template.is_ok_and(|read| read.loose_bytes(&format!("\u{2}{text}\u{3}")).is_some())
}

/// The text around a place, with the ends that are left out marked.
fn around(text: &str, at: usize) -> String {
    let (before, behind) = text.split_at_checked(at).unwrap_or((text, ""));
    let begin = before.char_indices().rev().nth(AROUND.saturating_sub(1)).map_or(0, |(at, _)| at);
    let end = behind.char_indices().nth(AROUND).map_or(behind.len(), |(at, _)| at);
    let (shown, rest) =
        (before.get(begin..).unwrap_or_default(), behind.get(..end).unwrap_or_default());
    let left = if begin > 0 { "…" } else { "" };
    let right = if end < behind.len() { "…" } else { "" };
    format!("{left}{shown}{rest}{right}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str =
        "You are a careful assistant.\nAnswer in one sentence, and say when you do not know.";

    fn pinned(texts: &[(&str, bool)]) -> Vec<PinnedText> {
        let all = texts.iter().enumerate();
        all.map(|(entry, (text, is_template))| PinnedText {
            entry,
            text: (*text).to_owned(),
            is_template: *is_template,
        })
        .collect()
    }

    #[test]
    fn the_first_place_is_named_with_both_texts_around_it() {
        let all = pinned(&[("Something else entirely, about birds.", false), (GUIDE, false)]);
        let seen = GUIDE.replace("one sentence", "two sentences");
        let found = difference(&seen, &all).unwrap();
        assert_eq!((found.entry, found.line, found.column), (1, 2, 11));
        let expected = "… a careful assistant.\nAnswer in one sentence, and say when you d…";
        assert_eq!(found.pinned, expected);
        assert!(found.seen.contains("Answer in two sentences, and"), "{found:?}");
        let longer = format!("{GUIDE} And be quick.");
        let found = difference(&longer, &all).unwrap();
        assert!(found.pinned.ends_with("when you do not know."), "{found:?}");
        assert!(found.seen.ends_with("know. And be quick."), "{found:?}");
    }

    #[test]
    fn holes_of_a_template_are_no_difference_where_they_are_filled() {
        let form = "In {{path}} on {{date}}, as {{word}}: do not touch other files.";
        let all = pinned(&[(form, true)]);
        let seen = "In /home/a on 2026-11-27, as root: do touch other files.";
        let found = difference(seen, &all).unwrap();
        assert!(found.seen.starts_with("…"), "{found:?}");
        assert_eq!((found.line, found.column), (1, 38));
        let found = difference("In /home/a on some day, as root: do not touch other files.", &all);
        let found = found.unwrap();
        assert_eq!(found.column, 15);
        assert!(found.pinned.contains("on {{date}}, as"), "{found:?}");
        // As a fixed text it differs at its first brace.
        let fixed = pinned(&[(form, false)]);
        assert_eq!(difference(seen, &fixed).unwrap().column, 4);
    }

    #[test]
    fn texts_that_share_little_are_not_compared() {
        let all = pinned(&[(GUIDE, false)]);
        assert_eq!(difference("Generate a short title for the conversation.", &all), None);
        assert_eq!(difference("anything", &[]), None);
        assert_eq!(difference(GUIDE, &all), None);
    }
}
