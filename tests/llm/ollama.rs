//! What only Ollama's dialect has: lines, streams by default, and calls without ids.

use serde_json::{Value, json};

use crate::gate::{Gate, TOKEN};
use crate::provider::{Answer, Part};
use crate::said::{OLLAMA, lines, local_call};

const REMOVAL: &str = r#"{"command": "rm -rf /"}"#;
const LISTING: &str = r#"{"command": "ls"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_says_nothing_of_it_gets_a_stream_of_lines() {
    let gate = Gate::start().await;
    for path in ["/api/chat", "/r/mine/api/chat"] {
        gate.provider.answers(Answer::of_dialect(OLLAMA, &OLLAMA.streamed("hello", &[])));
        let mut body = OLLAMA.request(&format!("hi {path}"), true);
        body.as_object_mut().unwrap().remove("stream");
        body["options"] = json!({"num_predict": -1, "seed": 7});
        let reply = gate.ask("POST", path, &[], &body.to_string()).await;
        assert_eq!(reply.header("content-type"), Some("application/x-ndjson"), "{reply:?}");
        assert_eq!(OLLAMA.read(&reply.body), ("hello".to_owned(), Vec::new(), true));
        let lines = reply.body.lines().map(serde_json::from_str::<Value>);
        assert!(lines.into_iter().all(|line| line.is_ok()), "{}", reply.body);
        let asked = gate.provider.last();
        assert_eq!(asked.path, "/api/chat");
        assert!(!asked.body.contains(TOKEN));
        assert_eq!(asked.json()["options"], json!({"num_predict": 1000, "seed": 7}));
        assert_eq!(asked.json().get("stream"), None);
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_call_without_an_id_is_made_whole_again() {
    let gate = Gate::start().await;
    let both = [("", "Bash", LISTING), ("", "Bash", REMOVAL)];
    let calls: Vec<Value> = both.iter().map(local_call).collect();
    // Text and both calls in the last line.
    let line = json!({"role": "assistant", "content": "look", "tool_calls": calls});
    gate.provider.answers(Answer::of_dialect(OLLAMA, &lines(&[line])));
    let reply = gate.asks(OLLAMA, &OLLAMA.offering("go", true, &["Bash"])).await;
    let (text, left, ended) = OLLAMA.read(&reply.body);
    assert_eq!((text.as_str(), ended), ("look", true), "{reply:?}");
    assert_eq!(left[0], ("Bash".to_owned(), json!({"command": "ls"})));
    assert_eq!(left[1].0, "wicketgate_denied");
    let done = reply.body.lines().filter(|line| line.contains("\"done\":true"));
    assert_eq!(done.count(), 1, "{reply:?}");
    let mut next = OLLAMA.offering("go", false, &["Bash"]);
    let said = next["messages"].as_array_mut().unwrap();
    let shown: Vec<Value> = left
        .iter()
        .map(|(name, arguments)| json!({"function": {"name": name, "arguments": arguments}}))
        .collect();
    said.push(json!({"role": "assistant", "content": "look", "tool_calls": shown}));
    said.push(json!({"role": "tool", "tool_name": "Bash", "content": "a"}));
    said.push(json!({"role": "tool", "tool_name": "wicketgate_denied", "content": "no such tool"}));
    gate.provider.answers(Answer::json(200, &OLLAMA.whole("I see", &[])));
    let reply = gate.asks(OLLAMA, &next).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let asked = gate.provider.last().json();
    assert_eq!(asked["messages"][2]["tool_calls"], json!(calls), "{asked}");
    assert_eq!(asked["messages"][4]["tool_name"], "Bash");
    assert!(asked["messages"][4]["content"].as_str().unwrap().contains("no removal"), "{asked}");
    assert!(!asked.to_string().contains("wicketgate_denied"), "{asked}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_line_says_beside_several_calls_leaves_once() {
    let gate = Gate::start().await;
    // Clients add up the texts of the lines, those of members that are new to the gate too.
    for name in ["content", "thinking", "remark"] {
        let calls = [("", "Bash", LISTING), ("", "Read", "{}")];
        let calls: Vec<Value> = calls.iter().map(local_call).collect();
        let message = json!({"role": "assistant", name: "I look", "tool_calls": calls});
        gate.provider.answers(Answer::of_dialect(OLLAMA, &lines(&[message])));
        let body = OLLAMA.offering(&format!("go {name}"), true, &["Bash", "Read"]);
        let reply = gate.asks(OLLAMA, &body).await;
        assert_eq!(reply.body.matches("I look").count(), 1, "{name} {reply:?}");
        let (_, calls, ended) = OLLAMA.read(&reply.body);
        assert_eq!((calls.len(), ended), (2, true), "{reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_tags_and_errors_are_one_text() {
    let gate = Gate::start().await;
    let tags = gate.ask("GET", "/api/tags", &[], "").await;
    assert_eq!(tags.json()["models"][0]["model"], "small", "{tags:?}");
    for path in ["/api/generate", "/api/pull", "/api/embed", "/api/show"] {
        let reply = gate.ask("POST", path, &[], "{}").await;
        assert_eq!(reply.status, 404, "{reply:?}");
        assert!(reply.json()["error"].is_string(), "{reply:?}");
    }
    let mut body = OLLAMA.request("hi", true);
    body["template"] = json!("{{ .System }}");
    let reply = gate.asks(OLLAMA, &body).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(reply.json()["error"].as_str().unwrap().contains("template"), "{reply:?}");
    // One that breaks off ends with an error of its own, and no line says that it is done.
    let text = OLLAMA.streamed("look", &[]);
    let cut = OLLAMA.end_of(&text, "look");
    let parts = vec![Part::Bytes(text[..cut].to_owned()), Part::Cut];
    gate.provider.answers(Answer::streams(OLLAMA, parts));
    let reply = gate.asks(OLLAMA, &OLLAMA.request("hi", true)).await;
    let last: Value = serde_json::from_str(reply.body.lines().last().unwrap()).unwrap();
    assert!(last["error"].is_string(), "{reply:?}");
    gate.provider.answers(Answer::of_dialect(OLLAMA, "{\"error\":\"out of memory\"}\n"));
    let reply = gate.asks(OLLAMA, &OLLAMA.request("again", true)).await;
    assert!(reply.body.contains("out of memory"), "{reply:?}");
    assert!(!OLLAMA.read(&reply.body).2, "{reply:?}");
    gate.checked().await;
}
