//! What goes wrong while a bundle is evaluated: each is an error that `judge` turns into a denial.

use std::time::Duration;

use wicketgate::domain::decision::Verdict;
use wicketgate::policy::rego::RegoEngine;
use wicketgate::policy::{EngineError, PolicyEngine as _};

use super::{agent, decide, load};

const INPUT: &str = r#"{"tool":{"tier":"T0"},"agent":{"binding":"claimed"}}"#;

fn evaluation(rules: &str, input: &str) -> String {
    match decide(&agent(rules).unwrap(), input) {
        Err(EngineError::Evaluation(message)) => message,
        other => panic!("{rules}: {other:?}"),
    }
}

#[test]
fn a_failing_builtin_under_a_not_is_an_error_and_never_an_allow() {
    let input = r#"{"path":["/etc/passwd"],"p":"(","tool":{"tier":"T0"}}"#;
    let message = evaluation("allow if not bad\nbad if startswith(input.path, \"/etc\")", input);
    assert!(message.starts_with("agent/main.rego:4:"), "{message}");
    assert!(!message.contains("passwd"), "{message}");
    evaluation("allow if not bad\nbad if regex.match(input.p, \"x\")", input);
    evaluation("allow if not bad\nbad if regex.replace(\"x\", input.p, \"\") == \"\"", input);
    evaluation("allow if not bad\nbad if 1 / 0 == 1", input);
    evaluation("allow if not bad\nbad if to_number(input.path) == 1", input);
}

#[test]
fn two_values_for_one_rule_are_an_error() {
    evaluation("x := 1\nx := 2 if true\nallow if x == 1", INPUT);
    evaluation("f(x) := 1\nf(x) := 2 if x > 0\nallow if f(1) == 1", INPUT);
}

#[test]
fn four_hundred_kilobytes_two_thousand_times_are_refused_in_time_and_without_the_memory() {
    let before = peak_kib();
    let input = format!(r#"{{"args":{{"s":"{}"}},"tool":{{"tier":"T0"}}}}"#, "x".repeat(400_000));
    let many = format!("[{}0]", "0,".repeat(1999));
    for rule in [
        format!("allow if count(concat(\"\", [input.args.s | some _ in {many}])) > 0"),
        "allow if count(replace(input.args.s, \"x\", input.args.s)) > 0".to_owned(),
        "allow if count(strings.replace_n({\"x\": input.args.s}, input.args.s)) > 0".to_owned(),
        "allow if count(regex.replace(input.args.s, \"x\", input.args.s)) > 0".to_owned(),
        "allow if count(regex.replace(input.args.s, \".*\", \"$0$0$0\")) > 0".to_owned(),
        "allow if count(split(input.args.s, \"\")) > 0".to_owned(),
        format!("allow if count(sprintf(\"%v\", [[input.args.s | some _ in {many}]])) > 0"),
        format!("allow if count(json.marshal([input.args.s | some _ in {many}])) > 0"),
        "allow if indexof(input.args.s, input.args.s) > 0".to_owned(),
        "allow if count(base64.encode(concat(\"\", [input.args.s, input.args.s]))) > 0".to_owned(),
    ] {
        // WHY: a literal of 2,000 items is longer than a line of Rego may be.
        let rule = rule.replace(&many, "data.many");
        let main = format!("package wicketgate.agent\nimport rego.v1\n{rule}\n");
        let bundle = load(&[("agent/main.rego", &main), ("data/many.json", &many)]).unwrap();
        match decide(&bundle, &input) {
            Err(EngineError::Evaluation(message)) => {
                assert!(message.contains("1 MiB") || message.contains("too large"), "{message}");
            }
            other => panic!("{rule}: {other:?}"),
        }
    }
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < 300 * 1024, "grew by {grown} KiB");
}

#[test]
fn values_that_share_their_parts_do_not_explode_when_written_out() {
    let doubling: String = (1..=18).map(|i| format!("a{i} := [a{0}, a{0}]\n", i - 1)).collect();
    for call in ["json.marshal(a18)", "sprintf(\"%v\", [a18])"] {
        let rules = format!("a0 := [\"x\"]\n{doubling}allow if count({call}) > 0");
        match decide(&agent(&rules).unwrap(), INPUT) {
            Err(EngineError::Evaluation(message)) => {
                assert!(message.contains("1 MiB"), "{message}");
            }
            other => panic!("{call}: {other:?}"),
        }
    }
}

/// Each of these values has two hundred parts in memory, and more ways through it than anybody can go.
#[test]
fn values_that_share_their_parts_are_not_gone_through_whole() {
    let double = |name: &str, last: &str| -> String {
        let steps = (1..=40)
            .map(|i| format!("{name}{i} := {{\"l\": {name}{0}, \"r\": {name}{0}}}\n", i - 1));
        format!("{name}0 := {{\"k\": {last}}}\n{}", steps.collect::<String>())
    };
    let values = format!("{}{}{}", double("a", "1"), double("b", "2"), double("c", "1"));
    for call in [
        "object.union(a40, b40)",
        "object.union_n([a40, b40])",
        "union({{a40}, {b40}})",
        "intersection({{a40}, {b40}})",
        "sort([a40, c40])",
        "max([a40, c40])",
        "min([a40, c40])",
        "object.filter({\"x\": 1}, [a40, c40])",
        "object.remove({\"x\": 1}, [a40, c40])",
        "json.remove({\"x\": 1}, [[[a40]]])",
        "json.filter({\"x\": 1}, [[[a40]]])",
    ] {
        let rules = format!("allow if {{\n{values}count({call}) > 0\n}}");
        match decide(&agent(&rules).unwrap(), INPUT) {
            Err(EngineError::Evaluation(message)) => {
                assert!(message.contains("1 MiB") || message.contains("too large"), "{message}");
            }
            other => panic!("{call}: {other:?}"),
        }
    }
    let rules = format!("allow if {{\n{values}object.subset(a40, c40)\n}}");
    evaluation(&rules, INPUT);
}

#[test]
fn numbers_of_many_digits_are_refused_before_they_are_read() {
    let digits = "9".repeat(100_000);
    let input = format!(r#"{{"args":{{"s":"{digits}"}},"tool":{{"tier":"T0"}}}}"#);
    evaluation("allow if to_number(input.args.s) > 0", &input);
    evaluation("allow if json.unmarshal(input.args.s) > 0", &input);
}

#[test]
fn an_evaluation_that_does_not_end_is_stopped_at_its_deadline() {
    let many = format!("[{}0]", "0,".repeat(2999));
    let rule = "package wicketgate.agent\nimport rego.v1\nallow if {\n  x := count([1 | some i in data.many; some j in data.many; some k in data.many; i + j + k > 0])\n  x == 0\n}\n";
    let bundle = load(&[("agent/main.rego", rule), ("data/many.json", &many)]).unwrap();
    let limit = Duration::from_millis(50);
    let engine = RegoEngine::new(&bundle, limit).unwrap();
    assert_eq!(engine.decide(INPUT.as_bytes()), Err(EngineError::Deadline(limit)));
    let nested = rule.replace("allow if {", "allow if f(1)\nf(_) if {");
    let bundle = load(&[("agent/main.rego", &nested), ("data/many.json", &many)]).unwrap();
    let engine = RegoEngine::new(&bundle, limit).unwrap();
    assert_eq!(engine.decide(INPUT.as_bytes()), Err(EngineError::Deadline(limit)));
}

#[test]
fn the_longest_chain_of_the_deepest_rules_fits_a_stack_of_two_mebibytes() {
    let nested = |inner: &str| format!("{}{inner}{}", "abs(".repeat(24), ")".repeat(24));
    let chain: String = (1..=18)
        .map(|i| {
            let below = nested(&format!("f{}(x)", i - 1));
            format!("f{i}(x) := y if {{ y := sum([z | z := {below}]) }}\n")
        })
        .collect();
    let rules = format!("f0(x) := count(x)\n{chain}allow if f18(input.tool.tier) == 2");
    let bundle = agent(&rules).unwrap();
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let answer = thread.spawn(move || decide(&bundle, INPUT)).unwrap().join().unwrap();
    assert_eq!(answer.unwrap().verdict, Verdict::Allow);
    let longer: String =
        (19..=40).map(|i| format!("f{i}(x) := y if {{ y := f{}(x) }}\n", i - 1)).collect();
    assert_eq!(super::codes(agent(&format!("{rules}\n{longer}"))), ["policy.chain"]);
}

/// Comparing, dropping and writing a value goes down its levels on the native stack.
#[test]
fn the_deepest_values_fit_a_stack_of_two_mebibytes_and_deeper_ones_do_not_load() {
    let deep = |name: &str, steps: usize| -> String {
        let step = |i: usize| format!("{name}{i} := [[[[[[[[[{name}{}]]]]]]]]]\n", i - 1);
        format!("{name}0 := [1]\n{}", (1..=steps).map(step).collect::<String>())
    };
    let compared = |steps: usize| {
        let (one, other) = (deep("a", steps), deep("b", steps));
        format!("allow if {{\n{one}{other}a{steps} == b{steps}\n}}")
    };
    let bundle = agent(&compared(56)).unwrap();
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let answer = thread.spawn(move || decide(&bundle, INPUT)).unwrap().join().unwrap();
    assert_eq!(answer.unwrap().verdict, Verdict::Allow);
    assert_eq!(super::codes(agent(&compared(57))), ["policy.depth"]);
    // What functions add counts as often as they are called, through rules and other functions.
    let nine = "n(x) := [[[[[[[[[x]]]]]]]]]\n";
    let calls = |n: usize| (1..=n).map(|i| format!("y{i} := n(y{})\n", i - 1)).collect::<String>();
    let times = |n: usize| format!("{nine}t(x) := y{n} if {{\ny0 := x\n{}}}\n", calls(n));
    agent(&format!("{}allow if count(t(1)) > 0", times(80))).unwrap();
    let often = format!("{}allow if {{ count(t(1)) > 0\ncount(t(2)) > 0 }}", times(80));
    assert_eq!(super::codes(agent(&often)), ["policy.depth"]);
    let literal: String = (0..2000).map(|i| format!("\"k{i}\": {{\"a\": [{i}]}},\n")).collect();
    agent(&format!("t := {{\n{literal}}}\nallow if t.k1.a[0] == 1")).unwrap();
    let asked: String = (0..400).map(|i| format!("f(input.tool.tier, [{i}])\n")).collect();
    agent(&format!("f(x, y) if {{ [x, y] != [y, x] }}\nallow if {{\n{asked}}}")).unwrap();
}

#[test]
fn an_unknown_obligation_or_an_extra_key_is_no_answer() {
    for rule in [
        r#"obligations contains {"type": "send_email"}"#,
        r#"obligations contains {"type": "cap_bytes", "bytes": 1, "also": 2}"#,
        r#"obligations contains {"type": "rate_limit", "calls": 0, "seconds": 1}"#,
        r#"obligations contains {"type": "rate_limit", "calls": 1}"#,
        r#"obligations contains {"type": "enhanced_audit", "days": 3651}"#,
        r#"obligations contains {"type": "notify", "to": "all"}"#,
        r#"obligations contains {"type": "justify", "why": "x"}"#,
        r#"obligations contains "redact""#,
        r#"obligations contains {"type": "redact", "kinds": "email"}"#,
        r#"obligations contains {"type": "redact", "kinds": ["email"], "opaque": "deny"}"#,
        r#"obligations contains {"type": "redact", "kinds": ["email"], "opaque": true}"#,
    ] {
        let answer = decide(&agent(&format!("allow if true\n{rule}")).unwrap(), INPUT);
        assert!(matches!(answer, Err(EngineError::Document(_))), "{rule}: {answer:?}");
    }
}

#[test]
fn an_item_that_is_neither_message_nor_object_still_denies() {
    for item in [
        "5",
        "null",
        "false",
        "[]",
        "{\"code\": 1, \"message\": \"m\"}",
        "{\"code\": \"a\", \"message\": \"m\", \"x\": 1}",
    ] {
        let bundle = agent(&format!("allow if true\ndeny contains {item}")).unwrap();
        let answer = decide(&bundle, INPUT).unwrap();
        assert_eq!(answer.verdict, Verdict::Deny, "{item}");
        assert_eq!(answer.reasons[0].detail, "malformed", "{item}");
    }
    let plain = decide(&agent("deny contains \"not today\"").unwrap(), INPUT).unwrap();
    assert_eq!(plain.reasons[0].message, "not today");
    assert_eq!(plain.reasons[0].rule, "wicketgate.agent.deny agent/main.rego:3");
}

#[test]
fn a_deny_of_any_layer_wins_then_a_hold_then_an_allow() {
    let rule = |layer: &str, text: &str| {
        (format!("{layer}/a.rego"), format!("package wicketgate.{layer}\nimport rego.v1\n{text}\n"))
    };
    let (deny, hold, allow) =
        ("deny contains \"no\"", "require_approval contains \"wait\"", "allow if true");
    for (rules, verdict) in [
        (vec![("agent", allow)], Verdict::Allow),
        (vec![("team", allow)], Verdict::Allow),
        (vec![("agent", "allow if false")], Verdict::Deny),
        (vec![("agent", allow), ("org", deny)], Verdict::Deny),
        (vec![("agent", allow), ("team", deny)], Verdict::Deny),
        (vec![("agent", deny), ("team", allow)], Verdict::Deny),
        (vec![("agent", hold), ("team", deny)], Verdict::Deny),
        (vec![("agent", allow), ("team", hold)], Verdict::RequireApproval),
        (vec![("agent", hold)], Verdict::RequireApproval),
        (vec![("agent", allow), ("org", hold)], Verdict::RequireApproval),
        (vec![("org", hold)], Verdict::Deny),
    ] {
        let files: Vec<_> = rules.iter().map(|(layer, text)| rule(layer, text)).collect();
        let files: Vec<_> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
        let answer = decide(&load(&files).unwrap(), INPUT).unwrap();
        assert_eq!(answer.verdict, verdict, "{rules:?}");
        assert!(answer.enforced);
    }
}

#[test]
fn many_threads_share_one_engine_and_agree() {
    let bundle = agent(
        "allow if input.x % 2 == 0\ndeny contains sprintf(\"%d\", [input.x]) if input.x % 3 == 0",
    )
    .unwrap();
    let engine = RegoEngine::new(&bundle, super::DEADLINE).unwrap();
    let input = |x: usize| format!(r#"{{"x":{x},"tool":{{"tier":"T0"}}}}"#);
    let alone: Vec<_> = (0..60).map(|x| engine.decide(input(x).as_bytes())).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (x, answer) in alone.iter().enumerate() {
                    assert_eq!(&engine.decide(input(x).as_bytes()), answer);
                }
            });
        }
    });
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
