//! Providers that break off or lie, and a ledger that stops: an answer never has a clean end then.

use serde_json::{Value, json};

use crate::gate::{Gate, KEY};
use crate::provider::{Answer, Part};
use crate::said::{ALL, CHAT, GEMINI, RESPONSES};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_cut_at_any_frame_has_no_end_and_no_call_that_was_not_complete() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let text = dialect.streamed("look", &[("c1", "Bash", r#"{"command": "ls"}"#)]);
        let end = dialect.event_end();
        let ends: Vec<usize> = text.match_indices(end).map(|(at, _)| at + end.len()).collect();
        // The last frame of each dialect is its end.
        for (number, end) in ends[..ends.len() - 1].iter().enumerate() {
            let mut parts = vec![Part::Bytes(text[..*end].to_owned())];
            if number % 2 == 0 {
                parts.push(Part::Cut);
            }
            gate.provider.answers(Answer::streams(dialect, parts));
            let mut body = dialect.offering(&format!("go {number}"), true, &["Bash"]);
            body["stream"] = json!(true);
            let reply = gate.asks(dialect, &body).await;
            let (_, calls, ended) = dialect.read(&reply.body);
            assert!(!ended, "{} {number}: {}", dialect.name, reply.body);
            assert!(calls.len() <= 1, "{}", reply.body);
            if let Some((name, arguments)) = calls.first() {
                assert_eq!((name.as_str(), arguments), ("Bash", &json!({"command": "ls"})));
            }
        }
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_event_that_ends_a_response_that_fails_has_its_id_and_the_next_number() {
    let gate = Gate::start().await;
    let responses = RESPONSES;
    let text = responses.streamed("look", &[]);
    let cut = text.find("response.output_text.done").unwrap();
    let cut = text[..cut].rfind("\n\n").unwrap() + 2;
    gate.provider.answers(Answer::stream(vec![Part::Bytes(text[..cut].to_owned()), Part::Cut]));
    let reply = gate.asks(responses, &responses.request("go", true)).await;
    let data = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed", "{}", reply.body);
    assert_eq!(last["response"]["id"], "resp_1");
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(number), "{}", reply.body);
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_in_place_of_an_answer_is_a_failure_of_the_tool() {
    let gate = Gate::start().await;
    for dialect in ALL {
        for stream in [true, false] {
            gate.provider.answers(Answer::of(200, "text/html", "<html>please log in</html>"));
            let reply = gate.asks(dialect, &dialect.request("hi", stream)).await;
            assert_eq!(reply.status, 502, "{reply:?}");
            assert!(
                reply.body.contains("text/html") && !reply.body.contains("log in"),
                "{reply:?}"
            );
        }
        let mut moved = Answer::of(302, "text/plain", "");
        moved.headers.push(("location", "http://127.0.0.1:1/"));
        gate.provider.answers(moved);
        let reply = gate.asks(dialect, &dialect.request("hi", true)).await;
        assert_eq!((reply.status, reply.header("location")), (502, None), "{reply:?}");
        assert!(reply.body.contains("redirects are not followed"), "{reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_an_encoding_that_nobody_asked_for_is_a_failure_of_the_tool() {
    let gate = Gate::start().await;
    for dialect in ALL {
        for (stream, kind) in [(true, dialect.media_type()), (false, "application/json")] {
            let mut encoded = Answer::of(200, kind, "{}");
            encoded.headers.push(("content-encoding", "gzip"));
            gate.provider.answers(encoded);
            let reply = gate.asks(dialect, &dialect.request("hi", stream)).await;
            assert_eq!(reply.status, 502, "{reply:?}");
            assert!(reply.body.contains("content-encoding: gzip"), "{reply:?}");
        }
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_answer_ends_although_its_provider_does_not_hang_up() {
    let gate = Gate::start().await;
    // Only the end of the connection ends an answer of Gemini.
    for dialect in ALL.into_iter().filter(|dialect| *dialect != GEMINI) {
        let text = dialect.streamed("look", &[]);
        gate.provider.answers(Answer::streams(dialect, vec![Part::Bytes(text), Part::Wait]));
        let reply = gate.asks(dialect, &dialect.request("hi", true)).await;
        let (text, calls, ended) = dialect.read(&reply.body);
        assert!(ended && calls.is_empty() && text == "look", "{}: {}", dialect.name, reply.body);
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_with_a_credential_of_the_gate_does_not_go_down() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let mut answer = Answer::of_dialect(dialect, &dialect.streamed("look", &[]));
        answer.headers.push(("x-ratelimit-key", KEY));
        answer.headers.push(("x-request-id", "r-1"));
        gate.provider.answers(answer);
        let reply = gate.asks(dialect, &dialect.request("hi", true)).await;
        assert_eq!(reply.header("x-request-id"), Some("r-1"), "{reply:?}");
        assert_eq!(reply.header("x-ratelimit-key"), None, "{reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_entry_names_every_upstream_that_was_asked_and_what_it_said() {
    let gate = Gate::start_with(
        |config| {
            let tools = config["tools"].as_array_mut().unwrap();
            let model = tools.iter_mut().find(|tool| tool["name"] == "llm.main").unwrap();
            let upstreams = model["model"]["upstreams"].as_array_mut().unwrap();
            let mut nobody = upstreams[0].clone();
            nobody["name"] = json!("nobody");
            // Nothing listens there.
            nobody["url"] = json!("http://127.0.0.1:1/v1");
            let mut second = upstreams[0].clone();
            second["name"] = json!("second");
            upstreams.insert(0, nobody);
            upstreams.push(second);
        },
        |_| {},
    )
    .await;
    let chat = CHAT;
    for stream in [false, true] {
        gate.provider.answers(Answer::json(503, &json!({"error": {"message": "full"}})));
        gate.provider.answers(match stream {
            true => Answer::events(&chat.streamed("hello", &[])),
            false => Answer::json(200, &chat.whole("hello", &[])),
        });
        let reply = gate.asks(chat, &chat.request("hi", stream)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let completed = gate.entries("call.completed");
    assert_eq!(completed.len(), 2);
    for entry in &completed {
        let observed = &entry["data"]["observed"];
        let attempts = observed["attempts"].as_array().expect("the upstreams that were asked");
        let said: Vec<_> = attempts
            .iter()
            .map(|one| (one["upstream"].as_str().unwrap(), one["status"].as_str().unwrap()))
            .collect();
        assert_eq!(said, [("nobody", "connect"), ("chat", "503"), ("second", "200")], "{entry}");
        assert!(attempts.iter().all(|one| one["ms"].is_u64()), "{entry}");
        assert_eq!(observed["usage"]["upstream"], "second");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_killed_in_a_stream_closes_the_call_as_unknown_with_what_had_left() {
    let mut gate = Gate::start().await;
    let chat = CHAT;
    // More than the bytes after which progress is recorded.
    let long = "one word after another ".repeat(360);
    let deltas: Vec<_> = (0..64).map(|_| json!({"content": long})).collect();
    let text = crate::said::chunks(&deltas, "stop");
    let cut = text.find("\"finish_reason\":\"stop\"").unwrap();
    let cut = text[..cut].rfind("\n\n").unwrap() + 2;
    gate.provider.answers(Answer::stream(vec![Part::Bytes(text[..cut].to_owned()), Part::Wait]));
    let mut wire = gate.begin("POST", chat.path, &[], &chat.request("hi", true).to_string()).await;
    wire.head().await.unwrap();
    let mut read = 0;
    while read < 64 * long.len() {
        read += wire.chunk().await.unwrap().len();
    }
    gate.sidecar.kill();
    gate.sidecar = gate.estate.serve().await;
    let progress = gate.entries("call.progress");
    let covered = &progress.last().expect("what had left is recorded")["data"]["bytes"];
    let unknown = gate.entries("call.unknown");
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0]["data"]["covered_bytes"], *covered);
    gate.checked().await;
}
