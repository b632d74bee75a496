//! Conversations with models: each message is stored, scanned and judged once in a run, and every call
//! can be read from the ledger all the same.

use serde_json::{Value, json};

use crate::agent::{Agent, Refused};
use crate::checker::{self, StoredPayload, check_ledger};
use crate::models::{Server, completion, estate, place};
use crate::settings::entries;
use crate::sidecar::{Estate, key, run};
use wicketgate_support::evidence::{evidence, outcome};
use wicketgate_support::program::python;
use wicketgate_support::ran::Ran;

/// Allows what no message forbids. A trigger asks for masking.
const RULES: &str = r#"package wicketgate.agent
import rego.v1

allow if input.tool.name == "work.do"
forbidden contains m if { some m in input.args.messages; is_string(m.content); contains(m.content, "forbidden") }
deny contains {"code": "said", "message": "a forbidden text"} if count(forbidden) > 0
deny contains {"code": "offered", "message": "a forbidden tool"} if {
	some tool in input.args.tools
	contains(tool["function"].description, "forbidden")
}
obligations contains {"type": "redact", "kinds": ["email"]} if {
	some m in input.args.messages
	is_string(m.content)
	contains(m.content, "mask what comes")
}
"#;

fn payloads(estate: &Estate) -> Vec<StoredPayload> {
    checker::payloads(&estate.database)
}

fn of_role(estate: &Estate, role: &str) -> Vec<String> {
    payloads(estate).into_iter().filter(|row| row.role == role).map(|row| row.body).collect()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

async fn send(agent: &Agent, id: &str, messages: &[Value]) -> Result<Value, Refused> {
    send_with(agent, id, messages, &json!({})).await
}

/// The same, with more arguments.
async fn send_with(
    agent: &Agent,
    id: &str,
    messages: &[Value],
    more: &Value,
) -> Result<Value, Refused> {
    let mut args = json!({"model": "small", "max_output_tokens": 100, "messages": messages});
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = agent.call("work.do", id, &args.to_string()).await?;
    Ok(serde_json::from_str(&answer).unwrap())
}

/// Text of this many bytes that no other turn has.
fn text(turn: usize, bytes: usize) -> String {
    let word = format!("turn {turn} says something of its own; ");
    word.repeat(bytes / word.len() + 1)[..bytes].to_owned()
}

async fn with_rules() -> (Server, Estate) {
    let server = Server::start(&[(200, completion("write to ann@example.com", 1, 1))]).await;
    let estate = estate(json!([place("main", server.port)])).await;
    estate.bundle("1.0.1", RULES, "policy");
    (server, estate)
}

/// The bytes are counted, so this is a bound and no measurement. 60 calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_turns_store_each_message_once() {
    const TURNS: usize = 60;
    const NEW: usize = 410_000 / (2 * TURNS);
    let server = Server::start(&[(200, completion("ok", 1, 1))]).await;
    let estate = estate(json!([place("main", server.port)])).await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let mut messages = vec![json!({"role": "system", "content": "be brief"})];
    for turn in 0..TURNS {
        messages.push(user(&text(turn, NEW)));
        send(&agent, &format!("turn-{turn}"), &messages).await.unwrap();
        messages.push(said(&text(turn + 1000, NEW)));
    }
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let all = payloads(&estate);
    let bytes: usize = all.iter().map(|row| row.body.len()).sum();
    eprintln!("{bytes} bytes in {} payloads", all.len());
    assert!(bytes <= 1_200_000, "{bytes} bytes of payloads");
    let large = all.iter().filter(|row| row.body.len() > 16 * 1024).count();
    assert!(large <= TURNS, "{large} payloads beyond 16 KiB");
    assert_eq!(of_role(&estate, "message").len(), 2 * TURNS);
    // The model was sent everything, every time.
    let (_, last) = server.asked(TURNS - 1);
    assert_eq!(last["messages"].as_array().unwrap().len(), 2 * TURNS);
    let summary = check_ledger(&estate.database, &estate.receipts);
    assert_eq!(summary["kinds"]["call.completed"], TURNS, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_shown_what_is_new_and_what_it_denied_stays_new() {
    let (server, estate) = with_rules().await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let first = user("card 4111 1111 1111 1111");
    send(&agent, "a", std::slice::from_ref(&first)).await.unwrap();
    let (bad, next) = (user("forbidden text"), user("next"));
    for id in ["b", "c", "d"] {
        let refused = send(&agent, id, &[first.clone(), bad.clone(), next.clone()]).await;
        assert_eq!(refused.unwrap_err().code, "policy.denied", "{id}");
    }
    send(&agent, "e", &[first.clone(), next.clone()]).await.unwrap();
    assert_eq!(server.seen(), 2);
    sidecar.stop().await;
    let inputs: Vec<Value> = of_role(&estate, "policy_input")
        .iter()
        .map(|body| serde_json::from_str(body).unwrap())
        .collect();
    let of = |id: &str| inputs.iter().find(|input| input["call"]["id"] == id).unwrap();
    assert_eq!(of("a")["args"]["messages"], json!([first]));
    assert_eq!(of("a")["findings"][0]["since"], "new");
    for id in ["b", "c", "d"] {
        assert_eq!(of(id)["args"]["messages"], json!([bad, next]));
        let finding = json!({"class": "personal", "confidence": "high", "how": "plain", "kind": "card",
            "path": "/messages/0/content", "since": "earlier"});
        assert_eq!(of(id)["findings"], json!([finding]));
        assert_eq!(of(id)["effect"]["new_messages"], 2);
        assert_eq!(of(id)["effect"]["messages"], 3);
    }
    assert_eq!(of("e")["args"]["messages"], json!([next]));
    // Of the denied calls each can be read from its own entry.
    let denied = entries(&estate, "call.denied");
    let roles: Vec<Vec<&str>> = denied
        .iter()
        .map(|entry| entry["commit"].as_array().unwrap())
        .map(|all| all.iter().map(|one| one["role"].as_str().unwrap()).collect())
        .collect();
    assert!(roles.iter().all(|roles| roles.contains(&"conversation")), "{roles:?}");
}

/// A rule may impose a condition on the answers because of a message; it holds while the message is in
/// the conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_that_an_earlier_message_brought_holds_for_later_answers() {
    let (_server, estate) = with_rules().await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let (first, other) = (user("mask what comes"), user("hello"));
    let open = send(&agent, "a", std::slice::from_ref(&other)).await.unwrap();
    assert_eq!(open["message"]["content"], "write to ann@example.com");
    for (id, more) in
        [("b", vec![]), ("c", vec![user("one")]), ("d", vec![user("one"), user("two")])]
    {
        let all = [vec![other.clone(), first.clone()], more].concat();
        let masked = send(&agent, id, &all).await.unwrap();
        assert_eq!(masked["message"]["content"], "write to [REDACTED:email]", "{id}");
    }
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_a_long_new_message_by_its_digest() {
    let (_server, estate) = with_rules().await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    send(&agent, "a", &[user(&text(1, 70_000)), user("short")]).await.unwrap();
    sidecar.stop().await;
    let input: Value = serde_json::from_str(&of_role(&estate, "policy_input")[0]).unwrap();
    let shown = input["args"]["messages"].as_array().unwrap();
    assert_eq!(shown[1], user("short"));
    assert_eq!(shown[0]["role"], "user");
    assert_eq!(shown[0]["sha256"].as_str().unwrap().len(), 64);
    assert!(shown[0]["bytes"].as_u64().unwrap() > 70_000);
    assert_eq!(input["effect"]["messages_cut"], 1);
}

/// A tool that the model may ask for, described in this many bytes.
fn function(word: &str, bytes: usize) -> Value {
    let description = format!("{word}: {}", text(7, bytes));
    json!({"type": "function", "function": {"name": "look", "description": description,
        "parameters": {"type": "object", "properties": {}}}})
}

/// A rule about tools may depend on any argument beside the messages, so all of them must be as they
/// were when they were allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_tools_that_it_allowed_by_their_digest_until_something_beside_them_changes() {
    let (server, estate) = with_rules().await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let tools = json!([function("write to ann@example.com", 4000)]);
    let (same, warmer) = (json!({"tools": tools}), json!({"tools": tools, "temperature": 1}));
    let all = [user("one"), said("two"), user("three"), said("four"), user("five")];
    for (id, count, more) in [("a", 1, &same), ("b", 3, &same), ("c", 5, &warmer)] {
        send_with(&agent, id, &all[..count], more).await.unwrap();
    }
    let bad = json!({"tools": [function("forbidden", 4000)]});
    for id in ["d", "e"] {
        let refused = send_with(&agent, id, &all[..1], &bad).await;
        assert_eq!(refused.unwrap_err().code, "policy.denied", "{id}");
    }
    agent.seal().await.unwrap();
    assert_eq!(server.asked(1).1["tools"], tools, "the model is sent everything");
    sidecar.stop().await;
    let inputs: Vec<Value> = of_role(&estate, "policy_input")
        .iter()
        .map(|body| serde_json::from_str(body).unwrap())
        .collect();
    let of = |id: &str| inputs.iter().find(|input| input["call"]["id"] == id).unwrap();
    let digest = &of("b")["args"]["tools"];
    assert!(digest["bytes"].as_u64().unwrap() > 4000, "{digest}");
    assert_eq!(digest["sha256"].as_str().unwrap().len(), 64);
    for (id, since) in [("a", "new"), ("b", "earlier"), ("c", "new")] {
        assert_eq!(of(id)["args"]["tools"] == tools, since == "new", "{id}");
        let path = "/tools/0/function/description";
        let finding = json!({"class": "personal", "confidence": "high", "how": "plain", "kind": "email",
            "path": path, "since": since});
        assert_eq!(of(id)["findings"], json!([finding]), "{id}");
    }
    assert_eq!(of("e")["args"]["tools"], bad["tools"], "what was denied is shown again");
    assert_eq!(of_role(&estate, "offer").len(), 2);
    let (verdict, _transcript) = evidence(&estate, &agent.run, "shown");
    assert_eq!(outcome(&verdict, "P1")["outcome"], "VALID", "{verdict}");
    assert_eq!(outcome(&verdict, "P5")["outcome"], "VALID", "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_has_the_messages_of_a_model_in_order_and_an_erased_one_stays_erased() {
    let (_server, estate) = with_rules().await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let all =
        [user("one"), said("two"), user("three 4111 1111 1111 1111"), said("four"), user("five")];
    send(&agent, "a", &all[..1]).await.unwrap();
    send(&agent, "b", &all[..3]).await.unwrap();
    let secret = payloads(&estate)
        .into_iter()
        .find(|row| row.role == "message" && row.body.contains("three"))
        .unwrap();
    send(&agent, "c", &[user("forbidden")]).await.unwrap_err();
    let (verdict, transcript) = {
        // The run is open, and so is its evidence.
        evidence(&estate, &agent.run, "before")
    };
    assert_eq!(outcome(&verdict, "P1")["outcome"], "VALID", "{verdict}");
    assert_eq!(outcome(&verdict, "P5")["outcome"], "VALID", "{verdict}");
    let steps = transcript["steps"].as_array().unwrap();
    let messages = |step: usize| steps[step]["conversation"]["messages"].clone();
    assert_eq!(messages(0)[0]["json"], all[0]);
    assert_eq!(steps[1]["conversation"]["continues"], "a");
    assert_eq!(steps[1]["conversation"]["keep"], 1);
    assert_eq!((&messages(1)[0]["json"], &messages(1)[1]["json"]), (&all[1], &all[2]));
    assert_eq!(messages(2)[0]["json"], user("forbidden"));
    let erase = [
        "ledger",
        "payload",
        "erase",
        "--config",
        "wicketgate.yaml",
        "--commitment",
        &secret.commitment,
    ];
    let why = [
        "--fleet-key",
        "fleet.pem",
        "--enrolment-key",
        "state/enrolment.key",
        "--basis",
        "request",
        "--yes",
    ];
    let signed = ["--operator-key", &key("olga")];
    Ran::gate(estate.path("."), [&erase[..], &why, &signed].concat()).ok();
    send(&agent, "d", &all).await.unwrap();
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let (verdict, transcript) = evidence(&estate, &agent.run, "after");
    assert_eq!(outcome(&verdict, "P1")["outcome"], "VALID", "{verdict}");
    let steps = transcript["steps"].as_array().unwrap();
    assert_eq!(steps[1]["conversation"]["messages"][1]["state"], "erased");
    assert_eq!(steps[3]["conversation"]["keep"], 3, "{}", steps[3]);
    let again = payloads(&estate);
    assert!(again.iter().all(|row| row.role != "message" || !row.body.contains("three")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_messages_of_two_runs_have_nothing_in_common_in_the_ledger() {
    let (_server, estate) = with_rules().await;
    let mut sidecar = estate.serve().await;
    for id in ["a", "b"] {
        let agent = sidecar.open().await;
        send(&agent, id, &[user("one"), said("two"), user("one")]).await.unwrap();
        agent.seal().await.unwrap();
    }
    sidecar.stop().await;
    let messages: Vec<_> =
        payloads(&estate).into_iter().filter(|row| row.role == "message").collect();
    let commitments: std::collections::BTreeSet<_> =
        messages.iter().map(|row| &row.commitment).collect();
    assert_eq!((messages.len(), commitments.len()), (4, 4), "twice `one` in a run is one message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_side_by_side_and_calls_after_a_crash_can_be_read_too() {
    let (server, estate) = with_rules().await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let all: Vec<Value> = (0..6).map(|n| user(&format!("message {n}"))).collect();
    let (one, other) = (send(&agent, "a", &all[..2]), send(&agent, "b", &all[..3]));
    let (one, other) = tokio::join!(one, other);
    one.unwrap();
    other.unwrap();
    sidecar.kill();
    sidecar = estate.serve().await;
    let agent = agent.clone();
    send(&agent, "c", &all[..5]).await.unwrap();
    send(&agent, "d", &all).await.unwrap();
    agent.seal().await.unwrap();
    sidecar.stop().await;
    assert_eq!(server.seen(), 4);
    let (verdict, transcript) = evidence(&estate, &agent.run, "shown");
    assert_eq!(outcome(&verdict, "P1")["outcome"], "VALID", "{verdict}");
    assert_eq!(outcome(&verdict, "P5")["outcome"], "VALID", "{verdict}");
    let steps = transcript["steps"].as_array().unwrap();
    let call = |id: &str| steps.iter().find(|step| step["call"] == id).unwrap();
    assert_eq!(call("c")["conversation"]["keep"], 0, "{}", call("c"));
    assert_eq!(call("c")["conversation"]["messages"].as_array().unwrap().len(), 5);
    assert_eq!(call("d")["conversation"]["continues"], "c");
    assert_eq!(call("d")["conversation"]["keep"], 5);
}

/// An agent that spells its earlier messages differently is the recorded agent, and one that says
/// something else is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_conversation_is_replayed_however_its_messages_are_spelled() {
    let (_server, estate) = with_rules().await;
    estate.manifest("1.0.1", "manifest", |text| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["spec"]["replay"] = json!({"mode": "record"});
        manifest.to_string()
    });
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let all = [user("one"), said("two"), user("three"), said("four"), user("five")];
    let tools = json!([function("looks", 2000)]);
    for (id, count) in [("a", 1), ("b", 3), ("c", 5)] {
        send_with(&agent, id, &all[..count], &json!({"tools": tools})).await.unwrap();
    }
    agent.seal().await.unwrap();
    sidecar.stop().await;
    assert_eq!(of_role(&estate, "offer").len(), 1);
    let export = ["run", "replay", "export", &agent.run, "--config", "wicketgate.yaml"];
    run(&estate.path("."), &[&export[..], &["--out", "run.recording"]].concat());
    run(&estate.path("."), &["run", "replay", "check", "run.recording"]);
    let script = wicketgate_support::program::top().join("tests/replay/agent.py");
    let spelled = |last: &str| {
        let mut all = all.to_vec();
        all[0] = json!({"role": "user", "content": [{"type": "text", "text": "one"}]});
        all[4] = user(last);
        let rounds = [&all[..1], &all[..3], &all[..5]].map(|messages| {
            json!([["work.do", {"model": "small", "max_output_tokens": 100, "messages": messages,
                "tools": tools}]])
        });
        json!(rounds).to_string()
    };
    for (last, code) in [("five", 0), ("six", 1)] {
        let python = python();
        let words = [
            "run",
            "replay",
            "run.recording",
            "--",
            &python,
            script.to_str().unwrap(),
            &spelled(last),
        ];
        Ran::gate(estate.path("."), words).ends(code);
    }
}
