//! A type has one name, and a name has one type: whoever searches a crate for it finds one definition.

use std::collections::BTreeMap;

use regex::Regex;

use crate::source::{Source, line_of};

/// Names that every room may give to a type of its own, as the field does.
const EVERYWHERE: [&str; 4] = ["Error", "Config", "Args", "Command"];

/// The crate of a file of the product: a room with a manifest of its own, or the root.
fn crate_of<'a>(path: &'a str, members: &[&str]) -> &'a str {
    let room = path.split('/').nth(1).unwrap_or_default();
    if members.contains(&room) { room } else { "wicketgate" }
}

/// Type names that a crate defines more than once.
pub fn defined_once(tree: &[Source]) -> Vec<String> {
    // Indented by one step: what a macro of ours declares (`texts!`, `members!`), which is `pub` or documented there.
    let declared = r"(?m)^(?:    pub(?:\([a-z ]+\))? (?:struct|enum)|(?:pub(?:\([a-z ]+\))? )?(?:struct|enum|trait|type|union))\s+(\w+)";
    let declared = Regex::new(declared).unwrap();
    let members: Vec<&str> =
        tree.iter().filter(|s| s.is_member()).filter_map(|s| s.path.split('/').nth(1)).collect();
    let mut places: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for source in tree.iter().filter(|s| s.is_product()) {
        let code = source.code();
        for seen in declared.captures_iter(&code) {
            let place = format!("{}:{}", source.path, line_of(&code, seen.get(0).unwrap().start()));
            let name = (crate_of(&source.path, &members), seen[1].to_owned());
            places.entry(name).or_default().push(place);
        }
    }
    let twice = places
        .into_iter()
        .filter(|((_, name), places)| places.len() > 1 && !EVERYWHERE.contains(&name.as_str()));
    twice.map(|((room, name), at)| format!("{room}: `{name}` is {}", at.join(" and "))).collect()
}

#[test]
fn a_type_name_of_two_types_is_found() {
    let manifest = || Source::of("src/gate/Cargo.toml", "");
    let gate = || Source::of("src/gate/a.rs", "pub struct Place;\n");
    let twice = [manifest(), gate(), Source::of("src/gate/b/c.rs", "enum Place {}\n")];
    assert_eq!(defined_once(&twice).len(), 1);
    let declared =
        [manifest(), gate(), Source::of("src/gate/b.rs", "texts! {\n    pub enum Place {}\n}\n")];
    assert_eq!(defined_once(&declared).len(), 1);
    let two_crates = [manifest(), gate(), Source::of("src/cli/c.rs", "enum Place {}\n")];
    assert_eq!(defined_once(&two_crates), Vec::<String>::new());
    let errors =
        [Source::of("src/a.rs", "enum Error {}\n"), Source::of("src/b.rs", "enum Error {}\n")];
    assert_eq!(defined_once(&errors), Vec::<String>::new());
    let test = Source::of("src/gate/d.rs", "#[cfg(test)]\nmod tests {\n    struct Place;\n}\n");
    assert_eq!(defined_once(&[manifest(), gate(), test]), Vec::<String>::new());
}
