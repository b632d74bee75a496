//! Nothing that was started is left behind.

use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use crate::gate::Gate;
use crate::rig::{LONG, stdio};

/// Waits until none of them runs; what is dead and waits for its parent does not run.
async fn ended(pids: &[i32]) -> bool {
    let runs = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default().chars().next();
        state.is_some_and(|state| state != 'Z' && state != 'X')
    };
    let gone = async {
        while pids.iter().any(runs) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.is_ok()
}

async fn family(gate: &Gate) -> Vec<i32> {
    let came = gate.act(json!({"do": "child"})).await;
    let pids: Vec<i32> = serde_json::from_value(came["pids"].clone()).unwrap();
    for pid in &pids {
        test_kill_process(Pid::from_raw(*pid).unwrap()).unwrap();
    }
    pids
}

#[tokio::test]
async fn closing_ends_a_server_and_what_it_started() {
    for behaviours in [&[][..], &["stubborn"][..]] {
        let gate = Gate::of(vec![stdio(behaviours, LONG)]).await;
        let pids = family(&gate).await;
        gate.upstreams.close().await;
        let leader = Pid::from_raw(pids[0]).unwrap();
        assert!(test_kill_process(leader).is_err(), "the leader is reaped");
        assert!(ended(&pids).await, "{behaviours:?}");
        let came = gate.call("fix.act", json!({})).await;
        assert_eq!(came.unwrap_err().1, "connect");
    }
}

#[tokio::test]
async fn letting_go_of_a_gate_ends_its_servers() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let pids = family(&gate).await;
    drop(gate);
    assert!(ended(&pids).await);
}

#[tokio::test]
async fn a_server_that_died_leaves_no_child_process() {
    let gate = Gate::of(vec![stdio(&[], LONG)]).await;
    let pids = family(&gate).await;
    let leader = Pid::from_raw(pids[0]).unwrap();
    rustix::process::kill_process(leader, rustix::process::Signal::KILL).unwrap();
    // Its child holds the output open, and is ended all the same; then the server starts again.
    assert!(ended(&pids).await);
    gate.works().await;
}
