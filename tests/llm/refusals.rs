//! Requests that do not reach a provider, and errors of providers.

use serde_json::json;

use crate::gate::{Gate, KEY, TOKEN};
use crate::masking::around_a_call;
use crate::provider::Answer;
use crate::said::{ALL, CHAT};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_comes_in_one_place() {
    let gate = Gate::start().await;
    let chat = CHAT;
    let body = chat.request("hi", false).to_string();
    for lines in [
        vec![("Authorization", "-")],
        vec![("x-api-key", TOKEN)],
        vec![("Authorization", "Basic x")],
        vec![("Authorization", "-"), ("x-api-key", "another-token-0123456789abcdef0123456789")],
    ] {
        let reply = gate.ask("POST", chat.path, &lines, &body).await;
        assert!([400, 401].contains(&reply.status), "{lines:?} {reply:?}");
        assert!(reply.json()["error"]["message"].is_string(), "{reply:?}");
    }
    for header in ["x-api-key", "x-goog-api-key"] {
        gate.provider.answers(Answer::json(200, &chat.whole("ok", &[])));
        let lines = [("Authorization", "-"), (header, TOKEN)];
        let reply = gate.ask("POST", chat.path, &lines, &body).await;
        assert_eq!(reply.status, 200, "{header} {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_gate_does_not_serve_is_not_found_in_the_dialects_words() {
    let gate = Gate::start().await;
    for path in [
        "/v1/files",
        "/v1/embeddings",
        "/v1/completions",
        "/v1/responses/resp_1",
        "/v1//chat/completions",
        "/v1/../admin",
        "/v1/chat/completions/",
        "/V1/chat/completions",
        "/r/x/v1/files",
        "/r//v1/models",
    ] {
        let reply = gate.ask("POST", path, &[], "{}").await;
        assert_eq!(reply.status, 404, "{path} {reply:?}");
    }
    let reply = gate.ask("GET", "/v1/chat/completions", &[], "").await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_another_shape_is_named_and_asks_nobody() {
    let gate = Gate::start().await;
    let chat = CHAT;
    let with = |name: &str, value: serde_json::Value| {
        let mut body = chat.request("hi", false);
        body[name] = value;
        body.to_string()
    };
    for (body, status, words) in [
        (with("n", json!(2)), 403, "model.choices"),
        (with("nobody_knows", json!(1)), 400, "nobody_knows"),
        (with("tools", json!([{"type": "web_search"}])), 403, "model.hosted_tool"),
        ("{".to_owned(), 400, "json"),
        (r#"{"model":"small","model":"small","messages":[]}"#.to_owned(), 400, "duplicate"),
    ] {
        let reply = gate.ask("POST", chat.path, &[], &body).await;
        assert_eq!(reply.status, status, "{body} {reply:?}");
        assert!(reply.body.contains(words), "{words}: {reply:?}");
    }
    assert!(gate.provider.asked().is_empty());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_provider_keeps_its_status_and_its_words() {
    let gate = Gate::start().await;
    for dialect in ALL {
        for (status, retry) in [(400, None), (404, None), (429, Some("7"))] {
            let mut answer =
                Answer::json(status, &json!({"error": {"message": "too much of it", "type": "x"}}));
            if retry.is_some() {
                answer.headers.push(("retry-after", "7"));
            }
            gate.provider.answers(answer);
            let reply = gate.asks(dialect, &dialect.request("hi", true)).await;
            assert_eq!(reply.status, status, "{reply:?}");
            assert!(reply.body.contains("too much of it"), "{reply:?}");
            assert_eq!(reply.header("retry-after"), retry, "{reply:?}");
        }
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_credential_leaves_that_goes_on_behind_a_tool_call() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let (first, rest) = KEY.split_at(KEY.len() - 4);
        let stream = around_a_call(dialect, (&format!("see {first}"), rest));
        gate.provider.answers(Answer::of_dialect(dialect, &stream));
        let reply = gate.asks(dialect, &dialect.offering("tell me", true, &["Bash"])).await;
        let (text, calls, ended) = dialect.read(&reply.body);
        assert_eq!((text.as_str(), calls, ended), ("", Vec::new(), false), "{reply:?}");
        assert!(!reply.body.contains(&KEY[..8]), "{}: {}", dialect.name, reply.body);
    }
    // One that only begins like it leaves, and the tool call behind it.
    for dialect in ALL {
        let stream = around_a_call(dialect, ("see sk-provider-01", "9 or so"));
        gate.provider.answers(Answer::of_dialect(dialect, &stream));
        let reply = gate.asks(dialect, &dialect.offering("and", true, &["Bash"])).await;
        let (text, calls, ended) = dialect.read(&reply.body);
        assert_eq!((text.as_str(), ended), ("see sk-provider-019 or so", true), "{reply:?}");
        assert_eq!(calls.len(), 1, "{reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_of_the_gate_leaves_in_no_stream_however_it_is_cut() {
    let gate = Gate::start().await;
    for dialect in ALL {
        let text = dialect.streamed("SPLIT", &[]);
        let at = text.find("SPLIT").unwrap();
        let end = dialect.event_end();
        let event_start = text[..at].rfind(end).map_or(0, |at| at + end.len());
        let event_end = dialect.end_of(&text, "SPLIT");
        let event = &text[event_start..event_end];
        let (first, second) = KEY.split_at(KEY.len() / 2);
        let both = event.replace("SPLIT", first) + &event.replace("SPLIT", second);
        let all = text.replace(event, &both);
        gate.provider.answers(Answer::of_dialect(dialect, &all));
        let reply = gate.asks(dialect, &dialect.request("tell me", true)).await;
        assert!(!reply.body.contains(&KEY[..8]), "{}: {}", dialect.name, reply.body);
        let (_, _, ended) = dialect.read(&reply.body);
        assert!(!ended, "{}", reply.body);
    }
    gate.checked().await;
}
