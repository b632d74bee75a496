//! One workspace for the commands of one run.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::estate::{Estate, alive, answer, program, script, tool};
use crate::waiting::until;
use wicketgate_support::sidecar::Sidecar;

/// Tools that write and look, in the workspace of the run.
fn tools() -> Vec<Value> {
    let tee = json!({"program": program("tee"), "argv": ["--", {"arg": "a"}], "stdin": "in", "workspace": "run"});
    let ls = json!({"program": program("ls"), "argv": ["-A1"], "workspace": "run"});
    let cat = json!({"program": program("cat"), "argv": ["--", {"arg": "a"}], "workspace": "run"});
    let ln = json!({"program": program("ln"), "argv": ["-s", "--", {"arg": "a"}, {"arg": "b"}], "workspace": "run"});
    let own = json!({"program": program("ls"), "argv": ["-A1"], "workspace": "per_call"});
    vec![
        tool("tee", tee, json!({})),
        tool("ls", ls, json!({})),
        tool("cat", cat, json!({})),
        tool("ln", ln, json!({})),
        tool("own", own, json!({})),
    ]
}

async fn say(agent: &Agent, tool: &str, args: Value) -> Value {
    answer(agent.call(tool, "", &args.to_string()).await)
}

async fn listed(agent: &Agent) -> String {
    let got = say(agent, "ls", json!({})).await;
    got["stdout"].as_str().unwrap_or_else(|| panic!("{got}")).to_owned()
}

/// The processes that keep workspaces of this gate.
fn holders(gate: &Sidecar) -> Vec<i32> {
    let parent = gate.id().to_string();
    let of_gate = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(parent.as_str())
    };
    let all = alive("sandbox-holder");
    all.iter().filter_map(|line| line.split(':').next()?.parse().ok()).filter(of_gate).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_command_writes_is_visible_only_to_later_commands_of_its_run() {
    let estate = Estate::new(&tools());
    let gate = estate.serve();
    let (one, other) = (gate.open().await, gate.open().await);
    assert!(holders(&gate).is_empty(), "made with the first command");
    say(&one, "tee", json!({"a": "f", "in": "mine"})).await;
    assert_eq!(say(&one, "cat", json!({"a": "f"})).await["stdout"], "mine");
    assert_eq!(listed(&one).await, "f\n");
    assert_eq!(listed(&other).await, "");
    assert_eq!(say(&one, "own", json!({})).await["stdout"], "", "a call's own is another");
    say(&other, "tee", json!({"a": "f", "in": "theirs"})).await;
    assert_eq!(say(&one, "cat", json!({"a": "f"})).await["stdout"], "mine");
    assert_eq!(holders(&gate).len(), 2);
    let effect = say(&one, "ls", json!({})).await;
    assert_eq!(effect["sandbox"], "S2");
    one.seal().await.unwrap();
    until("the workspace to be gone", || async { holders(&gate).len() == 1 }).await;
    assert_eq!(say(&other, "cat", json!({"a": "f"})).await["stdout"], "theirs");
    other.seal().await.unwrap();
    until("both to be gone", || async { holders(&gate).is_empty() }).await;
    assert_eq!(listed(&gate.open().await).await, "", "a new run begins with nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_a_run_at_the_same_time_share_its_workspace() {
    let wait = "import os, time\nopen('ready', 'w').close()\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nprint(open('go').read())";
    let mut all = tools();
    all.push(script("wait", wait, json!({"workspace": "run"}), json!({})));
    let estate = Estate::new(&all);
    let gate = estate.serve();
    let agent = gate.open().await;
    let waiting = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("wait", "", "{}").await }
    });
    until("the first to be ready", || async { listed(&agent).await.contains("ready") }).await;
    say(&agent, "tee", json!({"a": "part", "in": "now"})).await;
    // In one step, so that it is not read half written.
    say(&agent, "ln", json!({"a": "part", "b": "go"})).await;
    assert_eq!(answer(waiting.await.unwrap())["stdout"], "now\n");
    // Sixteen first commands of a run make one workspace.
    let next = gate.open().await;
    let calls = (0..16).map(|n| {
        let next = next.clone();
        async move { say(&next, "tee", json!({"a": format!("f{n:02}"), "in": "x"})).await }
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(listed(&next).await.lines().count(), 16);
    assert_eq!(holders(&gate).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_is_bounded_and_leads_nowhere() {
    let fill = "import os\nwrote = 0\ntry:\n    with open('big%d' % len(os.listdir('.')), 'wb') as f:\n        for _ in range(40):\n            wrote += f.write(b'x' * (1 << 20))\n            f.flush()\nexcept OSError as e:\n    pass\nprint(wrote >> 20)";
    let mut all = tools();
    all.push(script("fill", fill, json!({"workspace": "run"}), json!({})));
    let estate = Estate::new(&all);
    std::fs::write(estate.path("canary"), "outside").unwrap();
    let gate = estate.serve();
    let agent = gate.open().await;
    let mut filled = 0;
    for _ in 0..3 {
        let got = say(&agent, "fill", json!({})).await;
        filled += got["stdout"]
            .as_str()
            .unwrap()
            .trim()
            .parse::<u64>()
            .unwrap_or_else(|_| panic!("{got}"));
    }
    assert!((41..=64).contains(&filled), "{filled} MiB");
    let next = gate.open().await;
    let canary = estate.path("canary");
    for (target, name) in
        [(estate.path("canary"), "l"), (estate.path("data"), "d"), ("/".into(), "r")]
    {
        assert_eq!(say(&next, "ln", json!({"a": target, "b": name})).await["exit_code"], 0);
    }
    for (path, exit) in [("l", 1), ("d/made", 1), ("r/tmp/../usr/made", 1)] {
        let got = say(&next, "tee", json!({"a": path, "in": "x"})).await;
        assert_eq!(got["exit_code"], exit, "{path}: {got}");
    }
    assert_eq!(say(&next, "cat", json!({"a": "l"})).await["exit_code"], 1);
    next.seal().await.unwrap();
    agent.seal().await.unwrap();
    until("both to be gone", || async { holders(&gate).is_empty() }).await;
    assert_eq!(std::fs::read_to_string(canary).unwrap(), "outside");
    assert!(estate.path("data/notes.txt").exists() && !estate.path("data/made").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_killed_leaves_no_workspace_and_its_successor_begins_with_none() {
    let estate = Estate::new(&tools());
    let gate = estate.serve();
    let agent = gate.open().await;
    say(&agent, "tee", json!({"a": "f", "in": "mine"})).await;
    let kept = holders(&gate);
    assert_eq!(kept.len(), 1);
    rustix::process::kill_process(gate.pid(), rustix::process::Signal::KILL).unwrap();
    let gone = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        !String::from_utf8_lossy(&line).contains("sandbox-holder")
    };
    until("it to be gone", || async { kept.iter().all(gone) }).await;
    drop(gate);
    let next = estate.serve();
    // The run goes on: its token is good after a restart.
    assert_eq!(listed(&agent).await, "");
    assert_eq!(holders(&next).len(), 1);
    agent.seal().await.unwrap();
    until("that to be gone too", || async { holders(&next).is_empty() }).await;
}
