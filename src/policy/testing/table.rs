//! Decision tables: the differences from a harmless call, and the expected decision.

use serde::Deserialize;

use super::files::Files;
use super::{Bench, Bundle, Case, LoadError, Outcome, TestOptions, rego, sample};
use crate::domain::canonical;
use crate::domain::decision::Verdict;
use crate::domain::json::{Json, Limits};
use crate::explain::{Explained, explain, short};
use crate::lint::schema;
use crate::rego::RegoEngine;
use crate::yaml;
use crate::{Answer, EngineError, PolicyEngine as _, layout};

/// One file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Table {
    /// What every case's input starts from, over the sample.
    #[serde(default)]
    input: serde_json::Value,
    cases: Vec<Row>,
}

crate::domain::closed::texts! {
    /// What the decision is expected to be.
    enum Expected {
        Allow = "allow",
        Deny = "deny",
        RequireApproval = "require_approval",
        /// No answer: a policy error, which the gate denies.
        Error = "error",
    }
}

/// One case; members it does not name are not checked.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    input: serde_json::Value,
    decision: Expected,
    /// `wicketgate.agent.deny`, `agent/main.rego:12`, or both as an entry has them.
    rule: Option<String>,
    /// The codes of all reasons, in any order.
    reasons: Option<Vec<String>>,
    /// A part of the message of a reason.
    message: Option<String>,
    /// The names of all obligations, in any order.
    obligations: Option<Vec<String>>,
    /// The input deliberately violates the schema.
    #[serde(default)]
    malformed: bool,
}

/// Runs every table.
pub(super) fn run(
    bundle: &Bundle,
    bench: &Bench,
    files: &Files,
    options: &TestOptions,
) -> Result<Vec<Case>, Vec<LoadError>> {
    let refused =
        |e: super::super::fault::Error| vec![LoadError::file("policy.engine", ".", e.to_string())];
    let engine = RegoEngine::new(bundle, rego::UNHURRIED).map_err(refused)?;
    let mut cases = Vec::new();
    for (file, text) in &files.tables {
        let table = read(file, text).map_err(|e| vec![e])?;
        let common = own(file, &table.input).map_err(|e| vec![e])?;
        for row in &table.cases {
            let name = format!("{file}: {}", row.name);
            if options.only.as_ref().is_some_and(|only| !only.is_match(&name)) {
                continue;
            }
            let partial = own(&name, &row.input).map_err(|e| vec![e])?;
            let mut input = sample::document(engine.by_hand());
            for layer in [&common, &partial].into_iter().flatten() {
                sample::merge(&mut input, layer);
            }
            cases.push(one(&Judge { bundle, bench, engine: &engine }, (file, name), row, input));
        }
    }
    Ok(cases)
}

/// The input of every case of every table, by the name of its test.
pub(super) fn inputs(
    bundle: &Bundle,
    files: &Files,
) -> Result<Vec<(String, Json)>, Vec<LoadError>> {
    let mut inputs = Vec::new();
    for (file, text) in &files.tables {
        let table = read(file, text).map_err(|e| vec![e])?;
        for row in &table.cases {
            let name = format!("{file}: {}", row.name);
            let mut input = sample::document(&bundle.by_hand);
            for partial in [&table.input, &row.input] {
                if let Some(partial) = own(&name, partial).map_err(|e| vec![e])? {
                    sample::merge(&mut input, &partial);
                }
            }
            inputs.push((name, input));
        }
    }
    Ok(inputs)
}

/// What decides about a case.
struct Judge<'a> {
    bundle: &'a Bundle,
    bench: &'a Bench,
    engine: &'a RegoEngine,
}

fn one(judge: &Judge<'_>, (file, name): (&str, String), row: &Row, input: Json) -> Case {
    let bytes = canonical::bytes(&input);
    let violations = if row.malformed { Vec::new() } else { schema::violations(&input) };
    let place = file.to_owned();
    let mut case = Case {
        name,
        place,
        outcome: Outcome::Passed,
        message: String::new(),
        details: Vec::new(),
        input: None,
    };
    if !violations.is_empty() {
        case.outcome = Outcome::Error;
        case.message = format!(
            "no gate makes this input ({}); say `malformed: true` if that is meant",
            violations.join("; ")
        );
        return case;
    }
    let found = judge.engine.decide(&bytes);
    judge.note(&bytes);
    let explained = || explain(judge.bundle, &bytes).ok();
    if let Some(difference) = differs(row, &found, explained) {
        case.outcome = Outcome::Failed;
        case.message = difference;
        case.details.push(format!("input {}", short(&input)));
        case.details.extend(explain(judge.bundle, &bytes).iter().flat_map(Explained::lines));
        case.input = Some(input);
    }
    case
}

impl Judge<'_> {
    /// Counts the rules that fire, if coverage is requested.
    fn note(&self, input: &[u8]) {
        let Some(marked) = &self.bench.marked else { return };
        let text = String::from_utf8_lossy(input);
        if let Ok(value) = regorus::Value::from_json_str(&text) {
            let mut engine = marked.clone();
            engine.set_input(value);
            // WHY: the answer came from the plain engine; this one only counts.
            let _ = engine.eval_rule(rego::DECISION.to_owned());
        }
    }
}

/// What is not as expected, if anything.
fn differs(
    row: &Row,
    found: &Result<Answer, EngineError>,
    explained: impl Fn() -> Option<Explained>,
) -> Option<String> {
    let answer = match (row.decision, found) {
        (Expected::Error, Err(_)) => return None,
        (wanted, Err(why)) => {
            return Some(format!("expected `{}`, there is no decision: {why}", wanted.as_str()));
        }
        (_, Ok(answer)) => answer,
    };
    let verdict = match answer.verdict {
        Verdict::Allow => Expected::Allow,
        Verdict::Deny => Expected::Deny,
        Verdict::RequireApproval => Expected::RequireApproval,
    };
    if verdict != row.decision {
        let why: Vec<String> = answer
            .reasons
            .iter()
            .map(|r| format!("{}: {} ({})", r.detail, r.message, r.rule))
            .collect();
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        let (wanted, found) = (row.decision.as_str(), verdict.as_str());
        return Some(format!("expected `{wanted}`, decided `{found}`{why}"));
    }
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let codes = sorted(answer.reasons.iter().map(|reason| reason.detail.clone()).collect());
    if let Some(wanted) = row.reasons.clone().map(sorted).filter(|wanted| *wanted != codes) {
        return Some(format!(
            "expected the reasons [{}], found [{}]",
            wanted.join(", "),
            codes.join(", ")
        ));
    }
    let obligations =
        sorted(answer.obligations.iter().map(|duty| duty.name().to_owned()).collect());
    if let Some(wanted) =
        row.obligations.clone().map(sorted).filter(|wanted| *wanted != obligations)
    {
        return Some(format!(
            "expected the obligations [{}], found [{}]",
            wanted.join(", "),
            obligations.join(", ")
        ));
    }
    if let Some(wanted) = &row.message
        && !answer.reasons.iter().any(|reason| reason.message.contains(wanted.as_str()))
    {
        return Some(format!("no reason says `{wanted}`"));
    }
    let wanted = row.rule.as_ref()?;
    let mut deciding: Vec<String> =
        answer.reasons.iter().map(|reason| reason.rule.clone()).collect();
    if verdict == Expected::Allow {
        let fired = explained().into_iter().flat_map(|all| all.rules);
        let fired = fired.filter(|rule| rule.fired && rule.name.ends_with(".allow"));
        deciding = fired.map(|rule| format!("{} {}", rule.name, rule.place)).collect();
    }
    let named = |rule: &String| rule == wanted || rule.split(' ').any(|part| part == wanted);
    (!deciding.iter().any(named))
        .then(|| format!("expected the rule `{wanted}`, it was `{}`", deciding.join("`, `")))
}

fn read(file: &str, text: &[u8]) -> Result<Table, LoadError> {
    if file.ends_with(".json") {
        let json = layout::parse(file, text)?;
        return serde_json::from_value(json.to_serde())
            .map_err(|e| malformed(file, &e.to_string()));
    }
    yaml::from_slice(text, file).map_err(|e| LoadError {
        file: file.to_owned(),
        line: u32::try_from(e.line).unwrap_or(u32::MAX),
        column: u32::try_from(e.column).unwrap_or(u32::MAX),
        code: "policy.table",
        message: if e.key.is_empty() { e.message } else { format!("{}: {}", e.key, e.message) },
    })
}

fn malformed(file: &str, why: &str) -> LoadError {
    LoadError::file("policy.table", file, why)
}

/// A partial input as ours; `None` without one.
fn own(file: &str, value: &serde_json::Value) -> Result<Option<Json>, LoadError> {
    if value.is_null() {
        return Ok(None);
    }
    if !value.is_object() {
        return Err(malformed(file, "`input` is an object"));
    }
    Json::parse(value.to_string().as_bytes(), &Limits::FILE)
        .map(Some)
        .map_err(|e| malformed(file, &e.to_string()))
}
