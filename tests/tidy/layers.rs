//! Left may not know right: the order of the layers, read from `crate::` and `super::` paths.

use regex::Regex;

use crate::source::{Source, line_of};

/// The layers, left to right. Folders of one layer may know each other.
const LAYERS: [&[&str]; 11] = [
    &["domain", "clock", "telemetry"],
    &["crypto", "yaml", "mcp", "record"],
    &["identity", "catalog", "firewall", "limits", "approval"],
    &["policy"],
    &["judge"],
    &["ledger"],
    &["control"],
    &["tool"],
    &["enforce", "replay", "evidence"],
    &["serve", "witness", "hub", "operator"],
    &["config", "app", "cli", "main", "bin"],
];

fn layer(folder: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&folder))
}

/// The folders of ours that a file names, and the line of each.
fn uses(source: &Source) -> Vec<(String, usize)> {
    let code = source.code();
    let mut found = Vec::new();
    for seen in Regex::new(r"\b(?:crate|wicketgate)::(\w+)").unwrap().captures_iter(&code) {
        found.push((seen[1].to_owned(), line_of(&code, seen.get(0).unwrap().start())));
    }
    for seen in Regex::new(r"\b(?:crate|wicketgate)::\{").unwrap().find_iter(&code) {
        let line = line_of(&code, seen.start());
        found.extend(group(&code[seen.end()..]).into_iter().map(|name| (name, line)));
    }
    let depth = source.path.trim_end_matches("/mod.rs").matches('/').count();
    for seen in Regex::new(r"\b((?:super::)+)(\w+)").unwrap().captures_iter(&code) {
        if seen[1].matches("super").count() >= depth {
            found.push((seen[2].to_owned(), line_of(&code, seen.get(0).unwrap().start())));
        }
    }
    found
}

/// The first words of `a::b, c::{d, e}, f}`.
fn group(text: &str) -> Vec<String> {
    let (mut names, mut depth, mut word, mut first) = (Vec::new(), 0, String::new(), true);
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut word));
                first = true;
            }
            ':' if depth == 0 => first = false,
            c if depth == 0 && first && !c.is_whitespace() => word.push(c),
            _ => {}
        }
    }
    names.push(word);
    names.retain(|name| !name.is_empty());
    names
}

/// What knows something to its right, and what stands in no layer.
pub fn order(tree: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in tree.iter().filter(|s| s.is_product() && s.path != "src/lib.rs") {
        let path = source.path.trim_start_matches("src/").trim_end_matches(".rs");
        let folder = path.split('/').next().unwrap();
        let Some(here) = layer(folder) else {
            wrong
                .push(format!("{}: `{folder}` is in no layer (tests/tidy/layers.rs)", source.path));
            continue;
        };
        for (used, line) in uses(source) {
            match layer(&used) {
                Some(there) if there > here => {
                    wrong.push(format!("{}:{line}: `{folder}` may not know `{used}`", source.path));
                }
                Some(_) => {}
                // A macro or an item at the top of the crate has no layer, and there should be none.
                None => wrong.push(format!("{}:{line}: `{used}` is in no layer", source.path)),
            }
        }
    }
    wrong
}

#[test]
fn left_may_not_know_right() {
    let broken = [
        ("src/record/domain/a.rs", "use crate::record::Entry;"),
        ("src/policy/a.rs", "fn f() { crate::serve::g(); }"),
        ("src/gate/ledger/a.rs", "use crate::{domain::id, tool::run};"),
        ("src/gate/ledger/a.rs", "use crate::{domain::{id, time}, tool};"),
        ("src/gate/ledger/a.rs", "use super::super::enforce::Road;"),
        ("src/gate/ledger/mod.rs", "use super::enforce::Road;"),
        ("src/gate/ledger/sqlite/a.rs", "use super::super::super::enforce::Road;"),
        ("src/record/clock.rs", "use super::crypto::keys;"),
        ("src/utils/a.rs", ""),
        ("src/record/domain/a.rs", "use crate::Everything;"),
    ];
    for (path, text) in broken {
        assert_eq!(order(&[Source::of(path, text)]).len(), 1, "{path}: {text}");
    }
    let fine = [
        (
            "src/gate/ledger/a.rs",
            "use crate::domain::id; use crate::record; use crate::{policy, clock::Clock};",
        ),
        ("src/gate/ledger/sqlite/a.rs", "use super::super::store::X; use super::b;"),
        ("src/record/domain/a.rs", "/// See [`crate::ledger`].\nfn f() {}"),
        ("src/record/domain/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::record;\n}\n"),
        ("src/catalog/lib.rs", "use crate::limits::Pool;"),
    ];
    for (path, text) in fine {
        assert_eq!(order(&[Source::of(path, text)]), Vec::<String>::new(), "{path}: {text}");
    }
}
