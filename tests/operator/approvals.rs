//! What is shown of held calls, and which words are passed on.

use serde_json::{Value, json};
use wicketgate::approval::{ApproverVerdict, Statement as _};
use wicketgate::control::Order;
use wicketgate::operator::view::Facts;
use wicketgate::record::Kind;

use crate::api::{ARMOR, ApiServer, Ask, GATE, ask, canonical_args, run_id};

const COUNTED: &str = r#"{"counted":true,"call":"authorized","detail":"","message":""}"#;

#[tokio::test]
async fn the_gravest_comes_first_the_same_ask_once_and_no_argument_is_in_the_list() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(Ask { tier: "T2", expires: 60, ..ask(run, "early", r#"{"secret":"s3cr3t"}"#) }).await;
    for call in ["a", "b", "c"] {
        api.hold(ask(run, call, r#"{"amount":120012001200}"#)).await;
    }
    api.hold(Ask { expires: 90, ..ask(run, "soon", r#"{"amount":7}"#) }).await;
    let (status, body) = api.get("vera", "/v1/approvals").await;
    assert_eq!(status, 200);
    let held = body["held"].as_array().unwrap();
    let calls: Vec<_> =
        held.iter().map(|ask| (ask["call"].as_str().unwrap(), &ask["count"])).collect();
    assert_eq!(calls, [("soon", &json!(1)), ("a", &json!(3)), ("early", &json!(1))]);
    assert_eq!(
        (&body["calls"], &body["asks"], &body["more"]),
        (&json!(5), &json!(3), &json!(false))
    );
    assert!(!body.to_string().contains("s3cr3t") && !body.to_string().contains("120012001200"));
    let (_, one) = api.get("vera", "/v1/approvals?limit=1").await;
    assert_eq!((one["held"].as_array().unwrap().len(), &one["more"]), (1, &json!(true)));

    // What ends is gone, also for an operator API that has looked before.
    api.end_call(run, "soon").await;
    let (_, body) = api.get("vera", "/v1/approvals").await;
    assert_eq!(body["held"][0]["call"], "a");
    let (status, gone) = api.get("anna", &format!("/v1/approvals/{run}/soon")).await;
    assert_eq!((status, &gone["cause"]), (404, &json!("approval.not_held")));
    let (_, runs) = api.get("vera", "/v1/runs").await;
    assert_eq!((&runs["runs"][0]["held"], &runs["runs"][0]["calls"]), (&json!(4), &json!(5)));
}

async fn facts(api: &ApiServer, path: &str) -> (Facts, Value) {
    let (status, body) = api.get("anna", path).await;
    assert_eq!(status, 200, "{body}");
    (serde_json::from_value(body["facts"].clone()).unwrap(), body)
}

#[tokio::test]
async fn the_facts_make_the_digest_again_and_the_view_says_what_runs() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let args = canonical_args(r#"{"to":"DE02","amount":1200,"note":"safe\u202etxt\n"}"#);
    let digest = api.hold(ask(run, "c1", &args)).await;
    let path = format!("/v1/approvals/{run}/c1");
    let (facts, body) = facts(&api, &path).await;
    assert_eq!(facts.arguments, args);
    let (_, statement) = facts.check(ApproverVerdict::Approve).unwrap();
    assert_eq!(statement.call_digest, digest);
    assert_eq!(body["statement"].as_str().unwrap().as_bytes(), statement.bytes());
    assert!(body["refusal"].as_str().unwrap().contains(r#""verdict":"refuse""#));
    let view = body["view"].as_str().unwrap();
    assert_eq!(view, facts.render().unwrap());
    for part in [
        "T3 CANNOT BE UNDONE",
        "POST\n",
        "https://pay.example.com:443/refunds",
        r#""note": "safe\u{202e}txt\n""#,
        "rule wicketgate.org.require_approval org/main.rego:12",
        "NOT VERIFIED",
        r#"label note = "trust me\u{1b}[2J""#,
    ] {
        assert!(view.contains(part), "{part}: {view}");
    }
}

#[tokio::test]
async fn what_cannot_be_shown_whole_is_not_shown_at_all() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1024 * 1024));
    api.hold(ask(run, "large", &large)).await;
    // Longer than what this test stores with the entry: as one whose payload was never kept.
    let lost = format!("{{\"a\":\"{}\"}}", "x".repeat(32 * 1024));
    api.hold(ask(run, "lost", &lost)).await;
    for (call, cause) in [("large", "approval.too_large"), ("lost", "approval.withheld")] {
        let (status, body) = api.get("anna", &format!("/v1/approvals/{run}/{call}")).await;
        assert_eq!(status, 409, "{body}");
        assert_eq!((&body["code"], &body["cause"]), (&json!("approval.unviewable"), &json!(cause)));
        assert!(body.get("facts").is_none() && !body.to_string().contains("xxx"));
    }
}

#[tokio::test]
async fn only_the_statement_of_this_very_hold_is_passed_on_and_the_gates_answer_comes_back() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1200}"#)).await;
    api.hold(ask(run, "c2", r#"{"amount":1}"#)).await;
    let path = format!("/v1/approvals/{run}/c1");
    let (_, body) = facts(&api, &path).await;
    let (_, other) = facts(&api, &format!("/v1/approvals/{run}/c2")).await;
    let statement = body["statement"].as_str().unwrap();
    let pretty =
        serde_json::to_string_pretty(&serde_json::from_str::<Value>(statement).unwrap()).unwrap();
    let wrong = [
        other["statement"].as_str().unwrap().to_owned(),
        pretty,
        statement[..statement.len() - 1].to_owned(),
        format!("{statement}\n"),
        statement.replace("approve", "always"),
        "{}".to_owned(),
    ];
    for statement in wrong {
        let word = json!({"statement": statement, "signature": ARMOR});
        let (status, answer) = api.post("anna", &path, &word).await;
        assert_eq!((status, &answer["cause"]), (400, &json!("approval.statement")), "{statement}");
    }
    for signature in ["", "MEUCIQ", "-----BEGIN SSH SIGNATURE-----"] {
        let word = json!({"statement": statement, "signature": signature});
        let (status, answer) = api.post("anna", &path, &word).await;
        assert_eq!((status, &answer["cause"]), (400, &json!("approval.signature")));
    }
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);

    let _gate = api.gate(GATE, COUNTED).await;
    let word = json!({"statement": statement, "signature": ARMOR});
    let (status, answer) = api.post("anna", &path, &word).await;
    assert_eq!((status, &answer["complete"]), (200, &json!(true)), "{answer}");
    assert_eq!(answer["gates"][0]["done"]["call"], "authorized");
    let rows = api.orders.since(0, 10).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].given.subject, "anna");
    let Some(Order::ApproverStatement { statement: sent, signature, .. }) = &rows[0].order else {
        panic!()
    };
    assert_eq!((sent.as_str(), signature.as_str()), (statement, ARMOR));
    let set = api.entries(Kind::ControlSet).await;
    assert_eq!(set.len(), 1);
    let said = |name: &str| set[0].get(name).unwrap().as_str().unwrap().to_owned();
    assert_eq!((said("subject"), said("reason")), ("anna".into(), "approve call c1".into()));
}

#[tokio::test]
async fn a_decision_that_no_gate_counted_is_not_reported_as_complete() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1200}"#)).await;
    let path = format!("/v1/approvals/{run}/c1");
    let (_, body) = facts(&api, &path).await;
    let word = json!({"statement": body["refusal"], "signature": ARMOR});
    let (status, answer) = api.post("anna", &path, &word).await;
    assert_eq!((status, &answer["complete"]), (202, &json!(false)), "{answer}");
    assert_eq!(answer["not_reached"][0]["origin"], GATE);

    let refused = r#"{"counted":false,"call":"held","detail":"approval.signature","message":"no"}"#;
    let _gate = api.gate(GATE, refused).await;
    let (status, answer) = api.post("anna", &path, &word).await;
    assert_eq!((status, &answer["complete"]), (202, &json!(false)), "{answer}");
    assert_eq!(answer["gates"][0]["done"]["detail"], "approval.signature");
}

#[tokio::test]
async fn other_arguments_are_bounded_signed_as_they_are_and_not_shown_to_who_may_not_read_them() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1200}"#)).await;
    let path = format!("/v1/approvals/{run}/c1/modify");
    let signed = |arguments: &str, statement: &[u8]| {
        json!({"arguments": arguments, "reason": "less", "signature": ARMOR,
            "statement": String::from_utf8(statement.to_vec()).unwrap()})
    };
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(64 * 1024));
    for arguments in ["[1]", "{", r#"{"a":1,"a":2}"#, "", &large] {
        let (status, answer) = api.post("anna", &path, &signed(arguments, b"{}")).await;
        assert_eq!((status, &answer["cause"]), (400, &json!("approval.arguments")), "{answer}");
    }
    let (facts, shown) = facts(&api, &format!("/v1/approvals/{run}/c1")).await;
    let arguments = r#"{ "b": 1, "amount": 10 }"#;
    let proposal = facts.proposal(canonical_args(arguments).as_bytes()).unwrap().bytes();
    // A token alone proposes nothing, nor does a word about the call, nor a proposal of something else.
    let unsigned = json!({"arguments": arguments, "reason": "less"});
    assert_eq!(api.post("anna", &path, &unsigned).await.0, 400);
    let other = facts.proposal(br#"{"amount":9}"#).unwrap().bytes();
    let words =
        ["statement", "refusal"].map(|name| shown[name].as_str().unwrap().as_bytes().to_vec());
    for statement in words.iter().chain([&other]) {
        let (status, answer) = api.post("anna", &path, &signed(arguments, statement)).await;
        assert_eq!((status, &answer["cause"]), (400, &json!("approval.statement")), "{answer}");
    }
    let word =
        json!({"statement": String::from_utf8(proposal.clone()).unwrap(), "signature": ARMOR});
    let (status, _) = api.post("anna", &format!("/v1/approvals/{run}/c1"), &word).await;
    assert_eq!(status, 400, "a proposal is no word about the call");
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);

    // No gate is there: it is on the list, and not called done.
    let (status, answer) = api.post("anna", &path, &signed(arguments, &proposal)).await;
    assert_eq!((status, &answer["complete"]), (202, &json!(false)), "{answer}");
    let rows = api.orders.since(0, 10).await.unwrap();
    let Some(Order::Modify { arguments, .. }) = &rows[0].order else { panic!() };
    assert_eq!(arguments, r#"{"amount":10,"b":1}"#);
    let (_, shown) = api.get("vera", "/v1/control").await;
    assert_eq!(shown["orders"][0]["body"]["bytes"], 19);
    assert!(!shown.to_string().contains("amount"), "{shown}");
    let unknown = json!({"arguments": "{}", "roles": ["operator"]});
    let (status, answer) = api.post("anna", &path, &unknown).await;
    assert_eq!(status, 400, "{answer}");
}
