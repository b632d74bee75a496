//! The same again: byte for byte, with the tools gone, through every face, side by side, with no network.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::rig::{RULES, Rig, agent, drifts, rounds};
use crate::tool::SIDE;
use wicketgate_support::program::gate;
use wicketgate_support::ran::Ran;

fn record() -> serde_json::Value {
    json!({"mode": "record"})
}

#[test]
fn an_agent_that_does_the_same_is_answered_byte_for_byte_the_same_with_the_tools_gone() {
    let mut rig = Rig::new(&record());
    let calls = rounds(&[
        ("look.up", json!({"name": "ada"})),
        // Denied by a rule, refused by the schema, not granted at all, failed by the tool itself.
        ("look.up", json!({"name": "forbidden"})),
        ("look.up", json!({"nome": "ada"})),
        ("pay.out", json!({"amount": 1})),
        ("look.up", json!({"name": "broken"})),
        ("note.add", json!({"text": "write to bob@example.com"})),
        ("look.up", json!({"name": "ada"})),
    ]);
    let printed = rig.record(&agent(&calls));
    let came = rig.tool.came();
    assert_eq!(came, 4, "{printed}");
    let again = rig.replay(&[], &agent(&calls));
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(again.out, printed);
    assert!(again.err.contains("no drift: 7 of 7 steps replayed"), "{again:?}");
    assert_eq!(rig.tool.came(), came, "a tool was reached");
    // The file is all it takes.
    std::fs::remove_dir_all(rig.path("state")).unwrap();
    for file in ["wicketgate.yaml", "agent.yaml", "secret", "token", "manifest", "policy"] {
        std::fs::remove_file(rig.path(file)).unwrap();
    }
    let elsewhere = rig.replay(&["--json"], &agent(&calls));
    assert_eq!(elsewhere.code, 0, "{elsewhere:?}");
    assert_eq!(elsewhere.json()["verdict"], "same");
    assert_eq!(elsewhere.json()["steps"], 7);
    // What the command printed went elsewhere, so that a machine can read this.
    assert_eq!(elsewhere.out.lines().count(), 1, "{elsewhere:?}");
    assert!(elsewhere.err.starts_with(&printed), "{elsewhere:?}");
}

#[test]
fn what_the_gate_read_back_by_itself_is_no_step_of_the_agent() {
    let mut rig = Rig::new(&record());
    rig.configure(|config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let note = tools.iter_mut().find(|tool| tool["name"] == "note.add").unwrap();
        note["read_back"] = json!({"tool": "look.up", "args": {"name": "ada"}, "expect": {}});
    });
    let calls =
        rounds(&[("note.add", json!({"text": "hello"})), ("look.up", json!({"name": "bob"}))]);
    let printed = rig.record(&agent(&calls));
    assert_eq!(rig.tool.came(), 3, "{printed}");
    let again = rig.replay(&[], &agent(&calls));
    assert_eq!((again.code, again.out.as_str()), (0, printed.as_str()), "{again:?}");
    assert!(again.err.contains("no drift: 2 of 2 steps replayed"), "{again:?}");
}

#[test]
fn calls_side_by_side_do_not_drift_by_themselves() {
    let mut rig = Rig::new(&record());
    let side: Vec<_> =
        (0..SIDE).map(|n| json!(["look.up", {"name": format!("side{n}")}])).collect();
    let calls = json!([side, [["note.add", {"text": "then"}]], side]);
    let printed = rig.record(&agent(&calls));
    assert_eq!(rig.tool.came(), 17);
    // In another order, and each of them alone.
    let mut other = side.clone();
    other.reverse();
    let singles: Vec<_> = side.iter().map(|call| json!([call])).collect();
    let one_by_one: Vec<_> =
        [&singles[..], &[json!([["note.add", {"text": "then"}]])], &singles[..]].concat();
    for calls in
        [&calls, &json!([other, [["note.add", {"text": "then"}]], side]), &json!(one_by_one)]
    {
        let again = rig.replay(&["--json"], &agent(calls));
        assert_eq!(again.code, 0, "{again:?}");
        assert_eq!(again.json()["asked"], 17);
    }
    let again = rig.replay(&[], &agent(&calls));
    // The same call has the answer of the same place: of the first round, then of the second.
    assert_eq!(again.out, printed);
}

#[test]
fn a_grpc_agent_on_the_socket_is_replayed_too() {
    let mut rig = Rig::new(&json!({"mode": "deterministic"}));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/python/agent.py");
    let python = crate::opened::grpc_python();
    let line = format!(
        r#"exec {} {} "$WICKETGATE_SOCKET" - look.up '{{"name":"ada"}}' note.add '{{"text":"x"}}'"#,
        python.display(),
        script.display()
    );
    let words = ["sh".to_owned(), "-c".to_owned(), line];
    let printed = rig.record(&words);
    assert_eq!(rig.tool.came(), 2, "{printed}");
    let again = rig.replay(&["--listen", "off"], &words);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.err.contains("no drift: 2 of 2 steps replayed"), "{again:?}");
}

#[test]
fn decisions_are_made_again_and_another_bundle_may_make_them() {
    let mut rig = Rig::new(&record());
    let calls =
        rounds(&[("look.up", json!({"name": "ada"})), ("note.add", json!({"text": "hello"}))]);
    rig.record(&agent(&calls));
    let stricter =
        format!("{RULES}\ndeny contains \"no notes\" if input.tool.name == \"note.add\"\n");
    rig.bundle("stricter", &stricter);
    let flipped = rig.replay(&["--json", "--bundle", "stricter"], &agent(&calls));
    assert_eq!(flipped.code, 1, "{flipped:?}");
    let report = flipped.json();
    assert_eq!(drifts(&report), [("decision".to_owned(), Some(2))]);
    let paths: Vec<&str> = report["drifts"][0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["path"].as_str().unwrap())
        .collect();
    assert!(paths.contains(&"/verdict"), "{report}");
    // One that masks what was not masked: what the agent is given has another shape.
    let masking = RULES.replace("input.tool.name == \"note.add\"", "true");
    rig.bundle("masking", &masking);
    let masked = rig.replay(&["--json", "--report", "--bundle", "masking"], &agent(&calls));
    assert_eq!(masked.code, 1, "{masked:?}");
    let report = masked.json();
    assert_eq!(
        drifts(&report),
        [("decision".to_owned(), Some(1)), ("result".to_owned(), Some(1))],
        "{report}"
    );
    assert_eq!(report["drifts"][1]["changes"][0]["path"], "/body/mail");
    // The same rules in other files decide the same.
    rig.bundle("same", &RULES.replace("nobody looks", "  nobody looks"));
    assert_eq!(rig.replay(&["--bundle", "same"], &agent(&calls)).code, 0);
}

/// Brings up the loopback of the namespace it is in, and becomes another program.
const ALONE: &str = "
import fcntl, os, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack('16sh22x', b'lo', 0x1 | 0x40))
os.execv(sys.argv[1], sys.argv[1:])
";

/// In a network namespace with a loopback and nothing else.
fn alone(rig: &Rig, words: &[&str]) -> Ran {
    let mut command = Command::new("unshare");
    command.args(["-r", "-n"]).arg(crate::rig::python()).args(["-c", ALONE]).args(words);
    rig.ran(command)
}

#[test]
fn a_replay_needs_no_network() {
    let mut rig = Rig::new(&record());
    let probe = alone(&rig, &["/bin/true"]);
    if probe.code != 0 {
        eprintln!("not tested here: this system gives no network namespace: {}", probe.err);
        return;
    }
    let calls = rounds(&[("look.up", json!({"name": "ada"}))]);
    let printed = rig.record(&agent(&calls));
    let words = agent(&calls);
    let mut line = vec![gate(), "replay", "run.recording", "--"];
    line.extend(words.iter().map(String::as_str));
    let again = alone(&rig, &line);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(again.out, printed);
}
