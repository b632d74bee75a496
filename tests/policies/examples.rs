//! The shipped examples: their own tests, and tables of whole decisions through the real engine.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use wicketgate::policy::PolicyEngine as _;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;

use super::{DEADLINE, shipped};

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(shipped()).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn rego_files(dir: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rego_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rego") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.insert(path.display().to_string(), text);
        }
    }
}

#[test]
fn every_example_has_tests_of_its_own_and_they_hold() {
    for name in names() {
        let mut files = BTreeMap::new();
        rego_files(&shipped().join(&name), &mut files);
        let mut engine = regorus::Engine::new();
        let mut tests = Vec::new();
        for (path, text) in &files {
            let package = engine.add_policy(path.clone(), text.clone()).unwrap();
            let rules = text.lines().filter_map(|l| l.strip_suffix(" if {"));
            let rules = rules.filter(|rule| rule.starts_with("test_"));
            tests.extend(rules.map(|rule| format!("{package}.{rule}")));
        }
        for data in ["freeze", "hosts"] {
            let file = shipped().join(&name).join(format!("data/{data}.json"));
            if let Ok(text) = std::fs::read_to_string(file) {
                engine.add_data_json(&format!("{{\"{data}\":{text}}}")).unwrap();
            }
        }
        assert!(tests.len() >= 3, "{name} has {} tests", tests.len());
        for test in tests {
            let value = engine.clone().eval_rule(test.clone()).unwrap();
            assert_eq!(value, regorus::Value::from(true), "{name}: {test}");
        }
    }
}

/// A whole input document; the table says what is different.
fn input() -> Value {
    json!({
        "v": "wicketgate/input/1",
        "agent": {"id": "code-review-agent", "version": "1.0.0", "owner": "o", "labels": {},
                  "manifest": "sha256:00", "binding": "observed", "delegation": []},
        "run": {"id": "r", "mode": "enforce", "incognito": false, "opened_at": "2026-11-20T10:00:00.000Z", "calls": 0,
                "errors": 0, "cost": 0, "labels": {}},
        "tool": {"name": "repo.read_file", "kind": "file.read", "tier": "T0", "read_only": true,
                 "definition": "sha256:00"},
        "call": {"id": "c"},
        "args": {},
        "effect": {"kind": "none"},
        "context": {"attested": {}, "claimed": {}},
        "time": {"rfc3339": "2026-11-20T10:00:00.000Z", "unix": 0, "weekday": "friday",
                 "hour": 10, "minute": 0, "tz": "UTC"},
        "findings": [],
        "approvals": [],
        "observe": [],
        "history": {"calls": 0, "errors": 0, "denied": 0}
    })
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[test]
fn every_row_of_the_decision_tables_comes_out_as_written() {
    let table: Value = serde_json::from_str(include_str!("tables.json")).unwrap();
    let table = table.as_object().unwrap();
    assert_eq!(table.keys().cloned().collect::<Vec<_>>(), names());
    for (name, rows) in table {
        let bundle = Bundle::load(&shipped().join(name)).unwrap();
        let engine = RegoEngine::new(&bundle, DEADLINE).unwrap();
        for row in rows.as_array().unwrap() {
            let mut document = input();
            document["quorum"] = json!({"by_hand": engine.by_hand()});
            merge(&mut document, &row["input"]);
            let answer = engine.decide(document.to_string().as_bytes()).unwrap();
            let title = format!("{name}: {}", row["name"]);
            assert_eq!(answer.verdict.as_str(), row["verdict"], "{title}: {answer:?}");
            let found: Vec<_> = answer.reasons.iter().map(|r| r.detail.as_str()).collect();
            let wanted = row.get("codes").cloned().unwrap_or(json!([]));
            assert_eq!(json!(found), wanted, "{title}");
            if let Some(rule) = row.get("rule") {
                assert_eq!(json!(answer.reasons[0].rule), *rule, "{title}");
            }
            let duties: Vec<_> = answer.obligations.iter().map(|o| o.name()).collect();
            let wanted = row.get("obligations").cloned().unwrap_or(json!([]));
            assert_eq!(json!(duties), wanted, "{title}");
        }
    }
}

/// POL-039: no field of an allowed call is decoration that may be dropped, nulled or retyped into
/// another allow, unless the rules do not read it.
#[test]
fn no_mutated_field_that_a_rule_reads_keeps_a_call_allowed() {
    let bundle = Bundle::load(&shipped().join("reviewer-reads-only")).unwrap();
    let engine = RegoEngine::new(&bundle, DEADLINE).unwrap();
    let allowed = |document: &Value| {
        let answer = engine.decide(document.to_string().as_bytes());
        answer.is_ok_and(|a| a.verdict == wicketgate::domain::decision::Verdict::Allow)
    };
    let mut document = input();
    document["effect"] = json!({"kind": "file", "access": "read"});
    assert!(allowed(&document));
    for pointer in ["/agent/id", "/tool/name", "/tool/read_only", "/effect/access"] {
        for value in [json!(null), json!([]), json!({}), json!(1), json!(false), json!("")] {
            let mut mutant = document.clone();
            *mutant.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!allowed(&mutant), "{pointer} = {value}");
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut mutant = document.clone();
        mutant.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
        assert!(!allowed(&mutant), "{pointer} dropped");
    }
}
