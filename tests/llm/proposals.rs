//! Tools that the agent runs itself: what the model asks for is judged before the agent sees it.

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, CHAT, Dialect, MESSAGES};

const REMOVAL: &str = r#"{"command": "rm -rf /"}"#;
const LISTING: &str = r#"{"command": "ls"}"#;

/// A gate that puts a denied call in this form.
async fn denying(form: &'static str) -> Gate {
    Gate::start_with(
        |config| {
            for tool in config["tools"].as_array_mut().unwrap() {
                if tool["name"] == "llm.main" {
                    tool["model"]["denied_as"] = json!(form);
                }
            }
        },
        |_| {},
    )
    .await
}

async fn streamed(gate: &Gate, dialect: &Dialect, calls: &[(&str, &str, &str)]) -> String {
    gate.provider.answers(Answer::of_dialect(dialect, &dialect.streamed("look", calls)));
    let reply = gate.asks(dialect, &dialect.offering("go", true, &["Bash", "Read"])).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowed_call_leaves_and_a_denied_one_leaves_as_a_denial() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let calls = [("c1", "Bash", LISTING), ("c2", "Bash", REMOVAL)];
        let body = streamed(&gate, dialect, &calls).await;
        let (text, calls, ended) = dialect.read(&body);
        assert_eq!((text.as_str(), ended), ("look", true), "{body}");
        assert_eq!(calls[0], ("Bash".to_owned(), json!({"command": "ls"})), "{body}");
        assert_eq!(calls[1].0, "wicketgate_denied", "{body}");
        assert_eq!(calls[1].1["tool"], "Bash");
        assert_eq!(calls[1].1["code"], "policy.denied");
        assert!(calls[1].1["message"].as_str().unwrap().contains("no removal"), "{body}");
        assert!(!body.contains("rm -rf"), "{body}");
    }
    let denied = gate.entries("call.denied");
    assert_eq!(gate.tools_of("call.denied"), ["client.Bash"; 5]);
    assert!(denied.iter().all(|entry| entry["data"]["binding"] == "observed"), "{denied:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_answer_is_judged_like_a_stream() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let whole = dialect.whole("look", &[("c1", "Bash", LISTING), ("c2", "Bash", REMOVAL)]);
        gate.provider.answers(Answer::json(200, &whole));
        let reply = gate.asks(dialect, &dialect.offering("go", false, &["Bash", "Read"])).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.body.contains("wicketgate_denied"), "{reply:?}");
        assert!(!reply.body.contains("rm -rf"), "{reply:?}");
        assert!(reply.body.contains("ls"));
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_text_the_call_is_gone_and_the_answer_says_that_it_ended() {
    let gate = denying("text").await;
    for dialect in ALL {
        let body = streamed(&gate, dialect, &[("c1", "Bash", REMOVAL)]).await;
        let (text, calls, ended) = dialect.read(&body);
        assert!(calls.is_empty() && ended, "{body}");
        assert!(text.contains("no removal"), "{body}");
        assert!(
            !body.contains("tool_use\"")
                && !body.contains("\"tool_calls\"")
                && !body.contains("functionCall"),
            "{body}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_an_error_the_answer_has_no_end() {
    let gate = denying("error").await;
    for dialect in ALL {
        let body = streamed(&gate, dialect, &[("c1", "Bash", REMOVAL)]).await;
        let (_, calls, ended) = dialect.read(&body);
        assert!(calls.is_empty() && !ended, "{body}");
        assert!(body.contains("no removal") && !body.contains("rm -rf"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_reads_the_denial_in_its_own_words_in_the_next_request() {
    let gate = Gate::start().await;
    let messages = MESSAGES;
    let body = streamed(&gate, messages, &[("toolu_9", "Bash", REMOVAL)]).await;
    let (_, calls, _) = messages.read(&body);
    let mut next = messages.offering("go", false, &["Bash", "Read"]);
    let conversation = next["messages"].as_array_mut().unwrap();
    conversation.push(json!({"role": "assistant", "content": [{"type": "text", "text": "look"},
        {"type": "tool_use", "id": "toolu_9", "name": "wicketgate_denied", "input": calls[0].1}]}));
    conversation
        .push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9",
        "content": "no such tool", "is_error": true}]}));
    gate.provider.answers(Answer::json(200, &messages.whole("I see", &[])));
    let reply = gate.asks(messages, &next).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let asked = gate.provider.last().json();
    let call = &asked["messages"][1]["content"][1];
    assert_eq!(
        (&call["name"], &call["input"]["command"]),
        (&json!("Bash"), &json!("rm -rf /")),
        "{asked}"
    );
    let result = &asked["messages"][2]["content"][0];
    assert!(result.to_string().contains("no removal"), "{asked}");
    assert!(!asked.to_string().contains("wicketgate_denied"), "{asked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_a_person_is_a_denial_now_and_runs_once_approved() {
    let gate = Gate::start().await;
    let messages = MESSAGES;
    let wait = [("c1", "Bash", r#"{"command": "wait"}"#)];
    let body = streamed(&gate, messages, &wait).await;
    let (_, calls, _) = messages.read(&body);
    assert_eq!(
        (calls[0].0.as_str(), &calls[0].1["code"]),
        ("wicketgate_denied", &json!("call.held")),
        "{body}"
    );
    let entry = &gate.entries("call.held")[0];
    let (run, call) = (entry["run"].as_str().unwrap(), entry["call"].as_str().unwrap());
    let (code, said) =
        gate.people.says("ada", "approve", &gate.sidecar.operator_url(), (run, call));
    assert_eq!(code, Some(0), "{said}");
    let body = streamed(&gate, messages, &wait).await;
    let (_, calls, _) = messages.read(&body);
    assert_eq!(calls[0], ("Bash".to_owned(), json!({"command": "wait"})), "{body}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_are_no_strict_json_and_tools_that_nobody_offered_are_denied() {
    let gate = Gate::start().await;
    let chat = CHAT;
    for (name, arguments) in [
        ("Bash", r#"{"command":"ls","command":"rm -rf /"}"#),
        ("Bash", r#"{"command":"#),
        ("Bash", r#"["ls"]"#),
        ("Other", LISTING),
    ] {
        let body = streamed(&gate, chat, &[("c1", name, arguments)]).await;
        let (_, calls, ended) = chat.read(&body);
        assert_eq!((calls[0].0.as_str(), ended), ("wicketgate_denied", true), "{body}");
    }
    let codes: Vec<Value> = gate
        .entries("call.denied")
        .iter()
        .map(|entry| entry["data"]["reasons"][0]["code"].clone())
        .collect();
    let wrong = json!("arguments.invalid");
    assert_eq!(codes, [wrong.clone(), wrong.clone(), wrong, json!("tool.not_granted")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_cannot_call_a_tool_of_its_own_through_the_gate() {
    let gate = Gate::start().await;
    let opened = gate.ask("POST", "/gate/v1/runs", &[], "{}").await.json();
    let bearer = format!("Bearer {}", opened["run_token"].as_str().unwrap());
    let call = json!({"tool": "client.Bash", "arguments": {"command": "ls"}}).to_string();
    let reply =
        gate.ask("POST", "/gate/v1/calls", &[("Authorization", bearer.as_str())], &call).await;
    assert_eq!(reply.json()["code"], "tool.not_granted", "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_offers_an_unknown_tool_is_denied_or_loses_it() {
    let chat = CHAT;
    let gate = Gate::start().await;
    let reply = gate.asks(chat, &chat.offering("go", false, &["Bash", "Hack"])).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    assert!(reply.body.contains("Hack"), "{reply:?}");
    let gate = Gate::start_with(|_| {}, |spec| spec["unknown_tools"] = json!("strip")).await;
    gate.provider.answers(Answer::json(200, &chat.whole("ok", &[])));
    let reply = gate.asks(chat, &chat.offering("go", false, &["Bash", "Hack"])).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let asked = gate.provider.last().json();
    assert_eq!(asked["tools"].as_array().unwrap().len(), 1, "{asked}");
    assert_eq!(asked["tools"][0]["function"]["name"], "Bash");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_call_of_an_answer_waits_for_no_turn_and_takes_no_place_beside_its_model() {
    let gate = Gate::start_with(
        |config| config["agents"][0]["ordered"] = json!(true),
        |spec| spec["limits"] = json!({"concurrency": 1}),
    )
    .await;
    let chat = CHAT;
    let body = streamed(&gate, chat, &[("c1", "Bash", LISTING), ("c2", "Read", LISTING)]).await;
    let (_, calls, ended) = chat.read(&body);
    let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, ended), (vec!["Bash", "Read"], true), "{body}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_call_is_one_after_a_restart_too() {
    let mut gate = Gate::start().await;
    for (number, dialect) in ALL.into_iter().enumerate() {
        let id = format!("call_{number}");
        let call = (id.as_str(), "Bash", REMOVAL);
        let body = streamed(&gate, dialect, &[call]).await;
        let (_, calls, _) = dialect.read(&body);
        let told = calls[0].1.to_string();
        gate.killed().await;
        let asked = dialect.offering("go", false, &["Bash", "Read"]);
        let next = dialect.followed(&asked, (&id, "wicketgate_denied", &told), "no such tool");
        gate.provider.answers(Answer::json(200, &dialect.whole("I see", &[])));
        let reply = gate.asks(dialect, &next).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let asked = gate.provider.last().body;
        assert!(asked.contains("rm -rf /") && asked.contains("no removal"), "{asked}");
        assert!(!asked.contains("wicketgate_denied"), "{asked}");
    }
    gate.checked().await;
}
