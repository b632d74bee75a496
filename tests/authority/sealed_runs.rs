//! Bundles of sealed runs: stored by the gate itself or by the hub, and verified as an auditor would.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use crate::waiting::until;
use wicketgate_support::hub::Hub;
use wicketgate_support::people::People;
use wicketgate_support::pg::Pg;
use wicketgate_support::ran::Ran;

/// The directory of the bundles.
const BUNDLES: &str = "bundles";

/// A machine with an evidence key whose gate has no operators.
fn machine(tool: &Tool) -> Estate {
    let estate = Estate::sqlite(tool);
    for name in ["fleet.pem", "evidence.pem"] {
        run(&estate.path("."), &["keygen", "--out", name]);
    }
    estate.configure(|config| {
        config["fleet"] = json!({"key": "fleet.pem"});
        config["evidence"] = json!({"key": "evidence.pem"});
        config.as_object_mut().unwrap().remove("operators");
    });
    estate
}

fn stores(estate: &Estate) {
    estate.configure(|config| config["evidence"]["sealed"] = json!(BUNDLES));
}

/// A run with one call, sealed by its agent.
async fn sealed(sidecar: &Sidecar) -> String {
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    agent.seal().await.unwrap();
    agent.run.clone()
}

fn bundle(run: &str) -> String {
    format!("{BUNDLES}/{run}.zip")
}

/// The bundles that are there.
fn stored(estate: &Estate) -> Vec<String> {
    let files = std::fs::read_dir(estate.path(BUNDLES)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".zip")).collect()
}

#[track_caller]
fn assert_verified(estate: &Estate, run: &str) {
    let enrolment = [estate.path("state/enrolment.key.pub")];
    assert_verified_by(estate, run, &enrolment);
}

/// The bundle of this run alone is there, and both programs verify it.
#[track_caller]
fn assert_verified_by(estate: &Estate, run: &str, enrolment: &[PathBuf]) {
    crate::custody::verify(&estate.path("."), &estate.path(&bundle(run)), enrolment);
    let verify = ["evidence", "verify", "--json", "--trust", "trust.txt", &bundle(run)];
    let verdict: Value = Ran::gate(estate.path("."), verify).ok().json();
    assert!(verdict.to_string().contains(run), "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bundle_of_a_run_is_stored_once_it_is_sealed_and_an_auditor_verifies_it() {
    let tool = Tool::start().await;
    let estate = machine(&tool);
    let mut sidecar = estate.serve().await;
    let earlier = sealed(&sidecar).await;
    sidecar.stop().await;
    stores(&estate);
    let mut sidecar = estate.serve().await;
    let run_id = sealed(&sidecar).await;
    until("the bundle", || async { estate.path(&bundle(&run_id)).exists() }).await;
    assert_verified(&estate, &run_id);
    assert!(!estate.path(&bundle(&earlier)).exists(), "sealed before anybody asked for bundles");
    sidecar.stop().await;
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(estate.path(BUNDLES)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_stopped_stores_the_bundles_that_are_left_before_it_ends() {
    let tool = Tool::start().await;
    let estate = machine(&tool);
    stores(&estate);
    let mut sidecar = estate.serve().await;
    let run_id = sealed(&sidecar).await;
    sidecar.stop().await;
    assert_eq!(stored(&estate), [format!("{run_id}.zip")]);
    assert_verified(&estate, &run_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_gate_had_sealed_is_stored_by_the_next_one_and_nothing_twice() {
    let tool = Tool::start().await;
    let estate = machine(&tool);
    stores(&estate);
    let mut sidecar = estate.serve().await;
    let first = sealed(&sidecar).await;
    until("the first bundle", || async { estate.path(&bundle(&first)).exists() }).await;
    let before = std::fs::metadata(estate.path(&bundle(&first))).unwrap().modified().unwrap();
    let second = sealed(&sidecar).await;
    sidecar.kill();
    let part = estate.path(&format!("{BUNDLES}/{second}.1.part"));
    std::fs::write(&part, "half of a bundle").unwrap();
    let mut sidecar = estate.serve().await;
    until("the second bundle", || async { estate.path(&bundle(&second)).exists() }).await;
    sidecar.stop().await;
    let after = std::fs::metadata(estate.path(&bundle(&first))).unwrap().modified().unwrap();
    assert_eq!((stored(&estate).len(), before), (2, after));
    assert!(!part.exists(), "what a crash left may have payloads, and keeps its name occupied");
    assert_verified(&estate, &second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_stores_the_bundle_of_each_run_of_its_gates_also_what_was_sealed_while_it_was_down() {
    let (people, tool) = (People::new(), Tool::start().await);
    let db = Pg::cluster().database().await;
    let mut gates = Vec::new();
    for _ in 0..2 {
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
        let sidecar = estate.serve().await;
        gates.push((estate, sidecar));
    }
    let home = &gates[0].0;
    for name in ["fleet.pem", "evidence.pem"] {
        run(&home.path("."), &["keygen", "--out", name]);
    }
    let change = |config: &mut Value| {
        config["fleet"] = json!({"key": "fleet.pem", "enrolment_key": "state/enrolment.key"});
        config["evidence"] =
            json!({"key": "evidence.pem", "artifacts": "state/artifacts", "sealed": BUNDLES});
    };
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    let mut hub = Hub::configured(home, &people, urls, ("hub", &change)).await;
    let there = |run: &str| home.path(&bundle(run)).exists();
    until("the positions", || async { home.path(&format!("{BUNDLES}/positions.json")).exists() })
        .await;
    let first = [sealed(&gates[0].1).await, sealed(&gates[1].1).await];
    until("the bundles", || async { first.iter().all(|run| there(run)) }).await;
    hub.kill();
    let later = [sealed(&gates[0].1).await, sealed(&gates[1].1).await];
    let _hub = Hub::configured(home, &people, urls, ("hub", &change)).await;
    until("the later bundles", || async { later.iter().all(|run| there(run)) }).await;
    let enrolment: Vec<PathBuf> =
        gates.iter().map(|(estate, _)| estate.path("state/enrolment.key.pub")).collect();
    for run in first.iter().chain(&later) {
        assert_verified_by(home, run, &enrolment);
    }
    assert_eq!(stored(home).len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_cannot_be_used_is_an_error_before_anything_is_served() {
    let tool = Tool::start().await;
    let estate = machine(&tool);
    stores(&estate);
    estate.write(BUNDLES, "a file");
    let mut sidecar = estate.start();
    let status = sidecar.end().await;
    assert!(!status.success(), "{status}");
    assert!(sidecar.said().contains("evidence.sealed"), "{}", sidecar.said());
    estate.configure(|config| config["evidence"] = json!({"sealed": BUNDLES}));
    let checked = Ran::gate(estate.path("."), ["config", "check", "--config", "wicketgate.yaml"]);
    assert!(checked.text().contains("it signs the bundles of sealed runs"), "{}", checked.text());
}
