//! Why a tool is not there: it cannot be opened at start, or what it reaches must not be used.

use super::{file, http, mcp, net, sandbox, sql};

/// What an operator corrects before the gate serves.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its origin cannot be connected to as it is configured.
    #[error(transparent)]
    Connection(#[from] net::Error),
    /// Its requests cannot be written.
    #[error(transparent)]
    Request(#[from] http::RequestError),
    /// Its root cannot be opened.
    #[error(transparent)]
    File(#[from] file::Error),
    /// This system does not give the sandbox that it demands.
    #[error(transparent)]
    Sandbox(#[from] sandbox::LevelError),
    /// What is pinned of its server cannot be read.
    #[error(transparent)]
    Server(#[from] mcp::Error),
    /// No server of this name is configured.
    #[error("no server `{0}`")]
    NoServer(String),
    /// The database lets our role do too much.
    #[error(transparent)]
    Role(#[from] sql::RoleError),
    /// Any of these as an operator may read it: without the secrets that were in its text.
    #[error("{0}")]
    Masked(String),
}
