//! Texts that people read use the words of the field.

use std::collections::BTreeMap;

use regex::Regex;

use crate::source::{Source, quotes};

/// Words of this house alone; `docs` holds the help of the command line to the same list.
const PRIVATE: &str = r"(?i)\b(?:books|office|desk|door|staff|whoever|somebody|nobody|anybody|everybody|told|heard|rehearse\w*|prologue|curtain|words? counts?)\b";

/// Rooms whose texts still have such words, and how many: a number here can only fall, and a room that has none leaves.
const LEFT: [(&str, usize); 7] = [
    ("app", 8),
    ("catalog", 3),
    ("config", 7),
    ("faces", 11),
    ("gate", 23),
    ("policy", 4),
    ("verify", 54),
];

/// Texts with a blank between quotes: names of members and codes have none.
fn texts(source: &Source) -> impl Iterator<Item = (usize, String)> {
    let placeholder = Regex::new(r"\{[^{} ]*\}").unwrap();
    let texts = quotes(source.without_tests()).into_iter();
    texts
        .map(move |(line, text)| (line, placeholder.replace_all(&text, "").into_owned()))
        .filter(|(_, text)| text.contains(' '))
}

/// Private words in texts of the product.
pub fn private_words(tree: &[Source]) -> Vec<String> {
    let private = Regex::new(PRIVATE).unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in tree.iter().filter(|source| source.is_product()) {
        let room = source.path.split('/').nth(1).unwrap_or_default().trim_end_matches(".rs");
        for (line, text) in texts(source) {
            for word in private.find_iter(&text) {
                let place = format!("{}:{line}: `{}` in {text}", source.path, word.as_str());
                found.entry(room.to_owned()).or_default().push(place);
            }
        }
    }
    let mut wrong = Vec::new();
    for (room, places) in &found {
        let allowed = LEFT.iter().find(|(left, _)| left == room).map_or(0, |(_, count)| *count);
        if places.len() > allowed {
            wrong.push(format!("{room} has {} and may have {allowed}", places.len()));
            wrong.extend(places.iter().take(10).cloned());
        }
    }
    // A tree of one file, in a test of this rule, has not all rooms.
    let whole = tree.iter().any(|source| source.path == "src/lib.rs");
    let stale = LEFT.iter().filter(|(room, _)| whole && !found.contains_key(*room));
    wrong.extend(stale.map(|(room, _)| format!("{room} has none now: take it off the list")));
    wrong
}

#[test]
fn a_private_word_in_a_text_is_found() {
    for text in [
        "say(\"it is on the books\");",
        "say(\"ask the \\\n    office first\");",
        "fail(r\"nobody is told\");",
        "say(\"THE WORD COUNTS\");",
    ] {
        assert!(!private_words(&[Source::of("src/cli/a.rs", text)]).is_empty(), "{text}");
    }
    for text in [
        "// nobody is told\nfn told() {}",
        "json!({\"told\": 1})",
        "say(\"{told} of {nobody}\");",
        "#[cfg(test)]\nmod tests {\n    fn a() { b(\"nobody is told\") }\n}\n",
    ] {
        let wrong = private_words(&[Source::of("src/cli/a.rs", text)]);
        assert_eq!(wrong, Vec::<String>::new(), "{text}");
    }
}
