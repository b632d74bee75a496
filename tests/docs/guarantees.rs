//! `docs/security/guarantees.md`: what is promised and which tests show it, generated from `guarantees.yaml` beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use regex::Regex;
use serde::Deserialize;

use crate::document::{Document, documents};
use crate::{assert_generated, top};

const SOURCE: &str = "docs/security/guarantees.yaml";

/// A group of promises.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    heading: String,
    /// What the group is about, before its table.
    #[serde(default)]
    about: String,
    promises: Vec<Promise>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    holds: String,
    /// A test's name, `file::name` where two have the same, or a file of which every test is meant.
    tests: Vec<String>,
}

fn sections() -> Vec<Section> {
    wicketgate::yaml::from_str(&Document::read(SOURCE).text, SOURCE).unwrap()
}

/// Every function of the tests and of the product's own test modules, with the files that have one of this name.
struct Tests(BTreeMap<String, BTreeSet<String>>);

impl Tests {
    fn of_the_repository() -> Self {
        let declared = Regex::new(r"\bfn (\w+)\(").unwrap();
        let mut tests: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut folders = vec![top().join("tests"), top().join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let file = path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned();
                    for found in declared.captures_iter(&text) {
                        tests.entry(found[1].to_owned()).or_default().insert(file.clone());
                    }
                }
            }
        }
        Self(tests)
    }

    /// Where a test that is named stands: `file::name`, or the file.
    fn place(&self, named: &str) -> Result<String, String> {
        if named.contains('/') && !named.contains("::") {
            let exists = top().join(named).is_file();
            return exists.then(|| named.to_owned()).ok_or(format!("{named}: no such file"));
        }
        let (file, name) = named.rsplit_once("::").map_or((None, named), |(f, n)| (Some(f), n));
        let files = self.0.get(name).into_iter().flatten();
        let files: Vec<_> = files.filter(|path| file.is_none_or(|file| file == *path)).collect();
        match files.as_slice() {
            [file] => Ok(format!("{file}::{name}")),
            [] => Err(format!("{named}: no such test")),
            files => Err(format!("{named}: one of {files:?}")),
        }
    }
}

fn page(sections: &[Section], tests: &Tests) -> String {
    let mut page = String::from(
        "# What Wicketgate promises, and the tests that show it\n\n\
         Generated from `docs/security/guarantees.yaml`; a test checks that every test named here exists. \
         Wicketgate does not promise everything: see the [limits](limits.md).\n",
    );
    for section in sections {
        writeln!(page, "\n## {}\n", section.heading).unwrap();
        if !section.about.is_empty() {
            writeln!(page, "{}\n", section.about.trim()).unwrap();
        }
        page.push_str("| promise | tests |\n|---|---|\n");
        for promise in &section.promises {
            let places = promise.tests.iter().map(|test| match tests.place(test) {
                Ok(place) => format!("`{place}`"),
                Err(why) => why,
            });
            let places = places.collect::<Vec<_>>().join("<br>");
            writeln!(page, "| {} | {places} |", promise.holds.trim()).unwrap();
        }
    }
    page
}

#[test]
fn every_promise_names_tests_and_every_test_it_names_exists() {
    let (sections, tests) = (sections(), Tests::of_the_repository());
    let promises = sections.iter().flat_map(|section| &section.promises);
    let mut wrong = Vec::new();
    for promise in promises.clone() {
        if promise.tests.is_empty() {
            wrong.push(format!("no test: {}", promise.holds));
        }
        wrong.extend(promise.tests.iter().filter_map(|test| tests.place(test).err()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(promises.count() > 200);
}

#[test]
fn the_page_is_made_from_its_source() {
    assert_generated(
        "docs/security/guarantees.md",
        &page(&sections(), &Tests::of_the_repository()),
    );
}

#[test]
fn each_of_the_ten_guarantees_has_its_section_and_security_leads_there() {
    let sections = sections();
    let security = Document::read("SECURITY.md").text;
    for number in 1..=10 {
        let begin = format!("I{number} ");
        let section = sections.iter().find(|section| section.heading.starts_with(&begin));
        assert!(section.is_some_and(|section| !section.promises.is_empty()), "I{number}");
        let link = format!("(docs/security/guarantees.md#i{number}-");
        assert!(security.contains(&link), "SECURITY.md has no link to I{number}");
    }
}

#[test]
fn every_test_that_a_document_names_exists() {
    let tests = Tests::of_the_repository();
    let named = Regex::new(r"`((?:tests|src)/[\w/]+\.rs::\w+)`").unwrap();
    let documents = documents().into_iter().filter(|document| document.path != "CHANGELOG.md");
    let mut wrong = Vec::new();
    for document in documents {
        let names = named.captures_iter(&document.text).map(|found| found[1].to_owned());
        let missing = names.filter_map(|name| tests.place(&name).err());
        wrong.extend(missing.map(|why| format!("{}: {why}", document.path)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_test_that_is_not_there_or_not_the_only_one_is_found() {
    let tests = Tests::of_the_repository();
    assert!(tests.place("tests/none.rs").unwrap_err().contains("no such file"));
    assert!(tests.place("no_such_test").unwrap_err().contains("no such test"));
    assert!(tests.place("tests/docs/main.rs::no_such_test").is_err());
    assert!(tests.place("the_comparison_can_fail").is_ok());
    assert!(tests.place("top").unwrap_err().contains("one of"), "several have one");
    let here = "a_test_that_is_not_there_or_not_the_only_one_is_found";
    let place = format!("tests/docs/guarantees.rs::{here}");
    assert_eq!(tests.place(here), Ok(place.clone()));
    assert_eq!(tests.place(&place), Ok(place.clone()));
    let promise = Promise { holds: "it holds".to_owned(), tests: vec![here.to_owned()] };
    let heading = "I1 x".to_owned();
    let section = Section { heading, about: String::new(), promises: vec![promise] };
    assert!(page(&[section], &tests).ends_with(&format!("| it holds | `{place}` |\n")));
}
