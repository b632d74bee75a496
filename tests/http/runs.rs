//! Runs: opened on each listener, shown, sealed; their tools; tests of isolation.

use serde_json::{Value, json};

use crate::checker::kinds;
use crate::gate::{Gate, call, claims, is, problem};
use crate::wire::{Wire, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_opened_shown_used_and_sealed_on_both_listeners() {
    let gate = Gate::start().await;
    let agent = format!("Bearer {}", crate::gate::TOKEN);
    for (place, credential) in [(gate.tcp.clone(), Some(&agent)), (gate.socket(), None)] {
        let mut wire = Wire::open(&place).await;
        let mut lines = vec![("Host", gate.host.as_str()), ("Content-Type", "application/json")];
        lines.extend(credential.map(|value| ("Authorization", value.as_str())));
        let body = claims().to_string();
        wire.send(&request("POST", "/gate/v1/runs", &lines, body.as_bytes())).await;
        let opened = wire.reply().await.unwrap();
        assert_eq!(opened.status, 201, "{opened:?}");
        assert_eq!(opened.header("location"), Some("/gate/v1/run"));
        assert_eq!(opened.header("cache-control"), Some("no-store"));
        assert!(opened.header("wicketgate-receipt").unwrap().starts_with("seq="));
        let opened = opened.json();
        assert_eq!(
            (&opened["binding"], &opened["receipt"]["run_seq"]),
            (&json!("claimed"), &json!(0))
        );
        let token = format!("Bearer {}", opened["run_token"].as_str().unwrap());
        let run_lines = [("Host", gate.host.as_str()), ("Authorization", token.as_str())];

        // A kept connection, one request after the other.
        let mut ask = async |verb: &str, path: &str, body: &str| {
            let mut lines = run_lines.to_vec();
            if !body.is_empty() {
                lines.push(("Content-Type", "application/json"));
            }
            wire.send(&request(verb, path, &lines, body.as_bytes())).await;
            wire.reply().await.unwrap()
        };
        let made = ask("POST", "/gate/v1/calls", &call(json!({"n": 1})).to_string()).await;
        assert_eq!(made.status, 200, "{made:?}");
        let made = made.json();
        assert_eq!(made["result"]["body"]["done"], true, "{made}");
        assert!(made["call_id"].as_str().unwrap().starts_with("c-"), "{made}");
        assert_eq!(made["outcome_pending"], false);
        let denied = r#"{"tool": "policy.undefined", "arguments": {}}"#;
        assert_eq!(ask("POST", "/gate/v1/calls", denied).await.status, 403);
        let shown = ask("GET", "/gate/v1/run", "").await.json();
        assert_eq!((&shown["run_id"], &shown["agent"]), (&opened["run_id"], &json!("test-agent")));
        let counts = json!({"calls": 2, "errors": 0, "denied": 1, "held": 0, "in_flight": 0});
        assert_eq!((&shown["counts"], &shown["sealed"]), (&counts, &json!(false)), "{shown}");
        let sealed = ask("POST", "/gate/v1/run/seal", "").await;
        assert_eq!(sealed.status, 200, "{sealed:?}");
        assert!(sealed.json()["entries"].as_u64().unwrap() >= 5, "{sealed:?}");
        let late = ask("POST", "/gate/v1/calls", &call(json!({})).to_string()).await;
        assert_eq!(problem(&late), is(409, "run.sealed", ""));
        assert_eq!(ask("GET", "/gate/v1/run", "").await.json()["sealed"], true);
    }
    let summary = gate.checked().await;
    assert_eq!(kinds(&summary, "run.opened"), 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_claims_what_the_manifest_lists_and_no_more() {
    let gate = Gate::start().await;
    let agent = format!("Bearer {}", crate::gate::TOKEN);
    let open = async |body: Value| {
        let lines = [("Authorization", agent.as_str())];
        gate.ask("POST", "/gate/v1/runs", &lines, &body.to_string()).await
    };
    let none = gate.ask("POST", "/gate/v1/runs", &[("Authorization", &agent)], "").await;
    assert_eq!((none.status, &none.json()["binding"]), (201, &json!("unclaimed")));
    let other = open(json!({"model": "another-model"})).await;
    assert_eq!(problem(&other), is(403, "manifest.mismatch", "manifest.model"));
    let long = open(json!({"labels": {"team": "x".repeat(257)}})).await;
    assert_eq!(problem(&long), is(400, "request.malformed", "opening.size"));
    let half = open(json!({"parent_run": "r"})).await;
    assert_eq!(problem(&half), is(400, "request.malformed", "opening.parent"));
    let unknown = open(json!({"modell": "m"})).await;
    assert_eq!(problem(&unknown), is(400, "request.malformed", "body.member"));
    assert!(unknown.json()["detail"].as_str().unwrap().contains("`modell`"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_are_those_of_grpc_and_are_not_sent_again_while_they_are_the_same() {
    let gate = Gate::start().await;
    let (run, agent) = (gate.open().await, gate.sidecar.open().await);
    let list = gate.of(&run, "GET", "/gate/v1/tools", "").await;
    let tools = list.json();
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, agent.tools().await);
    assert_eq!(tools["tools"][0]["input_schema"]["type"], "object", "{tools}");
    let etag = list.header("etag").unwrap();
    let lines = [("Authorization", run.bearer.as_str()), ("If-None-Match", etag)];
    let same = gate.ask("GET", "/gate/v1/tools", &lines, "").await;
    assert_eq!((same.status, same.body.as_str(), same.header("etag")), (304, "", Some(etag)));
    let one = gate.of(&run, "GET", "/gate/v1/tools/work.do", "").await;
    assert_eq!(one.json()["description"], "does work");
    let unbound = gate.of(&run, "GET", "/gate/v1/tools/work.unbound", "").await;
    let unknown = gate.of(&run, "GET", "/gate/v1/tools/no.such", "").await;
    assert_eq!(problem(&unbound), is(403, "tool.not_granted", ""));
    assert_eq!(unbound.body, unknown.body, "the same words");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_posture_report_answers_its_challenge_once() {
    let gate = Gate::start().await;
    let agent = format!("Bearer {}", crate::gate::TOKEN);
    let ask = async |path: &str, body: &str| {
        gate.ask("POST", path, &[("Authorization", &agent)], body).await
    };
    let challenge = ask("/gate/v1/posture/challenge", "").await;
    assert_eq!(challenge.status, 200, "{challenge:?}");
    let challenge = challenge.json();
    assert_eq!(challenge["isolation"], "advisory", "{challenge}");
    let probe = json!({"probe": "tcp.public", "target": "192.0.2.1:443", "outcome": "blocked"});
    let report = json!({"nonce": challenge["nonce"], "doctor": "tests 1", "probes": [probe]});
    let observed = ask("/gate/v1/posture/report", &report.to_string()).await;
    assert_eq!(observed.status, 200, "{observed:?}");
    assert_eq!(observed.json()["passed"], false, "{observed:?}");
    assert!(observed.header("wicketgate-receipt").is_some());
    let again = ask("/gate/v1/posture/report", &report.to_string()).await;
    assert_eq!(problem(&again).1, "identity.missing", "the nonce is spent: {again:?}");
    let odd = json!({"nonce": "x", "doctor": "t", "probes": [{"probe": "p", "target": "t", "outcome": "odd"}]});
    let odd = ask("/gate/v1/posture/report", &odd.to_string()).await;
    assert_eq!(problem(&odd), is(400, "request.malformed", "posture"));
    let summary = gate.checked().await;
    assert_eq!(kinds(&summary, "posture.observed"), 1, "{summary}");
}
