//! `wicketgate firewall`: what is found in files, and how well.

use serde_json::{Value, json};

use crate::folder::Folder;

/// A token of a code host, of no account. WHY in parts: it does not stand in this file.
fn token() -> String {
    ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat()
}

#[test]
fn a_scan_names_what_it_finds_and_never_shows_it() {
    let folder = Folder::new();
    folder.write("clean.txt", "nothing to see");
    assert_eq!(folder.run(&["firewall", "scan", "clean.txt"]).ends(0).out, "nothing is found\n");
    folder.write("card.json", r#"{"pay": {"with": "4111 1111 1111 1111"}}"#);
    let found = folder.run(&["firewall", "scan", "card.json"]).ends(0).out;
    assert!(found.starts_with("card (personal, high") && found.contains("/pay/with"), "{found}");
    folder.write("notes.txt", format!("token: {}", token()));
    let found = folder.run(&["policy", "firewall", "scan", "notes.txt", "--json"]).ends(1).out;
    assert!(!found.contains(&token()), "{found}");
    let found: Value = serde_json::from_str(&found).unwrap();
    let all = found["findings"].as_array().unwrap();
    assert!(
        all.iter().any(|one| one["class"] == "secret" && one["confidence"] == "high"),
        "{found}"
    );
    let rules: Value =
        serde_json::from_str(&folder.run(&["firewall", "rules", "--json"]).ends(0).out).unwrap();
    assert_eq!(rules["rules"], found["rules"]);
    assert!(rules["kinds"].as_array().unwrap().iter().any(|row| row["kind"] == "card"));
}

#[test]
fn a_corpus_says_what_is_missed_and_what_is_found_in_vain() {
    let folder = Folder::new();
    let line = |text: &str, kinds: &[&str]| json!({"text": text, "kinds": kinds}).to_string();
    let good = [line("pay with 4111 1111 1111 1111", &["card"]), line("nothing", &[])].join("\n");
    folder.write("good.jsonl", &good);
    let said = folder.run(&["firewall", "test", "good.jsonl"]).ends(0).out;
    assert!(said.contains("1 found, 0 missed, 0 in vain"), "{said}");
    let bad = [line("4111 1111 1111 1112", &["card"]), line("write to ann@example.com", &[])];
    folder.write("bad.jsonl", bad.join("\n"));
    let said = folder.run(&["firewall", "test", "bad.jsonl"]).ends(1).out;
    assert!(said.contains("0 found, 1 missed, 0 in vain"), "{said}");
    assert!(said.contains("0 found, 0 missed, 1 in vain"), "{said}");
    folder.write("wrong.jsonl", "{}");
    folder.run(&["firewall", "test", "wrong.jsonl"]).ends(1).complains("line 1");
}
