//! Identifies callers: signed manifests, and callers mapped to them by listener or credential.
//!
//! A caller's own claims give it no authority. A caller is a Unix-socket peer, the holder of a
//! certificate or the holder of a token; configuration maps it to exactly one manifest; the run
//! token continues a run.

use std::path::PathBuf;
use std::sync::Arc;

use certificate::ClientCertificate;

use crate::domain::call::CallerAuth;

pub mod authorization;
mod bind;
pub mod callers;
pub mod certificate;
pub mod client_tools;
mod error;
mod grants;
pub mod instructions;
pub mod lineage;
pub mod manifest;
pub mod models;
pub mod pin;
mod schema;
mod sign;
pub mod templates;
#[cfg(test)]
mod tests;
pub mod token;

pub use bind::{Mismatch, accept, bind, bind_unclaimed, delegates, incognito, undelegated};
pub use error::{Error, IdentityError};
pub use schema::{read, schema};
pub use sign::{PAYLOAD_TYPE, envelope_path, sign, succeeds};

/// The origin of a request, as the listener saw it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peer {
    /// Name of the listener: `uds`, `tcp` or `tls`.
    pub listener: &'static str,
    /// The peer's uid, on a Unix socket.
    pub uid: Option<u32>,
    /// The socket file of the connection, as the configuration names it; `None` on TCP.
    pub socket: Option<PathBuf>,
    /// What it showed in the handshake; `None` in the clear.
    pub certificate: Option<Arc<ClientCertificate>>,
}

impl Peer {
    /// Whether a page could have made a browser connect here under a name of the page's choice, so
    /// that the gate has to check the host of its requests.
    ///
    /// WHY: on a Unix socket there is no name to rebind, and clients make one up; over TLS the
    /// client checked the name against the certificate before it sent a request.
    #[must_use]
    pub fn may_be_rebound(&self) -> bool {
        !matches!(self.listener, "uds" | "tls")
    }

    /// The record of this peer, proved by `method`, in an entry.
    pub fn auth(&self, method: &str, token: Option<String>) -> CallerAuth {
        let certificate = self.certificate.as_deref();
        CallerAuth {
            method: method.to_owned(),
            uid: self.uid,
            token,
            certificate: certificate.map(|shown| shown.thumbprint.prefixed()),
            spiffe: certificate.and_then(|shown| shown.spiffe.clone()),
            account: None,
        }
    }
}

/// This peer proved to be this agent, just now.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The manifest its listener or credential is mapped to.
    pub manifest: Arc<manifest::Manifest>,
    /// How it proved that.
    pub auth: CallerAuth,
}
