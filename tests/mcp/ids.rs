//! One JSON-RPC id of a session is one call; and arguments reach the road as the bytes that came.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::gate::Gate;

fn message(id: &Value, n: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "work.do", "arguments": {"n": n}}})
}

/// Random requests over few ids of both types and few arguments, some many times at once: every id runs once,
/// the same bytes get the recorded answer, other bytes a conflict, and other types are other ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_again_in_its_session_runs_once_and_other_bytes_conflict() {
    let gate = Gate::start().await;
    let ids = [
        json!(1),
        json!("1"),
        json!(-1),
        json!("-1"),
        json!("a"),
        json!(9_007_199_254_740_991_i64),
    ];
    let mut state = 88_172_645_463_325_252_u64;
    let mut below = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    let mut ran = 0_u32;
    for _ in 0..2 {
        let session = gate.session().await;
        let mut first: BTreeMap<String, (i64, Value)> = BTreeMap::new();
        for _ in 0..40 {
            let id = &ids[usize::try_from(below(6)).unwrap()];
            let n = i64::try_from(below(3)).unwrap();
            let at_once = 1 + usize::try_from(below(4)).unwrap();
            let message = message(id, n);
            let sent = (0..at_once).map(|_| session.send(&message, &[]));
            for reply in futures_util::future::join_all(sent).await {
                let answer = reply.json();
                let known = first.entry(id.to_string()).or_insert_with(|| {
                    ran += 1;
                    (n, answer["result"].clone())
                });
                if known.0 == n {
                    assert_eq!(answer["result"], known.1, "the recorded answer: {answer}");
                } else {
                    assert_eq!(answer["error"]["data"]["code"], "call.conflict", "{answer}");
                }
            }
        }
        assert_eq!(gate.tool.count(), ran);
    }
    for id in ["1.0", "1e0", "1.5", "null", "true", "[1]"] {
        let session = gate.session().await;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"work.do","arguments":{{"n":1}}}}}}"#
        );
        let lines = [("Mcp-Session-Id", session.id.as_str())];
        let reply = gate.post("/mcp", &lines, body.as_bytes()).await;
        assert_eq!(reply.refusal().2, "rpc.id", "{id}: {reply:?}");
    }
    assert_eq!(gate.tool.count(), ran);
    gate.checked().await;
}

/// A call that waits is asked about under new ids; each of those ids is that call from then on, also when it
/// is over and the same would be a new call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_referred_to_a_held_call_refers_to_it_for_the_whole_session() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let held = |id: u64, n: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "work.held", "arguments": {"n": n}}})
    };
    let call = |answer: &Value| answer["result"]["_meta"]["wicketgate.dev/call"].clone();
    let first = session.send(&held(1, 1), &[]).await.json();
    assert_eq!(first["result"]["_meta"]["wicketgate.dev/code"], "call.held", "{first}");
    for id in [2, 3, 2, 1] {
        let again = session.send(&held(id, 1), &[]).await.json();
        assert_eq!(call(&again), call(&first), "{again}");
    }
    for id in [1, 2, 3] {
        let other = session.send(&held(id, 2), &[]).await.json();
        assert_eq!(other["error"]["data"]["code"], "call.conflict", "{id}: {other}");
    }
    let named = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work.held",
        "arguments": {"n": 1}, "_meta": {"wicketgate.dev/call-id": "another"}}});
    let named = session.send(&named, &[]).await.json();
    assert_eq!(named["error"]["data"]["code"], "call.conflict", "{named}");
    assert_eq!(gate.tool.count(), 0);
}

/// The same arguments over gRPC, in a session and standing alone: one answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_judged_as_the_bytes_that_came_over_every_face() {
    let gate = Gate::start().await;
    let agent = gate.sidecar.open().await;
    let session = gate.session().await;
    let texts = [
        r#"{"n":1}"#,
        r#"{"n":1.0}"#,
        r#"{"n":1e0}"#,
        r#"{"n":1.5}"#,
        r#"{ "n" : 2 , "s":"\u0041" }"#,
        r#"{"\u006e":-0}"#,
        r#"{"n":-0.0}"#,
        r#"{"n":9007199254740992}"#,
        r#"{"n":9007199254740993.0}"#,
        r#"{"n":1e400}"#,
        r#"{"z":1,"n":3,"a":{"z":0,"a":0}}"#,
        r#"{"n":1,"n":2}"#,
        r#"{"n":true}"#,
        "[]",
    ];
    let verdict = |answer: &Value| {
        let meta = &answer["result"]["_meta"]["wicketgate.dev/code"];
        let code = meta.as_str().or(answer["error"]["data"]["code"].as_str());
        code.unwrap_or("ran").to_owned()
    };
    let mut ran = 0_u32;
    for (n, args) in texts.iter().enumerate() {
        let by_grpc = match agent.call("work.do", &format!("c{n}"), args).await {
            Ok(_) => "ran".to_owned(),
            Err(refused) => refused.code,
        };
        ran += 3 * u32::from(by_grpc == "ran");
        let mcp = |meta: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"work.do","arguments":{args}{meta}}}}}"#,
                n + 100
            )
        };
        let lines =
            [("Mcp-Session-Id", session.id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
        let in_session = gate.post("/mcp", &lines, mcp("").as_bytes()).await.json();
        assert_eq!(verdict(&in_session), by_grpc, "{args}: {in_session}");
        let meta = format!(r#","_meta":{}"#, crate::gate::with_meta(json!({}))["_meta"]);
        let lines = [
            ("MCP-Protocol-Version", crate::gate::VERSION),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "work.do"),
        ];
        let alone = gate.post("/mcp", &lines, mcp(&meta).as_bytes()).await.json();
        assert_eq!(verdict(&alone), by_grpc, "{args}: {alone}");
    }
    assert_eq!(gate.tool.count(), ran);
    assert!(ran >= 6, "some of them run: {ran}");
}

/// A client that sends a request again under a new JSON-RPC id, in a session and standing alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_a_new_id_is_the_first_call_where_its_tool_says_so() {
    let gate = Gate::start_with(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            tool["dedupe_ms"] = json!(600_000);
        }
    })
    .await;
    let call = |answer: &Value| answer["result"]["_meta"]["wicketgate.dev/call"].clone();
    let session = gate.session().await;
    let first = session.send(&message(&json!(1), 1), &[]).await.json();
    for id in [2, 3, 2] {
        let again = session.send(&message(&json!(id), 1), &[]).await.json();
        assert_eq!(again["result"], first["result"], "{again}");
        assert_eq!(call(&again), call(&first), "{again}");
    }
    assert_eq!(gate.tool.count(), 1);
    session.send(&message(&json!(4), 2), &[]).await;
    assert_eq!(gate.tool.count(), 2);
    let other = gate.session().await;
    other.send(&message(&json!(1), 1), &[]).await;
    assert_eq!(gate.tool.count(), 3, "another session is another run");
    for _ in 0..2 {
        gate.call("work.do", json!({"n": 7})).await;
    }
    assert_eq!(gate.tool.count(), 4);
    gate.checked().await;
}
