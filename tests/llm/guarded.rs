//! Secrets in requests to models and in their answers: on both faces, in one piece or in many.

use std::path::Path;

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, CHAT};

/// A token of a code host, of no account. WHY in parts: it does not stand in this file.
fn token() -> String {
    ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat()
}

/// Whether a file below this folder has these bytes.
fn holds(folder: &Path, part: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, part);
        }
        let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        bytes.windows(part.len()).any(|window| window == part.as_bytes())
    })
}

/// Ends the gate; its state holds no secret, and what may be there is.
async fn kept_nowhere(gate: Gate, said: &str) {
    let state = gate.estate.path("state");
    assert!(holds(&state, said), "what was said is kept");
    assert!(!holds(&state, &token()), "the secret is kept");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_in_a_prompt_reaches_no_provider_and_rests_nowhere() {
    let gate = Gate::start().await;
    for dialect in ALL {
        for stream in [false, true] {
            let body = dialect.request(&format!("my token is {}", token()), stream);
            let reply = gate.asks(dialect, &body).await;
            assert_eq!(reply.status, 403, "{} {stream}: {reply:?}", dialect.name);
            assert!(reply.body.contains("firewall.tools.llm.main.prompts.secret"), "{reply:?}");
            assert!(!reply.body.contains(&token()), "{reply:?}");
        }
    }
    assert!(gate.provider.asked().is_empty(), "no provider was asked");
    for dialect in ALL {
        gate.provider.answers(Answer::json(200, &dialect.whole("a-plain-answer", &[])));
        let reply = gate.asks(dialect, &dialect.request("a plain question", false)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let denied = gate.entries("call.denied");
    assert_eq!(denied.len(), 10);
    for entry in &denied {
        let data = &entry["data"];
        assert_eq!(data["reasons"][0]["detail"], "dlp.secret", "{entry}");
        assert_eq!(data["args_withheld"], "secret", "{entry}");
    }
    kept_nowhere(gate, "a-plain-answer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_may_hold_secrets_is_never_stored_again_with_them() {
    let warn = json!({"tools": {"llm.main": {"prompts": {"secret": "warn"}}}});
    let gate = Gate::start_with(|config| config["firewall"] = warn, |_| {}).await;
    let chat = CHAT;
    let mut body = chat.request(&format!("my token is {}", token()), false);
    for turn in ["first", "second", "third"] {
        gate.provider.answers(Answer::json(200, &chat.whole("noted", &[])));
        let reply = gate.asks(chat, &body).await;
        assert_eq!(reply.status, 200, "{turn}: {reply:?}");
        assert!(gate.provider.last().body.contains(&token()), "{turn}");
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "noted"}));
        messages.push(json!({"role": "user", "content": turn}));
    }
    let authorized = gate.entries("call.authorized");
    assert_eq!(authorized.len(), 3);
    for entry in &authorized {
        assert_eq!(entry["data"]["args_withheld"], "secret", "{entry}");
    }
    kept_nowhere(gate, "[REDACTED:").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_in_an_answer_is_masked_or_not_kept() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let text = format!("a-plain-word and {} too", token());
        gate.provider.answers(Answer::json(200, &dialect.whole(&text, &[])));
        let reply = gate.asks(dialect, &dialect.request("in one piece", false)).await;
        assert_eq!(reply.status, 200, "{} {reply:?}", dialect.name);
        assert!(reply.body.contains("[REDACTED:"), "{} {reply:?}", dialect.name);
        assert!(!reply.body.contains(&token()), "{} {reply:?}", dialect.name);
        gate.provider.answers(Answer::of_dialect(dialect, &dialect.streamed(&text, &[])));
        let reply = gate.asks(dialect, &dialect.request("in many", true)).await;
        assert_eq!(reply.status, 200, "{} {reply:?}", dialect.name);
    }
    let completed = gate.entries("call.completed");
    assert_eq!(completed.len(), 10);
    let actions = completed.iter().map(|entry| &entry["data"]["observed"]["findings"][0]["action"]);
    let actions: Vec<&Value> = actions.collect();
    let pair = [&json!("redact"), &json!("warn")];
    assert_eq!(actions, [pair; 5].concat());
    kept_nowhere(gate, "a-plain-word").await;
}
