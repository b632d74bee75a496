//! The configuration, through the built program.

use crate::folder::Folder;

const SMALL: &str = "trust: {manifest_keys: [k.pub]}
agents:
- manifest: agent.yaml
  callers: [{uid: 1000}]
";

fn folder(text: &str) -> Folder {
    let folder = Folder::with_manifest();
    folder.write("wicketgate.yaml", text);
    folder
}

#[test]
fn a_small_configuration_is_fine_and_printed_in_full() {
    let folder = folder(SMALL);
    folder.run(&["config", "check"]).ends(0);
    let printed = folder.run(&["config", "print", "wicketgate.yaml"]).ends(0);
    assert!(printed.out.contains("in_flight_max: 512"), "{}", printed.out);
    assert!(printed.out.contains(".local/state/wicketgate/agent.sock"), "{}", printed.out);
    folder.write("printed.yaml", &printed.out);
    assert_eq!(folder.run(&["config", "print", "printed.yaml"]).ends(0).out, printed.out);
}

#[test]
fn config_check_warns_of_a_sqlite_ledger_only_in_a_pod() {
    let pod = ("KUBERNETES_SERVICE_HOST", "10.96.0.1");
    let postgres = format!("{SMALL}ledger: {{postgres: {{url: 'postgres://u@localhost/d'}}}}\n");
    let sqlite = format!("{SMALL}ledger: {{sqlite: {{}}}}\n");
    for (text, env, told) in [
        (SMALL, &[pod][..], true),
        (&sqlite, &[pod], true),
        (SMALL, &[], false),
        (&sqlite, &[], false),
        (&postgres, &[pod], false),
    ] {
        let said = folder(text).run_with(&["config", "check"], env).ends(0);
        assert_eq!(
            said.err.contains("every entry is gone with the pod"),
            told,
            "{text}: {}",
            said.err
        );
    }
}

#[test]
fn five_errors_are_five_lines_and_the_exit_code_is_78() {
    let text = format!(
        "{SMALL}listen: {{tcp: 0.0.0.0:1}}\nlimits: {{extra: 1, hold_seconds: 0}}\n\
         telemetry: {{log: loud}}\nledger: {{postgres: {{url: 'postgres://u:hunter2@h/d'}}}}\n"
    );
    let said = folder(&text).run(&["config", "check", "wicketgate.yaml"]).ends(78);
    let expected = [
        "wicketgate.yaml:5:10: listen.tcp: ",
        "wicketgate.yaml:6:10: limits.extra: unknown field",
        "wicketgate.yaml:6:20: limits.hold_seconds: expected a whole number from 1 to 86400",
        "wicketgate.yaml:7:13: telemetry.log: ",
        "wicketgate.yaml:8:21: ledger.postgres.url: holds a password",
    ];
    for (line, expected) in said.err.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line}\nexpected {expected}");
    }
    assert_eq!(said.err.lines().count(), 5, "{}", said.err);
    assert!(!said.err.contains("hunter2"));
}

#[test]
fn the_manifests_are_loaded_too() {
    let folder = folder(SMALL);
    folder.edit("agent.yaml", "calls: 500", "calls: 501");
    folder.run(&["config", "check"]).ends(78).complains("(manifest.signature)");
    folder.write("wicketgate.yaml", "trust: {manifest_keys: [k.pub]}\nagents: &a []\n");
    folder
        .run(&["config", "check"])
        .ends(78)
        .complains("wicketgate.yaml:2:12: agents: anchors are not");
    folder.run(&["config", "check", "none.yaml"]).ends(78).complains("none.yaml: cannot be read");
}

#[test]
fn the_environment_overrides_and_a_misspelled_variable_is_an_error() {
    let folder = folder(SMALL);
    let print = ["config", "print", "wicketgate.yaml"];
    let printed = folder.run_with(&print, &[("WICKETGATE__LIMITS__HOLD_SECONDS", "3")]).ends(0);
    assert!(printed.out.contains("hold_seconds: 3"), "{}", printed.out);
    folder
        .run_with(&print, &[("WICKETGATE__LIMITS__HOLD_SECOND", "3")])
        .ends(78)
        .complains("environment: WICKETGATE__LIMITS__HOLD_SECOND: unknown field");
}

#[test]
fn the_printed_schema_accepts_what_is_accepted_and_refuses_the_rest() {
    let folder = folder(SMALL);
    let schema = folder.run(&["config", "schema"]).ends(0).out;
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let value = |text: &str| -> serde_json::Value {
        wicketgate::yaml::from_str(text, "wicketgate.yaml").unwrap()
    };
    assert!(validator.is_valid(&value(SMALL)));
    let printed = folder.run(&["config", "print"]).ends(0).out;
    assert!(validator.is_valid(&value(&printed)), "{printed}");
    assert!(!validator.is_valid(&value(&format!("{SMALL}extra: 1\n"))));
}

#[test]
fn a_console_beyond_loopback_needs_tls_and_an_origin() {
    let check = |more: &str| folder(&format!("{SMALL}{more}")).run(&["config", "check"]);
    check("console: {enabled: true}\n").ends(0);
    check("console: {enabled: false}\noperator: {listen: '127.0.0.1:1'}\n").ends(0);
    let said = check("console: {enabled: true}\noperator: {listen: '0.0.0.0:1'}\n").ends(78);
    for part in [
        "wicketgate.yaml:5:",
        "console: beyond loopback the console needs `origins`",
        "needs `operator.tls`",
    ] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    let said = check("console: {origins: ['https://hub.example.com/']}\n").ends(78);
    assert!(said.err.contains("console.origins[0]: expected an origin"), "{}", said.err);
    let said = check("console: {origin: ['https://hub.example.com']}\n").ends(78);
    assert!(said.err.contains("console.origin: unknown field"), "{}", said.err);
}
