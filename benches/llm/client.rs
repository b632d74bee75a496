//! One caller: one connection that is kept, one request after the other, each answer checked.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::folder::TOKEN;
use crate::provider::{KEY, now};

/// Where requests go.
#[derive(Clone, Copy)]
pub enum Place {
    /// The provider itself.
    Direct(SocketAddr),
    /// The gate before it.
    Gate(SocketAddr),
}

impl Place {
    /// A caller on a connection of its own. Behind the gate it has the run of this name.
    pub async fn connect(self, run: &str) -> Caller {
        let (address, path, credential) = match self {
            Self::Direct(address) => (address, String::new(), ("x-api-key", KEY.to_owned())),
            Self::Gate(address) => {
                let bearer = format!("Bearer {TOKEN}");
                (address, format!("/r/{run}"), ("authorization", bearer))
            }
        };
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let io = TokioIo::new(stream);
        let (send, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let governed = matches!(self, Self::Gate(_));
        let path = format!("{path}/v1/chat/completions");
        Caller { send, host: address.to_string(), path, credential, governed }
    }
}

/// One caller.
pub struct Caller {
    send: SendRequest<Full<Bytes>>,
    host: String,
    path: String,
    credential: (&'static str, String),
    governed: bool,
}

/// When the parts of a streamed answer came.
pub struct Streamed {
    /// From the request to the first delta.
    pub first: Duration,
    /// From the request to the end.
    pub whole: Duration,
    /// From the provider's clock to ours, of each delta, in order.
    pub late: Vec<Duration>,
}

impl Caller {
    /// Asks with this body and reads the stream of so many deltas to its end.
    ///
    /// Stops the bench if anything is wrong with it.
    pub async fn stream(&mut self, body: String, deltas: usize) -> Streamed {
        let begun = Instant::now();
        self.send.ready().await.unwrap();
        let (name, value) = &self.credential;
        let request = Request::post(self.path.as_str())
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header(*name, value)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let answer = self.send.send_request(request).await.unwrap();
        self.read(answer, (begun, deltas)).await
    }

    async fn read(
        &self,
        answer: Response<Incoming>,
        (begun, deltas): (Instant, usize),
    ) -> Streamed {
        let status = answer.status().as_u16();
        let media_type = answer.headers().get("content-type").map(|value| value.to_str().unwrap());
        if status != 200 || media_type != Some("text/event-stream") {
            let media_type = media_type.unwrap_or_default().to_owned();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            panic!("{status} {media_type}: {}", String::from_utf8_lossy(&body));
        }
        let mut events = Events { body: answer.into_body(), text: String::new() };
        let (mut late, mut first) = (Vec::with_capacity(deltas), None);
        let (mut stopped, mut receipt, mut ended) = (false, false, false);
        while let Some(event) = events.next().await {
            assert!(!ended, "after the end: {event}");
            if event.starts_with(':') {
                receipt |= event.starts_with(": wicketgate-receipt seq=");
                continue;
            }
            let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("an event: {event}"));
            if data.trim_end() == "[DONE]" {
                ended = true;
                continue;
            }
            let chunk: Value = serde_json::from_str(data).unwrap();
            let choice = &chunk["choices"][0];
            if let Some(content) = choice["delta"]["content"].as_str() {
                first = first.or_else(|| Some(begun.elapsed()));
                let mut words = content.split(' ');
                let number: usize = words.next().unwrap().parse().unwrap();
                assert_eq!(number, late.len(), "the deltas come in order");
                let sent: u128 = words.next().unwrap().parse().unwrap();
                late.push(Duration::from_nanos(now().saturating_sub(sent) as u64));
            }
            stopped |= choice["finish_reason"] == "stop";
            assert!(chunk["error"].is_null(), "{chunk}");
        }
        assert_eq!(late.len(), deltas, "every delta comes");
        assert!(ended && stopped, "the stream has its end");
        assert_eq!(receipt, self.governed, "the receipt of the outcome comes before the end");
        Streamed { first: first.unwrap(), whole: begun.elapsed(), late }
    }
}

/// The events of a body, as they come.
struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                return Some(self.text.drain(..end + 2).collect());
            }
            let Some(frame) = self.body.frame().await else {
                assert_eq!(self.text, "", "a whole event");
                return None;
            };
            if let Ok(data) = frame.unwrap().into_data() {
                self.text.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }
}
