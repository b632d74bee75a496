//! What is said of an order: what was really stopped, and who was not reached.

use std::time::Duration;

use serde_json::json;
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::control::{Action, Order, Target};
use wicketgate::domain::time::Timestamp;
use wicketgate::record::Kind;

use crate::api::{ApiServer, GATE, show, show_at};

const STOPPED: &str = r#"{"action":"kill","left":0,"name":"","runs_sealed":1,"seq":1,"stopped":[{"call":"c1","how":"cancelled","run":"01010101-0101-4101-8101-010101010101"}],"stopped_count":1,"target":"all"}"#;
const LEFT: &str = r#"{"action":"kill","left":2,"name":"","runs_sealed":0,"seq":1,"stopped":[],"stopped_count":0,"target":"all"}"#;

fn kill() -> serde_json::Value {
    json!({"action": "kill", "target": "all", "reason": "incident 12"})
}

#[tokio::test]
async fn an_order_is_recorded_and_answered_with_what_every_gate_did() {
    let api = ApiServer::open().await;
    let (_one, _two) = (api.gate("a", STOPPED).await, api.gate("b", STOPPED).await);
    let (status, answer) = api.post("otto", "/v1/control", &kill()).await;
    assert_eq!((status, &answer["complete"]), (200, &json!(true)), "{answer}");
    assert_eq!((&answer["stopped_count"], &answer["runs_sealed"]), (&json!(2), &json!(2)));
    assert_eq!(answer["gates"].as_array().unwrap().len(), 2);
    assert!(answer["recorded"]["seq"].is_u64(), "{answer}");
    let rows = api.orders.since(0, 10).await.unwrap();
    let order = Order::Switch { action: Action::Kill, target: Target::All };
    assert_eq!(rows[0].order, Some(order));
    let set = api.entries(Kind::ControlSet).await;
    assert_eq!(set.len(), 1);
    let said = |name: &str| set[0].get(name).unwrap().as_str().unwrap().to_owned();
    assert_eq!(
        (said("action"), said("target"), said("subject"), said("auth"), said("reason")),
        ("kill".into(), "all".into(), "otto".into(), "token".into(), "incident 12".into())
    );
    let (_, again) = api.get("vera", "/v1/control/1").await;
    assert_eq!((&again["complete"], &again["order"]["subject"]), (&json!(true), &json!("otto")));
    assert_eq!(api.get("vera", "/v1/control/2").await.0, 404);
}

#[tokio::test]
async fn it_is_never_done_when_nothing_was_reached_or_something_still_runs() {
    let api = ApiServer::open().await;
    let (status, answer) = api.post("otto", "/v1/control", &kill()).await;
    assert_eq!((status, &answer["complete"]), (202, &json!(false)), "no gate at all: {answer}");

    let _gate = api.gate("a", LEFT).await;
    let (status, answer) = api.post("otto", "/v1/control", &kill()).await;
    assert_eq!((status, &answer["left"]), (202, &json!(2)), "something left: {answer}");
}

#[tokio::test]
async fn a_gate_that_does_not_answer_is_named_whether_it_is_there_or_long_silent() {
    let api = ApiServer::open().await;
    let _gate = api.gate("a", STOPPED).await;
    let now = SystemClock::new().now();
    let long_ago = Timestamp::from_millis(now.millis() - 60_000);
    show_at(&*api.orders, "silent", 0, long_ago).await;
    let (status, answer) = api.post("otto", "/v1/control", &kill()).await;
    assert_eq!((status, &answer["complete"]), (202, &json!(false)), "{answer}");
    assert_eq!(answer["not_reached"][0]["origin"], "silent");
    assert_eq!(answer["gates"][0]["origin"], "a");

    show(&*api.orders, "deaf", 0).await;
    let (_, answer) = api.post("otto", "/v1/control", &kill()).await;
    let silent: Vec<_> =
        answer["not_reached"].as_array().unwrap().iter().map(|g| &g["origin"]).collect();
    assert_eq!(silent, [&json!("deaf"), &json!("silent")]);

    let (_, fleet) = api.get("vera", "/v1/fleet").await;
    let standing: Vec<_> =
        fleet["gates"].as_array().unwrap().iter().map(|g| (&g["origin"], &g["standing"])).collect();
    assert_eq!(
        standing,
        [
            (&json!("a"), &json!("there")),
            (&json!("deaf"), &json!("there")),
            (&json!("silent"), &json!("silent"))
        ]
    );
}

#[tokio::test]
async fn a_gate_that_ended_in_order_is_not_waited_for() {
    let mut api = ApiServer::open().await;
    show(&*api.orders, GATE, 0).await;
    let _other = api.gate("b", STOPPED).await;
    let (_, answer) = api.post("otto", "/v1/control", &kill()).await;
    assert_eq!(answer["not_reached"][0]["origin"], GATE, "its chain has no end: {answer}");
    api.end_writer().await;
    let (status, answer) = api.post("otto", "/v1/control", &kill()).await;
    assert_eq!((status, &answer["not_reached"]), (200, &json!([])), "{answer}");
    assert_eq!(
        answer["recorded"],
        json!(null),
        "no ledger confirmed it, and it stopped all the same"
    );
    let (_, head) = api.get("otto", "/v1/control/head").await;
    let statement = json!({"at": "2026-11-21T20:05:03.123Z", "name": "", "order": "reinstate",
        "previous": head["digest"], "previous_seq": head["seq"], "reason": "over",
        "target": "all", "tenant": head["tenant"], "v": "wicketgate/order/1"});
    let reinstate = json!({"statement": statement.to_string(), "signature": "-"});
    let (status, answer) = api.post("otto", "/v1/control/reinstate", &reinstate).await;
    assert_eq!((status, &answer["code"]), (503, &json!("ledger.unavailable")), "{answer}");
    assert_eq!(api.orders.since(0, 10).await.unwrap().len(), 2, "what opens is not ordered then");
}

#[tokio::test]
async fn what_an_order_says_is_checked_before_anything_is_ordered() {
    let api = ApiServer::open().await;
    let past = Timestamp::from_millis(0).to_string();
    let wrong = [
        json!({"action": "kill", "target": "all"}),
        json!({"action": "kill", "target": "all", "reason": "  "}),
        json!({"action": "stop", "target": "all", "reason": "r"}),
        json!({"action": "kill", "target": "all", "name": "x", "reason": "r"}),
        json!({"action": "kill", "target": "agent", "reason": "r"}),
        json!({"action": "kill", "target": "run", "name": "not-a-run", "reason": "r"}),
        json!({"action": "kill", "target": "manifest", "name": "abc", "reason": "r"}),
        json!({"action": "suspend", "target": "all", "reason": "r", "expires": "tomorrow"}),
        json!({"action": "suspend", "target": "all", "reason": "r", "expires": past}),
        json!({"action": "kill", "target": "all", "reason": "r", "subject": "anna"}),
        json!({"action": "reinstate", "target": "all", "reason": "unsigned"}),
        json!({"action": 1, "target": "all", "reason": "r"}),
        json!(["kill"]),
        // The members of an order by their place.
        json!(["suspend", "all", "", "r"]),
        json!(["suspend", "all", "", "r", null]),
    ];
    for body in &wrong {
        let (status, answer) = api.post("otto", "/v1/control", body).await;
        assert_eq!((status, &answer["code"]), (400, &json!("request.malformed")), "{body}");
    }
    for body in ["", "{", r#"{"action":"kill","action":"kill","target":"all","reason":"r"}"#] {
        let (status, _) = api.ask("otto", "POST /v1/control", body).await;
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
    let until = SystemClock::new().now().plus(Duration::from_secs(600)).to_string();
    let body = json!({"action": "suspend", "target": "agent", "name": "a", "reason": "r", "expires": until});
    assert_eq!(api.post("otto", "/v1/control", &body).await.0, 202);
    let rows = api.orders.since(0, 10).await.unwrap();
    assert_eq!(rows[0].given.expires.map(|at| at.to_string()), Some(until));
}
