//! `policy test`: what passes, what fails and what is said of it, tables, coverage, and stock OPA.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{dir, policy, shipped, told};
use wicketgate_support::program;

const RULES: &str = "package wicketgate.agent\nimport rego.v1\n\nallow if {\n\tinput.tool.name in names\n\tnot large\n}\n\n\
                     names := {\"pay\", \"look\"}\n\nlarge if input.args.amount > data.limits.most\n\n\
                     deny contains {\"code\": \"kind\", \"message\": \"no\"} if input.args.kind == \"x\"\n";

const TESTS: &str = "package wicketgate.agent_test\nimport rego.v1\nimport data.wicketgate.agent\n\n\
    test_small if agent.allow with input as {\"tool\": {\"name\": \"pay\"}, \"args\": {\"amount\": 1}}\n\n\
    test_large_is_allowed if {\n\tcall := {\"tool\": {\"name\": \"pay\"}, \"args\": {\"amount\": 9}}\n\tagent.allow with input as call\n}\n\n\
    test_false := false\n\n\
    test_text := \"yes\"\n\n\
    test_breaks if startswith(1, \"a\")\n\n\
    todo_test_later if false\n\n\
    test_fixture if agent.allow with input as data.fixtures.call\n\n\
    helper if false\n";

fn bundle() -> tempfile::TempDir {
    dir(&[
        ("agent/main.rego", RULES),
        ("agent/main_test.rego", TESTS),
        ("data/limits.json", r#"{"most": 5}"#),
        ("tests/fixtures/call.json", r#"{"tool": {"name": "look"}, "args": {}}"#),
    ])
}

fn path(dir: &tempfile::TempDir) -> &str {
    dir.path().to_str().unwrap()
}

/// Name and outcome of every test, as `--json` has them.
fn outcomes(report: &Value) -> Vec<(String, String)> {
    let tests = report["bundles"][0]["tests"].as_array().unwrap().iter();
    let text = |test: &Value, name: &str| test[name].as_str().unwrap().to_owned();
    tests.map(|test| (text(test, "name"), text(test, "outcome"))).collect()
}

#[test]
fn true_passes_and_false_undefined_texts_and_errors_do_not() {
    let dir = bundle();
    let (code, out, err) = policy(&["test", path(&dir), "--json"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let report = told(&out);
    assert_eq!(report["ok"], false);
    let outcomes = outcomes(&report);
    let short: Vec<_> = outcomes
        .iter()
        .map(|(name, outcome)| {
            (name.strip_prefix("wicketgate.agent_test.").unwrap(), outcome.as_str())
        })
        .collect();
    assert_eq!(
        short,
        [
            ("test_small", "passed"),
            ("test_large_is_allowed", "failed"),
            ("test_false", "failed"),
            ("test_text", "failed"),
            ("test_breaks", "error"),
            ("todo_test_later", "skipped"),
            ("test_fixture", "passed"),
        ]
    );
    let (code, out, _) = policy(&["test", path(&dir), "--run", "small|fixture"]);
    assert!(code == 0 && out.ends_with(": 2 passed\n"), "{code} {out}");
    let (code, out, _) = policy(&["test", path(&dir), "--run", "nothing_is_called_so"]);
    assert!(code == 1 && out.contains("there is no test"), "{code} {out}");
}

#[test]
fn a_failed_policy_test_shows_its_line_its_input_and_how_the_rules_evaluated() {
    let dir = bundle();
    let (_, out, _) = policy(&["test", path(&dir), "--run", "large"]);
    for part in [
        "failed  agent/main_test.rego:9 wicketgate.agent_test.test_large_is_allowed: it is undefined",
        r#"input {"args":{"amount":9},"tool":{"name":"pay"}}"#,
        "agent/main_test.rego:9 agent.allow with input as call: does not hold",
        "agent/main.rego:4 wicketgate.agent.allow: did not fire",
        "agent/main.rego:5 input.tool.name in names: holds",
        "agent/main.rego:6 not large: does not hold",
        "agent/main.rego:11 wicketgate.agent.large: fired",
        "input.args.amount = 9",
        "data.limits.most = 5",
    ] {
        assert!(out.contains(part), "{part}\n---\n{out}");
    }
}

#[test]
fn what_a_test_may_not_call_is_a_load_error_and_so_is_a_broken_file() {
    for (text, why) in [
        (
            "package t_test\nimport rego.v1\ntest_a if time.now_ns() > 0\n",
            "agent/x_test.rego:3:22: policy.banned_builtin",
        ),
        ("package t_test\nimport rego.v1\ntest_a if {\n", "agent/x_test.rego"),
        ("package t_test\nimport rego.v1\ntest_a if nowhere\n", "agent/x_test.rego:3"),
    ] {
        let dir = dir(&[("agent/main.rego", RULES), ("agent/x_test.rego", text)]);
        let (code, _, err) = policy(&["test", path(&dir)]);
        assert!(code == 1 && err.contains(why), "{why}: {err}");
    }
}

#[test]
fn a_table_says_what_is_different_and_the_whole_decision() {
    let table = "input: {tool: {name: pay}}\ncases:\n  - {name: small, input: {args: {amount: 5}}, decision: allow, rule: \"agent/main.rego:4\"}\n  \
        - {name: odd, input: {args: {kind: x}}, decision: deny, reasons: [kind], rule: wicketgate.agent.deny, message: \"no\"}\n  \
        - {name: other, input: {tool: {name: other}}, decision: deny, reasons: [no_allow]}\n  \
        - {name: broken, input: {args: {}, tool: null}, malformed: true, decision: deny}\n";
    let files = |table: &str| {
        dir(&[
            ("agent/main.rego", RULES),
            ("data/limits.json", r#"{"most": 5}"#),
            ("tests/t.yaml", table),
        ])
    };
    let good = files(table);
    let (code, out, err) = policy(&["test", path(&good)]);
    assert!(code == 0 && out.ends_with(": 4 passed\n"), "{out}{err}");
    for (from, to, why) in [
        ("decision: allow, rule", "decision: deny, rule", "expected `deny`, decided `allow`"),
        (
            "agent/main.rego:4",
            "agent/main.rego:5",
            "expected the rule `agent/main.rego:5`, it was `wicketgate.agent.allow agent/main.rego:4`",
        ),
        ("[kind]", "[kinds]", "expected the reasons [kinds], found [kind]"),
        ("message: \"no\"", "message: maybe", "no reason says `maybe`"),
        ("malformed: true, ", "", "say `malformed: true` if that is meant"),
        ("decision: deny}", "decision: error}", "expected `error`, decided `deny`"),
    ] {
        let bad = files(&table.replacen(from, to, 1));
        let (code, out, _) = policy(&["test", path(&bad)]);
        assert!(code == 1 && out.contains(why), "{why}: {out}");
    }
    for (from, to, why) in [
        ("decision: allow", "decison: allow", "tests/t.yaml:3"),
        ("decision: allow", "decision: permit", "tests/t.yaml:3"),
        ("cases:", "case:", "tests/t.yaml"),
    ] {
        let bad = files(&table.replacen(from, to, 1));
        let (code, _, err) = policy(&["test", path(&bad)]);
        assert!(code == 1 && err.contains(why) && err.contains("policy.table"), "{why}: {err}");
    }
}

#[test]
fn a_rule_that_fired_in_no_test_is_named_and_a_line_that_was_only_looked_at_does_not_count() {
    let dir = dir(&[
        ("agent/main.rego", RULES),
        ("data/limits.json", r#"{"most": 5}"#),
        (
            "agent/main_test.rego",
            "package wicketgate.agent_test\nimport rego.v1\nimport data.wicketgate.agent\n\
            test_small if agent.allow with input as {\"tool\": {\"name\": \"pay\"}, \"args\": {\"amount\": 1}}\n\
            test_quiet if count(agent.deny) == 0 with input as {\"args\": {\"kind\": \"y\"}}\n",
        ),
    ]);
    let (code, out, _) = policy(&["test", path(&dir), "--json", "--coverage"]);
    let coverage = &told(&out)["bundles"][0]["coverage"];
    assert_eq!(code, 0);
    assert_eq!(
        (&coverage["rules"], &coverage["fired"], &coverage["percent"]),
        (&4.into(), &2.into(), &50.into())
    );
    assert_eq!(coverage["uncovered"][0]["place"], "agent/main.rego:11");
    assert_eq!(coverage["uncovered"][1]["place"], "agent/main.rego:13");
    let (code, out, _) = policy(&["test", path(&dir), "--coverage-min", "51"]);
    assert!(
        code == 1 && out.contains("uncovered agent/main.rego:13 wicketgate.agent.deny"),
        "{out}"
    );
    assert_eq!(policy(&["test", path(&dir), "--coverage-min", "50"]).0, 0);
    let table = "cases: [{name: large, input: {tool: {name: pay}, args: {amount: 6, kind: x}}, decision: deny}]";
    std::fs::create_dir(dir.path().join("tests")).unwrap();
    std::fs::write(dir.path().join("tests/t.yaml"), table).unwrap();
    let (code, out, _) = policy(&["test", path(&dir), "--coverage-min", "75"]);
    assert!(
        code == 0 && out.contains("uncovered agent/main.rego:11"),
        "a denial is found before it is asked for: {out}"
    );
}

#[test]
fn every_branch_of_an_else_and_every_shape_of_a_rule_is_counted() {
    let rules = "package wicketgate.agent\nimport rego.v1\n\
        level := \"high\" if {\n\tinput.args.n > 5\n} else := \"mid\" if {\n\tinput.args.n > 2\n} else := \"low\"\n\
        f(x) if x == 1\nf(x) := false if x == 2\n\
        words contains \"a\" if \"x\" in {\"x\"}\n\
        deep[name] := \"v\" if {\n\tname := input.args.name\n}\n\
        allow if { f(input.args.n); input.tool.name == \"a\" }\n";
    let test = "package wicketgate.agent_test\nimport rego.v1\nimport data.wicketgate.agent\n\
        test_all if {\n\tevery pair in [[6, \"high\"], [3, \"mid\"], [1, \"low\"]] {\n\t\tagent.level == pair[1] with input.args.n as pair[0]\n\t}\n\
        \tagent.allow with input as {\"args\": {\"n\": 1}, \"tool\": {\"name\": \"a\"}}\n\
        \tagent.f(2) == false\n\tagent.words == {\"a\"}\n\tagent.deep.b == \"v\" with input as {\"args\": {\"name\": \"b\"}}\n}\n";
    let dir = dir(&[("agent/main.rego", rules), ("agent/main_test.rego", test)]);
    let (code, out, err) = policy(&["test", path(&dir), "--coverage-min", "100"]);
    assert!(code == 0 && out.contains("8 of 8 rules fired (100 %)"), "{out}{err}");
}

#[test]
fn the_report_for_build_servers_is_xml_whatever_the_messages_hold() {
    let dir = bundle();
    let file = dir.path().join("tests/report.xml");
    let (code, ..) = policy(&["test", path(&dir), "--junit", file.to_str().unwrap()]);
    assert_eq!(code, 1);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("tests=\"7\" failures=\"3\" errors=\"1\" skipped=\"1\""), "{text}");
    assert!(text.contains("classname=\"wicketgate.agent_test\" name=\"test_small\" file=\"agent/main_test.rego\" line=\"5\"/>"), "{text}");
    let script = "import sys, xml.etree.ElementTree as e; print(len(e.parse(sys.argv[1]).findall('.//testcase')))";
    let counted = Command::new("python3").args(["-c", script]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), "7");
}

#[test]
fn whatever_changes_is_tested_again() {
    let dir = dir(&[
        ("agent/main.rego", RULES),
        ("data/limits.json", r#"{"most": 5}"#),
        ("tests/t.yaml", "cases: [{name: one, decision: allow}]"),
    ]);
    let mut child = program::command(".", ["policy", "test", "--watch", path(&dir)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Vec<_> = lines.by_ref().take_while(|line| line != "watching").collect();
    assert!(first.iter().any(|line| line.contains("expected `allow`")), "{first:?}");
    let better = "cases: [{name: one, input: {tool: {name: pay}}, decision: allow}]";
    std::fs::write(dir.path().join("tests/t.yaml"), better).unwrap();
    let second = lines.find(|line| line.ends_with(": 1 passed"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(second.is_some());
}

#[test]
fn the_tests_of_every_shipped_policy_hold() {
    let mut dirs: Vec<_> =
        std::fs::read_dir(shipped()).unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.sort();
    let mut args = vec!["test"];
    args.extend(dirs.iter().map(|dir| dir.to_str().unwrap()));
    let (code, out, err) = policy(&args);
    assert!(code == 0 && dirs.len() >= 5, "{out}{err}");
}

#[test]
fn nothing_in_tests_is_part_of_the_bundle() {
    let with = bundle();
    let digest = |dir: &tempfile::TempDir| {
        told(&policy(&["check", path(dir), "--json"]).1)["digest"].clone()
    };
    let before = digest(&with);
    assert!(before.is_string());
    std::fs::write(with.path().join("tests/more.yaml"), "cases: []").unwrap();
    std::fs::write(
        with.path().join("tests/evil.rego"),
        "package wicketgate.agent\nallow := true\n",
    )
    .unwrap();
    assert_eq!(digest(&with), before);
    std::fs::remove_dir_all(with.path().join("tests")).unwrap();
    assert_eq!(digest(&with), before);
    std::os::unix::fs::symlink("/etc", with.path().join("tests")).unwrap();
    let (code, _, err) = policy(&["check", path(&with)]);
    assert!(code == 1 && err.contains("policy.file_type"), "{err}");
}
