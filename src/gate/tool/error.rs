//! Why a tool is not available: it cannot be opened at start, or its backend must not be used.

use super::request::RequestError;
use super::{file, mcp, net, sandbox, sql};

/// An error that an operator corrects before the gate serves.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its origin cannot be connected to as it is configured.
    #[error(transparent)]
    Connection(#[from] net::Error),
    /// Its requests cannot be written.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Its root cannot be opened.
    #[error(transparent)]
    File(#[from] file::Error),
    /// This system does not offer the sandbox that the tool demands.
    #[error(transparent)]
    Sandbox(#[from] sandbox::LevelError),
    /// The pinned data of its server cannot be read.
    #[error(transparent)]
    Server(#[from] mcp::Error),
    /// No server of this name is configured.
    #[error("no server `{0}`")]
    NoServer(String),
    /// The gate's role in the database has too many rights.
    #[error(transparent)]
    Role(#[from] sql::RoleError),
    /// One of these errors for the operator, with secrets masked.
    #[error("{0}")]
    Masked(String),
}
