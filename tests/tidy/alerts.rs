//! Every finer code of a refusal is classified: it asks for an alert, or for none.

use std::collections::BTreeSet;

use regex::Regex;

use crate::source::Source;

/// The table of codes.
const TABLE: &str = "src/record/alert/signals.rs";
/// Where refusals of the gate itself are made.
const ROOMS: [&str; 3] = ["src/gate/tool/", "src/gate/judge/", "src/catalog/"];
/// Kinds of tools, and texts that are no codes.
const OTHERS: [&str; 3] = ["file.read", "file.list", "file.write"];
/// Codes that the flow of labels gives.
const FLOW: &str = "flow.";

fn codes(text: &str) -> BTreeSet<String> {
    let families = "command|dlp|fetch|file|firewall|flow|grpc|http|mcp|model|pre_image|prepare|sql";
    let code = Regex::new(&format!(r#""((?:{families})\.[a-z_]+)""#)).unwrap();
    code.captures_iter(text).map(|seen| seen[1].to_owned()).collect()
}

/// Codes that the table lacks, and those of the table that nothing gives.
pub fn classified(tree: &[Source]) -> Vec<String> {
    let table = tree.iter().filter(|source| source.path == TABLE);
    let table: BTreeSet<String> = table.flat_map(|source| codes(source.without_tests())).collect();
    let rooms = tree.iter().filter(|source| ROOMS.iter().any(|room| source.path.starts_with(room)));
    let mut given: BTreeSet<String> =
        rooms.flat_map(|source| codes(source.without_tests())).collect();
    given.retain(|code| !OTHERS.contains(&code.as_str()));
    let lacks = given.difference(&table);
    let lacks = lacks.map(|code| format!("`{code}` is not classified in {TABLE}"));
    let stale = table.difference(&given).filter(|code| !code.starts_with(FLOW));
    lacks.chain(stale.map(|code| format!("{TABLE}: nothing gives `{code}`"))).collect()
}

#[test]
fn a_code_that_is_not_classified_is_found() {
    let table = |codes: &str| Source::of(TABLE, codes);
    let gives = |text: &str| Source::of("src/gate/tool/file/mod.rs", text);
    let both = [table("(\"file.new\", None)"), gives("reason(\"file.new\", why)")];
    assert_eq!(classified(&both), Vec::<String>::new());
    assert_eq!(classified(&[table(""), gives("reason(\"file.new\", why)")]).len(), 1);
    assert_eq!(classified(&[table("(\"file.old\", None)"), gives("")]).len(), 1);
    let test = "#[cfg(test)]\nmod tests {\n    reason(\"file.new\", why);\n}\n";
    assert_eq!(classified(&[table(""), gives(test)]), Vec::<String>::new());
}
