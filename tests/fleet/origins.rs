//! Two ledgers never have a name in common, not even when one begins where another was lost.

use std::path::Path;

use wicketgate::crypto::keys::PublicKey;
use wicketgate::crypto::note::Checkpoint;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::{ChainRow, LedgerReader as _};

use crate::fleet::{anchor, public, run, some_calls, sqlite, verify};
use crate::sidecar::Estate;
use crate::tool::Tool;

async fn chain(estate: &Estate) -> ChainRow {
    let reader = SqliteReader::open(&estate.path("state/ledger.sqlite")).await.unwrap();
    let rows = reader.chains().await.unwrap();
    rows.into_iter().find(|row| !row.slot.starts_with("fleet/")).unwrap()
}

/// What the first writer of the log signs with.
async fn first_key(estate: &Estate, origin: &str) -> PublicKey {
    let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "--json", "-n", "1000", "--chain"];
    let told = run(estate, &[&tail[..], &[origin]].concat()).await.ends(0);
    let line = told.out.lines().find(|line| line.contains("writer.started")).unwrap();
    let entry: serde_json::Value = serde_json::from_str(line).unwrap();
    let key = entry["data"]["writer_key"].as_str().unwrap();
    PublicKey::from_base64(key).unwrap()
}

/// Everything the ledger and its memory are kept in; keys and artifacts stay.
fn lose(state: &Path) {
    for file in std::fs::read_dir(state).unwrap().map(|file| file.unwrap()) {
        let name = file.file_name().into_string().unwrap();
        if name.starts_with("ledger.sqlite") || name == "lease" {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_have_two_origins_and_a_restart_keeps_its_own() {
    let tool = Tool::start().await;
    let (one, two) = (sqlite(&tool), sqlite(&tool));
    for estate in [&one, &two] {
        some_calls(estate, &["a"]).await;
    }
    let names = (one.origin().await, two.origin().await);
    assert_ne!(names.0, names.1);
    let before = chain(&one).await;
    // The fleet log is in the same file, and is not taken for the gate's pool.
    anchor(&one).await.ends(0);
    some_calls(&one, &["b"]).await;
    let after = chain(&one).await;
    assert_eq!((&after.origin, &after.chain), (&before.origin, &before.chain));
    assert!(after.head.size > before.head.size);
    run(&one, &["config", "check", "wicketgate.yaml"]).await.ends(0);
    verify(&one, "").await.ends(0).says(&format!("VALID {}", names.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_begins_anew_is_not_taken_for_the_one_that_was_lost() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    run(&estate, &["keygen", "--out", "evidence.pem"]).await.ends(0);
    let old = chain(&estate).await;
    let key = first_key(&estate, &old.origin).await;
    let head = ["ledger", "head", "--config", "wicketgate.yaml"];
    let noted = run(&estate, &head).await.ends(0).out;
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--key", "evidence.pem"];
    let whole = format!("{}:0..", old.origin);
    let export = [&export[..], &["--range", &whole, "--out", "shown"]].concat();
    run(&estate, &export).await.ends(0);

    lose(&estate.path("state"));
    some_calls(&estate, &["a"]).await;
    let new = chain(&estate).await;
    assert_ne!(new.origin, old.origin);
    verify(&estate, "").await.ends(0).says(&format!("VALID {}", new.origin));
    // Whoever noted a head of the old log sees that it is gone, not that it was written anew.
    verify(&estate, &noted).await.ends(1).says(&old.origin).says("it is not in this ledger");
    // Nor is a head of the old log one of the new, whatever name is written on it.
    let note = &old.head.checkpoint;
    Checkpoint::open(note, &key).unwrap();
    assert!(Checkpoint::open(&note.replace(&old.origin, &new.origin), &key).is_err());

    // The bundle says of which log it is. One that was made to name the new log is refused.
    let mut trust = String::new();
    for (word, file) in
        [("enrolment-key", "state/enrolment.key.pub"), ("evidence-key", "evidence.pem.pub")]
    {
        trust += &format!("{word} ed25519:{}\n", public(&estate.path(file)).base64());
    }
    std::fs::write(estate.path("auditor.txt"), &trust).unwrap();
    let check = ["evidence", "verify", "shown", "--trust", "auditor.txt"];
    let told = run(&estate, &check).await;
    assert_ne!(told.code, 1, "{told:?}");
    let path = estate.path("shown/ledger/checkpoint.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&old.origin), "{text}");
    std::fs::write(&path, text.replace(&old.origin, &new.origin)).unwrap();
    run(&estate, &check).await.ends(1);
}
