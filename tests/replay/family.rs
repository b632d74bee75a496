//! Runs below a run: recorded with it in one file, opened again from there, and answered like it.

use std::path::Path;

use serde_json::{Value, json};

use crate::opened::grpc_python;
use crate::rig::{Rig, drifts};
use crate::spoiled::sealed;
use wicketgate_support::ran::Ran;

/// The words that start the agents of a family.
pub fn family(orders: &Value) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/family.py");
    let words =
        [grpc_python().display().to_string(), script.display().to_string(), orders.to_string()];
    words.to_vec()
}

/// A lead, a sub-agent in its process, and a helper that connects for itself, which has one of its own. The
/// two below the lead are told apart by their labels.
fn orders(helper: &str) -> Vec<Value> {
    let claimed = json!({"parent": "lead", "delegate": helper, "labels": {"part": "one"}});
    let attested =
        json!({"parent": "lead", "socket": "WICKETGATE_SOCKET_HELPER", "labels": {"part": "two"}});
    vec![
        json!(["open", "lead", {}]),
        json!(["call", "lead", "look.up", {"name": "ada"}]),
        json!(["open", "claimed", claimed]),
        json!(["open", "attested", attested]),
        json!(["call", "attested", "note.add", {"text": "two"}]),
        json!(["call", "claimed", "look.up", {"name": "ada"}]),
        json!(["call", "claimed", "look.up", {"name": "forbidden"}]),
        json!(["seal", "attested"]),
        json!(["call", "lead", "note.add", {"text": "done"}]),
        json!(["seal", "lead"]),
    ]
}

/// The orders without those of one run.
fn without(orders: &[Value], run: &str) -> Vec<Value> {
    orders.iter().filter(|order| order[1] != run).cloned().collect()
}

fn recorded() -> (Rig, Vec<Value>, String) {
    let (mut rig, helper) = Rig::family(&json!({"mode": "deterministic"}));
    let orders = orders(&helper);
    let printed = rig.record(&family(&json!(orders)));
    assert_eq!(rig.tool.came(), 4, "{printed}");
    (rig, orders, printed)
}

fn replay(rig: &Rig, options: &[&str], orders: &[Value]) -> Ran {
    rig.replay(options, &family(&json!(orders)))
}

fn lines(rig: &Rig) -> Vec<Value> {
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn child_runs_are_recorded_with_their_parent_and_answered_again_with_the_tools_gone() {
    let (rig, orders, printed) = recorded();
    let (lines, entries) = (lines(&rig), rig.entries());
    let kinds: Vec<&str> = lines.iter().map(|line| line["t"].as_str().unwrap()).collect();
    let shape = ["recording", "file", "file", "file", "tools", "child", "child"];
    assert_eq!(kinds, [&shape[..], &["step"; 5], &["end"]].concat());
    // Every entry of every call of all three runs is named at its place, and each child by its opening.
    let of_calls = entries.iter().filter(|entry| entry["call"].is_string()).count();
    let steps = lines.iter().filter(|line| line["t"] == "step");
    let named: Vec<&Value> = steps.flat_map(|line| line["entries"].as_array().unwrap()).collect();
    assert_eq!(named.len(), of_calls);
    for place in named {
        let entry = entries.iter().find(|entry| entry["seq"] == place["seq"]).unwrap();
        assert_eq!(entry["kind"], place["kind"]);
    }
    for child in lines.iter().filter(|line| line["t"] == "child") {
        let of_run = |entry: &&Value| entry["run"] == child["run"] && entry["kind"] == "run.opened";
        let opened = entries.iter().find(of_run).unwrap();
        assert_eq!((&opened["data"]["parent"], &child["before"]), (&lines[0]["run"], &json!(2)));
    }
    // The same runs, calls, results and denial: nobody but the recording is there.
    let again = replay(&rig, &[], &orders);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(again.out, printed);
    assert!(printed.contains("refused call claimed policy.denied"), "{printed}");
    assert_eq!(rig.tool.came(), 4);
    let checked = rig.run(&["replay", "check", "run.recording", "--json"]);
    let checked: Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(checked["children"].as_array().unwrap().len(), 2);
}

#[test]
fn each_run_drifts_for_itself_and_a_child_that_is_missing_or_too_many_is_named() {
    let (rig, orders, _) = recorded();
    let mut changed = orders.clone();
    changed[4] = json!(["call", "attested", "note.add", {"text": "three"}]);
    let ran = replay(&rig, &["--json"], &changed);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.json();
    assert_eq!(drifts(&report), [("arguments".to_owned(), Some(2))], "{report}");
    let children: Vec<Value> =
        lines(&rig).into_iter().filter(|line| line["t"] == "child").collect();
    assert_eq!(report["drifts"][0]["run"], children[1]["run"], "{report}");
    // Whose calls are not named one by one.
    let ran = replay(&rig, &["--json", "--report"], &without(&orders, "claimed"));
    let report = ran.json();
    assert_eq!(drifts(&report), [("missing_child".to_owned(), None)], "{report}");
    assert_eq!(report["drifts"][0]["run"], children[0]["run"], "{report}");
    // One more is not opened, and what it would have called is not asked.
    let mut more = orders.clone();
    let mut third = orders[2].clone();
    third[1] = json!("third");
    more.insert(4, third);
    more.insert(5, json!(["call", "attested", "look.up", {"name": "eve"}]));
    let ran = replay(&rig, &["--json", "--report"], &more);
    let report = ran.json();
    let both = [("extra_child".to_owned(), None), ("extra".to_owned(), Some(2))];
    assert_eq!(drifts(&report), both, "{report}");
    assert!(ran.err.contains("refused open third effect.refused replay.extra_child"), "{ran:?}");
    let ran = replay(&rig, &["--json"], &more);
    assert_eq!(drifts(&ran.json()), [("extra_child".to_owned(), None)], "{ran:?}");
}

#[test]
fn children_opened_in_another_order_are_distinguished_by_their_claims() {
    let (rig, mut orders, printed) = recorded();
    orders.swap(2, 3);
    orders.swap(4, 5);
    let ran = replay(&rig, &[], &orders);
    assert_eq!(ran.code, 0, "{ran:?}");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ran.out), sorted(&printed));
}

#[test]
fn what_is_left_out_is_left_out_of_children_too_and_a_child_is_not_exported_alone() {
    let (rig, helper) = Rig::family(&json!({"mode": "record"}));
    let orders = orders(&helper);
    rig.worked(&family(&json!(orders)));
    rig.run(&[&rig.export()[..], &["--redact", "result:body"]].concat());
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    assert!(!text.contains("ann@example.com") && text.contains("\"t\":\"child\""));
    let child = lines(&rig).into_iter().find(|line| line["t"] == "child").unwrap();
    let run = child["run"].as_str().unwrap();
    let alone = ["replay", "export", run, "--config", "wicketgate.yaml", "--out", "alone"];
    let ran = rig.try_run(&alone);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&format!("child of run {}", child["parent"].as_str().unwrap())));
}

#[test]
fn a_child_line_that_was_changed_is_refused() {
    let (rig, orders, _) = recorded();
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let child = lines.iter().position(|line| line.contains("\"t\":\"child\"")).unwrap();
    let step = lines
        .iter()
        .position(|line| line.contains("\"part\":\"two\"") && line.contains("\"t\":\"step\""));
    let step = step.unwrap();
    let of = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let (first, own) = (of(&lines[child]), of(&lines[0]));
    let (run, manifest) = (first["run"].as_str().unwrap(), first["manifest"].as_str().unwrap());
    let other = of(&lines[child + 1])["run"].as_str().unwrap().to_owned();
    let with = |at: usize, from: &str, to: &str| {
        let mut lines = lines.clone();
        assert!(lines[at].contains(from), "{}", lines[at]);
        lines[at] = lines[at].replacen(from, to, 1);
        sealed(lines)
    };
    let mut dropped = lines.clone();
    dropped.remove(child + 1);
    let older = with(0, "wicketgate/recording/2", "wicketgate/recording/1");
    for (what, spoiled, why) in [
        ("a child twice", with(child, run, &other), "is there twice"),
        (
            "a child of nobody",
            with(child, own["run"].as_str().unwrap(), &other),
            "of none that is there",
        ),
        ("no such child", sealed(dropped), "is of no run"),
        (
            "the manifest of the parent",
            with(child, manifest, own["manifest"].as_str().unwrap()),
            "is of another manifest",
        ),
        (
            "a step of the parent",
            with(step, &format!(",\"run\":\"{other}\""), ""),
            "is of another manifest",
        ),
        ("a child in the version before", older, "`wicketgate/recording/1` has no children"),
    ] {
        let text: String = spoiled.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(rig.path("run.recording"), text).unwrap();
        let ran = replay(&rig, &["--json"], &orders);
        assert!(ran.code == 2 && ran.err.contains(why), "{what}: {ran:?}");
    }
}

#[test]
fn a_fork_goes_on_before_the_first_child_and_never_behind_it() {
    let (rig, helper) = Rig::family(&json!({"mode": "deterministic"}));
    let orders = orders(&helper);
    let printed = rig.worked(&family(&json!(orders)));
    rig.run(&rig.export());
    let fork = |at: &str| {
        let mut command = std::process::Command::new(wicketgate_support::program::gate());
        let options = [
            "replay",
            "run.recording",
            "--json",
            "--fork-at",
            at,
            "--config",
            "wicketgate.yaml",
            "--",
        ];
        command.args(options).args(family(&json!(orders)));
        command.env("WICKETGATE_SOCKET_HELPER", rig.path("helper.sock"));
        rig.ran(command)
    };
    let behind = fork("3");
    assert!(behind.code == 2 && behind.err.contains("was opened before step 3"), "{behind:?}");
    assert_eq!(rig.tool.came(), 4);
    let before = fork("2");
    assert_eq!(before.code, 0, "{before:?}");
    // The lead's first call is told, and everything of the children is live.
    let (was, is): (Vec<&str>, Vec<&str>) =
        (printed.lines().collect(), before.err.lines().collect());
    assert_eq!((is[1], was[1] == is[1]), (was[1], true), "{before:?}");
    assert_eq!(rig.tool.came(), 7, "{before:?}");
}
