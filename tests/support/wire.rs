//! HTTP/1.1 by hand: what is sent is exactly what a test says, what comes back is read to its end.

use std::path::PathBuf;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::within;

/// Where a gate listens.
#[derive(Clone, Debug)]
pub enum Place {
    Tcp(String),
    Socket(PathBuf),
}

trait Both: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Both for T {}

/// One event of a stream.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    pub name: String,
    pub id: Option<u64>,
    pub data: Value,
}

impl Event {
    /// What these lines are; none if they carry no data.
    fn of(text: &str) -> Option<Event> {
        let field = |name: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(name));
            let values: Vec<&str> = lines.collect();
            (!values.is_empty()).then(|| values.join("\n"))
        };
        let data = serde_json::from_str(&field("data: ")?).unwrap();
        let id = field("id: ").map(|id| id.parse().unwrap());
        Some(Event { name: field("event: ").unwrap_or_default(), id, data })
    }
}

/// One connection.
pub struct Wire {
    stream: Box<dyn Both>,
    read: Vec<u8>,
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The one JSON text this is, or the last message of its events.
    pub fn json(&self) -> Value {
        let events = self.events();
        let text = events.last().map_or(self.body.as_str(), String::as_str);
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Every event of a stream that has ended.
    pub fn all_events(&self) -> Vec<Event> {
        self.body.split("\n\n").filter_map(Event::of).collect()
    }

    /// The data of every event.
    pub fn events(&self) -> Vec<String> {
        if self.header("content-type") != Some("text/event-stream") {
            return Vec::new();
        }
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }

    /// `(status, JSON-RPC error code, data.detail)`.
    pub fn refusal(&self) -> (u16, i64, String) {
        let error = &self.json()["error"];
        let detail = error["data"]["detail"].as_str().unwrap_or_default().to_owned();
        (self.status, error["code"].as_i64().unwrap_or_default(), detail)
    }

    pub fn result(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        let json = self.json();
        assert!(json.get("result").is_some(), "{self:?}");
        json["result"].clone()
    }
}

impl Wire {
    pub async fn open(place: &Place) -> Wire {
        let stream: Box<dyn Both> = match place {
            Place::Tcp(at) => Box::new(tokio::net::TcpStream::connect(at).await.unwrap()),
            Place::Socket(path) => Box::new(tokio::net::UnixStream::connect(path).await.unwrap()),
        };
        Wire { stream, read: Vec::new() }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        // A gate that has heard enough may hang up before everything is said.
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// Says that nothing more will be sent.
    pub async fn end_sending(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    async fn more(&mut self) -> bool {
        let mut piece = vec![0; 16 * 1024];
        let read = within("an answer", self.stream.read(&mut piece)).await.unwrap_or(0);
        self.read.extend_from_slice(&piece[..read]);
        read > 0
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.read.windows(2).position(|two| two == b"\r\n")?;
        let line = String::from_utf8(self.read.drain(..end + 2).collect()).unwrap();
        Some(line.trim_end().to_owned())
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.take_line() {
                return Some(line);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.read.len() < count {
            if !self.more().await {
                return None;
            }
        }
        Some(self.read.drain(..count).collect())
    }

    /// Status and headers of the next answer; none when the gate hung up.
    pub async fn head(&mut self) -> Option<Reply> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Reply { status, headers, body: String::new() })
    }

    /// The next piece of a chunked body; none at its end.
    pub async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line().await?, 16).unwrap();
        let piece = self.exactly(size).await?;
        self.exactly(2).await?;
        (size > 0).then_some(piece)
    }

    /// The data of the next event of a stream, comments left out.
    pub async fn event(&mut self, kept: &mut String) -> Option<Value> {
        self.named_event(kept).await.map(|event| event.data)
    }

    /// The next event of a stream, comments left out.
    pub async fn named_event(&mut self, kept: &mut String) -> Option<Event> {
        // Signs of life come all the time, so waiting has an end of its own.
        within("an event", self.next_event(kept)).await
    }

    async fn next_event(&mut self, kept: &mut String) -> Option<Event> {
        loop {
            if let Some((event, rest)) = kept.clone().split_once("\n\n") {
                *kept = rest.to_owned();
                match Event::of(event) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            kept.push_str(&String::from_utf8(self.chunk().await?).unwrap());
        }
    }

    /// The next whole answer.
    pub async fn reply(&mut self) -> Option<Reply> {
        let mut reply = self.head().await?;
        let length = reply.header("content-length").map(|n| n.parse().unwrap());
        let mut body = Vec::new();
        if let Some(length) = length {
            body = self.exactly(length).await?;
        } else if reply.header("transfer-encoding").is_some() {
            while let Some(piece) = self.chunk().await {
                body.extend(piece);
            }
        }
        reply.body = String::from_utf8(body).unwrap();
        Some(reply)
    }

    /// Whether the gate hangs up without another answer.
    pub async fn is_over(&mut self) -> bool {
        self.line().await.is_none()
    }
}

/// One HTTP request with these lines; `Content-Length` is added if there is a body.
pub fn request(verb: &str, path: &str, lines: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{verb} {path} HTTP/1.1\r\n");
    for (name, value) in lines {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    let mut bytes = (text + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
