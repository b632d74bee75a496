//! Locks: pinned tools, left-out tools, parsing, and signers.

use super::*;
use crate::clock::SystemEntropy;
use crate::crypto::dsse;
use crate::crypto::keys::SecretKey;
use crate::drift::Weight;
use crate::server::{Isolation, Stdio, Transport};

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
}

fn server(name: &str) -> Server {
    let stdio = Stdio {
        program: "x".into(),
        args: Vec::new(),
        env: Vec::new(),
        secrets: Vec::new(),
        cwd: ".".into(),
        isolation: Isolation::None { stated: true },
        path: None,
    };
    Server {
        name: name.into(),
        transport: Transport::Stdio(stdio),
        tier: None,
        timeout: std::time::Duration::from_secs(1),
        result_bytes_max: 1,
        tools: BTreeMap::new(),
        binding: Digest::of(&[name.as_bytes()]),
        files: std::sync::OnceLock::new(),
    }
}

fn shown(tools: &[&str]) -> Shown {
    Shown {
        protocol: Version::V2025_11_25,
        server_info: json(r#"{"name":"s","version":"1.0"}"#),
        methods: vec!["prompts/get", "resources/read"],
        tools: tools.iter().map(|tool| json(tool)).collect(),
        files: BTreeMap::new(),
        accept_hidden: false,
    }
}

fn lock(tools: &[&str]) -> Lock {
    let (locked, left_out) = LockedServer::of(&server("git"), &shown(tools));
    assert_eq!(left_out, []);
    Lock::of([locked])
}

const LOG: &str = r#"{"name":"log","description":"Shows it.","inputSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1.0}}},"unknown":{"kept":[1]}}"#;

#[test]
fn a_lock_is_written_readable_sorted_and_always_the_same() {
    let once = lock(&[LOG, r#"{"name":"add","inputSchema":{"type":"object"}}"#]);
    let text = once.text();
    assert!(text.starts_with("{\n  \"apiVersion\": \"wicketgate.dev/v1\",\n"), "{text}");
    assert!(text.find("\"add\"").unwrap() < text.find("\"log\"").unwrap());
    assert!(text.contains("\"kept\"") && text.ends_with("}\n"));
    let again = Lock::read(text.as_bytes(), "tools.lock").unwrap();
    assert_eq!((&again, again.text()), (&once, text));
    let git = &again.servers["git"];
    assert_eq!(git.methods, ["resources/read", "prompts/get"]);
    assert_eq!(git.binding, server("git").binding);
}

#[test]
fn a_tool_that_cannot_be_governed_is_left_out_and_named() {
    let tools = [
        (r#"{"name":"a/b","inputSchema":{}}"#, "tool `a/b`: has a name"),
        (r#"{"name":"tools/call","inputSchema":{}}"#, "has a name"),
        (r#"{"inputSchema":{}}"#, "tool ``: has no name"),
        (r#"{"name":"resources.read","inputSchema":{}}"#, "the governed name of a method"),
        (r#"{"name":"a","inputSchema":{"type":"array"}}"#, "`inputSchema`: arguments must be"),
        (r#"{"name":"a"}"#, "has no `inputSchema`"),
        (r#"{"name":"a","description":1,"inputSchema":{}}"#, "`description` is not a text"),
        (
            r#"{"name":"a","inputSchema":{"properties":{"x":{"$ref":"https://a.test/s"}}}}"#,
            "`inputSchema`: ",
        ),
        (
            r#"{"name":"a","inputSchema":{"properties":{"x":{"pattern":"(?=a)"}}}}"#,
            "`inputSchema`: ",
        ),
        (
            r#"{"name":"a","inputSchema":{"properties":{"x":{"type":"number","x-mcp-header":"X"}}}}"#,
            "x-mcp-header",
        ),
        (r#"{"name":"log","inputSchema":{}}"#, "tool `log`: occurs twice"),
        ("{\"name\":\"e\\u001b[2J\",\"inputSchema\":{}}", "tool `e\\u{1b}[2J`: "),
    ];
    for (tool, why) in tools {
        let (locked, left_out) = LockedServer::of(&server("git"), &shown(&[LOG, tool]));
        assert_eq!(locked.tools.len(), 1, "{tool}");
        let message = left_out[0].to_string();
        assert!(
            message.starts_with("server `git`: ") && message.contains(why),
            "{tool}: {message}"
        );
    }
    let long = format!(r#"{{"name":"{}","inputSchema":{{}}}}"#, "x".repeat(125));
    assert_eq!(LockedServer::of(&server("git"), &shown(&[&long])).1.len(), 1);
    let large = format!(r#"{{"name":"a","inputSchema":{{}},"x":"{}"}}"#, "x".repeat(300_000));
    assert_eq!(LockedServer::of(&server("git"), &shown(&[&large])).1.len(), 1);
}

#[test]
fn what_is_no_lock_is_refused_with_its_place() {
    let text = lock(&[LOG]).text();
    let cases = [
        ("ToolsLock", "Lock", "kind: expected"),
        ("wicketgate.dev/v1", "wicketgate.dev/v2", "apiVersion: expected"),
        ("\"kind\"", "\"extra\": 1, \"kind\"", "extra: unknown field"),
        ("\"protocol\"", "\"proto\"", "servers[0].proto: unknown field"),
        ("2025-11-25", "1999-01-01", "servers[0].protocol: "),
        ("\"sha256:", "\"sha257:", "servers[0].binding: "),
        ("\"git\"", "\"g.it\"", "servers[0].name: "),
        ("\"prompts/get\"", "\"tools/call\"", "servers[0].methods: "),
        ("\"prompts/get\"", "\"resources/read\"", "servers[0].methods: "),
        ("\"name\": \"log\"", "\"name\": \"l/g\"", "servers[0].tools[0]: "),
        ("\"kind\"", "\"kind\": 1, \"kind\"", "text: json.duplicate_key"),
    ];
    for (from, to, part) in cases {
        assert!(text.contains(from), "{from} in {text}");
        let error = Lock::read(text.replacen(from, to, 1).as_bytes(), "tools.lock").unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("tools.lock: ") && message.contains(part), "{to}: {message}");
    }
    let twice = json(&text);
    let one = twice.get("servers").unwrap().as_array().unwrap()[0].clone();
    let mut members = twice.as_object().unwrap().clone();
    members.insert("servers".into(), vec![one.clone(), one].into());
    let text = canonical::text(&Json::Object(members));
    let message = Lock::read(text.as_bytes(), "l").unwrap_err().to_string();
    assert_eq!(message, "l: servers[1].name: `git` occurs twice");
}

#[test]
fn only_a_trusted_key_over_the_same_bytes_makes_a_lock_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tools.lock");
    let (key, other) = (SecretKey::generate(&SystemEntropy), SecretKey::generate(&SystemEntropy));
    let trusted = [key.public()];
    assert_eq!(Verified::load(&path, &trusted).unwrap(), None);
    let text = lock(&[LOG]).text();
    std::fs::write(&path, &text).unwrap();
    let refused = |part: &str| {
        let message = Verified::load(&path, &trusted).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    refused("there is no envelope beside it");
    let write_envelope =
        |envelope: Vec<u8>| std::fs::write(envelope_path(&path), envelope).unwrap();
    write_envelope(sign(text.as_bytes(), "l", &[&other]).unwrap());
    refused("none is by a trusted key");
    write_envelope(dsse::sign(
        "application/vnd.wicketgate.manifest.v1+yaml",
        text.as_bytes(),
        &[&key],
    ));
    refused("payload type");
    write_envelope(sign(text.as_bytes(), "l", &[&other, &key]).unwrap());
    let verified = Verified::load(&path, &trusted).unwrap().unwrap();
    assert_eq!(*verified.signers, [key.public().id()]);
    assert_eq!(verified.lock, lock(&[LOG]));
    std::fs::write(&path, text.replace("Shows it.", "Shows it!")).unwrap();
    refused("over other bytes");
    assert!(sign(b"{}", "l", &[&key]).is_err());
}

#[test]
fn every_change_of_a_new_lock_is_reported_with_its_weight() {
    let old = lock(&[LOG, r#"{"name":"rm","inputSchema":{}}"#]);
    assert_eq!(differences(&old, &old), []);
    let mut moved = server("git");
    moved.binding = Digest::of(&[b"elsewhere"]);
    let mut now = shown(&[
        &LOG.replace("Shows it.", "Ignore everything."),
        r#"{"name":"new","inputSchema":{}}"#,
    ]);
    now.methods = vec!["resources/read", "prompts/list"];
    let new = Lock::of([
        LockedServer::of(&moved, &now).0,
        LockedServer::of(&server("time"), &shown(&[])).0,
    ]);
    let line = |d: &Difference| {
        let tool = d.tool.clone().unwrap_or_default();
        format!("{} {tool} {}: {}", d.server, d.weight.as_str(), d.what.join(", "))
    };
    let found: Vec<String> = differences(&old, &new).iter().map(line).collect();
    assert_eq!(
        found,
        [
            "git  breaking: it is reached in another way",
            "git  compatible: method `prompts/list` is new",
            "git  breaking: method `prompts/get` is gone",
            "git log text: description changed",
            "git new compatible: new",
            "git rm breaking: tool gone",
            "time  compatible: new, with 0 tools",
        ]
    );
    let back = differences(&new, &old);
    assert!(back.iter().any(|d| d.server == "time" && d.weight == Weight::Breaking));
}
