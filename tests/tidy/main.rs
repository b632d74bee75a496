//! The rules of the house, as a test: each rule reads the tree and says what breaks it.
//!
//! Every rule has a test of its own that shows it can fail; `the_house_is_tidy` applies all of them to
//! the tree as it is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may stop at the first surprise"
)]

mod alerts;
mod dependencies;
mod dialects;
mod glossary;
mod layers;
mod names;
mod shape;
mod source;
mod words;

use source::Source;

/// A rule: what is wrong with these files, one sentence each.
type Rule = fn(&[Source]) -> Vec<String>;

const RULES: [(&str, Rule); 19] = [
    ("glossary", glossary::private_words),
    ("layers", layers::order),
    ("faces without stores", layers::stores),
    ("dialects behind their modules", dialects::forks),
    ("confined words", words::confined),
    ("leftovers", words::leftovers),
    ("sleeping tests", words::sleeps),
    ("absent by chance", words::by_chance),
    ("machine names", words::machine_names),
    ("type names", shape::type_names),
    ("one definition", names::defined_once),
    ("file names", shape::file_names),
    ("file length", shape::length),
    ("reachable files", shape::reachable),
    ("folder essays", shape::essays),
    ("direct dependencies", dependencies::direct),
    ("versions in one place", dependencies::versions),
    ("alerts of refusals", alerts::classified),
    ("locked dependencies", dependencies::locked),
];

#[test]
fn the_house_is_tidy() {
    let tree = source::tree();
    assert!(tree.iter().any(|s| s.path == "src/lib.rs"), "the tree was not read");
    let wrong: Vec<String> = RULES
        .iter()
        .flat_map(|(name, rule)| rule(&tree).into_iter().map(move |why| format!("{name}: {why}")))
        .collect();
    assert!(wrong.is_empty(), "{} broken rules:\n{}", wrong.len(), wrong.join("\n"));
}
