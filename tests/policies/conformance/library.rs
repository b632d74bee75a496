//! Policies in the manner of public libraries: how they bind a name, and what they ask of it. All that stock OPA
//! loads loads here, and no answer is another.

use serde_json::{Value, json};
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;

use super::builtins::{Said, ours, same, theirs};
use super::{opa, parts};
use crate::{DEADLINE, agent};

/// How `x` is bound.
const BOUND: [&str; 14] = [
    "some x in input.args.l",
    "x := input.args.s",
    "x := lower(input.args.s)",
    "some k, x in input.args.o",
    "some i; x := input.args.l[i]",
    "y := input.args.s; x := y",
    "some y in input.args.l; x := y",
    "some x in known",
    "some x; known[x]",
    "x := input.args.l[_]",
    "some x in object.keys(input.args.o)",
    "w := {\"n\": input.args.s}; x := w.n",
    "some i, y in input.args.l; i >= 0; x := y",
    "y := input.args.s; z := trim_space(y); x := z",
];

/// What is asked of it.
const ASKED: [&str; 28] = [
    "not allowed[x]",
    "allowed[x]",
    "not known[x]",
    "known[x]",
    "not roles[x]",
    "not x in allowed",
    "x in known",
    "not roles[x].admin",
    "roles[x].level > 1",
    "not roles[x].level > 1",
    "q := allowed[x]; q == x",
    "not is_known(x)",
    "is_known(x)",
    "some r in roles[x].tags; not known[r]",
    "count({t | some t in roles[x].tags; not allowed[t]}) > 0",
    "not input.args.o[x]",
    "input.args.o[x] == 1",
    "every t in roles[x].tags { not allowed[t] }",
    "v := x; not allowed[v]",
    "v := x; allowed[v]",
    "v := x; u := v; not known[u]",
    "not roles[x].tags[0] == \"a\"",
    "not startswith(x, \"a\")",
    "not regex.match(`^a`, x)",
    "x != \"a\"; not known[x]",
    "v := sprintf(\"%s\", [x]); not known[v]",
    "some other in known; other != x; not roles[other][x]",
    "ok := [t | some t in input.args.l; t == x; not known[t]]; count(ok) > 0",
];

const RULES: &str = r#"
allowed := {"a", "b"}
known contains v if some v in ["a", "c"]
roles := {"a": {"admin": true, "level": 1, "tags": ["a", "z"]}, "c": {"level": 2, "tags": ["b"], "a": 1}}
is_known(v) if known[v]
"#;

fn inputs() -> Vec<Value> {
    let args = [
        json!({}),
        json!({"l": ["a"], "s": "a", "o": {"a": 1}}),
        json!({"l": ["a", "b", "c", "d"], "s": "C ", "o": {"c": "a", "d": "q"}}),
        json!({"l": [], "s": "", "o": {}}),
        json!({"l": ["z"], "s": "B", "o": {"z": "z", "a": "c"}}),
        json!({"l": ["c"], "s": "c"}),
    ];
    args.into_iter().map(|args| json!({"args": args, "tool": {"tier": "T0"}})).collect()
}

#[test]
fn what_opa_loads_in_the_manner_of_public_libraries_loads_here_and_answers_alike() {
    let mut plans: Vec<(String, Bundle)> = Vec::new();
    for bound in BOUND {
        for asked in ASKED {
            let rule = format!(
                "deny contains {{\"code\": \"v\", \"message\": \"held\"}} if {{ {bound}; {asked} }}"
            );
            let bundle = agent(&format!("{RULES}{rule}"));
            let bundle = bundle.unwrap_or_else(|errors| panic!("{bound}; {asked}: {errors:?}"));
            plans.push((format!("{bound}; {asked}"), bundle));
        }
    }
    let inputs = inputs();
    let job = |bundle: &Bundle| {
        let (modules, data) = parts(bundle);
        json!({"modules": modules, "data": data, "inputs": inputs, "paths": ["wicketgate.agent.deny"]})
    };
    let jobs: Vec<Value> = plans.iter().map(|(_, bundle)| job(bundle)).collect();
    let Some(answers) = opa(&jobs) else { return };
    let (mut loaded, mut held, mut wrong) = (0, 0, Vec::new());
    for ((name, bundle), answers) in plans.iter().zip(&answers) {
        let engine = RegoEngine::new(bundle, DEADLINE).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let said: Vec<Said> =
            answers.as_array().unwrap().iter().map(|answer| theirs(&answer[0])).collect();
        let refused = |said: &Said| matches!(said, Said::Fault(why) if why.contains("rego_type_error") || why.contains("rego_unsafe") || why.contains("rego_compile"));
        if said.iter().any(refused) {
            continue;
        }
        loaded += 1;
        for (input, theirs) in inputs.iter().zip(&said) {
            let ours = ours(&engine, input);
            held += usize::from(matches!(theirs, Said::Value(_)));
            // `some … in` over what is no collection is a fault here, which is a denial.
            if !same(&ours, theirs) && !matches!(ours, Said::Fault(_)) {
                wrong.push(format!("{name} {}: {ours:?}, OPA: {theirs:?}", input["args"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(12)]);
    assert!(loaded >= 200 && held > 300, "{loaded} loaded, {held} held, of {}", plans.len());
}
