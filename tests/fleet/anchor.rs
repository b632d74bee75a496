//! `ledger anchor`: what it records, what it refuses, and who has seen it.

use serde_json::json;
use wicketgate::ledger::fleet::file::AnchorFile;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::LedgerReader as _;

use crate::fleet::{FLEET, Witness, anchor, run, some_calls, sqlite};
use crate::tool::Tool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_moved_are_recorded_once_and_a_second_round_writes_nothing() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    let slot = estate.origin().await;
    let first = anchor(&estate).await.ends(0).json();
    assert_eq!(first["enrolled"], json!([slot]), "{first}");
    assert_eq!(first["log"], FLEET);
    let before = std::fs::read(estate.path("state/ledger.sqlite.fleet.head")).unwrap();
    let second = anchor(&estate).await.ends(0).json();
    assert_eq!((&second["enrolled"], &second["recorded"]), (&json!([]), &json!([])), "{second}");
    assert_eq!((&second["shown"], &second["size"]), (&json!(false), &first["size"]), "{second}");
    let after = std::fs::read(estate.path("state/ledger.sqlite.fleet.head")).unwrap();
    assert_eq!(before, after, "nothing was written");
    some_calls(&estate, &["b"]).await;
    let third = anchor(&estate).await.ends(0).json();
    assert_eq!(third["enrolled"], json!([]), "{third}");
    assert_eq!(third["recorded"][0]["log"], json!(slot), "{third}");
    crate::fleet::verify(&estate, "").await.ends(0).says(&format!("VALID {slot}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_gate_is_anchored_beside_it() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    let mut gate = estate.serve().await;
    crate::fleet::calls_through(&gate, &["a"]).await;
    anchor(&estate).await.ends(0);
    crate::fleet::calls_through(&gate, &["b"]).await;
    anchor(&estate).await.ends(0).says(&estate.origin().await);
    gate.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_gate_writes_down_what_others_have_seen() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    let witness = Witness::start(&estate, "one").await;
    witness.known_to(&estate);
    estate.configure(|config| config["fleet"]["anchor_file"] = json!("anchor"));
    let mut gate = estate.serve().await;
    crate::fleet::calls_through(&gate, &["a"]).await;
    let done = anchor(&estate).await.ends(0).json();
    let slot = estate.origin().await;
    let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "--chain", &slot, "--json"];
    crate::until("anchor.observed in the chain of the gate", || async {
        run(&estate, &tail).await.out.contains("anchor.observed")
    })
    .await;
    let out = run(&estate, &tail).await.out;
    let line = out.lines().find(|line| line.contains("anchor.observed")).unwrap();
    let entry: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&entry["data"]["root"], &entry["data"]["name"]), (&done["root"], &json!("one")));
    gate.stop().await;
    crate::fleet::verify(&estate, "").await.ends(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn witnesses_cosign_the_head_and_where_one_is_missing_nothing_is_called_anchored() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    let (one, mut two) =
        (Witness::start(&estate, "one").await, Witness::start(&estate, "two").await);
    one.known_to(&estate);
    two.known_to(&estate);
    estate.configure(|config| config["fleet"]["anchor_file"] = json!("anchor"));
    some_calls(&estate, &["a"]).await;
    let done = anchor(&estate).await.ends(0).json();
    assert_eq!(done["cosigned"], json!(["one", "two"]), "{done}");
    let reader = SqliteReader::open(&estate.path("state/ledger.sqlite")).await.unwrap();
    let kept = reader.newest_anchor(FLEET).await.unwrap().unwrap();
    let file = AnchorFile::load(&estate.path("anchor")).unwrap().unwrap();
    assert_eq!((&kept.note, file.observed.len()), (&file.note, 2));
    anchor(&estate).await.ends(0).says("\"shown\":false");

    two.stop();
    some_calls(&estate, &["b"]).await;
    let missing = anchor(&estate).await.ends(2).says("1 of 2 witnesses");
    assert!(missing.err.contains("witness `two` cannot be reached"), "{missing:?}");
    let still = AnchorFile::load(&estate.path("anchor")).unwrap().unwrap();
    assert_eq!(still, file, "no head that is not anchored is published");
    // The head was recorded, and is asked about again until there is enough.
    anchor(&estate).await.ends(2).says("\"recorded\":[]");
    estate.configure(|config| config["fleet"]["quorum"] = json!(1));
    anchor(&estate).await.ends(0).says("\"enough\":true");
}
