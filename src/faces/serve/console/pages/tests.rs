//! No recorded text becomes markup, hides something, or imitates what was spelled out.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::domain::id::ChainId;
use crate::operator::api::alerts::Alerts;
use crate::operator::api::audits::{AuditReport, Exports};
use crate::operator::api::lookups::{
    CallDetail, CallPayloads, Calls, ReceiptProof, RunDetail, Runs, Similar,
};
use crate::operator::api::policies::{
    BacktestJob, BacktestJobs, BundleDetail, ObservedDenials, PolicyInForce,
};
use crate::operator::api::replies::{
    Amendments, ErasureDetail, ErasureReply, Erasures, FindingExceptions, Fleet, HeldCallDetail,
    LegalHolds, OrderDetail, OrderRow, Orders,
};
use crate::operator::api::requests::HeldCallPath;
use crate::operator::api::standing::{Patterns, TrustScores};
use crate::operator::api::status::{Expiration, HealthChange, LimitsState};
use crate::operator::live::{LiveCursor, LiveEvent};
use crate::operator::view::parts::Part;
use crate::operator::view::{Review, ShownArguments};

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
    assert_harmless(alerts::table(&read::<Alerts>(json!({"more": true, "alerts": [{
        "chain": "c", "seq": 1, "origin": "o", "at": "t", "alert": "a", "severity": "s", "title": "t",
        "agent": "a", "run": "r", "call": "c", "tool": "t", "count": 1, "since": "t", "first": 1,
        "last": 2, "mark": null,
    }]}))));
    let passes = json!({"more": true, "exceptions": [{
        "seq": 1, "at": "t", "subject": "s", "tool": "t", "direction": "d", "kind": "k", "path": "p",
        "mark": "m", "reason": "r", "expires": "e", "state": "s", "gates": 1,
    }]});
    assert_harmless(exceptions::table(
        &read::<FindingExceptions>(passes),
        Timestamp::from_millis(1),
    ));
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
        "code": "c", "detail": "d", "rule": "r", "outcome": "o", "us": 1, "masked": 0, "findings": ["f"],
        "hosts": ["h"],
        "approvals": 1, "decided_by": ["p"]})
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Some(one), Value::Object(other)) = (one.as_object_mut(), other) {
        one.extend(other);
    }
    one
}

#[test]
fn the_live_feed_health_and_limits_show_texts_as_texts() {
    let line = json!({"ts": "t", "kind": "k", "agent": "a", "tool": "t", "verdict": "v",
        "code": "c", "run": "r", "call": "c", "at": "c/1"});
    let (at, chain) = (Timestamp::from_millis(1), ChainId::from_bytes([1; 16]));
    let event = LiveEvent { place: LiveCursor { at, chain, seq: 1 }, line: read(line) };
    let feed = live::feed(&[Arc::new(event)]);
    assert!(feed.0.contains("data-after=\"1-01010101"), "{}", feed.0);
    assert_harmless(feed);
    let changes = json!([{"at": "t", "origin": "o", "ready": false, "reasons": ["r"]}]);
    assert_harmless(health::history(&read::<Vec<HealthChange>>(changes)));
    let expiring = json!([{"what": "w", "at": "t"}]);
    assert_harmless(health::ends(&read::<Vec<Expiration>>(expiring), &[]));
    assert_harmless(limits::sections(&read::<LimitsState>(json!({
        "pools": [{"origin": "o", "pool": "p", "unit": "u", "per": "p", "size": 1, "left": 0}],
        "suspended": [{"origin": "o", "run": "r", "agent": "a", "tool": "t"}],
        "stops": [{"origin": "o", "seq": 1, "action": "a", "target": "t", "name": "n",
            "expires": "e", "lifted": "l"}],
        "silent": ["o"],
    }))));
}

#[test]
fn trust_and_patterns_show_texts_as_texts() {
    assert_harmless(trust::scores(&read::<TrustScores>(json!({
        "scores": [{"tool": "t", "definition": "d", "replaced": true, "agent": "a", "calls": 1, "well": 1,
            "score": null, "first": "f", "last": "l"}],
        "drops": [{"tool": "t", "definition": "d", "agent": "a", "from": 900, "to": 600, "since": "s"}],
        "window": 200, "days": 30, "as_of": "t", "behind": 1,
    }))));
    let call = json!({"chain": "c", "seq": 1, "run": "r", "call": "c", "at": "t"});
    assert_harmless(trust::proposals(&read::<Patterns>(json!({
        "patterns": [{"id": "i", "agent": "a", "tool": "t", "definition": "d", "rules": ["r"],
            "decision": "approve", "decisions": 20, "people": ["p"], "first": "f", "last": "l", "until": "u",
            "calls": [call]}],
        "more": 1,
        "lacking": [{"agent": "a", "tool": "t", "decisions": 1, "why": "w"}],
        "unread": 1,
    }))));
}

#[test]
fn the_calls_of_a_day_are_counted_up_to_ten_thousand() {
    let day = json!({"since": "", "calls": 12_408, "denied": 1, "held": 9, "waiting": 0,
        "approved": 7, "refused": 1, "expired": 1, "behind": 0});
    let page = home::since_yesterday(&serde_json::from_value(day).unwrap()).into_string();
    for part in [
        r#"<a href="/console/calls?q=since%3A24h">10,000+ calls</a>"#,
        r#"<a href="/console/calls?q=state%3Adenied+since%3A24h">1 denied</a>"#,
        "9 held (0 waiting, 7 approved, 1 refused, ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn one_call_shows_texts_as_texts() {
    let detail = merged(
        call(),
        json!({"origin": "o", "policy": "p", "asked_by": "a",
        "traceparent": "t", "reasons": [{"code": "c", "detail": "d", "message": "m", "rule": "r"}],
        "entries": [{"seq": 1, "run_seq": 1, "at": "t", "kind": "k", "leaf": "l",
            "payloads": [{"role": "r", "commitment": "c", "bytes": 1}]}],
        "checkpoint": null, "unproven": "u"}),
    );
    assert_harmless(calls::recorded(&read::<CallDetail>(detail), true));
    let payloads = json!({"payloads": [{"role": "r", "entry": 1, "commitment": "c", "bytes": 1,
        "text": "t", "withheld": "w"}]});
    let proof = json!({"origin": "o", "seq": 1, "leaf": "l", "size": 2, "root": "r", "proof": "p"});
    assert_harmless(calls::proven(&read::<ReceiptProof>(proof)));
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
    let call = read::<HeldCallDetail>(detail);
    let review = Review {
        tier: "T3 CANNOT BE UNDONE",
        does: shown(HOSTILE),
        to: shown(HOSTILE),
        doubts: vec![shown(HOSTILE)],
        read_before: vec![shown(HOSTILE)],
        arguments: ShownArguments::Whole(shown(HOSTILE)),
        digest: crate::domain::digest::Digest::of(&[b"call"]),
    };
    let similar = json!({"more": true, "changes": [{"at": "/a", "old": "o", "new": null}],
        "against": {"chain": "c", "seq": 1, "at": "t", "run": "r", "call": "c", "decided_by": ["b"]}});
    let beside = approvals::against(&read::<Similar>(similar));
    assert_harmless(beside.clone());
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
    assert_harmless(approvals::detail(&call, &long, ("ends", None), &beside));
    let deciding = |passkeys| approvals::DecisionForms {
        url: " --url http://localhost:7301".to_owned(),
        token: html! {},
        path: HOSTILE.to_owned(),
        passkeys,
    };
    let ways = [Ok(vec!["AAAA".to_owned()]), Ok(Vec::new()), Err(HOSTILE.to_owned())];
    for by in ways.map(|passkeys| Some(deciding(passkeys))).into_iter().chain([None]) {
        let page = approvals::detail(&call, &review, ("ends", by.as_ref()), &beside);
        // A passkey signs what its console shows: who decides next has to know.
        assert_eq!(page.0.matches(", shown by that console").count(), 2, "{}", page.0);
        assert_harmless(page);
    }
}

#[test]
fn a_file_shows_every_member_of_a_line() {
    let columns = |all: &[&'static str]| all.iter().copied().collect::<BTreeSet<_>>();
    let members = |line: &Value| {
        let line = line.as_object().unwrap();
        line.keys().cloned().collect::<Vec<_>>()
    };
    for (columns, line) in [(columns(calls::COLUMNS), call()), (columns(runs::COLUMNS), run())] {
        assert_eq!(members(&line), columns.into_iter().collect::<Vec<_>>());
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
        roles: BTreeSet::new(),
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
            ("denied", "approval.void.arguments"),
            "■ counted, but the call does not run: its approvals are void, because the firewall changed",
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

#[test]
fn policies_show_texts_as_texts() {
    let layer = json!({"layer": "l", "digest": "d"});
    let policy = json!({"more": true, "bundles": [{"origin": "o", "stopped": true, "bundle": "b",
        "name": "n", "version": "v", "activated": "t", "entry": 1, "basis": "b", "approvals": 2,
        "layers": [layer]}]});
    assert_harmless(policy::in_force(&read::<PolicyInForce>(policy)));
    let report = json!({"origin": "o", "at": "t", "done": {"error": "e"}});
    let amendment = json!({"bundle": "b", "base": "b", "version": "v", "author": "a",
        "reason": "r", "proposed": "t", "expires": "t", "standing": "s", "approved_by": ["a"],
        "refused_by": ["r"], "gates": [report],
        "activation": {"subject": "s", "at": "t", "gates": [report]}});
    let amendments = json!({"amendments": [amendment]});
    assert_harmless(policy::proposals(&read::<Amendments>(amendments)));
    let bundle = json!({"bundle": "b", "name": "n", "version": "v", "not_before": "t",
        "not_after": "t", "manifests": ["m"], "observing": [{"layer": "l", "until": "t"}],
        "layers": [layer], "signers": ["k"], "in_force": ["o"], "proposal": amendment,
        "files": [{"name": "f", "bytes": 1, "text": "t"}], "against": "a", "changes": [{"what": "w",
        "name": "n", "edit": "e", "old": "o", "new": "n", "text": "t"}], "uncompared": "u"});
    assert_harmless(bundle::detail(&read::<BundleDetail>(bundle), Some(" --url http://localhost")));
    let observed = json!({"since": "t", "decided": 3, "denied": 1, "held": 1, "unread": 1,
        "more": true, "rules": [{"rule": "r", "tool": "t", "verdict": "v", "message": "m",
        "count": 1, "first": "t", "last": "t", "examples": [{"run": "r", "call": "c"}]}]});
    assert_harmless(policy::denials(&read::<ObservedDenials>(observed)));
}

#[test]
fn backtests_show_texts_as_texts() {
    let counted = json!([{"what": "w", "count": 1}]);
    let mut job: BacktestJob = read(json!({"id": "i", "bundle": "b", "subject": "s", "began": "t",
        "ended": "t", "state": "s", "error": "e", "statement": {"payload": "p"}, "result": {
        "limited": true, "result": {"judged": 1, "same": 0, "flips": 1, "not_asked": 0,
        "groups": [{"change": "c", "old": "o", "new": "n", "count": 1}], "faults": counted,
        "unjudged": counted}}}));
    assert_harmless(backtest::result(&job, "/console/policy/b/backtest"));
    let jobs = BacktestJobs { backtests: vec![job.clone()] };
    assert_harmless(backtest::table(&jobs, HOSTILE));
    "done".clone_into(&mut job.state);
    assert_harmless(backtest::result(&job, "/console/policy/b/backtest"));
}

#[test]
fn evidence_shows_texts_as_texts() {
    let exports = json!({"more": true, "exports": [{"at": "t", "fleet": "f", "entry": 1,
        "scope": "s", "query": [{"name": "n", "value": "v"}], "requester": "r", "entries": 1,
        "manifest": "m"}]});
    assert_harmless(evidence::table(&read::<Exports>(exports)));
    let mut report: AuditReport = read(json!({"outcome": "fail", "log": "l", "size": 9,
        "entries": 1, "first": 1, "last": 1, "checks": [{"id": "i", "title": "t", "outcome": "o",
        "detail": "d"}], "damage": {"kind": "k", "entry": 1, "check": "c", "why": "w"},
        "not_proven": ["n"], "unenforced": 0, "began": "t", "ended": "t", "took_ms": 1,
        "steps": [{"step": "s", "us": 1500}]}));
    // The API has spelled out what the verifier says.
    report.checks.iter_mut().for_each(|one| one.detail = shown(&one.detail));
    assert_harmless(evidence::verified(&report));
}

#[test]
fn custody_shows_texts_as_texts() {
    let hub = " --hub http://localhost:7301 --token-file TOKEN";
    let holds = json!({"holds": [{"log": "l", "run": "r", "reason": "r", "by": "b", "entry": 1},
        {"log": "l", "run": null, "reason": "r", "by": "b", "entry": 2}]});
    assert_harmless(custody::held(&read::<LegalHolds>(holds), hub));
    let erasure = json!({"fleet": "f", "entry": 1, "at": "t", "log": "l", "payloads": 1,
        "basis": "b", "by": "b", "request": "r", "signed_by": "s", "backups_expire_by": "t"});
    let erasures = json!({"more": true, "erasures": [erasure, {"fleet": "f", "entry": 2}]});
    assert_harmless(custody::erased(&read::<Erasures>(erasures)));
    let detail = merged(erasure, json!({"receipt": {"payload": "p"}}));
    assert_harmless(custody::receipt(&read::<ErasureDetail>(detail)));
    let counted = json!({"payloads": 1, "before": 0, "absent": 0, "store": "s"});
    assert_harmless(custody::counted(&read::<ErasureReply>(counted), (HOSTILE, HOSTILE), hub));
}

#[test]
fn a_word_of_a_command_is_one_word_to_a_shell() {
    for (text, said) in [
        ("refund-agent", "refund-agent"),
        ("sha256:ab", "sha256:ab"),
        ("", "''"),
        ("a b", "'a b'"),
        ("--all", "'--all'"),
        ("$(x) `y`", "'$(x) `y`'"),
        ("it's", r#"'it'"'"'s'"#),
    ] {
        assert_eq!(word(text), said, "{text}");
    }
}

#[test]
fn only_a_stop_that_can_be_taken_back_has_a_command_for_it() {
    let order = |kind: &str, action: &str| -> OrderRow {
        serde_json::from_value(
            json!({"seq": 1, "at": "t", "subject": "s", "roles": [], "auth": "a",
            "reason": "r", "expires": null, "kind": kind,
            "body": {"action": action, "target": "agent", "name": "it's"}}),
        )
        .unwrap()
    };
    let url = " --url http://localhost:7301";
    let command = orders::reinstatement(&order("switch", "suspend"), url).unwrap();
    assert_eq!(
        command,
        r#"wicketgate control reinstate agent 'it'"'"'s' --reason 'WHY' --token-file TOKEN --key KEY --url http://localhost:7301"#
    );
    assert!(orders::reinstatement(&order("switch", "revoke"), url).is_some());
    for (kind, action) in [("switch", "kill"), ("switch", "reinstate"), ("approval", "suspend")] {
        assert_eq!(orders::reinstatement(&order(kind, action), url), None, "{kind} {action}");
    }
}
