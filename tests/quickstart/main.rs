//! The README's first command, through the built binary: every step, its files, and what is left behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise"
)]

mod files;
mod play;
mod session;

use serde_json::json;
use session::Session;
use wicketgate_support::waiting;

const STEPS: [&str; 23] = [
    "files", "tools", "gate", "pin", "run", "call", "call", "call", "call", "call", "call", "call",
    "approve", "approve", "count", "seal", "tail", "anchor", "export", "verify", "tamper",
    "ledger", "end",
];

/// The steps of this play: where there is no sandbox, the command is said to be left out.
fn steps(played: &session::Played) -> Vec<&'static str> {
    let mut steps = STEPS.to_vec();
    if played.names().contains(&"sandbox".to_owned()) {
        eprintln!("not tested here: the command of the play: {}", played.step("sandbox")["why"]);
        steps.insert(2, "sandbox");
        steps.remove(6);
    }
    steps
}

#[test]
fn the_quickstart_shows_every_step_leaves_no_process_and_can_be_repeated() {
    let session = Session::new();
    let first = session.play(&["quickstart", "--json"]).ends(0);
    assert_eq!(first.names(), steps(&first));
    let again = session.play(&["quickstart", "--json"]).ends(0);
    assert_eq!(again.names(), steps(&again));
    assert_ne!(first.step("end")["dir"], again.step("end")["dir"]);
    assert_ne!(first.step("files")["keys"], again.step("files")["keys"]);
    assert_eq!(session.processes(), Vec::<String>::new());
    // Nothing is written where the user did not ask for it.
    assert_eq!(std::fs::read_dir(session.home()).unwrap().count(), 0);
}

#[test]
fn the_tools_counted_exactly_the_calls_that_were_allowed() {
    let session = Session::new();
    let played = session.play(&["quickstart", "--json", "--dir", "demo"]).ends(0);
    let verdicts: Vec<_> = played
        .calls()
        .filter(|call| call["tool"] != "text.count")
        .map(|call| call["verdict"].clone())
        .collect();
    assert_eq!(verdicts, ["allowed", "allowed", "allowed", "allowed", "denied", "held"]);
    let http = |call: &serde_json::Value| {
        let own = ["handbook.read", "invoices.of", "text.count"];
        call["verdict"] == "allowed" && !own.iter().any(|name| call["tool"] == *name)
    };
    // And the one that two people approved.
    let allowed = played.calls().filter(http).count() + 1;
    let hits = &played.step("count")["hits"];
    assert_eq!(*hits, json!({"all": allowed, "customers": 1, "tickets": 0, "transfers": 2}));
    assert_eq!(played.step("run")["other_model"], "manifest.mismatch");
}

#[test]
fn files_a_database_a_sandboxed_command_and_http_are_behind_one_gate() {
    let session = Session::new();
    let played = session.play(&["quickstart", "--json", "--dir", "demo"]).ends(0);
    let result = |tool: &str| -> Option<serde_json::Value> {
        let call = played.calls().find(|call| call["tool"] == tool)?;
        Some(serde_json::from_str(call["result"].as_str().unwrap()).unwrap())
    };
    let invoices = result("invoices.of").unwrap();
    assert_eq!(invoices["rows"], json!([["R-7", 250, 2], ["R-8", 90, 1]]));
    assert_eq!(invoices["tables_queried"], json!(["invoices"]));
    let Some(counted) = result("text.count") else {
        eprintln!("not tested here: the command of the play: {}", played.step("sandbox")["why"]);
        return;
    };
    assert_eq!((&counted["stdout"], &counted["sandbox"]), (&json!("5\n"), &json!("S1")));
    // What it ran in is on the books, in the evidence that the auditor checked.
    let entries = std::fs::read_to_string(session.path("demo/evidence/ledger/entries.jsonl"));
    assert!(entries.unwrap().contains(r#""sandbox":"S1""#));
}

#[test]
fn the_plain_story_names_the_rule_and_the_paths_and_has_no_colours_in_a_pipe() {
    let session = Session::new();
    let played = session.play(&["quickstart", "--dir", "demo"]).ends(0);
    assert!(!played.out.contains('\u{1b}'), "{}", played.out);
    for part in [
        "rule wicketgate.agent.deny agent/personal_data.rego:",
        "rule wicketgate.agent.require_approval agent/amount.rego:",
        "the tool server got 3 requests",
        "grace@example.com saw all of pay-2500 and signed with an SSH key; that is enough: the call runs",
        "INVALID, exit 1",
        "VALID wicketgate.dev/",
        "No process was left running",
        &session.path("demo").display().to_string(),
    ] {
        assert!(played.out.contains(part), "`{part}` is not in:\n{}", played.out);
    }
}

#[test]
fn a_directory_with_something_in_it_is_refused_and_left_alone() {
    let session = Session::new();
    std::fs::create_dir(session.path("demo")).unwrap();
    std::fs::write(session.path("demo/mine"), "x").unwrap();
    let played = session.play(&["quickstart", "--json", "--dir", "demo"]).ends(1);
    assert_eq!(played.names(), ["failed"]);
    assert!(played.err.contains("is not empty"), "{}", played.err);
    assert_eq!(std::fs::read_dir(session.path("demo")).unwrap().count(), 1);
}

#[test]
fn overrides_in_the_environment_do_not_reach_the_play() {
    let session = Session::new();
    let env = [("WICKETGATE__POLICY__BUNDLE", "/nowhere"), ("WICKETGATE__STATE", "/nowhere")];
    session.play_with(&["quickstart", "--json"], &env).ends(0);
}
