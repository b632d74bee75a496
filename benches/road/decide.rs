//! Decisions per second: ours, and the engine alone on the same rules and the same input.

use std::time::{Duration, Instant};

use regorus::{Engine, Value};
use wicketgate::policy::PolicyEngine as _;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::RegoEngine;
use wicketgate_support::bench::load::Seen;
use wicketgate_support::bench::policies::{FIFTEEN, SMALL, write};
use wicketgate_support::bench::table::{Row, Table, Target};

use crate::Plan;

const LIBRARY: &str = include_str!("../../policies/lib/decision.rego");
/// A whole input document with arguments of about this size.
fn input(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    let args = serde_json::json!({"text": text});
    serde_json::json!({
        "v": "wicketgate/input/1",
        "agent": {"id": "bench-agent", "version": "1.0.0", "owner": "platform@example.com",
                  "labels": {"team": "bench"}, "manifest": format!("sha256:{}", "0".repeat(64)),
                  "binding": "claimed", "delegation": []},
        "run": {"id": "0192f0c4-0000-7000-8000-000000000000", "mode": "enforce",
                "opened_at": "2026-11-20T10:00:00.000Z", "calls": 3, "errors": 0, "cost": 0, "labels": {}},
        "tool": {"name": "small", "kind": "http", "tier": "T2", "read_only": false,
                 "definition": format!("sha256:{}", "0".repeat(64))},
        "call": {"id": "c-1"},
        "args": args,
        "effect": {"kind": "http", "method": "POST", "scheme": "http", "host": "127.0.0.1",
                   "port": 8080, "path": "/small", "query": [], "body_bytes": bytes},
        "context": {"attested": {}, "claimed": {}},
        "time": {"rfc3339": "2026-11-20T10:00:00.000Z", "unix": 1_795_168_800, "weekday": "friday",
                 "hour": 10, "minute": 0, "tz": "UTC"},
        "findings": [],
        "approvals": [],
        "history": {"calls": 3, "errors": 0, "denied": 0}
    })
    .to_string()
}

/// Does it again and again for so long, after an eighth of that.
pub fn repeat(each: Duration, mut once: impl FnMut()) -> Seen {
    let warm = Instant::now();
    while warm.elapsed() < each / 8 {
        once();
    }
    let (mut all, started) = (Vec::new(), Instant::now());
    while started.elapsed() < each {
        let one = Instant::now();
        once();
        all.push(one.elapsed());
    }
    Seen::of(all, started.elapsed())
}

/// Prints the rows about decisions, one thread.
pub fn measure(plan: &Plan, table: &mut Table) {
    for (name, files) in [("1 rule", SMALL), ("15 rules", FIFTEEN)] {
        one(plan, (name, files), &[256, 2048], table);
    }
}

/// Prints the row about 15 rules.
pub fn smoke(plan: &Plan, table: &mut Table) {
    one(plan, ("15 rules", FIFTEEN), &[256], table);
}

fn one(plan: &Plan, (name, files): (&str, &[(&str, &str)]), sizes: &[usize], table: &mut Table) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), files);
    let bundle = Bundle::load(dir.path()).map_err(|e| format!("{e:?}")).unwrap();
    let ours = RegoEngine::new(&bundle, Duration::from_millis(100)).unwrap();
    let mut bare = Engine::new();
    bare.set_strict_builtin_errors(true);
    for (path, text) in files.iter().chain(&[("lib/decision.rego", LIBRARY)]) {
        bare.add_policy((*path).to_owned(), (*text).to_owned()).unwrap();
    }
    for &bytes in sizes {
        let input = input(bytes);
        let answer = ours.decide(input.as_bytes()).unwrap();
        assert_eq!(answer.verdict.as_str(), "allow", "{answer:?}");
        // Turn by turn, so that both see the same machine.
        let mut pair = Vec::new();
        for _ in 0..2 {
            let seen = repeat(plan.each / 4, || drop(ours.decide(input.as_bytes()).unwrap()));
            let alone = repeat(plan.each / 4, || {
                bare.set_input(Value::from_json_str(&input).unwrap());
                let value = bare.eval_rule("data.wicketgate.decision".to_owned()).unwrap();
                assert!(value.as_object().is_ok());
            });
            pair.push((seen, alone));
        }
        let best = |f: fn(&(Seen, Seen)) -> &Seen| {
            pair.iter().map(f).min_by_key(|s| s.p50).unwrap().clone()
        };
        let (seen, alone) = (best(|p| &p.0), best(|p| &p.1));
        table.add(Row {
            what: format!("policy decision, {name}, {bytes} B arguments, one thread"),
            ours: seen.words("decisions"),
            floor: format!("engine alone: {}", alone.words("decisions")),
            ratio: Some(seen.p50.as_secs_f64() / alone.p50.as_secs_f64()),
            target: Some(Target::AtMost(1.15)),
        });
    }
}
