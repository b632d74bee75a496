//! More of everything than a gate takes on: calls when it is told to end, connections, descriptors.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::agent::Agent;
use crate::checker::{calls, check, kinds};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

/// Connections that say nothing.
const CROWD: u64 = 10_000;
/// What a gate with one socket may have open: 1024 connections of agents, 64 of operators, and its own files.
const DESCRIPTORS_MAX: usize = 1024 + 64 + 256;
/// What ten thousand connections may cost the gate, in kibibytes.
const GROWTH_KIB_MAX: u64 = 256 << 10;

/// So many connections to the socket, as many as this process may have open.
async fn crowd(socket: PathBuf, wanted: u64) -> Vec<UnixStream> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let count = maximum.map_or(wanted, |most| wanted.min(most.saturating_sub(512)));
    // Blocking: a full backlog is waited for.
    let connect = move || (0..count).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    tokio::task::spawn_blocking(connect).await.unwrap()
}

fn descriptors(sidecar: &Sidecar) -> usize {
    let folder = format!("/proc/{}/fd", sidecar.pid().as_raw_nonzero());
    std::fs::read_dir(Path::new(&folder)).unwrap().count()
}

/// Resident memory in kibibytes.
fn resident(sidecar: &Sidecar) -> u64 {
    let file = format!("/proc/{}/status", sidecar.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(file).unwrap();
    let row = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    row.split_whitespace().next().unwrap().parse().unwrap()
}

/// Ten agents with ten calls each, all at once: those that were answered.
async fn hundred(agents: Vec<Agent>) -> usize {
    let mut open = tokio::task::JoinSet::new();
    for agent in agents {
        for number in 0..10 {
            let agent = agent.clone();
            open.spawn(async move { agent.call("work.do", &format!("c{number}"), "{}").await });
        }
    }
    open.join_all().await.into_iter().filter(Result::is_ok).count()
}

async fn ten(sidecar: &Sidecar) -> Vec<Agent> {
    let mut agents = Vec::new();
    for _ in 0..10 {
        agents.push(sidecar.open().await);
    }
    agents
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_calls_in_flight_at_sigterm_are_answered_and_recorded() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let agents = ten(&sidecar).await;
    tool.hold();
    let answers = tokio::spawn(hundred(agents));
    tool.entered(100).await;
    sidecar.signal(Signal::TERM);
    sidecar.not_ready("draining").await;
    tool.release();
    assert_eq!(crate::within("the answers", answers).await.unwrap(), 100);
    sidecar.ends(0).await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((tool.count(), calls(&summary, "completed")), (100, 100), "{summary}");
    assert_eq!(kinds(&summary, "writer.stopped"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_a_person_does_not_hold_up_the_end_and_still_waits_after_it() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["limits"]["drain_seconds"] = 3600.into());
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let held = agent.call("work.held", "h", "{}").await.unwrap_err();
    assert_eq!(held.code, "call.held", "{held:?}");
    sidecar.stop().await;
    let mut sidecar = estate.serve().await;
    let held = agent.call("work.held", "h", "{}").await.unwrap_err();
    assert_eq!(held.code, "call.held", "{held:?}");
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((tool.count(), calls(&summary, "cancelled")), (0, 1), "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_silent_connections_use_bounded_resources_and_delay_no_agent() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    // The listener's own bound is asked for here, with or without help from the machine's.
    let mut sidecar = estate.start_under(&["prlimit", "--nofile=4096:4096"]);
    sidecar.ready().await;
    let agents = ten(&sidecar).await;
    let before = resident(&sidecar);
    let silent = crowd(estate.socket(), CROWD).await;
    crate::until("a connection too many", || async {
        sidecar.said().contains("too many connections without a credential")
    })
    .await;
    let (open, grown) = (descriptors(&sidecar), resident(&sidecar).saturating_sub(before));
    assert!(open <= DESCRIPTORS_MAX, "{open} descriptors");
    assert!(grown <= GROWTH_KIB_MAX, "{grown} KiB");
    assert_eq!(crate::within("the answers", hundred(agents)).await, 100);
    drop(silent);
    crate::until("room again", || async { descriptors(&sidecar) < DESCRIPTORS_MAX / 4 }).await;
    sidecar.open().await.call("work.do", "after", "{}").await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "completed"), 101, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_without_descriptors_still_records_what_it_denies_and_accepts_again_when_there_are_some()
 {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.start();
    sidecar.ready().await;
    let agent = sidecar.open().await;
    // Fewer than there are places for strangers.
    let few = format!("--nofile={0}:{0}", descriptors(&sidecar) + 16);
    let pid = sidecar.pid().as_raw_nonzero().to_string();
    let limited = std::process::Command::new("prlimit").args(["--pid", &pid, &few]).status();
    assert!(limited.unwrap().success());
    let silent = crowd(estate.socket(), 400).await;
    crate::until("an accept that fails", || async {
        sidecar.said().contains("cannot accept connections; trying again")
    })
    .await;
    let denied = agent.call("policy.undefined", "during", "{}").await.unwrap_err();
    assert_eq!(denied.code, "policy.denied", "{denied:?}");
    drop(silent);
    let late = crate::within("a new connection", sidecar.open()).await;
    late.call("work.do", "after", "{}").await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((tool.count(), calls(&summary, "completed")), (1, 1), "{summary}");
    assert_eq!(kinds(&summary, "call.denied"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_has_closed_its_half_of_the_connection_is_answered_all_the_same() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    tool.hold();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work.do","arguments":{"n":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: work.do\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let socket = estate.socket();
    let asking = tokio::task::spawn_blocking(move || {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    tool.entered(1).await;
    tool.release();
    let answer = crate::within("the answer", asking).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("done"), "{answer}");
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}
