//! Lints look through variables that a rule sets once, and leave alone what they cannot tell.

use wicketgate::policy::lint::{Surroundings, lint};

use super::agent;

const NO_TOOLS: Surroundings<'static> = Surroundings { tools: &[], approvers: 1, webhook: false };

/// Findings about one agent file as `code place message`; the rules start at line 3.
fn found(rules: &str) -> Vec<String> {
    let findings = lint(&agent(rules).unwrap(), &NO_TOOLS);
    findings.iter().map(|f| format!("{} {} {}", f.code, f.place, f.message)).collect()
}

/// Each has a finding with this code and place, and this in its message.
fn each(code: &str, cases: &[(&str, &str)]) {
    for (rules, part) in cases {
        let found = found(rules);
        let fits = |one: &String| one.starts_with(code) && one.contains(part);
        assert!(found.iter().any(fits), "{rules}: {found:?}");
    }
}

fn clean(all: &[&str]) {
    for rules in all {
        assert_eq!(found(rules), [""; 0], "{rules}");
    }
}

#[test]
fn a_member_that_is_never_supplied_is_found_behind_a_variable() {
    each(
        "lint.input_never_supplied agent/main.rego:",
        &[
            (
                "allow if { x := input.tool; x.nam == \"a\" }",
                "`input.tool.nam` is never supplied; did you mean `input.tool.name`?",
            ),
            ("allow if { x := input; y := x.tool; y.nam == \"a\" }", "`input.tool.nam`"),
            ("allow if { y := x.tool; x := input; y.nam == \"a\" }", "`input.tool.nam`"),
            (
                "allow if { input.tool.name == \"a\"\nsome f in input.findings\nf.knd == \"x\" }",
                "`input.findings[_].knd`",
            ),
            (
                "allow if { input.tool.name == \"a\"\nsome i\nf := input.findings[i]\nf.knd == \"x\" }",
                "`input.findings[_].knd`",
            ),
            (
                "allow if { input.tool.name == \"a\"\ncount(input.findings) > 0\nevery f in input.findings { f.knd == \"x\" } }",
                "`input.findings[_].knd`",
            ),
            ("allow if ours(input.tool)\nours(tool) if tool.nam == \"a\"", "`input.tool.nam`"),
            (
                "allow if { t := input.tool; ours(t, 1) }\nours(tool, n) if { tool.nam == \"a\"; n > 0 }",
                "`input.tool.nam`",
            ),
        ],
    );
    clean(&[
        "allow if { x := input.tool; x.name == \"a\" }",
        "allow if { some f in input.findings; f.kind == \"x\"; input.tool.name == \"a\" }",
        "allow if { input.tool.name == \"a\"; some k, v in input.args; v.nam == k }",
        // Several values, or none that can be told.
        "allow if { x := input.args; x.nam == \"a\"; input.tool.name == \"a\" } else := false if { x := input.tool; x.name == \"b\" }",
        "allow if { input.tool.name == \"a\"; x := object.union(input.tool, {\"nam\": 1}); x.nam == 1 }",
        "allow if ours(input.tool)\nallow if ours(input.args)\nours(one) if one.title == \"a\"",
        "allow if { input.tool.name == \"a\"; [x, y] := [input.args, 1]; x.nam == y }",
    ]);
}

#[test]
fn a_condition_that_cannot_hold_or_always_does_is_found_behind_a_variable() {
    let allowed = "allow if input.tool.name == \"a\"\n";
    each(
        "lint.dead_rule agent/main.rego:4",
        &[
            (
                &format!(
                    "{allowed}deny contains \"no\" if {{ t := input.tool.tier; t == \"T9\" }}"
                ),
                "`t` is never",
            ),
            (
                &format!(
                    "{allowed}deny contains \"no\" if {{ t := input.tool; t.tier == \"T1\"; input.tool.tier == \"T2\" }}"
                ),
                "cannot be both",
            ),
            (
                &format!(
                    "{allowed}deny contains \"no\" if {{ t := input.tool; t.teir == \"T1\" }}"
                ),
                "`input.tool.teir` is never supplied",
            ),
        ],
    );
    each(
        "lint.default_allow agent/main.rego:3",
        &[
            ("allow if { name := input.tool.name; name }", ""),
            ("allow if { name := input.tool.name }", ""),
        ],
    );
    clean(&[&format!("{allowed}deny contains \"no\" if {{ t := input.tool.tier; t == \"T3\" }}")]);
}

#[test]
fn a_not_over_what_may_be_missing_is_found_behind_a_variable() {
    let name = "input.tool.name == \"a\"";
    let allowed = format!("allow if {name}\n");
    each(
        "lint.negation_unknown agent/main.rego:",
        &[
            (
                &format!("allow if {{ {name}\nargs := input.args\nnot args.path == \"/etc\" }}"),
                "where `input.args.path` is missing",
            ),
            (
                &format!(
                    "allow if {{ {name}\nnot bad(input.args) }}\nbad(args) if args.path == \"/etc\""
                ),
                "`input.args.path`",
            ),
            (
                &format!(
                    "allow if {{ {name}\nsome file in input.args.files\nnot file.path == \"/etc\" }}"
                ),
                "where `input.args.files[file].path` is missing",
            ),
        ],
    );
    each(
        "lint.negation_silent agent/main.rego:4",
        &[(
            &format!(
                "{allowed}deny contains \"no\" if {{ args := input.args; not startswith(args.path, \"/srv/\") }}"
            ),
            "`input.args.path`",
        )],
    );
    clean(&[
        &format!(
            "allow if {{ {name}\nargs := input.args\nis_string(input.args.path)\nnot startswith(args.path, \"/etc\") }}"
        ),
        // Where there is no path there is no value, and the rule does not hold.
        &format!("allow if {{ {name}\npath := input.args.path\nnot path == \"/etc\" }}"),
        &format!(
            "{allowed}deny contains \"no\" if {{ path := input.args.path; not startswith(path, \"/srv/\") }}"
        ),
        &format!("allow if {{ {name}\nsome f in input.findings\nnot f.kind == \"secret\" }}"),
    ]);
}

#[test]
fn a_pattern_is_found_where_its_variable_is_set() {
    each(
        "lint.regex_unanchored agent/main.rego:3",
        &[(
            "allow if { p := `example\\.com`; regex.match(p, input.effect.host) }",
            "`example\\.com`",
        )],
    );
    each(
        "lint.glob_delimiters agent/main.rego:3",
        &[(
            "allow if { g := \"*.example.com\"; glob.match(g, null, input.effect.host) }",
            "matches across",
        )],
    );
    clean(&[
        "allow if { p := `^example\\.com$`; regex.match(p, input.effect.host) }",
        "allow if { g := \"*.example.com\"; glob.match(g, [\".\"], input.effect.host) }",
    ]);
}
