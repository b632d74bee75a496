//! Who asks: signed manifests, and callers mapped to them by listener or credential.
//!
//! Nothing the caller says about itself is authority. A caller is a Unix-socket peer or the holder of
//! a token; configuration maps it to exactly one manifest; the run token continues a run.

use std::path::PathBuf;
use std::sync::Arc;

use crate::domain::call::Auth;

mod bind;
pub mod callers;
mod error;
mod grants;
pub mod lineage;
pub mod manifest;
mod schema;
mod sign;
#[cfg(test)]
mod tests;
pub mod token;

pub use bind::{Mismatch, bind, bind_unclaimed, delegates, undelegated};
pub use error::{Error, IdentityError};
pub use schema::{read, schema};
pub use sign::{PAYLOAD_TYPE, envelope_path, sign, succeeds};

/// Where a request came from, as the listener saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Name of the listener: `uds` or `tcp`.
    pub listener: &'static str,
    /// The peer's uid, on a Unix socket.
    pub uid: Option<u32>,
    /// The socket file it came through, as the configuration names it; `None` on TCP.
    pub socket: Option<PathBuf>,
}

/// This peer proved to be this agent, just now.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The manifest its listener or credential is mapped to.
    pub manifest: Arc<manifest::Manifest>,
    /// How it proved that.
    pub auth: Auth,
}
