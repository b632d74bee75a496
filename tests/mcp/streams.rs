//! Responses that stay open: calls that take their time, changes as they happen, clients that leave.

use rustix::process::Signal;
use serde_json::json;

use crate::checker::calls;
use crate::client::{Wire, request};
use crate::gate::Gate;

fn call() -> serde_json::Value {
    json!({"name": "work.do", "arguments": {"n": 1}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_takes_its_time_is_answered_as_a_stream() {
    let gate = Gate::start().await;
    gate.tool.hold();
    let mut wire = Wire::open(&gate.tcp).await;
    wire.send(&gate.alone_bytes("/mcp", "tools/call", call(), &[])).await;
    let head = wire.head().await.unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    gate.tool.release();
    let said = wire.event(&mut String::new()).await.unwrap();
    assert_eq!(
        (&said["id"], &said["result"]["structuredContent"]["body"]["done"]),
        (&json!(1), &json!(true))
    );
    assert!(wire.chunk().await.is_none(), "the answer ends the stream");
    // Who takes no events gets one text, however long it takes; who takes nothing else gets events.
    let json = gate.alone_at("/mcp", "tools/call", call(), &[("Accept", "application/json")]).await;
    assert_eq!(json.header("content-type"), Some("application/json"));
    let events =
        gate.alone_at("/mcp", "tools/call", call(), &[("Accept", "text/event-stream")]).await;
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert_eq!(events.result()["structuredContent"]["body"]["done"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disconnecting_cancels_a_request_outside_a_session_but_not_one_inside() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    gate.tool.hold();
    let message =
        crate::client::ask(1, "tools/call", json!({"name": "work.do", "arguments": {"n": 2}}));
    let mut stays = Wire::open(&gate.tcp).await;
    stays.send(&session.bytes(&message, &[])).await;
    gate.tool.entered(1).await;
    drop(stays);
    let mut leaves = Wire::open(&gate.tcp).await;
    leaves.send(&gate.alone_bytes("/mcp", "tools/call", call(), &[])).await;
    gate.tool.entered(2).await;
    drop(leaves);
    // The tool's own server sees the request of the one who left come to its end.
    gate.tool.inside(1).await;
    gate.tool.release();
    gate.tool.inside(0).await;
    assert_eq!(gate.tool.count(), 2);
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_is_notified_of_changed_tools_and_of_the_end_of_its_stream() {
    let gate = Gate::start().await;
    let params = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let mut listening = Wire::open(&gate.tcp).await;
    listening.send(&gate.alone_bytes("/mcp", "subscriptions/listen", params, &[])).await;
    assert_eq!(listening.head().await.unwrap().status, 200);
    let mut kept = String::new();
    let first = listening.event(&mut kept).await.unwrap();
    let subscription = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["_meta"][subscription], 1);
    assert_eq!(first["params"]["notifications"], json!({"toolsListChanged": true}));
    let session = gate.session().await;
    let lines = gate.lines(&[("Mcp-Session-Id", &session.id)]);
    let get = request("GET", "/mcp", &lines, b"");
    let mut session_stream = Wire::open(&gate.tcp).await;
    session_stream.send(&get).await;
    assert_eq!(session_stream.head().await.unwrap().status, 200);
    assert_eq!(gate.raw(&get).await.unwrap().status, 409, "one stream a session");

    gate.estate.configure(|config| config["tools"][0]["description"] = json!("does other work"));
    gate.sidecar.signal(Signal::HUP);
    let changed = listening.event(&mut kept).await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][subscription], 1);
    let changed = session_stream.event(&mut String::new()).await.unwrap();
    assert_eq!(changed, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let list = gate.alone("tools/list", json!({})).await.result();
    assert!(list.to_string().contains("does other work"), "{list}");

    // A manifest that grants other tools shows other tools.
    gate.estate.manifest("1.0.1", "manifest", |text| {
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let tools = manifest["spec"]["tools"].as_array_mut().unwrap();
        tools.retain(|tool| tool["name"] != "work.fail");
        manifest.to_string()
    });
    gate.sidecar.signal(Signal::HUP);
    let changed = listening.event(&mut kept).await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    let changed = session_stream.event(&mut String::new()).await.unwrap();
    assert_eq!(changed, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let list = gate.alone("tools/list", json!({})).await.result();
    assert!(!list.to_string().contains("work.fail"), "{list}");

    gate.sidecar.signal(Signal::TERM);
    let last = listening.event(&mut kept).await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(1), &json!("complete")));
    assert!(session_stream.chunk().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_given_only_to_who_takes_one() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let json = ("Accept", "application/json");
    let lines = gate.lines(&[("Mcp-Session-Id", &session.id), json]);
    assert_eq!(gate.raw(&request("GET", "/mcp", &lines, b"")).await.unwrap().status, 406);
    let lines = gate.lines(&[]);
    assert_eq!(gate.raw(&request("GET", "/mcp", &lines, b"")).await.unwrap().status, 400);
    let params = json!({"notifications": {}});
    let reply = gate.alone_at("/mcp", "subscriptions/listen", params, &[json]).await;
    assert_eq!(reply.status, 406, "{reply:?}");
    let reply = gate.alone("subscriptions/listen", json!({})).await;
    assert_eq!((reply.status, reply.refusal().1), (400, -32602));
}
