//! The POL cases of the attack corpus, translated to our decision document.

use wicketgate::domain::decision::Verdict;
use wicketgate::policy::{EngineError, selftest};

use super::{agent, codes, decide, load};

const INPUT: &str = r#"{"tool":{"tier":"T0"}}"#;

#[test]
fn pol_001_without_a_matching_allow_the_answer_is_a_denial_and_not_undefined() {
    let answer = decide(&agent("allow if input.x == 1").unwrap(), INPUT).unwrap();
    assert_eq!((answer.verdict, answer.reasons[0].detail.as_str()), (Verdict::Deny, "no_allow"));
}

#[test]
fn pol_007_and_014_an_author_cannot_write_the_decision() {
    assert_eq!(codes(agent("default decision := []")), ["policy.rule_shape"]);
    assert_eq!(codes(agent("default decision := null")), ["policy.rule_shape"]);
}

#[test]
fn pol_016_and_017_builtin_errors_are_strict() {
    for (rule, input) in [
        (
            "bad if startswith(input.path, \"/etc\")",
            r#"{"path":["/etc/passwd"],"tool":{"tier":"T0"}}"#,
        ),
        ("bad if regex.match(input.p, \"x\")", r#"{"p":"(","tool":{"tier":"T0"}}"#),
    ] {
        let answer = decide(&agent(&format!("allow if not bad\n{rule}")).unwrap(), input);
        assert!(matches!(answer, Err(EngineError::Evaluation(_))), "{answer:?}");
    }
}

#[test]
fn pol_018_to_027_banned_builtins_are_load_errors() {
    for call in [
        "http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"})",
        "opa.runtime()",
        "time.now_ns()",
        "uuid.rfc4122(\"x\")",
        "count([1 | some i in numbers.range(1, 3000); i < 0])",
    ] {
        assert_eq!(codes(agent(&format!("x := {call}"))), ["policy.banned_builtin"], "{call}");
    }
}

#[test]
fn pol_038_the_same_input_gives_the_same_answer_on_two_builds_of_one_bundle() {
    let rules = "allow if input.n % 2 == 0\ndeny contains sprintf(\"n is %d\", [input.n]) if input.n % 3 == 0\ndeny contains {\"code\": \"five\", \"message\": \"m\"} if input.n % 5 == 0";
    let (one, two) = (agent(rules).unwrap(), agent(rules).unwrap());
    let one = wicketgate::policy::rego::RegoEngine::new(&one, super::DEADLINE).unwrap();
    let two = wicketgate::policy::rego::RegoEngine::new(&two, super::DEADLINE).unwrap();
    use wicketgate::policy::PolicyEngine as _;
    for n in 0..1_000 {
        let input = format!(r#"{{"n":{n},"tool":{{"tier":"T0"}}}}"#);
        assert_eq!(one.decide(input.as_bytes()), two.decide(input.as_bytes()), "{n}");
    }
}

#[test]
fn a_bundle_that_never_answers_or_always_hangs_fails_its_trial() {
    assert!(selftest::try_out(&agent("allow if true").unwrap()).is_ok());
    let broken = agent("x := 1\nx := 2 if true\nallow if x").unwrap();
    assert!(selftest::try_out(&broken).is_err());
    let many = format!("[{}0]", "0,".repeat(2999));
    let rule = "package wicketgate.agent\nimport rego.v1\nallow if count([1 | some i in data.many; some j in data.many; some k in data.many; i + j + k > 0]) == 0\n";
    let hangs = load(&[("agent/main.rego", rule), ("data/many.json", &many)]).unwrap();
    let why = selftest::try_out(&hangs).unwrap_err().to_string();
    assert!(why.contains("longer than"), "{why}");
}
