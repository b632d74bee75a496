//! An agent that does something else is told apart at the very step, and nothing is made up for it.

use serde_json::{Value, json};

use crate::rig::{Rig, agent, drifts, rounds};

fn three() -> [(&'static str, Value); 3] {
    [
        ("look.up", json!({"name": "ada", "id": "r-1"})),
        ("note.add", json!({"text": "hello", "id": "r-2"})),
        ("look.up", json!({"name": "bob", "id": "r-3"})),
    ]
}

fn rig() -> Rig {
    let mut rig = Rig::new(&json!({"mode": "record"}));
    rig.record(&agent(&rounds(&three())));
    rig
}

#[test]
fn the_first_drift_is_named_at_its_step_and_nothing_is_answered_after_it() {
    let rig = rig();
    let mut changed = three();
    changed[1].1 = json!({"text": "good bye", "id": "r-2"});
    let mut other = three();
    other[1].0 = "look.up";
    other[1].1 = json!({"name": "ada", "id": "r-2"});
    let skipped = [three()[0].clone(), three()[2].clone()];
    let twice = [three()[0].clone(), three()[0].clone(), three()[1].clone(), three()[2].clone()];
    let short = [three()[0].clone(), three()[1].clone()];
    let longer = [&three()[..], &[("note.add", json!({"text": "more"}))]].concat();
    for (what, calls, kind, step) in [
        ("a changed argument", &changed[..], "arguments", Some(2)),
        ("a skipped call", &skipped[..], "missing", Some(2)),
        ("another tool", &other[..], "extra", Some(2)),
        ("a call twice", &twice[..], "extra", Some(2)),
        ("an end too early", &short[..], "missing", Some(3)),
        ("a call too many", &longer[..], "extra", None),
    ] {
        let ran = rig.replay(&["--json"], &agent(&rounds(calls)));
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        let report = ran.json();
        assert_eq!(drifts(&report), [(kind.to_owned(), step)], "{what}: {report}");
        assert_eq!(report["verdict"], "drift");
    }
    let ran = rig.replay(&[], &agent(&rounds(&changed)));
    // Of three calls one was answered; the drift says in which argument it lies, the last is not answered.
    let answers: Vec<&str> = ran.out.lines().skip(1).collect();
    assert!(answers[0].starts_with("look.up False"), "{ran:?}");
    assert!(answers[1].starts_with("note.add True") && answers[1].contains("`/text`"), "{ran:?}");
    assert!(answers[2].contains("nothing more is answered"), "{ran:?}");
    let expected = "/text: recorded \"hello\", now \"good bye\"";
    assert!(ran.err.contains(expected) && ran.err.contains("1 drift: 1 of 3"), "{ran:?}");
}

#[test]
fn a_report_collects_all_and_is_understood_by_what_reads_results_of_tests() {
    let rig = rig();
    let calls = rounds(&[
        ("note.add", json!({"text": "hello", "id": "r-2"})),
        ("look.up", json!({"name": "ada", "id": "r-1"})),
        ("look.up", json!({"name": "eve", "id": "r-3"})),
        ("note.add", json!({"text": "<more & more>"})),
    ]);
    let ran = rig.replay(&["--report", "--json", "--junit", "replay.xml"], &agent(&calls));
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.json();
    let found = drifts(&report);
    let expected = [("reordered", Some(1)), ("arguments", Some(3)), ("extra", None)];
    let expected = expected.map(|(kind, step)| (kind.to_owned(), step));
    assert_eq!(found, expected, "{report}");
    let change = &report["drifts"][1]["changes"][0];
    assert_eq!(change, &json!({"path": "/name", "recorded": "bob", "now": "eve"}));
    assert_eq!((&report["steps"], &report["asked"]), (&json!(3), &json!(3)));
    let check = "import sys, xml.etree.ElementTree as e; s = e.parse(sys.argv[1]).getroot(); \
                 print(s.get('tests'), s.get('failures'), [c.get('name') for c in s if c.find('failure') is not None])";
    let mut command = std::process::Command::new(crate::rig::python());
    command.args(["-c", check, "replay.xml"]);
    let read = rig.ran(command);
    let names = "['step 1 look.up', 'step 3 look.up', 'nothing beside the steps']";
    assert_eq!(read.out.trim(), format!("4 3 {names}"), "{read:?}");
}

#[test]
fn a_build_holds_an_agent_against_all_its_recordings_with_the_script_of_the_example() {
    let rig = rig();
    std::fs::create_dir(rig.path("recordings")).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/replay/check.sh");
    let check = |calls: &[(&str, Value)]| {
        let mut command = std::process::Command::new(script);
        command.args(["recordings", "results"]).args(agent(&rounds(calls)));
        command.env("WICKETGATE", wicketgate_support::program::gate());
        rig.ran(command)
    };
    // Nothing to hold it against is no success.
    assert_eq!(check(&three()).code, 2);
    for name in ["one", "two"] {
        let to = rig.path("recordings").join(name).with_extension("recording");
        std::fs::copy(rig.path("run.recording"), to).unwrap();
    }
    let same = check(&three());
    assert_eq!(same.code, 0, "{same:?}");
    let mut changed = three();
    changed[1].1 = json!({"text": "good bye", "id": "r-2"});
    let drifted = check(&changed);
    assert_eq!(drifted.code, 1, "{drifted:?}");
    for name in ["one", "two"] {
        let result = rig.path("results").join(name).with_extension("xml");
        let result = std::fs::read_to_string(result).unwrap();
        assert!(result.contains("tests=\"4\" failures=\"1\""), "{result}");
    }
    std::fs::write(rig.path("recordings/one.recording"), "no recording").unwrap();
    assert_eq!(check(&three()).code, 2);
}

#[test]
fn what_is_never_the_same_twice_need_not_be() {
    let rig = rig();
    let mut calls = three();
    for (_, args) in &mut calls {
        args["id"] = json!("other");
    }
    let words = agent(&rounds(&calls));
    let strict = rig.replay(&["--json"], &words);
    assert_eq!(drifts(&strict.json()), [("arguments".to_owned(), Some(1))]);
    let volatile = ["--volatile", "look.up:/id", "--volatile", "note.add:/id", "--json"];
    let ran = rig.replay(&volatile, &words);
    assert_eq!(ran.code, 0, "{ran:?}");
    // The same from the manifest.
    let volatile = json!({"look.up": ["/id"], "note.add": ["/id"]});
    let mut rig = Rig::new(&json!({"mode": "record", "volatile": volatile}));
    rig.record(&agent(&rounds(&three())));
    let ran = rig.replay(&["--json"], &words);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn nothing_is_claimed_about_a_command_that_fails_or_never_comes() {
    let rig = rig();
    let nobody = rig.replay(&["--json"], &["true".to_owned()]);
    assert_eq!(nobody.code, 2, "{nobody:?}");
    assert_eq!(nobody.json()["verdict"], "unknown");
    let words = agent(&rounds(&three()));
    let line = format!("'{}' '{}' '{}'; exit 3", words[0], words[1], words[2]);
    let failed = rig.replay(&["--json"], &["sh".to_owned(), "-c".to_owned(), line]);
    assert_eq!(failed.code, 2, "{failed:?}");
    assert!(failed.json()["why"].as_str().unwrap().contains('3'), "{failed:?}");
    let none = rig.replay(&[], &["/no/such/program".to_owned()]);
    assert_eq!(none.code, 2, "{none:?}");
}
