//! What an agent may ask for when it opens its run.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::process::Process;
use crate::rig::Rig;

/// A Python with gRPC.
pub fn grpc_python() -> PathBuf {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tests/python/bin/python");
    std::env::var_os("WICKETGATE_TEST_PYTHON").map_or_else(usual, Into::into)
}

/// The words that start an agent that opens runs.
pub fn opens(asked: &Value) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/opens.py");
    let words =
        [grpc_python().display().to_string(), script.display().to_string(), asked.to_string()];
    words.to_vec()
}

#[test]
fn an_agent_may_ask_to_be_recorded_and_only_a_replaying_gate_replays() {
    let mut rig = Rig::new(&json!({"mode": "off"}));
    let none = "sha256:".to_owned() + &"00".repeat(32);
    let asked = json!([
        {"mode": "replay"},
        {"mode": "replay", "recording": none},
        {"recording": none},
        {"replay": "always"},
        {"replay": "off"},
        {"replay": "deterministic"},
    ]);
    let printed = rig.record(&opens(&asked));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..3], ["refused request.malformed run.mode"; 3], "{printed}");
    assert_eq!(lines[3], "refused request.malformed run.replay");
    // Not recorded, and so without a seed.
    assert!(lines[4].starts_with("opened ") && lines[4].ends_with(" - - -"), "{printed}");
    let words: Vec<&str> = lines[6].split(' ').collect();
    assert_eq!((words[0], words[2].len()), ("opened", 16), "{printed}");
    assert_eq!(words[2], words[4], "{printed}");
    // On a gate that replays, every run is a replay; another recording is refused.
    let asked = json!([
        {"mode": "replay", "recording": none},
        {"mode": "replay", "recording": "$WICKETGATE_REPLAY"},
    ]);
    let again = rig.replay(&[], &opens(&asked));
    assert_eq!(again.code, 0, "{again:?}");
    let replayed: Vec<&str> = again.out.lines().collect();
    assert_eq!(replayed[0], "refused request.malformed run.recording", "{again:?}");
    // The same run, seed, clock, call and result.
    assert_eq!(replayed[1..], lines[6..], "{again:?}");
}

#[test]
fn a_call_that_was_approved_is_answered_again_without_an_approver() {
    let mut rig = Rig::new(&json!({"mode": "record"}));
    let asked = json!([{"tool": "wire.out", "arguments": {"amount": 7}}]);
    let words = opens(&asked);
    let gate = rig.serve();
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).env("WICKETGATE_SOCKET", rig.path("agent.sock"));
    let mut agent = Process::start(command);
    let run =
        agent.hear("that the call is held", |line| line.strip_prefix("held ").map(str::to_owned));
    assert_eq!(rig.tool.came(), 0);
    let url = format!("http://{}", gate.operators());
    let who = ["--token-file", "ada.token", "--key", "ada", "--url", &url, "--yes"];
    rig.run(&[&["approval", "approve", &run, "the-call"], &who[..]].concat());
    assert!(agent.wait_for_end().success());
    gate.finish();
    rig.run(&rig.export());
    assert_eq!(rig.tool.came(), 1);
    rig.tool.stop();
    let again = rig.replay(&["--json"], &words);
    assert_eq!(again.code, 0, "{again:?}");
    // The result of the approved call, and no hold.
    assert!(again.err.contains("asked") && !again.err.contains("held"), "{again:?}");
}
