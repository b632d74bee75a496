//! A time stamping authority: HTTP by hand on the loopback, one question after the other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// What it answers.
pub struct Reply {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

impl Reply {
    /// As a stock authority does.
    pub fn token(body: Vec<u8>) -> Option<Self> {
        Some(Self { status: "200 OK", kind: "application/timestamp-reply", body })
    }
}

/// A server in a thread; it ends when this is dropped.
pub struct TsaServer {
    addr: SocketAddr,
    asked: Arc<AtomicU32>,
    closing: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl TsaServer {
    /// Answers every question so; `None` is no answer while the authority is up.
    pub fn open(answer: impl Fn(&[u8]) -> Option<Reply> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (asked, closing) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&asked), Arc::clone(&closing));
        let serving = std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    break;
                }
                let mut reader = BufReader::new(stream.unwrap());
                let Some(question) = question(&mut reader) else { continue };
                count.fetch_add(1, Ordering::SeqCst);
                let mut stream = reader.into_inner();
                match answer(&question) {
                    Some(reply) => say(&mut stream, &reply),
                    None => silent.push(stream),
                }
            }
        });
        Self { addr, asked, closing, serving: Some(serving) }
    }

    pub fn url(&self) -> String {
        format!("http://{}/tsa", self.addr)
    }

    /// Questions that came in.
    pub fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for TsaServer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.addr));
        drop(self.serving.take().map(JoinHandle::join));
    }
}

/// The body of a POST with the media type of a question; whatever else comes in is none.
fn question(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let (mut length, mut kind, mut line) = (0, String::new(), String::new());
    reader.read_line(&mut line).ok()?;
    assert_eq!(line, "POST /tsa HTTP/1.1\r\n");
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let lower = line.trim().to_lowercase();
        if let Some(n) = lower.strip_prefix("content-length: ") {
            length = n.parse().unwrap();
        }
        if let Some(said) = lower.strip_prefix("content-type: ") {
            kind = said.to_owned();
        }
    }
    assert_eq!(kind, "application/timestamp-query");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn say(stream: &mut TcpStream, reply: &Reply) {
    let Reply { status, kind, body } = reply;
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // Who does not want to hear more has heard enough.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}
