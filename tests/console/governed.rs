//! Policies, evidence, custody and the way back from a stop: what the pages show, take and refuse.

use serde_json::json;
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::control::{Action, Order, OrderOrigin, Target};

use crate::api::{ApiServer, GATE, run_id};
use crate::browser::Browser;

#[tokio::test]
async fn a_ledger_without_a_policy_and_without_an_evidence_key_has_pages_that_say_so() {
    let api = ApiServer::open().await;
    let aude = Browser::of(&api, "aude").await;
    for (path, said) in [
        ("/console/policy", "No log has activated a policy yet"),
        ("/console/policy", "No bundle was proposed."),
        ("/console/policy/observed", "Every decision was enforced."),
        ("/console/evidence", "No evidence key is configured here"),
        ("/console/evidence", "Nothing was exported."),
        ("/console/custody", "Nothing is held."),
        ("/console/custody", "Nothing was erased."),
    ] {
        let seen = aude.get(path).await;
        assert!(seen.status == 200 && seen.body.contains(said), "{path}: {}", seen.body);
    }
    let observed = aude.get("/console/policy/observed?since=yesterday").await;
    assert!(
        observed.status == 200 && observed.body.contains("role=\"alert\""),
        "{}",
        observed.body
    );
    let digest = format!("sha256:{}", "0".repeat(64));
    for (path, status) in [
        (format!("/console/policy/{digest}"), 404),
        ("/console/policy/x".to_owned(), 400),
        (format!("/console/policy/{digest}/backtest"), 400),
        ("/console/custody/erasures/7".to_owned(), 400),
    ] {
        assert_eq!(aude.get(&path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn what_needs_a_role_or_a_signature_is_no_form_of_others() {
    let api = ApiServer::open().await;
    let (aude, otto) = (Browser::of(&api, "aude").await, Browser::of(&api, "otto").await);
    let (hers, his) = (aude.get("/console/custody").await, otto.get("/console/custody").await);
    let form = |path: &str| format!(r#"action="{path}""#);
    assert!(hers.body.contains(&form("/console/custody/hold")), "{}", hers.body);
    assert!(!hers.body.contains(&form("/console/custody/erasure")), "{}", hers.body);
    assert!(!his.body.contains(&form("/console/custody/hold")), "{}", his.body);
    assert!(his.body.contains(&form("/console/custody/erasure")), "{}", his.body);
    assert!(
        his.body.contains("wicketgate ledger payload erase --hub http://localhost"),
        "{}",
        his.body
    );
    // Without an evidence key nothing is held, and the page leads back.
    let token = hers.token("/console/custody/hold");
    let run = run_id(1).to_string();
    let fields = [("form", &*token), ("run", &run), ("reason", "case 7")];
    let seen = aude.send("/console/custody/hold", &fields).await;
    assert_eq!(seen.status, 400, "{}", seen.body);
    assert!(seen.attributes("href").contains(&"/console/custody".to_owned()), "{}", seen.body);
    // A form of one path is none of another, and others' forms are refused before anything is read.
    for path in ["/console/evidence/verify", "/console/evidence/export", "/console/custody/hold"] {
        let seen = aude.send(path, &[("form", "x"), ("run", &run)]).await;
        assert_eq!(seen.status, 403, "{path}: {}", seen.body);
        assert_eq!(otto.send(path, &[("form", "x")]).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn the_page_of_a_stop_gives_the_command_that_takes_it_back() {
    let api = ApiServer::open().await;
    let given = OrderOrigin {
        subject: "otto".to_owned(),
        roles: vec!["operator".to_owned()],
        auth: "token".to_owned(),
        reason: "it loops".to_owned(),
        expires: None,
    };
    for action in [Action::Suspend, Action::Kill] {
        let target = Target::Agent("refund-agent".to_owned());
        let order = Order::Switch { action, target };
        api.orders.put(SystemClock::new().now(), &given, &order).await.unwrap();
    }
    let otto = Browser::of(&api, "otto").await;
    let stop = otto.get("/console/orders/1").await;
    let command = "wicketgate control reinstate agent refund-agent --reason &#39;WHY&#39; --token-file TOKEN --key KEY --url http://localhost";
    let command = command.replace("&#39;", "'");
    assert!(stop.body.contains(&command), "{}", stop.body);
    assert!(!otto.get("/console/orders/2").await.body.contains("control reinstate"));
}

#[tokio::test]
async fn the_api_lists_what_the_pages_show() {
    let api = ApiServer::open().await;
    for (path, body) in [
        ("/v1/exports", json!({"exports": [], "more": false})),
        ("/v1/policy", json!({"bundles": [], "more": false})),
    ] {
        assert_eq!(api.get("aude", path).await, (200, body), "{path}");
    }
    let (status, said) =
        api.post("aude", "/v1/audit/verify", &json!({"run": run_id(1).to_string()})).await;
    assert_eq!((status, said["cause"].as_str()), (400, Some("evidence.none")), "{said}");
}

/// A statement that lets a value pass at this place until this year, as an operator signs it.
fn allowance(head: &serde_json::Value, path: &str, days: u64) -> serde_json::Value {
    let now = SystemClock::new().now();
    let end = now.plus(std::time::Duration::from_secs(days * 86_400));
    let finding =
        json!({"direction": "arguments", "kind": "github", "mark": "5f".repeat(16), "path": path});
    let statement = json!({"at": now.to_string(), "expires": end.to_string(), "finding": finding,
        "name": "note.put", "order": "allow", "previous": head["digest"], "previous_seq": head["seq"],
        "reason": "a fixture of the tests", "target": "tool", "tenant": head["tenant"],
        "v": "wicketgate/order/1"});
    json!({"statement": statement.to_string(), "signature": "-"})
}

#[tokio::test]
async fn exceptions_of_the_firewall_are_shown_with_place_person_and_end_and_revoked_without_a_signature()
 {
    let api = ApiServer::open().await;
    let _gate = api.gate(GATE, r#"{"known":true}"#).await;
    let (otto, vera) = (Browser::of(&api, "otto").await, Browser::of(&api, "vera").await);
    let empty = vera.get("/console/exceptions").await;
    assert!(empty.body.contains("No value passes the firewall"), "{}", empty.body);
    for path in ["/text", "/<b>"] {
        let (_, head) = api.get("otto", "/v1/control/head").await;
        let sent = allowance(&head, path, 30);
        let (status, answer) = api.post("otto", "/v1/firewall/exceptions", &sent).await;
        assert_eq!(status, 200, "{answer}");
    }
    // Who may look sees where, what, who, until when and why; and only an operator has a form.
    let hers = vera.get("/console/exceptions").await;
    for shown in
        ["in force at 1 gate", "note.put", "/text", "github", "otto", "a fixture", "ends in"]
    {
        assert!(hers.body.contains(shown), "{shown}: {}", hers.body);
    }
    assert!(!hers.body.contains("<b>") && !hers.body.contains("<form"), "{}", hers.body);
    let his = otto.get("/console/exceptions").await;
    let command = "wicketgate control finding allow TOOL --kind KIND --path=PLACE --mark MARK";
    assert!(his.body.contains(command), "{}", his.body);
    assert_eq!(his.attributes("value").iter().filter(|value| *value == "1").count(), 1);
    let form = his.token("/console/exceptions");
    for (order, reason, status) in [("", "why", 400), ("1", " ", 400), ("7", "why", 404)] {
        let fields = [("form", &*form), ("order", order), ("reason", reason)];
        let seen = otto.send("/console/exceptions", &fields).await;
        assert_eq!(seen.status, status, "{order}, {reason}: {}", seen.body);
    }
    let fields = [("form", &*form), ("order", "1"), ("reason", "the key was real")];
    assert_eq!(vera.send("/console/exceptions", &fields).await.status, 403);
    assert_eq!(api.orders.since(0, 10).await.unwrap().len(), 2, "nothing was ordered so far");
    let seen = otto.send("/console/exceptions", &fields).await;
    assert_eq!((seen.status, seen.header("location")), (303, Some("/console/orders/3")));
    let after = otto.get("/console/exceptions").await;
    assert!(after.body.contains("revoked"), "{}", after.body);
    assert!(!after.attributes("value").contains(&"1".to_owned()), "{}", after.body);
}
