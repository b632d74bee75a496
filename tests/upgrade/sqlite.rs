//! A ledger in a SQLite file, and the files around it.

use std::process::Command;

use crate::older::{LEDGER, database, done, estate, gate, sealed_run, trust};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::program::python;

/// One statement on the ledger, by a program that is not the gate: the first column of what it gave.
fn sql(estate: &Estate, statement: &str) -> Vec<String> {
    let script = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1])\nfor r in c.execute(sys.argv[2]): print(r[0])\nc.commit()";
    let file = estate.path(LEDGER);
    let output = Command::new(python()).args(["-c", script]).arg(file).arg(statement).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Starts a gate on a ledger that it does not take, and says why; no command takes it either, and it stays as it is.
async fn refused(estate: &Estate) -> String {
    let before = database(estate);
    assert!(before.len() > 1, "{before:?}");
    let mut sidecar = estate.start();
    let status = sidecar.end().await;
    let said = sidecar.said();
    assert!(!status.success(), "{said}");
    let verified = gate(estate, &["ledger", "verify", "--config", "wicketgate.yaml"]);
    assert!(verified.code != 0, "{verified:?}");
    assert!(database(estate) == before, "the ledger was changed");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_of_an_earlier_build_is_refused_and_its_configuration_served_with_a_new_one() {
    let tool = Tool::start().await;
    let estate = estate(&tool);
    let said = refused(&estate).await;
    let why = "its schema 7 was made by an earlier build, and this build begins with schema 8: export the evidence \
               with the build that wrote it, then start with a new state directory";
    assert!(said.contains(why), "{said}");
    std::fs::rename(estate.path("state"), estate.path("state-of-before")).unwrap();
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    let refused = agent.call("work.other", "b", "{}").await.unwrap_err();
    assert_eq!(refused.code, "policy.denied");
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let trusted = trust(&estate);
    let verify = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", &trusted];
    done(&estate, &verify);
    assert_eq!(sql(&estate, "SELECT count(*) FROM entry WHERE kind = 'call.completed'"), ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_of_the_gate_before_it_verifies() {
    let tool = Tool::start().await;
    let estate = estate(&tool);
    let (trusted, run) = (trust(&estate), sealed_run());
    // What people read of it is of another version, and cannot be made again: everything else holds.
    let arguments =
        ["evidence", "verify", "--trust", &trusted, "--run", &run, "--replay", "evidence.zip"];
    let older = gate(&estate, &arguments);
    let said = older.ends(2).out;
    let (valid, rest): (Vec<&str>, Vec<&str>) = said
        .lines()
        .filter(|line| line.starts_with(char::is_uppercase) && line.contains(": "))
        .partition(|line| line.starts_with("VALID "));
    assert!(valid.len() > 15 && rest.len() == 1, "{said}");
    assert!(rest[0].starts_with("UNVERIFIABLE  V1 "), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_of_a_gate_to_come_is_refused_by_name_and_left_as_it_is() {
    let tool = Tool::start().await;
    let estate = estate(&tool);
    std::fs::remove_dir_all(estate.path("state")).unwrap();
    estate.serve().await.stop().await;
    let own = sql(&estate, "PRAGMA user_version").remove(0);
    sql(&estate, "PRAGMA user_version = 9999");
    let said = refused(&estate).await;
    assert!(said.contains("schema 9999 is newer than this build"), "{said}");
    // Not the files around it: with its own version it is served.
    sql(&estate, &format!("PRAGMA user_version = {own}"));
    estate.serve().await.stop().await;
}
