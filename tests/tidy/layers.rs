//! Left may not know right, inside a crate: read from `crate::` and `super::` paths. Between crates the compiler sees
//! to it: what a crate does not depend on it cannot use.

use regex::Regex;

use crate::source::{Source, line_of};

/// The crates that have layers, and these, left to right. Folders of one layer may know each other; what else stands
/// in the crate is right of them.
const LAYERS: [(&str, &[&[&str]]); 4] = [
    ("src/record", &[&["domain", "clock"], &["yaml"]]),
    ("src/policy", &[&["approval", "firewall"]]),
    ("src/catalog", &[&["host", "web_url"], &["llm", "mcp"]]),
    (
        "src/gate",
        &[
            &["telemetry"],
            &["judge"],
            &["ledger"],
            &["control"],
            &["tool"],
            &["taint"],
            &["enforce", "replay", "evidence", "index"],
        ],
    ),
];

/// What crates to the left are called where they are imported.
const LEFT: [&str; 14] = [
    "clock", "domain", "yaml", "record", "crypto", "policy", "approval", "firewall", "verify",
    "catalog", "identity", "limits", "llm", "mcp",
];

/// The stores of the ledger, which no face may name.
const STORES: [&str; 3] = ["memory", "sqlite", "postgres"];

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
    // `src/<crate>/<room>/a.rs` stands two steps below the top of its crate.
    let depth = source.path.trim_end_matches("/mod.rs").matches('/').count() - 1;
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

/// What knows something to its right.
pub fn order(tree: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (home, layers) in LAYERS {
        let layer = |name: &str| layers.iter().position(|names| names.contains(&name));
        for source in tree.iter().filter(|s| s.is_product()) {
            let Some(path) = source.path.strip_prefix(home).and_then(|p| p.strip_prefix('/'))
            else {
                continue;
            };
            let folder = path.split('/').next().unwrap().trim_end_matches(".rs");
            let Some(here) = layer(folder) else { continue };
            for (used, line) in uses(source) {
                let there = match layer(&used) {
                    None if LEFT.contains(&used.as_str()) => continue,
                    there => there.unwrap_or(layers.len()),
                };
                if there > here {
                    wrong.push(format!("{}:{line}: `{folder}` may not know `{used}`", source.path));
                }
            }
        }
    }
    wrong
}

/// Faces that know a store.
pub fn stores(tree: &[Source]) -> Vec<String> {
    let named =
        Regex::new(&format!(r"\bledger::(?:\{{[^;]*\b)?(?:{})\b", STORES.join("|"))).unwrap();
    let mut wrong = Vec::new();
    for source in tree.iter().filter(|s| s.is_product() && s.path.starts_with("src/faces/")) {
        let code = source.code();
        for seen in named.find_iter(&code) {
            let line = line_of(&code, seen.start());
            wrong.push(format!("{}:{line}: a face knows the road and no store", source.path));
        }
    }
    wrong
}

#[test]
fn a_face_that_knows_a_store_is_found() {
    let of = |path: &str, text: &str| stores(&[Source::of(path, text)]).len();
    assert_eq!(of("src/faces/serve/a.rs", "use crate::ledger::sqlite::Sqlite;"), 1);
    assert_eq!(of("src/faces/serve/a.rs", "use crate::ledger::{store, memory};"), 1);
    assert_eq!(of("src/faces/serve/a.rs", "use crate::ledger::permit::Permit;"), 0);
    assert_eq!(of("src/app/a.rs", "use crate::ledger::sqlite::Sqlite;"), 0);
}

#[test]
fn left_may_not_know_right() {
    let broken = [
        ("src/record/domain/a.rs", "use crate::Entry;"),
        ("src/record/domain/a.rs", "use crate::yaml;"),
        ("src/record/clock.rs", "use super::entry::Entry;"),
        ("src/policy/approval/a.rs", "fn f() { crate::bundle::g(); }"),
        ("src/gate/ledger/a.rs", "use crate::{domain::id, tool::run};"),
        ("src/gate/ledger/a.rs", "use crate::{domain::{id, time}, tool};"),
        ("src/gate/ledger/a.rs", "use super::super::enforce::Road;"),
        ("src/gate/ledger/mod.rs", "use super::enforce::Road;"),
        ("src/gate/ledger/sqlite/a.rs", "use super::super::super::enforce::Road;"),
        ("src/gate/judge/mod.rs", "use crate::ledger::permit::Permit;"),
        ("src/gate/ledger/a.rs", "use crate::Everything;"),
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
        ("src/gate/ledger/a.rs", "/// See [`crate::enforce`].\nfn f() {}"),
        ("src/gate/ledger/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::tool;\n}\n"),
        ("src/gate/tool/mod.rs", "use crate::ledger::permit::Permit;"),
        ("src/record/entry.rs", "use crate::Body; use crate::domain::id;"),
        ("src/catalog/limits/mod.rs", "use crate::identity::manifest;"),
        ("src/cli/a.rs", "use crate::app;"),
    ];
    for (path, text) in fine {
        assert_eq!(order(&[Source::of(path, text)]), Vec::<String>::new(), "{path}: {text}");
    }
}
