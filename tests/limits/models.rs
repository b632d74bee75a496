//! Models as governed tools, against scripted servers: what is sent, what is counted, what is refused.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::collector::{Collector, attribute};
use crate::private::private;
use crate::settings::{entries, limits};
use crate::sidecar::Estate;
use crate::tool::Tool;

const QUESTION: &str =
    r#"{"model":"small","messages":[{"role":"user","content":"hello"}],"max_output_tokens":100}"#;
const SECRET: &str = "sk-test-0123456789abcdef";

/// A server of models that answers what it was told to, the last answer again and again.
#[derive(Clone)]
pub struct Server {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<VecDeque<(u16, String)>>,
    seen: Mutex<Vec<(HeaderMap, Value)>>,
    bodies: Mutex<Vec<String>>,
}

impl Server {
    pub async fn start(answers: &[(u16, Value)]) -> Self {
        let shared = Arc::new(Shared::default());
        shared.answers.lock().extend(answers.iter().map(|(code, body)| (*code, body.to_string())));
        let routes = Router::new()
            .route("/v1/chat/completions", post(answer))
            .route("/api/chat", post(answer))
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { port, shared }
    }

    pub fn seen(&self) -> usize {
        self.shared.seen.lock().len()
    }

    pub fn asked(&self, at: usize) -> (HeaderMap, Value) {
        self.shared.seen.lock()[at].clone()
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, [(&'static str, &'static str); 1], String) {
    shared.seen.lock().push((headers, serde_json::from_str(&body).unwrap()));
    shared.bodies.lock().push(body);
    let mut answers = shared.answers.lock();
    let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
    let (code, body) = next.unwrap();
    (StatusCode::from_u16(code).unwrap(), [("content-type", "application/json")], body)
}

pub fn completion(text: &str, input: u64, output: u64) -> Value {
    json!({"id": "x", "object": "chat.completion", "model": "small-2026", "choices": [{"index": 0,
        "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}})
}

pub fn place(name: &str, port: u16) -> Value {
    json!({"name": name, "api": "openai", "url": format!("http://127.0.0.1:{port}/v1"),
        "models": {"small": "small-2026"}, "private_addresses": ["127.0.0.0/8"]})
}

/// An estate whose `work.do` is a model at these places.
pub async fn estate(places: Value) -> Estate {
    let estate = Estate::sqlite(&Tool::start().await);
    estate.configure(|config| {
        config["tools"][0] = json!({"name": "work.do", "description": "asks a model", "kind": "model",
            "tier": "T1", "model": {"output_tokens_max": 200, "upstreams": places}});
    });
    estate
}

fn usages(estate: &Estate, kind: &str) -> Vec<Value> {
    entries(estate, kind)
        .into_iter()
        .map(|entry| entry["data"]["observed"]["usage"].clone())
        .collect()
}

async fn ask(agent: &Agent, id: &str) -> Result<Value, crate::agent::Refused> {
    let answer = agent.call("work.do", id, QUESTION).await?;
    Ok(serde_json::from_str(&answer).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_answer_reports_its_usage_and_the_ledger_records_it() {
    let server = Server::start(&[(200, completion("hi", 12, 3))]).await;
    let mut main = place("main", server.port);
    main["price"] = json!({"input": 250_000, "output": 2_000_000});
    let estate = estate(json!([main])).await;
    limits(&estate, r#"{"calls": 500}"#);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let said = ask(&agent, "a").await.unwrap();
    assert_eq!(said["message"], json!({"role": "assistant", "content": "hi"}));
    assert_eq!((&said["model"], &said["upstream"]), (&json!("small-2026"), &json!("main")));
    let used = json!({"input_tokens": 12, "output_tokens": 3, "cost_micro_usd": 9});
    assert_eq!(said["usage"], used);
    let (_, sent) = server.asked(0);
    assert_eq!(
        sent,
        json!({"model": "small-2026", "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 100, "n": 1, "stream": false})
    );
    sidecar.stop().await;
    let mut booked = used;
    booked["upstream"] = json!("main");
    assert_eq!(usages(&estate, "call.completed"), [booked]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_upstream_is_tried_only_if_the_previous_one_does_not_work() {
    let nobody = wicketgate_support::ports::Port::claim();
    let busy = Server::start(&[(429, json!({})), (503, json!({})), (400, json!({}))]).await;
    let good = Server::start(&[(200, completion("hi", 5, 5))]).await;
    let places =
        json!([place("off", nobody.number()), place("busy", busy.port), place("good", good.port)]);
    let estate = estate(places).await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for id in ["a", "b"] {
        assert_eq!(ask(&agent, id).await.unwrap()["upstream"], "good");
    }
    // 400: it works, and says that the question is wrong.
    assert_eq!(ask(&agent, "c").await.unwrap_err().code, "tool.failed");
    assert_eq!((busy.seen(), good.seen()), (3, 2));
    sidecar.stop().await;
    let failed = usages(&estate, "call.failed");
    assert_eq!(failed, [json!({"upstream": "busy", "input_tokens": 0, "output_tokens": 0})]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_question_to_a_model_is_a_span_with_its_tokens_and_without_its_texts() {
    let busy = Server::start(&[(503, json!({}))]).await;
    let good = Server::start(&[(200, completion("hi there", 12, 3))]).await;
    let estate = estate(json!([place("busy", busy.port), place("good", good.port)])).await;
    let collector = Collector::default();
    let port = collector.serve(None).await.port();
    estate.configure(|config| {
        config["telemetry"]["otlp"] = json!({"endpoint": format!("http://127.0.0.1:{port}"),
            "private_addresses": ["127.0.0.0/8"]});
    });
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    ask(&agent, "a").await.unwrap();
    let page = sidecar.metrics().await;
    for (direction, tokens) in [("input", 12), ("output", 3)] {
        let line = format!(
            r#"wicketgate_model_tokens_total{{tool="work.do",direction="{direction}"}} {tokens}"#
        );
        assert!(page.contains(&line), "{page}");
    }
    sidecar.stop().await;
    let (spans, tool) = (collector.spans(), collector.span("tool"));
    let mut chats: Vec<_> = spans.iter().filter(|span| span.name == "chat small-2026").collect();
    chats.sort_by_key(|span| span.start_time_unix_nano);
    let [failed, answered] = chats.as_slice() else { panic!("{spans:?}") };
    for (span, port) in [(failed, busy.port), (answered, good.port)] {
        // A client's span, below the stage of the tool.
        assert_eq!((&span.parent_span_id, span.kind), (&tool.span_id, 3));
        for (key, value) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.request.model", "small-2026"),
            ("server.address", "127.0.0.1"),
            ("server.port", &port.to_string()),
        ] {
            assert_eq!(attribute(&span.attributes, key).as_deref(), Some(value), "{key}");
        }
    }
    for (key, value) in [
        ("gen_ai.response.model", "small-2026"),
        ("gen_ai.response.finish_reasons", "stop"),
        ("gen_ai.usage.input_tokens", "12"),
        ("gen_ai.usage.output_tokens", "3"),
    ] {
        assert_eq!(attribute(&answered.attributes, key).as_deref(), Some(value), "{key}");
        assert_eq!(attribute(&failed.attributes, key), None, "{key}");
    }
    assert_eq!(attribute(&answered.attributes, "error.type"), None);
    assert_eq!(attribute(&failed.attributes, "error.type").as_deref(), Some("tool_error"));
    let sent = format!("{:?} {:?}", collector.traces.lock(), collector.logs.lock());
    assert!(!sent.contains("hello") && !sent.contains("hi there"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_never_pass_the_manifests_limit_and_a_restart_forgets_none() {
    // Each call reads 70 and writes 30; before it is asked, its bytes and 100 are set aside.
    let server = Server::start(&[(200, completion("hi", 70, 30))]).await;
    let estate = estate(json!([place("main", server.port)])).await;
    let bound = u64::try_from(QUESTION.len()).unwrap() + 100;
    limits(&estate, &format!(r#"{{"tokens": {}}}"#, 300 + bound));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for id in ["a", "b", "c"] {
        ask(&agent, id).await.unwrap();
    }
    sidecar.kill();
    let mut sidecar = estate.serve().await;
    ask(&agent, "d").await.unwrap();
    let refused = ask(&agent, "e").await.unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.detail.as_str()),
        ("limit.exceeded", "limit.tokens")
    );
    // A tool that is no model has no tokens.
    agent.call("work.held", "f", "{}").await.unwrap_err();
    assert_eq!(server.seen(), 4);
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_set_aside_for_what_it_may_cost_and_not_for_its_bytes() {
    let server = Server::start(&[(200, completion("hi", 70, 30))]).await;
    let mut main = place("main", server.port);
    main["output_tokens_field"] = json!("max_completion_tokens");
    let estate = estate(json!([main])).await;
    estate.configure(|config| config["tools"][0]["model"]["image_tokens_max"] = json!(6000));
    limits(&estate, r#"{"tokens": 10000}"#);
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let seen =
        r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}"#;
    let question = |images: &[&str]| {
        let images = images.join(",");
        format!(
            r#"{{"model":"small","messages":[{{"role":"user","content":[{images}]}}],"max_output_tokens":100}}"#
        )
    };
    agent.call("work.do", "a", &question(&[seen])).await.unwrap();
    let (_, sent) = server.asked(0);
    assert_eq!(sent["max_completion_tokens"], 100);
    assert_eq!(sent["messages"][0]["content"][0]["image_url"]["detail"], "low");
    let refused = agent.call("work.do", "b", &question(&[seen, seen])).await.unwrap_err();
    assert_eq!(refused.detail, "limit.tokens");
    assert_eq!(server.seen(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_set_aside_by_as_many_bytes_a_token_as_the_binding_says() {
    let server = Server::start(&[(200, completion("hi", 7, 3))]).await;
    let estate = estate(json!([place("main", server.port)])).await;
    limits(&estate, r#"{"tokens": 1000}"#);
    let text = "word ".repeat(400);
    let question = json!({"model": "small", "max_output_tokens": 10,
        "messages": [{"role": "user", "content": text}]})
    .to_string();
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let refused = agent.call("work.do", "a", &question).await.unwrap_err();
    assert_eq!(refused.detail, "limit.tokens");
    sidecar.stop().await;
    estate.configure(|config| config["tools"][0]["model"]["reserve_bytes_per_token"] = json!(4));
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "b", &question).await.unwrap();
    assert_eq!(server.seen(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_take_no_more_than_their_pool_of_tokens_has() {
    let server = Server::start(&[(200, completion("hi", 70, 30))]).await;
    let estate = estate(json!([place("main", server.port)])).await;
    estate.configure(|config| {
        config["pools"] = json!([{"name": "all", "unit": "tokens", "per": "none", "size": 1000}]);
    });
    let mut sidecar = estate.serve().await;
    let agent = Arc::new(sidecar.open().await);
    let calls = (0..50).map(|i| {
        let agent = Arc::clone(&agent);
        tokio::spawn(async move { ask(&agent, &format!("c{i}")).await })
    });
    let mut answered = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            // The store was asked by many at once: nothing ran, and it may be asked again.
            Err(refused) if refused.code == "ledger.unavailable" => {}
            Err(refused) => {
                let said = (refused.code.as_str(), refused.detail.as_str());
                assert_eq!(said, ("limit.exceeded", "limit.pool.all"));
            }
        }
    }
    // One after the other, what each gave back is there for the next: until no question fits any more.
    for i in 0.. {
        match ask(&agent, &format!("d{i}")).await {
            Ok(_) => answered += 1,
            Err(refused) if refused.code == "ledger.unavailable" => {}
            Err(_) => break,
        }
    }
    let bound = u64::try_from(QUESTION.len()).unwrap() + 100;
    assert!(answered * 100 <= 1000 && (answered * 100 + bound) > 1000, "{answered}");
    assert_eq!(server.seen(), usize::try_from(answered).unwrap());
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_provider_would_do_on_its_own_is_denied_and_nothing_is_sent() {
    let server = Server::start(&[(200, completion("hi", 1, 1))]).await;
    let estate = estate(json!([place("main", server.port)])).await;
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for (id, more, detail) in [
        ("a", r#""tools":[{"type":"web_search"}]"#, "model.hosted_tool"),
        ("b", r#""web_search_options":{}"#, "schema.additional_properties"),
        ("c", r#""stream":true"#, "schema.additional_properties"),
        ("d", r#""max_output_tokens":201"#, "schema.maximum"),
    ] {
        let question =
            format!(r#"{{"model":"small","messages":[{{"role":"user","content":"x"}}],{more}}}"#);
        let refused = agent.call("work.do", id, &question).await.unwrap_err();
        let schema = detail.starts_with("schema.");
        let code = if schema { "arguments.invalid" } else { "effect.refused" };
        assert_eq!((refused.code.as_str(), refused.detail.as_str()), (code, detail), "{more}");
    }
    let image = r#"{"model":"small","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}"#;
    assert_eq!(agent.call("work.do", "e", image).await.unwrap_err().detail, "model.remote_content");
    let other = QUESTION.replace("small", "large");
    assert_eq!(agent.call("work.do", "f", &other).await.unwrap_err().detail, "schema.enum");
    assert_eq!(server.seen(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_credential_reaches_the_model_and_is_redacted_from_its_answer() {
    let server = Server::start(&[(200, completion(&format!("your key is {SECRET}"), 1, 1))]).await;
    let mut main = place("main", server.port);
    main["credentials"] =
        json!([{"header": "authorization", "prefix": "Bearer ", "file": "model.key"}]);
    let estate = estate(json!([main])).await;
    private(estate.path("model.key"), SECRET);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let said = ask(&agent, "a").await.unwrap();
    assert_eq!(said["message"]["content"], "your key is [REDACTED:credential]");
    let (headers, sent) = server.asked(0);
    assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
    assert!(!sent.to_string().contains(SECRET));
    sidecar.stop().await;
    assert!(!sidecar.said().contains(SECRET));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_may_have_cost_all_that_was_possible() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The question is read, and there is no answer.
            let _ = stream.readable().await;
            let _ = stream.try_read(&mut [0; 65_536]);
        }
    });
    let good = Server::start(&[(200, completion("hi", 5, 5))]).await;
    let estate = estate(json!([place("lost", port), place("good", good.port)])).await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    assert_eq!(ask(&agent, "a").await.unwrap_err().code, "tool.failed");
    assert_eq!(good.seen(), 0, "it may have been answered");
    sidecar.stop().await;
    let read = QUESTION.len();
    let canonical =
        json!({"upstream": "lost", "input_tokens": read, "output_tokens": 100, "estimated": true});
    assert_eq!(usages(&estate, "call.failed"), [canonical]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ollama_server_is_called_with_its_own_api() {
    let answer = json!({"model": "llama", "message": {"role": "assistant", "content": "hi"}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2});
    let server = Server::start(&[(200, answer)]).await;
    let mut local = place("local", server.port);
    local["api"] = json!("ollama");
    local["url"] = json!(format!("http://127.0.0.1:{}", server.port));
    local["models"] = json!({"small": "llama"});
    let estate = estate(json!([local])).await;
    let mut sidecar = estate.serve().await;
    let said = ask(&sidecar.open().await, "a").await.unwrap();
    assert_eq!(
        (&said["message"]["content"], &said["usage"]["output_tokens"]),
        (&json!("hi"), &json!(2))
    );
    assert_eq!(server.asked(0).1["options"], json!({"num_predict": 100}));
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_is_bound_wrongly_is_named_with_its_place_in_the_file() {
    for (change, said) in [
        (
            json!({"url": "http://10.0.0.1/v1"}),
            "model.upstreams[0].url: `10.0.0.1` is not on the public",
        ),
        (json!({"url": "https://{host}.test/v1"}), "model.upstreams[0].url: "),
        (json!({"api": "bedrock"}), "model.upstreams[0].api: `bedrock` is not one of"),
        (json!({"models": {}}), "model.upstreams[0].models: are 1 to 64"),
        (json!({"credentials": [{"query": "key", "env": "PATH"}]}), "are headers for kind `model`"),
    ] {
        let mut main = place("main", 1);
        main.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let estate = estate(json!([main])).await;
        let mut sidecar = estate.start();
        sidecar.ends(78).await;
        assert!(sidecar.said().contains(said), "{said}: {}", sidecar.said());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_example_is_a_valid_configuration_without_changes() {
    let example: Value =
        serde_saphyr::from_str(include_str!("../../examples/model/tools.yaml")).unwrap();
    let estate = Estate::sqlite(&Tool::start().await);
    estate.configure(|config| {
        config["tools"].as_array_mut().unwrap().extend(example.as_array().unwrap().clone());
    });
    let check = || estate.command(&["config", "check", "wicketgate.yaml"]);
    let done = check().env("MODEL_API_KEY", SECRET).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let done = check().env_remove("MODEL_API_KEY").output().unwrap();
    assert_eq!(done.status.code(), Some(78), "without its key");
}

/// A schema whose members stand in no order of the alphabet, and spellings that canonical JSON has not.
const SCHEMA: &str = r#"{"type":"object", "properties":{"reasoning":{"type":"string"},"answer":{"maximum":1.50e1,"type":"number"},
    "also":{"\u0074ype":"string"}},"required":["reasoning","answer","also"],"additionalProperties":false}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_reaches_a_model_unchanged_and_the_ledger_commits_to_those_bytes() {
    let server = Server::start(&[(200, completion("{}", 1, 1))]).await;
    let mut other = place("main", server.port);
    other["api"] = json!("ollama");
    other["url"] = json!(format!("http://127.0.0.1:{}", server.port));
    for (place, format) in [
        (
            place("main", server.port),
            r#""response_format":{"type":"json_schema","json_schema":{"strict":true,"name":"n","schema":SCHEMA}}"#,
        ),
        (other, r#""format":SCHEMA"#),
    ] {
        let estate = estate(json!([place])).await;
        let mut sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        let function = format!(r#"{{"parameters":{SCHEMA},"name":"f","description":"d"}}"#);
        let args = format!(
            r#"{{"tools":[{{"function":{function},"type":"function"}}],"response_format":{{"type":"json_schema",
                "json_schema":{{"strict":true,"name":"n","schema":{SCHEMA}}}}},
                "model":"small","messages":[{{"role":"user","content":"x"}}],"max_output_tokens":100}}"#
        );
        // An Ollama's answer is none to OpenAI's, and is refused; both were asked.
        let _ = agent.call("work.do", "a", &args).await;
        let body = server.shared.bodies.lock().pop().unwrap();
        let plain = |text: &str| text.replace(['\n'], "").replace("  ", "");
        let format = plain(&format.replace("SCHEMA", SCHEMA));
        assert!(plain(&body).contains(&format), "{body}");
        let function = format!(r#""tools":[{{"type":"function","function":{function}}}]"#);
        assert!(body.contains(&function), "{body}");
        assert!(body.contains(r#""messages":[{"role":"user","content":"x"}]"#), "{body}");
        sidecar.stop().await;
        let entry = entries(&estate, "call.authorized").pop().unwrap();
        let raw =
            entry["commit"].as_array().unwrap().iter().find(|one| one["role"] == "raw").unwrap();
        assert_eq!(raw["len"], args.len());
    }
}
