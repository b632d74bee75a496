//! Which recorded decisions a new bundle flips, and what a signed result of that is worth.

use serde_json::{Value, json};

use crate::gate::Gate;
use wicketgate_support::ran::Ran;

const OLD: &str = r#"
allow if input.tool.name == "work.do"
deny contains {"code": "large", "message": "more than nine"} if input.args.n > 9
require_approval contains "ask first" if input.args.ask
obligations contains {"type": "cap_bytes", "bytes": 500} if input.args.cap
"#;

/// `large` is raised, `one` is new, nobody is asked, `fs.read` is allowed, nothing is capped.
const NEW: &str = r#"
# Everything stands in another line than before.
allow if input.tool.name in {"work.do", "fs.read"}
deny contains {"code": "one", "message": "not one"} if input.args.n == 1
deny contains {"code": "large", "message": "more than nine"} if input.args.n > 99
"#;

/// A bundle directory beside the gate.
fn bundle(gate: &Gate, name: &str, rules: &str) {
    gate.write(&format!("{name}/bundle.json"), r#"{"name":"main","version":"1.5.0"}"#);
    let text = format!("package wicketgate.agent\nimport rego.v1\n{rules}\n");
    gate.write(&format!("{name}/agent/main.rego"), &text);
}

fn backtest(gate: &Gate, more: &[&str]) -> Ran {
    gate.run(&[&["policy", "backtest", "--config", "wicketgate.yaml"], more].concat())
}

/// A gate on whose books is one decision of every kind.
async fn gate() -> Gate {
    let gate = Gate::start("{}", &[("agent/main.rego", OLD)]);
    let agent = gate.open("").await;
    agent.call("work.do", "one", r#"{"n":1}"#).await.unwrap();
    agent.call("work.do", "two", r#"{"n":2}"#).await.unwrap();
    agent.call("work.do", "large", r#"{"n":10}"#).await.unwrap_err();
    agent.call("work.do", "huge", r#"{"n":100}"#).await.unwrap_err();
    agent.call("work.do", "ask", r#"{"ask":true}"#).await.unwrap_err();
    agent.call("work.do", "cap", r#"{"cap":true}"#).await.unwrap();
    agent.call("fs.read", "read", r#"{"path":"src/a.rs"}"#).await.unwrap_err();
    agent.call("work.other", "none", "{}").await.unwrap_err();
    bundle(&gate, "new", NEW);
    bundle(&gate, "old", OLD);
    gate
}

/// Change, old and new rule, and how often.
fn groups(found: &Value) -> Vec<(&str, &str, &str, u64)> {
    let list = found["result"]["groups"].as_array().unwrap();
    list.iter()
        .map(|group| {
            let word = |name: &str| group[name].as_str().unwrap();
            (word("change"), word("old"), word("new"), group["count"].as_u64().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn every_flip_is_found_by_its_rule_and_what_opens_comes_first() {
    let gate = gate().await;
    let found =
        backtest(&gate, &["--bundle", "new", "--json", "--flips", "flips.jsonl"]).ends(1).json();
    let expected = [
        ("deny_to_allow", "wicketgate.agent.deny agent/main.rego:5", "allow", 1),
        ("deny_to_allow", "wicketgate.decision no_allow", "allow", 1),
        ("hold_to_allow", "wicketgate.agent.require_approval agent/main.rego:6", "allow", 1),
        ("allow_to_deny", "allow", "wicketgate.agent.deny agent/main.rego:6", 1),
        ("obligations", "allow", "allow", 1),
    ];
    assert_eq!(groups(&found), expected, "{found}");
    let result = &found["result"];
    // `two` and `huge` stay: that the rule stands in another line is no other reason.
    assert_eq!(
        (&result["judged"], &result["same"], &result["flips"]),
        (&json!(7), &json!(2), &json!(5))
    );
    assert_eq!(result["not_asked"], 1, "work.other was refused before any policy: {found}");
    assert_eq!(result["unjudged"], json!([]));
    // The list is what the digest is of, in the order of the books.
    let list = std::fs::read(gate.path("flips.jsonl")).unwrap();
    let sha256 = wicketgate::domain::digest::Digest::of(&[&list]).hex();
    assert_eq!(result["list_sha256"], sha256);
    let lines: Vec<Value> =
        list.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let calls: Vec<&str> = lines.iter().map(|line| line["call"].as_str().unwrap()).collect();
    assert_eq!(calls, ["one", "large", "ask", "cap", "read"]);
    assert_eq!(lines[0]["agent"], "observed-agent");
    assert_eq!(lines[3]["old"]["obligations"][0]["type"], "cap_bytes");
    // A file that is there is not written over.
    backtest(&gate, &["--bundle", "new", "--flips", "flips.jsonl"]).ends(2);
    let text = backtest(&gate, &["--bundle", "new"]).ends(1).out;
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}`: {text}"));
    assert!(place("DENY -> ALLOW: 2") < place("HOLD -> ALLOW: 1"));
    assert!(place("HOLD -> ALLOW: 1") < place("ALLOW -> DENY: 1"));
    assert!(place("agent/main.rego:5 -> allow") < place("work.do entry"));
}

#[tokio::test]
async fn a_bundle_that_decides_the_same_flips_nothing_and_two_bundles_can_be_compared() {
    let gate = gate().await;
    let found = backtest(&gate, &["--bundle", "old", "--json"]).ends(0).json();
    assert_eq!((&found["result"]["same"], &found["result"]["flips"]), (&json!(7), &json!(0)));
    let against = ["--bundle", "old", "--against", "new", "--json"];
    let found = backtest(&gate, &against).ends(1).json();
    assert_eq!(found["result"]["changes"]["allow_to_deny"], 2, "{found}");
    assert_eq!(found["result"]["changes"]["deny_to_allow"], 1, "{found}");
    assert_eq!(found["against"]["version"], "1.5.0");
    backtest(&gate, &["--bundle", "new", "--against", "new"]).ends(0);
}

#[tokio::test]
async fn the_range_narrows_what_is_judged() {
    let gate = gate().await;
    let judged = |more: &[&str]| {
        let all = [&["--bundle", "old", "--json"], more].concat();
        backtest(&gate, &all).ends(0).json()["result"]["judged"].as_u64().unwrap()
    };
    assert_eq!(judged(&["--since", "1h"]), 7);
    assert_eq!(judged(&["--since", "2099-01-01T00:00:00Z"]), 0);
    assert_eq!(judged(&["--until", "2020-01-01T00:00:00Z"]), 0);
    assert_eq!(judged(&["--tool", "fs.read"]), 1);
    assert_eq!(judged(&["--agent", "observed-agent"]), 7);
    assert_eq!(judged(&["--agent", "another-agent"]), 0);
    assert_eq!(judged(&["--limit", "3"]), 3);
    assert_eq!(judged(&["--tenant", "another"]), 0);
    let list =
        gate.run(&["ledger", "tail", "--config", "wicketgate.yaml", "--json", "-n", "99"]).ok().out;
    let line = list.lines().find(|line| line.contains("run.opened")).unwrap();
    let run = serde_json::from_str::<Value>(line).unwrap()["run"].clone();
    let run = run.as_str().map_or_else(|| panic!("{line}"), str::to_owned);
    assert_eq!(judged(&["--run", &run]), 7);
    let none = "00000000-0000-4000-8000-000000000000";
    let missing = backtest(&gate, &["--bundle", "old", "--run", none]).ends(2);
    assert!(missing.err.contains("no run"), "{}", missing.err);
}

#[tokio::test]
async fn a_signed_result_holds_for_its_bundle_its_list_and_its_ledger_and_for_nothing_else() {
    let gate = gate().await;
    let sign =
        ["--bundle", "new", "--flips", "flips.jsonl", "--sign", "evidence", "--out", "result.json"];
    backtest(&gate, &sign).ends(1);
    let verify = |more: &[&str]| {
        gate.run(&[&["policy", "backtest", "--verify", "result.json"], more].concat())
    };
    let trust = ["--trust", "evidence.pub"];
    let all =
        [&trust[..], &["--bundle", "new", "--flips", "flips.jsonl", "--config", "wicketgate.yaml"]];
    let fine = verify(&[&all.concat()[..], &["--json"]].concat()).ends(0).json();
    assert_eq!(fine["predicate"]["result"]["flips"], 5);
    assert_eq!(fine["predicate"]["ledger"].as_array().unwrap().len(), 1);
    assert!(verify(&trust).ends(0).out.contains("7 decisions evaluated, 5 changed"));
    verify(&["--trust", "manifest.pub"]).ends(1);
    let other = verify(&[&trust[..], &["--bundle", "old"]].concat()).ends(1);
    assert!(other.err.contains("it is about bundle"), "{}", other.err);
    let list = std::fs::read_to_string(gate.path("flips.jsonl")).unwrap();
    gate.write("shorter.jsonl", list.split_once('\n').unwrap().1);
    let cut = verify(&[&trust[..], &["--flips", "shorter.jsonl"]].concat()).ends(1);
    assert!(cut.err.contains("the list of changes"), "{}", cut.err);
    // One bit of what was signed.
    let signed = std::fs::read_to_string(gate.path("result.json")).unwrap();
    let mut json: Value = serde_json::from_str(&signed).unwrap();
    let payload = json["payload"].as_str().unwrap();
    let at = payload.len() / 2;
    let turned = if &payload[at..=at] == "A" { "B" } else { "A" };
    json["payload"] = json!(format!("{}{turned}{}", &payload[..at], &payload[at + 1..]));
    gate.write("result.json", &json.to_string());
    verify(&trust).ends(1);
    // Another ledger does not have the heads.
    gate.write("result.json", &signed);
    let elsewhere = Gate::start("{}", &[("agent/main.rego", OLD)]);
    let far = elsewhere.path("state/ledger.sqlite").display().to_string();
    verify(&[&trust[..], &["--sqlite", &far]].concat()).ends(1);
    // What is there is not written over.
    backtest(&gate, &["--bundle", "new", "--sign", "evidence", "--out", "result.json"]).ends(64);
}

#[tokio::test]
async fn threads_change_nothing_of_what_is_found() {
    let gate = Gate::start("{}", &[("agent/main.rego", OLD)]);
    let agent = gate.open("").await;
    for n in 0..200 {
        let args = json!({"n": n % 14}).to_string();
        // Refused or not: it is on the books.
        drop(agent.call("work.do", &format!("c{n}"), &args).await);
    }
    bundle(&gate, "new", NEW);
    let found = |jobs: &str| {
        backtest(&gate, &["--bundle", "new", "--json", "--jobs", jobs]).ends(1).json()["result"]
            .clone()
    };
    let one = found("1");
    assert_eq!(one["judged"], 200, "{one}");
    assert_eq!(one, found("7"));
}

/// The ledger of a gate, copied to be edited.
fn copied(gate: &Gate, name: &str, edit: &str) {
    let database = rusqlite::Connection::open(gate.path("state/ledger.sqlite")).unwrap();
    let to = gate.path(name);
    database.execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
    let copy = rusqlite::Connection::open(to).unwrap();
    let triggers: Vec<String> = {
        let mut found =
            copy.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").unwrap();
        found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for trigger in triggers {
        copy.execute_batch(&format!("DROP TRIGGER \"{trigger}\"")).unwrap();
    }
    let changed = copy.execute(edit, []).unwrap();
    assert!(changed > 0, "`{edit}` changed nothing");
}

#[tokio::test]
async fn a_backtest_of_an_edited_ledger_gives_no_result() {
    let gate = gate().await;
    let on = |name: &str| gate.run(&["policy", "backtest", "--bundle", "old", "--sqlite", name]);
    for (name, edit, said) in [
        (
            "hidden",
            "UPDATE stored_entry SET kind = 'heartbeat' WHERE kind = 'call.denied'",
            "another kind",
        ),
        (
            "rewritten",
            "UPDATE stored_entry SET body = CAST(replace(CAST(body AS TEXT), 'large', 'small') AS BLOB) WHERE kind = 'call.denied'",
            "its bytes",
        ),
        // A denial becomes the entry before it once more, and the column of the next entry agrees.
        (
            "exchanged",
            "UPDATE stored_entry SET kind = iif(stored_entry.id = o.at, o.kind, stored_entry.kind), \
             body = iif(stored_entry.id = o.at, o.body, stored_entry.body), \
             leaf = iif(stored_entry.id = o.at, o.leaf, stored_entry.leaf), prev = o.leaf \
             FROM (SELECT id + 1 AS at, kind, body, leaf FROM stored_entry WHERE id + 1 = \
             (SELECT min(id) FROM stored_entry WHERE kind = 'call.denied')) AS o \
             WHERE stored_entry.id IN (o.at, o.at + 1)",
            "another entry before it",
        ),
        ("cut", "DELETE FROM stored_entry WHERE id = (SELECT max(id) FROM stored_entry)", "head"),
    ] {
        copied(&gate, name, edit);
        let ended = on(name).ends(2);
        assert!(ended.err.contains("damaged") && ended.err.contains(said), "{name}: {}", ended.err);
    }
    copied(
        &gate,
        "retold",
        "UPDATE stored_payload SET body = CAST(replace(CAST(body AS TEXT), '\"n\":10', '\"n\":11') AS BLOB) WHERE role = 'policy_input'",
    );
    let ended = on("retold").ends(2);
    assert!(ended.out.contains("not what the entry commits to"), "{}", ended.out);
    copied(&gate, "gap", "DELETE FROM stored_entry WHERE kind = 'call.completed'");
    assert!(on("gap").ends(2).out.contains("entries were pruned"));
}

#[tokio::test]
async fn what_cannot_be_begun_ends_with_2_or_64_and_says_why() {
    let gate = Gate::start("{}", &[("agent/main.rego", OLD)]);
    gate.write("broken/bundle.json", r#"{"name":"main","version":"1.5.0"}"#);
    gate.write("broken/agent/main.rego", "package wicketgate.agent\nimport rego.v1\nallow if {\n");
    let broken = backtest(&gate, &["--bundle", "broken"]).ends(2);
    assert!(broken.err.contains("agent/main.rego:"), "{}", broken.err);
    backtest(&gate, &["--bundle", "nowhere"]).ends(2);
    let orphan = backtest(&gate, &["--bundle", "bundle", "--parent", "2147483647"]).ends(2);
    assert!(orphan.err.contains("the parent process has ended"), "{}", orphan.err);
    backtest(&gate, &[]).ends(64);
    gate.run(&["policy", "backtest", "--bundle", "bundle"]).ends(2);
    gate.run(&["policy", "backtest", "--bundle", "bundle", "--sqlite", "nowhere"]).ends(2);
    backtest(&gate, &["--bundle", "bundle", "--since", "yesterday"]).ends(64);
    backtest(&gate, &["--bundle", "bundle", "--sign", "evidence"]).ends(64);
    gate.run(&["policy", "backtest", "--verify", "nothing.json"]).ends(64);
    gate.run(&["policy", "backtest", "--verify", "nothing.json", "--trust", "evidence.pub"])
        .ends(2);
    backtest(&gate, &["--bundle", "bundle"]).ends(0);
}

#[tokio::test]
async fn a_backtest_applies_the_layer_modes_and_approver_counts_of_the_new_bundle() {
    // Then: the agent layer observed, so that what it denied ran.
    let gate = Gate::start(&crate::observing(), &[("agent/main.rego", OLD)]);
    let agent = gate.open("").await;
    agent.call("work.do", "large", r#"{"n":10}"#).await.unwrap();
    // The same rules, enforced.
    bundle(&gate, "old", OLD);
    let found = backtest(&gate, &["--bundle", "old", "--json"]).ends(1).json();
    let rule = "wicketgate.agent.deny agent/main.rego:5";
    let expected =
        [("allow_to_deny", "wicketgate.agent.deny agent/main.rego:5 (not enforced)", rule, 1)];
    assert_eq!(groups(&found), expected, "{found}");
    // A layer that counts approvers for itself is told that it does.
    let counts = "allow if input.tool.name == \"work.do\"\n\
                  require_approval contains \"two\" if count(input.approvals) < 2\n\
                  deny contains \"not told\" if not \"agent\" in input.quorum.by_hand";
    bundle(&gate, "counts", counts);
    let found = backtest(&gate, &["--bundle", "counts", "--json"]).ends(1).json();
    assert_eq!(found["result"]["changes"]["allow_to_hold"], 1, "{found}");
    backtest(&gate, &["--bundle", "bundle"]).ends(0);
}
