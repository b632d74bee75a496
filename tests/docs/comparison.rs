//! The comparison with other gateways names the versions that its command installs.

use crate::document::Document;
use crate::top;

/// The peers as their requirements files pin them, `name==version`: the first pin of each file.
fn pinned() -> Vec<String> {
    let files = std::fs::read_dir(top().join("benches/peers")).unwrap();
    let texts = files.map(|file| file.unwrap().path());
    let texts = texts.filter(|path| path.extension().is_some_and(|kind| kind == "txt"));
    texts
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let first = text.lines().find(|line| !line.starts_with('#'));
            first.unwrap_or_else(|| panic!("{} pins nothing", path.display())).to_owned()
        })
        .collect()
}

/// The pins that a page does not name.
fn missing(page: &str, pinned: &[String]) -> Vec<String> {
    pinned.iter().filter(|pin| !page.contains(&format!("`{pin}`"))).cloned().collect()
}

#[test]
fn the_comparison_names_the_versions_that_it_installs() {
    let pinned = pinned();
    assert_eq!(pinned.len(), 3, "{pinned:?}");
    let page = Document::read("docs/reference/comparison.md");
    let missing = missing(&page.text, &pinned);
    assert!(missing.is_empty(), "measure again, and name in {}: {missing:?}", page.path);
}

#[test]
fn a_version_that_the_comparison_does_not_name_is_found() {
    let pinned = ["one==1.0".to_owned(), "two==2.0".to_owned()];
    assert_eq!(missing("`one==1.0`, `two==2.0.1`", &pinned), ["two==2.0"]);
}
