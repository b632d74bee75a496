//! Servers that lie, flood, hang and die, over stdio.

use serde_json::json;

use crate::gate::{Gate, fault};
use crate::rig::{LONG, SHORT, TOKEN, named, stdio};

#[tokio::test]
async fn an_answer_with_an_unknown_id_is_dropped() {
    let gate = Gate::of(vec![stdio(&[], SHORT)]).await;
    gate.works().await;
    for lie in ["wrong-id", "other-type"] {
        // One call waits inside the server while the other is lied to.
        let hanging = gate.call("fix.look", json!({"do": "hang"}));
        let lied_to = gate.call("fix.look", json!({"do": lie}));
        let (hanging, lied_to) = tokio::join!(hanging, lied_to);
        assert_eq!(fault(&hanging), ("tool.failed", "timeout"), "{lie}");
        assert_eq!(fault(&lied_to), ("tool.failed", "timeout"), "{lie}");
        gate.works().await;
    }
    let dropped =
        |kind| gate.counted(&format!(r#"wicketgate_upstream_dropped_total{{kind="{kind}"}}"#));
    assert_eq!(dropped("unknown_id"), 6);
}

#[tokio::test]
async fn a_second_answer_to_a_call_is_dropped() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    assert_eq!(gate.act(json!({"do": "twice"})).await, json!({"content": []}));
    gate.works().await;
    assert_eq!(gate.counted(r#"wicketgate_upstream_dropped_total{kind="repeated_id"}"#), 2);
}

#[tokio::test]
async fn an_answer_that_is_no_message_fails_the_call_it_names_and_no_other() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    for lie in ["both", "broken", "not-utf8"] {
        let came = gate.call("fix.act", json!({"do": lie})).await;
        assert_eq!(fault(&came), ("tool.failed", "protocol"), "{lie}");
    }
    gate.works().await;
    assert_eq!(gate.upstreams.get("fix").unwrap().status().failures, 0);
}

#[tokio::test]
async fn a_result_over_the_limit_fails_and_others_go_on() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    // Over the tool's limit but not the line's, and over both.
    for bytes in [1 << 20, 20 << 20] {
        let large = gate.call("fix.act", json!({"do": "large", "bytes": bytes}));
        let (large, ()) = tokio::join!(large, gate.works());
        assert_eq!(fault(&large), ("tool.failed", "too_large"), "{bytes}");
    }
    let restarts = r#"wicketgate_upstream_restarts_total{server="fix"}"#;
    assert_eq!(gate.counted(restarts), 0);
}

#[tokio::test]
async fn a_flood_of_notifications_is_cut_and_the_result_kept() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let came = gate.act(json!({"do": "flood", "times": 5000})).await;
    let said = came["_meta"]["wicketgate.dev/notifications"].as_array().unwrap();
    assert_eq!(said.len(), 256);
    gate.works().await;
}

#[tokio::test]
async fn a_line_without_end_ends_the_connection_and_not_the_gate() {
    let gate = Gate::of(vec![stdio(&[], LONG), named("other", &[], LONG)]).await;
    let flooded = gate.call("fix.act", json!({"do": "line-without-end"}));
    let other = gate.call("other.act", json!({"text": "fine"}));
    let (flooded, other) = tokio::join!(flooded, other);
    assert_eq!(fault(&flooded), ("call.unknown", "connection_lost"));
    assert!(other.is_ok());
    gate.works().await;
}

#[tokio::test]
async fn a_server_that_never_answers_the_handshake_or_the_list_gets_no_call() {
    for hang in ["hang-initialize", "hang-list", "list-error", "die-at-start", "endless-garbage"] {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let count_word = format!("count={}", count.display());
        let gate = Gate::of(vec![stdio(&[hang, &count_word], SHORT)]).await;
        let came = gate.call("fix.act", json!({"do": "count"})).await;
        assert_eq!(fault(&came), ("tool.failed", "connect"), "{hang}");
        assert!(!count.exists(), "{hang}");
    }
}

#[tokio::test]
async fn the_probe_reports_why_a_server_does_not_start_with_its_credential_redacted() {
    let gate = Gate::of(vec![stdio(&["die-at-start"], LONG)]).await;
    let came = gate.call("fix.act", json!({})).await;
    let told = came.unwrap_err().2;
    assert_eq!(told, "server `fix` cannot be reached");
    let error = gate.upstreams.get("fix").unwrap().probe().await.unwrap_err().to_string();
    assert!(error.contains("starting, with [REDACTED:credential]"), "{error}");
    assert!(!error.contains(TOKEN));
    assert!(gate.upstreams.get("fix").unwrap().status().failures > 0);
}

#[tokio::test]
async fn lines_that_are_no_messages_are_passed_over() {
    let gate = Gate::of(vec![stdio(&["garbage"], LONG)]).await;
    gate.works().await;
    assert_eq!(gate.counted(r#"wicketgate_upstream_dropped_total{kind="malformed"}"#), 4);
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_leaves_it_unknown_and_is_started_again() {
    let gate = Gate::of(vec![stdio(&[], LONG), named("other", &[], LONG)]).await;
    let died = gate.call("fix.act", json!({"do": "die"})).await;
    assert_eq!(fault(&died), ("call.unknown", "connection_lost"));
    gate.works().await;
    // Who only looked has changed nothing.
    let (died, other) = tokio::join!(
        gate.call("fix.look", json!({"do": "die"})),
        gate.call("other.act", json!({"text": "fine"}))
    );
    assert_eq!(fault(&died), ("tool.failed", "tool_error"));
    assert!(other.is_ok());
    gate.works().await;
    assert_eq!(gate.counted(r#"wicketgate_upstream_restarts_total{server="fix"}"#), 2);
    assert_eq!(gate.counted(r#"wicketgate_upstream_restarts_total{server="other"}"#), 0);
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let once = format!("once={}", dir.path().join("once").display());
    let gate = Gate::of(vec![stdio(&["die-once", &once], LONG)]).await;
    assert_eq!(fault(&gate.call("fix.act", json!({})).await), ("tool.failed", "connect"));
    gate.works().await;
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let words = ["entered", "cancelled"].map(|name| format!("{name}={}", path(name).display()));
    let gate = Gate::of(vec![stdio(&[&words[0], &words[1]], SHORT)]).await;
    let came = gate.call("fix.act", json!({"do": "hang"})).await;
    assert_eq!(fault(&came), ("call.unknown", "deadline"));
    // The server reads in order: after this answer it has read what came before.
    gate.works().await;
    let read = |name| std::fs::read_to_string(path(name)).unwrap();
    assert_eq!(read("cancelled"), read("entered"));
    assert_eq!(read("entered").lines().count(), 1);
}
