//! One connection, over any transport.

use std::sync::Arc;

use super::handshake::Negotiated;
use super::pipe::Pipe;
use super::remote::Remote;
use super::traffic::{McpReply, McpRequest, Obstacle, Traffic, TrafficError};

/// The transport of the messages.
#[derive(Clone, Debug)]
pub(super) enum McpTransport {
    /// The standard streams of a child process.
    Pipe(Arc<Pipe>),
    /// Streamable HTTP.
    Remote(Arc<Remote>),
}

/// One connection.
#[derive(Debug)]
pub(super) struct McpLink {
    /// The state of the connection.
    pub traffic: Arc<Traffic>,
    /// The transport.
    pub wire: McpTransport,
    /// The result of the negotiation.
    pub negotiated: Negotiated,
}

impl McpTransport {
    /// Sends a request and waits without a limit: the caller sets a deadline.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn request(&self, ask: &McpRequest<'_>) -> Result<McpReply, TrafficError> {
        match self {
            Self::Pipe(pipe) => pipe.request(ask).await,
            Self::Remote(remote) => remote.request(ask).await,
        }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// The notification could not be sent.
    pub async fn notify(&self, message: Vec<u8>) -> Result<(), TrafficError> {
        match self {
            Self::Pipe(pipe) => {
                let gone = || TrafficError::NotSent(Obstacle::Process);
                pipe.say(message).then_some(()).ok_or_else(gone)
            }
            Self::Remote(remote) => remote.notify(message).await,
        }
    }

    /// Subscribes to the server's announcements of tool changes, if it offers them.
    pub fn listen(&self) {
        match self {
            Self::Pipe(pipe) => pipe.listen(),
            Self::Remote(remote) => remote.listen(),
        }
    }

    /// Ends the connection and the processes it started.
    pub async fn close(&self, orderly: bool) {
        match self {
            Self::Pipe(pipe) => pipe.close().await,
            Self::Remote(remote) => remote.close(orderly).await,
        }
    }

    /// The server's last output on standard error, for the operator.
    pub fn tail(&self) -> String {
        match self {
            Self::Pipe(pipe) => pipe.tail(),
            Self::Remote(_) => String::new(),
        }
    }
}

impl McpLink {
    /// Whether a call may begin on this connection.
    pub fn is_usable(&self) -> bool {
        !self.traffic.is_stale() && !self.traffic.over.is_cancelled()
    }
}
