//! MCP with a handshake: versions, sessions and whose they are.

use serde_json::{Value, json};

use crate::checker::{calls, kinds};
use crate::client::{ask, request};
use crate::gate::{Gate, OTHER, VERSION, initialize};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_every_version_with_a_handshake_lists_and_calls() {
    let gate = Gate::start().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = gate.session_at("/mcp", version).await;
        assert_eq!(session.id.len(), 32);
        assert_eq!(session.ask("ping", json!({})).await.result(), json!({}));
        let list = session.ask("tools/list", json!({})).await.result();
        assert_eq!(list["tools"].as_array().unwrap().len(), 9);
        assert!(list.get("ttlMs").is_none() && list.get("resultType").is_none(), "{list}");
        let called = session.call("work.do", json!({"n": 1})).await.result();
        assert!(called["content"][0]["text"].as_str().unwrap().contains(r#""done":true"#));
        let structured = called.get("structuredContent").is_some();
        assert_eq!(structured, version != "2025-03-26", "{called}");
        assert!(called.get("resultType").is_none(), "{called}");
    }
    for wanted in ["2024-11-05", "2099-01-01", VERSION] {
        let reply = gate.post("/mcp", &[], initialize(wanted).to_string().as_bytes()).await;
        assert_eq!(reply.result()["protocolVersion"], "2025-11-25", "the newest there is");
    }
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 3, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_eras_live_on_one_path() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let (old, new) = tokio::join!(
        session.call("work.do", json!({"n": 1})),
        gate.call("work.do", json!({"n": 2}))
    );
    assert!(old.result().get("resultType").is_none());
    assert_eq!(new.result()["resultType"], "complete");
    // A session's id means nothing to a request that stands alone.
    let lines = [("Mcp-Session-Id", "0123")];
    let reply = gate.alone_at("/mcp", "tools/list", json!({}), &lines).await;
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_its_callers_and_its_paths_until_it_ends() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let list = ask(1, "tools/list", json!({}));
    let unknown = (404, -32600, "mcp.session_unknown".to_owned());
    let other = format!("Bearer {OTHER}");
    let reply = session.send(&list, &[("Authorization", &other)]).await;
    assert_eq!(reply.refusal(), unknown, "another caller's session is nobody's");
    let body = list.to_string();
    for (path, id) in [("/mcp/s/work", session.id.as_str()), ("/mcp", "0123"), ("/mcp", "%00")] {
        let reply = gate.post(path, &[("Mcp-Session-Id", id)], body.as_bytes()).await;
        assert_eq!(reply.refusal(), unknown, "{path} {id}");
    }
    let missing = (400, -32600, "mcp.session_missing".to_owned());
    assert_eq!(gate.post("/mcp", &[], body.as_bytes()).await.refusal(), missing);
    let again = session.send(&initialize("2025-11-25"), &[]).await;
    assert_eq!(again.status, 400, "{again:?}");
    let stolen = [("Mcp-Session-Id", session.id.as_str()), ("Authorization", other.as_str())];
    let lines = gate.lines(&stolen);
    assert_eq!(gate.raw(&request("DELETE", "/mcp", &lines, b"")).await.unwrap().status, 404);

    assert_eq!(session.call("work.do", json!({})).await.status, 200);
    let lines = gate.lines(&[("Mcp-Session-Id", &session.id)]);
    assert_eq!(gate.raw(&request("DELETE", "/mcp", &lines, b"")).await.unwrap().status, 204);
    assert_eq!(session.call("work.do", json!({})).await.refusal(), unknown);
    assert_eq!(gate.raw(&request("DELETE", "/mcp", &lines, b"")).await.unwrap().status, 404);
    assert_eq!(gate.tool.count(), 1);
    let summary = gate.checked().await;
    assert_eq!(kinds(&summary, "run.sealed"), 1, "its run ended with it: {summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsupported_protocol_version_is_refused_even_for_a_ping() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    for version in ["1999-01-01", "v1", "2025-11-25 x"] {
        let lines = [("Mcp-Session-Id", session.id.as_str()), ("MCP-Protocol-Version", version)];
        let body = ask(1, "ping", json!({})).to_string();
        let reply = gate.post("/mcp", &lines, body.as_bytes()).await;
        assert_eq!((reply.status, reply.refusal().1), (400, -32022), "{version}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_about_a_request_travel_in_a_good_answer() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("server/discover", json!({}), -32601),
        ("prompts/get", json!({"name": "x"}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": 1}), -32602),
        ("tools/call", json!({"name": "work.do", "arguments": []}), -32602),
        ("tools/call", json!({"name": "work do", "arguments": {}}), -32602),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
        ("tools/list", json!({"cursor": 1}), -32602),
    ] {
        let id = session.next.load(std::sync::atomic::Ordering::SeqCst);
        let reply = session.ask(method, params).await;
        assert_eq!((reply.status, reply.refusal().1), (200, code), "{method}: {reply:?}");
        assert_eq!(reply.json()["id"], id);
    }
    assert_eq!(
        session.ask("logging/setLevel", json!({"level": "error"})).await.result(),
        json!({})
    );
    let response = json!({"jsonrpc": "2.0", "id": 9, "result": {}});
    assert_eq!(session.send(&response, &[]).await.status, 202);
    assert_eq!(gate.tool.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_request_ends_its_call_and_no_others() {
    let gate = Gate::start().await;
    let (session, other) = (gate.session().await, gate.session().await);
    gate.tool.hold();
    let waiting = session.call("work.do", json!({"n": 1}));
    let neighbour = other.call("work.do", json!({"n": 2}));
    let cancelling = async {
        gate.tool.entered(2).await;
        let note = |id: Value| {
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "enough"}})
        };
        for id in [json!(8), json!("7"), json!(null)] {
            assert_eq!(session.send(&note(id), &[]).await.status, 202);
        }
        assert_eq!(session.send(&note(json!(7)), &[]).await.status, 202);
    };
    let waited = async {
        let cancelled = waiting.await;
        gate.tool.release();
        cancelled
    };
    let (cancelled, finished, ()) = tokio::join!(waited, neighbour, cancelling);
    let cancelled = cancelled.result();
    assert_eq!(cancelled["isError"], true, "{cancelled}");
    let code = cancelled["_meta"]["wicketgate.dev/code"].as_str().unwrap();
    assert!(["call.unknown", "call.cancelled"].contains(&code), "{cancelled}");
    assert_eq!(finished.result()["structuredContent"]["body"]["done"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_has_the_name_the_path_or_the_header_gives_it() {
    let gate = Gate::start().await;
    let named = gate.session_at("/mcp/r/night", "2025-11-25").await;
    named.call("work.do", json!({"n": 1})).await.result();
    let call = json!({"name": "work.do", "arguments": {"n": 1}, "_meta": {"wicketgate.dev/call-id": "one"}});
    for (path, lines) in [
        ("/mcp/r/night", vec![]),
        ("/mcp", vec![("X-Wicketgate-Run", "night")]),
        ("/mcp/r/night", vec![("X-Wicketgate-Run", "night")]),
    ] {
        // The same id in the same run is the same call.
        let result = gate.alone_at(path, "tools/call", call.clone(), &lines).await.result();
        assert_eq!(result["structuredContent"]["body"]["done"], true);
    }
    assert_eq!(gate.tool.count(), 2);
    for (path, name) in [("/mcp/r/night", "day"), ("/mcp", ".."), ("/mcp", "a b"), ("/mcp", "")] {
        let lines = [("X-Wicketgate-Run", name)];
        let reply = gate.alone_at(path, "tools/list", json!({}), &lines).await;
        assert_eq!(
            (reply.status, reply.refusal().2.as_str()),
            (400, "run.name"),
            "{path} `{name}`"
        );
    }
    let summary = gate.checked().await;
    assert_eq!(kinds(&summary, "run.opened"), 1, "{summary}");
}
