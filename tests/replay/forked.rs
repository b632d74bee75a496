//! A run that goes on from a recorded one: up to a step it is told what was recorded, from there it is live.

use serde_json::{Value, json};

use crate::rig::{Rig, agent, drifts, rounds};
use wicketgate_support::ran::Ran;

fn three() -> [(&'static str, Value); 3] {
    [
        ("look.up", json!({"name": "ada"})),
        ("note.add", json!({"text": "hello"})),
        ("look.up", json!({"name": "bob"})),
    ]
}

/// A recorded run of these calls, its tool still there.
#[track_caller]
fn recorded(calls: &Value) -> (Rig, String) {
    let rig = Rig::new(&json!({"mode": "deterministic"}));
    let gate = rig.serve();
    let printed = rig.work(&gate, &agent(calls));
    gate.finish();
    rig.run(&rig.export());
    (rig, printed)
}

/// Entries of the run that goes on.
fn of_fork(rig: &Rig, report: &Value) -> Vec<Value> {
    let run = report["fork"]["run"].as_str().unwrap();
    rig.entries().into_iter().filter(|entry| entry["run"] == run).collect()
}

fn fork(rig: &Rig, at: &str, options: &[&str], calls: &[(&str, Value)]) -> Ran {
    let fork = ["--fork-at", at, "--config", "wicketgate.yaml"];
    rig.replay(&[&fork[..], options].concat(), &agent(&rounds(calls)))
}

#[test]
fn steps_before_the_fork_are_replayed_and_the_rest_is_a_run_that_names_its_origin() {
    let (rig, printed) = recorded(&rounds(&three()));
    assert_eq!(rig.tool.came(), 3);
    let checked = rig.run(&["replay", "check", "run.recording", "--json"]);
    let checked: Value = serde_json::from_str(&checked).unwrap();
    // The same up to the third step, and something else there.
    let mut other = three();
    other[2].1 = json!({"name": "eve"});
    let ran = fork(&rig, "3", &["--json"], &other);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!((&report["verdict"], &report["steps"]), (&json!("same"), &json!(2)), "{report}");
    // Seed, clock and answers as recorded, then an answer of the tool: its fourth.
    let (before, after): (Vec<&str>, Vec<&str>) =
        (printed.lines().collect(), ran.err.lines().collect());
    assert_eq!(after[..3], before[..3], "{ran:?}");
    assert!(after[3].contains("\"number\":4") && after[3].contains("eve"), "{ran:?}");
    assert_eq!(rig.tool.came(), 4);
    // On the books only what this run did.
    let entries = of_fork(&rig, &report);
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run.opened", "call.authorized", "call.completed", "run.sealed"]);
    let clock = before[0].split(' ').nth(3).unwrap();
    let origin = json!({"mode": "fork", "clock": clock, "recording": checked["recording"], "run": checked["run"], "at": 3});
    assert_eq!(entries[0]["data"]["replay"], origin);
    assert_ne!(entries[0]["run"], checked["run"]);
    // What it was told of the recording brought the same labels as when it was recorded.
    let first = rig.entries().into_iter().find(|entry| entry["kind"] == "call.completed").unwrap();
    let labels = first["data"]["observed"]["labels"].as_array().unwrap().clone();
    let at_opening = entries[0]["data"]["taint"].as_array().unwrap();
    for label in labels {
        let origin = json!({"call": first["call"], "label": label, "run": checked["run"]});
        assert!(at_opening.contains(&origin), "{origin}: {at_opening:?}");
    }
    // The ledger and the evidence of the run verify, and the report says where it comes from.
    for name in ["evidence", "fleet"] {
        rig.run(&["keygen", "--out", name]);
    }
    let trust = "enrolment-key state/enrolment.key.pub\nevidence-key evidence.pub\n";
    std::fs::write(rig.path("trust.txt"), trust).unwrap();
    rig.run(&["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"]);
    let run = entries[0]["run"].as_str().unwrap();
    let order = ["evidence", "export", "--run", run, "--out", "proof", "--key", "evidence"];
    let keys = ["--fleet-key", "fleet", "--enrolment-key", "state/enrolment.key"];
    let from = ["--config", "wicketgate.yaml", "--artifacts", "state/artifacts"];
    rig.run(&[&order[..], &keys, &from].concat());
    let verified = rig.try_run(&["evidence", "verify", "--trust", "trust.txt", "proof"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let lineage = format!("goes on from step 3 of run {}", checked["run"].as_str().unwrap());
    assert!(verified.out.contains(&lineage), "{verified:?}");
    let page = std::fs::read_to_string(rig.path("proof/report.html")).unwrap();
    assert!(page.contains("Goes on from") && page.contains(checked["run"].as_str().unwrap()));
    // It is no recording itself.
    let again = ["replay", "export", run, "--config", "wicketgate.yaml", "--out", "fork.recording"];
    assert!(rig.try_run(&again).err.contains("goes on from another recording"));
}

#[test]
fn what_departs_before_the_fork_is_denied_and_nothing_runs() {
    let (rig, _) = recorded(&rounds(&three()));
    let mut changed = three();
    changed[1].1 = json!({"text": "good bye"});
    let skipped = [three()[0].clone(), three()[2].clone()];
    for (what, calls, kind) in [
        ("a changed argument", &changed[..], "arguments"),
        ("a skipped step", &skipped[..], "extra"),
    ] {
        let ran = fork(&rig, "3", &["--json"], calls);
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        let report = ran.json();
        assert_eq!(drifts(&report), [(kind.to_owned(), Some(2))], "{what}: {report}");
        let entries = of_fork(&rig, &report);
        let denied: Vec<&Value> =
            entries.iter().filter(|entry| entry["kind"] == "call.denied").collect();
        assert_eq!(denied[0]["data"]["reasons"][0]["detail"], format!("replay.{kind}"), "{what}");
        assert!(!entries.iter().any(|entry| entry["kind"] == "call.authorized"), "{what}");
    }
    // An agent that never comes to the step at which it is to go on drifted too.
    let short = fork(&rig, "3", &["--json"], &three()[..1]);
    assert_eq!(drifts(&short.json()), [("missing".to_owned(), Some(2))], "{short:?}");
    assert_eq!(rig.tool.came(), 3);
}

#[test]
fn the_live_part_is_decided_by_the_policy_of_now_and_counts_only_itself() {
    let mut calls = three().to_vec();
    calls.insert(1, ("look.up", json!({"name": "forbidden"})));
    let (rig, printed) = recorded(&rounds(&calls));
    let stricter = format!(
        "{}\ndeny contains \"one look is enough\" if {{\n\tinput.tool.name == \"look.up\"\n\tinput.run.calls > 0\n}}\n",
        crate::rig::RULES
    );
    std::fs::remove_dir_all(rig.path("bundle")).unwrap();
    rig.bundle_of("bundle", &stricter, "1.1.0");
    // A denial that was recorded is told as it was; what was answered before is no call of this run.
    let mut more = calls.clone();
    more.push(("look.up", json!({"name": "eve"})));
    let ran = fork(&rig, "4", &[], &more);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (before, after): (Vec<&str>, Vec<&str>) =
        (printed.lines().collect(), ran.out.lines().collect());
    assert_eq!(after[..4], before[..4], "{ran:?}");
    assert!(after[4].starts_with("look.up False"), "{ran:?}");
    assert!(after[5].starts_with("look.up True") && after[5].contains("one look"), "{ran:?}");
    assert!(ran.err.contains("goes on from step 4 of run"), "{ran:?}");
    assert_eq!(rig.tool.came(), 4);
}

#[test]
fn it_goes_on_only_from_a_step_that_had_everything_before_it_answered_and_under_the_same_manifest()
{
    let side: Vec<Value> =
        (0..crate::tool::SIDE).map(|n| json!(["look.up", {"name": format!("side{n}")}])).collect();
    let calls = json!([side, [["note.add", {"text": "then"}]]]);
    let (rig, _) = recorded(&calls);
    let between = fork(&rig, "3", &[], &three());
    assert_eq!(between.code, 2, "{between:?}");
    assert!(between.err.contains("it cannot go on between them"), "{between:?}");
    let beyond = fork(&rig, "11", &[], &three());
    assert!(beyond.code == 2 && beyond.err.contains("it has 9 steps"), "{beyond:?}");
    let bare = rig.replay(&["--fork-at", "2"], &agent(&calls));
    assert_eq!(bare.code, 64, "{bare:?}");
    // Another version of the manifest is another agent.
    let manifest = std::fs::read_to_string(rig.path("agent.yaml")).unwrap();
    std::fs::write(rig.path("agent.yaml"), manifest.replace("1.0.0", "1.1.0")).unwrap();
    rig.run(&["manifest", "sign", "agent.yaml", "--key", "manifest"]);
    let came = rig.tool.came();
    let other = rig.replay(&["--fork-at", "9", "--config", "wicketgate.yaml"], &agent(&calls));
    assert_eq!(other.code, 2, "{other:?}");
    assert!(other.err.contains("under the manifest"), "{other:?}");
    assert_eq!(rig.tool.came(), came);
}

#[test]
fn one_run_goes_on_and_no_second_one() {
    let (rig, _) = recorded(&rounds(&three()));
    let words = agent(&rounds(&three()));
    let twice = format!("'{0}' '{1}' '{2}' && '{0}' '{1}' '{2}'", words[0], words[1], words[2]);
    let fork = ["--fork-at", "4", "--config", "wicketgate.yaml"];
    let ran = rig.replay(&fork, &["sh".to_owned(), "-c".to_owned(), twice]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("it was opened already"), "{ran:?}");
    assert_eq!(rig.tool.came(), 3);
}

#[test]
fn a_run_whose_gate_died_before_it_was_sealed_does_not_go_on_without_its_recording() {
    let (rig, _) = recorded(&rounds(&three()));
    // The first live call is one that somebody has to approve; once it is held, the gate is killed.
    let asked = json!([{"tool": "wire.out", "arguments": {"amount": 7}}]);
    let words = crate::opened::opens(&asked);
    let line = format!(
        "'{}' '{}' '{}' 2>&1 | while read -r line; do case $line in held*) kill -9 $PPID;; esac; done",
        words[0], words[1], words[2]
    );
    let fork = ["--fork-at", "1", "--config", "wicketgate.yaml"];
    let ran = rig.replay(&fork, &["sh".to_owned(), "-c".to_owned(), line]);
    assert_eq!(ran.code, -1, "{ran:?}");
    rig.serve().finish();
    let entries = rig.entries();
    let opened = entries.iter().filter(|entry| entry["kind"] == "run.opened");
    let run = &opened.max_by_key(|entry| entry["seq"].as_u64()).unwrap()["run"];
    let mine: Vec<&Value> = entries.iter().filter(|entry| entry["run"] == *run).collect();
    let kinds: Vec<&str> = mine.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run.opened", "call.held", "call.cancelled", "run.sealed"]);
    assert_eq!(mine[3]["data"]["reason"], "recording_lost");
    assert_eq!(rig.tool.came(), 3);
}
