//! Every policy that is shipped, over generated inputs: no answer of ours is another than OPA's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wicketgate::domain::decision::PolicyObligation;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;
use wicketgate::policy::{Answer, EngineError, PolicyEngine as _};

use super::{Dice, canonical, generated, opa, parts};
use crate::DEADLINE;

/// Inputs for each policy.
const INPUTS: usize = 500;

/// Directories below these that hold rules: bundles, starters, and single files beside an example.
fn shipped() -> BTreeMap<String, Bundle> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    let mut todo: Vec<PathBuf> = ["policies", "examples"].map(|dir| root.join(dir)).into();
    while let Some(dir) = todo.pop() {
        let inner: Vec<PathBuf> =
            std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        let name = dir.strip_prefix(root).unwrap().display().to_string();
        let layered = ["org", "team", "agent"].iter().any(|layer| dir.join(layer).is_dir());
        if layered {
            found.insert(name, bundle(&files(&dir)));
            continue;
        }
        for path in inner {
            if path.is_dir() && !path.ends_with("lib") {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rego")
                && !path.starts_with(root.join("policies/lib"))
            {
                let text = std::fs::read(&path).unwrap();
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, bundle(&BTreeMap::from([("agent/main.rego".to_owned(), text)])));
            }
        }
    }
    found
}

fn bundle(files: &BTreeMap<String, Vec<u8>>) -> Bundle {
    let mut files = files.clone();
    files.entry("bundle.json".to_owned()).or_insert_with(|| crate::META.as_bytes().to_vec());
    Bundle::of_files(files).unwrap()
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            // Tables of tests lie beside a bundle and are no part of it.
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            let data =
                name == "bundle.json" || (name.starts_with("data/") && name.ends_with(".json"));
            if data || name.ends_with(".rego") {
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

/// What rules and data look for: every text in them.
fn words(modules: &BTreeMap<String, String>, data: &Value) -> Vec<String> {
    let mut words = BTreeSet::from(["a".to_owned(), "api.example.com".to_owned()]);
    let own = modules.iter().filter(|(name, _)| !name.starts_with("lib/"));
    let texts = own.map(|(_, text)| text.clone()).chain([data.to_string()]);
    for text in texts {
        words.extend(text.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    words.into_iter().collect()
}

/// The layers that the input says observe.
fn layers(input: &Value) -> &[Value] {
    input["observe"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What the gate makes of the two documents, in the words of `Answer`; `Err`: a denial for want of an answer.
fn expected(input: &Value, answers: &Value) -> Result<Value, String> {
    let said = |at: usize| {
        let answer = &answers[at];
        answer.get("value").cloned().ok_or_else(|| answer.to_string())
    };
    let decision = said(0)?;
    if decision["verdict"] == "allow" || layers(input).is_empty() {
        return Ok(shown(&decision, true));
    }
    let binding = said(1)?;
    if binding["verdict"] == "allow" {
        let with = json!({"verdict": decision["verdict"], "reasons": decision["reasons"],
            "obligations": binding["obligations"]});
        return Ok(shown(&with, false));
    }
    Ok(shown(&binding, true))
}

fn shown(document: &Value, enforced: bool) -> Value {
    let reasons: Vec<Value> = document["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .take(32)
        .map(|reason| {
            let message: String = reason["message"].as_str().unwrap().chars().take(512).collect();
            json!([reason["code"], message, reason["rule"]])
        })
        .collect();
    let duties = document["obligations"].as_array().unwrap();
    let kinds: BTreeSet<&str> = duties
        .iter()
        .filter(|duty| duty["type"] == "redact")
        .flat_map(|duty| {
            duty["kinds"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap())
        })
        .collect();
    let cap = duties.iter().filter_map(|duty| duty["bytes"].as_u64()).min();
    let types: BTreeSet<_> = duties.iter().map(|duty| duty["type"].as_str().unwrap()).collect();
    json!({"verdict": document["verdict"], "reasons": reasons, "kinds": kinds, "cap": cap,
        "types": types, "enforced": enforced})
}

fn ours(answer: &Answer) -> Value {
    let rule = |rule: &str| rule.split(' ').next().unwrap_or_default().to_owned();
    let reasons: Vec<Value> =
        answer.reasons.iter().map(|r| json!([r.detail, r.message, rule(&r.rule)])).collect();
    let (mut kinds, mut cap) = (Vec::<String>::new(), None);
    for duty in &answer.obligations {
        match duty {
            PolicyObligation::Redact { kinds: named, .. }
            | PolicyObligation::RedactArguments { kinds: named } => kinds.extend(named.clone()),
            PolicyObligation::CapBytes { bytes } => cap = Some(*bytes),
            PolicyObligation::EnhancedAudit { .. }
            | PolicyObligation::RateLimit(_)
            | PolicyObligation::Notify { .. }
            | PolicyObligation::Justify => {}
        }
    }
    kinds.sort();
    kinds.dedup();
    let types: BTreeSet<_> = answer.obligations.iter().map(PolicyObligation::name).collect();
    json!({"verdict": answer.verdict.as_str(), "reasons": reasons, "kinds": kinds, "cap": cap,
        "types": types, "enforced": answer.enforced})
}

#[test]
fn every_shipped_policy_answers_generated_inputs_as_opa_does() {
    let shipped = shipped();
    assert!(shipped.len() >= 9, "found {:?}", shipped.keys());
    let mut jobs = Vec::new();
    let mut all_inputs = Vec::new();
    for (index, bundle) in shipped.values().enumerate() {
        let engine = RegoEngine::new(bundle, DEADLINE).unwrap();
        let (modules, data) = parts(bundle);
        let words = words(&modules, &data);
        let mut dice = Dice(index as u64);
        let inputs: Vec<Value> = (0..INPUTS)
            .map(|_| generated::input(&mut dice, &words, engine.by_hand()))
            .map(|input| serde_json::from_slice(&canonical(&input)).unwrap())
            .collect();
        jobs.push(json!({"modules": modules, "data": data, "inputs": inputs,
            "paths": ["wicketgate.decision", "wicketgate.binding"]}));
        all_inputs.push(inputs);
    }
    let Some(answers) = opa(&jobs) else { return };
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    for (((name, bundle), inputs), answers) in shipped.iter().zip(&all_inputs).zip(&answers) {
        let engine = RegoEngine::new(bundle, DEADLINE).unwrap();
        for (input, answer) in inputs.iter().zip(answers.as_array().unwrap()) {
            let decided =
                wicketgate::policy::ask(&engine, &canonical(input), !layers(input).is_empty());
            let expected = expected(input, answer);
            match (&decided, &expected) {
                (Ok(answer), Ok(expected)) => {
                    assert_eq!(ours(answer), *expected, "{name}: {input}");
                    *verdicts.entry(answer.verdict.as_str().to_owned()).or_default() += 1;
                }
                (Err(EngineError::Evaluation(_) | EngineError::Undefined), Err(_)) => {
                    *verdicts.entry("fault".to_owned()).or_default() += 1;
                }
                // `some x in null`, `count(1)` and `object.get("text", …)` are errors here and nothing there:
                // narrower, and a denial.
                (Err(EngineError::Evaluation(why)), Ok(_))
                    if why.contains("expects ") || why.contains("requires ") =>
                {
                    *verdicts.entry("narrower".to_owned()).or_default() += 1;
                }
                _other => panic!("{name}: ours {decided:?}, OPA's {answer}: {input}"),
            }
        }
    }
    let narrower = verdicts.get("narrower").copied().unwrap_or_default();
    assert!(narrower * 20 < INPUTS * shipped.len(), "{narrower} answers of OPA are faults here");
    // What is compared is not always the same answer.
    for (verdict, least) in [("allow", 20), ("deny", 20), ("require_approval", 20), ("fault", 1)] {
        let count = verdicts.get(verdict).copied().unwrap_or_default();
        assert!(count >= least, "{count} of {verdict}: {verdicts:?}");
    }
}
