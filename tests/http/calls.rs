//! Calls: repeated, held, cancelled, left behind; and the same call over gRPC.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::checker::calls;
use crate::gate::{Gate, call, is, problem};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_and_bytes_get_the_same_answer_and_other_bytes_a_conflict() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let first = gate.put(&run, "a", &call(json!({"n": 1}))).await;
    assert_eq!((first.status, &first.json()["call_id"]), (200, &json!("a")));
    assert!(first.header("wicketgate-receipt").unwrap().contains("run_seq="));
    let again = gate.put(&run, "a", &call(json!({"n": 1}))).await;
    let known = gate.get(&run, "a").await;
    for same in [&again, &known] {
        assert_eq!((same.status, &same.json()["receipt"]), (200, &first.json()["receipt"]));
        assert_eq!(same.json()["result"], first.json()["result"]);
    }
    let other = gate.put(&run, "a", &call(json!({"n": 2}))).await;
    assert_eq!(problem(&other), is(409, "call.conflict", ""));

    // The header names the call as the path and the body do, and they must not differ.
    let keyed = async |key: &str, path: &str, body: Value| {
        let lines = [("Authorization", run.bearer.as_str()), ("Idempotency-Key", key)];
        let verb = if path.ends_with("calls") { "POST" } else { "PUT" };
        gate.ask(verb, path, &lines, &body.to_string()).await
    };
    for key in ["a", "\"a\""] {
        let same = keyed(key, "/gate/v1/calls", call(json!({"n": 1}))).await;
        assert_eq!((same.status, &same.json()["receipt"]), (200, &first.json()["receipt"]));
    }
    let mut named = call(json!({"n": 1}));
    named["call_id"] = json!("b");
    for reply in [
        keyed("a", "/gate/v1/calls", named.clone()).await,
        keyed("b", "/gate/v1/calls/a", call(json!({"n": 1}))).await,
        gate.put(&run, "a", &named).await,
        keyed("not an id", "/gate/v1/calls", call(json!({"n": 1}))).await,
        keyed("a\"", "/gate/v1/calls", call(json!({"n": 1}))).await,
        keyed("..", "/gate/v1/calls", call(json!({"n": 1}))).await,
    ] {
        assert_eq!(problem(&reply), is(400, "request.malformed", "call.id"), "{reply:?}");
    }
    assert_eq!(problem(&gate.get(&run, "no-such").await), is(404, "call.not_found", ""));
    assert_eq!(gate.tool.count(), 1);
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_says_where_to_ask_again_and_runs_once_it_is_approved() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let held = gate.put(&run, "h", &call(json!({"hold": true}))).await;
    assert_eq!(problem(&held).1, "call.held", "{held:?}");
    assert_eq!(held.status, 202);
    assert_eq!(held.header("location"), Some("/gate/v1/calls/h"));
    assert_eq!(held.header("retry-after"), Some("1"));
    let body = held.json();
    assert_eq!((&body["retry"], &body["retry_after_seconds"]), (&json!("poll"), &json!(1)));
    assert!(body["expires"].is_string() && body["receipt"]["run_seq"].is_u64(), "{body}");
    assert_eq!(gate.get(&run, "h").await.status, 202);
    assert_eq!(gate.of(&run, "GET", "/gate/v1/run", "").await.json()["counts"]["held"], 1);
    gate.approve(&run, "h");
    let waited = gate.of(&run, "GET", "/gate/v1/calls/h?wait_ms=60000", "").await;
    assert_eq!((waited.status, &waited.json()["result"]["body"]["done"]), (200, &json!(true)));
    let again = gate.put(&run, "h", &call(json!({"hold": true}))).await;
    assert_eq!(again.json()["receipt"], waited.json()["receipt"]);
    assert_eq!(gate.tool.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_cancelled_held_or_running_and_one_that_is_over_stays_as_it_is() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let delete =
        async |id: &str| gate.of(&run, "DELETE", &format!("/gate/v1/calls/{id}"), "").await;
    assert_eq!(problem(&delete("no-such").await), is(404, "call.not_found", ""));
    gate.put(&run, "h", &call(json!({"hold": true}))).await;
    let asked = delete("h").await;
    assert_eq!((asked.status, asked.header("location")), (202, Some("/gate/v1/calls/h")));
    assert_eq!(asked.json(), json!({"call_id": "h"}));
    let ended = gate.of(&run, "GET", "/gate/v1/calls/h?wait_ms=60000", "").await;
    assert_eq!(problem(&ended).1, "call.cancelled", "{ended:?}");

    gate.tool.hold();
    let lines = [("Authorization", run.bearer.as_str())];
    let body = call(json!({"n": 1})).to_string();
    let mut waiting = gate.begin("PUT", "/gate/v1/calls/r", &lines, &body).await;
    gate.tool.entered(1).await;
    assert_eq!(delete("r").await.status, 202);
    // The tool may have done its work: nobody knows.
    let ended = waiting.reply().await.unwrap();
    assert_eq!((ended.status, problem(&ended).1.as_str()), (500, "call.unknown"));
    gate.tool.release();

    gate.put(&run, "o", &call(json!({"n": 2}))).await;
    assert_eq!(delete("o").await.status, 202);
    assert_eq!(gate.get(&run, "o").await.status, 200);
    let summary = gate.checked().await;
    assert_eq!((calls(&summary, "completed"), calls(&summary, "unknown")), (1, 1), "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_client_leaves_goes_on_and_its_answer_is_kept() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    gate.tool.hold();
    let lines = [("Authorization", run.bearer.as_str())];
    let body = call(json!({"n": 1})).to_string();
    drop(gate.begin("PUT", "/gate/v1/calls/left", &lines, &body).await);
    gate.tool.entered(1).await;
    gate.tool.release();
    let answer = gate.get(&run, "left").await;
    assert_eq!((answer.status, &answer.json()["result"]["body"]["done"]), (200, &json!(true)));
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_of_the_road_has_the_status_of_its_code() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let ask = async |tool: &str, arguments: Value| {
        gate.of(
            &run,
            "POST",
            "/gate/v1/calls",
            &json!({"tool": tool, "arguments": arguments}).to_string(),
        )
        .await
    };
    let denied = ask("policy.undefined", json!({})).await;
    assert_eq!((denied.status, problem(&denied).1.as_str()), (403, "policy.denied"));
    assert!(
        denied.json()["receipt"]["seq"].is_u64() && denied.header("wicketgate-receipt").is_some()
    );
    let unknown = ask("no.such", json!({})).await;
    assert_eq!((unknown.status, problem(&unknown).1.as_str()), (403, "tool.not_granted"));
    let invalid = ask("work.do", json!({"n": "one"})).await;
    assert_eq!((invalid.status, problem(&invalid).1.as_str()), (400, "arguments.invalid"));
    let failed = ask("work.fail", json!({})).await;
    assert_eq!((failed.status, problem(&failed).1.as_str()), (502, "tool.failed"));
    let named = ask("not a name", json!({})).await;
    assert_eq!(problem(&named), is(400, "request.malformed", "tool.name"));
}

/// What two entries of the same call must have in common: all but ids, times, links and salts.
fn bare(mut entry: Value) -> Value {
    for name in ["seq", "prev", "ts", "mono", "run", "commit"] {
        entry.as_object_mut().unwrap().remove(name);
    }
    let text = entry.to_string();
    let masked =
        regex::Regex::new(r#"[0-9a-f]{32,64}|20\d\d-\d\d-\d\dT[0-9:.]+Z|"(?:us|[a-z_]*ms)":\d+"#)
            .unwrap();
    serde_json::from_str(&masked.replace_all(&text, |seen: &regex::Captures<'_>| {
        if seen[0].starts_with('"') { "\"m\":0".to_owned() } else { "x".to_owned() }
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_call_over_grpc_and_over_http_gives_the_same_entries() {
    // Each run is judged by what it read itself.
    let gate = Gate::start_with(|config| config["taint"] = json!({"linger_seconds": 0})).await;
    // Both on the socket: the same peer.
    let agent = Agent::open(gate.sidecar.socket(), &gate.estate.receipts).await;
    let mut wire = crate::wire::Wire::open(&gate.socket()).await;
    let lines = |token: Option<String>| {
        let mut lines = vec![("Host".to_owned(), "gate".to_owned())];
        lines.push(("Content-Type".to_owned(), "application/json".to_owned()));
        lines.extend(token.map(|token| ("Authorization".to_owned(), token)));
        lines
    };
    let mut ask = async |path: &str, token: Option<String>, body: Value| {
        let lines = lines(token);
        let lines: Vec<(&str, &str)> =
            lines.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        wire.send(&crate::wire::request("POST", path, &lines, body.to_string().as_bytes())).await;
        wire.reply().await.unwrap()
    };
    let opened = ask("/gate/v1/runs", None, crate::gate::claims()).await.json();
    let token = format!("Bearer {}", opened["run_token"].as_str().unwrap());
    agent.call("work.do", "same", r#"{"n":1,"s":"x"}"#).await.unwrap();
    let mut body = call(json!({"n": 1, "s": "x"}));
    body["call_id"] = json!("same");
    assert_eq!(ask("/gate/v1/calls", Some(token), body).await.status, 200);
    for kind in ["run.opened", "call.authorized", "call.completed"] {
        let entries = gate.entries(kind);
        assert_eq!(entries.len(), 2, "{kind}");
        assert_eq!(bare(entries[0].clone()), bare(entries[1].clone()), "{kind}");
        let data =
            |entry: &Value| entry["data"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(data(&entries[0]), data(&entries[1]), "{kind}");
    }
}
