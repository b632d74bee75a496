//! Servers over streamable HTTP, good ones and others.

use serde_json::{Value, json};

use crate::gate::{Gate, fault};
use crate::ports::Port;
use crate::rig::{Canary, LONG, SHORT, TOKEN, Web, remote};

fn log(dir: &tempfile::TempDir) -> (String, impl Fn() -> Vec<Value>) {
    let path = dir.path().join("log");
    let word = format!("log={}", path.display());
    let read = move || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    (word, read)
}

#[tokio::test]
async fn a_server_with_sessions_is_spoken_to_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let (word, read) = log(&dir);
    let web = Web::start(&[&word]);
    let gate = Gate::of(vec![web.server(LONG)]).await;
    gate.works().await;
    gate.upstreams.close().await;
    let seen: Vec<Value> = read();
    let of = |method: &str| {
        let found = seen.iter().find(|line| line["message"]["method"] == method);
        found.unwrap_or_else(|| panic!("no {method}"))["headers"].clone()
    };
    assert!(of("initialize").get("mcp-session-id").is_none());
    let call = of("tools/call");
    assert_eq!(call["mcp-session-id"], "session-0");
    assert_eq!(call["mcp-protocol-version"], "2025-11-25");
    assert_eq!(call["accept"], "application/json, text/event-stream");
    assert_eq!(call["authorization"], format!("Bearer {TOKEN}"));
    assert_eq!(call["x-plain"], "plain");
    assert!(call.get("mcp-method").is_none() && call.get("origin").is_none());
    let last = seen.last().unwrap();
    assert_eq!(
        (&last["http"], &last["headers"]["mcp-session-id"]),
        (&json!("DELETE"), &json!("session-0"))
    );
}

#[tokio::test]
async fn a_stateless_server_finds_the_body_mirrored_in_the_headers() {
    let web = Web::start(&["modern"]);
    let gate = Gate::of(vec![web.server(LONG)]).await;
    let came = gate.act(json!({"do": "headers", "region": " élan"})).await;
    let headers = &came["headers"];
    assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
    assert_eq!(
        (&headers["mcp-method"], &headers["mcp-name"]),
        (&json!("tools/call"), &json!("act"))
    );
    assert_eq!(headers["mcp-param-region"], "=?base64?IMOpbGFu?=");
    assert!(headers.get("mcp-session-id").is_none());
    let none = gate.act(json!({"do": "headers", "region": null})).await;
    assert!(none["headers"].get("mcp-param-region").is_none());
    let read = gate.call("fix.resources.read", json!({"uri": "file:///x"})).await;
    assert!(read.is_ok());
}

#[tokio::test]
async fn a_result_in_a_stream_keeps_its_bytes() {
    let odd = r#"{ "content":[], "n":1.50,"a":{"b":1,"b":2} }"#;
    let raw = "eyAiY29udGVudCI6W10sICJuIjoxLjUwLCJhIjp7ImIiOjEsImIiOjJ9IH0=";
    for behaviour in ["modern", "sse"] {
        let web = Web::start(&[behaviour]);
        let gate = Gate::of(vec![web.server(LONG)]).await;
        let came = gate.call("fix.act", json!({"do": "raw", "raw": raw})).await;
        // In a stream a line break inside of JSON would be one of the frame; there is none here.
        assert_eq!(came.unwrap(), odd, "{behaviour}");
    }
}

#[tokio::test]
async fn nothing_a_server_points_at_is_visited() {
    let canary = Canary::set();
    let nearby = format!("http://127.0.0.1:{}/", canary.port());
    for place in ["http://169.254.169.254/latest/meta-data", nearby.as_str()] {
        let location = format!("location={place}");
        let web = Web::start(&[&location]);
        let gate = Gate::of(vec![web.server(LONG)]).await;
        let came = gate.call("fix.act", json!({"do": "redirect"})).await;
        assert_eq!(fault(&came), ("tool.failed", "protocol"));
        let came = gate.call("fix.act", json!({"do": "unauthorized"})).await;
        assert_eq!(fault(&came), ("tool.failed", "tool_error"));
        for always in ["redirect-all", "unauthorized"] {
            let web = Web::start(&[always, &location]);
            let gate = Gate::of(vec![web.server(LONG)]).await;
            let came = gate.call("fix.act", json!({})).await;
            assert_eq!(fault(&came), ("tool.failed", "connect"), "{always}");
        }
    }
    assert!(canary.is_untouched());
}

#[tokio::test]
async fn an_address_that_is_not_opened_sees_no_connection() {
    let canary = Canary::set();
    let gate = Gate::of(vec![remote(canary.port(), &[], LONG)]).await;
    assert_eq!(fault(&gate.call("fix.act", json!({})).await), ("tool.failed", "connect"));
    assert!(canary.is_untouched());
}

#[tokio::test]
async fn answers_that_are_none_fail_the_call() {
    let web = Web::start(&[]);
    let gate = Gate::of(vec![web.server(LONG)]).await;
    for bad in ["html", "encoded", "accepted", "other-id"] {
        let came = gate.call("fix.act", json!({"do": bad})).await;
        assert_eq!(fault(&came), ("tool.failed", "protocol"), "{bad}");
    }
    assert_eq!(gate.act(json!({"do": "sse-other-id"})).await, json!({"content": []}));
    let input = gate.call("fix.act", json!({"do": "input"})).await;
    assert_eq!(fault(&input), ("tool.failed", "tool_error"));
    for large in [json!({"do": "large", "bytes": 2 << 20}), json!({"do": "endless"})] {
        assert_eq!(fault(&gate.call("fix.act", large).await), ("tool.failed", "too_large"));
    }
    gate.works().await;
}

#[tokio::test]
async fn a_cut_stream_leaves_a_call_unknown_and_the_next_one_works() {
    let web = Web::start(&[]);
    let gate = Gate::of(vec![web.server(LONG)]).await;
    for cut in ["cut", "close"] {
        let came = gate.call("fix.act", json!({"do": cut})).await;
        assert_eq!(fault(&came), ("call.unknown", "connection_lost"), "{cut}");
        let came = gate.call("fix.look", json!({"do": cut})).await;
        assert_eq!(fault(&came), ("tool.failed", "tool_error"), "{cut}");
        gate.works().await;
    }
}

#[tokio::test]
async fn a_forgotten_session_fails_one_call_and_is_begun_anew_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (word, read) = log(&dir);
    let web = Web::start(&[&word]);
    let gate = Gate::of(vec![web.server(LONG)]).await;
    let came = gate.call("fix.act", json!({"do": "forget"})).await;
    assert_eq!(fault(&came), ("tool.failed", "tool_error"));
    gate.works().await;
    let seen: Vec<Value> = read();
    let calls = |line: &&Value| line["message"]["method"] == "tools/call";
    assert_eq!(seen.iter().filter(calls).count(), 2, "no call is sent twice");
}

#[tokio::test]
async fn what_a_stream_says_before_its_answer_is_recorded_and_what_it_asks_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (word, _read) = log(&dir);
    let web = Web::start(&[&word]);
    let gate = Gate::of(vec![web.server(LONG)]).await;
    let came = gate.act(json!({"do": "progress"})).await;
    let said = json!([{"method": "notifications/progress", "params": {"progress": 1}}]);
    assert_eq!(came["_meta"]["wicketgate.dev/notifications"], said);
    assert_eq!(gate.counted(r#"wicketgate_upstream_dropped_total{kind="request"}"#), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_or_hangs_is_no_started_call() {
    let nobody = Port::claim();
    let gate = Gate::of(vec![remote(nobody.number(), &["127.0.0.1/32"], LONG)]).await;
    assert_eq!(fault(&gate.call("fix.act", json!({})).await), ("tool.failed", "connect"));
    // It listens and never answers.
    let silent = Canary::set();
    let gate = Gate::of(vec![remote(silent.port(), &["127.0.0.1/32"], SHORT)]).await;
    assert_eq!(fault(&gate.call("fix.act", json!({})).await), ("tool.failed", "connect"));
}
