//! The checker of at most 80 lines, written only from VERIFY.md and Python's standard library.

use std::path::Path;
use std::process::Command;

use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::evidence::bundle::{ENTRIES, Files, INCLUSION};

use crate::demo::{bundle, demo, replace, resign, resign_with, said, written};

const CHECKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/checker/check_bundle.py");

fn check(trust: &Path, bundle: &Path) -> (bool, String) {
    let done = Command::new("python3").arg(CHECKER).args([trust, bundle]).output().unwrap();
    (done.status.success(), said(&done))
}

#[test]
fn it_has_at_most_80_lines_and_imports_nothing_but_the_standard_library() {
    let text = std::fs::read_to_string(CHECKER).unwrap();
    assert!(text.lines().count() <= 80);
    assert!(text.lines().all(|line| line.len() <= 132));
    let imports: Vec<&str> = text.lines().filter(|line| line.contains("import ")).collect();
    assert_eq!(imports, ["import base64, hashlib, hmac, json, os, sys"]);
    assert!(!text.contains("__import__") && !text.contains("importlib"));
}

#[test]
fn it_accepts_the_quickstart_and_refuses_its_tampered_copy() {
    let trust = demo().join("auditor/trust.txt");
    let (fine, told) = check(&trust, &demo().join("evidence"));
    assert!(fine && told.starts_with("accepted: "), "{told}");
    let (fine, told) = check(&trust, &demo().join("evidence-tampered"));
    assert!(!fine && told.contains("a file was changed"), "{told}");
}

/// Lines of the entries and the proofs, without one of them.
fn without(files: &mut Files, word: &str) {
    let text = String::from_utf8(files.get(ENTRIES).unwrap().to_vec()).unwrap();
    let gone = text.lines().find(|line| line.contains(word)).unwrap().to_owned();
    let left: String =
        text.lines().filter(|line| **line != gone).map(|line| format!("{line}\n")).collect();
    files.put(ENTRIES, left);
    let seq = serde_json::from_str::<serde_json::Value>(&gone).unwrap()["seq"].clone();
    let mut proofs: serde_json::Value =
        serde_json::from_slice(files.get(INCLUSION).unwrap()).unwrap();
    proofs["proofs"].as_array_mut().unwrap().retain(|proof| proof["seq"] != seq);
    files.put(INCLUSION, proofs.to_string());
}

#[test]
fn it_refuses_what_was_changed_even_when_the_list_of_files_is_signed_again() {
    let trust = demo().join("auditor/trust.txt");
    let refused = |by: &str, change: &dyn Fn(&mut Files)| {
        let mut files = bundle();
        change(&mut files);
        resign(&mut files);
        let (_dir, path) = written(&files);
        let (fine, told) = check(&trust, &path);
        assert!(!fine && told.contains(by), "not refused because {by}:\n{told}");
    };
    refused("not in the log", &|f| {
        replace(f, ENTRIES, r#""verdict":"deny""#, r#""verdict":"allow""#);
    });
    refused("canonical form", &|f| {
        replace(f, ENTRIES, r#""attempts":1"#, r#""attempts":1,"attempts":1"#);
    });
    refused("", &|f| replace(f, ENTRIES, r#""attempts":1"#, r#""attempts":1.0"#));
    refused("of the run is missing", &|f| without(f, r#""kind":"call.denied""#));
    refused("not sealed and complete", &|f| without(f, r#""kind":"run.sealed""#));
    refused("", &|f| without(f, r#""kind":"run.opened""#));
    refused("a policy is not here or not approved", &|f| f.put("policy/bundle.tar", "other"));
    refused("not the one that was committed to", &|f| {
        let name = f.0.keys().find(|name| name.ends_with(".bin")).unwrap().clone();
        f.put(name, r#"{"amount":1}"#);
    });
    refused("not the one that was committed to", &|f| {
        let names: Vec<_> = f.0.keys().filter(|n| n.ends_with(".bin")).cloned().collect();
        let (a, b) = (f.0[&names[0]].clone(), f.0[&names[1]].clone());
        f.put(names[0].clone(), b);
        f.put(names[1].clone(), a);
    });
    refused("no writer signed the head", &|f| {
        replace(f, "ledger/checkpoint.txt", "\u{2014} ", "\u{2014} x");
    });
}

#[test]
fn it_refuses_other_keys_and_a_log_that_does_not_extend_the_head_that_was_noted() {
    let folder = tempfile::tempdir().unwrap();
    let told_by = |text: String| {
        let trust = folder.path().join("trust.txt");
        std::fs::write(&trust, text).unwrap();
        check(&trust, &demo().join("evidence"))
    };
    let mine = std::fs::read_to_string(demo().join("auditor/trust.txt")).unwrap();
    let mine = mine.replace("../", &format!("{}/", demo().display()));
    assert!(told_by(mine.clone()).0);
    // Nobody, or somebody else, is trusted for each of these.
    let drop = |word: &str| -> String {
        mine.lines()
            .filter(|line| !line.starts_with(word))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    for (word, why) in [
        ("evidence-key", "signed by nobody trusted"),
        ("enrolment-key", "nobody trusted enrolled this log"),
        ("policy", "not here or not approved"),
    ] {
        let (fine, told) = told_by(drop(word));
        assert!(!fine && told.contains(why), "{word}: {told}");
    }
    let head = mine.lines().find(|line| line.starts_with("head ")).unwrap();
    let (start, root) = head.rsplit_once(' ').unwrap();
    let other = format!("{start} {}", "ab".repeat(32));
    let (fine, told) = told_by(mine.replace(root, &"ab".repeat(32)));
    assert!(!fine && told.contains("does not extend"), "{other}: {told}");
    // A bundle that somebody else made and signed.
    let mut files = bundle();
    resign_with(&mut files, &SecretKey::generate(&SystemEntropy));
    let (_dir, path) = written(&files);
    let (fine, told) = check(&demo().join("auditor/trust.txt"), &path);
    assert!(!fine && told.contains("signed by nobody trusted"), "{told}");
}
