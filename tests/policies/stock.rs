//! Conditions that are written anew before the engine reads them: what they say, what is refused, and what
//! an author sees of it.

use wicketgate::domain::decision::Verdict;
use wicketgate::policy::EngineError;
use wicketgate::policy::explain::explain;

use super::{agent, codes, decide};

const WITHOUT: &str = r#"{"args":{},"tool":{"tier":"T0","name":"a"}}"#;

fn input(args: &str) -> String {
    WITHOUT.replace("{}", args)
}

#[test]
fn a_not_over_a_call_fails_where_what_the_call_is_given_is_missing() {
    for condition in [
        "not startswith(input.args.path, \"/etc\")",
        "not input.args.path in {\"/etc\"}",
        "not input.args.path != \"/srv\"",
        "not [input.args.path] == [\"/etc\"]",
        "not startswith(lower(input.args.path), \"/etc\")",
    ] {
        let bundle = agent(&format!("allow if {{ {condition} }}")).unwrap();
        assert_eq!(decide(&bundle, WITHOUT).unwrap().verdict, Verdict::Deny, "{condition}");
        let there = decide(&bundle, &input(r#"{"path":"/srv"}"#)).unwrap();
        assert_eq!(there.verdict, Verdict::Allow, "{condition}");
    }
    let bare = agent("allow if not input.args.path == \"/etc\"").unwrap();
    assert_eq!(decide(&bare, WITHOUT).unwrap().verdict, Verdict::Allow);
}

#[test]
fn what_means_nothing_to_opa_under_a_not_is_refused_with_its_line() {
    for rules in [
        "allow if not input.args.files[_] == \"a\"",
        "allow if not startswith(input.args.files[_], \"a\")",
        "allow if { some i; not input.args.files[i] == \"a\" }",
        "allow if not x := 1",
        "allow if wicketgate_opa__given_0\nwicketgate_opa__given_0 if input.args.x",
    ] {
        let errors = agent(rules).unwrap_err();
        let own: Vec<_> = errors.iter().filter(|e| e.code == "policy.negation").collect();
        assert!(!own.is_empty() && own.iter().all(|e| e.file == "agent/main.rego"), "{errors:?}");
        assert!(own.iter().all(|e| e.line == 3 || rules.contains("given_0")), "{errors:?}");
    }
    let deep = format!("allow if not {}input.args.x{} == 1", "abs(".repeat(40), ")".repeat(40));
    assert!(codes(agent(&deep)).contains(&"policy.negation"));
    assert_eq!(codes(agent("allow if { some f in input.args.files; not f == \"a\" }")), [""; 0]);
}

#[test]
fn an_explanation_shows_the_authors_text_and_says_what_the_engine_decided() {
    let rules = "allow if {\n\tinput.tool.name == \"a\"\n\tnot startswith(\n\t\tinput.args.path, \"/etc\"\n\t)\n\tinput.args.n + 1 == 3\n}";
    let bundle = agent(rules).unwrap();
    let asked = |input: &str| {
        let explained = explain(&bundle, input.as_bytes()).unwrap();
        let answer = explained.answer.unwrap().verdict;
        let rule = explained.rules.into_iter().find(|r| r.name.ends_with("agent.allow")).unwrap();
        (answer, rule)
    };
    let (answer, rule) = asked(WITHOUT);
    assert_eq!((answer, rule.fired), (Verdict::Deny, false));
    assert_eq!(rule.conditions[1].text, "not startswith( input.args.path, \"/etc\" )");
    assert_eq!(rule.conditions[1].place, "agent/main.rego:5");
    assert_eq!(rule.conditions[1].holds, Some(false));
    let (answer, rule) = asked(&input(r#"{"path":"/srv","n":2}"#));
    assert_eq!((answer, rule.fired), (Verdict::Allow, true));
    assert!(rule.conditions.iter().all(|c| c.holds == Some(true)), "{rule:?}");
    assert!(rule.conditions.iter().all(|c| !c.text.contains("wicketgate_opa")), "{rule:?}");
}

#[test]
fn an_engine_error_points_to_what_the_author_wrote() {
    let place = |rules: &str, args: &str| match decide(&agent(rules).unwrap(), &input(args)) {
        Err(EngineError::Evaluation(message)) => message,
        other => panic!("{rules}: {other:?}"),
    };
    let one = "allow if { input.tool.name == \"a\"; not startswith(input.args.n, \"a\") }";
    let message = place(one, r#"{"n":1}"#);
    assert!(message.starts_with("agent/main.rego:3:36: "), "{message}");
    let many = "allow if {\n\tnot startswith(\n\t\tinput.args.s,\n\t\t\"a\"\n\t)\n\tcount(input.args.n) == 1\n}";
    let message = place(many, r#"{"n":1,"s":"b"}"#);
    assert!(message.starts_with("agent/main.rego:8:"), "{message}");
}

#[test]
fn the_bytes_of_a_bundle_are_the_authors() {
    let bundle = agent("allow if not startswith(input.args.path, \"/etc\")").unwrap();
    let text = String::from_utf8_lossy(bundle.tar()).into_owned();
    assert!(
        text.contains("allow if not startswith(input.args.path")
            && !text.contains("wicketgate_opa")
    );
}

#[test]
fn fractions_are_added_as_opa_adds_them_or_not_at_all() {
    let sum = |condition: &str| decide(&agent(&format!("allow if {condition}")).unwrap(), WITHOUT);
    for right in ["0.1 + 0.2 == 0.3", "19.99 * 100 == 1999", "7 / 2 == 3.5", "{1, 2} - {1} == {2}"]
    {
        assert_eq!(sum(right).unwrap().verdict, Verdict::Allow, "{right}");
    }
    for fault in ["1 / 3 > 0", "7.5 % 2 > 0", "1 / 0 == 1", "input.tool.name + 1 == 2"] {
        assert!(matches!(sum(fault), Err(EngineError::Evaluation(_))), "{fault}");
    }
}
