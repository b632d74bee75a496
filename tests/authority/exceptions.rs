//! A false positive of the firewall passes once a person signed for it: that value, in that place of that tool, until
//! then. Everything else stays blocked, and the evidence shows who let it pass.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use serde_json::{Value, json};
use tonic::Request;
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::crypto::openssh;
use wicketgate::serve::pb;
use wicketgate::serve::pb::firewall_client::FirewallClient;
use wicketgate_support::private::private;
use wicketgate_support::ran::Ran;

use crate::agent::{Agent, Refused};
use crate::checker;
use crate::people::People;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use crate::until;

/// 32 bytes for the marks of findings.
const MARKS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// What the model says.
const ANSWER: &str = r#"{"id":"x","object":"chat.completion","model":"small-2026","choices":[{"index":0,
    "finish_reason":"stop","message":{"role":"assistant","content":"fine"}}],
    "usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

/// Tokens of a code host, of no account. WHY in parts: none of them stands in this file.
fn token() -> String {
    ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat()
}

fn other_token() -> String {
    ["ghp_", "Kd83jFq0Zm2Yx7Wb", "4Tn6Rv1Cp9Hs5Lg3Ua8e"].concat()
}

struct World {
    people: People,
    estate: Estate,
}

impl World {
    async fn new() -> World {
        let people = People::new();
        let estate = Estate::sqlite(&Tool::start().await);
        let answers = |body: &'static str| {
            move || async move { ([(CONTENT_TYPE, "application/json")], body) }
        };
        let leak =
            json!({"a": {"text": format!("it is {}", token())}, "b": other_token()}).to_string();
        let leak: &'static str = Box::leak(leak.into_boxed_str());
        let routes = Router::new()
            .route("/send", post(answers(r#"{"ok":true}"#)))
            .route("/leak", post(answers(leak)))
            .route("/v1/chat/completions", post(answers(ANSWER)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let open = json!({"type": "object", "additionalProperties": true});
        let tool = |name: &str, path: &str| {
            json!({"name": name, "description": "sends", "kind": "http", "tier": "T1", "input_schema": open,
                "taint": {"trust": "trusted", "data": "public"},
                "http": {"method": "POST", "url": format!("http://127.0.0.1:{port}/{path}"), "body": "args",
                    "private_addresses": ["127.0.0.0/8"]}})
        };
        let model = json!({"name": "note.model", "description": "answers", "kind": "model", "tier": "T1",
            "model": {"output_tokens_max": 200, "upstreams": [{"name": "main", "api": "openai",
                "url": format!("http://127.0.0.1:{port}/v1"), "models": {"small": "small-2026"},
                "private_addresses": ["127.0.0.0/8"]}]}});
        let tools = vec![
            tool("note.put", "send"),
            tool("note.other", "send"),
            tool("note.get", "leak"),
            model,
        ];
        let granted: Vec<Value> = tools.iter().map(|tool| json!({"name": tool["name"]})).collect();
        estate.manifest("1.0.1", "manifest", |text| {
            let mut manifest: Value = serde_json::from_str(&text).unwrap();
            manifest["spec"]["tools"] = granted.into();
            manifest.to_string()
        });
        let rules = "package wicketgate.agent\nimport rego.v1\nallow if startswith(input.tool.name, \"note.\")\n\
            deny contains {\"code\": \"seen\", \"message\": \"it was shown\"} if contains(json.marshal(input), \"b7Qk2Zr9\")\n";
        estate.bundle("1.0.1", rules, "policy");
        private(estate.path("marks.key"), MARKS);
        let dir = estate.path(".");
        for name in ["fleet.pem", "evidence.pem"] {
            crate::sidecar::run(&dir, &["keygen", "--out", name]);
        }
        estate.configure(|config| {
            people.configure(config, true);
            config["tools"] = tools.into();
            config["policy"]["deadline_ms"] = 5000.into();
            config["fleet"] = json!({"key": "fleet.pem"});
            config["firewall"] = json!({"marks": {"key_file": "marks.key"}});
            config["limits"] =
                json!({"denials_max": null, "tool_denials_max": null, "alarm_rest_seconds": null});
        });
        World { people, estate }
    }

    /// Otto signs an order that lets this mark pass in this tool and place.
    fn allows(&self, gate: &Sidecar, args: &[&str], seconds: u64) -> (Option<i32>, String) {
        let key = self.people.path("otto").display().to_string();
        self.allows_with(gate, args, seconds, &key)
    }

    /// The same, signed with this key.
    fn allows_with(
        &self,
        gate: &Sidecar,
        args: &[&str],
        seconds: u64,
        key: &str,
    ) -> (Option<i32>, String) {
        let end = SystemClock::new().now().plus(Duration::from_secs(seconds)).to_string();
        let rest = ["--expires", end.as_str(), "--reason", "a fixture of the tests", "--key", key];
        let all = [&["control", "finding", "allow"], args, &rest].concat();
        self.people.types("otto", &gate.operator_url(), &all)
    }
}

fn put(field: &str, value: &str) -> String {
    json!({(field): format!("the fixture is {value} here")}).to_string()
}

#[track_caller]
fn blocked(answer: Result<String, Refused>) -> Refused {
    let refused = answer.expect_err("it is blocked");
    assert_eq!(
        (refused.code.as_str(), refused.detail.as_str()),
        ("effect.refused", "dlp.secret"),
        "{refused:?}"
    );
    refused
}

/// The command that a refusal names, without its beginning.
#[track_caller]
fn way(refused: &Refused) -> Vec<String> {
    let begins = "`wicketgate control finding allow ";
    let text = &refused.message;
    let at = text.find(begins).unwrap_or_else(|| panic!("{text}")) + begins.len();
    let end = text[at..].find('`').unwrap();
    text[at..at + end].split(' ').map(str::to_owned).collect()
}

fn words(way: &[String]) -> Vec<&str> {
    way.iter().map(String::as_str).collect()
}

async fn passes(agent: &Agent, tool: &str, id: &str, args: &str) {
    agent.call(tool, id, args).await.unwrap_or_else(|why| panic!("{id}: {why:?}"));
}

/// Exports this run into this directory, with its payloads, and verifies it.
fn exported(world: &World, run: &str, out: &str) -> Value {
    let dir = world.estate.path(".");
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", run, "--out", out];
    crate::sidecar::run(&dir, &[&export[..], &["--payloads", "--key", "evidence.pem"]].concat());
    let trust = format!(
        "evidence-key evidence.pem.pub\nmanifest-key {}\nenrolment-key state/enrolment.key.pub\napprovers {}\n",
        crate::sidecar::key("manifest.pub"),
        world.people.path("list.pem.pub").display(),
    );
    std::fs::write(dir.join("trust.txt"), trust).unwrap();
    verdict(&dir, out)
}

fn verdict(dir: &Path, out: &str) -> Value {
    let ran =
        Ran::gate(dir, ["evidence", "verify", "--json", "--trust", "trust.txt", "--replay", out]);
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.text()))
}

#[track_caller]
fn outcome<'v>(verdict: &'v Value, id: &str) -> (&'v str, &'v str) {
    let checks = verdict["checks"].as_array().unwrap_or_else(|| panic!("{verdict}"));
    let check = checks.iter().find(|check| check["id"] == id);
    let check = check.unwrap_or_else(|| panic!("{id}: {verdict}"));
    (check["outcome"].as_str().unwrap(), check["detail"].as_str().unwrap_or_default())
}

/// The entries of this kind about this call.
fn data_of(estate: &Estate, kind: &str, call: &str) -> Value {
    let all = checker::entries(&estate.database, kind);
    let found = all.iter().rev().find(|entry| entry["call"] == call);
    found.unwrap_or_else(|| panic!("no {kind} of {call}: {all:?}"))["data"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_value_passes_in_one_place_of_one_tool_until_it_is_revoked_and_the_evidence_shows_who_signed()
 {
    let world = World::new().await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let same = put("text", &token());
    let refused = blocked(agent.call("note.put", "first", &same).await);
    assert!(!refused.message.contains(&token()), "{refused:?}");
    let shown = way(&refused);
    assert_eq!(
        words(&shown)[..5],
        ["note.put", "--kind", "github", "--path=/text", "--mark"],
        "{shown:?}"
    );

    // Ada is no operator, and an order without a signature is none.
    let ada = world.people.path("ada").display().to_string();
    let (exit, said) = world.allows_with(&gate, &words(&shown), 300, &ada);
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("NOT APPLIED"), "{said}");
    blocked(agent.call("note.put", "unsigned", &same).await);

    let (exit, said) = world.allows(&gate, &words(&shown), 300);
    assert_eq!(exit, Some(0), "{said}");
    passes(&agent, "note.put", "second", &same).await;
    // Nothing else does: another tool, place or value; and no other value beside it.
    blocked(agent.call("note.other", "tool", &same).await);
    blocked(agent.call("note.put", "place", &put("more", &token())).await);
    blocked(agent.call("note.put", "value", &put("text", &other_token())).await);
    let both = put("text", &format!("{} and {}", token(), other_token()));
    let refused = blocked(agent.call("note.put", "both", &both).await);
    assert_ne!(way(&refused).last(), shown.last(), "the mark of the one that has no order");
    let named = json!({"text": token(), (token()): 1}).to_string();
    blocked(agent.call("note.put", "name", &named).await);

    gate.kill();
    let mut gate = world.estate.serve().await;
    passes(&agent, "note.put", "restarted", &same).await;
    let (exit, listed) =
        world.people.types("otto", &gate.operator_url(), &["control", "finding", "list"]);
    assert_eq!(exit, Some(0), "{listed}");
    assert!(listed.contains("in force  note.put arguments github /text"), "{listed}");
    let number = listed.lines().find(|line| line.contains("in force")).unwrap();
    let number = number.split(' ').next().unwrap().to_owned();

    let revoke = ["control", "finding", "revoke", &number, "--reason", "the token was real"];
    let (exit, said) = world.people.types("otto", &gate.operator_url(), &revoke);
    assert_eq!(exit, Some(0), "{said}");
    blocked(agent.call("note.put", "revoked", &same).await);
    gate.stop().await;
    let mut gate = world.estate.serve().await;
    blocked(agent.call("note.put", "later", &same).await);
    let (_, listed) =
        world.people.types("otto", &gate.operator_url(), &["control", "finding", "list"]);
    assert!(listed.contains(&format!("{number}  revoked")), "{listed}");
    agent.seal().await.unwrap();
    gate.stop().await;

    for call in ["second", "restarted"] {
        let data = data_of(&world.estate, "call.authorized", call);
        assert_eq!(data["args_withheld"], "secret", "{data}");
        let finding = &data["findings"][0];
        assert_eq!((&finding["action"], &finding["kind"]), (&json!("warn"), &json!("github")));
        assert_eq!(finding["exception"].to_string(), number, "{data}");
        assert_eq!(data["exceptions"][0]["subject"], "otto", "{data}");
    }
    let verdict = exported(&world, &agent.run, "exported");
    let (found, why) = outcome(&verdict, "P4");
    assert_eq!(found, "VALID", "{verdict}");
    // Two calls ran; the one with a secret in a name was denied, and names the order for its text all the same.
    assert!(why.contains("3 values let past the firewall by an operator's own order"), "{why}");
    // Arguments with a secret are in no bundle, so these decisions are not made again.
    assert_eq!(outcome(&verdict, "P5").0, "UNVERIFIABLE", "{verdict}");
    without_the_order(&world);
}

/// The bundle without the order is no evidence.
fn without_the_order(world: &World) {
    let dir = world.estate.path(".");
    let entries = world.estate.path("exported/decision.json");
    let text = std::fs::read_to_string(&entries).unwrap();
    assert!(text.contains("\"exceptions\":["), "{text}");
    std::fs::write(&entries, text.replace("\"exceptions\":[", "\"exemptions\":[")).unwrap();
    let verdict = verdict(&dir, "exported");
    assert_eq!(outcome(&verdict, "B3").0, "INVALID", "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_value_of_an_answer_passes_and_the_other_is_masked_all_the_same() {
    let world = World::new().await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let said = agent.call("note.get", "first", "{}").await.unwrap();
    assert!(!said.contains(&token()) && !said.contains(&other_token()), "{said}");
    let seen = data_of(&world.estate, "call.completed", "first");
    let findings = seen["observed"]["findings"].as_array().unwrap();
    let path = |one: &Value| one["path"].as_str().unwrap().to_owned();
    let finding = findings.iter().find(|one| path(one).ends_with("/a/text")).unwrap();
    let (mark, path) = (finding["mark"].as_str().unwrap(), path(finding));
    let place = ["note.get", "--kind", "github", "--path", &path, "--mark", mark];
    // The same place among the arguments is another one.
    let (exit, said) = world.allows(&gate, &place, 300);
    assert_eq!(exit, Some(0), "{said}");
    let said = agent.call("note.get", "arguments", "{}").await.unwrap();
    assert!(!said.contains(&token()), "{said}");
    let place = [&place[..], &["--direction", "results"]].concat();
    let (exit, said) = world.allows(&gate, &place, 300);
    assert_eq!(exit, Some(0), "{said}");
    let said = agent.call("note.get", "second", "{}").await.unwrap();
    assert!(said.contains(&token()), "{said}");
    assert!(!said.contains(&other_token()) && said.contains("[REDACTED:github]"), "{said}");
    agent.seal().await.unwrap();
    gate.stop().await;
    let seen = data_of(&world.estate, "call.completed", "second");
    assert_eq!(seen["observed"]["exceptions"][0]["subject"], "otto", "{seen}");
    let verdict = exported(&world, &agent.run, "exported");
    let (found, why) = outcome(&verdict, "P4");
    assert_eq!(found, "VALID", "{verdict}");
    assert!(why.contains("1 value let past the firewall"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_passes_until_its_end_and_no_longer_than_ninety_days() {
    let world = World::new().await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let same = put("text", &token());
    let shown = way(&blocked(agent.call("note.put", "first", &same).await));
    let (exit, said) = world.allows(&gate, &words(&shown), 91 * 86_400);
    assert_eq!(exit, Some(64), "{said}");
    assert!(said.contains("90 days"), "{said}");
    let (exit, said) = world.allows(&gate, &words(&shown), 3);
    assert_eq!(exit, Some(0), "{said}");
    let numbers = AtomicU64::new(0);
    let is_over = || {
        let id = format!("until-{}", numbers.fetch_add(1, Ordering::Relaxed));
        let (agent, same) = (&agent, &same);
        async move { agent.call("note.put", &id, same).await.is_err() }
    };
    until("the end of the order", is_over).await;
    blocked(agent.call("note.put", "over", &same).await);
    gate.kill();
    let mut gate = world.estate.serve().await;
    blocked(agent.call("note.put", "restarted", &same).await);
    let (_, listed) =
        world.people.types("otto", &gate.operator_url(), &["control", "finding", "list"]);
    assert!(listed.contains("over  note.put arguments github /text"), "{listed}");
    gate.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_one_message_passes_to_a_model_and_no_other_message_with_one_does() {
    let world = World::new().await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let asks = |texts: &[String]| {
        let messages: Vec<Value> =
            texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
        json!({"model": "small", "messages": messages}).to_string()
    };
    let first = format!("what is {} for?", token());
    let refused =
        blocked(agent.call("note.model", "first", &asks(std::slice::from_ref(&first))).await);
    let shown = way(&refused);
    assert!(words(&shown).contains(&"--path=/messages/0/content"), "{shown:?}");
    let (exit, said) = world.allows(&gate, &words(&shown), 300);
    assert_eq!(exit, Some(0), "{said}");
    passes(&agent, "note.model", "second", &asks(std::slice::from_ref(&first))).await;
    let more = [first.clone(), "and then?".to_owned()];
    passes(&agent, "note.model", "further", &asks(&more)).await;
    let other = [first, format!("and {}?", token())];
    blocked(agent.call("note.model", "other", &asks(&other)).await);
    agent.seal().await.unwrap();
    gate.stop().await;
    let verdict = exported(&world, &agent.run, "exported");
    assert_eq!(outcome(&verdict, "P4").0, "VALID", "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_which_one_value_passes_and_another_is_masked_is_the_same_when_it_is_repeated() {
    let world = World::new().await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let shown = way(&blocked(agent.call("note.put", "first", &put("text", &token())).await));
    let (exit, said) = world.allows(&gate, &words(&shown), 300);
    assert_eq!(exit, Some(0), "{said}");
    gate.stop().await;
    world.estate.configure(|config| config["firewall"]["arguments"] = json!({"secret": "redact"}));
    let mut gate = world.estate.serve().await;
    let excused = format!("the fixture is {} here", token());
    // Of one kind each: by an order, and because it may well be none.
    let example = ["AKIA", "IOSFODNN7EXAMPLE"].concat();
    let key = ["AKIA", "Z7QX4LMN2RTV6WYB"].concat();
    for (id, args) in [
        ("order", json!({"text": excused, "other": other_token()})),
        ("low", json!({"text": format!("like {example}"), "other": format!("use {key}")})),
    ] {
        let args = args.to_string();
        passes(&agent, "note.put", id, &args).await;
        passes(&agent, "note.put", id, &args).await;
        let findings = data_of(&world.estate, "call.authorized", id)["findings"].clone();
        let actions: Vec<_> =
            findings.as_array().unwrap().iter().map(|one| &one["action"]).collect();
        assert_eq!(actions, ["redact", "warn"], "{findings}");
    }
    gate.stop().await;
}

/// One request of this person over gRPC.
fn with<T>(world: &World, who: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let shown = format!("Bearer {}", world.people.token(who).trim()).parse().unwrap();
    request.metadata_mut().insert("authorization", shown);
    request
}

fn listed(answer: tonic::Response<pb::ListExceptionsResponse>) -> Vec<Value> {
    let answer = answer.into_inner();
    answer.exceptions.iter().map(|one| serde_json::from_slice(one).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_over_grpc_lets_a_value_pass_with_a_signature_only_and_lets_it_pass_no_more() {
    let world = World::new().await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let same = put("text", &token());
    let shown = way(&blocked(agent.call("note.put", "first", &same).await));
    let mut firewall = FirewallClient::connect(gate.operator_url()).await.unwrap();

    // The statement is the one of the command; who signs it with a key that is no operator's lets nothing pass.
    let statement = || {
        let end = SystemClock::new().now().plus(Duration::from_secs(300)).to_string();
        let rest = ["--expires", end.as_str(), "--reason", "a fixture", "--statement"];
        let all = [&["control", "finding", "allow"], &words(&shown)[..], &rest].concat();
        let (exit, said) = world.people.types("otto", &gate.operator_url(), &all);
        assert_eq!(exit, Some(0), "{said}");
        said
    };
    let signed = |who: &str| {
        let (key, statement) =
            (openssh::load(&world.people.path(who), &|_| None).unwrap(), statement());
        let signature =
            sign_bytes(&Key::File(key), "wicketgate-order", statement.as_bytes()).unwrap();
        pb::AllowFindingRequest { statement, signature }
    };
    let sent = firewall.allow(with(&world, "ada", signed("otto"))).await.unwrap_err();
    assert_eq!(Refused::of(&sent).code, "operator.forbidden", "{sent:?}");
    let answer = firewall.allow(with(&world, "otto", signed("ada"))).await.unwrap().into_inner();
    assert!(!answer.complete, "{answer:?}");
    blocked(agent.call("note.put", "ada", &same).await);
    let allowed = firewall.allow(with(&world, "otto", signed("otto"))).await.unwrap().into_inner();
    assert!(allowed.complete, "{allowed:?}");
    passes(&agent, "note.put", "second", &same).await;

    let found = firewall.list(with(&world, "ada", pb::ListExceptionsRequest {})).await.unwrap();
    let found = listed(found);
    let one = &found[0];
    assert_eq!((&one["seq"], &one["state"]), (&json!(allowed.seq), &json!("in force")), "{one}");
    assert_eq!((&one["subject"], &one["path"]), (&json!("otto"), &json!("/text")), "{one}");
    assert!(one["expires"].as_str().unwrap() > one["at"].as_str().unwrap(), "{one}");
    assert_eq!(found[1]["state"], "refused", "{found:?}");

    let end = |seq, reason: &str| pb::RevokeExceptionRequest { seq, reason: reason.to_owned() };
    for (who, message, code) in [
        ("ada", end(allowed.seq, "why"), "operator.forbidden"),
        ("otto", end(0, "why"), "request.malformed"),
        ("otto", end(allowed.seq, " "), "request.malformed"),
        ("otto", end(allowed.seq + 9, "why"), "call.not_found"),
    ] {
        let refused = firewall.revoke(with(&world, who, message)).await.unwrap_err();
        assert_eq!(Refused::of(&refused).code, code, "{refused:?}");
    }
    let over =
        firewall.revoke(with(&world, "otto", end(allowed.seq, "it was real"))).await.unwrap();
    assert!(over.into_inner().complete);
    blocked(agent.call("note.put", "revoked", &same).await);
    let found = firewall.list(with(&world, "otto", pb::ListExceptionsRequest {})).await.unwrap();
    assert_eq!(listed(found)[0]["state"], "revoked");
    gate.stop().await;
}
