//! A gate that serves agents over mutual TLS, and stock clients in front of it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::ca::Ca;
use crate::sidecar::{Estate, Sidecar};
use wicketgate_support::program::python;

/// The agent's SPIFFE id.
pub const REVIEWER: &str = "spiffe://example.org/ns/agents/sa/reviewer";

/// Has the gate serve agents on every address, over TLS with these files.
pub fn listen(estate: &Estate, [cert, key, client_ca]: [String; 3], callers: &Value) {
    estate.configure(|config| {
        config["listen"]["tcp"] = json!("0.0.0.0:0");
        config["listen"]["tls"] = json!({"cert": cert, "key": key, "client_ca": client_ca});
        let all = config["agents"][0]["callers"].as_array_mut().unwrap();
        all.extend(callers.as_array().unwrap().iter().cloned());
    });
}

/// Where agents connect over TCP.
pub fn place(sidecar: &Sidecar) -> String {
    format!("127.0.0.1:{}", sidecar.agents().port())
}

/// One command of the Python client over TLS, with the certificate of this name.
pub fn python_client((of, who): (&Ca, Option<&str>), place: &str, args: &[&str]) -> Value {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python());
    command.arg("-B").arg(top.join("tests/interop/gate_client.py"));
    command.args([place, "--ca", &of.shown("server-ca.pem"), "--timeout", "20"]);
    if let Some(who) = who {
        command.args(["--cert", &of.shown(&format!("{who}.pem"))]);
        command.args(["--cert-key", &of.shown(&format!("{who}.key"))]);
    }
    let done = command.args(args).output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 3)), "{args:?}: {err}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// What `openssl` shows when it connects and sends these bytes, with more arguments of its own.
pub fn openssl_client(place: &str, args: &[&str], bytes: &str) -> String {
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", place, "-ign_eof"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that was refused reads nothing any more.
    drop(child.stdin.take().unwrap().write_all(bytes.as_bytes()));
    let done = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
}

/// The arguments with which `openssl` shows the certificate of this name.
pub fn shows(of: &Ca, who: &str) -> [String; 4] {
    let (cert, key) = (of.shown(&format!("{who}.pem")), of.shown(&format!("{who}.key")));
    ["-cert".to_owned(), cert, "-key".to_owned(), key]
}

/// A client of MCP that introduces itself, and hangs up after the answer.
pub fn initialize(more: &str) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    format!(
        "POST /mcp HTTP/1.1\r\nHost: gate.agents.svc\r\nConnection: close\r\nAccept: application/json, \
         text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    )
}
