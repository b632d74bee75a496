//! What a run wrote is put back, through the gate.

use serde_json::{Value, json};

use crate::checker::check;
use crate::keeper::outcome;
use crate::rig::Rig;
use wicketgate_support::ran::Ran;

/// Runs the command as a caller that claims what the manifest names.
pub fn roll(rig: &Rig, run: &str, more: &[&str]) -> Ran {
    let instructions = "ab".repeat(32);
    let claims = ["--model", "test-model", "--instructions", &instructions];
    rig.keeper.ask(&[&["run", "rollback", run][..], &claims, more].concat())
}

fn told(ended: &Ran) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

fn outcomes(told: &Value) -> Vec<(String, String)> {
    let text = |file: &Value, name: &str| file[name].as_str().unwrap().to_owned();
    let mut all: Vec<_> = told["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (text(file, "path"), text(file, "outcome")))
        .collect();
    all.sort();
    all
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(path, outcome)| ((*path).to_owned(), (*outcome).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_undone_file_by_file_and_again_without_effect() {
    let rig = Rig::new().await;
    rig.put("kept.txt", "one");
    rig.put("gone.txt", "two");
    std::fs::write(rig.path("raw.bin"), [0, 255, 1]).unwrap();
    let (mut sidecar, agent) = rig.serve().await;
    rig.write(&agent, "kept.txt", "changed").await;
    rig.write(&agent, "kept.txt", "changed again").await;
    rig.write(&agent, "made.txt", "new").await;
    rig.write(&agent, "raw.bin", "text").await;
    let delete = json!({"path": "gone.txt", "mode": "delete"});
    rig.call(&agent, "fs.write", delete).await.unwrap();
    rig.call(&agent, "fs.deep", json!({"path": "d/e.txt", "content": "x"})).await.unwrap();
    agent.seal().await.unwrap();

    let all = ["d/e.txt", "gone.txt", "kept.txt", "made.txt", "raw.bin"];
    let dry = roll(&rig, &agent.run, &["--dry-run", "--json"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(outcomes(&told(&dry)), pairs(&all.map(|path| (path, "would_restore"))));
    assert_eq!(rig.text("kept.txt"), "changed again", "a dry run changes nothing");

    let done = roll(&rig, &agent.run, &["--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    rig.keeper.tool.did(5);
    assert_eq!(outcomes(&told(&done)), pairs(&all.map(|path| (path, "restored"))));
    assert_eq!((rig.text("kept.txt").as_str(), rig.text("gone.txt").as_str()), ("one", "two"));
    assert_eq!(std::fs::read(rig.path("raw.bin")).unwrap(), [0, 255, 1]);
    assert!(!rig.path("made.txt").exists() && !rig.path("d/e.txt").exists());

    let again = roll(&rig, &agent.run, &["--json"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(outcomes(&told(&again)), pairs(&all.map(|path| (path, "unchanged"))));

    // It is a run like any other: on the books, labelled, and itself undone.
    let ours = told(&done)["rollback_run"].as_str().unwrap().to_owned();
    let back = roll(&rig, &ours, &[]);
    assert_eq!(back.code, 0, "{back:?}");
    rig.keeper.tool.did(5);
    assert_eq!(rig.text("kept.txt"), "changed again");
    assert!(!rig.path("gone.txt").exists());
    sidecar.stop().await;
    rig.canary();
    rig.tidy();
    check(&rig.keeper.estate.database, &rig.keeper.tool, &rig.keeper.estate.receipts);

    let bundle = rig.keeper.export(&ours, "rollback", &[]);
    let lines = std::fs::read_to_string(bundle.join("ledger/entries.jsonl")).unwrap();
    assert!(lines.contains(&agent.run) && lines.contains("rollback_of"), "{lines}");
    let report = rig.keeper.verify(&bundle);
    for check in ["P1", "V1", "B4"] {
        assert_eq!(outcome(&report, check).0, "VALID", "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_changed_since_is_a_conflict_and_stays() {
    let rig = Rig::new().await;
    rig.put("mine.txt", "one");
    rig.put("theirs.txt", "one");
    rig.put("between.txt", "one");
    let (sidecar, agent) = rig.serve().await;
    for path in ["mine.txt", "theirs.txt", "between.txt"] {
        rig.write(&agent, path, "two").await;
    }
    rig.put("between.txt", "a person's work");
    rig.write(&agent, "between.txt", "three").await;
    rig.write(&agent, "made.txt", "made").await;
    rig.put("theirs.txt", "a person's work");
    rig.put("made.txt", "a person's work");
    let done = roll(&rig, &agent.run, &["--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    rig.keeper.tool.did(1);
    assert_eq!(
        outcomes(&told(&done)),
        pairs(&[
            ("between.txt", "conflict"),
            ("made.txt", "conflict"),
            ("mine.txt", "restored"),
            ("theirs.txt", "conflict"),
        ])
    );
    let now = ["mine.txt", "theirs.txt", "between.txt", "made.txt"].map(|path| rig.text(path));
    assert_eq!(now, ["one", "a person's work", "three", "a person's work"]);
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_judged_as_any_call_is() {
    let rig = Rig::new().await;
    let (sidecar, agent) = rig.serve().await;
    // The policy does not let anybody delete it, so nobody undoes its creation either.
    rig.write(&agent, "stays.txt", "made").await;
    let done = roll(&rig, &agent.run, &[]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("refused") && done.out.contains("policy.denied"), "{done:?}");
    assert_eq!(rig.text("stays.txt"), "made");
    let stranger = rig.keeper.ask(&["run", "rollback", &agent.run, "--model", "another"]);
    assert_eq!(stranger.code, 1, "{stranger:?}");
    assert!(stranger.err.contains("manifest.mismatch"), "{stranger:?}");
    assert_eq!(rig.text("stays.txt"), "made");
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_is_kept_encrypted_erased_on_demand_and_then_lost() {
    let rig = Rig::new().await;
    rig.keeper.encrypt("payload.key", &[]);
    rig.put("a.txt", "NOT-IN-THE-CLEAR");
    rig.put("b.txt", "b");
    let (sidecar, agent) = rig.serve().await;
    rig.write(&agent, "a.txt", "two").await;
    let kept = rig.keeper.listed(&["--run", &agent.run]);
    assert_eq!(kept.iter().filter(|row| row["role"] == "pre_image").count(), 1, "{kept:?}");
    assert!(!crate::keeper::holds(&rig.keeper.raw(), "NOT-IN-THE-CLEAR"));
    let done = roll(&rig, &agent.run, &[]);
    assert_eq!(done.code, 0, "{done:?}");
    rig.keeper.tool.did(1);
    assert_eq!(rig.text("a.txt"), "NOT-IN-THE-CLEAR");
    let second = sidecar.open().await;
    rig.write(&second, "b.txt", "two").await;
    second.seal().await.unwrap();
    rig.keeper.erase(&["--run", &second.run, "--role", "pre_image"]);
    let done = roll(&rig, &second.run, &["--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(told(&done)["files"][0]["outcome"], "lost", "{done:?}");
    assert_eq!(rig.text("b.txt"), "two");
    rig.close(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_says_what_it_cannot_know() {
    let rig = Rig::new().await;
    rig.put("a.txt", "one");
    let (sidecar, agent) = rig.serve().await;
    // Tier T2 keeps nothing.
    let args = json!({"path": "a.txt", "content": "two"});
    rig.call(&agent, "fs.heavy", args).await.unwrap();
    let done = roll(&rig, &agent.run, &[]);
    assert_eq!((done.code, done.out.contains("no file")), (0, true), "{done:?}");
    let nobody = roll(&rig, "00000000-0000-4000-8000-000000000000", &[]);
    assert_eq!((nobody.code, nobody.err.contains("no run")), (64, true), "{nobody:?}");
    assert_eq!(rig.text("a.txt"), "two");
    rig.end(sidecar, &agent).await;
}
