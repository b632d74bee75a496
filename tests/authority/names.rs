//! Orders about what does not exist are told so, with what was probably meant, by the gate that knows its names.

use crate::proposals::Place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_for_what_no_gate_knows_is_never_success_and_names_what_is_near() {
    let mut place = Place::new().await;
    let run = place.agent.run.clone();
    let digest = format!("sha256:{}", "0".repeat(64));
    let other = "00000000-0000-4000-8000-000000000000";
    let url = place.sidecar.operator_url();
    let ordered = |action: &str, kind: &str, name: &str| {
        place.people.types("otto", &url, &["control", action, kind, name, "--reason", "x"])
    };
    let wrong = [
        ("agent", "test-agnet", "did you mean `test-agent`?"),
        ("agent", "Test-Agent", "did you mean `test-agent`?"),
        ("agent", "another", "NO GATE KNOWS THIS NAME"),
        ("tool", "work.doo", "did you mean `work.do`?"),
        ("tool", "payments.refund", "NO GATE KNOWS THIS NAME"),
        ("run", other, "NO GATE KNOWS THIS NAME"),
        ("manifest", digest.as_str(), "NO GATE KNOWS THIS NAME"),
    ];
    for action in ["kill", "suspend", "revoke"] {
        for (kind, name, said) in wrong {
            let (exit, told) = ordered(action, kind, name);
            assert_eq!(exit, Some(1), "{action} {kind} {name}: {told}");
            assert!(told.contains(said), "{action} {kind} {name}: {told}");
        }
    }
    // What exists is stopped as before, by each of its names.
    place.agent.call("work.do", "a", "{}").await.unwrap();
    for (action, kind, name) in [
        ("kill", "tool", "work.do"),
        ("kill", "run", run.as_str()),
        ("kill", "agent", "test-agent"),
    ] {
        let (exit, told) = ordered(action, kind, name);
        assert_eq!(exit, Some(0), "{kind} {name}: {told}");
    }
    place.sidecar.stop().await;
}
