//! The table of what went wrong elsewhere, and which test holds which.

use std::collections::BTreeSet;
use std::path::Path;

fn wanted() -> BTreeSet<String> {
    let approval = (21..=32).map(|n| format!("C-{n}"));
    approval.chain((46..=52).map(|n| format!("E-{n}"))).collect()
}

#[test]
fn every_row_of_the_table_names_tests_that_exist() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(top.join("tests/authority/README.md")).unwrap();
    let mut seen = BTreeSet::new();
    for line in table.lines().filter(|line| line.starts_with("| ") && line.contains('-')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, what, held] = cells[..] else { panic!("three cells: {line}") };
        if id == "row" || id.starts_with("--") {
            continue;
        }
        assert!(
            wanted().contains(id) && seen.insert(id.to_owned()),
            "no such row, or twice: {line}"
        );
        assert!(!what.is_empty(), "{line}");
        let names = held.split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
        let names: Vec<&str> = names.collect();
        assert!(!names.is_empty(), "{id} names no test");
        for name in names {
            let (path, function) = name.split_once("::").unwrap();
            let source = std::fs::read_to_string(top.join(path))
                .unwrap_or_else(|e| panic!("{id}: `{path}`: {e}"));
            assert!(
                source.contains(&format!("fn {function}(")),
                "{id}: `{path}` has no `{function}`"
            );
        }
    }
    let missing: Vec<_> = wanted().difference(&seen).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}
