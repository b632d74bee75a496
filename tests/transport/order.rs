//! The order in which a pod ends: the agent first, then the gate, and nobody but the kernel can ask the gate to.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::checker::{calls, check, kinds};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::program::python;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_when_a_pod_ends_are_recorded_before_the_gate_exits() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let run = sidecar.open().await;
    tool.hold();
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let socket = format!("unix:{}", estate.socket().display());
    let mut agent = Command::new(python())
        .arg("-B")
        .arg(top.join("tests/interop/gate_client.py"))
        .args([&socket, "--token", &run.token, "call", "work.do", "{}", "--call-id", "a"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tool.entered(1).await;
    // As the kubelet does it: the main container ends, and then the sidecar is told to.
    kill_process(Pid::from_child(&agent), Signal::TERM).unwrap();
    assert!(!agent.wait().unwrap().success());
    assert!(sidecar.ended().is_none(), "the gate outlives the agent");
    sidecar.signal(Signal::TERM);
    sidecar.not_ready("draining").await;
    tool.release();
    sidecar.ends(0).await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((tool.count(), calls(&summary, "completed")), (1, 1), "{summary}");
    assert_eq!(kinds(&summary, "writer.stopped"), 1, "{summary}");
}

/// The first line of the answer.
fn status(mut stream: impl Read + Write, method: &str, path: &str) -> String {
    let ask = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_shutdown_request_to_a_listener_ends_the_gate() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut sidecar = estate.serve().await;
    let door = sidecar.operator_url();
    let operators = door.strip_prefix("http://").unwrap();
    for path in ["/quitquitquit", "/shutdown", "/quit", "/exit", "/stop", "/healthcheck/fail"] {
        for method in ["POST", "GET"] {
            let tcp = std::net::TcpStream::connect(operators).unwrap();
            let unix = UnixStream::connect(estate.socket()).unwrap();
            for told in [status(tcp, method, path), status(unix, method, path)] {
                assert!(told.starts_with("HTTP/1.1 4"), "{method} {path}: {told}");
            }
        }
    }
    sidecar.ready().await;
    sidecar.open().await.call("work.do", "a", "{}").await.unwrap();
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}
