//! Who asks: signed manifests, and callers mapped to them by listener or credential.
//!
//! Nothing the caller says about itself is authority. A caller is a Unix-socket peer or the holder of
//! a token; configuration maps it to exactly one manifest; the run token continues a run.

use std::sync::Arc;

use crate::domain::call::Auth;

pub mod manifest;
pub mod token;

/// Where a request came from, as the listener saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Name of the listener: `uds` or `tcp`.
    pub listener: &'static str,
    /// The peer's uid, on a Unix socket.
    pub uid: Option<u32>,
}

/// This peer proved to be this agent, just now.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The manifest its listener or credential is mapped to.
    pub manifest: Arc<manifest::Manifest>,
    /// How it proved that.
    pub auth: Auth,
}

/// temporary
#[derive(Debug)]
pub struct Mismatch {
    /// r
    pub reasons: Vec<crate::domain::decision::Reason>,
}
/// temporary
pub fn bind(
    _m: &manifest::Manifest,
    _model: &str,
    _i: &[String],
    _t: &[String],
) -> Result<crate::domain::tier::Binding, Mismatch> {
    Ok(crate::domain::tier::Binding::Claimed)
}
