//! Which material of a bundle supports which requirement of which framework.

use std::fmt::Write as _;

use wicketgate::evidence::controls::{self, MEANING, MappedControl};

use super::begin;

const ABOUT: &str = "
A bundle holds `controls.json`: its own rows of these tables, each with the files that hold the material and a count. A row is there only
if the bundle holds its material. The verifier makes the file again from the others, and the report shows it.
";

pub fn page() -> String {
    let mut page = begin("Frameworks: what a bundle shows", "the mapping in the program");
    page.push_str(ABOUT);
    write!(page, "\n> {MEANING}\n").unwrap();
    let all = controls::all();
    for (framework, not_shown) in controls::not_shown() {
        write!(page, "\n## {framework}\n\n").unwrap();
        page.push_str("| Requirement | About | What the material shows | Material | Checks |\n|---|---|---|---|---|\n");
        for row in all.iter().filter(|row| row.framework == *framework) {
            let MappedControl { requirement, about, supports, material, checks, .. } = row;
            let checks = checks.join(", ");
            writeln!(page, "| {requirement} | {about} | {supports} | {material} | {checks} |")
                .unwrap();
        }
        write!(page, "\nNo bundle shows: {not_shown}.\n").unwrap();
    }
    page
}

#[test]
fn every_framework_of_the_mapping_says_what_no_bundle_shows() {
    let named: Vec<&str> = controls::not_shown().iter().map(|(name, _)| *name).collect();
    for row in controls::all() {
        assert!(named.contains(&row.framework), "{row:?}");
        assert!(!row.material.is_empty() && !row.checks.is_empty(), "{row:?}");
    }
}
