//! A run that its agent opens from a recording it names, at a gate that lets it.

use serde_json::{Value, json};

use crate::family::family;
use crate::rig::{Rig, drifts};

fn three(run: &str) -> Vec<Value> {
    vec![
        json!(["call", run, "look.up", {"name": "ada"}]),
        json!(["call", run, "note.add", {"text": "hello"}]),
        json!(["call", run, "look.up", {"name": "bob"}]),
    ]
}

/// The orders of one run: how it is opened, its calls, its end.
fn of(run: &str, asked: &Value, calls: &[Value]) -> Vec<Value> {
    let (open, seal) = (json!(["open", run, asked]), json!(["seal", run]));
    [&[open][..], calls, &[seal]].concat()
}

/// A rig with a recording of three calls on its shelf; its digest, and what was printed.
fn recorded() -> (Rig, String, String) {
    let rig = Rig::new(&json!({"mode": "deterministic"}));
    let printed = rig.worked(&family(&json!(of("first", &json!({}), &three("first")))));
    rig.run(&rig.export());
    let checked = rig.run(&["replay", "check", "run.recording", "--json"]);
    let checked: Value = serde_json::from_str(&checked).unwrap();
    let digest = checked["recording"].as_str().unwrap().to_owned();
    let name = format!("{}.recording", digest.trim_start_matches("sha256:"));
    std::fs::create_dir(rig.path("shelf")).unwrap();
    std::fs::copy(rig.path("run.recording"), rig.path("shelf").join(name)).unwrap();
    rig.configure(|config| config["replay"] = json!({"recordings": "shelf"}));
    (rig, digest, printed)
}

fn asked(digest: &str, at: u64) -> Value {
    json!({"mode": "replay", "recording": digest, "fork_at": at})
}

#[test]
fn an_agent_opens_a_run_that_goes_on_from_a_recording_it_names() {
    let (rig, digest, printed) = recorded();
    let mut calls = three("again");
    calls[2] = json!(["call", "again", "look.up", {"name": "eve"}]);
    calls.push(json!(["call", "again", "look.up", {"name": "forbidden"}]));
    let orders = of("again", &asked(&digest, 3), &calls);
    let came = rig.worked(&family(&json!(orders)));
    let strip = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.replace(" first ", " again ")).collect()
    };
    let (was, is) = (strip(&printed), strip(&came));
    // The recorded seed, another run; two steps as recorded; then the tool's fourth answer, and a denial.
    assert_eq!(was[0].split(' ').nth(3), is[0].split(' ').nth(3), "{came}");
    assert_ne!(was[0], is[0], "{came}");
    assert_eq!(was[1..3], is[1..3], "{came}");
    assert!(is[3].contains("\"number\":4") && is[3].contains("eve"), "{came}");
    assert!(is[4].starts_with("refused call again policy.denied"), "{came}");
    assert_eq!(rig.tool.came(), 4);
    // The same opening on the books as that of `wicketgate run replay --fork-at`.
    let entries = rig.entries();
    let opened = entries.iter().rfind(|entry| entry["kind"] == "run.opened").unwrap();
    let origin = &opened["data"]["replay"];
    let said = (&origin["mode"], &origin["recording"], &origin["at"]);
    assert_eq!(said, (&json!("fork"), &json!(digest), &json!(3)), "{opened}");
    let mine = entries.iter().filter(|entry| entry["run"] == opened["run"]);
    let kinds: Vec<&str> = mine.map(|entry| entry["kind"].as_str().unwrap()).collect();
    let live = ["run.opened", "call.authorized", "call.completed", "call.denied", "run.sealed"];
    assert_eq!(kinds, live);
    std::fs::write(rig.path("trust.txt"), "enrolment-key state/enrolment.key.pub\n").unwrap();
    rig.run(&["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"]);
}

#[test]
fn several_runs_go_on_from_one_recording_and_each_for_itself() {
    let (rig, digest, _) = recorded();
    let [one, mut other] = ["one", "other"].map(three);
    other[1] = json!(["call", "other", "note.add", {"text": "good bye"}]);
    let (one, other) =
        (of("one", &asked(&digest, 4), &one), of("other", &asked(&digest, 3), &other));
    let orders = [one, other].concat();
    let came = rig.worked(&family(&json!(orders)));
    let refused = "refused call other effect.refused replay.";
    assert!(came.contains(&format!("{refused}arguments")), "{came}");
    assert!(came.contains(&format!("{refused}stopped")), "{came}");
    assert!(!came.contains("refused call one"), "{came}");
    // All of the first was told, and nothing of the second ran.
    assert_eq!(rig.tool.came(), 3);
}

#[test]
fn a_recording_that_is_not_there_not_whole_or_of_another_manifest_is_no_beginning() {
    let (rig, digest, _) = recorded();
    let none = "sha256:".to_owned() + &"00".repeat(32);
    let shelf = rig.path("shelf");
    let spoiled = shelf.join(format!("{}.recording", "11".repeat(32)));
    std::fs::copy(rig.path("run.recording"), spoiled).unwrap();
    let other = "sha256:".to_owned() + &"11".repeat(32);
    let cases = [
        (asked(&none, 2), "run.recording"),
        (asked(&other, 2), "run.recording"),
        (asked("sha256:../../run", 2), "run.recording"),
        (asked(&digest, 5), "run.recording"),
        (json!({"recording": digest, "fork_at": 2}), "run.recording"),
        (json!({"mode": "replay", "fork_at": 2}), "run.recording"),
        (
            json!({"mode": "replay", "recording": digest, "fork_at": 2, "incognito": true}),
            "manifest.incognito",
        ),
        (json!({"mode": "replay", "recording": digest}), "run.mode"),
    ];
    let orders: Vec<Value> = cases.iter().map(|(ask, _)| json!(["open", "run", ask])).collect();
    let came = rig.worked(&family(&json!(orders)));
    let wanted: Vec<String> = cases
        .iter()
        .map(|(_, what)| match what.starts_with("manifest") {
            true => format!("refused open run manifest.mismatch {what}"),
            false => format!("refused open run request.malformed {what}"),
        })
        .collect();
    assert_eq!(came.lines().collect::<Vec<_>>(), wanted);
    // Another version of the manifest is another agent.
    let manifest = std::fs::read_to_string(rig.path("agent.yaml")).unwrap();
    std::fs::write(rig.path("agent.yaml"), manifest.replace("1.0.0", "1.1.0")).unwrap();
    rig.run(&["manifest", "sign", "agent.yaml", "--key", "manifest"]);
    let came = rig.worked(&family(&json!([["open", "run", asked(&digest, 2)]])));
    assert_eq!(came.trim(), "refused open run request.malformed run.manifest");
    assert_eq!(rig.tool.came(), 3);
}

#[test]
fn a_gate_that_was_given_no_recordings_forks_none_and_one_that_was_given_one_forks_only_that() {
    let (rig, digest, _) = recorded();
    rig.configure(|config| drop(config.as_object_mut().unwrap().remove("replay")));
    let orders = json!([["open", "run", asked(&digest, 2)]]);
    let came = rig.worked(&family(&orders));
    assert_eq!(came.trim(), "refused open run request.malformed run.fork_at");
    rig.configure(|config| config["replay"] = json!({"recordings": "nowhere"}));
    let ran = rig.try_run(&["serve", "--config", "wicketgate.yaml"]);
    assert!(ran.code != 0 && ran.err.contains("is not a directory"), "{ran:?}");
    rig.configure(|config| drop(config.as_object_mut().unwrap().remove("replay")));
    // The step of the command line, and no other; a gate that replays everything goes on from nowhere.
    let named = |at: u64| asked("$WICKETGATE_REPLAY", at);
    let orders = [of("wrong", &named(3), &[]), of("run", &named(2), &three("run"))].concat();
    let fork = ["--json", "--fork-at", "2", "--config", "wicketgate.yaml"];
    let ran = rig.replay(&fork, &family(&json!(orders[..1])));
    assert!(ran.err.contains("refused open wrong request.malformed run.fork_at"), "{ran:?}");
    let ran = rig.replay(&fork, &family(&json!(orders[2..])));
    assert_eq!((ran.code, drifts(&ran.json())), (0, Vec::new()), "{ran:?}");
    assert_eq!(rig.tool.came(), 5);
    let ran = rig.replay(&["--json"], &family(&json!(orders[2..])));
    assert!(ran.err.contains("refused open run request.malformed run.fork_at"), "{ran:?}");
}
