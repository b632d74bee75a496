//! `report.html` as a browser reads it.

use std::process::Command;

use crate::demo::{demo, python, said};

/// Reads the page by the rules of HTML, strictly, and asks it for what must not be there.
const READ: &str = r##"
import re, sys, html5lib
text = open(sys.argv[1], encoding="utf-8").read()
tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
every = list(tree.iter())
names = {e.tag for e in every if isinstance(e.tag, str)}
assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "svg", "video", "audio"}, names
assert {"header", "main", "nav", "section", "h1", "h2", "table", "caption", "th"} <= names
for e in every:
    for name, value in e.attrib.items():
        assert not name.startswith("on") and name not in ("src", "srcset", "style", "action", "background"), name
        assert name != "href" or value.startswith("#"), value
ids = [e.get("id") for e in every if e.get("id")]
assert len(ids) == len(set(ids)) and {e.get("href")[1:] for e in every if e.get("href")} <= set(ids)
assert tree.find("head/title").text and tree.get("lang") == "en"
policy = next(e.get("content") for e in every if e.get("http-equiv") == "Content-Security-Policy")
assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
style = tree.find("head/style").text
assert "url(" not in style and "@import" not in style and "@media print" in style
import base64, hashlib
assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
first = [e for e in tree.find("body/main")][:2]
shown = "".join("".join(e.itertext()) for e in first)
assert "Proven if the checks pass" in shown and "Not proven" in shown and "Who vouches for this" in shown
print("a page of", len(every), "elements")
"##;

#[test]
fn the_report_is_valid_html_that_runs_nothing_and_asks_for_nothing() {
    let Some(python) = python() else { return };
    let done = Command::new(python)
        .args(["-c", READ])
        .arg(demo().join("evidence/report.html"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", said(&done));
}

/// A real browser, where there is one: it reads the page with all of its rules and prints it.
#[test]
fn a_browser_shows_and_prints_the_report() {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(browser) = found else {
        eprintln!("not asked: no Chromium is installed here");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = format!("file://{}", demo().join("evidence/report.html").display());
    let run = |args: &[&str]| {
        let done = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .args(args)
            .arg(&page)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", said(&done));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let seen = run(&["--dump-dom"]);
    assert!(seen.contains("Not proven by this bundle") && seen.contains("support-agent"));
    let pdf = dir.path().join("report.pdf");
    run(&["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())]);
    let printed = std::fs::read(pdf).unwrap();
    assert!(printed.starts_with(b"%PDF-") && printed.len() > 20_000);
}
