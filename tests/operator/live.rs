//! The live feed: who may follow, what arrives, what is left out, and what ends it.

use serde_json::{Value, json};
use wicketgate::domain::code::Code;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::id::{CallId, RunId, ToolName};
use wicketgate::domain::json::Json;
use wicketgate::ledger::drafts::DraftWithPayloads;
use wicketgate::operator::operators::Operators;
use wicketgate::record::sample::body;
use wicketgate::record::{Draft, Kind};
use wicketgate::serve::pb;
use wicketgate::serve::pb::calls_client::CallsClient;
use wicketgate::serve::pb::live_client::LiveClient;

use crate::api::{ApiServer, Events, ask, run_id, token};

/// A call that is denied, as it is recorded.
fn denial(run: RunId, call: &str) -> DraftWithPayloads {
    let reason = Json::object([
        ("code", Json::from("policy.denied")),
        ("detail", Json::from("no_allow")),
        ("message", Json::from("no")),
        ("rule", Json::from("wicketgate.agent.deny")),
    ]);
    DraftWithPayloads::bare(Draft {
        run: Some(run),
        call: CallId::parse(call),
        tool: ToolName::parse("work.do"),
        verdict: Some(Verdict::Deny),
        ..Draft::of(body(Kind::CallDenied, [("reasons", vec![reason].into())]))
    })
}

async fn deny(api: &ApiServer, run: RunId, call: &str) {
    api.ledger.record(denial(run, call)).await.unwrap();
}

/// The calls of the next events. Alerts, which so many denials raise, are events too.
async fn calls(events: &mut Events, count: usize) -> Vec<String> {
    let mut calls = Vec::new();
    while calls.len() < count {
        let event = events.event().await.unwrap();
        if event.data["kind"] != "alert.raised" {
            calls.push(event.data["call"].as_str().unwrap_or_default().to_owned());
        }
    }
    calls
}

#[tokio::test]
async fn an_event_names_its_run_call_agent_tool_verdict_and_where_the_call_is_found() {
    let api = ApiServer::open().await;
    let mut events = api.live("vera", None).await;
    assert!(events.head.contains("content-type: text/event-stream"), "{}", events.head);
    assert!(events.head.contains("cache-control: no-store"), "{}", events.head);
    let run = run_id(1);
    api.open_run(run).await;
    deny(&api, run, "c1").await;
    api.hold(ask(run, "c2", r#"{"amount":1}"#)).await;
    api.end_call(run, "c2").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(events.event().await.unwrap());
    }
    let kinds: Vec<&Value> = seen.iter().map(|event| &event.data["kind"]).collect();
    assert_eq!(kinds, ["run.opened", "call.denied", "call.held", "call.expired"]);
    let denied = &seen[1].data;
    let expected = json!({"agent": "refund-agent", "tool": "work.do", "verdict": "deny",
        "code": "no_allow", "run": run.to_string(), "call": "c1", "kind": "call.denied",
        "ts": denied["ts"], "at": denied["at"]});
    assert_eq!(denied, &expected);
    // The address is that of the call's first decision, of its end too; the tool is known to the end.
    assert_eq!(seen[2].data["at"], seen[3].data["at"]);
    assert_eq!(
        (&seen[3].data["tool"], &seen[3].data["code"]),
        (&json!("payments.refund"), &json!("waited too long"))
    );
    let at = seen[3].data["at"].as_str().unwrap();
    let (status, call) = api.get("vera", &format!("/v1/calls/{at}")).await;
    assert_eq!((status, &call["call"], &call["state"]), (200, &json!("c2"), &json!("expired")));
}

#[tokio::test]
async fn a_follower_that_comes_back_misses_nothing_and_gets_nothing_twice() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let mut events = api.live("vera", None).await;
    deny(&api, run, "c0").await;
    let first = events.event().await.unwrap();
    assert_eq!(first.data["call"], "c0");
    drop(events);
    // More than a second's share: what was missed is not a flood.
    for n in 1..40 {
        deny(&api, run, &format!("c{n}")).await;
    }
    let mut again = api.live("vera", Some(&first.id)).await;
    let expected: Vec<String> = (1..40).map(|n| format!("c{n}")).collect();
    assert_eq!(calls(&mut again, 39).await, expected);
    deny(&api, run, "last").await;
    assert_eq!(calls(&mut again, 1).await, ["last"]);
    // In the address instead, as a page does it.
    let headers = format!("Authorization: Bearer {}\r\n", token("vera"));
    let mut page = api.stream(&format!("/v1/live?after={}", first.id), &headers).await;
    assert_eq!(calls(&mut page, 40).await.last().unwrap(), "last");
}

#[tokio::test]
async fn a_follower_of_a_process_that_began_again_gets_what_the_ledger_has() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let mut events = api.live("vera", None).await;
    deny(&api, run, "c0").await;
    let last = events.event().await.unwrap();
    // Of a run that is over by now, the newest entries say what is known of it.
    deny(&api, run, "c1").await;
    let sealed = Draft { run: Some(run), ..Draft::of(body(Kind::RunSealed, [])) };
    api.ledger.record(DraftWithPayloads::bare(sealed)).await.unwrap();
    let other = api.beside().await;
    let mut again = other.live("vera", Some(&last.id)).await;
    let (denied, over) = (again.event().await.unwrap(), again.event().await.unwrap());
    assert_eq!((&denied.data["call"], &over.data["kind"]), (&json!("c1"), &json!("run.sealed")));
    assert_eq!(denied.data["agent"], "refund-agent");
    // What no process keeps may be missing, and that is said.
    let unknown = format!("1-{}-1", "0".repeat(32));
    let mut gap = other.live("vera", Some(&unknown)).await;
    assert_eq!(gap.event().await.unwrap().data, json!({"more": null}));
}

#[tokio::test]
async fn a_flood_is_cut_to_twenty_a_second_and_its_rest_is_counted() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let mut events = api.live("vera", None).await;
    let flood = (0..300).map(|n| api.ledger.record(denial(run, &format!("c{n}"))));
    for done in futures_util::future::join_all(flood).await {
        done.unwrap();
    }
    // So many denials of one run and tool raise two alerts, each once.
    let all = 300 + 2;
    let (mut shown, mut left_out) = (0, 0);
    while shown + left_out < all {
        let event = events.event().await.unwrap();
        match event.data["more"].as_u64() {
            Some(more) => left_out += more,
            None => shown += 1,
        }
    }
    assert_eq!(shown + left_out, all);
    assert!(left_out >= 200, "{shown} were shown");
}

#[tokio::test]
async fn sixty_four_streams_are_open_at_most_and_half_of_them_by_one_operator() {
    let api = ApiServer::open().await;
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(api.live("vera", None).await);
    }
    let headers = |who: &str| format!("Authorization: Bearer {}\r\n", token(who));
    let own = api.stream("/v1/live", &headers("vera")).await;
    assert_eq!(own.status(), 429, "{}", own.head);
    for _ in 0..32 {
        open.push(api.live("otto", None).await);
    }
    let full = api.stream("/v1/live", &headers("anna")).await;
    assert_eq!(full.status(), 429, "{}", full.head);
    assert!(full.head.to_ascii_lowercase().contains("retry-after: "), "{}", full.head);
    assert_eq!(*api.refused.lock(), [Code::LimitExceeded; 2]);
    // One that ends makes room, and the others go on.
    drop(open.pop());
    loop {
        if api.stream("/v1/live", &headers("anna")).await.status() == 200 {
            break;
        }
    }
    let run = run_id(1);
    api.open_run(run).await;
    assert_eq!(open[0].event().await.unwrap().data["kind"], "run.opened");
}

#[tokio::test]
async fn a_stream_ends_with_the_credential_and_needs_its_right() {
    let api = ApiServer::open().await;
    let headers = format!("Authorization: Bearer {}\r\n", token("paul"));
    assert_eq!(api.stream("/v1/live", &headers).await.status(), 403);
    assert_eq!(api.stream("/v1/live", "").await.status(), 401);
    let headers = format!("Authorization: Bearer {}\r\n", token("vera"));
    assert_eq!(api.stream("/v1/live?after=x", &headers).await.status(), 400);
    assert_eq!(api.stream("/v1/live?before=x", &headers).await.status(), 400);
    let mut events = api.live("vera", None).await;
    api.handler.set_operators(Operators::default());
    assert_eq!(events.event().await, None);
}

#[tokio::test]
async fn over_grpc_calls_are_found_and_the_feed_arrives_as_over_http() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", api.address));
    let channel = channel.unwrap().connect().await.unwrap();
    fn with<T>(message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let shown = format!("Bearer {}", token("anna")).parse().unwrap();
        request.metadata_mut().insert("authorization", shown);
        request
    }
    let mut http = api.live("vera", None).await;
    let mut live = LiveClient::new(channel.clone());
    let follow = live.follow(with(pb::FollowRequest::default())).await.unwrap();
    let mut follow = follow.into_inner();
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    let message = follow.message().await.unwrap().unwrap();
    let event = http.event().await.unwrap();
    let Some(pb::live_message::Content::Event(bytes)) = message.content else { panic!() };
    let told: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&message.id, &told), (&event.id, &event.data));

    let mut calls = CallsClient::new(channel);
    let wanted = pb::ListCallsRequest { query: "state:held".into(), ..Default::default() };
    let found = calls.list(with(wanted)).await.unwrap().into_inner();
    let line: Value = serde_json::from_slice(&found.calls[0]).unwrap();
    assert_eq!(line, api.get("vera", "/v1/calls?q=state%3Aheld").await.1["calls"][0]);
    let (chain, seq) = event.data["at"].as_str().unwrap().split_once('/').unwrap();
    let named = || pb::CallRequest { chain: chain.to_owned(), seq: seq.parse().unwrap() };
    let shown = calls.show(with(named())).await.unwrap().into_inner();
    let shown: Value = serde_json::from_slice(&shown.call).unwrap();
    assert_eq!(shown, api.get("vera", &format!("/v1/calls/{chain}/{seq}")).await.1);
    let payloads = calls.payloads(with(named())).await.unwrap().into_inner();
    let args: Value = serde_json::from_slice(&payloads.payloads[0]).unwrap();
    assert_eq!(args["text"], r#"{"amount":1}"#);
    assert_eq!(api.entries(Kind::PayloadViewed).await.len(), 1);
}
