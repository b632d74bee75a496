//! As many streams as the gate has places for, beside tool calls. It takes 20 s: the promise is about the
//! default number of places, and an unoptimised gate opens each stream.

use futures_util::stream::{StreamExt as _, iter};
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::{Answer, Part};
use crate::said::{DIALECTS, Dialect};
use crate::wire::{Reply, Wire};

/// What `limits.model_streams_max` leaves to streams by default.
const MANY: usize = 1024 - 16;
/// Streams that begin at the same time.
const TOGETHER: usize = 32;

/// The answer of a provider that stops after its first words.
fn unfinished(dialect: &Dialect) -> Answer {
    let text = dialect.streamed("hello", &[]);
    let word = text.find("hello").unwrap();
    let (first, second) = text.split_at(word + text.split_at(word).1.find("\n\n").unwrap() + 2);
    let parts = [Part::Bytes(first.to_owned()), Part::Wait, Part::Bytes(second.to_owned())];
    Answer::stream(parts.to_vec())
}

/// Asks in a run of few others, and reads up to the first words.
async fn begun(gate: &Gate, dialect: &Dialect, number: usize) -> (Wire, String) {
    let body = dialect.request(&format!("stream {number}"), true).to_string();
    let path = format!("/r/run-{}{}", number % 50, dialect.path);
    let mut wire = gate.begin("POST", &path, &[], &body).await;
    let head = wire.head().await.expect("a head");
    if head.status != 200 {
        panic!("{number}: {head:?} {:?}", wire.chunk().await);
    }
    let mut seen = String::new();
    while !seen.contains("hello") {
        seen.push_str(&String::from_utf8(wire.chunk().await.expect("words")).unwrap());
    }
    (wire, seen)
}

/// Reads what is left.
async fn ended((mut wire, mut seen): (Wire, String)) -> String {
    while let Some(chunk) = wire.chunk().await {
        seen.push_str(&String::from_utf8(chunk).unwrap());
    }
    seen
}

async fn called(gate: &Gate, token: &str, number: usize) -> Reply {
    let bearer = format!("Bearer {token}");
    let call = json!({"tool": "work.do", "arguments": {"n": number}}).to_string();
    gate.ask("POST", "/gate/v1/calls", &[("Authorization", bearer.as_str())], &call).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_keep_no_tool_call_and_no_whole_answer_waiting_and_all_end_whole() {
    let gate = Gate::start().await;
    let chat = &DIALECTS[0];
    (0..MANY).for_each(|_| gate.provider.answers(unfinished(chat)));
    let begin = iter(0..MANY).map(|number| begun(&gate, chat, number));
    let open: Vec<(Wire, String)> = begin.buffer_unordered(TOGETHER).collect().await;

    let refused = gate.asks(chat, &chat.request("one more", true)).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].clone()),
        (503, json!("overloaded"))
    );
    gate.provider.answers(Answer::json(200, &chat.whole("at once", &[])));
    let whole = gate.asks(chat, &chat.request("in one piece", false)).await;
    assert_eq!(whole.status, 200, "{whole:?}");
    let run = gate.ask("POST", "/gate/v1/runs", &[], "{}").await.json();
    for number in 0..20 {
        let reply = called(&gate, run["run_token"].as_str().unwrap(), number).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    gate.provider.all_go(MANY);
    let texts: Vec<String> = iter(open).map(ended).buffer_unordered(MANY).collect().await;
    for text in &texts {
        assert_eq!(chat.read(text), ("hello".to_owned(), Vec::new(), true), "{text}");
    }
    let completed = gate.entries("call.completed");
    let streams = |entry: &&Value| entry["data"]["observed"]["stream"].is_object();
    assert_eq!(completed.iter().filter(streams).count(), MANY);
    gate.checked().await;
}
