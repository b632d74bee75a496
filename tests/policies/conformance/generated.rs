//! Input documents: of the shape policies are told, and bent in every way they are not.

use serde_json::{Map, Value, json};

use super::Dice;

/// Texts that programs read differently.
const TEXTS: [&str; 14] = [
    "",
    " ",
    "a",
    "A",
    "ä",
    "e\u{301}",
    "ﬃ",
    "😀",
    "\u{0}",
    "\n",
    "../x",
    "a.b.c",
    "İstanbul",
    "evil.example.com.attacker.test",
];
/// Numbers up to the edge of what strict JSON lets in.
const NUMBERS: [f64; 8] = [0.0, 1.0, -1.0, 0.5, 1e-7, 1000.01, 1e15, -123_456.75];
const BIG: [i64; 4] = [9_007_199_254_740_991, -9_007_199_254_740_991, 4_294_967_296, 1001];

/// What a value can be replaced by.
fn odd(dice: &mut Dice, words: &[String]) -> Value {
    match dice.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(false),
        3 => json!([]),
        4 => json!({}),
        5 => json!([Value::Null, 1, "a", [], {}]),
        6 => json!({"kind": "none", "a": {"b": [1, 2]}}),
        7 => json!(*dice.of(&BIG)),
        8 => number(*dice.of(&NUMBERS)),
        9 => json!(*dice.of(&TEXTS)),
        _ => json!(dice.of(words)),
    }
}

fn number(n: f64) -> Value {
    // Whole numbers are written without a fraction, as canonical JSON has them.
    #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
    if n.fract() == 0.0 { json!(n as i64) } else { json!(n) }
}

/// One document. `words`: what the rules and their data look for, so that they find it at times.
pub fn input(dice: &mut Dice, words: &[String], by_hand: &[&str]) -> Value {
    let weekdays = ["monday", "friday", "saturday", "sunday"];
    let word = |dice: &mut Dice| json!(dice.of(words));
    let approval = |dice: &mut Dice| json!({"approver": dice.of(&["ann", "bob", "cyd"]), "roles": [dice.of(words)], "key": "k"});
    let approvals: Vec<Value> = (0..dice.below(4)).map(|_| approval(dice)).collect();
    let observe = [json!([]), json!([]), json!(["agent"]), json!(["agent", "team"])];
    let mut document = json!({
        "v": "wicketgate/input/1",
        "agent": {"id": word(dice), "version": "1.0.0", "owner": "o", "labels": {"team": word(dice)},
            "manifest": "sha256:00", "binding": dice.of(&["observed", "observed", "claimed"]), "delegation": []},
        "run": {"id": "r", "mode": dice.of(&["enforce", "simulate"]), "incognito": false, "opened_at": "2026-11-20T10:00:00.000Z",
            "calls": dice.below(600), "errors": dice.below(5), "cost": dice.below(9_000_000), "labels": {}},
        "tool": {"name": word(dice), "kind": word(dice), "tier": dice.of(&["T0", "T1", "T2", "T3"]),
            "read_only": dice.once_in(2), "definition": "sha256:00"},
        "call": {"id": "c"},
        "args": {"amount": dice.below(3000), "path": word(dice), "title": word(dice), "currency": word(dice)},
        "effect": effect(dice, words),
        "context": {"attested": {"environment": word(dice)}, "claimed": {}},
        "time": {"rfc3339": "2026-11-20T10:00:00.000Z", "unix": 1_795_168_800, "weekday": dice.of(&weekdays),
            "hour": dice.below(24), "minute": dice.below(60), "tz": "UTC"},
        "findings": [{"kind": word(dice), "path": "/title"}],
        "approvals": approvals,
        "quorum": {"by_hand": by_hand},
        "break_glass": {"open": dice.once_in(8), "nonce": "", "until": "", "by": []},
        "pools": [],
        "observe": dice.of(&observe),
        "history": {"calls": dice.below(9), "errors": dice.below(9), "denied": dice.below(9)}
    });
    if dice.once_in(3) {
        document["findings"] = json!([]);
    }
    for _ in 0..dice.below(4) {
        bend(dice, words, &mut document);
    }
    document
}

fn effect(dice: &mut Dice, words: &[String]) -> Value {
    let host = ["api.example.com", "example.com", "EXAMPLE.com", "notexample.com", "example.com."];
    match dice.below(5) {
        0 => json!({"kind": "none"}),
        1 => {
            json!({"kind": "file", "access": dice.of(&["read", "write", "list"]), "root": dice.of(words),
            "path": dice.of(words), "file_kind": "regular", "size": 10, "mode": 420})
        }
        2 => json!({"kind": "sql", "statement": dice.of(&["select", "insert", "delete"]),
            "read_only": dice.once_in(2), "relations": [dice.of(words)], "functions": []}),
        _ => {
            json!({"kind": "http", "method": dice.of(&["GET", "POST", "DELETE"]), "scheme": "https",
            "host": dice.of(&host), "port": 443, "path": dice.of(words), "query": [], "body_bytes": 20})
        }
    }
}

/// Drops, replaces or adds one value somewhere.
fn bend(dice: &mut Dice, words: &[String], document: &mut Value) {
    let mut at = document;
    for _ in 0..=dice.below(3) {
        let Value::Object(members) = at else { break };
        let names: Vec<String> = members.keys().cloned().collect();
        if names.is_empty() || dice.once_in(12) {
            members.insert(dice.of(words).clone(), odd(dice, words));
            return;
        }
        let name = dice.of(&names).clone();
        let deeper = members[&name].as_object().is_some_and(|inner: &Map<_, _>| !inner.is_empty());
        if deeper && !dice.once_in(3) {
            at = members.get_mut(&name).unwrap();
            continue;
        }
        if dice.once_in(3) {
            members.remove(&name);
        } else {
            members.insert(name, odd(dice, words));
        }
        return;
    }
}
