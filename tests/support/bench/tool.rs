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

/// A JSON object of exactly this many bytes.
pub fn body(bytes: usize) -> Bytes {
    let frame = r#"{"text":""}"#;
    format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes - frame.len())).into()
}
