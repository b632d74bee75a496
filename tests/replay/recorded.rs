//! What is kept of a run, and what is exported of it.

use serde_json::{Value, json};

use crate::rig::{Rig, SECRET, agent, rounds};

fn lines(rig: &Rig) -> Vec<Value> {
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_recording_is_a_view_of_the_runs_entries_and_holds_no_credential() {
    let mut rig = Rig::new(&json!({"mode": "record"}));
    let calls =
        rounds(&[("look.up", json!({"name": "ada"})), ("note.add", json!({"text": "hello"}))]);
    rig.record(&agent(&calls));
    let (lines, entries) = (lines(&rig), rig.entries());
    let kinds: Vec<&str> = lines.iter().map(|line| line["t"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["recording", "file", "file", "tools", "step", "step", "end"]);
    // Every entry of the calls is named with its leaf hash, at its place.
    let of_calls = entries.iter().filter(|entry| entry["call"].is_string()).count();
    let named: Vec<&Value> = lines
        .iter()
        .filter(|l| l["t"] == "step")
        .flat_map(|l| l["entries"].as_array().unwrap())
        .collect();
    assert_eq!(named.len(), of_calls);
    for place in &named {
        let entry = entries.iter().find(|entry| entry["seq"] == place["seq"]).unwrap();
        assert_eq!(entry["kind"], place["kind"]);
    }
    // And every payload is bound to a commitment of one of them.
    for step in lines.iter().filter(|line| line["t"] == "step") {
        for payload in step["payloads"].as_array().unwrap() {
            let c = payload["c"].as_str().unwrap();
            assert!(
                entries.iter().any(|entry| entry["commit"].to_string().contains(c)),
                "{payload}"
            );
        }
    }
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    assert!(!text.contains(SECRET), "a credential is in the recording");
    assert!(text.contains("\"sorry\"") || text.contains("ada"));
    // What was masked when it was recorded is not there either.
    assert!(text.contains("[REDACTED:email]"));
    // Said of the run on the books, which still verify.
    let opened = entries.iter().find(|entry| entry["kind"] == "run.opened").unwrap();
    assert_eq!(opened["data"]["replay"]["mode"], "record");
    assert_eq!(opened["data"].get("seed"), None);
    std::fs::write(rig.path("trust.txt"), "enrolment-key state/enrolment.key.pub\n").unwrap();
    rig.run(&["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"]);
    let checked: Value =
        serde_json::from_str(&rig.run(&["replay", "check", "run.recording", "--json"])).unwrap();
    assert_eq!((checked["steps"].as_u64(), checked["agent"].as_str()), (Some(2), Some("player")));
}

#[test]
fn a_run_that_was_not_recorded_is_not_exported() {
    let rig = Rig::new(&json!({"mode": "off"}));
    let gate = rig.serve();
    rig.work(&gate, &agent(&rounds(&[("look.up", json!({"name": "ada"}))])));
    gate.finish();
    let ran = rig.try_run(&rig.export());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("it was not recorded"), "{ran:?}");
    assert!(!rig.path("run.recording").exists());
}

#[test]
fn what_was_never_stored_is_named_and_nothing_is_written() {
    let rig = Rig::new(&json!({"mode": "record"}));
    let gate = rig.serve();
    // Arguments with a credential are committed to and never stored.
    let calls =
        rounds(&[("look.up", json!({"name": "ada"})), ("note.add", json!({"text": SECRET}))]);
    rig.work(&gate, &agent(&calls));
    gate.finish();
    let ran = rig.try_run(&rig.export());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("step 2: `args` of `note.add` was not stored"), "{ran:?}");
    assert!(!rig.path("run.recording").exists());
    // A file that is there is not replaced, and not removed.
    std::fs::write(rig.path("run.recording"), "mine").unwrap();
    assert_eq!(rig.try_run(&rig.export()).code, 64);
    assert_eq!(std::fs::read_to_string(rig.path("run.recording")).unwrap(), "mine");
}

#[test]
fn a_deterministic_run_has_a_seed_its_ids_derive_from_and_a_clock() {
    let calls = json!([[["look.up", {"name": "ada"}], ["look.up", {"name": "ada"}]]]);
    let mut rig = Rig::new(&json!({"mode": "deterministic"}));
    let printed = rig.record(&agent(&calls));
    let first = printed.lines().next().unwrap();
    let words: Vec<&str> = first.split(' ').collect();
    let (seed, clock, header) = (words[1], words[3], words[5]);
    assert_eq!(seed.len(), 16, "{first}");
    assert_eq!(seed, header);
    let entries = rig.entries();
    let opened = entries.iter().find(|entry| entry["kind"] == "run.opened").unwrap();
    assert_eq!(opened["data"]["seed"], seed);
    assert_eq!(opened["data"]["replay"], json!({"mode": "deterministic", "clock": clock}));
    // The ids of two calls that are the same are not.
    let ids: std::collections::BTreeSet<&str> =
        entries.iter().filter_map(|entry| entry["call"].as_str()).collect();
    assert_eq!(ids.len(), 2);
    // And come again, side by side or not.
    let again = rig.replay(&[], &agent(&calls));
    assert_eq!(again.code, 0, "{again:?}");
    let id_of = |text: &str| -> Vec<String> {
        let ids = text.lines().skip(1).map(|line| line.split(' ').nth(2).unwrap().to_owned());
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids
    };
    assert_eq!(again.out.lines().next(), Some(first));
    assert_eq!(id_of(&again.out), id_of(&printed));
    assert!(id_of(&printed).iter().all(|id| ids.contains(id.as_str())));
}
