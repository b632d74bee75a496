//! What a bundle may not hold, and where the error points.

use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::fault::LoadError;

use super::{agent, codes, dir, load};

const ALLOW: (&str, &str) =
    ("agent/main.rego", "package wicketgate.agent\nimport rego.v1\nallow if true\n");

fn errors(files: &[(&str, &str)]) -> Vec<LoadError> {
    load(files).map_or_else(|errors| errors, |_| Vec::new())
}

#[test]
fn a_syntax_error_names_file_line_and_column_and_all_errors_come_at_once() {
    let found = errors(&[
        ("agent/a.rego", "package wicketgate.agent\nimport rego.v1\nallow if {\n  x :=\n}\n"),
        ("team/b.rego", "package wicketgate.agent\nimport rego.v1\nallow if true\n"),
        ("team/c.rego", "package wicketgate.team\nimport rego.v1\nallow if time.now_ns() > 0\n"),
        ("data/d.json", "{\n  \"a\": 1,\n  \"a\": 2\n}"),
    ]);
    let place = |e: &LoadError| (e.file.clone(), e.line, e.code);
    let places: Vec<_> = found.iter().map(place).collect();
    assert!(places.contains(&("team/b.rego".into(), 1, "policy.package")), "{found:?}");
    assert!(places.contains(&("team/c.rego".into(), 3, "policy.banned_builtin")), "{found:?}");
    assert!(places.contains(&("data/d.json".into(), 3, "policy.json")), "{found:?}");
    let syntax = found.iter().find(|e| e.code == "policy.syntax").unwrap();
    assert_eq!(syntax.file, "agent/a.rego");
    assert!(syntax.line >= 4 && syntax.column >= 1, "{syntax}");
}

#[test]
fn what_has_no_bound_or_reads_the_world_is_refused() {
    for call in [
        "time.now_ns() > 0",
        "http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"}).status_code == 403",
        "opa.runtime().env.X",
        "rand.intn(\"a\", 3) == 1",
        "uuid.rfc4122(\"x\") != \"\"",
        "trace(\"x\")",
        "print(\"x\")",
        "count(numbers.range(1, 5000000)) > 1",
        "count(net.cidr_expand(\"10.0.0.0/12\")) > 1",
        "bits.lsh(1, 100000000) > 1",
        "rego.parse_module(\"a\", \"b\")",
        "no_such_function(1)",
        "data.wicketgate.team.no_such_function(1)",
    ] {
        let found = codes(agent(&format!("allow if {call}")));
        assert_eq!(found, ["policy.banned_builtin"], "{call}");
    }
    assert_eq!(codes(agent("allow if concat(\",\", [\"a\"], x)")), ["policy.arity"]);
    assert_eq!(codes(agent("allow if sprintf(input.f, [1]) == \"\"")), ["policy.format"]);
    assert_eq!(codes(agent("allow if sprintf(\"%0999999999d\", [1]) == \"\"")), ["policy.format"]);
}

#[test]
fn a_banned_call_is_found_wherever_it_hides() {
    for rule in [
        "allow if { some x in [y | y := time.now_ns()]; x }",
        "allow if { every x in [1] { time.now_ns() > x } }",
        "allow if { not time.now_ns() }",
        "allow if input[time.now_ns()]",
        "allow if {a := {\"k\": {time.now_ns()}}; a}",
        "allow if 1 + time.now_ns() > 2",
        "f(x) := time.now_ns() + x",
        "x[time.now_ns()] := 1",
        "deny contains time.now_ns()",
        "x := 1 if { false } else := time.now_ns()",
        "default f(_) := 1\nf(x) := y if { y := x | {time.now_ns()} }",
        "allow if {x := {k: v | k := 1; v := time.now_ns()}; x}",
    ] {
        let found = codes(agent(rule));
        assert!(found.contains(&"policy.banned_builtin"), "{rule}: {found:?}");
    }
}

#[test]
fn recursion_of_functions_and_rules_is_refused_before_anything_is_evaluated() {
    for rules in [
        "f(x) := y if { y := f(x + 1) }\nallow if f(1)",
        "f(x) := g(x)\ng(x) := data.wicketgate.agent.f(x)",
        "a if b\nb if a",
        "a if data.wicketgate.agent",
        "a if data[\"wicketgate\"][input.x]",
        "a if data.wicketgate.decision.verdict == \"allow\"\nallow if a",
        "import data.wicketgate.agent as me\na if me.a",
        "deny contains x if some x in deny",
    ] {
        let found = codes(agent(rules));
        assert!(found.contains(&"policy.recursion"), "{rules}: {found:?}");
    }
    let sound =
        "a if b\nb if c\nc if input.x\nallow if { a; b }\nf(x) := g(x)\ng(x) := x + 1\nd if f(1)";
    assert!(codes(agent(sound)).is_empty());
}

#[test]
fn rules_the_library_reads_have_the_shape_it_reads() {
    for (rule, code) in [
        ("default allow := true", "policy.allow"),
        ("default allow := 1", "policy.allow"),
        ("allow contains 1 if true", "policy.allow"),
        ("allow.x if true", "policy.allow"),
        ("allow(x) if x", "policy.allow"),
        ("deny if input.x", "policy.rule_shape"),
        ("deny := [\"no\"]", "policy.rule_shape"),
        ("deny[x] := 1 if { x := \"no\" }", "policy.rule_shape"),
        ("default require_approval := false", "policy.rule_shape"),
        ("obligations := []", "policy.rule_shape"),
        ("default decision := []", "policy.rule_shape"),
        ("allow if input.x with input as {}", "policy.with"),
        ("allow if count([]) == 1 with count as 1", "policy.with"),
        ("count(x) := 1", "policy.shadow"),
        ("import data.wicketgate\nimport foo.bar\nallow if true", "policy.import"),
    ] {
        let found = codes(agent(rule));
        assert!(found.iter().any(|c| *c == code || *c == "policy.syntax"), "{rule}: {found:?}");
    }
    assert!(codes(agent("default allow := false\nallow if input.x")).is_empty());
    let org = ("org/a.rego", "package wicketgate.org\nimport rego.v1\nallow if true\n");
    assert_eq!(codes(load(&[ALLOW, org])), ["policy.org_allow"]);
    let own = ("agent/b.rego", "package wicketgate\nimport rego.v1\ndecision := 1\n");
    assert_eq!(codes(load(&[ALLOW, own])), ["policy.package"]);
}

#[test]
fn data_can_override_no_rule() {
    for (file, text) in [
        ("data/wicketgate.json", r#"{"agent":{"allow":true}}"#),
        ("data/wicketgate/agent.json", r#"{"allow":true}"#),
        ("data/a.b.json", "{}"),
        ("data/1a.json", "{}"),
    ] {
        assert_eq!(codes(load(&[ALLOW, (file, text)])), ["policy.data"], "{file}");
    }
    let twice = [ALLOW, ("data/a.json", r#"{"b":1}"#), ("data/a/b.json", "2")];
    assert_eq!(codes(load(&twice)), ["policy.data"]);
    assert!(
        codes(load(&[ALLOW, ("data/a.json", r#"{"b":1}"#), ("data/a/c.json", "2")])).is_empty()
    );
}

#[test]
fn only_the_files_of_a_bundle_belong_in_it() {
    assert_eq!(codes(load(&[])), ["policy.empty"]);
    let test = ("agent/a_test.rego", "package wicketgate.agent_test\n");
    assert_eq!(codes(load(&[test])), ["policy.empty"]);
    for name in ["README.md", "lib/decision.rego", "agent/a.json", "data/a.rego", "other/a.rego"] {
        assert_eq!(codes(load(&[ALLOW, (name, "")])), ["policy.layout"], "{name}");
    }
    for name in ["agent/a b.rego", "agent/ä.rego", "agent/.a.rego", ".git/a"] {
        assert_eq!(codes(load(&[ALLOW, (name, "")])), ["policy.file_name"], "{name}");
    }
    let big = "x".repeat(4 << 20);
    assert!(codes(load(&[ALLOW, ("data/a.json", &big)])).contains(&"policy.size"));
    let many: Vec<String> = (0..257).map(|i| format!("data/d{i}.json")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert!(codes(load(&many)).contains(&"policy.size"));
    // The same of files that come in no directory: archives, and what others pack.
    for files in [vec![ALLOW, ("data/a.json", big.as_str()), ("data/b.json", &big)], many] {
        let meta = ("bundle.json", r#"{"name":"t","version":"1.0.0"}"#);
        let files = files.into_iter().chain([meta]);
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        assert_eq!(codes(Bundle::of_files(files.collect())), ["policy.size"]);
    }
}

#[test]
fn links_and_pipes_are_refused_and_not_read() {
    let dir = dir(&[ALLOW]);
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("agent/b.rego")).unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("team")).unwrap();
    let found = codes(Bundle::load(dir.path()));
    assert_eq!(found, ["policy.file_type", "policy.file_type"]);
}

#[test]
fn the_description_is_strict() {
    for meta in [
        "{}",
        "[]",
        r#"{"name":"t"}"#,
        r#"{"name":"t","version":"1"}"#,
        r#"{"name":"T","version":"1.0.0"}"#,
        r#"{"name":"t","version":"1.0.0","x":1}"#,
        r#"{"name":"t","version":"1.0.0","not_after":"tomorrow"}"#,
        r#"{"name":"t","version":"1.0.0","manifests":[]}"#,
        r#"{"name":"t","version":"1.0.0","not_before":"2026-01-02T00:00:00Z","not_after":"2026-01-01T00:00:00Z"}"#,
    ] {
        assert_eq!(codes(load(&[ALLOW, ("bundle.json", meta)])), ["policy.meta"], "{meta}");
    }
    assert_eq!(
        codes(load(&[ALLOW, ("bundle.json", r#"{"name":"t","name":"u"}"#)])),
        ["policy.json"]
    );
}

#[test]
fn brackets_that_would_keep_the_parser_busy_for_minutes_are_refused_at_once() {
    let rule =
        |depth: usize| format!("x := {}1{}\nallow if x", "[".repeat(depth), "]".repeat(depth));
    assert!(codes(agent(&rule(10))).is_empty());
    assert_eq!(codes(agent(&rule(11))), ["policy.nesting"]);
    let braces = format!("x := {}1{}", "{\"k\": ".repeat(30), "}".repeat(30));
    assert!(codes(agent(&braces)).contains(&"policy.nesting"));
    let texts =
        "x := \"[[[[[[[[[[[[\\\"[\"\n# [[[[[[[[[[[[ # [\ny := `[[[[[[[[[[[[\n[`\nallow if x";
    assert!(codes(agent(texts)).is_empty());
}
