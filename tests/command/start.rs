//! What a gate finds out before it offers a command.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use serde_json::json;

use crate::estate::{Estate, STRANGER, answer, open, program, tool};
use crate::process;
use wicketgate_support::program::gate;

fn ls(level: &str) -> serde_json::Value {
    let command = json!({"program": program("ls"), "argv": ["-1", "--", "."], "read": ["data"], "sandbox": level});
    tool(&format!("ls.{level}"), command, json!({}))
}

#[test]
fn a_program_of_another_digest_is_refused_at_start() {
    let command = json!({"program": program("ls"), "sha256": "0".repeat(64)});
    let estate = Estate::new(&[tool("ls", command, json!({}))]);
    let (ok, out, err) = process::run(estate.command(&["config", "check", "wicketgate.yaml"]));
    assert!(!ok);
    let said = format!("{out}{err}");
    assert!(said.contains("tools[0].command.sha256: "), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_exchanged_never_runs() {
    let bin = tempfile::Builder::new().prefix("wgb").tempdir().unwrap();
    open(bin.path());
    let path = bin.path().join("tool");
    std::fs::copy(program("echo"), &path).unwrap();
    let command = json!({"program": path, "argv": ["pinned"]});
    let estate = Estate::new(&[tool("echo", command, json!({}))]);
    let gate = estate.serve();
    let agent = gate.open().await;
    assert_eq!(answer(agent.call("echo", "", "{}").await)["stdout"], "pinned\n");
    let evil = bin.path().join("evil");
    std::fs::copy(program("ls"), &evil).unwrap();
    std::fs::rename(&evil, &path).unwrap();
    let refused = agent.call("echo", "", "{}").await.unwrap_err();
    assert_eq!(refused.detail, "command.binary_hash_mismatch", "{refused:?}");
    // Back and forth while it is called: it is the pinned one that answers, or nothing.
    let names = [program("echo"), program("ls")];
    let (from, to) = (bin.path().join("next"), path.clone());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let swapping = std::thread::spawn(move || {
        for name in names.iter().cycle() {
            if stopped.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            std::fs::copy(name, &from).unwrap();
            std::fs::rename(&from, &to).unwrap();
        }
    });
    let mut answered = 0;
    for _ in 0..40 {
        match agent.call("echo", "", "{}").await {
            Ok(text) => {
                let got: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(got["stdout"], "pinned\n", "{got}");
                answered += 1;
            }
            Err(refused) => assert!(!refused.code.is_empty(), "{refused:?}"),
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().unwrap();
    assert_eq!(estate.entries("call.completed").len(), answered + 1);
}

#[test]
fn a_level_that_no_gate_can_vouch_for_is_refused_and_says_where_to_run_it() {
    let estate = Estate::new(&[ls("S3")]);
    let (ok, out, err) = process::run(estate.command(&["config", "check", "wicketgate.yaml"]));
    let said = format!("{out}{err}");
    assert!(
        !ok && said.contains("tools[0].command.sandbox: `S3` is a kernel of its own"),
        "{said}"
    );
    assert!(said.contains("bind it by its URL"), "{said}");
}

/// A gate in a user namespace in which no other can be made.
#[test]
fn a_level_that_is_not_there_is_refused_and_never_lowered() {
    let estate = Estate::new(&[ls("S2")]);
    let within = |words: &str| {
        let mut command = Command::new("unshare");
        let text = format!("echo 0 > /proc/sys/user/max_user_namespaces && {words}");
        command.args(["--user", "--map-user=1000", "--keep-caps", "sh", "-c", &text]);
        command.current_dir(estate.path(""));
        command
    };
    let (able, _, why) = process::run(within("true"));
    if !able {
        eprintln!("not tested here: a system without nested user namespaces ({why})");
        return;
    }
    let gate = gate();
    let check = format!("{gate} config check wicketgate.yaml");
    let (ok, out, err) = process::run(within(&check));
    assert!(!ok, "{out}");
    let said = format!("{out}{err}");
    assert!(said.contains("sandbox.unavailable: S2 is not there"), "{said}");
    let serve = format!("{gate} serve --config wicketgate.yaml");
    let (ok, out, err) = process::run(within(&serve));
    assert!(!ok, "{out}");
    assert!(format!("{out}{err}").contains("sandbox.unavailable: S2"), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_not_root_isolates_as_well() {
    if !rustix::process::getuid().is_root() {
        eprintln!("not tested here: only root can become somebody else");
        return;
    }
    let estate = Estate::new(&[ls("S1"), ls("S2")]);
    // Where the program was built need not be open to others.
    let copy = estate.path("wicketgate");
    std::fs::copy(gate(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap())
            .unwrap();
    config["agents"][0]["callers"] = json!([{"uid": 0}]);
    std::fs::write(estate.path("wicketgate.yaml"), config.to_string()).unwrap();
    let mut all = vec![estate.path("")];
    while let Some(path) = all.pop() {
        chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
        if path.is_dir() {
            all.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    let id = STRANGER.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    command.arg(&copy).args(["serve", "--config", "wicketgate.yaml"]).current_dir(estate.path(""));
    let gate = estate.start_as(command).serving();
    let agent = gate.open().await;
    for level in ["S1", "S2"] {
        let got = answer(agent.call(&format!("ls.{level}"), "", "{}").await);
        assert_eq!(got["stdout"], "notes.txt\n", "{level}: {got}");
    }
}

/// The probe finds holes where there are some: a system on which it finds none has none.
#[test]
fn the_probe_finds_what_a_process_without_a_sandbox_can_do() {
    let mut command = Command::new(gate());
    command.args(["sandbox-probe", &std::process::id().to_string(), "S2"]);
    command.current_dir(std::env::temp_dir());
    let (ok, out, err) = process::run(command);
    assert!(ok, "{err}");
    let found: Vec<String> = serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap();
    for hole in [
        "make TCP sockets",
        "read other files",
        "write files",
        "signal other processes",
        "start programs",
        "see other processes",
        "use several processors",
    ] {
        assert!(found.iter().any(|one| one == hole), "{hole} is not in {found:?}");
    }
}
