//! Calls and what an agent is told of them: results, denials it can act on, holds it can wait for.

use serde_json::{Value, json};
use wicketgate::domain::code::Code;

use crate::checker::{calls, kinds};
use crate::gate::Gate;

const META: &str = "io.modelcontextprotocol/clientCapabilities";

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_carries_the_receipt_of_its_ledger_entry() {
    let gate = Gate::start().await;
    let result = gate.call("work.do", json!({"n": 1})).await.result();
    let said: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(said, result["structuredContent"], "the same as text and as data");
    assert_eq!(result["structuredContent"]["body"], json!({"done": true}));
    assert!(result.get("isError").is_none(), "{result}");
    let receipt = &result["_meta"]["wicketgate.dev/receipt"];
    assert_eq!(receipt["hash"].as_str().unwrap().len(), 64, "{result}");
    let call = result["_meta"]["wicketgate.dev/call"].as_str().unwrap().to_owned();
    // Asked for again by its id, the same answer with the same receipt; nothing runs twice.
    let again = json!({"name": "work.do", "arguments": {"n": 1}, "_meta": {"wicketgate.dev/call-id": call}});
    let again = gate.alone("tools/call", again).await.result();
    assert_eq!(again, result);
    let other = json!({"name": "work.do", "arguments": {"n": 2}, "_meta": {"wicketgate.dev/call-id": call}});
    let other = gate.alone("tools/call", other).await;
    assert_eq!(other.json()["error"]["data"]["code"], "call.conflict", "{other:?}");
    assert_eq!(gate.tool.count(), 1);
    let bad =
        json!({"name": "work.do", "arguments": {}, "_meta": {"wicketgate.dev/call-id": "a b"}});
    assert_eq!(gate.alone("tools/call", bad).await.refusal(), (400, -32602, "call.id".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_is_a_tool_error_with_the_rule_the_code_and_the_receipt() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    for result in [
        gate.call("policy.undefined", json!({})).await.result(),
        session.call("policy.undefined", json!({})).await.result(),
    ] {
        assert_eq!(result["isError"], true, "{result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        let text = text(&result);
        assert!(text.starts_with("denied by policy: "), "{text}");
        assert!(text.contains("code policy.denied/"), "{text}");
        assert!(text.contains("nothing ran"), "{text}");
        assert!(text.contains("receipt: entry "), "{text}");
        let meta = &result["_meta"];
        assert_eq!(meta["wicketgate.dev/code"], "policy.denied");
        assert_eq!(meta["wicketgate.dev/retry"], "no");
        assert!(meta["wicketgate.dev/receipt"]["seq"].as_u64().is_some(), "{meta}");
        assert!(meta["wicketgate.dev/reasons"][0]["rule"].as_str().is_some(), "{meta}");
    }
    // One that is not there and one that is not granted: the same words, and never "not found".
    let unknown = gate.call("work.nowhere", json!({})).await.result();
    let ungranted = gate.call("work.unbound", json!({})).await.result();
    let words = |result: &Value, name: &str| {
        let text = text(result).replace(name, "T");
        text.split_once(" receipt:").unwrap().0.to_owned()
    };
    assert_eq!(words(&unknown, "work.nowhere"), words(&ungranted, "work.unbound"));
    assert_eq!(unknown["_meta"]["wicketgate.dev/code"], "tool.not_granted");
    let schema = gate.call("work.do", json!({"n": "x"})).await.result();
    assert!(text(&schema).contains("schema."), "{schema}");
    let broken = gate.call("policy.error", json!({"n": 0})).await.result();
    assert_eq!(broken["_meta"]["wicketgate.dev/code"], "policy.error", "{broken}");
    assert_eq!(gate.tool.count(), 0);
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "denied"), 6, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_tool_is_reported_as_a_failure_and_is_not_retried() {
    let gate = Gate::start().await;
    let result = gate.call("work.fail", json!({})).await.result();
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["_meta"]["wicketgate.dev/code"], "tool.failed", "{result}");
    assert_eq!(gate.tool.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_says_how_to_wait_and_asking_again_is_the_same_call() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let first = session.call("work.held", json!({"n": 1})).await.result();
    assert_eq!(first["isError"], true);
    let said = text(&first);
    assert!(said.starts_with(Code::CallHeld.rule().title), "{said}");
    assert!(said.contains("make the same call with the same arguments again"), "{said}");
    let call = |result: &Value| result["_meta"]["wicketgate.dev/call"].clone();
    assert!(first["_meta"]["wicketgate.dev/expires"].as_str().is_some(), "{first}");
    let again = session.call("work.held", json!({"n": 1})).await.result();
    assert_eq!(call(&again), call(&first), "the same call");
    let other = session.call("work.held", json!({"n": 2})).await.result();
    assert_ne!(call(&other), call(&first), "another call");
    assert_eq!(gate.tool.count(), 0);
    let summary = gate.checked().await;
    assert_eq!(kinds(&summary, "call.held"), 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_is_the_same_one_after_the_gate_was_killed() {
    let mut gate = Gate::start().await;
    let held = |gate: &Gate| {
        gate.alone_bytes(
            "/mcp",
            "tools/call",
            json!({"name": "work.held", "arguments": {"n": 1}}),
            &[],
        )
    };
    let call = |result: &Value| result["_meta"]["wicketgate.dev/call"].clone();
    let first = gate.raw(&held(&gate)).await.unwrap().result();
    gate.sidecar.kill();
    let Gate { tool, estate, .. } = gate;
    let gate = Gate::again(tool, estate).await;
    let again = gate.raw(&held(&gate)).await.unwrap().result();
    assert_eq!((call(&again), again["isError"].clone()), (call(&first), json!(true)), "{again}");
    let other = gate.call("work.held", json!({"n": 2})).await.result();
    assert_ne!(call(&other), call(&first), "another call");
    let summary = gate.checked().await;
    assert_eq!(kinds(&summary, "call.held"), 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_elicitation_may_wait_but_its_answers_approve_nothing() {
    let gate = Gate::start().await;
    let call = |more: Value| {
        let mut params = json!({"name": "work.held", "arguments": {"n": 1},
            "_meta": {META: {"elicitation": {}}}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let first = gate.alone("tools/call", call(json!({}))).await.result();
    assert_eq!(first["resultType"], "input_required", "{first}");
    assert!(first.get("content").is_none() && first.get("ttlMs").is_none(), "{first}");
    let question = &first["inputRequests"]["wicketgate_wait"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("approver"), "{question}");
    let state = first["requestState"].clone();
    let answer = |action: &str, content: Value| {
        json!({"requestState": state, "inputResponses":
            {"wicketgate_wait": {"action": action, "content": content}}})
    };
    for yes in [json!({"wait": true}), json!({"approved": true, "approve": "yes", "wait": true})] {
        let next = gate.alone("tools/call", call(answer("accept", yes))).await.result();
        assert_eq!(
            (&next["resultType"], &next["requestState"]),
            (&json!("input_required"), &state)
        );
    }
    let enough = gate.alone("tools/call", call(answer("decline", json!({})))).await.result();
    assert_eq!((&enough["resultType"], &enough["isError"]), (&json!("complete"), &json!(true)));
    // The state of one call is no key to another.
    let mut moved = call(answer("accept", json!({})));
    moved["arguments"] = json!({"n": 2});
    let moved = gate.alone("tools/call", moved).await;
    assert_eq!(moved.json()["error"]["data"]["code"], "call.conflict", "{moved:?}");
    // Nobody who cannot ask is asked.
    let plain = gate.call("work.held", json!({"n": 1})).await.result();
    assert_eq!(plain["isError"], true);
    assert_eq!(gate.tool.count(), 0);
    let summary = gate.checked().await;
    assert_eq!(kinds(&summary, "call.held"), 1, "one call all along: {summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_of_one_server_shows_its_tools_under_their_own_names() {
    let gate = Gate::start().await;
    let list = gate.alone_at("/mcp/s/work", "tools/list", json!({}), &[]).await.result();
    let names: Vec<_> =
        list["tools"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(json!(names), json!(["do", "fail", "held", "large"]));
    let called = gate.alone_at("/mcp/s/work", "tools/call", json!({"name": "do"}), &[]).await;
    assert_eq!(called.result()["structuredContent"]["body"]["done"], true);
    let qualified = json!({"name": "work.do", "arguments": {}});
    let denied = gate.alone_at("/mcp/s/work", "tools/call", qualified, &[]).await.result();
    assert_eq!(denied["_meta"]["wicketgate.dev/code"], "tool.not_granted", "{denied}");
    let none = gate.alone_at("/mcp/s/nowhere", "tools/list", json!({}), &[]).await.result();
    assert_eq!(none["tools"], json!([]));
    assert_eq!(gate.tool.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_get_their_own_answers() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let one = async |n: u64| {
        let id = format!("call-{n}");
        let params = json!({"name": "work.do", "arguments": {"n": n}, "_meta": {"wicketgate.dev/call-id": id}});
        let reply = if n.is_multiple_of(2) {
            session.send(&crate::client::ask(n, "tools/call", params), &[]).await
        } else {
            gate.alone("tools/call", params).await
        };
        let result = reply.result();
        assert_eq!(result["_meta"]["wicketgate.dev/call"], id);
        assert_eq!(reply.json()["id"], if n.is_multiple_of(2) { n } else { 1 });
    };
    for batch in 0..4 {
        futures_util::future::join_all((0..16).map(|n| one(batch * 16 + n))).await;
    }
    assert_eq!(gate.tool.count(), 64);
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 64, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_has_room_again_by_itself_says_when_and_one_that_has_not_does_not() {
    for (limit, retry) in [("calls_per_minute", Some(60)), ("calls", None)] {
        let Gate { tool, estate, mut sidecar, .. } = Gate::start().await;
        sidecar.stop().await;
        let limits = format!("\"limits\": {{\"{limit}\": 1}}, \"tools\":");
        estate.manifest("1.0.1", "manifest", |text| text.replacen("\"tools\":", &limits, 1));
        let gate = Gate::again(tool, estate).await;
        let session = gate.session().await;
        session.call("work.do", json!({"n": 1})).await.result();
        let denied = session.call("work.do", json!({"n": 2})).await.result();
        let meta = &denied["_meta"];
        assert_eq!(meta["wicketgate.dev/code"], "limit.exceeded", "{denied}");
        assert_eq!(meta["wicketgate.dev/retry_after_seconds"].as_u64(), retry, "{denied}");
        let said = text(&denied).contains("try again in 60 seconds");
        assert_eq!(said, retry.is_some(), "{denied}");
        assert_eq!(gate.tool.count(), 1);
    }
}
