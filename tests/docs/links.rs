//! Links between documents, and paths of the repository that they name.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::document::{Document, documents, pages};
use crate::top;

/// Files and anchors of the repository that a document links to: the file from the top, and the anchor.
fn links(document: &Document) -> Vec<(String, Option<String>)> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let folder = Path::new(&document.path).parent().unwrap();
    let mut links = Vec::new();
    for found in link.captures_iter(&document.prose()) {
        if found[1].contains("://") || found[1].starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = match found[1].split_once('#') {
            Some((file, anchor)) => (file, Some(anchor.to_owned())),
            None => (&found[1], None),
        };
        let path = match file {
            "" => document.path.clone(),
            file => plain(&folder.join(file)),
        };
        links.push((path, anchor));
    }
    links
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{}: above the top", path.display()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    plain.to_str().unwrap().to_owned()
}

/// Links of a document that lead nowhere.
fn dead(document: &Document) -> Vec<String> {
    let mut dead = Vec::new();
    for (path, anchor) in links(document) {
        if !top().join(&path).exists() {
            dead.push(format!("{}: there is no `{path}`", document.path));
        } else if let Some(anchor) = anchor
            && !Document::read(&path).anchors().contains(&anchor)
        {
            dead.push(format!("{}: `{path}` has no heading `#{anchor}`", document.path));
        }
    }
    dead
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let dead: Vec<_> = documents().iter().flat_map(dead).collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn every_page_is_reached_from_the_index() {
    let mut open = vec!["docs/README.md".to_owned()];
    let mut reached = BTreeSet::new();
    while let Some(path) = open.pop() {
        let ours = path.starts_with("docs/") && reached.insert(path.clone());
        if ours && path.ends_with(".md") {
            open.extend(links(&Document::read(&path)).into_iter().map(|(path, _)| path));
        } else if ours && top().join(&path).is_dir() {
            // A reader of a folder finds its pages.
            let within = pages().map(|page| page.path);
            open.extend(within.filter(|page| Path::new(page).parent() == Some(Path::new(&path))));
        }
    }
    let lost: Vec<_> = pages().map(|page| page.path).filter(|p| !reached.contains(p)).collect();
    assert!(lost.is_empty(), "no page of docs/ links to {lost:?}");
}

/// Paths between backticks that are not there.
fn missing_paths(document: &Document) -> Vec<String> {
    let path = Regex::new(
        r"`((?:tests|src|examples|policies|proto|migrations|benches|deploy|docs|fuzz|\.ci)/[\w./-]*)(?:::\w+)?`",
    )
    .unwrap();
    let named = path.captures_iter(&document.text).map(|found| found[1].to_owned());
    named.filter(|path| !top().join(path).exists()).collect()
}

#[test]
fn every_path_the_documents_name_exists() {
    // What changed once is history: its paths may be gone. Those of the others are of a policy bundle.
    let others = ["CHANGELOG.md", "docs/reference/cli.md", "policies/README.md"];
    let documents = documents().into_iter().filter(|d| !others.contains(&d.path.as_str()));
    let missing: Vec<_> = documents
        .flat_map(|d| missing_paths(&d).into_iter().map(move |path| format!("{}: {path}", d.path)))
        .collect();
    assert!(missing.is_empty(), "named and not there: {missing:#?}");
}

#[test]
fn what_leads_nowhere_is_found() {
    let text = "[a](none.md) [b](../README.md#no-heading) [c](https://example.com/x) [d](#e)\n`src/none.rs`\n";
    let document = Document::of("docs/a.md", text);
    let dead: Vec<_> = links(&document).into_iter().map(|(path, _)| path).collect();
    assert_eq!(dead, ["docs/none.md", "README.md", "docs/a.md"]);
    assert_eq!(super::links::dead(&Document::of("docs/README.md", "[a](x.md)")).len(), 1);
    assert_eq!(super::links::dead(&Document::of("docs/a.md", "[a](../README.md#none)")).len(), 1);
    assert_eq!(missing_paths(&document), ["src/none.rs"]);
}
