//! No file with a set-id bit leaves a sandbox, what may only be read keeps its mode, and there is no second program.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::estate::{Estate, alive, answer, python, tool};
use crate::ports::Port;
use crate::process;
use crate::servers::{ask, fixture};
use crate::waiting::until;

/// Prints what worked.
const TRIES: &str = include_str!("modes.py");
/// Who servers with something to write run as where the gate is root.
const NOBODY: u32 = 65_534;

fn script(dir: &Path, kept: &Path, inside: bool) -> String {
    let loader = if cfg!(target_arch = "x86_64") { "/lib64/ld-linux-x86-64.so.2" } else { "" };
    let facts = json!({"dir": dir, "kept": kept, "loader": loader, "inside": inside});
    format!("import json\nFACTS = json.loads(r'''{facts}''')\n{TRIES}")
}

/// A file of whoever runs in there, which it may read.
fn kept(path: &Path) {
    std::fs::write(path, "kept").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn with_set_id(dir: &Path) -> Vec<String> {
    let all = std::fs::read_dir(dir).unwrap().flatten();
    let set = all.filter(|one| one.metadata().is_ok_and(|is| is.mode() & 0o6000 != 0));
    set.map(|one| format!("{}", one.path().display())).collect()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_ways_to_a_set_id_file_work_where_there_is_no_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let kept_path = dir.path().join("kept");
    std::fs::write(&kept_path, "kept").unwrap();
    std::fs::create_dir(dir.path().join("w")).unwrap();
    let mut command = std::process::Command::new(python());
    command.args(["-I", "-S", "-B", "-c", &script(&dir.path().join("w"), &kept_path, false)]);
    let (ok, out, err) = process::run(command);
    assert!(ok, "{err}");
    let worked: Vec<String> = serde_json::from_str(&out).unwrap();
    // Or the tests below would prove nothing.
    for what in [
        "open 4755",
        "openat 4755",
        "openat2 4755",
        "tmpfile 4755",
        "creat 4755",
        "mknod 4755",
        "mknodat 4755",
        "chmod 4755",
        "fchmod 4755",
        "fchmodat 4755",
        "fchmodat2 4755",
        "open 2755",
        "creat 6111",
        "kept chmod",
        "kept fchmod",
        "kept fchown",
        "kept times",
    ] {
        assert!(worked.iter().any(|one| one == what), "{what} is not in {worked:?}");
    }
    assert!(!with_set_id(&dir.path().join("w")).is_empty());
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_with_a_set_id_bit_is_left_by_any_call_and_what_is_read_keeps_its_mode() {
    // A server writes; it is a user's that a file of it would belong to.
    let estate = Estate::with(&[], |dir| {
        kept(&dir.join("data/kept"));
        ["S1", "S2"]
            .map(|level| fixture(dir, &level.to_lowercase(), json!({"level": level}), "modes"))
            .to_vec()
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    for server in ["s1", "s2"] {
        let text = script(&estate.path("ws"), &estate.path("data/kept"), true);
        let (worked, failed) = ask(&agent, &format!("{server}.run"), json!({"text": text})).await;
        assert_eq!((worked.trim(), failed), ("[]", false), "{server}");
        assert_eq!(with_set_id(&estate.path("ws")), Vec::<String>::new(), "{server}");
        let is = std::fs::metadata(estate.path("data/kept")).unwrap();
        assert_eq!((is.mode() & 0o7777, is.mtime() > 1), (0o644, true), "{server}");
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_changes_no_modes_and_starts_no_second_program_by_any_descriptor() {
    let of = |level: &str, workspace: &str| {
        let command = json!({"program": python(), "sandbox": level, "workspace": workspace, "read": ["data"],
            "argv": ["-I", "-S", "-B", "-c", {"arg": "a"}]});
        tool(&format!("{level}.{workspace}"), command, json!({}))
    };
    let tools = [of("S1", "none"), of("S2", "none"), of("S2", "per_call")];
    let estate = Estate::new(&tools);
    kept(&estate.path("data/kept"));
    let gate = estate.serve();
    let agent = gate.open().await;
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        let dir = if name == "S2.per_call" { "/workspace" } else { "/" };
        let text = script(Path::new(dir), &estate.path("data/kept"), true);
        let got = answer(agent.call(name, "", &json!({"a": text}).to_string()).await);
        // A second program would have written something else, and ended with something else.
        assert_eq!(
            (&got["stdout"], &got["exit_code"]),
            (&json!("[]\n"), &json!(0)),
            "{name}: {got}"
        );
        assert_eq!(std::fs::metadata(estate.path("data/kept")).unwrap().mode() & 0o7777, 0o644);
    }
}

/// What metadata a program sees of files that it may not read: none in `S2`; in `S1` Landlock has no right for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_read_is_not_even_looked_at_in_s2() {
    let looks = "import os, sys\nfor p in sys.argv[1:]:\n    try:\n        os.stat(p)\n        print(p)\n    except OSError:\n        pass";
    let estate = Estate::new(&[]);
    let paths = ["wicketgate.yaml", "manifest", "s/agent.sock"].map(|name| estate.path(name));
    let argv = ["-I", "-S", "-B", "-c", looks].map(|one| json!(one)).into_iter();
    let argv: Vec<Value> =
        argv.chain(paths.iter().map(|path| json!(path))).chain([json!("/etc/shadow")]).collect();
    let command = json!({"program": python(), "sandbox": "S2", "argv": argv});
    let estate = Estate::new(&[tool("looks", command, json!({}))]);
    let gate = estate.serve();
    let got = answer(gate.open().await.call("looks", "", "{}").await);
    assert_eq!(got["stdout"], "", "{got}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sandbox_of_a_gate_that_is_root_has_a_uid_of_its_own() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested here: the gate is not root, and what it starts is of its own uid");
        return;
    }
    let uid = "import os; print(os.getuid(), os.getgid())";
    let s1 = json!({"program": python(), "sandbox": "S1", "argv": ["-I", "-S", "-B", "-c", uid]});
    let estate = Estate::new(&[tool("S1", s1, json!({}))]);
    let gate = estate.serve();
    let agent = gate.open().await;
    let mut seen = std::collections::BTreeSet::new();
    for turn in 0..4 {
        let got = answer(agent.call("S1", "", "{}").await);
        let line = got["stdout"].as_str().unwrap().trim().to_owned();
        assert!(line.split(' ').all(|id| id != "0" && id != NOBODY.to_string()), "{line}");
        assert!(seen.insert(line), "{turn}: {seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_at_once_are_bounded_over_the_gate_and_one_that_waits_gets_the_next_place() {
    let mark = format!("wgc-places-{}", std::process::id());
    let estate = Estate::new(&[sleeper(&mark)]);
    let mut config: Value =
        serde_json::from_str(&std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap())
            .unwrap();
    config["limits"] = json!({"sandboxes_max": 2});
    std::fs::write(estate.path("wicketgate.yaml"), config.to_string()).unwrap();
    let gate = estate.serve();
    let agent = gate.open().await;
    let call = |seconds: &'static str| {
        let agent = agent.clone();
        tokio::spawn(async move { agent.call("one", "", &json!({"a": seconds}).to_string()).await })
    };
    // More than there are places for, each short: all get one in turn.
    let short: Vec<_> = (0..6).map(|_| call("0")).collect();
    for got in short {
        assert_eq!(answer(got.await.unwrap())["stdout"], "done\n");
    }
    let long = [call("60"), call("60")];
    // The command itself has the mark last on its line; nothing else of it has.
    let there = || alive(&mark).iter().filter(|one| one.trim_end().ends_with(&mark)).count();
    until("two to run", || async { there() >= 2 }).await;
    let refused = call("0").await.unwrap().unwrap_err();
    assert!(refused.message.contains("at most 2 commands at once"), "{refused:?}");
    let failed = estate.entries("call.failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(there(), 2);
    drop(gate);
    drop(long);
}

/// A tool that sleeps as long as it is told, and whose processes have this mark last on their line.
fn sleeper(mark: &str) -> Value {
    let text = "import sys, time\ntime.sleep(float(sys.argv[1]))\nprint('done')";
    let command = json!({"program": python(), "sandbox": "S1",
        "argv": ["-I", "-S", "-B", "-c", text, {"arg": "a"}, mark]});
    tool("one", command, json!({}))
}

/// Two places, two agents: the first one's second credential does not take the other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_with_two_credentials_has_one_share_of_the_places() {
    let mark = format!("wgc-shares-{}", std::process::id());
    let estate = Estate::new(&[sleeper(&mark)]);
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(estate.path(name)).unwrap()).unwrap()
    };
    let mut other = read("agent.yaml");
    other["metadata"]["name"] = "other".into();
    std::fs::write(estate.path("other.yaml"), other.to_string()).unwrap();
    estate.run(&["manifest", "sign", "other.yaml", "--key", "manifest"]);
    let tokens = ["first", "second"].map(|name| {
        let token = format!("{name:x<48}");
        std::fs::write(estate.path(name), &token).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(estate.path(name), mode).unwrap();
        token
    });
    let port = Port::claim();
    let mut config = read("wicketgate.yaml");
    config["limits"] = json!({"sandboxes_max": 2});
    config["listen"]["tcp"] = format!("127.0.0.1:{}", port.number()).into();
    let me = config["agents"][0]["callers"].clone();
    config["agents"] = json!([
        {"manifest": "agent.yaml", "callers": [{"token_file": "first"}, {"token_file": "second"}]},
        {"manifest": "other.yaml", "callers": me},
    ]);
    std::fs::write(estate.path("wicketgate.yaml"), config.to_string()).unwrap();
    let gate = estate.serve();
    let first = Agent::known_by(port.number(), &tokens[0]).await;
    let second = Agent::known_by(port.number(), &tokens[1]).await;
    let long = tokio::spawn(async move { first.call("one", "", r#"{"a":"60"}"#).await });
    let there = || alive(&mark).iter().filter(|one| one.trim_end().ends_with(&mark)).count();
    until("one to run", || async { there() == 1 }).await;
    let refused = second.call("one", "", r#"{"a":"0"}"#).await.unwrap_err();
    assert!(refused.message.contains("at most 2 commands at once"), "{refused:?}");
    let other = gate.open().await;
    assert_eq!(answer(other.call("one", "", r#"{"a":"0"}"#).await)["stdout"], "done\n");
    drop(gate);
    drop(long);
}
