//! `policy eval --explain`: which rules fired, and at which condition the others stopped.

use serde_json::{Value, json};

use super::{dir, policy, told};

const RULES: &str = "package wicketgate.agent\nimport rego.v1\nimport data.limits\n\n\
    allow if {\n\tinput.tool.name == \"pay\"\n\tnot suspended\n\tinput.args.amount <= limits.most\n}\n\n\
    suspended if input.agent.labels.suspended == \"yes\"\n\n\
    require_approval contains {\"code\": \"ask\", \"message\": \"ask\"} if input.args.amount > 3\n\n\
    obligations contains {\"type\": \"cap_bytes\", \"bytes\": 9} if {\n\tsome finding in input.findings\n\tfinding.kind == \"email\"\n}\n";

const ORG: &str = "package wicketgate.org\nimport rego.v1\n\ndeny contains {\"code\": \"friday\", \"message\": \"not on fridays\"} if input.time.weekday == \"friday\"\n";

fn bundle() -> tempfile::TempDir {
    dir(&[
        ("agent/main.rego", RULES),
        ("org/week.rego", ORG),
        ("data/limits.json", r#"{"most": 5}"#),
    ])
}

/// A complete input with these differences.
fn input(at: &std::path::Path, differs: &Value) -> String {
    let (code, out, _) = policy(&["schema", "--example"]);
    assert_eq!(code, 0);
    let mut whole = told(&out);
    for (place, value) in differs.as_object().unwrap() {
        *whole.pointer_mut(place).unwrap() = value.clone();
    }
    let file = at.join("input.json");
    std::fs::write(&file, whole.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn explained(differs: &Value) -> (i32, Value) {
    let (dir, aside) = (bundle(), tempfile::tempdir().unwrap());
    let input = input(aside.path(), differs);
    let dir = dir.path().to_str().unwrap();
    let (code, out, err) = policy(&["eval", dir, "--input", &input, "--explain", "--json"]);
    assert_eq!(err, "");
    (code, told(&out))
}

/// The rule of this name, and its condition of this line.
fn rule<'a>(told: &'a Value, name: &str) -> &'a Value {
    let rules = told["explained"]["rules"].as_array().unwrap();
    rules.iter().find(|rule| rule["rule"] == name).unwrap_or_else(|| panic!("{name}: {told}"))
}

#[test]
fn the_rule_that_fired_the_layer_that_decided_and_the_first_condition_that_does_not_hold() {
    let (code, told) = explained(&json!({"/tool/name": "pay", "/args": {"amount": 2}}));
    assert_eq!(
        (code, &told["verdict"], &told["explained"]["layer"]),
        (0, &json!("allow"), &json!("agent"))
    );
    let allow = rule(&told, "wicketgate.agent.allow");
    assert_eq!((&allow["fired"], &allow["place"]), (&json!(true), &json!("agent/main.rego:5")));
    let last = &allow["conditions"][2];
    assert_eq!(
        last["values"],
        json!([{"reads": "input.args.amount", "value": 2}, {"reads": "limits.most", "value": 5}])
    );

    let (code, told) = explained(&json!({"/tool/name": "pay", "/args": {"amount": 9}}));
    assert_eq!((code, &told["verdict"]), (1, &json!("require_approval")));
    let allow = rule(&told, "wicketgate.agent.allow");
    let holds: Vec<&Value> =
        allow["conditions"].as_array().unwrap().iter().map(|c| &c["holds"]).collect();
    assert_eq!(
        (&allow["fired"], holds),
        (&json!(false), vec![&json!(true), &json!(true), &json!(false)])
    );
    assert_eq!(allow["conditions"][2]["place"], "agent/main.rego:8");
    let asks = rule(&told, "wicketgate.agent.require_approval");
    assert_eq!((&asks["fired"], &asks["result"][0]["code"]), (&json!(true), &json!("ask")));
}

#[test]
fn a_deny_of_a_layer_is_named_and_what_it_read() {
    let (code, told) =
        explained(&json!({"/time/weekday": "friday", "/tool/name": "pay", "/args": {"amount": 1}}));
    assert_eq!((code, &told["explained"]["layer"]), (1, &json!("org")));
    let deny = rule(&told, "wicketgate.org.deny");
    assert_eq!((&deny["fired"], &deny["place"]), (&json!(true), &json!("org/week.rego:4")));
    assert_eq!(
        deny["conditions"][0]["values"],
        json!([{"reads": "input.time.weekday", "value": "friday"}])
    );
    assert_eq!(
        rule(&told, "wicketgate.agent.allow")["fired"],
        true,
        "the deny wins, and the allow is told all the same"
    );
}

#[test]
fn explain_follows_referenced_rules_and_shows_missing_input_as_undefined() {
    let (_, told) = explained(
        &json!({"/tool/name": "pay", "/args": {}, "/agent/labels": {"suspended": "yes"}}),
    );
    assert_eq!(told["explained"]["layer"], "library");
    let stopped = &rule(&told, "wicketgate.agent.allow")["conditions"][1];
    assert_eq!(
        (&stopped["condition"], &stopped["holds"]),
        (&json!("not suspended"), &json!(false))
    );
    let because = &stopped["because"][0];
    assert_eq!(
        (&because["rule"], &because["fired"]),
        (&json!("wicketgate.agent.suspended"), &json!(true))
    );
    let asks = rule(&told, "wicketgate.agent.require_approval");
    assert_eq!(
        asks["conditions"][0]["values"],
        json!([{"reads": "input.args.amount", "undefined": true}])
    );
    let (_, told) = explained(
        &json!({"/tool/name": "pay", "/args": {"amount": 1}, "/findings": [{"kind": "iban", "path": ""}]}),
    );
    let duty = rule(&told, "wicketgate.agent.obligations");
    assert_eq!(duty["conditions"][1]["place"], "agent/main.rego:17");
    assert_eq!(duty["conditions"][1]["holds"], false);
}

#[test]
fn a_person_reads_the_same() {
    let (dir, aside) = (bundle(), tempfile::tempdir().unwrap());
    let input = input(aside.path(), &json!({"/tool/name": "look\u{1b}[2J"}));
    let (code, out, _) =
        policy(&["eval", dir.path().to_str().unwrap(), "--input", &input, "--explain"]);
    assert_eq!(code, 1);
    for part in [
        "deny by library\n",
        "agent/main.rego:5 wicketgate.agent.allow: did not fire\n",
        "  agent/main.rego:6 input.tool.name == \"pay\": does not hold\n",
        "  agent/main.rego:7 not suspended: not asked\n",
    ] {
        assert!(out.contains(part), "{part}\n---\n{out}");
    }
    assert!(!out.contains('\u{1b}'), "what a call carried steers no terminal");
}

#[test]
fn explain_shows_the_condition_whose_evaluation_failed() {
    let dir = dir(&[(
        "agent/main.rego",
        "package wicketgate.agent\nimport rego.v1\n\nallow if {\n\tinput.tool.name == \"a\"\n\tstartswith(input.args.path, \"x\")\n}\n",
    )]);
    let aside = tempfile::tempdir().unwrap();
    let input = input(aside.path(), &json!({"/tool/name": "a", "/args": {"path": 5}}));
    let (code, out, err) =
        policy(&["eval", dir.path().to_str().unwrap(), "--input", &input, "--explain"]);
    assert!(code == 1 && err.contains("denied: "), "{err}");
    assert!(
        out.contains("agent/main.rego:6 startswith(input.args.path, \"x\"): failed: "),
        "{out}"
    );
}

#[test]
fn an_input_is_named_in_one_way_and_a_call_needs_its_configuration() {
    let dir = bundle();
    let dir = dir.path().to_str().unwrap();
    for args in [
        &["eval", dir][..],
        &["eval", dir, "--input", "a.json", "--entry", "1"],
        &["eval", dir, "--call", "pay"],
        &["eval", dir, "--input", "a.json", "--args", "{}"],
    ] {
        assert_eq!(policy(args).0, 64, "{args:?}");
    }
    let (code, _, err) = policy(&["eval", dir, "--input", "/nowhere.json"]);
    assert!(code == 1 && err.contains("/nowhere.json"), "{err}");
    let (code, _, err) = policy(&["eval", dir, "--entry", "1"]);
    assert!(code == 64 && err.contains("--sqlite"), "{code} {err}");
}
