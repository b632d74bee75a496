//! Servers whose tools are not what was signed.

use serde_json::json;
use wicketgate::catalog::drift::Drift;

use crate::gate::{Gate, fault};
use crate::rig::{LONG, stdio};

#[tokio::test]
async fn a_tool_that_is_another_one_at_the_first_connection_is_never_called() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let gate =
        Gate::of(vec![stdio(&["changed", &format!("count={}", count.display())], LONG)]).await;
    // Nobody has looked yet, so the call is judged; it is held against the list before it is sent.
    let first = gate.call("fix.act", json!({"do": "count"})).await;
    assert_eq!(fault(&first), ("tool.failed", "changed"));
    let second = gate.call("fix.act", json!({"do": "count"})).await;
    assert_eq!(fault(&second), ("tool.not_granted", "tool.drift"));
    assert!(!count.exists());
    let drifted = gate.upstreams.get("fix").unwrap().status().drifted;
    assert!(matches!(drifted.as_slice(), [(tool, Drift::Breaking(_))] if tool == "act"));
}

#[tokio::test]
async fn a_tool_that_changes_in_a_session_is_not_called_again() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let gate = Gate::of(vec![stdio(&[&format!("count={}", count.display())], LONG)]).await;
    gate.works().await;
    gate.act(json!({"do": "change"})).await;
    let next = gate.call("fix.act", json!({"do": "count"})).await;
    assert!(matches!(
        fault(&next),
        ("tool.failed", "changed") | ("tool.not_granted", "tool.drift")
    ));
    assert!(!count.exists());
    let later = gate.call("fix.act", json!({"do": "count"})).await;
    assert_eq!(fault(&later), ("tool.not_granted", "tool.drift"));
    assert!(later.unwrap_err().2.contains("`fix.act`"));
    // Each pin is counted once, however often the tools are listed.
    assert_eq!(gate.counted(r#"wicketgate_upstream_drift_total{grade="breaking"}"#), 2);
}

#[tokio::test]
async fn a_tool_that_is_gone_is_not_called() {
    let pinned = r#"{"name":"gone","inputSchema":{"type":"object"}}"#;
    let gate = Gate::pinned(vec![stdio(&[], LONG)], pinned).await;
    assert_eq!(fault(&gate.call("fix.act", json!({})).await), ("tool.failed", "changed"));
    assert_eq!(fault(&gate.call("fix.act", json!({})).await), ("tool.not_granted", "tool.drift"));
}
