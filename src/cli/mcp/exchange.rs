//! One HTTP exchange with the gate over its agent socket.
//!
//! This is the agent's side of the socket and reaches only the gate: it calls no tool itself. Each
//! exchange has a connection of its own, so that dropping it ends exactly one request.

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{HOST, HeaderValue};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::mcp::http::{Messages, Unread};

/// Bytes of one message of the gate's.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No process listens: nothing was sent.
    #[error("the gate does not answer at `{socket}`: {source}")]
    Unreachable {
        /// The socket.
        socket: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It broke off after something may have been sent.
    #[error("the connection to the gate broke off: {0}")]
    Broken(String),
}

impl From<Unread<hyper::Error>> for Fault {
    fn from(unread: Unread<hyper::Error>) -> Self {
        Self::Broken(unread.to_string())
    }
}

type Connection = http1::Connection<TokioIo<UnixStream>, Full<Bytes>>;

/// The body of an answer and its reader. Dropping it closes the connection.
#[derive(Debug)]
pub struct Driven {
    body: Incoming,
    connection: Option<Pin<Box<Connection>>>,
}

impl Body for Driven {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let Some(connection) = self.connection.as_mut().filter(|_| frame.is_pending()) else {
            return frame;
        };
        if connection.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        // What it read before it ended is still in the body.
        self.connection = None;
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The messages of an answer.
pub fn messages(answer: Response<Driven>) -> Messages<Driven> {
    Messages::of(answer, MESSAGE_BYTES_MAX, usize::MAX)
}

/// Where the gate is.
#[derive(Clone, Debug)]
pub struct GateAddress {
    /// The agent socket.
    pub socket: PathBuf,
}

impl GateAddress {
    /// Whether a process listens.
    ///
    /// # Errors
    /// No process listens.
    pub async fn knock(&self) -> Result<(), Fault> {
        self.connect().await.map(drop)
    }

    async fn connect(&self) -> Result<UnixStream, Fault> {
        UnixStream::connect(&self.socket).await.map_err(|source| Fault::Unreachable {
            socket: self.socket.display().to_string(),
            source,
        })
    }

    /// Sends one request with every header but the host, and waits for the head of its answer.
    ///
    /// # Errors
    /// See [`Fault`].
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Driven>, Fault> {
        let stream = self.connect().await?;
        let broken = |e: hyper::Error| Fault::Broken(e.to_string());
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let mut connection: Pin<Box<Connection>> = Box::pin(connection);
        let request = Request::builder().method(method).uri(path).body(Full::new(body));
        let mut request = request.map_err(|e| Fault::Broken(e.to_string()))?;
        *request.headers_mut() = headers;
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
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
        let connection = driven.is_none().then_some(connection);
        Ok(response.map(|body| Driven { body, connection }))
    }
}
