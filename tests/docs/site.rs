//! The static site of the documents: one command makes it, and nothing in it leads out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::document::pages;
use crate::top;

/// The pages of a site: what each links to, and the places in it that have a name.
type Pages = BTreeMap<PathBuf, (Vec<String>, BTreeSet<String>)>;

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let before = format!(" {attribute}=\"");
    html.match_indices(&before)
        .filter_map(|(at, found)| html[at + found.len()..].split('"').next())
        .collect::<Vec<_>>()
        .into_iter()
}

fn read(folder: &Path, into: &mut Pages) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, into);
        } else if path.extension().is_some_and(|end| end == "html") && !path.ends_with("404.html") {
            let html = std::fs::read_to_string(&path).unwrap();
            let links = values(&html, "href").chain(values(&html, "src")).map(str::to_owned);
            let names = values(&html, "id").map(str::to_owned).collect();
            into.insert(path, (links.collect(), names));
        }
    }
}

/// What a page asks another host for without a click.
fn foreign(page: &Path) -> Vec<String> {
    let html = std::fs::read_to_string(page).unwrap();
    let tags =
        html.split('<').filter(|tag| ["script", "link", "img"].iter().any(|t| tag.starts_with(t)));
    let is_foreign = |tag: &&str| tag.contains("=\"http") || tag.contains("=\"//");
    tags.filter(is_foreign).map(str::to_owned).collect()
}

/// Where a link leads to without its dots, if it stays in the site.
fn target(page: &Path, link: &str) -> Option<(PathBuf, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, name) = link.split_once('#').map_or((link, None), |(path, name)| (path, Some(name)));
    let mut to = if path.is_empty() { page.to_owned() } else { page.parent().unwrap().to_owned() };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(to.pop()),
            part => to.push(part),
        }
    }
    Some((to, name.map(str::to_owned)))
}

#[test]
fn the_site_of_the_documents_has_every_page_and_no_dead_link_and_asks_no_other_host() {
    let Some(python) = std::env::var_os("WICKETGATE_TEST_SITE") else {
        eprintln!(
            "not tested here: the site of docs/: WICKETGATE_TEST_SITE names no Python with MkDocs"
        );
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let site = out.path().join("site");
    let mut build = Command::new(python);
    build.args([
        "-B",
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        "docs/site/mkdocs.yml",
        "-d",
    ]);
    let built = build.arg(&site).current_dir(top()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut all = Pages::new();
    read(&site, &mut all);
    for page in pages() {
        let name = page.path.strip_prefix("docs/").unwrap().replace("README.md", "index.md");
        let html = site.join(name).with_extension("html");
        assert!(all.contains_key(&html), "{} is no page of the site", page.path);
    }
    let mut wrong = Vec::new();
    for (page, (links, _)) in &all {
        wrong.extend(foreign(page));
        for link in links {
            let Some((to, name)) = target(page, link) else { continue };
            let has = |name: String| {
                name.is_empty() || all.get(&to).is_some_and(|(_, names)| names.contains(&name))
            };
            if !to.is_file() || !name.is_none_or(has) {
                wrong.push(format!("{}: {link}", page.strip_prefix(&site).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
