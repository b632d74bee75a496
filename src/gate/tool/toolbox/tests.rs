use std::path::Path;

use super::*;
use crate::catalog::{Config, Surroundings};
use crate::domain::call::{CallOrigin, CallerAuth};
use crate::domain::decision::Alarm;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::tier::Tier;
use crate::judge::exceptions::CallExceptions;

fn toolbox(dir: &Path) -> Toolbox {
    std::fs::write(dir.join("ok.txt"), "hello").unwrap();
    let yaml = "
- {name: f, description: reads, kind: file.read, tier: T1, read_only: true, file: {root: ., name: work}}
- name: a.http
  description: sends
  kind: http
  input_schema: {type: object, required: [id], properties: {id: {type: string}, qty: {type: integer}}}
  http: {method: GET, url: 'https://api.test/{id}'}
  credentials: [{header: authorization, env: TOKEN}]
";
    let config: Config = serde_saphyr::from_str(yaml).unwrap();
    let env = |_: &str| Some("tok-12345678".to_owned());
    let surroundings = Surroundings { base_dir: dir, env: &env, forbidden: &[], own: &[] };
    Toolbox::build(config.check(&surroundings).unwrap(), &Upstreams::default(), Vec::new()).unwrap()
}

fn call(tool: &str, args: &str) -> ToolCall {
    let asking = CallOrigin {
        run: RunId::from_random([7; 16]),
        id: CallId::parse("c1").unwrap(),
        after: 0,
        agent: "agent".into(),
        auth: CallerAuth::default(),
        traceparent: None,
    };
    ToolCall::parse(asking, tool, args.as_bytes()).unwrap()
}

fn prepare(
    toolbox: &Toolbox,
    grant: Option<&Grant>,
    call: ToolCall,
    model: Option<ModelArgs>,
) -> Prepared {
    super::prepare(
        toolbox,
        grant,
        guard::screen(toolbox, call, model, (&CallExceptions::default(), Vec::new())),
    )
}

fn grant(tool: &str) -> Grant {
    Grant::of(ToolName::parse(tool).unwrap())
}

fn details(prepared: &Prepared) -> Vec<(Code, &str)> {
    prepared.refusals().iter().map(|r| (r.code, r.detail.as_str())).collect()
}

#[test]
fn a_granted_call_is_prepared_with_facts_and_findings() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path());
    let prepared = prepare(&toolbox, Some(&grant("f")), call("f", r#"{"path":"ok.txt"}"#), None);
    assert!(prepared.is_ready() && prepared.refusals().is_empty());
    assert_eq!(prepared.tool().unwrap().tier, Tier::T1);
    let http = prepare(
        &toolbox,
        Some(&grant("a.http")),
        call("a.http", r#"{"id":"ann@example.com"}"#),
        None,
    );
    assert!(http.is_ready());
    assert_eq!(http.findings()[0].kind, "email");
    let names: Vec<_> = toolbox.iter().map(|tool| tool.facts.name.as_str()).collect();
    assert_eq!(names, ["a.http", "f"]);
    assert!(executor(&toolbox, &ToolName::parse("f").unwrap()).is_some());
}

#[test]
fn an_unknown_tool_and_an_ungranted_one_sound_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path());
    let ungranted = prepare(&toolbox, None, call("f", r#"{"path":"ok.txt"}"#), None);
    let other = prepare(&toolbox, Some(&grant("a.http")), call("f", "{}"), None);
    let unbound = prepare(&toolbox, Some(&grant("g")), call("g", "{}"), None);
    for prepared in [&ungranted, &other, &unbound] {
        assert!(!prepared.is_ready() && prepared.tool().is_none());
        let tool = prepared.call().tool();
        let refusal = &prepared.refusals()[0];
        assert_eq!(refusal.code, Code::ToolNotGranted);
        assert_eq!(refusal.message, format!("tool `{tool}` is not granted to this agent"));
        assert_eq!(refusal.detail, "");
    }
}

#[test]
fn every_layer_that_refuses_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path());
    let pinned = Grant { definition: Some(Digest::of(&[b"other"])), ..grant("a.http") };
    let prepared = prepare(&toolbox, Some(&pinned), call("a.http", r#"{"qty":1.0}"#), None);
    let found = details(&prepared);
    assert_eq!(found[0], (Code::ToolNotGranted, "tool.definition"));
    assert!(found.contains(&(Code::ArgumentsInvalid, "schema.required")), "{found:?}");
    assert!(found.contains(&(Code::ArgumentsInvalid, "schema.type")), "{found:?}");
    let right = toolbox.get(&ToolName::parse("a.http").unwrap()).unwrap().facts.definition;
    let pinned = Grant { definition: Some(right), ..grant("a.http") };
    assert!(prepare(&toolbox, Some(&pinned), call("a.http", r#"{"id":"1"}"#), None).is_ready());
    let walk = prepare(&toolbox, Some(&grant("f")), call("f", r#"{"path":"../x"}"#), None);
    assert_eq!(details(&walk), [(Code::EffectRefused, "file.traversal")]);
    let leak = prepare(
        &toolbox,
        Some(&grant("a.http")),
        call("a.http", r#"{"id":"x tok-12345678"}"#),
        None,
    );
    assert_eq!((details(&leak).len(), leak.alarm()), (0, Some(Alarm::Credential)));
    assert!(!leak.is_ready());
    // A call that is not granted is scanned as well, because it is recorded too.
    let none = prepare(&toolbox, None, call("b", r#"{"id":"x tok-12345678"}"#), None);
    assert_eq!(details(&none), [(Code::ToolNotGranted, "")]);
    assert_eq!(none.alarm(), Some(Alarm::Credential));
}

#[test]
fn the_greater_tier_counts() {
    let dir = tempfile::tempdir().unwrap();
    let toolbox = toolbox(dir.path());
    for (given, effective) in [(Tier::T0, Tier::T1), (Tier::T1, Tier::T1), (Tier::T3, Tier::T3)] {
        let grant = Grant { tier: Some(given), ..grant("f") };
        let prepared = prepare(&toolbox, Some(&grant), call("f", r#"{"path":"ok.txt"}"#), None);
        assert_eq!(prepared.tool().unwrap().tier, effective);
    }
}

#[test]
fn a_grant_from_a_lock_asks_for_its_signer() {
    let dir = tempfile::tempdir().unwrap();
    let mut toolbox = toolbox(dir.path());
    let asked = |toolbox: &Toolbox, signer: Option<&str>| {
        let grant =
            Grant { signers: signer.map(str::to_owned).into_iter().collect(), ..grant("f") };
        let prepared = prepare(toolbox, Some(&grant), call("f", r#"{"path":"ok.txt"}"#), None);
        prepared.refusals().iter().map(|r| (r.code, r.detail.clone())).collect::<Vec<_>>()
    };
    let refused = [(Code::ToolNotGranted, "tool.lock".to_owned())];
    assert_eq!(asked(&toolbox, Some("k1")), refused, "a tool that stands in no lock");
    let tool = toolbox.tools.get_mut(&ToolName::parse("f").unwrap()).unwrap();
    tool.signers = vec!["k1".to_owned(), "k2".to_owned()].into();
    assert_eq!(asked(&toolbox, Some("k2")), []);
    assert_eq!(asked(&toolbox, None), []);
    assert_eq!(asked(&toolbox, Some("k3")), refused);
}
