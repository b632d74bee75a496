//! The cookbook: twenty rules, each with a decision table, and the page that shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use wicketgate_support::ran::Ran;

use super::policy;

const COOKBOOK: &str = "policies/cookbook";
const PAGE: &str = include_str!("../../docs/policy/cookbook.md");
/// What a file begins with and the page leaves out.
const BEGINNING: &str = "import rego.v1\n\n";

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(COOKBOOK).join(folder);
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The rules by `layer/file.rego`, without what every file begins with.
fn rules() -> BTreeMap<String, String> {
    let mut rules = BTreeMap::new();
    for layer in ["org", "team", "agent"] {
        for path in files(layer, "rego").into_iter().filter(|path| !stem(path).ends_with("_test")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let (_, rule) = text.split_once(BEGINNING).unwrap();
            rules.insert(format!("{layer}/{}.rego", stem(&path)), rule.to_owned());
        }
    }
    rules
}

/// The rules on the page, by the file that it names before each.
fn shown() -> BTreeMap<String, String> {
    let blocks = PAGE.split("```rego\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let names = PAGE.lines().filter(|line| line.starts_with('`') && line.ends_with(':'));
    let names = names.map(|line| line.split('`').nth(1).unwrap().to_owned());
    names.zip(blocks.map(str::to_owned)).collect()
}

#[test]
fn the_page_of_the_cookbook_shows_the_twenty_rules_that_are_tested() {
    let rules = rules();
    assert_eq!(rules.len(), 20);
    assert_eq!(shown(), rules, "docs/policy/cookbook.md shows what the files of {COOKBOOK} hold");
}

#[test]
fn every_rule_of_the_cookbook_has_a_decision_table() {
    let tables: BTreeSet<_> = files("tests", "yaml").iter().map(|path| stem(path)).collect();
    let rules = rules();
    let rules = rules.keys().map(|name| stem(Path::new(name))).collect();
    assert_eq!(tables, rules);
}

#[test]
fn every_rule_of_the_cookbook_fires_in_its_tests_and_no_rule_is_suspect() {
    let (code, out, err) = policy(&["test", COOKBOOK, "--coverage-min", "100"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = policy(&["lint", "--bundle", COOKBOOK]);
    assert_eq!((code, out.contains("no finding")), (0, true), "{out}{err}");
}

#[test]
fn every_rule_of_the_cookbook_holds_its_table_alone() {
    for name in rules().into_keys() {
        let (layer, file) = name.split_once('/').unwrap();
        let rule = stem(Path::new(file));
        let dir = tempfile::tempdir().unwrap();
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join(COOKBOOK);
        let copy = |from: &str| {
            let to = dir.path().join(from);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(top.join(from), to).unwrap();
        };
        // The rule about reading is the one that allows: without it, nothing would run.
        ["bundle.json", "agent/reads.rego", "data/tools.json"].into_iter().for_each(copy);
        ["freeze", "hosts", "models"].into_iter().for_each(|n| copy(&format!("data/{n}.json")));
        copy(&format!("{layer}/{file}"));
        let tables = tables_without_obligations(&rule);
        std::fs::create_dir_all(dir.path().join("tests")).unwrap();
        std::fs::write(dir.path().join("tests/table.yaml"), tables).unwrap();
        let ran = Ran::gate(dir.path(), ["policy", "test", "."]);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
    }
}

/// Its table; the obligations of every call come from another file.
fn tables_without_obligations(rule: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(COOKBOOK).join("tests");
    let text = std::fs::read_to_string(path.join(format!("{rule}.yaml"))).unwrap();
    let kept = text.lines().filter(|line| !line.trim_start().starts_with("obligations:"));
    kept.map(|line| format!("{line}\n")).collect()
}
