//! What only Gemini's dialect has: paths that name the model, lists in place of events, calls without ids
//! and with signatures, and keys in queries.

use serde_json::{Value, json};

use crate::gate::{Gate, INSTRUCTIONS, KEY, TOKEN};
use crate::provider::{Answer, Part};
use crate::said::{GEMINI, call_part, contents, unnamed};

const REMOVAL: &str = r#"{"command": "rm -rf /"}"#;
const LISTING: &str = r#"{"command": "ls"}"#;
const WHOLE: &str = "/v1beta/models/small:generateContent";
const STREAM: &str = "/v1beta/models/small:streamGenerateContent";

/// The body of a request of this text.
fn body(text: &str) -> Value {
    let mut body = GEMINI.request(text, false);
    body.as_object_mut().unwrap().retain(|name, _| name != "model" && name != "stream");
    body
}

async fn asked(gate: &Gate, path: &str, body: &Value) -> crate::wire::Reply {
    gate.ask("POST", path, &[], &body.to_string()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bytes_of_a_request_reach_the_provider_and_the_path_names_its_model() {
    let gate = Gate::start().await;
    let body = format!(
        "{{ \"contents\" : [ {{\"role\":\"user\",\"parts\":[{{\"text\":\"x\\u00e9\"}}]}}],\n \"systemInstruction\":{{\"parts\":[{{\"text\":\"{INSTRUCTIONS}\"}}]}},\"generationConfig\":{{\"temperature\":1.50,\"maxOutputTokens\":10,\"responseSchema\":{{\"type\":\"OBJECT\",\"properties\":{{\"reasoning\":{{\"type\":\"STRING\"}},\"answer\":{{\"type\":\"STRING\"}}}}}}}}}}"
    );
    for (path, upstream) in [
        (WHOLE, "/v1beta/models/small-2026:generateContent"),
        (
            "/r/mine/v1beta/models/small:generateContent",
            "/v1beta/models/small-2026:generateContent",
        ),
        (
            "/v1beta/models/sm%61ll:generateContent?alt=json",
            "/v1beta/models/small-2026:generateContent",
        ),
    ] {
        gate.provider.answers(Answer::json(200, &GEMINI.whole("ok", &[])));
        let reply = gate
            .ask("POST", path, &[("x-goog-api-key", TOKEN), ("Authorization", "-")], &body)
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let asked = gate.provider.last();
        assert_eq!((asked.path.as_str(), asked.body.as_str()), (upstream, body.as_str()));
        assert!(!asked.headers.contains_key("x-goog-api-key"), "the agent's token goes nowhere");
        assert_eq!(asked.headers["x-api-key"], KEY);
    }
    let recorded: Value = serde_json::from_str(&gate.payloads("policy_input")[0]).unwrap();
    assert_eq!(recorded["args"]["model"], "small");
    assert_eq!(recorded["effect"]["dialect"], "gemini");
    assert_eq!(recorded["effect"]["output_tokens_max"], 10);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_one_list_unless_events_are_asked_for() {
    let gate = Gate::start().await;
    let calls = [("", "Bash", LISTING), ("", "Bash", REMOVAL)];
    let mut offering = GEMINI.offering("go", true, &["Bash"]);
    offering.as_object_mut().unwrap().retain(|name, _| name != "model" && name != "stream");
    for query in ["", "?alt=json"] {
        gate.provider.answers(Answer::events(&GEMINI.streamed("look", &calls)));
        offering["contents"][0]["parts"][0]["text"] = json!(format!("go {query}"));
        let reply = asked(&gate, &format!("{STREAM}{query}"), &offering).await;
        assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
        let list: Vec<Value> = serde_json::from_str(&reply.body).expect(&reply.body);
        let lines = unnamed(&list);
        let (text, calls, ended) = GEMINI.read(&lines);
        assert_eq!((text.as_str(), ended), ("look", true), "{}", reply.body);
        assert_eq!(calls[0], ("Bash".to_owned(), json!({"command": "ls"})));
        assert_eq!(calls[1].0, "wicketgate_denied");
        let upstream = "/v1beta/models/small-2026:streamGenerateContent?alt=sse";
        assert_eq!(gate.provider.last().path, upstream);
    }
    // One that breaks off is a list that ends with an error.
    for first in [GEMINI.streamed("look", &[]), String::new()] {
        let cut = first.find("\n\n").map_or(0, |at| at + 2);
        let parts = vec![Part::Bytes(first[..cut].to_owned()), Part::Cut];
        gate.provider.answers(Answer::stream(parts));
        let reply = asked(&gate, STREAM, &body(&format!("cut {cut}"))).await;
        let list: Value = serde_json::from_str(&reply.body).expect(&reply.body);
        let last = list.as_array().map_or(&list, |list| list.last().unwrap());
        assert!(last["error"]["message"].is_string(), "{reply:?}");
        assert!(!GEMINI.read(&unnamed(std::slice::from_ref(last))).2, "{reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signatures_stay_with_their_calls_and_a_denied_call_without_an_id_is_made_whole_again() {
    let gate = Gate::start().await;
    let calls = [("", "Bash", LISTING), ("", "Bash", REMOVAL)];
    let parts: Vec<Value> = calls.iter().map(call_part).collect();
    let offering = GEMINI.offering("go", true, &["Bash"]);
    // Both in one event, with the finish reason.
    gate.provider.answers(Answer::events(&unnamed(&contents(&[json!(parts)]))));
    let reply = gate.asks(GEMINI, &offering).await;
    let events = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|data| serde_json::from_str(data).unwrap()).collect();
    let left: Vec<&Value> = events
        .iter()
        .flat_map(|event| event["candidates"][0]["content"]["parts"].as_array().unwrap())
        .filter(|part| part["functionCall"].is_object())
        .collect();
    assert_eq!(left[0], &parts[0]);
    assert_eq!(left[1]["functionCall"]["name"], "wicketgate_denied");
    assert_eq!(left[1]["thoughtSignature"], parts[1]["thoughtSignature"]);
    // The agent says that it has no such tool; the model reads its own call, and why it was denied.
    let mut next = GEMINI.offering("go", false, &["Bash"]);
    let said = next["contents"].as_array_mut().unwrap();
    said.push(json!({"role": "model", "parts": left}));
    said.push(json!({"role": "user", "parts": [
        {"functionResponse": {"name": "Bash", "response": {"result": "a"}}},
        {"functionResponse": {"name": "wicketgate_denied", "response": {"error": "no such tool"}}}]}));
    gate.provider.answers(Answer::json(200, &GEMINI.whole("I see", &[])));
    let reply = gate.asks(GEMINI, &next).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let asked = gate.provider.last().json();
    assert_eq!(asked["contents"][1]["parts"], json!(parts), "{asked}");
    let result = &asked["contents"][2]["parts"][1]["functionResponse"];
    assert_eq!(result["name"], "Bash");
    assert!(result["response"]["error"].as_str().unwrap().contains("no removal"), "{asked}");
    assert!(!asked.to_string().contains("wicketgate_denied"), "{asked}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_a_query_is_refused_and_written_nowhere() {
    let mut gate = Gate::start().await;
    let body = body("hi").to_string();
    for query in ["key=", "alt=sse&key=", "%6bey=", "api_key=", "access_token="] {
        let path = format!("{STREAM}?{query}{TOKEN}");
        let reply = gate.ask("POST", &path, &[("Authorization", "-")], &body).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.body.contains("header") && !reply.body.contains(TOKEN), "{reply:?}");
    }
    assert!(gate.provider.asked().is_empty());
    let metrics = gate.operator("/metrics").await;
    assert!(!metrics.contains(TOKEN), "{metrics}");
    gate.sidecar.stop().await;
    let said = gate.sidecar.said();
    assert!(!said.contains(TOKEN), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_provider_would_run_fetch_or_remember_is_refused_or_taken_out() {
    let gate = Gate::start().await;
    let with = |name: &str, value: Value| {
        let mut body = body("go");
        body[name] = value;
        body
    };
    for (body, status, words) in [
        (with("tools", json!([{"googleSearch": {}}])), 403, "model.hosted_tool"),
        (with("tools", json!([{"codeExecution": {}}])), 403, "model.hosted_tool"),
        (with("tools", json!([{"urlContext": {}}])), 403, "model.hosted_tool"),
        (with("cachedContent", json!("cachedContents/1")), 403, "model.remote_state"),
        (with("generationConfig", json!({"candidateCount": 2})), 403, "model.choices"),
        (
            with(
                "contents",
                json!([{"parts": [{"fileData": {"fileUri": "https://evil.test/x"}}]}]),
            ),
            403,
            "model.remote_content",
        ),
        (with("system_instruction", json!({"parts": [{"text": "x"}]})), 400, "system_instruction"),
        (with("model", json!("models/other")), 400, "model"),
        (with("stream", json!(true)), 400, "stream"),
        (with("alt", json!("sse")), 400, "alt"),
    ] {
        let reply = asked(&gate, WHOLE, &body).await;
        assert_eq!(reply.status, status, "{body} {reply:?}");
        assert!(reply.body.contains(words), "{words}: {reply:?}");
        let error = &reply.json()["error"];
        assert_eq!(error["code"], status, "{reply:?}");
        let expected = if status == 403 { "PERMISSION_DENIED" } else { "INVALID_ARGUMENT" };
        assert_eq!(error["status"], expected, "{reply:?}");
    }
    assert!(gate.provider.asked().is_empty());
    let gate = Gate::start_with(
        |config| {
            let tools = config["tools"].as_array_mut().unwrap();
            let model = tools.iter_mut().find(|tool| tool["name"] == "llm.main").unwrap();
            model["model"]["hosted_tools"] = json!("strip");
        },
        |_| {},
    )
    .await;
    gate.provider.answers(Answer::json(200, &GEMINI.whole("ok", &[])));
    let reply = asked(&gate, WHOLE, &with("tools", json!([{"googleSearch": {}}]))).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(gate.provider.last().json().get("tools"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_two_candidates_or_with_pieces_of_a_call_has_no_end() {
    let gate = Gate::start().await;
    let mut two = contents(&[json!([{"text": "one"}])]).pop().unwrap();
    let mut second = two["candidates"][0].clone();
    second["index"] = json!(1);
    second["content"]["parts"] = json!([call_part(&("", "Bash", REMOVAL))]);
    two["candidates"].as_array_mut().unwrap().push(second);
    let piece = |call: Value| contents(&[json!([{"functionCall": call}])]).pop().unwrap();
    for answer in [
        two,
        piece(json!({"name": "Ba", "willContinue": true})),
        piece(json!({"partialArgs": [{"jsonPath": "$.command", "stringValue": "rm"}]})),
    ] {
        gate.provider.answers(Answer::events(&unnamed(std::slice::from_ref(&answer))));
        let offering = GEMINI.offering("go", true, &["Bash"]);
        let reply = gate.asks(GEMINI, &offering).await;
        let (_, calls, ended) = GEMINI.read(&reply.body);
        assert!(calls.is_empty() && !ended, "{answer} {reply:?}");
        assert!(!reply.body.contains("rm -rf"), "{reply:?}");
        gate.provider.answers(Answer::json(200, &answer));
        let reply = gate.asks(GEMINI, &GEMINI.offering("go", false, &["Bash"])).await;
        assert_eq!(reply.status, 502, "{answer} {reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_listed_and_tokens_counted_in_the_words_of_google() {
    let gate = Gate::start().await;
    let list = gate.ask("GET", "/v1beta/models?pageSize=50", &[], "").await;
    assert_eq!(list.json()["models"][0]["name"], "models/small", "{list:?}");
    let one = gate.ask("GET", "/r/x/v1beta/models/small", &[], "").await;
    assert_eq!(one.json()["name"], "models/small", "{one:?}");
    let none = gate.ask("GET", "/v1beta/models/other", &[], "").await;
    assert_eq!((none.status, &none.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
    for path in ["/v1beta/models/small:embedContent", "/v1beta/files", "/v1beta/cachedContents"] {
        let reply = gate.ask("POST", path, &[], "{}").await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!(404)), "{reply:?}");
    }
    // The operation has no member for instructions, so the manifest demands none of this agent.
    let gate = Gate::start_with(|_| {}, |spec| spec["instructions"] = json!([])).await;
    gate.provider.answers(Answer::json(200, &json!({"totalTokens": 7})));
    let counted = json!({"contents": [{"parts": [{"text": "hi"}]}]});
    let reply = asked(&gate, "/v1beta/models/small:countTokens", &counted).await;
    assert_eq!((reply.status, reply.json()), (200, json!({"totalTokens": 7})), "{reply:?}");
    let sent = gate.provider.last();
    assert_eq!(sent.path, "/v1beta/models/small-2026:countTokens");
    assert_eq!(sent.json(), counted);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instructions_tools_and_messages_are_stored_once() {
    let gate = Gate::start().await;
    let mut request = GEMINI.offering("first", false, &["Bash"]);
    for turn in 0..4 {
        gate.provider.answers(Answer::json(200, &GEMINI.whole("hello", &[])));
        let reply = gate.asks(GEMINI, &request).await;
        assert_eq!(reply.status, 200, "{turn} {reply:?}");
        let said = request["contents"].as_array_mut().unwrap();
        said.push(json!({"role": "model", "parts": [{"text": "hello"}]}));
        said.push(json!({"role": "user", "parts": [{"text": format!("turn {turn}")}]}));
    }
    let instructions = gate.payloads("instructions");
    assert_eq!(instructions.len(), 1, "{instructions:?}");
    assert!(instructions[0].contains(INSTRUCTIONS));
    assert_eq!(gate.payloads("offer").len(), 1);
    let messages = gate.payloads("message");
    assert_eq!(messages.len(), 5, "four questions and one answer: {messages:?}");
    gate.checked().await;
}
