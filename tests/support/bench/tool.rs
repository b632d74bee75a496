//! The tool behind the gate: an HTTP/1.1 server in this process that answers at once.

use std::net::SocketAddr;

use hyper::body::Bytes;

use super::server;

/// Starts it; `/small` answers 256 bytes, `/large` 8 KiB, both JSON.
pub async fn start() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (small, large) = (body(256), body(8192));
    let of_path = move |path: &str| if path == "/large" { large.clone() } else { small.clone() };
    tokio::spawn(server::serve(listener, "application/json", of_path));
    addr
}

/// Prose, as tools mostly get and give it.
const PROSE: &str = "The second delivery for the workshop in Porto arrives on Tuesday; please keep the large table \
    free and call the driver before noon. Two of the chairs need a new seat, and the lamp from order 4417 is still \
    missing. Maria will bring the keys, so the driver need not wait at the gate.";

/// A JSON object of exactly this many bytes.
pub fn body(bytes: usize) -> Bytes {
    let frame = r#"{"text":""}"#;
    let text = (1_u32..).flat_map(|n| format!("{n}. {PROSE} ").into_bytes());
    let text = String::from_utf8(text.take(bytes - frame.len()).collect()).unwrap();
    format!(r#"{{"text":"{text}"}}"#).into()
}
