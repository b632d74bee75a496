//! What `policy lint` finds, and the near miss of each that it leaves alone.

use wicketgate::domain::tier::Tier;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::lint::{Finding, Level, Surroundings, lint};

use super::{agent, load, shipped};

const NO_TOOLS: Surroundings<'static> = Surroundings { tools: &[], approvers: 1, webhook: false };

/// Findings as `level code place`.
fn told(findings: &[Finding]) -> Vec<String> {
    let one = |f: &Finding| format!("{} {} {}", f.level.as_str(), f.code, f.place);
    findings.iter().map(one).collect()
}

/// What is found in one agent file; the rules start at line 3.
fn found(rules: &str) -> Vec<String> {
    told(&lint(&agent(rules).unwrap(), &NO_TOOLS))
}

fn clean(rules: &str) {
    let findings = lint(&agent(rules).unwrap(), &NO_TOOLS);
    assert_eq!(findings, [], "{rules}");
}

#[test]
fn no_shipped_policy_has_anything_to_find() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut dirs: Vec<_> =
        std::fs::read_dir(shipped()).unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.push(root.join("examples/quickstart/policy"));
    dirs.push(root.join("examples/files/policy"));
    assert!(dirs.len() >= 6);
    for dir in dirs {
        let bundle = Bundle::load(&dir).unwrap();
        assert_eq!(lint(&bundle, &NO_TOOLS), [], "{}", dir.display());
    }
    let read =
        |name: &str| std::fs::read_to_string(root.join("policies/starter").join(name)).unwrap();
    let names = ["org/guard.rego", "agent/review.rego", "data/reviewed.json"];
    let texts = names.map(read);
    let files: Vec<_> = names.iter().copied().zip(texts.iter().map(String::as_str)).collect();
    assert_eq!(lint(&load(&files).unwrap(), &NO_TOOLS), []);
}

#[test]
fn an_allow_that_holds_for_any_call_is_found_however_it_is_written() {
    for rules in [
        "allow if true",
        "allow := true",
        "allow if 1 == 1",
        "allow if { true; \"a\" != \"b\" }",
        "allow if input.tool.name",
        "allow if input.tool.name == input.tool.name",
        "allow if input.tool.tier in {\"T0\", \"T1\", \"T2\", \"T3\"}",
        "allow if input.tool.tier != \"T9\"",
        "allow if not never\nnever if false",
        "allow if anybody\nanybody := true",
        "allow if { x := 1; \"a\" in [\"a\", \"b\"] }",
        "allow := false if input.tool.name == \"a\" else := true",
    ] {
        assert_eq!(found(rules)[0], "error lint.default_allow agent/main.rego:3", "{rules}");
    }
    let team = "package wicketgate.team\nimport rego.v1\nallow if true\n";
    let found = told(&lint(&load(&[("team/t.rego", team)]).unwrap(), &NO_TOOLS));
    assert_eq!(found, ["error lint.default_allow team/t.rego:3"]);
}

#[test]
fn an_allow_for_a_tool_that_no_rule_names_is_found_by_evaluation() {
    for rules in [
        "allow if count(input.approvals) >= 0",
        "allow if input.tool.name != \"pay\"",
        "allow if not input.args.path == \"/etc\"",
        "allow if input.time.weekday != \"friday\"",
        "allow if startswith(input.tool.name, \"\")",
    ] {
        assert_eq!(found(rules)[0], "error lint.default_allow ", "{rules}");
    }
}

#[test]
fn an_allow_that_names_something_is_no_default_allow() {
    for rules in [
        "allow if input.tool.name == \"a.b\"",
        "allow if startswith(input.tool.name, \"files.\")",
        "allow if input.tool.read_only == true",
        "allow if input.tool.kind == \"http\"",
        "allow if input.tool.tier in {\"T0\", \"T1\"}",
        "allow if input.effect.host == \"example.com\"",
        "default allow := false\nallow if input.agent.id == \"a\"",
        "allow := true if input.tool.name == \"a\" else := false",
    ] {
        clean(rules);
    }
}

#[test]
fn an_allow_for_all_with_a_deny_for_unlisted_tools_is_only_a_warning() {
    let rules = "allow if true\ndeny contains \"unknown\" if not input.tool.name in {\"a\", \"b\"}";
    assert_eq!(found(rules), ["warning lint.default_allow agent/main.rego:3"]);
}

#[test]
fn a_protection_that_can_never_fire_is_an_error_and_says_why() {
    for (body, why) in [
        ("false", "`false` never holds"),
        ("1 == 2", "1 == 2 never holds"),
        ("2 < 1", "2 < 1 never holds"),
        ("not true", "`true` always holds"),
        (
            "input.tool.tier == \"T9\"",
            "`input.tool.tier` is never \"T9\": it is one of T0, T1, T2, T3",
        ),
        ("\"sun\" == input.time.weekday", "`input.time.weekday` is never \"sun\""),
        (
            "input.tool.read_only == \"true\"",
            "`input.tool.read_only` is never \"true\": it is `true` or `false`",
        ),
        ("input.run.calls == \"5\"", "it is a number"),
        ("input.agent.owner == null", "it is a text"),
        ("input.effect.access in {\"delete\"}", "it is one of read, write, list"),
        (
            "{ input.tool.name == \"a\"; input.tool.name == \"b\" }",
            "cannot be both \"a\" and \"b\"",
        ),
        ("data.limits.most > 3", "`data.limits.most` is not in the bundle's data"),
        ("\"x\" in []", "is empty"),
        ("some x in []", "is empty"),
        ("switched_off\nswitched_off if false", "`switched_off` is never defined"),
        ("switch\nswitch := false", "`switch` never holds"),
        ("switch\ndefault switch := false\nswitch if 1 == 2", "`switch` never holds"),
        ("is_bad(1)\nis_bad(x) if { x == 1; false }", "`is_bad` is never defined"),
        ("{ some x in nobody }\nnobody contains \"a\" if false", "`nobody` is empty"),
    ] {
        let text = format!("deny contains \"no\" if {body}");
        let findings = lint(&agent(&text).unwrap(), &NO_TOOLS);
        let first = &findings[0];
        assert_eq!(
            (first.level, first.code),
            (Level::Error, "lint.dead_rule"),
            "{body}: {findings:?}"
        );
        assert_eq!(first.place, "agent/main.rego:3", "{body}");
        let (name, because) = first.message.split_once(": ").unwrap();
        assert_eq!(name, "`deny` can never fire", "{body}");
        assert!(because.contains(why), "{body}: {because}");
    }
    let key = "deny contains data.words.no if input.tool.name == \"a\"";
    assert_eq!(found(key), ["error lint.dead_rule agent/main.rego:3"]);
    let duty = "obligations contains {\"type\": \"cap_bytes\", \"bytes\": 1} if false";
    assert_eq!(found(duty), ["error lint.dead_rule agent/main.rego:3"]);
}

#[test]
fn a_rule_that_only_takes_away_by_being_dead_is_a_warning() {
    assert_eq!(
        found("allow if input.tool.tier == \"T9\""),
        ["warning lint.dead_rule agent/main.rego:3"]
    );
    assert_eq!(found("aside if false"), ["warning lint.dead_rule agent/main.rego:3"]);
}

#[test]
fn a_rule_that_may_fire_is_not_called_dead() {
    for body in [
        "input.tool.tier == \"T2\"",
        "input.tool.tier != \"T2\"",
        "input.run.calls == 5",
        "not input.tool.read_only",
        "not false",
        "input.args.anything == null",
        "input.args.deep[_].er == \"x\"",
        "input.effect.access in {\"delete\", \"write\"}",
        "input.agent.labels.team == \"x\"",
        "input.context.claimed[\"a b\"] == \"x\"",
        "{ some f in input.findings; f.kind == \"iban\" }",
        "{ input.tool.name == \"a\"; input.tool.kind == \"http\" }",
        "input.pools[0].left_permille < 10",
        "{ t := input.tool; t.name == \"x\" }",
        "switch\nswitch if input.tool.name == \"a\"\nswitch if false",
        "switch\ndefault switch := true\nswitch := false if input.tool.name == \"a\"",
        "object.get(input, [\"x\", \"y\"], 1) == 1",
        "count([x | some x in input.args; x == data.nothing]) == 0",
        "{ some name in nobody }\nnobody contains \"a\" if false\nnobody contains \"b\" if input.run.calls > 1",
    ] {
        let text = format!("deny contains \"no\" if {body}");
        let errors: Vec<_> = lint(&agent(&text).unwrap(), &NO_TOOLS)
            .into_iter()
            .filter(|finding| finding.level == Level::Error)
            .collect();
        assert_eq!(errors, [], "{body}");
    }
    let rules = "package wicketgate.agent\nimport rego.v1\ndeny contains \"no\" if data.limits.most < input.run.calls\n";
    let data = ("data/limits.json", r#"{"most": 3}"#);
    assert_eq!(lint(&load(&[("agent/a.rego", rules), data]).unwrap(), &NO_TOOLS), []);
}

#[test]
fn a_member_the_input_never_has_is_named_with_its_place_and_what_was_meant() {
    for (body, path, hint) in [
        ("not input.agent.ownr == \"x\"", "input.agent.ownr", Some("input.agent.owner")),
        ("input.tool.naem == \"x\"", "input.tool.naem", Some("input.tool.name")),
        ("input[\"tool\"][\"teir\"] == \"T3\"", "input.tool.teir", Some("input.tool.tier")),
        ("input.tol.name == \"x\"", "input.tol", Some("input.tool")),
        ("input.user.suspended", "input.user", None),
        ("input.tool.name.first == \"x\"", "input.tool.name.first", None),
        ("input.findings.kind == \"x\"", "input.findings.kind", None),
        ("input.findings[_].knd == \"x\"", "input.findings[_].knd", Some("input.findings[_].kind")),
        ("count([x | some x in input.arguments]) > 0", "input.arguments", None),
        ("every x in input.approvalls { x.key }", "input.approvalls", Some("input.approvals")),
    ] {
        let text = format!("x := 1\n\ndeny contains \"no\" if {body}");
        let findings = lint(&agent(&text).unwrap(), &NO_TOOLS);
        let code = "lint.input_never_supplied";
        let mut own = findings.iter().filter(|finding| finding.code == code);
        let (one, more) = (own.next().unwrap(), own.next());
        let hint = hint.map(|h| format!("; did you mean `{h}`?")).unwrap_or_default();
        assert_eq!(one.message, format!("`{path}` is never supplied{hint}"), "{body}");
        assert_eq!(
            (one.level, one.place.as_str(), more),
            (Level::Error, "agent/main.rego:5", None)
        );
    }
    let import = "package wicketgate.agent\nimport rego.v1\nimport input.tool as t\n\
                  deny contains \"no\" if not t.nme == \"x\"\n";
    let found = told(&lint(&load(&[("agent/a.rego", import)]).unwrap(), &NO_TOOLS));
    assert_eq!(found, ["error lint.input_never_supplied agent/a.rego:4"]);
    clean("deny contains \"no\" if input.args.naem == \"x\"");
    clean("deny contains \"no\" if input.agent.labels.naem == \"x\"");
}

/// The rules' own archive with a library that lets irreversible calls pass.
fn lenient(bundle: &Bundle) -> Bundle {
    let (strict, lax) = (br#"count(approvers("")) == 0"#, br#"count(approvers("")) == 9"#);
    let mut tar = bundle.tar().to_vec();
    let at = tar.windows(strict.len()).position(|part| part == strict).unwrap();
    tar[at..at + lax.len()].copy_from_slice(lax);
    Bundle::from_tar(&tar).unwrap()
}

#[test]
fn an_irreversible_tool_that_runs_unapproved_is_found() {
    let bundle = agent("allow if input.tool.name in {\"pay\", \"look\"}").unwrap();
    let tools = [("pay".to_owned(), Tier::T3), ("look".to_owned(), Tier::T0)];
    let around = Surroundings { tools: &tools, ..NO_TOOLS };
    assert_eq!(lint(&bundle, &around), [], "the library of this build holds every T3 call");
    let lax = lenient(&bundle);
    let findings = lint(&lax, &around);
    assert_eq!(told(&findings), ["error lint.irreversible_unapproved "]);
    assert!(findings[0].message.contains("`pay`"));
    let guarded = "allow if input.tool.name == \"pay\"\n\
                   require_approval contains \"ask\" if input.tool.name == \"pay\"";
    assert_eq!(lint(&lenient(&agent(guarded).unwrap()), &around), []);
}

#[test]
fn an_approval_that_no_approver_can_give_is_a_warning() {
    let asks = agent("allow if input.tool.name == \"a\"\nrequire_approval contains \"ask\" if input.tool.name == \"a\"").unwrap();
    let nobody = Surroundings { approvers: 0, webhook: true, ..NO_TOOLS };
    assert_eq!(told(&lint(&asks, &nobody)), ["warning lint.no_channel agent/main.rego:4"]);
    assert_eq!(lint(&asks, &NO_TOOLS), []);
    let plain = agent("allow if input.tool.name == \"a\"").unwrap();
    assert_eq!(lint(&plain, &nobody), []);
    let tools = [("a".to_owned(), Tier::T3)];
    let irreversible = Surroundings { tools: &tools, ..nobody };
    assert_eq!(told(&lint(&plain, &irreversible)), ["warning lint.no_channel "]);
}

fn program(dir: &std::path::Path, args: &[&str]) -> (i32, String, String) {
    super::policy(&[&["lint", dir.to_str().unwrap()], args].concat())
}

#[test]
fn the_command_prints_findings_and_ends_with_1_only_for_errors() {
    let bundle = |rules: &str| {
        let text = format!("package wicketgate.agent\nimport rego.v1\n{rules}\n");
        super::dir(&[("agent/main.rego", &text)])
    };
    let sound = bundle("allow if input.tool.name == \"a\"");
    assert_eq!(program(sound.path(), &[]), (0, "t 1.0.0: no finding\n".into(), String::new()));
    let dead = bundle("allow if input.tool.tier == \"T9\"");
    let line = "agent/main.rego:3: warning: lint.dead_rule: `allow` can never fire: `input.tool.tier` \
                is never \"T9\": it is one of T0, T1, T2, T3\n    correct the condition, or take the rule away\n";
    assert_eq!(program(dead.path(), &[]), (0, line.into(), String::new()));
    let open = bundle("allow if true");
    let (code, out, _) = program(open.path(), &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, told["ok"].as_bool()), (1, Some(false)));
    assert_eq!(told["findings"][0]["code"], "lint.default_allow");
    assert_eq!(told["findings"][0]["level"], "error");
    assert_eq!(told["findings"][0]["place"], "agent/main.rego:3");
    assert!(told["findings"][0]["hint"].as_str().unwrap().contains("name what is allowed"));
    assert!(told["policy"].as_str().unwrap().starts_with("sha256:"));
    let broken = bundle("allow if {");
    let (code, _, err) = program(broken.path(), &[]);
    assert!(code == 1 && err.contains("policy.syntax"), "{err}");
    let (code, _, err) = program(sound.path(), &["--config", "/nowhere/wicketgate.yaml"]);
    assert!(code == 78 && err.contains("/nowhere/wicketgate.yaml"), "{code} {err}");
}

/// Rules that load, and do not say what their author means: what is said of each.
const MALFORMED: [(&str, &str); 39] = [
    ("deny if input.args.x", "`deny` is `true`, which says nothing"),
    ("deny := true", "`deny` is `true` or `false` and no set"),
    ("deny := \"no\"", "`deny` is a text and no set"),
    ("deny := {\"code\": \"a\", \"message\": \"b\"}", "`deny` is an object and no set"),
    ("default deny := false", "`deny` is `true` or `false` and no set"),
    ("deny[\"no\"] if input.args.x", "`deny` has keys"),
    ("deny(x) if x == 1", "`deny` is a function"),
    ("deny contains 5 if input.args.x", "an item is a number"),
    ("deny contains null", "an item is null"),
    ("deny contains [\"no\"]", "an item is a list"),
    ("deny contains {\"no\"}", "an item is a set"),
    ("deny contains {\"message\": \"b\"}", "`code` is missing"),
    ("deny contains {\"code\": \"a\", \"msg\": \"b\"}", "`message` is missing"),
    (
        "deny contains {\"code\": \"a\", \"message\": \"b\", \"approvers\": 2}",
        "`approvers` is not known here",
    ),
    (
        "deny contains {\"code\": \"No Way\", \"message\": \"b\"}",
        "`code` is not of [a-z0-9_.-]{1,64}",
    ),
    ("deny contains {\"code\": 1, \"message\": \"b\"}", "`code` is a number and no text"),
    ("deny contains {\"code\": \"a\", \"message\": [\"b\"]}", "`message` is a list and no text"),
    ("deny contains item if { item := {\"code\": \"a\"} }", "`message` is missing"),
    ("deny contains why if { why = 7 }", "an item is a number"),
    ("require_approval if input.args.x", "`require_approval` is `true`"),
    ("require_approval contains true", "an item is `true` or `false`"),
    (
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"approvers\": 0}",
        "`approvers` is no whole number from 1 to 16",
    ),
    (
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"approvers\": 17}",
        "`approvers` is no whole number",
    ),
    (
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"approvers\": 1.5}",
        "`approvers` is no whole number",
    ),
    (
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"approvers\": \"2\"}",
        "`approvers` is a text and no number",
    ),
    (
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"roles\": \"x\"}",
        "`roles` is not known here",
    ),
    (
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"role\": 1}",
        "`role` is a number and no text",
    ),
    ("obligations contains \"redact\"", "an item is a text"),
    ("obligations contains {\"type\": \"send_email\"}", "no obligation of a known `type`"),
    ("obligations contains {\"type\": \"rate_limit\", \"calls\": 1}", "`seconds` is missing"),
    (
        "obligations contains {\"type\": \"rate_limit\", \"calls\": 0, \"seconds\": 1}",
        "is no whole number from 1 to 1000",
    ),
    (
        "obligations contains {\"type\": \"enhanced_audit\", \"days\": 9999}",
        "is no whole number from 1 to 3650",
    ),
    ("obligations contains {\"type\": \"notify\", \"to\": \"all\"}", "is `owner` or `webhook`"),
    ("obligations contains {\"type\": \"justify\", \"why\": 1}", "`why` is not known here"),
    (
        "obligations contains {\"type\": \"redact\", \"kinds\": \"email\"}",
        "`kinds` are a text and no list",
    ),
    ("obligations contains {\"type\": \"redact\", \"kinds\": []}", "`kinds` are one or more"),
    (
        "obligations contains {\"type\": \"cap_bytes\", \"bytes\": \"1\"}",
        "`bytes` is a text and no number",
    ),
    ("allow contains \"yes\"", "`allow` is a set"),
    ("allow := \"yes\" if input.args.x", "`allow` is a text, and only `true` allows"),
];

#[test]
fn what_the_library_cannot_use_is_refused_by_check_and_lint_with_its_place() {
    let mut shaped = 0;
    for (rule, said) in MALFORMED {
        let text = format!("package wicketgate.agent\nimport rego.v1\n\n{rule}\n");
        let dir = super::dir(&[("agent/main.rego", &text)]);
        let (code, _, err) = super::policy(&["check", dir.path().to_str().unwrap()]);
        assert_eq!(code, 1, "{rule}: {err}");
        assert!(err.contains("agent/main.rego:4:"), "{rule}: {err}");
        if err.contains("policy.rule_shape") || err.contains("policy.allow") {
            // Such a rule does not even load.
            shaped += 1;
            continue;
        }
        assert!(err.contains("policy.malformed") && err.contains(said), "{rule}: {err}");
        let found = lint(&Bundle::load(dir.path()).unwrap(), &NO_TOOLS);
        let malformed = found.iter().filter(|one| one.code == "lint.malformed");
        let places: Vec<_> = malformed.map(|one| (one.level, one.place.as_str())).collect();
        assert_eq!(places.first(), Some(&(Level::Error, "agent/main.rego:4")), "{rule}: {found:?}");
    }
    assert!(shaped <= 10, "{shaped}");
}

#[test]
fn what_the_library_can_use_or_only_an_evaluation_makes_is_left_alone() {
    for rule in [
        "deny contains \"no\" if input.args.x",
        "deny contains {\"code\": \"a\", \"message\": \"b\"} if input.args.x",
        "deny contains sprintf(\"no %s\", [input.args.x])",
        "deny contains why if some why in data.reasons",
        "deny contains why if { why := {\"code\": input.args.x, \"message\": input.args.y} }",
        "require_approval contains \"ask\" if input.args.x",
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"approvers\": 2, \"role\": \"leads\"} if input.args.x",
        "require_approval contains {\"code\": \"a\", \"message\": \"b\", \"approvers\": input.args.n} if input.args.x",
        "obligations contains {\"type\": \"redact\", \"kinds\": [\"email\"]} if input.args.x",
        "obligations contains {\"type\": \"cap_bytes\", \"bytes\": 500} if input.args.x",
        "allow if input.args.x",
        "allow := input.args.x == 1",
        "default allow := false",
        "denied := true\nallowed contains \"x\"",
    ] {
        let bundle = agent(rule).unwrap_or_else(|e| panic!("{rule}: {e:?}"));
        let found = lint(&bundle, &NO_TOOLS);
        assert!(found.iter().all(|one| one.code != "lint.malformed"), "{rule}: {found:?}");
    }
}
