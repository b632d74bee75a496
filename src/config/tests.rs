//! The configuration through its own eyes: defaults, overrides, and everything wrong at once.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;

use super::{Config, Ledger, Lint, names, schema, stray};
use crate::clock::SystemEntropy;
use crate::crypto::keys::SecretKey;

struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Self {
        let fixture = Self(tempfile::tempdir().unwrap());
        for name in ["m.pub", "p.pub"] {
            let key = SecretKey::generate(&SystemEntropy).public();
            std::fs::write(fixture.path(name), key.to_pem()).unwrap();
        }
        std::fs::write(fixture.path("agent.yaml"), "x").unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn secret(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn load(&self, text: &str, env: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let file = self.path("wicketgate.yaml");
        std::fs::write(&file, text).unwrap();
        let env = |name: &str| {
            let found = env.iter().find(|(key, _)| *key == name);
            found
                .map(|(_, value)| (*value).to_owned())
                .or_else(|| (name == "HOME").then(|| "/home/x".into()))
        };
        let base = format!("{}/", self.0.path().display());
        Config::load(&file, &env)
            .map_err(|e| e.iter().map(|p| p.to_string().replace(&base, "")).collect())
    }
}

const SMALL: &str = "trust: {manifest_keys: [m.pub]}
agents: [{manifest: agent.yaml, callers: [{uid: 1000}]}]
";

#[test]
fn a_small_file_gets_the_safe_defaults() {
    let fixture = Fixture::new();
    let config = fixture.load(SMALL, &[]).unwrap();
    assert_eq!(config.state, PathBuf::from("/home/x/.local/state/wicketgate"));
    assert_eq!(config.listen.socket.unwrap(), config.state.join("agent.sock"));
    assert_eq!(config.listen.tcp, None);
    assert_eq!(config.operator.listen.to_string(), "127.0.0.1:7301");
    assert!(
        matches!(config.ledger, Ledger::Sqlite(s) if s.path == config.state.join("ledger.sqlite"))
    );
    assert_eq!((config.limits.in_flight_max, config.limits.hold_seconds), (512, 900));
    assert_eq!((config.limits.commit_wait_ms, config.limits.queue_wait_ms), (4000, 1000));
    assert_eq!(config.agents[0].manifest, fixture.path("agent.yaml"));
    assert_eq!(config.trust.manifest_keys, [fixture.path("m.pub")]);
    assert!(config.telemetry.otlp.is_none() && config.policy.bundle.is_none());
    let config = fixture.load(SMALL, &[("XDG_STATE_HOME", "/s")]).unwrap();
    assert_eq!(config.state, PathBuf::from("/s/wicketgate"));
}

#[test]
fn everything_wrong_is_reported_at_once_with_its_place() {
    let fixture = Fixture::new();
    let text = "listen: {tcp: 0.0.0.0:7300}
operator: {listen: nonsense}
trust: {manifest_keys: [none.pub], policy_keys: [m.pub], policy_threshold: 3}
agents:
- manifest: agent.yaml
  callers: [{uid: 1}, {uid: 1}, {spiffe: x}, {token_file: t}]
limits: {in_flight_max: many, extra: 1}
ledger: {postgres: {url: postgres://u:secret@h/db}}
telemetry: {log: loud}
tools: [{name: a}, {name: a}]
";
    let errors = fixture.load(text, &[]).unwrap_err();
    let expected = [
        "wicketgate.yaml:1:10: listen.tcp: `0.0.0.0:7300` is not a loopback address",
        "wicketgate.yaml:2:12: operator.listen: `nonsense` is not an address",
        "wicketgate.yaml:3:25: trust.manifest_keys[0]: key file `none.pub`",
        "wicketgate.yaml:3:58: trust.policy_threshold: 3 signatures can never be reached with 1",
        "wicketgate.yaml:6:23: agents[0].callers[1]: the same caller as `agents.0.callers.0`",
        "wicketgate.yaml:6:33: agents[0].callers[2]: `x` is not a SPIFFE id",
        "wicketgate.yaml:6:46: agents[0].callers[3]: token file `t`",
        "wicketgate.yaml:7:10: limits.in_flight_max: expected a whole number from 1 to 65536",
        "wicketgate.yaml:7:31: limits.extra: unknown field",
        "wicketgate.yaml:8:21: ledger.postgres.url: holds a password",
        "wicketgate.yaml:9:13: telemetry.log: expected `error`",
        "wicketgate.yaml:10:9: tools[0]: missing field `description`",
        "wicketgate.yaml:10:9: tools[0]: missing field `kind`",
        "wicketgate.yaml:10:20: tools[1]: missing field `description`",
        "wicketgate.yaml:10:20: tools[1]: missing field `kind`",
        "wicketgate.yaml:10:21: tools[1].name: tool `a` is bound twice",
    ];
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.starts_with(expected), "{error}\nexpected {expected}");
    }
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    assert!(!errors.join("\n").contains("secret"));
}

#[test]
fn the_environment_overrides_single_values_and_is_named_when_wrong() {
    let fixture = Fixture::new();
    let env = [("WICKETGATE__LIMITS__IN_FLIGHT_MAX", "7"), ("WICKETGATE__STATE", "state")];
    let config = fixture.load(SMALL, &env).unwrap();
    assert_eq!(config.limits.in_flight_max, 7);
    assert_eq!(config.state, fixture.path("state"));
    let errors = fixture.load(SMALL, &[("WICKETGATE__LIMITS__IN_FLIGHT_MAX", "x")]).unwrap_err();
    assert_eq!(
        errors,
        ["environment: WICKETGATE__LIMITS__IN_FLIGHT_MAX: expected a whole number from 1 to 65536"]
    );
    let present = ["WICKETGATE__LIMITS__INFLIGHT", "WICKETGATE__STATE", "PATH"];
    assert_eq!(stray(present.iter().map(ToString::to_string)), ["WICKETGATE__LIMITS__INFLIGHT"]);
    assert!(names().contains(&"WICKETGATE__LEDGER__POSTGRES__URL_FILE".to_owned()));
}

#[test]
fn a_connection_url_is_read_by_reference_and_never_printed() {
    let fixture = Fixture::new();
    fixture.secret("url", "postgres://u:hunter2@h/db?sslmode=verify-full\n");
    let text = format!("{SMALL}ledger: {{postgres: {{url_file: url}}}}\n");
    let config = fixture.load(&text, &[]).unwrap();
    let Ledger::Postgres(postgres) = &config.ledger else { panic!("not postgres") };
    assert_eq!(postgres.connect.expose(), "postgres://u:hunter2@h/db?sslmode=verify-full");
    assert_eq!((postgres.tenant.as_str(), postgres.slots.as_str()), ("default", "local"));
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!config.to_yaml().unwrap().contains("hunter2"));
    let text = format!("{SMALL}ledger: {{postgres: {{url_env: DB}}}}\n");
    assert!(
        fixture.load(&text, &[("DB", "postgres://u:hunter2@h/db?sslmode=verify-full")]).is_ok()
    );
    assert!(fixture.load(&text, &[]).unwrap_err()[0].contains("`DB` is not set"));
    let errors = fixture.load(&text, &[("DB", "mysql://u:hunter2@h")]).unwrap_err();
    assert!(!errors[0].contains("hunter2"), "{errors:?}");
    for value in
        ["{}", "{url: 'postgres://h/d', url_env: DB}", "{url: 'postgres://h/d?password=x'}"]
    {
        let text = format!("{SMALL}ledger: {{postgres: {value}}}\n");
        assert!(fixture.load(&text, &[("DB", "postgres://h")]).is_err(), "{value}");
    }
    for slots in ["fleet", "hub"] {
        let text = format!(
            "{SMALL}ledger: {{postgres: {{url: 'postgres://h/d?sslmode=verify-full', slots: {slots}}}}}\n"
        );
        let errors = fixture.load(&text, &[]).unwrap_err();
        assert!(errors[0].contains("ledger.postgres.slots: this pool is reserved"), "{errors:?}");
    }
    fixture.secret("far", "postgres://u:hunter2@h/db");
    let far = format!("{SMALL}ledger: {{postgres: {{url_file: far}}}}\n");
    let errors = fixture.load(&far, &[]).unwrap_err();
    assert!(errors[0].contains("url_file: `sslmode` is `prefer`"), "{errors:?}");
    assert!(!errors[0].contains("hunter2"), "{errors:?}");
    let accepted = far.replace("url_file: far", "url_file: far, accept_unverified_server: true");
    assert!(fixture.load(&accepted, &[]).is_ok());
    std::fs::set_permissions(fixture.path("url"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let text = format!("{SMALL}ledger: {{postgres: {{url_file: url}}}}\n");
    assert!(fixture.load(&text, &[]).unwrap_err()[0].contains("mode 644"));
}

#[test]
fn servers_are_wrong_with_their_places_and_have_a_lock_of_their_own() {
    let fixture = Fixture::new();
    let trust = SMALL.replace("[m.pub]", "[m.pub], lock_keys: [m.pub]");
    let servers =
        "servers: [{name: git, stdio: {command: git-server}, tools: {log: {tier: T0}}}]\n";
    let config = fixture.load(&format!("{trust}{servers}"), &[]).unwrap();
    assert_eq!(config.lock, Some(fixture.path("tools.lock")));
    assert_eq!(config.trust.lock_keys, [fixture.path("m.pub")]);
    let bound = config.bindings(&|_| None).unwrap();
    assert!(bound.bindings.is_empty(), "{bound:?}");
    assert!(bound.warnings.iter().any(|warning| warning.contains("not in the lock")));
    assert!(bound.warnings.iter().any(|warning| warning.contains("runs without a sandbox")));
    assert_eq!(fixture.load(SMALL, &[]).unwrap().lock, None);
    let errors = fixture.load(&format!("{SMALL}{servers}"), &[]).unwrap_err();
    assert!(errors[0].contains("`servers` is set and `lock_keys` is empty"), "{errors:?}");
    let text = "lock: locks/a
servers:
- {name: a.b, stdio: {command: x, comand: y}}
- {name: git, stdio: {command: x}, http: {url: u}, tier: T9}
- {name: git, http: {url: u, headers: {a: 1}}}
- {stdio: {}, tools: {a: {teir: T0}}}
";
    let errors = fixture.load(&format!("{trust}{text}"), &[]).unwrap_err();
    for expected in [
        "wicketgate.yaml:5:4: servers[0].name: expected the name of a server",
        "wicketgate.yaml:5:35: servers[0].stdio.comand: unknown field",
        "wicketgate.yaml:6:3: servers[1]: expected exactly one of `stdio` and `http`",
        "servers[1].tier: expected `T0`",
        "servers[2].name: server `git` is configured twice",
        "servers[2].http.headers.a: expected text",
        "servers[3]: missing field `name`",
        "servers[3].stdio: missing field `command`",
        "servers[3].tools.a.teir: unknown field",
    ] {
        assert!(errors.iter().any(|line| line.contains(expected)), "{expected} in {errors:#?}");
    }
}

#[test]
fn no_file_tool_reads_the_credential_of_a_server() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("open")).unwrap();
    fixture.secret("open/key", "secret-1234");
    let text = format!(
        "{}servers: [{{name: a, stdio: {{command: x, credentials: [{{env: K, file: open/key}}]}}}}]
tools: [{{name: f, description: d, kind: file.read, file: {{root: open, name: o}}}}]
",
        SMALL.replace("[m.pub]", "[m.pub], lock_keys: [m.pub]")
    );
    let errors = fixture.load(&text, &[]).unwrap().bindings(&|_| None).unwrap_err();
    assert!(errors[0].contains("which no tool may read"), "{errors:?}");
}

#[test]
fn no_command_and_no_database_is_given_what_makes_the_gate_what_it_is() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path("open/in")).unwrap();
    std::fs::write(fixture.path("open/in/data.db"), "").unwrap();
    fixture.secret("open/in/ops", &"t".repeat(43));
    let command = |read: &str| {
        format!(
            "{{name: c, description: d, kind: command, command: {{program: /bin/cat, argv: [x], read: [{read}]}}}}"
        )
    };
    let sql = "{name: q, description: d, kind: sql, sql: {engine: sqlite, path: open/in/ops, tables: [t]}}";
    for (tool, is_refused) in [
        (command("open"), true),
        (command("open/in"), true),
        (command("open/in/ops"), true),
        (command("open/in/data.db"), false),
        (command("."), true),
        (sql.to_owned(), true),
    ] {
        let operators = "operators: [{subject: otto, roles: [operator], token_file: open/in/ops}]";
        let text = format!("{SMALL}{operators}\ntools: [{tool}]\n");
        let errors = fixture.load(&text, &[]).unwrap().bindings(&|_| None);
        let errors = errors.err().unwrap_or_default().join("\n");
        assert_eq!(errors.contains("which no tool may read"), is_refused, "{tool}: {errors}");
    }
}

#[test]
fn what_is_printed_can_be_loaded_again() {
    let fixture = Fixture::new();
    fixture.secret("url", "postgres://u:p@localhost/db");
    for more in [
        "",
        "ledger: {postgres: {url_file: url}}\n",
        "attested: {env: 'no', n: '010'}\n",
        "listen: {socket: null, tcp: '127.0.0.1:1'}\n",
        "servers: [{name: a, http: {url: 'https://a.test/'}}]\n",
    ] {
        let small = if more.contains("null") {
            SMALL.replace("{uid: 1000}", "{socket: /s, uid: 1}")
        } else {
            SMALL.replace("[m.pub]", "[m.pub], lock_keys: [p.pub]")
        };
        let once = fixture.load(&format!("{small}{more}"), &[]).unwrap().to_yaml().unwrap();
        let twice =
            fixture.load(&once, &[]).unwrap_or_else(|e| panic!("{e:?}\n{once}")).to_yaml().unwrap();
        assert_eq!(once, twice);
    }
}

#[test]
fn every_socket_a_caller_names_is_listened_on() {
    let fixture = Fixture::new();
    let text = SMALL.replace("{uid: 1000}", "{uid: 1}, {socket: b.sock, uid: 1}");
    let config = fixture.load(&text, &[("WICKETGATE__STATE", "/s")]).unwrap();
    assert!(config.sockets().into_iter().eq(["/s/agent.sock".into(), fixture.path("b.sock")]));
}

#[test]
fn one_key_signs_manifests_or_policies_but_not_both() {
    let fixture = Fixture::new();
    let text = SMALL.replace("[m.pub]", "[m.pub], policy_keys: [p.pub]");
    assert!(fixture.load(&text, &[]).is_ok());
    let errors = fixture.load(&text.replace("p.pub", "m.pub"), &[]).unwrap_err();
    assert!(errors[0].contains("is already a manifest key"), "{errors:?}");
    let text = format!("{SMALL}policy: {{bundle: b}}\n");
    assert!(fixture.load(&text, &[]).unwrap_err()[0].contains("`policy_keys` is empty"));
}

#[test]
fn the_schema_is_a_schema_and_its_defaults_keep_to_it() {
    let schema = schema();
    assert!(jsonschema::meta::is_valid(&schema));
    let mut value = serde_json::json!({"trust": {"manifest_keys": ["a"]}, "agents": [
        {"manifest": "a", "callers": [{"uid": 1}]}]});
    super::complete::defaults(&mut value, &schema);
    assert!(jsonschema::is_valid(&schema, &value));
}

/// The paths of the fields below; those without a description apart.
fn fields(schema: &Value, path: &str, all: &mut Vec<String>, bare: &mut Vec<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let text = field["description"].as_str().unwrap_or_default();
        if text.len() < 10 || !text.ends_with('.') {
            bare.push(path.clone());
        }
        for shown in field["examples"].as_array().into_iter().flatten().chain(field.get("default"))
        {
            assert!(jsonschema::is_valid(field, shown), "{path}: {shown}");
        }
        all.push(path.clone());
        fields(field, &path, all, bare);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(inner) {
            fields(below, &format!("{path}[]"), all, bare);
        }
    }
}

#[test]
fn every_field_of_the_configuration_is_described_tools_included() {
    let (schema, mut all, mut bare) = (schema(), Vec::new(), Vec::new());
    fields(&schema, "", &mut all, &mut bare);
    assert_eq!(bare, Vec::<String>::new());
    assert!(all.len() > 320, "{}", all.len());
    for there in [".tools[].command.limits.pids", ".servers[].stdio.sandbox.level", ".limits.burst"]
    {
        assert!(all.contains(&there.to_owned()), "{there}");
    }
}

#[test]
fn the_gate_tests_itself_at_start_and_every_hour_and_no_more_often_than_every_ten_seconds() {
    let fixture = Fixture::new();
    let config = fixture.load(SMALL, &[]).unwrap();
    assert_eq!((config.self_test.every_seconds, config.self_test.at_start), (3600, true));
    assert_eq!(config.policy.lint, Lint::Enforce);
    assert!(fixture.load(&format!("{SMALL}self_test: {{every_seconds: 10}}\n"), &[]).is_ok());
    for (text, expected) in [
        (
            "self_test: {every_seconds: 9}",
            "self_test.every_seconds: expected a whole number from 10",
        ),
        ("self_test: {at_start: maybe}", "self_test.at_start: expected `true` or `false`"),
        ("policy: {lint: off}", "policy.lint: expected `enforce` or `warn`"),
    ] {
        let problems = fixture.load(&format!("{SMALL}{text}\n"), &[]).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{text}: {problems:?}");
    }
}
