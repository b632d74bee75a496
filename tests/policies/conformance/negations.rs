//! Conditions under `not` and sums, generated, over inputs in which members are missing, null or of another
//! type: no answer of ours is another than OPA's.

use serde_json::{Value, json};
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;

use super::builtins::{Said, calling, ours, same, theirs};
use super::{Dice, opa, parts};
use crate::{DEADLINE, agent};

/// Conditions that are generated.
const SHAPES: usize = 600;

/// What can stand in a condition.
const TERMS: [&str; 30] = [
    "input.args.x",
    "input.args.y",
    "input.args.a",
    "1",
    "\"a\"",
    "null",
    "false",
    "input.args.a[input.args.x]",
    "input.args.a[plain(input.args.y)]",
    "input.args.a[0]",
    "input.args[\"y\"].x",
    "[input.args.x, 1]",
    "[1, 2][input.args.y]",
    "{\"k\": input.args.x}",
    "{input.args.x}",
    "{input.args.y: 1}",
    "plain(input.args.x)",
    "some_of(input.args.x)",
    "plain(some_of(input.args.y))",
    "some_of(input.args.y)[0]",
    "never",
    "known",
    "members",
    "count([v | some v in input.args.a; not is(input.args.y)])",
    "[v | some v in input.args.a; not v == input.args.x]",
    "{v: input.args.y | some v in input.args.a}",
    "here",
    "here.x",
    "object.get(input.args, \"x\", input.args.y)",
    "set()",
];

/// Conditions; `T` and `U` are terms.
const FORMS: [&str; 26] = [
    "not T",
    "not T == U",
    "not T == U",
    "not T = U",
    "not (T == U)",
    "not T != U",
    "not T < 1",
    "not \"a\" >= T",
    "not T in U",
    "not T, 1 in U",
    "not is(T)",
    "not is(plain(T))",
    "not both(T, U)",
    "not isnt(T)",
    "not is_string(T)",
    "not type_name(T) == type_name(U)",
    "not json.marshal(T) == \"1\"",
    "not plain(T) == some_of(U)",
    "not [T] == [U]",
    "[1 | not is(T)] == [1]",
    "count({q | some q in [1, 2]; not q == T; not both(q, U)}) == 1",
    "every q in [1, 2] { not both(q, T) }",
    "every q in T { not q == U }",
    "some q in [1, 2]; not both(q, T)",
    "some q in [1, 2]; not T == q",
    "not [v | some v in [1, 2]; not both(v, T)] == [U]",
];

/// Where a condition stands; `C` is it.
const PLACES: [&str; 5] = [
    "holds if { here := object.get(input.args, \"b\", {\"x\": 1}); C }",
    "holds if by(input.args)\nby(here) if { C }",
    "holds if chosen == 2\nchosen := 1 if { here := input.args; input.args.z == 1; C } else := 2 if { here := input.args; C }",
    "holds if count([1 | here := input.args; C]) > 0",
    "default holds := false\nholds if { here := input\n\tC }",
];

const RULES: &str = r#"
deny contains {"code": "v", "message": "held"} if holds
plain(v) := v
is(v) if v == 1
isnt(v) if not is(v)
both(v, w) if v == w
some_of(v) := [v] if v == 1
never if input.args.never == 1
known := input.args.x
members contains v if v := input.args.a[_]
"#;

fn inputs() -> Vec<Value> {
    let args = [
        json!({}),
        json!({"x": null}),
        json!({"x": false, "y": true}),
        json!({"x": 0, "y": 1}),
        json!({"x": 1}),
        json!({"x": 1, "y": 1, "a": [1, 2], "b": {}}),
        json!({"x": "a", "y": {"x": 1}, "a": ["a"], "z": 1}),
        json!({"y": 0, "a": [0, 1, 1], "b": {"x": false}}),
        json!({"x": [1], "y": "a", "a": {"a": 1, "1": 2}}),
        json!({"x": {"x": 1}, "y": 2, "a": []}),
        json!({"y": null, "a": "a", "b": null}),
    ];
    args.into_iter().map(|args| json!({"args": args, "tool": {"tier": "T0"}})).collect()
}

/// The answers of both over every input; OPA's alone where it refuses to compile the rule.
fn compared(plans: &[(String, Bundle)], inputs: &[Value]) -> Option<Vec<(String, Said, Said)>> {
    let job = |bundle: &Bundle| {
        let (modules, data) = parts(bundle);
        json!({"modules": modules, "data": data, "inputs": inputs, "paths": ["wicketgate.agent.deny"]})
    };
    let jobs: Vec<Value> = plans.iter().map(|(_, bundle)| job(bundle)).collect();
    let answers = opa(&jobs)?;
    let (mut found, mut refused) = (Vec::new(), 0);
    for ((name, bundle), answers) in plans.iter().zip(&answers) {
        // A bundle that the engine refuses is not in force and answers nothing.
        let Ok(engine) = RegoEngine::new(bundle, DEADLINE) else {
            refused += 1;
            continue;
        };
        for (input, answer) in inputs.iter().zip(answers.as_array().unwrap()) {
            let theirs = theirs(&answer[0]);
            let refused =
                |why: &str| ["rego_type_error", "rego_unsafe"].iter().any(|e| why.contains(e));
            if matches!(&theirs, Said::Fault(why) if refused(why)) {
                continue;
            }
            found.push((format!("{name} {}", input["args"]), ours(&engine, input), theirs));
        }
    }
    assert!(refused * 10 < plans.len(), "{refused} of {} are refused", plans.len());
    Some(found)
}

#[test]
fn every_generated_negation_answers_as_opa_does() {
    let mut dice = Dice(11);
    let mut plans = Vec::new();
    for number in 0..SHAPES {
        let form = FORMS[number % FORMS.len()];
        let (first, second) = (*dice.of(&TERMS), *dice.of(&TERMS));
        let condition = form.replace('T', first).replace('U', second);
        let place = dice.of(&PLACES).replace('C', &condition);
        // OPA refuses some, as `not input.args.x := 1`; those it refuses are not compared.
        let bundle = agent(&format!("{RULES}{place}"));
        plans.push((place, bundle.unwrap_or_else(|errors| panic!("{condition}: {errors:?}"))));
    }
    let Some(found) = compared(&plans, &inputs()) else { return };
    let fault = |said: &Said| matches!(said, Said::Fault(_));
    let differ: Vec<_> = found.iter().filter(|(_, ours, theirs)| !same(ours, theirs)).collect();
    let wrong: Vec<_> = differ.iter().filter(|(_, ours, _)| !fault(ours)).collect();
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(12)]);
    // `some … in` over what is no collection is a fault here.
    assert!(differ.len() * 20 < found.len(), "{} of {} are faults", differ.len(), found.len());
    let held = found.iter().filter(|(_, ours, _)| matches!(ours, Said::Value(_))).count();
    assert!(held > 500 && found.len() > 4000, "{held} of {} hold", found.len());
}

#[test]
fn a_sum_is_the_number_that_opa_has_or_a_fault() {
    let given = [
        "0",
        "1",
        "-1",
        "3",
        "7",
        "100",
        "0.1",
        "0.2",
        "0.3",
        "0.5",
        "19.99",
        "1.1",
        "-0.9",
        "4.35",
        "1e-7",
        "123456.789",
        "9007199254740991",
        "1000000000000.5",
        "0.000123",
    ];
    let values: Vec<Value> = given.iter().map(|n| serde_json::from_str(n).unwrap()).collect();
    let pairs = values.iter().flat_map(|x| values.iter().map(move |y| json!([x, y])));
    let inputs: Vec<Value> =
        pairs.map(|args| json!({"args": args, "tool": {"tier": "T0"}})).collect();
    let sums = ["A + B", "A - B", "A * B", "A / B", "A % B", "(A + B) * 3 - A", "A - 1 + B * 2"];
    let written = |sum: &str| sum.replace('A', "input.args[0]").replace('B', "input.args[1]");
    let plans: Vec<(String, Bundle)> =
        sums.iter().map(|sum| ((*sum).to_owned(), calling(&written(sum)))).collect();
    let Some(found) = compared(&plans, &inputs) else { return };
    let fault = |said: &Said| matches!(said, Said::Fault(_));
    let wrong: Vec<_> =
        found.iter().filter(|(_, ours, theirs)| !same(ours, theirs) && !fault(ours)).collect();
    assert!(
        wrong.is_empty(),
        "{} wrong answers: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(12)]
    );
    let answered = found.iter().filter(|(_, ours, _)| !fault(ours)).count();
    assert!(answered * 2 > found.len(), "{answered} of {} are answered", found.len());
}
