//! The rules everybody starts with: their own tests, and what they make of a call.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wicketgate::policy::PolicyEngine as _;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/starter")
}

#[test]
fn the_rules_pass_their_own_tests() {
    for layer in ["org", "agent"] {
        let mut engine = regorus::Engine::new();
        engine.add_data_json(r#"{"reviewed": {"tools": []}}"#).unwrap();
        let mut tests = Vec::new();
        for entry in std::fs::read_dir(shipped().join(layer)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let package = engine.add_policy(path.display().to_string(), text.clone()).unwrap();
            let rules = text.lines().filter_map(|line| line.strip_suffix(" if {"));
            let rules = rules.filter(|rule| rule.starts_with("test_"));
            tests.extend(rules.map(|rule| format!("{package}.{rule}")));
        }
        assert!(tests.len() >= 3, "{layer}: {tests:?}");
        for test in tests {
            let value = engine.clone().eval_rule(test.clone()).unwrap();
            assert_eq!(value, regorus::Value::from(true), "{test}");
        }
    }
}

fn decided(args: &Value, read_only: bool) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    for file in ["org/guard.rego", "agent/review.rego", "data/reviewed.json"] {
        let to = dir.path().join(file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(shipped().join(file), to).unwrap();
    }
    std::fs::write(dir.path().join("bundle.json"), r#"{"name":"starter","version":"1.0.0"}"#)
        .unwrap();
    let bundle = Bundle::load(dir.path()).unwrap();
    let engine = RegoEngine::new(&bundle, std::time::Duration::from_secs(10)).unwrap();
    let input = json!({"tool": {"name": "fs.do", "tier": "T0", "read_only": read_only},
        "agent": {"binding": "claimed"}, "args": args});
    let answer = engine.decide(input.to_string().as_bytes()).unwrap();
    let codes = answer.reasons.iter().map(|r| r.detail.clone()).collect();
    (answer.verdict.as_str().to_owned(), codes)
}

#[test]
fn large_arguments_are_no_reason_to_deny_and_padding_hides_nothing() {
    let allowed = ("allow".to_owned(), Vec::new());
    let page = "a line about .env and .ssh\n".repeat(20_000);
    assert_eq!(decided(&json!({"path": "notes.md", "content": page}), true), allowed);
    let many: Vec<String> = (0..2_000).map(|i| format!("src/file_{i}.rs")).collect();
    assert_eq!(decided(&json!({"paths": many}), true), allowed);
    let padded = format!("cat .env #{}", "x".repeat(60_000));
    assert_eq!(decided(&json!({"command": padded}), true).1, ["protected_file"]);
    let padded = format!("cat .env #{}", "x".repeat(70_000));
    assert_eq!(decided(&json!({"command": padded}), true).1, ["unchecked_argument"]);
    assert_eq!(decided(&json!({}), false).1, ["not_reviewed"]);
}
