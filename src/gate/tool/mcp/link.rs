//! One connection, whatever carries it.

use std::sync::Arc;

use super::handshake::Negotiated;
use super::pipe::Pipe;
use super::remote::Remote;
use super::traffic::{McpReply, McpRequest, Obstacle, Traffic, TrafficError};

/// What carries the messages.
#[derive(Clone, Debug)]
pub(super) enum McpTransport {
    /// Standard streams of a child.
    Pipe(Arc<Pipe>),
    /// Streamable HTTP.
    Remote(Arc<Remote>),
}

/// One connection.
#[derive(Debug)]
pub(super) struct McpLink {
    /// Its state.
    pub traffic: Arc<Traffic>,
    /// What carries it.
    pub wire: McpTransport,
    /// What the two sides agreed on.
    pub spoken: Negotiated,
}

impl McpTransport {
    /// Asks, and waits without end: the caller has a deadline.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn request(&self, ask: &McpRequest<'_>) -> Result<McpReply, TrafficError> {
        match self {
            Self::Pipe(pipe) => pipe.request(ask).await,
            Self::Remote(remote) => remote.request(ask).await,
        }
    }

    /// Says something that wants no answer.
    ///
    /// # Errors
    /// It could not be said.
    pub async fn notify(&self, message: Vec<u8>) -> Result<(), TrafficError> {
        match self {
            Self::Pipe(pipe) => {
                let gone = || TrafficError::NotSent(Obstacle::Process);
                pipe.say(message).then_some(()).ok_or_else(gone)
            }
            Self::Remote(remote) => remote.notify(message).await,
        }
    }

    /// Has the server say when its tools change, if it wants to.
    pub fn listen(&self) {
        match self {
            Self::Pipe(pipe) => pipe.listen(),
            Self::Remote(remote) => remote.listen(),
        }
    }

    /// Ends it, and what it started.
    pub async fn close(&self, orderly: bool) {
        match self {
            Self::Pipe(pipe) => pipe.close().await,
            Self::Remote(remote) => remote.close(orderly).await,
        }
    }

    /// What the server said where only the operator looks.
    pub fn tail(&self) -> String {
        match self {
            Self::Pipe(pipe) => pipe.tail(),
            Self::Remote(_) => String::new(),
        }
    }
}

impl McpLink {
    /// Asks, and waits without end.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn request(&self, ask: &McpRequest<'_>) -> Result<McpReply, TrafficError> {
        self.wire.request(ask).await
    }

    /// Whether a call may begin on it.
    pub fn is_usable(&self) -> bool {
        !self.traffic.is_stale() && !self.traffic.over.is_cancelled()
    }
}
