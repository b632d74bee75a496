//! What a service may answer, and what becomes of it.

use serde_json::{Value, json};

use crate::until;
use crate::world::{SECRET, Service, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_status_is_a_failure_with_its_name_and_message() {
    let service = Service::start();
    let world = World::before(&service).await;
    for (said, code, words) in [
        (
            "NOT_FOUND:no such order \u{e9} 100%",
            "tool.failed",
            "`NOT_FOUND`: no such order \u{e9} 100%",
        ),
        ("PERMISSION_DENIED:not yours", "tool.failed", "`PERMISSION_DENIED`: not yours"),
        ("UNAVAILABLE:later", "tool.failed", "`UNAVAILABLE`: later"),
        ("DEADLINE_EXCEEDED:too slow", "tool.failed", "`DEADLINE_EXCEEDED`"),
        ("INTERNAL:one\ntwo", "tool.failed", "`INTERNAL`: one two"),
    ] {
        let refused = world.act("orders.act", "status", said).await.unwrap_err();
        assert_eq!(refused.code, code, "{said}: {refused:?}");
        assert!(refused.message.contains(words), "{said}: {refused:?}");
    }
    let long = format!("ABORTED:{}", "x".repeat(4000));
    let refused = world.act("orders.act", "status", &long).await.unwrap_err();
    assert!(refused.message.len() < 700, "{} bytes", refused.message.len());
    let raised = world.act("orders.act", "raise", "").await.unwrap_err();
    assert_eq!(raised.code, "tool.failed", "{raised:?}");
    // Of a call that changes something, a service that gave up leaves open what it did.
    for (said, code) in [
        ("NOT_FOUND:x", "tool.failed"),
        ("FAILED_PRECONDITION:x", "tool.failed"),
        ("UNAVAILABLE:x", "call.unknown"),
        ("DEADLINE_EXCEEDED:x", "call.unknown"),
        ("CANCELLED:x", "call.unknown"),
    ] {
        let refused = world.act("orders.change", "status", said).await.unwrap_err();
        assert_eq!(refused.code, code, "{said}: {refused:?}");
    }
    let summary = world.close().await;
    assert_eq!(summary["calls"]["unknown"], 3, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_much_is_refused_both_ways_and_never_cut() {
    let service = Service::start();
    let world = World::before(&service).await;
    let fits = world.act("orders.narrow", "say", &"m".repeat(50)).await.unwrap();
    assert_eq!(fits["text"], "m".repeat(50));
    let sent = service.seen().len();
    let large = world.act("orders.narrow", "say", &"m".repeat(70)).await.unwrap_err();
    assert_eq!((large.code.as_str(), large.detail.as_str()), ("effect.refused", "grpc.too_large"));
    assert_eq!(service.seen().len(), sent, "it was not sent");
    for (act, size) in [("large", 70_000), ("large", 40_000_000), ("many", 70_000)] {
        let order = json!({"act": act, "size": size});
        let answer = world.call("orders.act", order).await.unwrap_err();
        assert_eq!(answer.code, "tool.failed", "{act} {size}: {answer:?}");
        assert!(answer.message.contains("bytes"), "{act} {size}: {answer:?}");
    }
    let right = world.call("orders.act", json!({"act": "large", "size": 60_000})).await.unwrap();
    assert_eq!(right["text"].as_str().unwrap().len(), 60_000);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_answer_that_has_no_json_form_is_a_failure() {
    let service = Service::start();
    let world = World::before(&service).await;
    let unknown = world.act("orders.act", "unknown_type", "").await.unwrap_err();
    assert!(unknown.message.contains("not in the descriptor set"), "{unknown:?}");
    let member = world.act("orders.act", "unknown_member", "m").await.unwrap();
    assert_eq!(member, json!({"text": "m", "colour": 99}));
    let deep = |size: u32| json!({"act": "deep", "size": size});
    assert!(world.call("orders.act", deep(10)).await.is_ok());
    // So deep that whoever follows it down runs out of stack.
    for size in [100, 800] {
        let refused = world.call("orders.act", deep(size)).await.unwrap_err();
        assert_eq!(refused.code, "tool.failed", "{refused:?}");
        assert!(refused.message.contains("nested deeper"), "{refused:?}");
    }
    assert_eq!(world.act("orders.act", "say", "well").await.unwrap()["text"], "well");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_reaches_the_service_and_appears_in_no_answer_log_or_evidence() {
    let service = Service::start();
    let world = World::before(&service).await;
    let answer = world.act("orders.keyed", "secret", "").await.unwrap();
    assert_eq!(answer["text"], "you said Bearer [REDACTED:credential]");
    let refused = world.act("orders.keyed", "secret_status", "").await.unwrap_err();
    assert!(refused.message.contains("Bearer [REDACTED:credential]"), "{refused:?}");
    let seen = service.seen();
    assert_eq!(seen.len(), 2);
    for event in &seen {
        assert_eq!(event["metadata"]["authorization"], format!("Bearer {SECRET}"));
        assert_eq!(event["metadata"]["x-tenant"], "acme");
    }
    // Nor is it sent by the agent's hand, or with a tool that has none.
    world.act("orders.act", "say", "x").await.unwrap();
    let last = service.seen().pop().unwrap();
    assert_eq!(last["metadata"].get("authorization"), None);
    assert!(last["left"].as_f64().unwrap() <= 8.0, "the service knows the deadline: {last}");
    let said = world.act("orders.act", "say", SECRET).await.unwrap_err();
    assert_eq!(said.detail, "no_allow");
    assert_eq!(service.seen().len(), 3);
    assert!(!world.sidecar.said().contains(SECRET));
    world.agent.seal().await.unwrap();
    let bundle = world.keeper.export(&world.agent.run.clone(), "exported", &[]);
    let report = world.keeper.verify(&bundle);
    let failed: Vec<&Value> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["outcome"] == "INVALID")
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(crate::keeper::outcome(&report, "P1").0, "VALID", "{report}");
    assert!(!crate::keeper::holds(&crate::keeper::whole(&bundle), SECRET));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_past_its_deadline_is_cancelled_at_the_service_and_answered() {
    let service = Service::start();
    let world = World::before(&service).await;
    let refused = world.act("orders.brief", "wait", "").await.unwrap_err();
    assert_eq!(refused.code, "tool.failed", "{refused:?}");
    let refused = world.act("orders.brief_change", "wait", "").await.unwrap_err();
    assert_eq!(refused.code, "call.unknown", "{refused:?}");
    until("the service to notice", || async { service.noted("gone") == 2 }).await;
    assert_eq!(world.act("orders.brief", "say", "next").await.unwrap()["text"], "next");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_service_that_dies_is_unknown_and_later_calls_fail() {
    let service = Service::start();
    let world = World::before(&service).await;
    let died = world.act("orders.change", "die", "").await.unwrap_err();
    assert_eq!(died.code, "call.unknown", "{died:?}");
    // Nobody is there: nothing was sent, and that is known.
    for tool in ["orders.act", "orders.change"] {
        let gone = world.act(tool, "say", "x").await.unwrap_err();
        assert_eq!(gone.code, "tool.failed", "{gone:?}");
        assert!(gone.message.contains("does not answer"), "{gone:?}");
    }
    assert_eq!(service.seen().len(), 1);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_judges_the_method_and_the_message_before_anything_is_sent() {
    let service = Service::start();
    let world = World::before(&service).await;
    let refused = world.act("orders.judged", "say", "x").await.unwrap_err();
    assert_eq!(refused.code, "policy.denied");
    assert!(refused.message.contains("nothing is changed here"), "{refused:?}");
    let refused = world.act("orders.small", "say", "more than a few bytes").await.unwrap_err();
    assert!(refused.message.contains("only small messages"), "{refused:?}");
    assert_eq!(service.seen(), Vec::<Value>::new());
    assert_eq!(world.act("orders.small", "say", "x").await.unwrap()["text"], "x");
    let entries = world.keeper.raw();
    for fact in [r#""kind":"grpc""#, r#""service":"shop.v1.Orders""#, r#""method":"Change""#] {
        assert!(crate::keeper::holds(&entries, fact), "{fact} is on the books");
    }
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_side_by_side_share_a_connection_and_none_waits_for_another() {
    let service = Service::start();
    let world = World::before(&service).await;
    let waiting = (0..3).map(|n| {
        let agent = world.agent.clone();
        tokio::spawn(async move {
            agent.call("orders.act", &format!("w{n}"), r#"{"act":"wait"}"#).await
        })
    });
    let waiting: Vec<_> = waiting.collect();
    until("three calls inside", || async { service.noted("inside") == 3 }).await;
    assert_eq!(world.act("orders.act", "say", "past them").await.unwrap()["text"], "past them");
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap_err().code, "tool.failed");
    }
    world.close().await;
}
