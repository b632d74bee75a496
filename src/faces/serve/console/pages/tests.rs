//! No recorded text becomes markup, hides something, or imitates what was spelled out.

use serde_json::{Value, json};

use super::*;
use crate::operator::api::lookups::{CallDetail, CallPayloads, Calls, RunDetail, Runs};
use crate::operator::api::replies::{Fleet, HeldCallDetail, OrderDetail, Orders};
use crate::operator::view::parts::Part;
use crate::operator::view::{Facts, Review, ShownArguments};

/// What would be markup, ends an attribute, hides, turns around, and imitates an escape.
const HOSTILE: &str = "</td><script>alert(1)</script>\" onx='1' \u{202e}\u{200b}\u{7} \\u{41}";

/// The value with every text in it made hostile.
fn hostile(value: Value) -> Value {
    match value {
        Value::String(_) => HOSTILE.into(),
        Value::Array(items) => items.into_iter().map(hostile).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, hostile(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(hostile(value)).unwrap()
}

#[track_caller]
fn assert_harmless(page: Markup) {
    let page = page.into_string();
    let name = "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot; onx='1' ";
    assert!(page.contains(name), "{page}");
    assert!(!page.contains("<script") && !page.contains("\" onx"), "{page}");
    // Also without the frame: each text was spelled out by itself, the backslash doubled.
    assert_eq!(spelled_out(&page), page);
    assert_eq!(page.matches(r"\u{41}").count(), page.matches(r"\\u{41}").count(), "{page}");
    assert_eq!(page.matches("<td").count(), page.matches("</td>").count(), "{page}");
}

#[test]
fn lists_show_texts_as_texts() {
    assert_harmless(runs::table(&read::<Runs>(json!({"open": 1, "more": true, "runs": [run()],
        "next": "c", "as_of": "t", "behind": 0}))));
    assert_harmless(runs::timeline(
        &read::<RunDetail>(merged(
            run(),
            json!({"timeline": [call()], "next": 1,
            "children": [run()], "as_of": "t", "behind": 2}),
        )),
        true,
    ));
    let calls = read::<Calls>(json!({"calls": [call()], "next": "c", "as_of": "t", "behind": 0}));
    assert_harmless(calls::table(&calls.calls, "newest first"));
    assert_harmless(health::gates(&read::<Fleet>(json!({"never_seen": ["o"], "gates": [{
        "origin": "o", "writer": "w", "standing": "s", "last_seen": "t", "age_ms": 1, "obeyed": 1,
        "runs": null, "held": 1, "in_flight": 1, "state": {"a": "b"},
    }]}))));
    assert_harmless(health::readiness(&crate::serve::Readiness {
        reasons: vec![HOSTILE.to_owned()],
        notes: vec![HOSTILE.to_owned()],
        ..crate::serve::Readiness::default()
    }));
}

fn run() -> Value {
    json!({"run": "r", "origin": "o", "agent": "a", "version": "v", "manifest": "m", "parent": "p",
        "opened": "t", "sealed": "t", "reason": "r", "calls": 1, "in_flight": 0, "held": 1,
        "denied": 0})
}

fn call() -> Value {
    json!({"chain": "c", "seq": 1, "at": "t", "run": "r", "call": "c", "agent": "a",
        "version": "v", "tool": "t", "tier": "T1", "verdict": "v", "enforced": false, "state": "s",
        "code": "c", "detail": "d", "rule": "r", "outcome": "o", "us": 1, "masked": 0,
        "approvals": 1, "decided_by": ["p"]})
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Some(one), Value::Object(other)) = (one.as_object_mut(), other) {
        one.extend(other);
    }
    one
}

#[test]
fn one_call_shows_texts_as_texts() {
    let detail = merged(
        call(),
        json!({"origin": "o", "policy": "p", "asked_by": "a",
        "traceparent": "t", "reasons": [{"code": "c", "detail": "d", "message": "m", "rule": "r"}],
        "entries": [{"seq": 1, "run_seq": 1, "at": "t", "kind": "k", "leaf": "l",
            "payloads": [{"role": "r", "commitment": "c", "bytes": 1}]}]}),
    );
    assert_harmless(calls::recorded(&read::<CallDetail>(detail), true));
    let payloads = json!({"payloads": [{"role": "r", "entry": 1, "commitment": "c", "bytes": 1,
        "text": "t", "withheld": "w"}]});
    assert_harmless(calls::bodies(&read::<CallPayloads>(payloads), "/console/calls"));
}

fn order() -> Value {
    json!({"seq": 1, "at": "t", "subject": "s", "roles": ["r"], "auth": "a", "reason": "r",
        "expires": "t", "kind": "k", "body": {"action": "a", "name": "n"}})
}

#[test]
fn orders_show_texts_as_texts() {
    let orders = json!({"orders": [order()], "next": 1, "more": true});
    assert_harmless(orders::table(&read::<Orders>(orders)));
    let outcome = json!({"order": order(), "seq": 1, "complete": false, "stopped_count": 0,
        "runs_sealed": 0, "left": 1, "gates": [{"origin": "o", "at": "t", "done": {"error": "e"}}],
        "not_reached": [{"origin": "o", "last_seen": "t"}]});
    assert_harmless(orders::order_page(&read::<OrderDetail>(outcome)));
}

#[test]
fn a_held_call_shows_texts_as_texts() {
    let reason = json!({"code": "c", "detail": "d", "message": "m", "rule": "r"});
    let approved = json!({"subject": "s", "key": "k", "origin": "o"});
    let facts = json!({"run": "r", "call": "c", "tool": "t", "tier": "T3", "effect": "e",
        "effect_digest": "d", "arguments": "a", "salt": "s", "call_digest": "d", "definition": "d",
        "layers": [{"layer": "l", "digest": "d"}], "reasons": [reason], "manifest": "m",
        "agent": "a", "version": "v", "binding": "b", "held": "t", "expires": "t", "nonce": "n",
        "approvals": [approved], "asked_by": approved, "claims": [{"name": "n", "value": "v"}],
        "headers": [{"name": "n", "value": "v"}], "earlier": {"call": "c", "messages": 1, "members": ["m"]}});
    let detail = json!({"facts": facts, "statement": "s", "refusal": "r", "view": "v"});
    let facts: Facts = read::<HeldCallDetail>(detail).facts;
    let review = Review {
        tier: "T3 CANNOT BE UNDONE",
        does: shown(HOSTILE),
        to: shown(HOSTILE),
        doubts: vec![shown(HOSTILE)],
        arguments: ShownArguments::Whole(shown(HOSTILE)),
        digest: crate::domain::digest::Digest::of(&[b"call"]),
    };
    let part = Part {
        path: shown(HOSTILE),
        until: Some(shown(HOSTILE)),
        about: shown(HOSTILE),
        bytes: 1,
        sha256: Some(shown(HOSTILE)),
        repeats: Some(shown(HOSTILE)),
        text: Some(shown(HOSTILE)),
    };
    let long = Review { arguments: ShownArguments::Parts(vec![part]), ..review.clone() };
    assert_harmless(approvals::detail(&facts, &long, ("ends", None)));
    for decides in [Some(" --url http://localhost:7301"), None] {
        let page = approvals::detail(&facts, &review, ("ends", decides));
        // A passkey signs what its console shows: who decides next has to know.
        assert_eq!(page.0.matches(", shown by that console").count(), 2, "{}", page.0);
        assert_harmless(page);
    }
}

#[test]
fn time_is_shown_as_it_is_left() {
    let now = Timestamp::parse("2026-11-24T14:00:00.000Z").unwrap();
    for (until, said) in [
        ("2026-11-24T13:00:00.000Z", "has ended"),
        ("2026-11-24T14:00:01.000Z", "ends in 1 second"),
        ("2026-11-24T14:01:00.000Z", "ends in 60 seconds"),
        ("2026-11-24T14:13:40.000Z", "ends in 13 minutes"),
        ("", "no end"),
    ] {
        assert_eq!(left(now, until), said, "{until}");
    }
}
