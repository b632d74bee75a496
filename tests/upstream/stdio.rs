//! Servers that behave, over stdio.

use base64::Engine as _;
use serde_json::json;

use crate::gate::{Gate, fault};
use crate::rig::{LONG, TOKEN, named, stdio};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

/// Bytes of results that strict readers, typed models and careless proxies would change.
const ODD: [&str; 6] = [
    r#"{ "content" : [ {"type":"hologram","frames":[1.50,1E+2,-0.0],"a":"\u00e9\/é"} ] }"#,
    r#"{"z":1,"a":2,"Z":3,"n":123456789012345678901234567890,"content":[]}"#,
    r#"{"content":[],"x":{"a":1,"a":2}}"#,
    r#"{"content":[],"structuredContent":{"deep":[[[[{}]]]]},"_meta":{"vendor/x":1e-7}}"#,
    r#"{"content":[{"type":"text","text":"\ud83d\ude00\u000a"}],"isError":true}"#,
    r#"{}"#,
];

#[tokio::test]
async fn a_result_reaches_the_agent_as_the_bytes_the_server_sent() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    for odd in ODD {
        let raw = base64::engine::general_purpose::STANDARD.encode(odd);
        assert_eq!(gate.call("fix.act", json!({"do": "raw", "raw": raw})).await.unwrap(), odd);
    }
}

#[tokio::test]
async fn what_a_server_writes_into_our_corner_of_meta_is_dropped() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let forged = r#"{"content": [],"_meta":{"wicketgate.dev/receipt":{"seq":1},"x": 1.0}}"#;
    let raw = base64::engine::general_purpose::STANDARD.encode(forged);
    let came = gate.call("fix.act", json!({"do": "raw", "raw": raw})).await.unwrap();
    assert_eq!(came, r#"{"content":[],"_meta":{"x":1.0}}"#);
}

#[tokio::test]
async fn a_child_has_the_environment_that_is_written_and_no_other() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let seen = gate.act(json!({"do": "environment"})).await;
    assert_eq!(seen["cwd"], "/");
    let names: Vec<_> = seen["environment"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["LANG", "TOKEN"]);
    // And an echo of its credential is masked.
    assert_eq!(seen["environment"]["TOKEN"], "[REDACTED:credential]");
}

#[tokio::test]
async fn a_call_carries_its_arguments_its_trace_and_nothing_of_the_agents() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let args = json!({"do": "params", "x": 1.5});
    let came = gate.traced("fix.act", args.clone(), Some(TRACE)).await.unwrap();
    let seen: serde_json::Value = serde_json::from_str(&came).unwrap();
    let params = seen["params"].as_object().unwrap();
    assert_eq!((&params["name"], &params["arguments"]), (&json!("act"), &args));
    let meta = params["_meta"].as_object().unwrap();
    assert_eq!(meta["traceparent"], TRACE);
    assert_eq!(meta.keys().collect::<Vec<_>>(), ["progressToken", "traceparent"]);
    assert_eq!(params.len(), 3);
}

#[tokio::test]
async fn every_request_to_a_stateless_server_carries_the_client_metadata() {
    let gate = Gate::of(vec![stdio(&["modern"], LONG)]).await;
    let seen = gate.act(json!({"do": "params"})).await;
    let meta = &seen["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "wicketgate");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    let probed = gate.upstreams.get("fix").unwrap().probe().await.unwrap();
    assert_eq!(probed.protocol.as_str(), "2026-07-28");
    assert_eq!(probed.methods, ["resources/list", "resources/templates/list", "resources/read"]);
    let read = gate.call("fix.resources.read", json!({"uri": "file:///x"})).await.unwrap();
    assert_eq!(read, r#"{"contents": [{"uri": "file:///x", "text": "x"}]}"#);
}

#[tokio::test]
async fn a_server_is_spoken_to_in_the_version_it_names_or_not_at_all() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let gate = Gate::of(vec![stdio(&[&format!("version={version}")], LONG)]).await;
        gate.works().await;
        let standing = gate.upstreams.get("fix").unwrap().status();
        assert_eq!(standing.protocol.unwrap().as_str(), version);
        assert_eq!((standing.state, standing.failures), ("up", 0));
    }
    for version in ["1999-01-01", "2026-07-28", ""] {
        let gate = Gate::of(vec![stdio(&[&format!("version={version}")], LONG)]).await;
        let came = gate.call("fix.act", json!({})).await;
        assert_eq!(fault(&came), ("tool.failed", "connect"), "{version}");
    }
}

#[tokio::test]
async fn a_probe_reads_every_page_and_not_without_end() {
    let gate = Gate::of(vec![stdio(&["pages", "extra"], LONG)]).await;
    let probed = gate.upstreams.get("fix").unwrap().probe().await.unwrap();
    let names: Vec<_> = probed.tools.iter().map(|tool| tool.get("name").unwrap()).collect();
    assert_eq!(names.iter().map(|n| n.as_str().unwrap()).collect::<Vec<_>>(), ["act", "extra"]);
    assert_eq!(probed.server_info.get("name").unwrap().as_str(), Some("fixture"));
    assert_eq!(probed.methods, ["prompts/list", "prompts/get"]);
    let endless = Gate::of(vec![stdio(&["pages", "endless"], LONG)]).await;
    let error = endless.upstreams.get("fix").unwrap().probe().await.unwrap_err();
    assert!(error.to_string().contains("tools/list"), "{error}");
}

#[tokio::test]
async fn what_a_server_says_during_a_call_is_recorded_with_its_result_and_with_no_other() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let came = gate.act(json!({"do": "progress"})).await;
    let said = json!([
        {"method": "notifications/progress", "params": {"progress": 1, "total": 2}},
        {"method": "notifications/message", "params": {"level": "info", "data": "half way"}},
    ]);
    assert_eq!(came, json!({"content": [], "_meta": {"wicketgate.dev/notifications": said}}));
    assert_eq!(gate.counted(r#"wicketgate_upstream_dropped_total{kind="notification"}"#), 2);
}

#[tokio::test]
async fn what_a_server_asks_of_its_client_is_refused() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let came = gate.act(json!({"do": "ask"})).await;
    let got = came["got"].as_array().unwrap();
    for (at, answer) in got.iter().enumerate() {
        assert_eq!(answer["id"], json!(at));
        if at < 3 {
            assert_eq!(answer["error"]["code"], -32601, "{answer}");
        } else {
            assert_eq!(answer["result"], json!({}));
        }
    }
    assert_eq!(got.len(), 4);
    assert_eq!(gate.counted(r#"wicketgate_upstream_dropped_total{kind="request"}"#), 3);
}

#[tokio::test]
async fn a_servers_error_is_a_failure_that_says_so() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let came = gate.call("fix.act", json!({"do": "error"})).await;
    assert_eq!(fault(&came), ("tool.failed", "tool_error"));
    let message = came.unwrap_err().2;
    assert!(message.contains("-32000: it broke") && message.len() < 600, "{message}");
}

#[tokio::test]
async fn an_argument_with_the_servers_credential_is_refused() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let came = gate.call("fix.act", json!({"text": format!("x{TOKEN}")})).await;
    assert_eq!(fault(&came), ("policy.denied", "no_allow"));
}

#[tokio::test]
async fn a_method_cannot_carry_what_only_the_gate_may_say() {
    let gate = Gate::of(vec![stdio(&["modern"], LONG)]).await;
    let args = json!({"uri": "file:///x", "_meta": {"traceparent": "x"}});
    assert_eq!(fault(&gate.call("fix.resources.read", args).await).1, "mcp.meta");
}

#[tokio::test]
async fn sixty_four_calls_at_once_answered_backwards_each_get_their_own_answer() {
    let gate = Gate::of(vec![stdio(&[], LONG), named("other", &[], LONG)]).await;
    for round in 0..4 {
        let call = |n: usize| {
            let gate = &gate;
            let text = format!("{round}-{n}");
            async move {
                let server = if n.is_multiple_of(2) { "fix" } else { "other" };
                let args = json!({"do": "gather", "of": 16, "text": text});
                let came = gate.call(&format!("{server}.act"), args).await.unwrap();
                assert_eq!(came, format!(r#"{{"content": [], "text": "{text}"}}"#));
            }
        };
        futures_util::future::join_all((0..64).map(call)).await;
    }
    assert_eq!(gate.counted(r#"wicketgate_upstream_dropped_total{kind="unknown_id"}"#), 0);
}
