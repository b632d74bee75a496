//! One HTTP exchange with the gate over its agent socket.
//!
//! This is the agent's side of the socket and reaches nothing else: no tool is called from here. Each
//! exchange has a connection of its own, so that dropping it ends exactly one request.

use std::path::PathBuf;
use std::pin::Pin;

use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Bytes of one whole answer that is no stream.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Why an exchange came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Nobody listens: nothing was sent.
    #[error("the gate does not answer at `{socket}`: {source}")]
    Unreachable {
        /// The socket.
        socket: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It broke off after something may have been sent.
    #[error("the connection to the gate broke off: {0}")]
    Broken(String),
}

/// What is sent.
#[derive(Debug)]
pub struct Ask {
    /// `POST`, `GET` or `DELETE`.
    pub method: Method,
    /// The path at the gate.
    pub path: String,
    /// Headers besides those every request has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The message; empty for `GET` and `DELETE`.
    pub body: Bytes,
}

type Connection = http1::Connection<TokioIo<UnixStream>, Full<Bytes>>;

/// An answer whose body is still to be read. Dropping it closes the connection.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    connection: Option<Pin<Box<Connection>>>,
}

/// Where the gate is.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The agent socket.
    pub socket: PathBuf,
}

impl Gate {
    /// Whether somebody listens.
    ///
    /// # Errors
    /// Nobody does.
    pub async fn knock(&self) -> Result<(), Fault> {
        self.connect().await.map(drop)
    }

    async fn connect(&self) -> Result<UnixStream, Fault> {
        UnixStream::connect(&self.socket).await.map_err(|source| Fault::Unreachable {
            socket: self.socket.display().to_string(),
            source,
        })
    }

    /// Sends one request and waits for the head of its answer.
    ///
    /// # Errors
    /// See [`Fault`].
    pub async fn send(&self, ask: Ask) -> Result<Answer, Fault> {
        let stream = self.connect().await?;
        let broken = |e: hyper::Error| Fault::Broken(e.to_string());
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let mut connection: Pin<Box<Connection>> = Box::pin(connection);
        let request = request(ask).map_err(|e| Fault::Broken(e.to_string()))?;
        let answering = sender.send_request(request);
        tokio::pin!(answering);
        let mut driven = None;
        let response = loop {
            tokio::select! {
                biased;
                response = &mut answering => break response.map_err(broken)?,
                ended = &mut connection, if driven.is_none() => driven = Some(ended),
            }
        };
        let (head, body) = response.into_parts();
        let connection = driven.is_none().then_some(connection);
        Ok(Answer { status: head.status, headers: head.headers, body, connection })
    }
}

fn request(ask: Ask) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request =
        Request::builder().method(&ask.method).uri(ask.path).header(HOST, "localhost");
    if !ask.headers.iter().any(|(name, _)| name == ACCEPT) {
        request = request.header(ACCEPT, accepted(&ask.method));
    }
    if ask.method == Method::POST {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    for (name, value) in ask.headers {
        request = request.header(name, value);
    }
    request.body(Full::new(ask.body))
}

fn accepted(method: &Method) -> &'static str {
    if method == Method::GET { "text/event-stream" } else { "application/json, text/event-stream" }
}

impl Answer {
    /// Whether the body is a stream of events.
    pub fn is_stream(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
    }

    /// The value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// The connection broke off.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let frame = match self.connection.as_mut() {
                None => self.body.frame().await,
                Some(connection) => tokio::select! {
                    biased;
                    frame = self.body.frame() => frame,
                    _ = connection => {
                        // What it read before it ended is still in the body.
                        self.connection = None;
                        continue;
                    }
                },
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|e| Fault::Broken(e.to_string()))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// The connection broke off, or the body is larger than any answer of the gate's.
    pub async fn whole(mut self) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        while let Some(bytes) = self.piece().await? {
            all.extend_from_slice(&bytes);
            if all.len() > ANSWER_BYTES_MAX {
                return Err(Fault::Broken("the answer is too large".to_owned()));
            }
        }
        Ok(all)
    }
}
