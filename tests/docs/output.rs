//! What documents show as printed is what is printed, but for what differs from run to run.

use std::process::Command;

use regex::Regex;

use crate::document::Document;
use wicketgate_support::program;

/// Text without what differs from run to run.
pub fn without_chance(text: &str) -> Vec<String> {
    let chance = [
        (r"/\S*wicketgate-quickstart-[0-9a-f]{8}", "DIR"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+", "RUN"),
        (r"[0-9a-f]{64}|[0-9a-f]{32}", "HASH"),
        (r"[0-9a-f]{8}…", "HASH"),
        (r"/local-[0-9a-f]{16}/", "/local-HASH/"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"call-\d+", "CALL"),
        (r"process \d+|127\.0\.0\.1:\d+|in \d+ ms|in \d+\.\d s|seq \d+|entry \d+|\d+ entries", "N"),
    ];
    let mut text = text.to_owned();
    for (pattern, name) in chance {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    // The number of an entry depends on heartbeats that came in between.
    let entry = Regex::new(r"^\s*\d+ TIME ").unwrap();
    text.lines().map(|line| entry.replace(line, "SEQ TIME ").trim_end().to_owned()).collect()
}

/// Lines that are shown and were not printed. `…` alone stands for lines that are left out; at the end of a
/// line, for its rest.
pub fn not_printed(shown: &str, printed: &str) -> Vec<String> {
    let printed = without_chance(printed);
    let shown = without_chance(shown);
    let is_printed = |line: &String| match line.strip_suffix('…') {
        Some(begin) => printed.iter().any(|printed| printed.starts_with(begin)),
        None => printed.contains(line),
    };
    shown.into_iter().filter(|line| !line.trim().is_empty() && !is_printed(line)).collect()
}

#[test]
fn the_quickstart_prints_what_its_page_and_the_readme_show() {
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let done = Command::new(program::gate())
        .arg("quickstart")
        .env("HOME", home.path())
        .env("TMPDIR", work.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(done.stdout).unwrap();
    if printed.contains("left out   text.count") {
        eprintln!("not tested here: the story of the quickstart, which has a sandbox");
        return;
    }
    let shown = |name: &str| {
        let mut blocks = Document::read(name).blocks().into_iter();
        blocks.find(|block| block.language == "text").unwrap().text
    };
    // The README has a part of it, the page all.
    assert_eq!(not_printed(&shown("README.md"), &printed), Vec::<String>::new());
    let entry = |line: &String| line.starts_with("SEQ TIME ");
    let all = |text: &str| -> Vec<String> {
        without_chance(text).into_iter().filter(|line| !entry(line)).collect()
    };
    assert_eq!(all(&shown("docs/quickstart.md")), all(&printed));
    assert!(shown("README.md").lines().count() > 10);
}

#[test]
fn what_was_not_printed_is_found() {
    let printed = "run 01234567-0123-0123-0123-0123456789ab\nallowed {\"a\": 1}\n";
    let shown = "run ffffffff-0123-0123-0123-0123456789ab\n…\nallowed {…\n";
    assert_eq!(not_printed(shown, printed), Vec::<String>::new());
    assert_eq!(not_printed("denied\n", printed), ["denied"]);
    assert_eq!(not_printed("denied {…\n", printed), ["denied {…"]);
}
