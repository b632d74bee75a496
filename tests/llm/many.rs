//! As many streams as the gate has places for, beside tool calls. It takes 20 s: the promise is about the
//! default number of places, and an unoptimised gate opens each stream.

use futures_util::stream::{StreamExt as _, iter};
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::{Answer, Part};
use crate::said::{ALL, Dialect, code};
use crate::wire::{Reply, Wire};

/// What `limits.model_streams_max` leaves to streams by default.
const MANY: usize = 1024 - 16;
/// Streams that begin at the same time.
const TOGETHER: usize = 32;

/// The answer of a provider that stops after its first words.
fn unfinished(dialect: &Dialect) -> Answer {
    let text = dialect.streamed("hello", &[]);
    let (first, second) = text.split_at(dialect.end_of(&text, "hello"));
    let parts = [Part::Bytes(first.to_owned()), Part::Wait, Part::Bytes(second.to_owned())];
    Answer::streams(dialect, parts.to_vec())
}

/// Asks in a run of few others, and reads up to the first words.
async fn begun(gate: &Gate, dialect: &Dialect, number: usize) -> (Wire, String) {
    let (path, body) = dialect.placed(&dialect.request(&format!("stream {number}"), true));
    let path = format!("/r/run-{}{path}", number % 50);
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
    let mut open: Vec<(&Dialect, (Wire, String))> = Vec::new();
    // One dialect after the other: the provider answers in the order in which it is asked.
    for (at, dialect) in ALL.into_iter().enumerate() {
        let numbers = MANY * at / ALL.len()..MANY * (at + 1) / ALL.len();
        numbers.clone().for_each(|_| gate.provider.answers(unfinished(dialect)));
        let begin = iter(numbers).map(|number| begun(&gate, dialect, number));
        let begun: Vec<(Wire, String)> = begin.buffer_unordered(TOGETHER).collect().await;
        open.extend(begun.into_iter().map(|one| (dialect, one)));
    }
    assert_eq!(open.len(), MANY);

    for dialect in ALL {
        let refused = gate.asks(dialect, &dialect.request("one more", true)).await;
        assert_eq!((refused.status, code(&refused).as_str()), (503, "overloaded"), "{refused:?}");
        gate.provider.answers(Answer::json(200, &dialect.whole("at once", &[])));
        let whole = gate.asks(dialect, &dialect.request("in one piece", false)).await;
        assert_eq!(whole.status, 200, "{whole:?}");
    }
    let run = gate.ask("POST", "/gate/v1/runs", &[], "{}").await.json();
    for number in 0..20 {
        let reply = called(&gate, run["run_token"].as_str().unwrap(), number).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    gate.provider.all_go(MANY);
    let ends = iter(open).map(async |(dialect, one)| (dialect, ended(one).await));
    let texts: Vec<(&Dialect, String)> = ends.buffer_unordered(MANY).collect().await;
    for (dialect, text) in &texts {
        let read = dialect.read(text);
        assert_eq!(read, ("hello".to_owned(), Vec::new(), true), "{} {text}", dialect.name);
    }
    let completed = gate.entries("call.completed");
    let streams = |entry: &&Value| entry["data"]["observed"]["stream"].is_object();
    assert_eq!(completed.iter().filter(streams).count(), MANY);
    gate.checked().await;
}
