//! Bindings of servers and their lock: which tools exist, under which names, and which are refused.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::lock::{Lock, Shown};
use crate::mcp::Version;
use crate::{Surroundings, server};

const SERVERS: &str = "
- name: git
  tier: T1
  timeout_ms: 5000
  stdio: {command: git-server}
  tools: {log: {tier: T0, read_only: true, timeout_ms: 100}, resources/read: {tier: T0}}
- {name: web, http: {url: 'https://mcp.test/mcp'}}
";
const LOG: &str = r#"{"name":"log","description":"Shows the log.","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"new":1}"#;

fn with_surroundings<T>(work: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    let env = |_: &str| None;
    work(&Surroundings { base_dir: Path::new("/"), env: &env, forbidden: &[], own: &[] })
}

fn servers(yaml: &str) -> Vec<Arc<Server>> {
    let config: server::config::Config = serde_saphyr::from_str(yaml).unwrap();
    with_surroundings(|surroundings| config.check(surroundings)).unwrap()
}

fn own_tools(names: &[&str]) -> Vec<Binding> {
    let tool = |name: &&str| {
        format!(
            "- {{name: {name}, description: d, kind: http, input_schema: {{}}, http: {{method: GET, url: 'https://a.test/'}}}}\n"
        )
    };
    let yaml: String = names.iter().map(tool).collect();
    let config: crate::Config = serde_saphyr::from_str(&yaml).unwrap();
    with_surroundings(|surroundings| config.check(surroundings)).unwrap()
}

fn locked(server: &Server, tools: &[&str]) -> LockedServer {
    let json = |text: &&str| Json::parse(text.as_bytes(), &Limits::FILE).unwrap();
    let shown = Shown {
        protocol: Version::V2025_11_25,
        server_info: json(&"{}"),
        methods: vec!["resources/read"],
        tools: tools.iter().map(json).collect(),
        files: BTreeMap::new(),
        accept_hidden: false,
    };
    let (locked, left_out) = LockedServer::of(server, &shown);
    assert_eq!(left_out, []);
    locked
}

fn verified(servers: Vec<LockedServer>) -> Option<Verified> {
    let digest = Digest::of(&[b"lock"]);
    Some(Verified { lock: Lock::of(servers), signers: vec!["k1".to_owned()].into(), digest })
}

/// The warning about a server without an explicit isolation.
const FREE: &str = "server `git` runs without a sandbox and can do what the gate's user can: give it a `sandbox`, or say `level: none`";

fn refused(bound: Result<Bound, Vec<ConfigError>>) -> String {
    let problems = bound.err().unwrap();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_locked_tool_has_a_qualified_name_and_the_operators_settings() {
    let servers = servers(SERVERS);
    let lock = verified(vec![locked(&servers[0], &[LOG, r#"{"name":"rm","inputSchema":{}}"#])]);
    let bound = Bound::of(own_tools(&["a"]), servers, lock).unwrap();
    let names: Vec<_> = bound.bindings.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["a", "git.log", "git.rm", "git.resources.read"]);
    assert_eq!(bound.lock_signers(), ["k1"]);
    let log = &bound.bindings[1];
    assert_eq!((log.tier, log.read_only, log.idempotent), (Tier::T0, true, false));
    assert_eq!(log.timeout, Duration::from_millis(100));
    let shown = String::from_utf8(log.shown.as_ref().unwrap().to_vec()).unwrap();
    assert_eq!(
        shown,
        r#"{"description":"Shows the log.","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"n":{"type":"integer","x-mcp-header":"N"}},"type":"object"},"name":"git.log","new":1}"#
    );
    let Kind::Mcp(mcp) = &log.kind else { panic!("not mcp") };
    assert_eq!(mcp.target, Target::Tool("log".into()));
    assert_eq!((mcp.mirrored.len(), &*mcp.signers), (1, &["k1".to_owned()][..]));
    assert_eq!(mcp.pinned.as_ref(), shown.replace("git.log", "log").as_bytes());
    assert_eq!((bound.bindings[2].tier, bound.bindings[2].description.as_str()), (Tier::T1, ""));
    let read = &bound.bindings[3];
    assert_eq!((read.tier, read.read_only, read.timeout), (Tier::T0, true, Duration::from_secs(5)));
    assert!(read.shown.is_none());
    let expected =
        [FREE, "server `web` is not in the lock: none of its tools exist (wicketgate tools lock)"];
    assert_eq!(bound.warnings, expected);
}

#[test]
fn without_a_lock_a_server_has_no_tools_and_unused_lock_entries_are_reported() {
    let all = servers(SERVERS);
    let bound = Bound::of(Vec::new(), all.clone(), None).unwrap();
    assert!(bound.bindings.is_empty() && bound.warnings.len() == 3);
    assert!(bound.lock_signers().is_empty());
    let lock = verified(vec![locked(&all[0], &[]), locked(&all[1], &[])]);
    let bound = Bound::of(Vec::new(), vec![Arc::clone(&all[0])], lock).unwrap();
    let expected = [
        FREE,
        "server `git`: `log` is not in the lock",
        "the lock pins server `web`, which is not configured",
    ];
    assert_eq!(bound.warnings, expected);
}

#[test]
fn a_literal_variable_named_like_a_secret_gets_a_warning_without_its_value() {
    let yaml = "- {name: a, stdio: {command: x, env: {GITHUB_TOKEN: ghp_1234, MODE: fast}}}";
    let warnings = Bound::of(Vec::new(), servers(yaml), None).unwrap().warnings;
    let expected = "server `a`: `GITHUB_TOKEN` looks like a secret: give it under `credentials`";
    assert_eq!((warnings[0].as_str(), warnings.len()), (expected, 3));
}

#[test]
fn a_server_that_is_reached_in_another_way_needs_a_new_lock() {
    let lock = verified(vec![locked(&servers(SERVERS)[0], &[LOG])]);
    let moved = servers(&SERVERS.replace("git-server", "git-server2"));
    let message = refused(Bound::of(Vec::new(), moved, lock));
    assert_eq!(message, "lock.git: server `git` is not the one the lock pins: sign a new lock");
}

#[test]
fn names_that_are_equal_or_look_equal_to_a_client_are_refused_with_both() {
    let yaml = "- {name: a_b, stdio: {command: x}}\n- {name: a, stdio: {command: x}}";
    let all = servers(yaml);
    let tool = r#"{"name":"c","inputSchema":{}}"#;
    let other = r#"{"name":"b_c","inputSchema":{}}"#;
    let lock = verified(vec![locked(&all[0], &[tool]), locked(&all[1], &[other])]);
    let message = refused(Bound::of(own_tools(&["a.c", "a.resources.read"]), all, lock));
    assert!(message.contains("`a.resources.read` is bound twice"), "{message}");
    assert!(message.contains("`a.b_c` and `a_b.c` are one name"), "{message}");
    let message = refused(Bound::of(own_tools(&["x.y", "x_y"]), Vec::new(), None));
    assert_eq!(message, "tools[1].name: `x.y` and `x_y` are one name to clients that rename tools");
}

#[test]
fn a_lock_with_a_tool_that_cannot_be_governed_is_no_lock() {
    let all = servers(SERVERS);
    let mut git = locked(&all[0], &[LOG]);
    let tool =
        r#"{"name":"bad","inputSchema":{"properties":{"a":{"$ref":"https://evil.test/s"}}}}"#;
    git.tools.insert("bad".into(), Json::parse(tool.as_bytes(), &Limits::FILE).unwrap());
    let message = refused(Bound::of(Vec::new(), all, verified(vec![git])));
    assert!(message.starts_with("lock.git.bad: `inputSchema`: "), "{message}");
}

#[test]
fn the_definition_moves_with_what_is_shown_how_it_is_reached_and_what_the_operator_says() {
    let definition = |yaml: &str, tool: &str| {
        let all = servers(yaml);
        let lock = verified(vec![locked(&all[0], &[tool])]);
        let bound = Bound::of(Vec::new(), all, lock).unwrap();
        [bound.bindings[0].definition, bound.bindings[1].definition]
    };
    let before = definition(SERVERS, LOG);
    for (from, to) in [("T0, read", "T2, read"), ("100", "101"), ("git-server", "other")] {
        assert_ne!(before[0], definition(&SERVERS.replacen(from, to, 1), LOG)[0], "{from}");
    }
    assert_ne!(before[0], definition(SERVERS, &LOG.replace("\"new\":1", "\"new\":2"))[0]);
    assert_eq!(before[1], definition(SERVERS, &LOG.replace("\"new\":1", "\"new\":2"))[1]);
    assert_ne!(before[1], definition(&SERVERS.replace("git-server", "other"), LOG)[1]);
}

#[test]
fn every_method_has_a_schema_that_takes_its_parameters() {
    let takes = |method: &str, args: &str| {
        let schema = Schema::parse(method_schema(method).1.as_bytes()).unwrap();
        let args = Json::parse(args.as_bytes(), &Limits::ARGUMENTS).unwrap();
        schema.check(&args).is_empty()
    };
    let valid = [
        ("resources/list", r#"{"cursor":"x"}"#),
        ("resources/templates/list", "{}"),
        ("resources/read", r#"{"uri":"file:///a"}"#),
        ("prompts/list", "{}"),
        ("prompts/get", r#"{"name":"p","arguments":{"a":"b"}}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"arguments":{"x":"y"}}}"#,
        ),
    ];
    assert_eq!(valid.map(|(method, _)| method), server::METHODS);
    for (method, args) in valid {
        assert!(takes(method, args), "{method}");
        assert!(!takes(method, r#"{"extra":1}"#), "{method}");
    }
    assert!(
        !takes("resources/read", "{}")
            && !takes("prompts/get", r#"{"name":"p","arguments":{"a":1}}"#)
    );
}
