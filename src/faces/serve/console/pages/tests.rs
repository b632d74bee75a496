//! No recorded text becomes markup, hides something, or imitates what was spelled out.

use serde_json::{Value, json};

use super::*;
use crate::operator::api::lookups::{CallDetail, CallPayloads, Calls, RunDetail, Runs};
use crate::operator::api::replies::{Fleet, HeldCallDetail, OrderDetail, Orders};
use crate::operator::api::requests::HeldCallPath;
use crate::operator::view::Review;

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
        "approvals": [approved], "asked_by": approved, "claims": [{"name": "n", "value": "v"}]});
    let detail = json!({"facts": facts, "statement": "s", "refusal": "r", "view": "v"});
    let call = read::<HeldCallDetail>(detail);
    let review = Review {
        tier: "T3 CANNOT BE UNDONE",
        does: shown(HOSTILE),
        to: shown(HOSTILE),
        doubts: vec![shown(HOSTILE)],
        arguments: shown(HOSTILE),
        digest: crate::domain::digest::Digest::of(&[b"call"]),
    };
    let deciding = |passkeys| approvals::DecisionForms {
        url: " --url http://localhost:7301".to_owned(),
        token: html! {},
        path: HOSTILE.to_owned(),
        passkeys,
    };
    let ways = [Ok(vec!["AAAA".to_owned()]), Ok(Vec::new()), Err(HOSTILE.to_owned())];
    for by in ways.map(|passkeys| Some(deciding(passkeys))).into_iter().chain([None]) {
        let page = approvals::detail(&call, &review, ("ends", by.as_ref()));
        // A passkey signs what its console shows: who decides next has to know.
        assert_eq!(page.0.matches(", shown by that console").count(), 2, "{}", page.0);
        assert_harmless(page);
    }
}

#[test]
fn a_decision_and_a_key_show_texts_as_texts() {
    let line = read::<crate::operator::api::lookups::CallLine>(call());
    let path = HeldCallPath { run: HOSTILE.to_owned(), call: HOSTILE.to_owned() };
    for kind in ["approval", "modify"] {
        for done in [json!({"call": "c", "detail": "d", "message": "m", "error": "e"}), json!({})] {
            let outcome = json!({"order": order(), "seq": 1, "complete": false, "stopped_count": 0,
                "runs_sealed": 0, "left": 1, "gates": [{"origin": "o", "at": "t", "done": done}],
                "not_reached": []});
            let mut detail = read::<OrderDetail>(outcome);
            detail.order.kind = kind.to_owned();
            assert_harmless(decisions::decision(&detail, &path, Some(&line)));
        }
    }
    let who = crate::operator::operators::Operator {
        subject: HOSTILE.to_owned(),
        roles: std::collections::BTreeSet::new(),
        auth: HOSTILE.to_owned(),
    };
    assert_harmless(me::page(&who, Err(HOSTILE)));
}

/// What the page of a decision says.
#[track_caller]
fn assert_said(order: (&str, &str), done: &Value, state: (&str, &str), sentence: &str) {
    let mut row = json!({"seq": 1, "at": "t", "subject": "ada", "roles": [], "auth": "token",
        "reason": "", "expires": null, "kind": order.0, "body": {"verdict": order.1}});
    row["body"]["run"] = "r".into();
    let outcome = json!({"order": row, "seq": 1, "complete": true, "stopped_count": 0,
        "runs_sealed": 0, "left": 0, "gates": [{"origin": "o", "at": "t", "done": done}],
        "not_reached": []});
    let mut line = call();
    line["state"] = state.0.into();
    line["detail"] = state.1.into();
    let path = HeldCallPath { run: "r".to_owned(), call: "c".to_owned() };
    let (outcome, line) = (
        serde_json::from_value::<OrderDetail>(outcome).unwrap(),
        serde_json::from_value(line).unwrap(),
    );
    let page = decisions::decision(&outcome, &path, Some(&line)).into_string();
    assert!(page.contains(sentence), "{sentence}: {page}");
}

#[test]
fn every_outcome_of_a_counted_decision_has_a_sentence_of_its_own() {
    let counted = |call: &str| json!({"counted": true, "call": call, "detail": "", "message": ""});
    let approve = ("approval", "approve");
    for (order, done, state, sentence) in [
        (approve, counted("authorized"), ("running", ""), "● approved: the call runs now"),
        (approve, counted("held"), ("held", ""), "● counted, and not enough for the call to run"),
        (approve, counted("held"), ("held", ""), "is held, with 1 approval so far"),
        (
            approve,
            counted("denied"),
            ("denied", "approval.void.layers"),
            "■ counted, but the call does not run: its approvals are void, because the policy changed",
        ),
        (
            approve,
            counted("denied"),
            ("denied", "refund.limit"),
            "■ counted, but the call was denied by policy (refund.limit)",
        ),
        (approve, counted("awaited"), ("held", ""), "● counted: the request is judged when"),
        (approve, counted("cancelled"), ("cancelled", ""), "■ counted, but the call was cancelled"),
        (approve, counted("unsure"), ("held", ""), "■ counted, but the gate has not said"),
        (
            ("approval", "refuse"),
            counted("denied"),
            ("denied", "approval.refused"),
            "● refused: the call does not run",
        ),
    ] {
        assert_said(order, &done, state, sentence);
    }
}

#[test]
fn every_reason_that_a_decision_does_not_count_has_a_sentence_of_its_own() {
    let not =
        |detail: &str| json!({"counted": false, "call": "", "detail": detail, "message": "m"});
    let asked = |call: &str| json!({"asked": "c.m1", "call": call, "detail": "", "message": "m"});
    let approve = ("approval", "approve");
    for (order, done, state, sentence) in [
        (
            approve,
            not("approval.not_held"),
            ("denied", "approval.refused"),
            "■ not counted, because the call was refused by p, and does not run",
        ),
        (
            approve,
            not("approval.not_held"),
            ("expired", ""),
            "■ not counted, because the call expired before",
        ),
        (
            approve,
            not("approval.not_held"),
            ("completed", ""),
            "■ not counted, because the call was approved by p and has ended: completed",
        ),
        (
            approve,
            not("approval.unverified"),
            ("held", ""),
            "■ not counted: m (approval.unverified)",
        ),
        (
            approve,
            json!({}),
            ("held", ""),
            "■ sent, but the gate that holds the call has not answered",
        ),
        (
            ("modify", ""),
            asked("held"),
            ("cancelled", ""),
            "● asked again as `c.m1`: another approver",
        ),
        (
            ("modify", ""),
            asked("denied"),
            ("cancelled", ""),
            "■ asked again as `c.m1`, and denied: m",
        ),
        (
            ("modify", ""),
            json!({"error": "e", "detail": "d"}),
            ("held", ""),
            "■ not counted: e (d)",
        ),
    ] {
        assert_said(order, &done, state, sentence);
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
