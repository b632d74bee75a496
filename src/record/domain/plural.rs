//! Counts with their nouns, for messages.

use std::fmt::Display;

/// A count with its noun, in the plural unless the count is one.
#[must_use]
pub fn many(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    if count == "1" {
        return format!("1 {noun}");
    }
    let stem = |end: &str| noun.strip_suffix(end);
    let vowel = |stem: &str| stem.ends_with(['a', 'e', 'o', 'u']);
    if let Some(stem) = stem("person") {
        format!("{count} {stem}people")
    } else if let Some(stem) = stem("y").filter(|stem| !vowel(stem)) {
        format!("{count} {stem}ies")
    } else if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) {
        format!("{count} {noun}es")
    } else {
        format!("{count} {noun}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_agrees_with_its_count() {
        for (count, noun, text) in [
            (0, "call", "0 calls"),
            (1, "call", "1 call"),
            (2, "call", "2 calls"),
            (1, "entry", "1 entry"),
            (3, "entry", "3 entries"),
            (2, "day", "2 days"),
            (2, "witness", "2 witnesses"),
            (2, "hash", "2 hashes"),
            (1, "person", "1 person"),
            (2, "person", "2 people"),
        ] {
            assert_eq!(many(count, noun), text);
        }
    }
}
