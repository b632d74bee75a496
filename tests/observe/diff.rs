//! What differs between two bundles, as people and programs are told.

use std::path::Path;

use serde_json::{Value, json};
use wicketgate_support::ran::Ran;

fn bundle(dir: &Path, name: &str, files: &[(&str, &str)]) {
    for (file, text) in files {
        let path = dir.join(name).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[track_caller]
fn diff(dir: &Path, args: &[&str], code: i32) -> String {
    Ran::gate(dir, [&["policy", "diff"], args].concat()).ends(code).text()
}

const META: (&str, &str) = ("bundle.json", r#"{"name":"main","version":"1.0.0"}"#);
const AGENT: &str = "package wicketgate.agent\nimport rego.v1\n\
    allow if input.tool.name == \"a\"\n\
    deny contains {\"code\": \"big\", \"message\": \"m\"} if input.args.n > data.limits.n\n";

#[test]
fn rules_data_and_description_differ_and_formatting_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let limits = ("data/limits.json", r#"{"n":1,"hosts":["a","b"]}"#);
    bundle(dir, "old", &[META, ("agent/main.rego", AGENT), limits]);
    diff(dir, &["old", "old"], 0);

    let pretty = AGENT
        .replace(" if ", " if {\n\t# why\n\t")
        .replace('\n', "\n\n")
        .replace("\"a\"", "\"a\"\n}");
    let pretty = pretty.replace("data.limits.n\n", "data.limits.n\n}\n");
    bundle(dir, "pretty", &[META, ("agent/other.rego", &pretty), limits]);
    assert!(
        diff(dir, &["old", "pretty"], 0)
            .contains("the bytes differ, but the rules and data are the same")
    );

    let more = format!("{AGENT}allow if startswith(input.tool.name, \"b.\")\n")
        .replace("> data", ">= data");
    bundle(
        dir,
        "new",
        &[
            ("bundle.json", r#"{"name":"main","version":"1.1.0"}"#),
            ("agent/main.rego", &more),
            (
                "org/main.rego",
                "package wicketgate.org\nimport rego.v1\ndeny contains \"x\" if input.args.x\n",
            ),
            ("agent/main_test.rego", "package wicketgate.agent\nimport rego.v1\n"),
            ("data/limits.json", r#"{"n":2,"hosts":["a"]}"#),
        ],
    );
    let found: Value = serde_json::from_str(&diff(dir, &["old", "new", "--json"], 1)).unwrap();
    let rules: Vec<_> = found["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            let word = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
            [word("edit"), word("kind"), word("old"), word("new")].join(" ")
        })
        .collect();
    let expected = [
        "added allow  agent/main.rego:5",
        "changed deny agent/main.rego:4 agent/main.rego:4",
        "added deny  org/main.rego:3",
    ];
    assert_eq!(rules, expected, "{found}");
    let data = json!([
        {"at": "/limits/hosts/1", "old": "b"},
        {"at": "/limits/n", "old": 1, "new": 2},
    ]);
    assert_eq!(found["data"], data);
    assert_eq!(found["description"], json!([{"at": "/version", "old": "1.0.0", "new": "1.1.0"}]));
    assert_eq!(found["builtins"], json!([{"name": "startswith", "edit": "added"}]));
    assert_eq!(found["packages"], json!([{"name": "wicketgate.org", "edit": "added"}]));
    assert_eq!(found["tests"], json!([{"name": "agent/main_test.rego", "edit": "added"}]));
    let text = diff(dir, &["old", "new"], 1);
    for part in [
        "added    allow (a grant) wicketgate.agent.allow agent/main.rego:5",
        "changed  deny wicketgate.agent.deny agent/main.rego:4 -> agent/main.rego:4",
        "data /limits/n: 1 -> 2",
        "added    builtin startswith",
    ] {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}

/// The rule reads the same; what it calls is another layer's.
#[test]
fn a_function_that_is_imported_from_elsewhere_is_another_rule() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let layer = |name: &str, host: &str| {
        format!("package wicketgate.{name}\nimport rego.v1\ntrusted(h) if h == \"{host}\"\n")
    };
    let (org, team) = (layer("org", "a"), layer("team", "b"));
    for (import, call) in [("", "h.trusted"), (".trusted", "h")] {
        for name in ["org", "team"] {
            let agent = format!(
                "package wicketgate.agent\nimport rego.v1\nimport data.wicketgate.{name}{import} as h\n\
                 allow if {call}(input.effect.host)\n"
            );
            let files =
                [META, ("org/o.rego", &org), ("team/t.rego", &team), ("agent/a.rego", &agent)];
            bundle(dir, name, &files);
        }
        let text = diff(dir, &["org", "team"], 1);
        assert!(text.contains("changed  allow (a grant)"), "{text}");
    }
}

#[test]
fn a_bundle_that_does_not_load_differs_from_nothing_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bundle(dir, "fine", &[META, ("agent/main.rego", AGENT), ("data/limits.json", "{}")]);
    bundle(dir, "broken", &[META, ("agent/main.rego", "package wicketgate.agent\nallow if {")]);
    assert!(diff(dir, &["fine", "broken"], 2).contains("`broken` does not load:"));
    assert!(diff(dir, &["nowhere", "fine"], 2).contains("`nowhere`"));
}
