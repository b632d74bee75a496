//! The one processor that a command or a server has, with everything it starts.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::estate::{Estate, alive, answer, program, script, tool};
use crate::servers::{ask, fixture};
use crate::together::{groups, has_cgroups};
use crate::waiting::until;
use wicketgate_support::program::gate;

/// Processors of every thread and child, before and after each tried to take all of them.
const BUSY: &str = r#"
import json, os, threading
seen, tries = [], []
def look():
    for _ in range(2):
        seen.append(sorted(os.sched_getaffinity(0)))
        try:
            os.sched_setaffinity(0, range(os.cpu_count()))
            tries.append("widened")
        except OSError as error:
            tries.append(type(error).__name__)
threads = [threading.Thread(target=look) for _ in range(3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
look()
for _ in range(3 if FORKS else 0):
    reads, writes = os.pipe()
    if os.fork() == 0:
        seen.clear()
        look()
        os.write(writes, json.dumps(seen).encode())
        os._exit(0)
    os.close(writes)
    seen.extend(json.loads(os.read(reads, 65536)))
print(json.dumps({"seen": seen, "tries": sorted(set(tries))}), flush=True)
"#;

fn busy(forks: bool) -> String {
    format!("FORKS = {}\n{BUSY}", if forks { "True" } else { "False" })
}

/// The one processor of a run that printed what it saw.
#[track_caller]
fn only(printed: &str) -> u64 {
    let told: Value = serde_json::from_str(printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
    assert_eq!(told["tries"], json!(["PermissionError"]), "{told}");
    let seen: BTreeSet<Vec<u64>> = serde_json::from_value(told["seen"].clone()).unwrap();
    let one: Vec<&Vec<u64>> = seen.iter().collect();
    assert!(one.len() == 1 && one[0].len() == 1, "{told}");
    one[0][0]
}

/// The processors this process may use.
fn ours() -> Vec<u64> {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .map(|cpu| cpu.try_into().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_has_one_processor_for_all_its_threads_and_children_and_takes_no_other() {
    let children = json!({"sandbox": "S2", "children": [program("true")]});
    let estate = Estate::new(&[
        script("threads", &busy(false), json!({"sandbox": "S1"}), json!({})),
        script("family", &busy(true), children, json!({})),
        tool("nproc", json!({"program": program("nproc"), "argv": [], "sandbox": "S1"}), json!({})),
    ]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let mut taken = BTreeSet::new();
    for name in ["threads", "family", "threads", "threads", "family"] {
        let got = answer(agent.call(name, "", "{}").await);
        assert_eq!(got["exit_code"], 0, "{got}");
        taken.insert(only(got["stdout"].as_str().unwrap()));
    }
    assert_eq!(answer(agent.call("nproc", "", "{}").await)["stdout"], "1\n");
    let ours = ours();
    assert!(taken.iter().all(|cpu| ours.contains(cpu)), "{taken:?} of {ours:?}");
    // They take turns, so that several at once are not all on the first.
    assert!(taken.len() > 1 || ours.len() == 1, "{taken:?} of {ours:?}");
    if ours.len() == 1 {
        eprintln!("not tested here: that it is one of several: this machine has one processor");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_has_one_processor_for_all_it_starts_and_takes_no_other() {
    let estate = Estate::with(&[], |dir| {
        let family = json!({"level": "S2", "programs": [program("true")]});
        vec![fixture(dir, "s1", json!({"level": "S1"}), "one"), fixture(dir, "s2", family, "one")]
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    for (server, forks) in [("s1", false), ("s2", true)] {
        let (printed, failed) =
            ask(&agent, &format!("{server}.run"), json!({"text": busy(forks)})).await;
        assert!(!failed, "{server}: {printed}");
        assert!(ours().contains(&only(&printed)), "{server}: {printed}");
    }
}

/// A gate that was left one processor gives that one, and never the first of the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_processor_is_one_of_those_of_the_gate() {
    let estate =
        Estate::new(&[script("threads", &busy(false), json!({"sandbox": "S1"}), json!({}))]);
    let last = *ours().last().unwrap();
    let mut command = Command::new("taskset");
    command.args(["-c", &last.to_string(), gate(), "serve", "--config", "wicketgate.yaml"]);
    command.current_dir(estate.path(""));
    let gate = estate.start_as(command).serving();
    let agent = gate.open().await;
    for _ in 0..3 {
        let got = answer(agent.call("threads", "", "{}").await);
        assert_eq!(only(got["stdout"].as_str().unwrap()), last);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_groups_of_a_run_have_the_time_of_one_processor() {
    let mark = format!("wgc-quota-{}", std::process::id());
    let wait = format!("import time\nMARK = '{mark}'\ntime.sleep(600)");
    let estate = Estate::with(
        &[script("wait", &wait, json!({"sandbox": "S1"}), json!({"timeout_ms": 600_000}))],
        |dir| vec![fixture(dir, "s1", json!({"level": "S1"}), &mark)],
    );
    if !has_cgroups(&estate) {
        return;
    }
    let told = estate.run(&["tools", "probe"]);
    if !told.contains("together: memory, pids, cpu") {
        eprintln!("not tested here: the quota: this machine divides no processors: {told}");
        return;
    }
    let gate = estate.serve();
    let agent = gate.open().await;
    ask(&agent, "s1.surroundings", json!({})).await;
    let calling = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("wait", "", "{}").await }
    });
    let quotas = || {
        let pids = alive(&mark);
        let groups = pids.iter().filter_map(|line| line.split(':').next()).flat_map(groups);
        let read = |name: &str, dir: &std::path::Path| std::fs::read_to_string(dir.join(name)).ok();
        let of = |dir: std::path::PathBuf| {
            read("cpu.max", &dir).or_else(|| {
                let quota = read("cpu.cfs_quota_us", &dir)?;
                Some(format!("{} {}", quota.trim(), read("cpu.cfs_period_us", &dir)?))
            })
        };
        groups.filter_map(of).map(|text| text.trim().to_owned()).collect::<Vec<_>>()
    };
    until("a command and a server in groups", || async { quotas().len() >= 2 }).await;
    let quotas = quotas();
    assert!(quotas.iter().all(|quota| quota == "100000 100000"), "{quotas:?}");
    drop(gate);
    assert!(calling.await.unwrap().is_err());
}
