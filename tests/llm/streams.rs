//! Answers in pieces and in one piece, in every dialect.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gate::{Gate, INSTRUCTIONS, KEY, TOKEN};
use crate::provider::{Answer, Part};
use crate::said::{ALL, CHAT, GEMINI, MESSAGES};
use crate::wire::Event;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_comes_whole_or_in_pieces_as_the_provider_wrote_it() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let whole = dialect.whole("hello", &[]);
        gate.provider.answers(Answer::json(200, &whole));
        let reply = gate.asks(dialect, &dialect.request("hi", false)).await;
        assert_eq!(reply.status, 200, "{} {reply:?}", dialect.name);
        assert_eq!(reply.body, whole.to_string(), "{}", dialect.name);
        assert!(
            reply.header("wicketgate-receipt").is_some()
                && reply.header("wicketgate-run").is_some()
        );

        let stream = dialect.streamed("hello", &[]);
        gate.provider.answers(Answer::of_dialect(dialect, &stream));
        let reply = gate.asks(dialect, &dialect.request("hi again", true)).await;
        assert_eq!(reply.header("content-type"), Some(dialect.media_type()), "{reply:?}");
        assert_eq!(
            dialect.read(&reply.body),
            ("hello".to_owned(), Vec::new(), true),
            "{}",
            dialect.name
        );
        // Clients of the others would read a comment as a part of the answer.
        let has_comments = dialect.has_comments();
        let receipt = reply.body.contains(": wicketgate-receipt seq=");
        assert_eq!(receipt, has_comments, "{}", reply.body);
        let asked = gate.provider.last();
        let of_gemini = asked.path == "/v1beta/models/small-2026:streamGenerateContent?alt=sse";
        assert!(of_gemini || asked.json()["model"] == "small-2026", "the upstream's own id");
        assert_eq!(of_gemini, dialect == GEMINI);
        assert_eq!(asked.headers["x-api-key"], KEY);
        assert!(!asked.headers.contains_key("authorization"), "{:?}", asked.headers);
        assert!(!asked.body.contains(TOKEN));
    }
    let completed = gate.entries("call.completed");
    assert_eq!(completed.len(), 2 * ALL.len());
    for entry in &completed {
        let usage = &entry["data"]["observed"]["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens"]),
            (&json!(12), &json!(3)),
            "{entry}"
        );
        assert_eq!(usage.get("estimated"), None);
        assert_eq!(entry["data"]["observed"]["model"], "small-2026");
    }
    let streams = completed.iter().filter(|entry| entry["data"]["observed"]["stream"].is_object());
    assert_eq!(streams.count(), ALL.len());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agents_own_bytes_reach_the_provider_but_for_what_the_gate_must_change() {
    let gate = Gate::start().await;
    let chat = CHAT;
    let schema = r#"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":"string"}}}"#;
    let body = format!(
        r#"{{ "messages" : [{{"role":"system","content":"{}"}},{{"role":"user","content":"x\u00e9"}}], "model":"small", "max_tokens": 10, "response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}} , "temperature":1.50}}"#,
        INSTRUCTIONS
    );
    gate.provider.answers(Answer::json(200, &chat.whole("ok", &[])));
    let reply = gate.ask("POST", chat.path, &[], &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(gate.provider.last().body, body.replace("\"small\"", "\"small-2026\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_piece_leaves_while_the_provider_still_writes_and_the_end_waits_for_the_ledger() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let text = dialect.streamed("hello", &[]);
        let cut = dialect.end_of(&text, "hello");
        let (first, second) = text.split_at(cut);
        let parts = vec![Part::Bytes(first.to_owned()), Part::Wait, Part::Bytes(second.to_owned())];
        gate.provider.answers(Answer::streams(dialect, parts));
        let (path, body) = dialect.placed(&dialect.request("hi", true));
        let mut wire = gate.begin("POST", &path, &[], &body).await;
        let head = wire.head().await.unwrap();
        assert_eq!(head.status, 200);
        let mut seen = String::new();
        while !seen.contains("hello") {
            seen.push_str(&String::from_utf8(wire.chunk().await.unwrap()).unwrap());
        }
        gate.provider.go();
        while let Some(chunk) = wire.chunk().await {
            seen.push_str(&String::from_utf8(chunk).unwrap());
        }
        assert_eq!(dialect.read(&seen), ("hello".to_owned(), Vec::new(), true), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_leaves_ends_the_call_at_the_provider() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let text = dialect.streamed("hello", &[]);
        let cut = dialect.end_of(&text, "hello");
        let parts = vec![Part::Bytes(text[..cut].to_owned()), Part::Wait, Part::Bytes("x".into())];
        gate.provider.answers(Answer::streams(dialect, parts));
        let (path, body) = dialect.placed(&dialect.request("hi", true));
        let mut wire = gate.begin("POST", &path, &[], &body).await;
        wire.head().await.unwrap();
        wire.chunk().await.unwrap();
        drop(wire);
        gate.provider.left().await;
    }
    let checked = gate.checked().await;
    drop(checked);
}

/// Gives the gate time to notice that a client hung up: it answers other requests meanwhile.
async fn busy(gate: &Gate) {
    for _ in 0..20 {
        assert_eq!(gate.ask("GET", "/v1/models", &[], "").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_when_the_last_request_for_it_leaves_and_not_before() {
    let mut gate = Gate::start().await;
    let chat = CHAT;
    let text = chat.streamed("hello", &[]).replacen("hello", "one", 1);
    let more = chat.streamed("two", &[]);
    let end_of = |text: &str, word: &str| {
        let at = text.find(word).unwrap();
        at + text[at..].find("\n\n").unwrap() + 2
    };
    let parts = [
        text.split_at(end_of(&text, "one")).0.to_owned(),
        more.split_at(end_of(&more, "two")).0.to_owned(),
        text.split_at(end_of(&text, "one")).1.to_owned(),
    ];
    let [first, second, rest] = parts.map(Part::Bytes);
    let all = vec![first, Part::Wait, second, Part::Wait, rest];
    gate.provider.answers(Answer::stream(all));
    let lines = [("Idempotency-Key", "once")];
    let body = chat.request("hi", true).to_string();
    let mut maker = gate.begin("POST", chat.path, &lines, &body).await;
    maker.head().await.unwrap();
    maker.chunk().await.unwrap();
    // They wait for the whole answer, and get a sign of life when that takes long.
    let mut leaves = gate.begin("POST", chat.path, &lines, &body).await;
    let mut stays = gate.begin("POST", chat.path, &lines, &body).await;
    assert_eq!(leaves.head().await.unwrap().status, 200);
    assert_eq!(stays.head().await.unwrap().status, 200);

    drop(leaves);
    busy(&gate).await;
    gate.provider.go();
    let mut seen = String::new();
    while !seen.contains("two") {
        seen.push_str(&String::from_utf8(maker.chunk().await.unwrap()).unwrap());
    }

    drop(maker);
    busy(&gate).await;
    gate.provider.go();
    while stays.chunk().await.is_some() {}
    gate.sidecar.stop().await;
    assert_eq!(gate.entries("call.cancelled"), Vec::<Value>::new());
    let completed = gate.entries("call.completed");
    assert_eq!(completed.len(), 1, "{completed:?}");
    assert!(gate.payloads("result").concat().contains("onetwo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_its_agent_left_is_on_record_as_cancelled() {
    let mut gate = Gate::start().await;
    let chat = CHAT;
    let text = chat.streamed("hello", &[]);
    let cut = text.find("hello").unwrap();
    let cut = cut + text[cut..].find("\n\n").unwrap() + 2;
    gate.provider.answers(Answer::stream(vec![Part::Bytes(text[..cut].to_owned()), Part::Wait]));
    let mut wire = gate.begin("POST", chat.path, &[], &chat.request("hi", true).to_string()).await;
    wire.head().await.unwrap();
    wire.chunk().await.unwrap();
    drop(wire);
    gate.provider.left().await;
    gate.sidecar.stop().await;
    let left = gate.entries("call.cancelled");
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["data"]["reason"], "left");
    assert!(left[0]["data"]["observed"]["usage"]["estimated"] == json!(true), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_listed_in_the_words_of_either_library() {
    let gate = Gate::start().await;
    let reply = gate.ask("GET", "/v1/models", &[], "").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json()["data"][0]["id"], "small");
    assert_eq!(reply.json()["object"], "list");
    let version = [("anthropic-version", "2023-06-01")];
    let reply = gate.ask("GET", "/v1/models", &version, "").await;
    assert_eq!(reply.json()["data"][0]["type"], "model", "{reply:?}");
    let one = gate.ask("GET", "/v1/models/small", &[], "").await;
    assert_eq!(one.json()["id"], "small");
    assert_eq!(gate.ask("GET", "/v1/models/other", &[], "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_counted_by_the_provider_as_a_governed_call() {
    let gate = Gate::start().await;
    gate.provider.answers(Answer::json(200, &json!({"input_tokens": 7})));
    let messages = MESSAGES;
    let mut body = messages.request("hi", false);
    body.as_object_mut().unwrap().remove("max_tokens");
    body.as_object_mut().unwrap().remove("stream");
    let reply =
        gate.ask("POST", "/v1/messages/count_tokens?beta=true", &[], &body.to_string()).await;
    assert_eq!((reply.status, reply.json()), (200, json!({"input_tokens": 7})), "{reply:?}");
    assert_eq!(gate.provider.last().path, "/v1/messages/count_tokens?beta=true");
    let usage: &Value = &gate.entries("call.completed")[0]["data"]["observed"]["usage"];
    assert_eq!(usage["output_tokens"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_price_of_each_call_is_none_of_counting_tokens() {
    let gate = Gate::start_with(
        |config| {
            let tools = config["tools"].as_array_mut().unwrap();
            let model = tools.iter_mut().find(|tool| tool["name"] == "llm.main").unwrap();
            model["cost_micro_usd"] = json!(5000);
        },
        |_| {},
    )
    .await;
    let messages = MESSAGES;
    let body = messages.request("hi", false);
    gate.provider.answers(Answer::json(200, &messages.whole("hello", &[])));
    assert_eq!(gate.asks(messages, &body).await.status, 200);
    let mut counted = body;
    counted.as_object_mut().unwrap().remove("max_tokens");
    counted.as_object_mut().unwrap().remove("stream");
    let path = "/v1/messages/count_tokens";
    for answer in
        [Answer::json(200, &json!({"input_tokens": 7})), Answer::of(404, "text/plain", "no")]
    {
        gate.provider.answers(answer);
        gate.ask("POST", path, &[], &counted.to_string()).await;
        counted["messages"][0]["content"] = json!("hi again");
    }
    let ended = [gate.entries("call.completed"), gate.entries("call.failed")].concat();
    let costs = ended.iter().map(|entry| &entry["data"]["observed"]["usage"]["cost_micro_usd"]);
    assert_eq!(costs.collect::<Vec<_>>(), [&json!(5000), &json!(0), &json!(0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_queries_only_the_preview_of_messages_reaches_the_provider() {
    let gate = Gate::start().await;
    for dialect in ALL {
        for query in ["", "?beta=true"] {
            let (at, body) = dialect.placed(&dialect.request("hi", false));
            let path = format!("{at}{query}");
            if !query.is_empty() && dialect == GEMINI {
                // Its query says how an answer is framed, and nothing else.
                let reply = gate.ask("POST", &path, &[], &body).await;
                assert_eq!(reply.status, 400, "{path} {reply:?}");
                continue;
            }
            gate.provider.answers(Answer::json(200, &dialect.whole("ok", &[])));
            let reply = gate.ask("POST", &path, &[], &body).await;
            assert_eq!(reply.status, 200, "{path} {reply:?}");
            let passes = dialect == MESSAGES;
            let expected = if passes { path } else { at.replace("/small:", "/small-2026:") };
            assert_eq!(gate.provider.last().path, expected);
        }
    }
    let messages = MESSAGES;
    let body = messages.request("hi", false).to_string();
    for query in ["?beta=false", "?beta=true&api_key=x", "?x"] {
        let path = format!("{}{query}", messages.path);
        assert_eq!(gate.ask("POST", &path, &[], &body).await.status, 400, "{path}");
    }
}

/// Asks for a stream in a run of its own, and follows the call until so many bytes are recorded: the
/// names of the events up to there, and the last one.
async fn followed(gate: &Gate, parts: Vec<Part>, bytes: u64) -> (Vec<String>, Event) {
    let chat = CHAT;
    let sha256 = hex::encode(Sha256::digest(INSTRUCTIONS));
    let claims = json!({"model": "small", "instructions_sha256": [sha256]});
    let run = gate.ask("POST", "/gate/v1/runs", &[], &claims.to_string()).await;
    assert_eq!(run.status, 201, "{run:?}");
    let bearer = format!("Bearer {}", run.json()["run_token"].as_str().unwrap());
    gate.provider.answers(Answer::stream(parts));
    let own = [("Authorization", bearer.as_str())];
    let body = chat.request("hi", true).to_string();
    let mut wire = gate.begin("POST", chat.path, &own, &body).await;
    let head = wire.head().await.unwrap();
    let call = head.header("wicketgate-call").expect("the id of the call").to_owned();
    let own = [("Authorization", bearer.as_str()), ("Accept", "text/event-stream")];
    let path = format!("/gate/v1/calls/{call}/events");
    let mut follower = gate.begin("GET", &path, &own, "").await;
    assert_eq!(follower.head().await.unwrap().status, 200);
    let reading = tokio::spawn(async move { while wire.chunk().await.is_some() {} });
    let mut kept = String::new();
    let mut names = Vec::new();
    let progress = loop {
        let event = follower.named_event(&mut kept).await.expect("another event");
        names.push(event.name.clone());
        if event.data["bytes"].as_u64().is_some_and(|recorded| recorded >= bytes) {
            break event;
        }
    };
    assert_eq!(progress.data["call_id"], json!(call));
    reading.abort();
    (names, progress)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_follows_a_call_reads_how_much_of_its_answer_left() {
    let gate = Gate::start().await;
    // More than the bytes after which progress is recorded.
    let deltas: Vec<_> =
        (0..64).map(|_| json!({"content": "one word after another ".repeat(360)})).collect();
    let text = crate::said::chunks(&deltas, "stop");
    let end = text.find("\"finish_reason\":\"stop\"").unwrap();
    let end = text[..end].rfind("\n\n").unwrap() + 2;
    let parts = vec![Part::Bytes(text[..end].to_owned()), Part::Wait];
    let (names, progress) = followed(&gate, parts, 256 * 1024).await;
    assert_eq!(names[0], "authorized");
    assert!(names[1..].iter().all(|name| name == "progress"), "{names:?}");
    let recorded = gate.entries("call.progress");
    let entry = recorded.iter().find(|entry| entry["run_seq"].as_u64() == progress.id);
    assert_eq!(entry.expect("its entry")["data"]["bytes"], progress.data["bytes"]);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_left_is_recorded_although_the_provider_falls_silent() {
    let gate = Gate::start().await;
    let text = CHAT.streamed("hello", &[]);
    let cut = text.find("hello").unwrap();
    let cut = cut + text[cut..].find("\n\n").unwrap() + 2;
    let parts = vec![Part::Bytes(text[..cut].to_owned()), Part::Wait];
    let (_, progress) = followed(&gate, parts, cut as u64).await;
    assert_eq!(
        (progress.name.as_str(), progress.data["bytes"].as_u64()),
        ("progress", Some(cut as u64))
    );
    gate.checked().await;
}
