//! `ledger recover`: a loss is told as a loss, and the old log never gets another head.

use serde_json::json;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::{ChainRow, LedgerReader as _};

use crate::fleet::{
    FLEET, anchor, back_up, calls_through, restore, run, some_calls, sqlite, verify,
};
use crate::sidecar::Estate;
use crate::tool::Tool;

const RECOVER: [&str; 4] = ["ledger", "recover", "--config", "wicketgate.yaml"];

fn accepting(reason: &str) -> Vec<&str> {
    [&RECOVER[..], &["--accept-loss", "--reason", reason]].concat()
}

async fn chain(estate: &Estate, origin: &str) -> ChainRow {
    let reader = SqliteReader::open(&estate.path("state/ledger.sqlite")).await.unwrap();
    let rows = reader.chains().await.unwrap();
    rows.into_iter().find(|row| row.origin == origin).unwrap_or_else(|| panic!("no {origin}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recover_reports_a_loss_before_it_is_accepted_and_the_gate_serves_again() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    run(&estate, &RECOVER).await.ends(1).says("no entry is lost");
    some_calls(&estate, &["b"]).await;
    back_up(&estate);
    let slot = estate.origin().await;
    let next = slot.replace("/0/0", "/0/1");
    let before = chain(&estate, &slot).await;
    some_calls(&estate, &["c"]).await;
    let lost = chain(&estate, &slot).await.head.size;
    restore(&estate);
    let told = run(&estate, &RECOVER).await.ends(1).says("the ledger was not changed");
    let numbers =
        format!("has {} entries of `{slot}`, this machine has seen {lost}", before.head.size);
    told.says(&numbers.replace("has seen", "has signed").replace("has signed", "has seen"));
    estate.start().ends(1).await;
    run(&estate, &accepting("disk failed")).await.ends(0).says(&next);

    let mut gate = estate.serve().await;
    calls_through(&gate, &["d"]).await;
    gate.stop().await;
    let (old, new) = (chain(&estate, &slot).await, chain(&estate, &next).await);
    assert_eq!(old.head, before.head, "the old log has no other head than it had");
    assert!(new.head.size > 3);
    let verified = verify(&estate, "").await.ends(0);
    let range = format!("entries {} to {} of `{slot}` are lost", before.head.size, lost - 1);
    verified.says("loss:").says(&range);
    let fleet = run(
        &estate,
        &["ledger", "tail", "--config", "wicketgate.yaml", "--chain", FLEET, "--json"],
    );
    let fleet = fleet.await;
    let line = fleet.out.lines().find(|line| line.contains("chain.retired")).unwrap();
    let entry: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(entry["data"]["lost_from"], json!(before.head.size), "{entry}");
    assert_eq!(entry["data"]["lost_to"], json!(lost), "{entry}");
    assert_eq!(entry["data"]["reason"], json!("disk failed"), "{entry}");
    run(&estate, &accepting("again")).await.ends(1).says("no entry is lost");
    anchor(&estate).await.ends(0).says(&next);
    assert!(estate.path("state/ledger.sqlite.head.lost-0").exists(), "kept, not deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_log_that_was_set_back_is_begun_anew_too() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    estate.configure(|config| config["fleet"]["anchor_file"] = json!("anchor"));
    some_calls(&estate, &["a"]).await;
    anchor(&estate).await.ends(0);
    back_up(&estate);
    some_calls(&estate, &["b"]).await;
    anchor(&estate).await.ends(0);
    restore(&estate);
    anchor(&estate).await.ends(1).says("rolled back");
    run(&estate, &accepting("backup of Monday"))
        .await
        .ends(0)
        .says("began wicketgate.dev/default/fleet/1")
        .says(&estate.origin().await.replace("/0/0", "/0/1"));
    some_calls(&estate, &["c"]).await;
    let done = anchor(&estate).await.ends(0).json();
    assert_eq!(done["log"], json!("wicketgate.dev/default/fleet/1"), "{done}");
    verify(&estate, "").await.ends(0).says("a fleet log that was restored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_gone_goes_on_under_the_next_name() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    let next = estate.origin().await.replace("/0/0", "/0/1");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(estate.path(&format!("state/ledger.sqlite{suffix}")));
    }
    estate.start().ends(1).await;
    run(&estate, &accepting("deleted by mistake")).await.ends(0).says(&next);
    some_calls(&estate, &["b"]).await;
    verify(&estate, "").await.ends(0).says("entries 0 to").says("accepted by");
}
