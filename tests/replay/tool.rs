//! The server behind the tools: no answer is like the one before.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

/// Requests that name `side…` are answered so many at a time.
pub const SIDE: usize = 8;

/// A server on a port of its own.
pub struct Tool {
    pub address: SocketAddr,
    came: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tool {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (came, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&came), Arc::clone(&over));
        let side = Arc::new(Barrier::new(SIDE));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (count, side) = (Arc::clone(&count), Arc::clone(&side));
                std::thread::spawn(move || answer(stream.unwrap(), &count, &side));
            }
        });
        Self { address, came, over, thread: Some(thread) }
    }

    /// How many requests came.
    pub fn came(&self) -> u32 {
        self.came.load(Ordering::SeqCst)
    }

    /// Nobody listens there any more.
    pub fn stop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

/// One request, one answer with its number and what was asked.
fn answer(mut stream: TcpStream, came: &AtomicU32, side: &Barrier) {
    let (mut seen, mut piece) = (Vec::new(), [0_u8; 4096]);
    let head = loop {
        let read = stream.read(&mut piece).unwrap_or(0);
        if read == 0 {
            return;
        }
        seen.extend_from_slice(&piece[..read]);
        if let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&seen[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    while seen.len() < head + length {
        let read = stream.read(&mut piece).unwrap_or(0);
        if read == 0 {
            return;
        }
        seen.extend_from_slice(&piece[..read]);
    }
    let number = came.fetch_add(1, Ordering::SeqCst) + 1;
    let asked = text.split_whitespace().nth(1).unwrap_or_default();
    if asked.contains("name=side") {
        // None of them is answered before all have come: whoever asks, asks side by side.
        side.wait();
    }
    let body = if asked.contains("broken") {
        String::from("{\"sorry\":true}")
    } else {
        format!("{{\"number\":{number},\"asked\":\"{asked}\",\"mail\":\"ann@example.com\"}}")
    };
    let status = if asked.contains("broken") { "500 Broken" } else { "200 OK" };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}
