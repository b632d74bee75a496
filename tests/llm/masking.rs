//! Answers with personal data, under a policy that masks it: streams leave in pieces all the same.

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::{Answer, Part};
use crate::said::{ALL, Dialect, MESSAGES, RESPONSES, output_text, response_events};

const MASK: &str = r#"
obligations contains {"type": "redact", "kinds": ["card", "email"]} if input.tool.kind == "model"
"#;

const TEXT: &str = "Write to ann@example.com, or pay with 4111 1111 1111 1111 in 2026: \"thanks\".";
const MASKED: &str = "Write to [REDACTED:email], or pay with [REDACTED:card] in 2026: \"thanks\".";

/// A stream whose text comes in pieces of so many characters.
fn in_pieces(dialect: &Dialect, text: &str, size: usize, calls: &[(&str, &str, &str)]) -> String {
    let escaped = |text: &str| {
        let quoted = json!(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let chars: Vec<char> = text.chars().collect();
    let stream = dialect.streamed("SPLIT", calls);
    let mut events = Vec::new();
    for event in stream.split_terminator(dialect.event_end()) {
        if event.contains("SPLIT") && dialect.is_piece(event) {
            let pieces = chars.chunks(size).map(|piece| piece.iter().collect::<String>());
            events.extend(pieces.map(|piece| event.replace("SPLIT", &escaped(&piece))));
        } else {
            events.push(event.replace("SPLIT", &escaped(text)));
        }
    }
    let numbered = events.iter().enumerate().map(|(number, event)| numbered(event, number));
    numbered.map(|event| event + dialect.event_end()).collect()
}

/// The event with this number, if it has one.
fn numbered(event: &str, number: usize) -> String {
    let Some((front, data)) = event.split_once("data: ") else { return event.to_owned() };
    let Ok(mut data) = serde_json::from_str::<Value>(data) else { return event.to_owned() };
    if let Some(place) = data.get_mut("sequence_number") {
        *place = json!(number);
    }
    format!("{front}data: {data}")
}

/// The numbers of the events of a response.
fn numbers(body: &str) -> Vec<u64> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    events.filter_map(|event| event["sequence_number"].as_u64()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_masked_however_its_text_is_cut() {
    let gate = Gate::start_under(MASK).await;
    for dialect in ALL {
        for size in [1, 3, 7, 1000] {
            let stream = in_pieces(dialect, TEXT, size, &[]);
            gate.provider.answers(Answer::of_dialect(dialect, &stream));
            let reply = gate.asks(dialect, &dialect.request(&format!("go {size}"), true)).await;
            let (text, calls, ended) = dialect.read(&reply.body);
            assert!(ended && calls.is_empty(), "{} {size}: {}", dialect.name, reply.body);
            assert_eq!(text, MASKED, "{} {size}", dialect.name);
            assert!(!reply.body.contains("example.com") && !reply.body.contains("1111 1111"));
            let numbers = numbers(&reply.body);
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
        }
    }
    let completed = gate.entries("call.completed");
    assert_eq!(completed.len(), 4 * ALL.len());
    for entry in &completed {
        let redaction = &entry["data"]["observed"]["redaction"];
        assert!(redaction["masked"].as_u64().unwrap() >= 2, "{entry}");
        assert_eq!(redaction["unscanned"], Value::Null, "{entry}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_words_leave_while_the_provider_still_writes() {
    let gate = Gate::start_under(MASK).await;
    for dialect in ALL {
        let stream = in_pieces(dialect, "Hello there, ann@example.com says so.", 8, &[]);
        // The word ends in the piece behind it.
        let cut = dialect.end_of(&stream, "ere, ann");
        let parts = vec![
            Part::Bytes(stream[..cut].to_owned()),
            Part::Wait,
            Part::Bytes(stream[cut..].to_owned()),
        ];
        gate.provider.answers(Answer::streams(dialect, parts));
        let (path, body) = dialect.placed(&dialect.request("hi", true));
        let mut wire = gate.begin("POST", &path, &[], &body).await;
        assert_eq!(wire.head().await.unwrap().status, 200);
        let mut seen = String::new();
        while !seen.contains("Hello ") {
            seen.push_str(&String::from_utf8(wire.chunk().await.unwrap()).unwrap());
        }
        gate.provider.go();
        while let Some(chunk) = wire.chunk().await {
            seen.push_str(&String::from_utf8(chunk).unwrap());
        }
        let expected = "Hello there, [REDACTED:email] says so.".to_owned();
        assert_eq!(dialect.read(&seen), (expected, Vec::new(), true), "{seen}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_arguments_of_a_tool_call_are_masked_like_the_text_before_it() {
    let gate = Gate::start_under(MASK).await;
    for dialect in ALL {
        let calls = [("c1", "Bash", r#"{"command": "mail ann@example.com"}"#)];
        let stream = in_pieces(dialect, TEXT, 5, &calls);
        gate.provider.answers(Answer::of_dialect(dialect, &stream));
        let reply = gate.asks(dialect, &dialect.offering("go", true, &["Bash"])).await;
        let (text, calls, ended) = dialect.read(&reply.body);
        assert!(ended, "{}", reply.body);
        assert_eq!(text, MASKED, "{}", dialect.name);
        let masked = json!({"command": "mail [REDACTED:email]"});
        assert_eq!(calls, [("Bash".to_owned(), masked)], "{}", reply.body);
        assert!(!reply.body.contains("example.com"), "{}", reply.body);
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_call_is_judged_and_recorded_with_the_arguments_that_leave() {
    let rule = r#"
deny contains {"code": "mail", "message": "not to Ann"} if contains(input.args.command, "ann@")
"#;
    let gate = Gate::start_under(&format!("{MASK}{rule}")).await;
    for dialect in ALL {
        for stream in [false, true] {
            let calls = [("c1", "Bash", r#"{"command": "mail ann@example.com"}"#)];
            gate.provider.answers(match stream {
                true => Answer::of_dialect(dialect, &dialect.streamed("look", &calls)),
                false => Answer::json(200, &dialect.whole("look", &calls)),
            });
            let text = format!("go {stream}");
            let reply = gate.asks(dialect, &dialect.offering(&text, stream, &["Bash"])).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            assert!(reply.body.contains("mail [REDACTED:email]"), "{reply:?}");
            assert!(!reply.body.contains("wicketgate_denied"), "{reply:?}");
        }
    }
    let completed = gate.entries("call.completed");
    let handed = completed.iter().filter(|entry| entry["tool"] == "client.Bash").count();
    assert_eq!(handed, 2 * ALL.len());
    let both = [gate.payloads("args"), gate.payloads("result")].concat();
    let recorded = both.iter().filter(|text| text.contains("mail [REDACTED:email]"));
    assert!(recorded.count() >= 4 * ALL.len(), "{both:?}");
    assert!(!both.concat().contains("example.com"), "{both:?}");
    gate.checked().await;
}

/// A text in two parts and a tool call between them.
pub fn around_a_call(dialect: &Dialect, text: (&str, &str)) -> String {
    dialect.around_a_call(text, ("c1", "Bash", r#"{"command": "ls"}"#))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_goes_on_behind_a_tool_call_is_masked_or_has_no_end() {
    let gate = Gate::start_under(MASK).await;
    for dialect in ALL {
        let stream = around_a_call(dialect, ("ask ann@exam", "ple.com now"));
        gate.provider.answers(Answer::of_dialect(dialect, &stream));
        let reply = gate.asks(dialect, &dialect.offering("go", true, &["Bash"])).await;
        let (text, calls, ended) = dialect.read(&reply.body);
        assert!(!reply.body.contains("ann@") && !reply.body.contains("ple.com"), "{reply:?}");
        if !dialect.has_blocks() {
            assert_eq!((text.as_str(), ended), ("ask [REDACTED:email] now", true), "{reply:?}");
            assert_eq!(calls, [("Bash".to_owned(), json!({"command": "ls"}))]);
        } else {
            assert_eq!((text.as_str(), ended), ("ask ", false), "{reply:?}");
            assert!(calls.is_empty(), "{calls:?}");
        }

        let stream = around_a_call(dialect, ("I look at 4111 1111", "and 2222 too"));
        gate.provider.answers(Answer::of_dialect(dialect, &stream));
        let reply = gate.asks(dialect, &dialect.offering("on", true, &["Bash"])).await;
        let (text, calls, ended) = dialect.read(&reply.body);
        assert_eq!((text.as_str(), ended), ("I look at 4111 1111and 2222 too", true), "{reply:?}");
        assert_eq!(calls.len(), 1, "{reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finding_over_two_texts_of_a_whole_answer_does_not_leave() {
    let gate = Gate::start_under(MASK).await;
    let texts = ["ask ann@exam", "ple.com now"];
    let messages = |texts: [&str; 2]| {
        let mut answer = MESSAGES.whole("", &[]);
        answer["content"] =
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        answer
    };
    let responses = |texts: [&str; 2]| {
        let items = texts.map(output_text);
        response_events(&items).pop().unwrap()["response"].clone()
    };
    for (dialect, answer) in [(MESSAGES, messages(texts)), (RESPONSES, responses(texts))] {
        gate.provider.answers(Answer::json(200, &answer));
        let reply = gate.asks(dialect, &dialect.request("go", false)).await;
        assert!(reply.status >= 500 && !reply.body.contains("ann@"), "{reply:?}");
    }
    gate.provider.answers(Answer::json(200, &messages(["ask ann@example.com. ", "Then go."])));
    let reply = gate.asks(MESSAGES, &MESSAGES.request("on", false)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    gate.checked().await;
}
