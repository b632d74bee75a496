//! Lints about conditions that hold more often than they read, each with the near miss it leaves alone.

use wicketgate::policy::lint::{Level, Surroundings, lint};

use super::agent;

const NO_TOOLS: Surroundings<'static> = Surroundings { tools: &[], approvers: 1, webhook: false };

/// The codes and places of the warnings about one agent file; the rules start at line 3.
fn found(rules: &str) -> Vec<String> {
    let findings = lint(&agent(rules).unwrap(), &NO_TOOLS);
    assert!(findings.iter().all(|f| f.level == Level::Warning), "{rules}: {findings:?}");
    assert!(findings.iter().all(|f| f.hint() != "see the message"), "{rules}: no hint");
    findings.iter().map(|f| format!("{} {}", f.code, f.place)).collect()
}

fn only(code: &str, rules: &[&str]) {
    for rules in rules {
        let found = found(rules);
        assert!(found.len() == 1 && found[0].starts_with(code), "{rules}: {found:?}");
    }
}

fn clean(rules: &[&str]) {
    for rules in rules {
        assert_eq!(found(rules), [""; 0], "{rules}");
    }
}

#[test]
fn a_not_that_holds_where_nothing_is_known_is_found_where_it_lets_calls_pass() {
    let name = "input.tool.name == \"a\"";
    only(
        "lint.negation_unknown agent/main.rego:",
        &[
            &format!("allow if {{ {name}\nnot input.args.path == \"/etc\" }}"),
            &format!("allow if {{ {name}\nnot input.agent.labels.suspended }}"),
            &format!("allow if {{ {name}\nnot bad }}\nbad if input.args.path == \"/etc\""),
            &format!("allow if {{ {name}\nfine }}\nfine if not input.args.path == \"/etc\""),
            "allow if input.tool.name == \"a\"\ndeny contains \"no\" if not fine\nfine if { input.tool.name == \"a\"\nnot input.args.path == \"/etc\" }",
        ],
    );
    clean(&[
        &format!("allow if {{ {name}\nnot startswith(input.args.path, \"/etc\") }}"),
        &format!("allow if {{ {name}\nnot input.effect.host in {{\"a.example\"}} }}"),
        &format!("allow if {{ {name}\nnot input.args.path != \"/etc\" }}"),
        &format!(
            "allow if {{ {name}\nis_string(input.args.path)\nnot startswith(input.args.path, \"/etc\") }}"
        ),
        &format!(
            "allow if {{ {name}\ngiven\nnot bad }}\ngiven if is_string(input.args.path)\nbad if input.args.path == \"/etc\""
        ),
        &format!("allow if {{ {name}\nnot input.tool.tier == \"T3\" }}"),
        &format!(
            "allow if {{ {name}\nnot object.get(input.args, \"path\", \"/etc\") == \"/etc\" }}"
        ),
        &format!("allow if {name}\ndeny contains \"no\" if not input.args.ticket == \"x\""),
        &format!(
            "allow if {name}\nrequire_approval contains \"ask\" if not small\nsmall if input.args.amount < 5"
        ),
    ]);
}

#[test]
fn a_grant_that_opens_by_the_trust_in_its_tool_is_found() {
    let name = "input.tool.name == \"a\"";
    only(
        "lint.allow_by_trust agent/main.rego:",
        &[
            &format!("allow if {{ {name}\ninput.tool.trust.score > 900 }}"),
            &format!("allow if {{ {name}\ntrusted }}\ntrusted if input.tool.trust.score > 900"),
            &format!(
                "allow if {name}\nrequire_approval contains \"ask\" if not trusted\ntrusted if input.tool.trust.score > 900"
            ),
        ],
    );
    clean(&[&format!(
        "allow if {name}\nrequire_approval contains \"ask\" if input.tool.trust.score < 600"
    )]);
}

#[test]
fn a_not_that_fails_where_nothing_is_known_is_found_where_it_stops_calls() {
    let allowed = "allow if input.tool.name == \"a\"";
    only(
        "lint.negation_silent agent/main.rego:",
        &[
            &format!(
                "{allowed}\ndeny contains \"no\" if not input.effect.host in {{\"a.example\"}}"
            ),
            &format!(
                "{allowed}\ndeny contains \"no\" if not startswith(input.args.path, \"/srv/\")"
            ),
            &format!(
                "{allowed}\nrequire_approval contains \"ask\" if strange\nstrange if not input.args.amount < 5"
            ),
        ],
    );
    clean(&[
        &format!("{allowed}\ndeny contains \"no\" if not input.args.ticket"),
        &format!(
            "{allowed}\ndeny contains \"no\" if not inside\ninside if startswith(input.args.path, \"/srv/\")"
        ),
        &format!(
            "{allowed}\ndeny contains \"no\" if {{ is_string(input.args.path)\nnot startswith(input.args.path, \"/srv/\") }}"
        ),
    ]);
}

#[test]
fn a_pattern_that_is_found_anywhere_is_found_where_it_lets_calls_pass() {
    only(
        "lint.regex_unanchored agent/main.rego:3",
        &[
            "allow if regex.match(\"example\\\\.com\", input.effect.host)",
            "allow if regex.match(`^repo\\.`, input.tool.name)",
            "allow if regex.match(`^a$|q`, input.tool.name)",
            "deny contains \"no\" if { is_string(input.effect.host); not regex.match(`example\\.com`, input.effect.host) }",
        ],
    );
    only(
        "lint.regex_unanchored agent/main.rego:4",
        &["allow if ours(input.effect.host)\nours(host) if regex.match(`example\\.com`, host)"],
    );
    clean(&[
        "allow if regex.match(`^([a-z]+\\.)?example\\.com$`, input.effect.host)",
        "allow if regex.match(`(?i)^(a|b)$`, input.tool.name)",
        "deny contains \"no\" if regex.match(`secret`, input.args.text)",
        "deny contains \"no\" if { is_string(input.effect.host); not regex.match(`^example\\.com$`, input.effect.host) }",
    ]);
}

#[test]
fn a_glob_whose_star_knows_no_border_is_found_where_it_lets_calls_pass() {
    only(
        "lint.glob_delimiters agent/main.rego:3",
        &[
            "allow if glob.match(\"*.example.com\", null, input.effect.host)",
            "allow if glob.match(\"/srv/*\", [], input.effect.path)",
            "allow if glob.match(\"/srv/*\", [\".\"], input.effect.path)",
            "deny contains \"no\" if { is_string(input.effect.path); not glob.match(\"repo/*\", null, input.effect.path) }",
        ],
    );
    clean(&[
        "allow if glob.match(\"*.example.com\", [], input.effect.host)",
        "allow if glob.match(\"*.example.com\", [\".\"], input.effect.host)",
        "allow if glob.match(\"/srv/*\", [\"/\"], input.effect.path)",
        "allow if glob.match(\"/srv/**\", [\"/\"], input.effect.path)",
        "deny contains \"no\" if glob.match(\"/etc/*\", null, input.effect.path)",
    ]);
}

#[test]
fn conditions_within_an_every_count_as_they_do_beside_it() {
    let each = |body: &str| {
        let guard = "input.tool.name == \"a\"\ncount(input.args.hosts) > 0";
        format!("allow if {{ {guard}\nevery one in input.args.hosts {{ {body} }} }}")
    };
    only("lint.negation_unknown agent/main.rego:", &[&each("not one.secret")]);
    only("lint.regex_unanchored agent/main.rego:", &[&each("regex.match(\"good\", one)")]);
    clean(&[
        &each("not regex.match(\"evil\", one)"),
        &each("regex.match(\"^good$\", one)"),
        &each("one.secret == false"),
        &each("is_boolean(one.secret)\nnot one.secret"),
    ]);
}

#[test]
fn a_function_that_is_called_by_an_imported_name_is_followed() {
    let team = "package wicketgate.team\nimport rego.v1\nours(host) if regex.match(\"example[.]com\", host)\n";
    for (import, call) in [
        ("data.wicketgate.team as ours", "ours.ours(input.effect.host)"),
        ("data.wicketgate.team.ours", "ours(input.effect.host)"),
        ("data.wicketgate", "wicketgate.team.ours(input.effect.host)"),
    ] {
        let agent =
            format!("package wicketgate.agent\nimport rego.v1\nimport {import}\nallow if {call}\n");
        let files = [("team/main.rego", team), ("agent/main.rego", agent.as_str())];
        let findings = lint(&super::load(&files).unwrap(), &NO_TOOLS);
        assert!(findings.iter().any(|f| f.code == "lint.regex_unanchored"), "{call}: {findings:?}");
    }
}

#[test]
fn an_every_over_nothing_is_found_where_it_lets_calls_pass() {
    let each = "every one in input.args.files { startswith(one, \"docs/\") }";
    only(
        "lint.every_empty agent/main.rego:",
        &[
            &format!("allow if {{ input.tool.name == \"a\"\n{each} }}"),
            &format!("allow if {{ input.tool.name == \"a\"\nfine }}\nfine if {each}"),
            "allow if { input.tool.name == \"a\"\nfiles := input.args.files\nevery one in files { one == \"x\" } }",
            &format!(
                "allow if input.tool.name == \"a\"\ndeny contains \"no\" if not fine\nfine if {each}"
            ),
        ],
    );
    clean(&[
        &format!("allow if {{ input.tool.name == \"a\"\ncount(input.args.files) > 0\n{each} }}"),
        &format!("allow if {{ input.tool.name == \"a\"\ninput.args.files != []\n{each} }}"),
        &format!("allow if {{ input.tool.name == \"a\"\nsome _ in input.args.files\n{each} }}"),
        "allow if { input.tool.name == \"a\"\nfiles := input.args.files\ncount(files) > 0\nevery one in files { one == \"x\" } }",
        "allow if { input.tool.name == \"a\"\nevery kind in [\"x\", \"y\"] { input.args.kind != kind } }",
        &format!("allow if input.tool.name == \"a\"\ndeny contains \"no\" if {each}"),
    ]);
}
