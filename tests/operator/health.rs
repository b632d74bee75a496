//! Health and limits: every change that is known, and what gates report of pools, suspensions and stops.

use serde_json::{Value, json};
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::control::Presence;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::ledger::drafts::DraftWithPayloads;
use wicketgate::record::chain::HealthChanged;
use wicketgate::record::{Draft, Text};
use wicketgate::serve::Readiness;
use wicketgate_support::waiting::until;

use crate::api::{ApiServer, GATE, ask, run_id};

async fn report(api: &ApiServer, state: &Value) {
    let state = Json::parse(state.to_string().as_bytes(), &Limits::ENTRY).unwrap();
    let (origin, writer) = (GATE.to_owned(), "host/1".to_owned());
    let at = SystemClock::new().now();
    api.orders.show(&Presence { origin, writer, at, seq: 0, state }).await.unwrap();
}

#[tokio::test]
async fn health_says_why_and_shows_every_change_of_this_process_and_of_each_gate() {
    let api = ApiServer::open().await;
    report(&api, &json!({"ready": true})).await;
    let ready = |ready: bool, reasons: &[&str]| Readiness {
        ready,
        reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
        ..Readiness::default()
    };
    let changes = async |count: usize| {
        until("a change of health", || async {
            let (_, health) = api.get("vera", "/v1/health").await;
            health["changes"].as_array().unwrap().len() == count
        })
        .await;
    };
    changes(1).await;
    api.ready.send(ready(true, &[])).unwrap();
    changes(2).await;
    api.ready.send(ready(false, &["ledger: failing"])).unwrap();
    changes(3).await;
    let changed = HealthChanged {
        ready: false,
        reasons: ["policy: none"].into_iter().map(Text::from).collect(),
    };
    api.ledger.record(DraftWithPayloads::bare(Draft::of(changed))).await.unwrap();
    changes(4).await;
    let (_, health) = api.get("vera", "/v1/health").await;
    assert_eq!(
        (&health["ready"], &health["reasons"]),
        (&json!(false), &json!(["ledger: failing"]))
    );
    assert_eq!(health["gates"][0]["origin"], GATE, "{health}");
    let own = |origin: &Value| -> Vec<Value> {
        let all = health["changes"].as_array().unwrap().iter();
        all.filter(|one| one["origin"] == *origin).map(|one| one["ready"].clone()).collect()
    };
    assert_eq!(own(&Value::Null), [false, true, false], "the newest first: {health}");
    assert_eq!(own(&GATE.into()), [false], "{health}");
    assert_eq!(health["expiring"], json!([]));
}

#[tokio::test]
async fn limits_are_what_each_gate_reports_and_a_report_of_another_form_is_left_out() {
    let api = ApiServer::open().await;
    let pool = json!({"pool": "night", "unit": "requests", "per": "day", "size": 100, "left": 7});
    let run = run_id(1).to_string();
    let stop = json!({"action": "suspend", "target": "tool", "name": "work.do", "seq": 3});
    report(
        &api,
        &json!({"pools": [pool, {"pool": 1}], "suspended": [{"run": run, "agent": "a", "tool": null}],
            "stops": [stop]}),
    )
    .await;
    let (status, limits) = api.get("vera", "/v1/limits").await;
    assert_eq!(status, 200, "{limits}");
    assert_eq!(limits["pools"].as_array().unwrap().len(), 1, "{limits}");
    let pool = &limits["pools"][0];
    assert_eq!((&pool["origin"], &pool["left"]), (&GATE.into(), &7.into()), "{limits}");
    assert_eq!(limits["suspended"][0]["run"], run, "{limits}");
    assert_eq!(
        (&limits["stops"][0]["seq"], &limits["stops"][0]["expires"]),
        (&3.into(), &Value::Null)
    );
    assert_eq!(limits["silent"], json!([]));
}

#[tokio::test]
async fn the_calls_of_a_day_are_counted_by_what_became_of_them() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    for call in ["c1", "c2"] {
        api.hold(ask(run, call, r#"{"amount":1}"#)).await;
    }
    api.end_call(run, "c1").await;
    let (status, day) = api.get("vera", "/v1/day").await;
    let counts = ["calls", "denied", "held", "waiting", "approved", "refused", "expired", "behind"]
        .map(|name| day[name].as_u64().unwrap());
    assert_eq!((status, counts), (200, [2, 0, 2, 1, 0, 0, 1, 0]), "{day}");
}
