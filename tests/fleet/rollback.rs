//! A ledger that was set back is not served, and whoever has seen more is named.

use serde_json::json;

use crate::fleet::{Witness, anchor, back_up, restore, some_calls, sqlite};
use crate::tool::Tool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_nights_file_is_refused_by_the_gates_own_memory() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    back_up(&estate);
    some_calls(&estate, &["b"]).await;
    restore(&estate);
    let mut gate = estate.start();
    gate.ends(1).await;
    let said = gate.said();
    assert!(
        said.contains("the ledger was rolled back") && said.contains(&estate.origin().await),
        "{said}"
    );
    assert!(said.contains("this machine has signed"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_nights_file_is_refused_by_the_anchor_file_on_a_machine_that_remembers_nothing() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    estate.configure(|config| config["fleet"]["anchor_file"] = json!("anchor"));
    some_calls(&estate, &["a"]).await;
    anchor(&estate).await.ends(0);
    back_up(&estate);
    some_calls(&estate, &["b"]).await;
    anchor(&estate).await.ends(0);
    restore(&estate);
    for memory in ["state/ledger.sqlite.head", "state/ledger.sqlite.fleet.head", "state/lease"] {
        std::fs::remove_file(estate.path(memory)).unwrap();
    }
    let mut gate = estate.start();
    gate.ends(1).await;
    let said = gate.said();
    assert!(
        said.contains("the ledger was rolled back") && said.contains("the anchor file"),
        "{said}"
    );
    anchor(&estate).await.ends(1).says("the anchor file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_nights_file_is_refused_by_a_witness_when_nothing_else_remembers() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    let witness = Witness::start(&estate, "one").await;
    witness.known_to(&estate);
    some_calls(&estate, &["a"]).await;
    anchor(&estate).await.ends(0);
    back_up(&estate);
    some_calls(&estate, &["b"]).await;
    anchor(&estate).await.ends(0);
    restore(&estate);
    for memory in ["state/ledger.sqlite.head", "state/ledger.sqlite.fleet.head", "state/lease"] {
        std::fs::remove_file(estate.path(memory)).unwrap();
    }
    let mut gate = estate.start();
    gate.ends(1).await;
    let said = gate.said();
    assert!(said.contains("witness `one` has seen"), "{said}");
    anchor(&estate).await.ends(1).says("witness `one` has seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_deleted_is_no_fresh_start() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a"]).await;
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(estate.path(&format!("state/ledger.sqlite{suffix}")));
    }
    let mut gate = estate.start();
    gate.ends(1).await;
    assert!(gate.said().contains("has 0 entries"), "{}", gate.said());
}
