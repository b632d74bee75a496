//! Payloads that are gone or left out, policies that change meanwhile, many calls at once, and a large file.

use serde_json::{Value, json};
use wicketgate::domain::commitment::commit;
use wicketgate::domain::digest::Digest;

use crate::rig::{RULES, Rig, SECRET, TOKEN, agent, drifts, rounds};
use wicketgate_support::program;

fn two() -> [(&'static str, Value); 2] {
    [("look.up", json!({"name": "ada"})), ("note.add", json!({"text": "hello", "id": "r-2"}))]
}

/// A recorded run that is not exported yet.
fn worked(calls: &Value) -> Rig {
    let rig = Rig::new(&json!({"mode": "record"}));
    let gate = rig.serve();
    rig.work(&gate, &agent(calls));
    gate.finish();
    rig
}

#[test]
fn payloads_that_were_erased_are_named_and_nothing_is_written() {
    let rig = worked(&rounds(&two()));
    let export = rig.export();
    rig.run(&["keygen", "--out", "fleet"]);
    let erase = [
        "payload",
        "erase",
        "--yes",
        "--basis",
        "GDPR 17",
        "--operator-key",
        "ada",
        "--role",
        "result",
    ];
    let place = ["--run", export[2], "--config", "wicketgate.yaml", "--fleet-key", "fleet"];
    rig.run(&[&erase[..], &place].concat());
    let ran = rig.try_run(&export);
    assert_eq!(ran.code, 1, "{ran:?}");
    for step in
        ["step 1: `result` of `look.up` was erased", "step 2: `result` of `note.add` was erased"]
    {
        assert!(ran.err.contains(step), "{ran:?}");
    }
    assert!(!rig.path("run.recording").exists());
}

#[test]
fn what_is_left_out_stays_committed_to_and_a_replay_says_at_which_step_it_needs_it() {
    let rig = worked(&rounds(&two()));
    let redact = ["--redact", "result:body"];
    rig.run(&[&rig.export()[..], &redact].concat());
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    for line in text.lines().filter(|line| line.contains("\"t\":\"step\"")) {
        let step: Value = serde_json::from_str(line).unwrap();
        assert_eq!((step.get("result"), &step["redacted"]), (None, &json!(["result"])));
        let payloads = step["payloads"].as_array().unwrap();
        let parts = &payloads.iter().find(|payload| payload["role"] == "result").unwrap()["parts"];
        let count = |name: &str| parts[name].as_array().unwrap().len();
        assert!(count("disclosures") > 0 && count("hidden") == 1, "{parts}");
    }
    assert!(!text.contains("ann@example.com"), "what was left out is there");
    for secret in [SECRET, TOKEN] {
        assert!(!text.contains(secret), "a credential is there");
    }
    rig.run(&["replay", "check", "run.recording"]);
    let ran = rig.replay(&["--json"], &agent(&rounds(&two())));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(drifts(&ran.json()), [("redacted".to_owned(), Some(1))], "{ran:?}");
    let ran = rig.replay(&["--json", "--report"], &agent(&rounds(&two())));
    let both = [("redacted".to_owned(), Some(1)), ("redacted".to_owned(), Some(2))];
    assert_eq!(drifts(&ran.json()), both, "{ran:?}");
    // Nobody goes on from a step that cannot be answered, and nothing runs for it.
    let came = rig.tool.came();
    let fork = ["--json", "--fork-at", "3", "--config", "wicketgate.yaml"];
    let ran = rig.replay(&fork, &agent(&rounds(&two())));
    assert_eq!(drifts(&ran.json())[0], ("redacted".to_owned(), Some(1)), "{ran:?}");
    assert_eq!(rig.tool.came(), came);
    // Who changes what stands for it is found out.
    let hidden = text.find("\"hidden\":[\"").unwrap() + 11;
    let other = if text.as_bytes()[hidden] == b'0' { "1" } else { "0" };
    let mut spoiled = text;
    spoiled.replace_range(hidden..=hidden, other);
    std::fs::write(rig.path("run.recording"), spoiled).unwrap();
    let ran = rig.try_run(&["replay", "check", "run.recording"]);
    assert!(ran.code == 2 && ran.err.contains("`result` is not what was recorded"), "{ran:?}");
}

#[test]
fn arguments_that_are_left_out_match_nothing_and_only_their_step_is_not_answered() {
    let rig = worked(&rounds(&two()));
    rig.run(&[&rig.export()[..], &["--redact", "args:text"]].concat());
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    assert!(!text.contains("hello"), "what was left out is there");
    let only = |calls: &[(&str, Value)]| rig.replay(&["--json"], &agent(&rounds(calls)));
    let ran = only(&two());
    // What the policy saw arguments is left out with them, of every call.
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(drifts(&ran.json())[0].0, "redacted", "{ran:?}");
    let what = rig.try_run(&[&rig.export()[..6], &["other", "--redact", "tools:name"]].concat());
    assert!(what.code == 1 && what.err.contains("nothing can be left out"), "{what:?}");
    assert!(!rig.path("other").exists());
}

#[test]
fn a_bundle_that_is_swapped_while_a_run_or_its_replay_goes_on_decides_what_it_decided() {
    let mut rig = Rig::new(&json!({"mode": "record"}));
    let stricter =
        format!("{RULES}\ndeny contains \"no notes\" if input.tool.name == \"note.add\"\n");
    rig.bundle_of("stricter", &stricter, "1.1.0");
    rig.bundle("lax", RULES);
    let gate = rig.serve();
    let tail = format!("'{}' ledger tail --config wicketgate.yaml --json -n 1000", program::gate());
    let swap = format!(
        "cp -r stricter/. bundle/ && kill -HUP {} && \
         until [ $({tail} | grep -c '\"policy.activated\"') -ge 2 ]; do sleep 0.1; done",
        gate.pid()
    );
    let with = |between: &str| {
        let [look, note] = two();
        json!([[note], [look], between, [note], [look]])
    };
    let printed = rig.work(&gate, &agent(&with(&swap)));
    gate.finish();
    rig.run(&rig.export());
    rig.tool.stop();
    let answers: Vec<&str> = printed.lines().skip(1).collect();
    assert!(answers[0].starts_with("note.add False"), "{printed}");
    assert!(
        answers[2].starts_with("note.add True") && answers[2].contains("no notes"),
        "{printed}"
    );
    // Each step is decided by the bundle that decided it, whatever becomes of the files meanwhile.
    let again = rig.replay(&[], &agent(&with("rm -r bundle stricter")));
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(again.out, printed);
    // And by the one that is named, as it was when the replay began.
    let swap = "printf 'package wicketgate.agent\\n' > lax/agent/main.rego";
    let other = rig.replay(&["--json", "--report", "--bundle", "lax"], &agent(&with(swap)));
    assert_eq!(drifts(&other.json()), [("decision".to_owned(), Some(3))], "{other:?}");
}

#[test]
fn sixty_four_calls_side_by_side_do_not_drift_by_themselves() {
    let mut rig = Rig::new(&json!({"mode": "deterministic"}));
    let side: Vec<_> = (0..64).map(|n| json!(["look.up", {"name": format!("side{n}")}])).collect();
    let calls = json!([side, [["note.add", {"text": "then"}]], side]);
    let printed = rig.record(&agent(&calls));
    assert_eq!(rig.tool.came(), 129);
    let again = rig.replay(&["--json"], &agent(&calls));
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(again.json()["asked"], 129);
    assert!(again.err.starts_with(&printed), "the agent was told something else");
}

/// Steps of the large recording, and bytes of each result.
const LARGE: (usize, usize) = (110, 1_000_000);

/// A recording with many steps made of its last one, each with another, large result.
fn enlarged(small: &str) -> String {
    let lines: Vec<&str> = small.lines().collect();
    let at = lines.iter().position(|line| line.contains("\"t\":\"step\"")).unwrap();
    let mut step: Value = serde_json::from_str(lines[at]).unwrap();
    let mut whole: String = lines[..at].iter().map(|line| format!("{line}\n")).collect();
    let payloads = step["payloads"].as_array().unwrap();
    let result = payloads.iter().position(|payload| payload["role"] == "result").unwrap();
    for n in 1..=LARGE.0 {
        let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "x".repeat(LARGE.1));
        let salt = [7_u8; 32];
        step["payloads"][result]["salt"] = hex::encode(salt).into();
        step["payloads"][result]["c"] = commit(&salt, body.as_bytes()).hex().into();
        step["result"] = body.into();
        (step["n"], step["after"], step["end"]) = (n.into(), (2 * n - 2).into(), (2 * n).into());
        whole.push_str(&step.to_string());
        whole.push('\n');
    }
    let digest = Digest::of(&[whole.as_bytes()]).prefixed();
    whole.push_str(&format!("{{\"sha256\":\"{digest}\",\"steps\":{},\"t\":\"end\"}}\n", LARGE.0));
    whole
}

/// Kilobytes of memory that a replay of two calls took at most, as its own agent reads them.
#[track_caller]
fn memory(rig: &Rig, calls: &Value, code: i32) -> u64 {
    let words = agent(calls);
    let line =
        format!("'{}' '{}' '{}' && grep VmHWM /proc/$PPID/status", words[0], words[1], words[2]);
    let ran = rig.replay(&["--listen", "127.0.0.1:0"], &["sh".to_owned(), "-c".to_owned(), line]);
    assert_eq!(ran.code, code, "{}", ran.err);
    let line = ran.out.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_recording_of_more_than_a_hundred_megabytes_is_replayed_without_holding_it() {
    let mut rig = Rig::new(&json!({"mode": "record"}));
    let look = ("look.up", json!({"name": "ada"}));
    let once = rounds(std::slice::from_ref(&look));
    rig.record(&agent(&once));
    let small = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    let before = memory(&rig, &once, 0);
    let large = enlarged(&small);
    assert!(large.len() > 100_000_000, "{}", large.len());
    std::fs::write(rig.path("run.recording"), large).unwrap();
    // Two calls of many are made: the others are missing.
    let after = memory(&rig, &rounds(&[look.clone(), look]), 1);
    assert!(after.saturating_sub(before) < 60_000, "{before} kB, and {after} kB");
}
