//! Checks of the `tls` sections of listeners.

use serde::Deserialize as _;
use serde_json::Value;

use crate::serve::tls::{self, Section};
use crate::tool::net::identity::Wrong;

/// A file of a listener's TLS that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{listener}.tls.{}: {wrong}", .wrong.field)]
pub struct TlsError {
    /// The section of the listener.
    pub listener: &'static str,
    /// The file and its error.
    pub wrong: Wrong,
}

/// The TLS of a listener that need not have it.
pub(super) fn open(
    tls: Option<&Section>,
    listener: &'static str,
) -> Result<Option<tls::Tls>, TlsError> {
    tls.map(Section::open).transpose().map_err(|fault| TlsError { listener, wrong: fault })
}

/// Checks beyond the schema: files that cannot be used.
pub(super) fn check(
    config: &Value,
    at: &str,
    open: fn(&Section) -> Result<tls::Tls, Wrong>,
) -> Vec<(String, String)> {
    // The schema check has reported a wrong shape already.
    let read = config.pointer(at).and_then(|tls| Section::deserialize(tls).ok());
    let fault = read.and_then(|tls| open(&tls).err());
    fault.map(|Wrong { field, why }| (format!("{at}/{field}"), why)).into_iter().collect()
}
