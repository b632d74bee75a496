//! Every admitted builtin over edge cases: where both answer, the answers are the same; and everything else
//! that OPA has is refused at load.
//!
//! The cases are ours: no package carries OPA's own. OPA is the judge of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wicketgate::policy::EngineError;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;

use super::values::values;
use super::{Dice, canonical, opa, parts};
use crate::{DEADLINE, agent, codes};

/// Cases for each builtin with more than one argument, as far as its values give that many.
const CASES: usize = 150;

/// Name and number of arguments of what is admitted, as authors are told.
fn documented() -> BTreeMap<String, usize> {
    let text = include_str!("../../../policies/BUILTINS.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let read = |row: &str| {
        let (name, rest) = row.split_once("` | ").unwrap();
        (name.to_owned(), rest.split(' ').next().unwrap().parse().unwrap())
    };
    rows.map(read).collect()
}

#[test]
fn every_builtin_of_opa_that_is_not_documented_is_a_load_error() {
    let Some(answers) = opa(&[json!("capabilities")]) else { return };
    let opa: BTreeMap<String, usize> = serde_json::from_value(answers[0].clone()).unwrap();
    assert!(opa.len() > 190, "OPA names {} builtins", opa.len());
    let admitted = documented();
    for (name, arity) in &admitted {
        assert_eq!(opa.get(name), Some(arity), "`{name}` of OPA");
    }
    let mut refused = 0;
    for (name, arity) in opa.iter().filter(|(name, _)| !admitted.contains_key(*name)) {
        let arguments = vec!["input.args.x"; *arity].join(", ");
        let found = codes(agent(&format!("allow if {name}({arguments})")));
        // `and` and the like cannot even be written as a call here.
        let known = ["policy.banned_builtin", "policy.syntax"];
        assert!(found.iter().any(|code| known.contains(code)), "`{name}`: {found:?}");
        refused += 1;
    }
    assert!(refused > 100, "{refused} were refused");
}

/// What the arguments of a builtin are, letter by letter; `x`: anything.
fn kinds(name: &str, arity: usize) -> Option<&'static str> {
    let kinds = match name {
        "abs" | "ceil" | "floor" | "round" | "bits.negate" => "n",
        "bits.and" | "bits.or" | "bits.xor" => "nn",
        "bits.rsh" => "ni",
        "array.concat" => "aa",
        "array.reverse" => "a",
        "array.slice" => "aii",
        "base64.decode" | "base64.is_valid" | "base64url.decode" => "k",
        "base64.encode"
        | "base64url.encode"
        | "base64url.encode_no_pad"
        | "hex.encode"
        | "lower"
        | "upper"
        | "strings.reverse"
        | "trim_space" => "s",
        "hex.decode" => "h",
        "concat" => "cl",
        "contains" | "endswith" | "startswith" | "indexof" | "indexof_n" | "split"
        | "strings.count" | "trim" | "trim_left" | "trim_right" | "trim_prefix" | "trim_suffix" => {
            "sc"
        }
        "replace" => "scc",
        "substring" => "sii",
        "strings.any_prefix_match" | "strings.any_suffix_match" => "ll",
        "strings.replace_n" => "os",
        "count" | "is_array" | "is_boolean" | "is_null" | "is_number" | "is_object" | "is_set"
        | "is_string" | "type_name" | "json.marshal" => "x",
        "max" | "min" | "sort" | "sum" | "product" => "z",
        "format_int" => "nw",
        "glob.match" => "gDG",
        "glob.quote_meta" => "g",
        "intersection" | "union" => "M",
        "json.filter" | "json.remove" => "oP",
        "json.is_valid" | "json.unmarshal" => "j",
        "net.cidr_contains" => "CC",
        "net.cidr_is_valid" => "C",
        "object.filter" | "object.remove" => "oK",
        "object.get" => "oPx",
        "object.keys" => "o",
        "object.subset" | "object.union" => "oo",
        "object.union_n" => "a",
        "regex.find_all_string_submatch_n" | "regex.find_n" => "rsi",
        "regex.is_valid" => "r",
        "regex.match" | "regex.split" => "rs",
        "regex.replace" => "srR",
        "semver.compare" => "vv",
        "semver.is_valid" => "v",
        "time.parse_duration_ns" => "u",
        "time.parse_rfc3339_ns" => "t",
        "to_number" => "N",
        "sprintf" => "",
        _ => return None,
    };
    assert!(kinds.is_empty() || kinds.len() == arity, "`{name}`");
    Some(kinds)
}

/// Lists of arguments: of the right kinds, and with one of any.
fn cases(name: &str, kinds: &str, dice: &mut Dice) -> Vec<Value> {
    let lists: Vec<Vec<Value>> = kinds.chars().map(values).collect();
    let any = values('x');
    let mut cases = Vec::new();
    if let [list] = lists.as_slice() {
        cases.extend(list.iter().chain(&any).map(|value| json!([value])));
    } else {
        let all: usize = lists.iter().map(Vec::len).product();
        let sampled = all > CASES;
        for number in 0..all.min(CASES) {
            let mut rest = number;
            let one = |list: &Vec<Value>, rest: &mut usize, dice: &mut Dice| {
                let at = *rest % list.len();
                *rest /= list.len();
                if sampled { dice.of(list).clone() } else { list[at].clone() }
            };
            let values: Vec<Value> = lists.iter().map(|list| one(list, &mut rest, dice)).collect();
            cases.push(values.into());
        }
        for value in any.iter().filter(|value| !value.is_object()) {
            let mut values: Vec<Value> = lists.iter().map(|list| dice.of(list).clone()).collect();
            let at = dice.below(values.len());
            values[at] = value.clone();
            cases.push(values.into());
        }
    }
    assert!(cases.len() >= 10, "`{name}` has {} cases", cases.len());
    cases
}

/// A bundle whose one rule says what the call gives.
pub(super) fn calling(call: &str) -> Bundle {
    let rules = format!(
        r#"
deny contains {{"code": "v", "message": json.marshal({{"v": {call}}})}}
given(v) := {{x | some x in v["$set"]}} if {{ is_object(v); is_array(v["$set"]) }}
else := {{ {{y | some y in x}} | some x in v["$sets"] }} if {{ is_object(v); is_array(v["$sets"]) }}
else := v
"#
    );
    agent(&rules).unwrap_or_else(|errors| panic!("{call}: {errors:?}"))
}

/// What is said of one call.
#[derive(PartialEq, Debug)]
pub(super) enum Said {
    Value(String),
    Undefined,
    Fault(String),
}

pub(super) fn ours(engine: &RegoEngine, input: &Value) -> Said {
    // As the gate asks: an engine that panics has not answered.
    match wicketgate::policy::ask(engine, &canonical(input), false) {
        Err(EngineError::Evaluation(why)) => Said::Fault(why),
        Err(other) => panic!("{other:?}: {input}"),
        Ok(answer) => {
            let reason = answer.reasons.first().filter(|reason| reason.detail == "v");
            reason.map_or(Said::Undefined, |reason| Said::Value(reason.message.clone()))
        }
    }
}

pub(super) fn theirs(answer: &Value) -> Said {
    if let Some(error) = answer.get("error") {
        return Said::Fault(error.to_string());
    }
    match answer["value"].as_array().and_then(|denied| denied.first()) {
        Some(denied) => {
            let message = denied["message"].as_str().unwrap();
            Said::Value(message.chars().take(512).collect())
        }
        None => Said::Undefined,
    }
}

/// The same value, however its text is written.
pub(super) fn same(ours: &Said, theirs: &Said) -> bool {
    match (ours, theirs) {
        (Said::Value(a), Said::Value(b)) => {
            let read = |text: &str| serde_json::from_str::<Value>(text).ok().map(|v| numbers(&v));
            a == b || read(a).is_some_and(|a| Some(a) == read(b))
        }
        (Said::Undefined, Said::Undefined) | (Said::Fault(_), Said::Fault(_)) => true,
        (Said::Value(_) | Said::Undefined | Said::Fault(_), _) => false,
    }
}

/// `1` and `1.0` are one number.
fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(n) => n.as_f64().map_or_else(|| value.clone(), |n| json!(n)),
        Value::Array(list) => list.iter().map(numbers).collect(),
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), numbers(v))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// Calls of `sprintf`: the format is a literal.
fn formats() -> Vec<String> {
    let verbs = [
        "%s", "%v", "%d", "%x", "%X", "%f", "%.2f", "%t", "%q", "%5d", "%05d", "%o", "%b", "%c",
        "%10s", "%%|%s", "%.1s", "%3v",
    ];
    verbs.iter().map(|verb| format!(r#"sprintf("<{verb}>", [given(input.args[0])])"#)).collect()
}

#[test]
fn every_admitted_builtin_answers_as_opa_does_or_faults() {
    let mut plans: Vec<(String, Bundle, Vec<Value>)> = Vec::new();
    let mut dice = Dice(7);
    for (name, arity) in documented() {
        let kinds = kinds(&name, arity).unwrap_or_else(|| panic!("`{name}` has no cases"));
        if name == "sprintf" {
            let given: Vec<Value> =
                "snax".chars().flat_map(values).map(|value| json!([value])).collect();
            plans.extend(
                formats().into_iter().map(|call| (call.clone(), calling(&call), given.clone())),
            );
            continue;
        }
        let given: Vec<String> = (0..arity).map(|i| format!("given(input.args[{i}])")).collect();
        let call = format!("{name}({})", given.join(", "));
        plans.push((name.clone(), calling(&call), cases(&name, kinds, &mut dice)));
    }
    let input = |args: &Value| json!({"args": args, "tool": {"tier": "T0"}});
    let jobs: Vec<Value> = plans
        .iter()
        .map(|(_, bundle, cases)| {
            let (modules, data) = parts(bundle);
            let inputs: Vec<Value> = cases.iter().map(input).collect();
            json!({"modules": modules, "data": data, "inputs": inputs, "paths": ["wicketgate.agent.deny"]})
        })
        .collect();
    let Some(answers) = opa(&jobs) else { return };
    let (mut wrong, mut narrower, mut answered) = (Vec::new(), BTreeSet::new(), 0);
    for ((name, bundle, cases), answers) in plans.iter().zip(&answers) {
        let engine = RegoEngine::new(bundle, DEADLINE).unwrap();
        let mut values = 0;
        for (args, answer) in cases.iter().zip(answers.as_array().unwrap()) {
            let (ours, theirs) = (ours(&engine, &input(args)), theirs(&answer[0]));
            values += usize::from(matches!(ours, Said::Value(_)));
            if same(&ours, &theirs) {
                continue;
            }
            if matches!(ours, Said::Fault(_)) {
                narrower.insert(name.split('(').next().unwrap().to_owned());
                continue;
            }
            wrong.push(format!("{name} {args}\n    ours {ours:?}\n    OPA  {theirs:?}"));
        }
        assert!(values > 0, "`{name}` never gave a value");
        answered += values;
    }
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
    assert!(answered > 2000, "{answered} values were compared");
    let told = documented_narrower();
    let unsaid: Vec<&String> = narrower.difference(&told).collect();
    assert!(unsaid.is_empty(), "faults where OPA answers, and not documented: {unsaid:?}");
    assert!(!narrower.is_empty());
}

/// Builtins that are an engine fault, and so a denial, for some arguments over which OPA has an answer.
fn documented_narrower() -> BTreeSet<String> {
    let text = include_str!("../../../policies/BUILTINS.md");
    let part = text.split("Narrower than OPA").nth(1).unwrap().split("\n\n").next().unwrap();
    part.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
