//! A ledger in a SQLite file, and the files around it.

use std::process::Command;

use crate::checker::python;
use crate::older::{LEDGER, books, done, estate, gate, sealed_run, trust};
use crate::sidecar::Estate;
use crate::tool::Tool;

/// One statement on the ledger, by a program that is not the gate: the first column of what it gave.
fn sql(estate: &Estate, statement: &str) -> Vec<String> {
    let script = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1])\nfor r in c.execute(sys.argv[2]): print(r[0])\nc.commit()";
    let file = estate.path(LEDGER);
    let output = Command::new(python()).args(["-c", script]).arg(file).arg(statement).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

const LEAVES: &str =
    "SELECT hex(chain_id) || ' ' || seq || ' ' || hex(leaf) FROM entry ORDER BY chain_id, seq";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_gate_goes_on_with_the_ledger_and_the_configuration_of_the_one_before_it() {
    let tool = Tool::start().await;
    let estate = estate(&tool);
    let before = sql(&estate, LEAVES);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    let refused = agent.call("work.other", "b", "{}").await.unwrap_err();
    assert_eq!(refused.code, "policy.denied");
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let after = sql(&estate, LEAVES);
    assert!(after.len() > before.len(), "nothing was written");
    assert!(before.iter().all(|leaf| after.contains(leaf)), "what the older gate wrote is another");
    let trusted = trust(&estate);
    let verify = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", &trusted];
    done(&estate, &verify);
    // Four calls ran before the older gate was told to stop, and one since.
    let script = "SELECT count(*) FROM entry WHERE kind = 'call.completed'";
    assert_eq!(sql(&estate, script), ["5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_of_the_gate_before_it_verifies_and_its_runs_can_still_be_exported() {
    let tool = Tool::start().await;
    let estate = estate(&tool);
    let (trusted, run) = (trust(&estate), sealed_run());
    let verify = |bundle: &str| {
        done(
            &estate,
            &["evidence", "verify", "--trust", &trusted, "--run", &run, "--replay", bundle],
        )
    };
    // What people read of it is of another version, and cannot be made again: everything else holds.
    let arguments =
        ["evidence", "verify", "--trust", &trusted, "--run", &run, "--replay", "evidence.zip"];
    let older = gate(&estate, &arguments);
    let said = String::from_utf8_lossy(&older.stdout);
    assert_eq!(older.status.code(), Some(2), "{said}");
    let (valid, rest): (Vec<&str>, Vec<&str>) = said
        .lines()
        .filter(|line| line.starts_with(char::is_uppercase) && line.contains(": "))
        .partition(|line| line.starts_with("VALID "));
    assert!(valid.len() > 15 && rest.len() == 1, "{said}");
    assert!(rest[0].starts_with("UNVERIFIABLE  V1 "), "{said}");
    let export =
        ["evidence", "export", "--config", "wicketgate.yaml", "--run", &run, "--out", "again.zip"];
    done(&estate, &export);
    assert!(verify("again.zip").contains("VALID"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_of_a_gate_to_come_is_refused_by_name_and_left_as_it_is() {
    let tool = Tool::start().await;
    let estate = estate(&tool);
    sql(&estate, "PRAGMA user_version = 9999");
    let before = books(&estate);
    assert_eq!(before.len(), 3, "{before:?}");
    let mut sidecar = estate.start();
    let status = sidecar.end().await;
    let said = sidecar.said();
    assert!(!status.success() && said.contains("schema 9999 is newer than this build"), "{said}");
    let verified = gate(&estate, &["ledger", "verify", "--config", "wicketgate.yaml"]);
    assert!(!verified.status.success(), "{verified:?}");
    assert!(books(&estate) == before, "the books were changed");
    // Not the files around it: with its own version it is served.
    sql(&estate, "PRAGMA user_version = 7");
    estate.serve().await.stop().await;
}
