//! What files and types are called, how long they are, and whether they are part of the house at all.

use regex::Regex;

use crate::source::{Source, line_of};

const LINES_MAX: usize = 500;

/// Words that say nothing about what a type is.
const EMPTY_WORDS: [&str; 15] = [
    "Manager",
    "Handler",
    "Helper",
    "Helpers",
    "Util",
    "Utils",
    "Common",
    "Data",
    "Info",
    "Impl",
    "Wrapper",
    "Context",
    "Processor",
    "Misc",
    "Stuff",
];

/// Types whose name says nothing. What a foreign trait demands inside an `impl` is not ours.
pub fn type_names(tree: &[Source]) -> Vec<String> {
    let declared = r"(?m)^(?:pub(?:\([a-z ]+\))? )?(?:struct|enum|trait|type|union)\s+(\w+)";
    let declared = Regex::new(declared).unwrap();
    let words = Regex::new(r"[A-Z][a-z0-9]*").unwrap();
    let mut wrong = Vec::new();
    for source in tree.iter().filter(|s| s.is_product()) {
        let code = source.code();
        for seen in declared.captures_iter(&code) {
            if words.find_iter(&seen[1]).any(|word| EMPTY_WORDS.contains(&word.as_str())) {
                let line = line_of(&code, seen.get(0).unwrap().start());
                wrong.push(format!("{}:{line}: `{}` says nothing", source.path, &seen[1]));
            }
        }
    }
    wrong
}

/// Files whose name is a drawer for anything.
pub fn file_names(tree: &[Source]) -> Vec<String> {
    let drawers = ["util", "utils", "common", "helper", "helpers", "types", "misc", "prelude"];
    let is_drawer = |source: &&Source| {
        source.path.trim_end_matches(".rs").split('/').any(|part| drawers.contains(&part))
    };
    let rust = tree.iter().filter(|s| s.is_rust());
    rust.filter(is_drawer).map(|s| format!("{}: a drawer for anything", s.path)).collect()
}

/// Files that do too much. Tests at the end are not counted.
pub fn length(tree: &[Source]) -> Vec<String> {
    let long = |source: &Source| {
        let lines = source.without_tests().lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines of {LINES_MAX}", source.path))
    };
    tree.iter().filter(|s| s.is_product()).filter_map(long).collect()
}

/// Files of the product that no module names: nobody compiles them. Only a test is named by its path.
pub fn reachable(tree: &[Source]) -> Vec<String> {
    let by_path = Regex::new(r#"#\[path\s*=\s*"([^"]*)"\]"#).unwrap();
    let mut wrong = Vec::new();
    let mut named_by_path = Vec::new();
    for source in tree.iter().filter(|s| s.is_product()) {
        for seen in by_path.captures_iter(&source.text) {
            if seen[1].ends_with("_tests.rs") && !seen[1].contains('/') {
                named_by_path.push(format!(
                    "{}/{}",
                    source.path.rsplit_once('/').unwrap().0,
                    &seen[1]
                ));
            } else {
                wrong.push(format!(
                    "{}: `{}`: a module lives where its name says",
                    source.path, &seen[1]
                ));
            }
        }
    }
    let crates: Vec<&str> =
        tree.iter().filter_map(|s| s.path.strip_suffix("/Cargo.toml")).collect();
    let is_top = |folder: &str| folder == "src" || crates.contains(&folder);
    let product = tree.iter().filter(|s| s.is_product() && !named_by_path.contains(&s.path));
    for source in product {
        let module = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let (folder, name) = module.rsplit_once('/').unwrap();
        // Cargo finds the top of a crate itself, and the programs in its folder `tests`.
        let of_cargo = is_top(folder) && ["lib", "main"].contains(&name);
        if of_cargo || folder.strip_suffix("/tests").is_some_and(|above| crates.contains(&above)) {
            continue;
        }
        let parents = if is_top(folder) {
            vec![format!("{folder}/lib.rs"), format!("{folder}/main.rs")]
        } else {
            vec![format!("{folder}/mod.rs"), format!("{folder}.rs")]
        };
        let named = Regex::new(&format!(r"\bmod\s+{}\s*;", regex::escape(name))).unwrap();
        let is_named = |s: &Source| parents.contains(&s.path) && named.is_match(&s.all_code());
        if !tree.iter().any(is_named) {
            wrong.push(format!("{}: no module names it", source.path));
        }
    }
    wrong
}

/// Folders that do not say what they are: a `mod.rs`, `lib.rs` or `main.rs` begins with `//!`.
pub fn essays(tree: &[Source]) -> Vec<String> {
    let speaks = |s: &&Source| {
        s.is_product()
            && ["mod.rs", "lib.rs", "main.rs"].contains(&s.path.rsplit('/').next().unwrap())
    };
    let silent = tree.iter().filter(speaks).filter(|s| !s.text.starts_with("//! "));
    silent.map(|s| format!("{}: does not begin with `//!`", s.path)).collect()
}

#[test]
fn a_type_name_that_says_nothing_is_found() {
    for text in ["pub struct CallManager;", "enum DataKind {}", "pub(crate) trait ToolHelper {}"] {
        assert_eq!(type_names(&[Source::of("src/a.rs", text)]).len(), 1, "{text}");
    }
    let fine =
        "pub struct Handle;\nimpl Body for X {\n    type Data = Bytes;\n}\nstruct Database;\n";
    assert_eq!(type_names(&[Source::of("src/a.rs", fine)]), Vec::<String>::new());
}

#[test]
fn a_drawer_is_found() {
    assert_eq!(file_names(&[Source::of("src/faces/serve/utils.rs", "")]).len(), 1);
    assert_eq!(file_names(&[Source::of("tests/common/mod.rs", "")]).len(), 1);
    assert_eq!(file_names(&[Source::of("src/faces/serve/pb.rs", "")]), Vec::<String>::new());
}

#[test]
fn a_long_file_is_found_and_its_tests_are_not_counted() {
    let long = "//\n".repeat(LINES_MAX + 1);
    assert_eq!(length(&[Source::of("src/a.rs", &long)]).len(), 1);
    let tests = format!("//\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    assert_eq!(length(&[Source::of("src/a.rs", &tests)]), Vec::<String>::new());
}

#[test]
fn a_file_that_no_module_includes_is_found() {
    let lib = Source::of("src/lib.rs", "pub mod ledger;\n// pub mod old;\n");
    let folder = Source::of("src/ledger/mod.rs", "mod entry;\n#[cfg(test)]\nmod tests;\n");
    let entry = Source::of("src/ledger/entry.rs", "");
    let tests = Source::of("src/ledger/tests.rs", "");
    let (lost, old) = (Source::of("src/ledger/lost.rs", ""), Source::of("src/old.rs", ""));
    let wrong = reachable(&[lib, folder, entry, tests, lost, old]);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    let lib = || Source::of("src/lib.rs", "mod a;\n");
    let beside = Source::of("src/a.rs", "#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\n");
    let tests = Source::of("src/a_tests.rs", "");
    assert_eq!(reachable(&[lib(), beside, tests]), Vec::<String>::new());
    let elsewhere = Source::of("src/a.rs", "#[path = \"x.rs\"]\nmod y;\n");
    assert_eq!(reachable(&[lib(), elsewhere]).len(), 1);
}

#[test]
fn a_folder_that_does_not_say_what_it_is_is_found() {
    assert_eq!(essays(&[Source::of("src/gate/ledger/mod.rs", "mod entry;")]).len(), 1);
    assert_eq!(
        essays(&[Source::of("src/gate/ledger/mod.rs", "//! The books.\n")]),
        Vec::<String>::new()
    );
}
