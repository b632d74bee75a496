//! `policy mutate`: a call that is not allowed stays so when its input loses a member or holds another type.

use serde_json::{Value, json};

use super::{dir, policy, told};

/// Denies by `rule`, allows `pay` otherwise.
fn bundle(rule: &str) -> tempfile::TempDir {
    let rules = format!(
        "package wicketgate.agent\nimport rego.v1\n\nallow if input.tool.name == \"pay\"\n\ndeny contains \"no\" if {rule}\n"
    );
    let table = "input: {tool: {name: pay}}\ncases:\n  - {name: large, input: {args: {amount: 9, note: x}}, decision: deny}\n  \
                 - {name: small, input: {args: {amount: 1, note: x}}, decision: allow}\n";
    dir(&[("agent/main.rego", &rules), ("tests/t.yaml", table)])
}

fn tried(dir: &tempfile::TempDir, more: &[&str]) -> (i32, Value) {
    let args = [&["mutate", dir.path().to_str().unwrap(), "--json"], more].concat();
    let (code, out, err) = policy(&args);
    assert_eq!(err, "");
    (code, told(&out))
}

#[test]
fn a_rule_that_counts_on_a_member_is_found_with_its_place() {
    let dir = bundle("input.args.amount > 5");
    let (code, told) = tried(&dir, &[]);
    assert_eq!(
        (code, &told["ok"], &told["inputs"], &told["not_allowed"]),
        (1, &json!(false), &json!(2), &json!(1))
    );
    let found: Vec<(&str, &str)> = told["new_allows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            assert_eq!(one["input"], "tests/t.yaml: large");
            assert_eq!(one["rules"], json!(["wicketgate.agent.deny agent/main.rego:6"]));
            if one["place"] == "input.args.amount" && one["change"] != "retype" {
                let why = "an agent can leave out an argument";
                assert_eq!(one["possible"], true, "{why}");
            }
            (one["place"].as_str().unwrap(), one["change"].as_str().unwrap())
        })
        .collect();
    assert!(found.contains(&("input.args.amount", "drop")), "{found:?}");
    assert!(found.contains(&("input.args.amount", "null")), "{found:?}");
    assert!(found.contains(&("input.args.amount", "empty")), "{found:?}");
    assert!(found.iter().all(|(place, _)| place.starts_with("input.args")), "{found:?}");
    let (code, out, _) = policy(&["mutate", dir.path().to_str().unwrap()]);
    assert!(
        code == 1 && out.contains("new allow: drop input.args.amount of tests/t.yaml: large\n"),
        "{out}"
    );
    assert!(out.contains("no longer fires: wicketgate.agent.deny agent/main.rego:6"), "{out}");
}

#[test]
fn a_rule_that_asks_whether_a_member_is_what_it_should_be_has_no_new_allow() {
    let careful = "not small\nsmall if { is_number(input.args.amount)\ninput.args.amount <= 5\ninput.args.amount > 0 }";
    let (code, told) = tried(&bundle(careful), &[]);
    assert_eq!((code, &told["new_allows"]), (0, &json!([])));
    assert!(told["mutants"].as_u64().unwrap() > 100, "{told}");
}

#[test]
fn places_can_be_chosen_and_left_out_and_what_no_gate_makes_too() {
    let dir = bundle("input.time.weekday == \"wednesday\"");
    let (code, told) = tried(&dir, &["--below", "input.args"]);
    assert_eq!((code, &told["new_allows"]), (0, &json!([])));
    let (code, told) = tried(&dir, &["--below", "input.time"]);
    assert_eq!(code, 1);
    assert!(told["new_allows"].as_array().unwrap().iter().all(|one| one["possible"] == false));
    assert_eq!(tried(&dir, &["--possible"]).0, 0);
    assert_eq!(tried(&dir, &["--except", "input.time"]).0, 0);
}

#[test]
fn inputs_come_from_files_too_and_without_any_the_command_says_so() {
    let dir = bundle("input.args.amount > 5");
    let mut input = told(&policy(&["schema", "--example"]).1);
    input["tool"]["name"] = "pay".into();
    input["args"] = json!({"amount": 7});
    let aside = tempfile::tempdir().unwrap();
    let file = aside.path().join("one.json");
    std::fs::write(&file, input.to_string()).unwrap();
    let (code, told) = tried(&dir, &["--input", file.to_str().unwrap()]);
    assert_eq!((code, &told["inputs"]), (1, &json!(1)));
    std::fs::remove_dir_all(dir.path().join("tests")).unwrap();
    let (code, _, err) = policy(&["mutate", dir.path().to_str().unwrap()]);
    assert!(code == 64 && err.contains("there is no input"), "{code} {err}");
    assert!(!err.contains('\r'), "no bar where no terminal is");
}
