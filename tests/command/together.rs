//! What all processes of one run may use together, where this system has control groups for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::estate::{Estate, alive, answer, program, script};
use crate::process;
use crate::servers::{ask, fixture};
use crate::waiting::until;
use wicketgate_support::program::gate;

/// Four processes that write to 60 MiB each and wait for one another; says how many could.
const FAMILY: &str = r#"
import os
hold, ready = os.pipe(), []
for _ in range(4):
    mine = os.pipe()
    if os.fork() == 0:
        os.close(hold[1]); os.close(mine[0])
        block = bytearray(60 << 20)
        for at in range(0, len(block), 4096):
            block[at] = 1
        os.write(mine[1], b"1")
        os.read(hold[0], 1)
        os._exit(0)
    os.close(mine[1])
    ready.append(mine[0])
print(sum(len(os.read(one, 1)) for one in ready), flush=True)
"#;
/// Threads that wait; says how many could be started.
const THREADS: &str = "import threading, time, os\nn = 0\ntry:\n    for n in range(100):\n        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nexcept (RuntimeError, MemoryError):\n    pass\nprint(n, flush=True)\nos._exit(0)";

/// The same in a server, which goes on.
const THREADS_HERE: &str = "import threading\nn = 0\ntry:\n    for n in range(100):\n        threading.Thread(target=threading.Event().wait, daemon=True).start()\nexcept (RuntimeError, MemoryError):\n    pass\nprint(n)";

/// Whether this machine has them for us, as the gate itself says.
pub fn has_cgroups(estate: &Estate) -> bool {
    let (_, out, err) = process::run(estate.command(&["tools", "probe", "--json"]));
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    let text = told.to_string();
    assert!(text.contains("cgroups"), "{text}");
    let has = text.contains("limits hold for all processes together");
    if !has {
        eprintln!("not tested here: control groups: this machine lets us make none: {text}");
    }
    has
}

/// A gate with one command, which can say whether there are any.
fn plain() -> Estate {
    Estate::new(&[script("plain", "print(1)", json!({"sandbox": "S1"}), json!({}))])
}

/// The groups of this process that are a run's own, as directories that are there now.
pub fn groups(pid: &str) -> Vec<PathBuf> {
    let told = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in told.lines().filter(|line| line.contains("/run-")) {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next().unwrap(), fields.next().unwrap());
        let below = path.trim_start_matches('/');
        let roots = [names, "unified", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
        found.extend(roots.iter().map(|root| root.join(below)).find(|dir| dir.is_dir()));
    }
    found
}

fn children(memory: u64, pids: u64) -> Value {
    json!({"sandbox": "S2", "children": [program("true")],
        "limits": {"memory_bytes": memory << 20, "pids": pids, "cgroup": "required"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_processes_are_bounded_for_all_of_a_command_together() {
    if !has_cgroups(&plain()) {
        return;
    }
    let threads = json!({"sandbox": "S1", "limits": {"pids": 8}});
    let estate = Estate::new(&[
        script("small", FAMILY, children(128, 16), json!({})),
        script("large", FAMILY, children(512, 16), json!({})),
        script("threads", THREADS, threads, json!({})),
    ]);
    let gate = estate.serve();
    let agent = gate.open().await;
    // Each alone is within its limit; all four are within that of the large one only.
    assert_eq!(answer(agent.call("large", "", "{}").await)["stdout"], "4\n");
    match agent.call("small", "", "{}").await {
        Ok(text) => {
            let got: Value = serde_json::from_str(&text).unwrap();
            let could: u32 = got["stdout"].as_str().unwrap().trim().parse().unwrap();
            assert!(could < 4, "{got}");
        }
        Err(ended) => assert!(ended.message.contains("exceeded their memory limit"), "{ended:?}"),
    }
    let got = answer(agent.call("threads", "", "{}").await);
    let started: u32 = got["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!((1..8).contains(&started), "{got}");
    let ended = [estate.entries("call.completed"), estate.entries("call.failed")].concat();
    assert_eq!(ended.len(), 3);
    for one in ended {
        assert_eq!(one["observed"]["cgroup"], "memory,pids", "{one}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_has_groups_of_its_own_which_end_with_it_or_with_the_next_gate() {
    let mark = format!("wgc-groups-{}", std::process::id());
    let family = format!("import os, time\nMARK = '{mark}'\nos.fork()\nos.fork()\ntime.sleep(600)");
    let short = json!({"timeout_ms": 1500});
    let estate = Estate::new(&[
        script("short", &family, children(256, 16), short),
        script("long", &family, children(256, 16), json!({"timeout_ms": 600_000})),
    ]);
    if !has_cgroups(&estate) {
        return;
    }
    let in_groups = |pids: Vec<String>| {
        let pids = pids.iter().filter_map(|line| line.split(':').next().map(str::to_owned));
        pids.map(|pid| groups(&pid)).filter(|groups| !groups.is_empty()).collect::<Vec<_>>()
    };
    let gate = estate.serve();
    let agent = gate.open().await;
    assert!(
        groups(&gate.pid().as_raw_nonzero().get().to_string()).is_empty(),
        "the gate is in none"
    );
    let calling = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("long", "", "{}").await }
    });
    until("four processes in groups", || async { in_groups(alive(&mark)).len() >= 4 }).await;
    let leaf = in_groups(alive(&mark)).pop().unwrap();
    // Another run has others, and at its deadline they end with it while the first goes on.
    assert_eq!(agent.call("short", "", "{}").await.unwrap_err().code, "call.unknown");
    until("one run to be left", || async {
        let kept = leaf.iter().all(|dir| dir.is_dir());
        let runs = leaf[0].parent().unwrap().read_dir().unwrap().filter_map(Result::ok);
        let runs = runs.filter(|one| one.file_name().to_string_lossy().starts_with("run-"));
        kept && runs.count() == 1
    })
    .await;
    rustix::process::kill_process(gate.pid(), rustix::process::Signal::KILL).unwrap();
    assert!(calling.await.unwrap().is_err());
    until("the processes to be gone", || async { alive(&mark).is_empty() }).await;
    drop(gate);
    let next = estate.serve();
    until("the leftovers to be swept", || async { leaf.iter().all(|dir| !dir.is_dir()) }).await;
    drop(next);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_processes_are_bounded_for_a_server_and_all_it_starts_together() {
    if !has_cgroups(&plain()) {
        return;
    }
    let estate = Estate::with(&[], |dir| {
        let of = |name: &str, memory: u64| {
            let family = json!({"level": "S2", "programs": [program("true")], "pids": 16,
                "memory_bytes": memory << 20, "cgroup": "required"});
            fixture(dir, name, family, "bounded")
        };
        let threads = json!({"level": "S1", "pids": 8, "cgroup": "required"});
        vec![of("large", 512), of("small", 128), fixture(dir, "threads", threads, "bounded")]
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    let family = json!({"text": FAMILY});
    // Each process alone is within its limit; all of them are within that of the large one only.
    assert_eq!(ask(&agent, "large.run", family.clone()).await, ("4\n".to_owned(), false));
    match agent.call("small.run", "", &family.to_string()).await {
        Ok(text) => {
            let got: Value = serde_json::from_str(&text).unwrap();
            let could = got["content"][0]["text"].as_str().unwrap();
            // It could not start all of them, or not all of those lived.
            assert!(could.trim().parse::<u32>().map_or(true, |could| could < 4), "{got}");
        }
        // It was the server itself that was killed.
        Err(ended) => {
            assert!(matches!(ended.code.as_str(), "call.unknown" | "tool.failed"), "{ended:?}");
        }
    }
    let started = ask(&agent, "threads.run", json!({"text": THREADS_HERE})).await.0;
    let started: u32 = started.trim().parse().unwrap_or_else(|e| panic!("{e}: {started}"));
    assert!((1..8).contains(&started), "{started}");
    for one in estate.entries("call.completed") {
        assert_eq!(one["observed"]["cgroup"], "memory,pids", "{one}");
    }
}

/// When a process started, in ticks of the clock since the machine did (proc_pid_stat(5), field 22).
fn started(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything, the third field comes first.
    let fields = stat.rsplit_once(") ").map_or("", |(_, behind)| behind);
    fields.split(' ').nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(u64::MAX)
}

/// Its children are away from it and no receiver waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_and_all_it_starts_are_in_groups_of_their_own_and_end_as_a_whole() {
    if !has_cgroups(&plain()) {
        return;
    }
    let mark = format!("wgs-groups-{}", std::process::id());
    let estate = Estate::with(&[], |dir| {
        let family = json!({"level": "S2", "programs": [program("true")], "cgroup": "required"});
        vec![
            fixture(dir, "first", family.clone(), &format!("{mark}-first")),
            fixture(dir, "second", family, &format!("{mark}-second")),
        ]
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    let leaves = |server: &str| -> BTreeSet<Vec<PathBuf>> {
        let lines = alive(&format!("{mark}-{server}"));
        let pids = lines.iter().filter_map(|line| line.split(':').next());
        pids.map(groups).filter(|groups| !groups.is_empty()).collect()
    };
    let mut of = Vec::new();
    for server in ["first", "second"] {
        assert_eq!(ask(&agent, &format!("{server}.family"), json!({})).await.0, "there");
        until("the children of a server", || async {
            alive(&format!("{mark}-{server}")).len() >= 3
        })
        .await;
        let leaves = leaves(server);
        assert_eq!(leaves.len(), 1, "all of them are in the same: {leaves:?}");
        of.extend(leaves);
    }
    assert_ne!(of[0], of[1]);
    // The first process of the server ends, and nothing is said to the others.
    let before = alive(&format!("{mark}-first"));
    // By its start: the lowest number need not be its, since numbers begin again at the kernel's limit.
    let pids = before.iter().filter_map(|line| line.split(':').next()?.parse().ok());
    let first = pids.min_by_key(|pid| started(*pid)).unwrap();
    let leader = rustix::process::Pid::from_raw(first).unwrap();
    rustix::process::kill_process(leader, rustix::process::Signal::KILL).unwrap();
    until("all of the first to be gone", || async {
        let now = alive(&format!("{mark}-first"));
        before.iter().all(|line| !now.contains(line)) && of[0].iter().all(|dir| !dir.is_dir())
    })
    .await;
    assert!(of[1].iter().all(|dir| dir.is_dir()), "the other server goes on");
    assert!(ask(&agent, "second.surroundings", json!({})).await.0.contains("cwd"));
}

/// A gate whose hierarchies are hidden from it.
#[test]
fn groups_that_are_demanded_and_not_there_are_a_reason_not_to_start() {
    let with = |cgroup: &str| {
        let command = json!({"sandbox": "S1", "limits": {"cgroup": cgroup}});
        Estate::new(&[script("plain", "print(1)", command, json!({}))])
    };
    let within = |estate: &Estate, words: &str| {
        let mut command = Command::new("unshare");
        let text = format!("mount -t tmpfs none /sys/fs/cgroup && {words}");
        command.args(["--mount", "sh", "-c", &text]);
        command.current_dir(estate.path(""));
        process::run(command)
    };
    let demanding = with("required");
    let (able, _, why) = within(&demanding, "true");
    if !able {
        eprintln!("not tested here: only root can hide its hierarchies ({why})");
        return;
    }
    let gate = gate();
    for words in ["config check wicketgate.yaml", "serve --config wicketgate.yaml"] {
        let (ok, out, err) = within(&demanding, &format!("{gate} {words}"));
        let said = format!("{out}{err}");
        assert!(!ok && said.contains("sandbox.unavailable: cgroups are not there"), "{said}");
    }
    let content = with("available");
    let check = format!("{gate} config check wicketgate.yaml && {gate} tools probe");
    let (ok, out, err) = within(&content, &check);
    assert!(ok && out.contains("limits hold for each process"), "{out}{err}");
    let (ok, out, err) =
        process::run(with("sometimes").command(&["config", "check", "wicketgate.yaml"]));
    let said = format!("{out}{err}");
    assert!(!ok && said.contains("tools[0].command.limits.cgroup: "), "{said}");
}
