//! Calls as they happen.

use serde_json::json;

use crate::gate::{Gate, Run, call, is, problem};
use crate::wire::{Event, Wire};

async fn follow(gate: &Gate, run: &Run, id: &str, after: Option<u64>) -> Wire {
    let after = after.map(|after| after.to_string());
    let mut lines = vec![("Authorization", run.bearer.as_str()), ("Accept", "text/event-stream")];
    lines.extend(after.as_deref().map(|after| ("Last-Event-ID", after)));
    gate.begin("GET", &format!("/gate/v1/calls/{id}/events"), &lines, "").await
}

async fn all(wire: &mut Wire) -> Vec<Event> {
    let (mut events, mut kept) = (Vec::new(), String::new());
    while let Some(event) = wire.named_event(&mut kept).await {
        events.push(event);
    }
    events
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_followed_from_its_hold_to_its_result_and_goes_on_after_a_break() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    gate.tool.hold();
    gate.put(&run, "h", &call(json!({"hold": true}))).await;
    let mut wire = follow(&gate, &run, "h", None).await;
    let head = wire.head().await.unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"));
    let mut kept = String::new();
    let held = wire.named_event(&mut kept).await.unwrap();
    assert_eq!((held.name.as_str(), &held.data["code"]), ("held", &json!("call.held")));
    gate.approve(&run, "h");
    let authorized = wire.named_event(&mut kept).await.unwrap();
    assert_eq!(
        (authorized.name.as_str(), &authorized.data["call_id"]),
        ("authorized", &json!("h"))
    );
    assert_eq!(authorized.data["receipt"]["run_seq"], json!(authorized.id));
    // The call is inside the tool; a client that comes back learns only what it does not have.
    gate.tool.entered(1).await;
    drop(wire);
    let mut again = follow(&gate, &run, "h", held.id).await;
    again.head().await.unwrap();
    let mut kept = String::new();
    assert_eq!(again.named_event(&mut kept).await.unwrap(), authorized);
    gate.tool.release();
    let completed = again.named_event(&mut kept).await.unwrap();
    assert_eq!(completed.name, "completed");
    assert_eq!(completed.data, gate.get(&run, "h").await.json());
    assert!(held.id < authorized.id && authorized.id < completed.id);
    assert_eq!(again.chunk().await, None, "the end of the call ends the stream");

    // All of it is there later, too.
    let mut late = follow(&gate, &run, "h", None).await;
    late.head().await.unwrap();
    assert_eq!(all(&mut late).await, [held, authorized.clone(), completed.clone()]);
    let mut late = follow(&gate, &run, "h", authorized.id).await;
    late.head().await.unwrap();
    assert_eq!(all(&mut late).await, std::slice::from_ref(&completed));
    // A client that has everything is told not to come back (HTML, 9.2.3).
    let mut late = follow(&gate, &run, "h", completed.id).await;
    assert_eq!(late.reply().await.unwrap().status, 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_has_no_result_ends_with_a_problem() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let denied = json!({"tool": "policy.undefined", "arguments": {}});
    let answer = gate.put(&run, "d", &denied).await;
    let mut wire = follow(&gate, &run, "d", None).await;
    wire.head().await.unwrap();
    let events = all(&mut wire).await;
    assert_eq!(names(&events), ["problem"]);
    assert_eq!(events[0].data, answer.json());
    gate.put(&run, "c", &call(json!({"hold": true}))).await;
    let mut wire = follow(&gate, &run, "c", None).await;
    wire.head().await.unwrap();
    let mut kept = String::new();
    assert_eq!(wire.named_event(&mut kept).await.unwrap().name, "held");
    gate.of(&run, "DELETE", "/gate/v1/calls/c", "").await;
    let end = wire.named_event(&mut kept).await.unwrap();
    assert_eq!((end.name.as_str(), &end.data["code"]), ("problem", &json!("call.cancelled")));

    let lines = [("Authorization", run.bearer.as_str())];
    let none = gate.ask("GET", "/gate/v1/calls/no-such/events", &lines, "").await;
    assert_eq!(problem(&none), is(404, "call.not_found", ""));
    for (line, status, cause) in [
        (("Accept", "application/json"), 406, "http.accept"),
        (("Last-Event-ID", "x"), 400, "http.last_event"),
    ] {
        let lines = [("Authorization", run.bearer.as_str()), line];
        let reply = gate.ask("GET", "/gate/v1/calls/d/events", &lines, "").await;
        assert_eq!(problem(&reply), is(status, "request.malformed", cause));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_takes_events_gets_them_if_its_call_is_not_over_at_once() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let lines = |accept: &'static str| [("Authorization", run.bearer.as_str()), ("Accept", accept)];
    let (both, events) = ("application/json, text/event-stream", "text/event-stream");
    let body = |n: u64| call(json!({"n": n})).to_string();
    let quick = gate.ask("PUT", "/gate/v1/calls/q", &lines(both), &body(1)).await;
    assert_eq!((quick.status, quick.header("content-type")), (200, Some("application/json")));
    let only = gate.ask("POST", "/gate/v1/calls", &lines(events), &body(2)).await;
    assert_eq!((only.status, only.header("content-type")), (200, Some(events)));
    assert_eq!(names(&only.all_events()), ["authorized", "completed"]);
    // A refusal has its own status for as long as no event was sent.
    let other = gate.ask("PUT", "/gate/v1/calls/q", &lines(events), &body(3)).await;
    assert_eq!(problem(&other), is(409, "call.conflict", ""));

    gate.tool.hold();
    let mut slow = gate.begin("PUT", "/gate/v1/calls/s", &lines(both), &body(4)).await;
    let head = slow.head().await.unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some(events)));
    let mut kept = String::new();
    assert_eq!(slow.named_event(&mut kept).await.unwrap().name, "authorized");
    gate.tool.release();
    assert_eq!(slow.named_event(&mut kept).await.unwrap().name, "completed");
    assert_eq!(slow.chunk().await, None);

    let mut held = gate
        .begin("PUT", "/gate/v1/calls/h", &lines(both), &call(json!({"hold": true})).to_string())
        .await;
    assert_eq!(held.head().await.unwrap().status, 200);
    let mut kept = String::new();
    assert_eq!(held.named_event(&mut kept).await.unwrap().name, "held");
    gate.approve(&run, "h");
    assert_eq!(held.named_event(&mut kept).await.unwrap().name, "authorized");
    assert_eq!(held.named_event(&mut kept).await.unwrap().name, "completed");
    let no_html = [("Authorization", run.bearer.as_str()), ("Accept", "text/html")];
    let reply = gate.ask("POST", "/gate/v1/calls", &no_html, &body(5)).await;
    assert_eq!(problem(&reply), is(406, "request.malformed", "http.accept"));
}
