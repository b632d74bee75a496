//! Ends in order, callers that leave, and a client in another language.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::checker::{calls, check, kinds};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::program::python;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_sigterm_a_gate_answers_the_admitted_calls_and_admits_no_more() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    tool.hold();
    let caller = agent.clone();
    let call = tokio::spawn(async move { caller.call("work.do", "a", r#"{"n":1}"#).await });
    tool.entered(1).await;
    sidecar.signal(Signal::TERM);
    sidecar.not_ready("draining").await;
    let late = agent.call("work.do", "late", "{}").await.unwrap_err();
    assert!(matches!(late.grpc, tonic::Code::Unavailable), "{late:?}");
    tool.release();
    let answer = crate::within("the answer", call).await.unwrap().unwrap();
    assert!(answer.contains("done"), "{answer}");
    sidecar.ends(0).await;
    assert_eq!(tool.count(), 1);
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "writer.stopped"), 1, "{summary}");
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
    let last = last_kind(&estate);
    assert_eq!(last, "writer.stopped");
}

fn last_kind(estate: &Estate) -> String {
    let script = "import sqlite3,sys\nprint(sqlite3.connect(sys.argv[1]).execute('SELECT kind FROM entry ORDER BY seq DESC LIMIT 1').fetchone()[0])";
    let file = estate.path("state/ledger.sqlite");
    let done = Command::new(python()).args(["-c", script]).arg(file).output().unwrap();
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_hangs_up_loses_the_answer_and_not_the_record() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    tool.hold();
    let caller = agent.clone();
    let call = tokio::spawn(async move { caller.call("work.do", "a", r#"{"n":1}"#).await });
    tool.entered(1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    tool.release();
    let got = crate::within("the recorded answer", agent.get("a")).await.unwrap();
    assert!(got.contains("done"), "{got}");
    assert_eq!(agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap(), got);
    let other = agent.call("work.do", "a", r#"{"n":9}"#).await.unwrap_err();
    assert_eq!(other.code, "call.conflict");
    assert_eq!(tool.count(), 1);
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

/// One command of the Python client.
fn client(estate: &Estate, args: &[&str]) -> Value {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = format!("unix:{}", estate.socket().display());
    let done = Command::new(python())
        .arg("-B")
        .arg(top.join("tests/interop/gate_client.py"))
        .arg(target)
        .args(args)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(
        matches!(done.status.code(), Some(0 | 3)),
        "{args:?} (tests/run installs what the client needs and sets WICKETGATE_TEST_PYTHON): {err}"
    );
    serde_json::from_slice(&done.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_made_from_the_proto_opens_calls_gets_and_seals() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let instructions = "ab".repeat(32);
    let opened =
        client(&estate, &["open", "--model", "test-model", "--instructions", &instructions]);
    let token = opened["ok"]["run_token"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    let with = |args: &[&str]| client(&estate, &[&["--token", &token], args].concat());
    let tools = with(&["list"]);
    let names: Vec<&str> = tools["ok"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"work.do") && names.is_sorted(), "{names:?}");
    let called = with(&["call", "work.do", r#"{"n":1}"#, "--call-id", "a"]);
    assert_eq!(called["ok"]["result"]["inline"]["body"]["done"], true, "{called}");
    let got = with(&["get", "a"]);
    assert_eq!(got["ok"]["result"], called["ok"]["result"], "{got}");
    assert_eq!(got["ok"]["receipt"], called["ok"]["receipt"]);
    let denied = with(&["call", "policy.undefined", "{}"]);
    assert_eq!(denied["error"]["reason"], "policy.denied", "{denied}");
    let twice = with(&["call", "work.do", r#"{"n":1,"n":2}"#]);
    assert_eq!(twice["error"]["metadata"]["detail"], "json.duplicate_key", "{twice}");
    let sealed = with(&["seal"]);
    assert!(sealed["ok"]["entries"].as_u64().unwrap() >= 5, "{sealed}");
    sidecar.stop().await;
    assert_eq!(tool.count(), 1);
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_too_large_for_one_answer_is_read_in_pieces_until_the_gate_forgets_it() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let (size, digest) = agent.call_large("work.large", "big").await;
    assert!(size > 3 << 20, "{size}");
    let bytes = agent.read("big").await.unwrap();
    assert_eq!(u64::try_from(bytes.len()).unwrap(), size);
    assert_eq!(wicketgate::domain::digest::Digest::of(&[&bytes]).hex(), digest);
    assert_eq!(agent.call_large("work.large", "big").await, (size, digest));
    // The ledger holds its commitment only; another process can no longer give it, and never runs it again.
    sidecar.kill();
    let mut sidecar = estate.serve().await;
    let refused = agent.read("big").await.unwrap_err();
    assert_eq!(refused.code, "call.result_unavailable", "{refused:?}");
    assert_eq!(tool.count(), 1);
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}
