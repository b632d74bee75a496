//! `tls` of a listener: its certificate, and the authorities of client certificates.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::form::FilePath;
use crate::serve::tls::{self, Clients, Files};
use crate::tool::net::identity::Wrong;

/// `listen.tls`, `operator.tls` and their like.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain of the listener (PEM), its own certificate first.
    #[schemars(with = "FilePath")]
    pub cert: PathBuf,
    /// Private key of the certificate (PEM), a file of mode 0600.
    #[schemars(with = "FilePath")]
    pub key: PathBuf,
    /// Authorities of clients' certificates (PEM). Without them the listener asks no client for a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub client_ca: Option<PathBuf>,
}

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
    tls: Option<&Tls>,
    listener: &'static str,
) -> Result<Option<tls::Tls>, TlsError> {
    tls.map(Tls::open).transpose().map_err(|wrong| TlsError { listener, wrong })
}

impl Tls {
    /// The listener's TLS; a client without a certificate may still use what needs none.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn open(&self) -> Result<tls::Tls, Wrong> {
        self.open_for(self.client_ca.clone().map_or(Clients::Unasked, Clients::Asked))
    }

    /// The same, but the listener serves only clients with a certificate.
    ///
    /// # Errors
    /// As [`Self::open`]; or no authority is configured, so that no certificate would count.
    pub fn demand(&self) -> Result<tls::Tls, Wrong> {
        let why = "set it: agents are known by certificates, and these are their authorities";
        let missing = || Wrong { field: "client_ca", why: why.to_owned() };
        self.open_for(Clients::Demanded(self.client_ca.clone().ok_or_else(missing)?))
    }

    fn open_for(&self, clients: Clients) -> Result<tls::Tls, Wrong> {
        let (cert, key) = (self.cert.clone(), self.key.clone());
        tls::Tls::load(Files { cert, key, clients })
    }
}

/// Checks beyond the schema: files that cannot be used.
pub(super) fn check(
    config: &Value,
    at: &str,
    open: fn(&Tls) -> Result<tls::Tls, Wrong>,
) -> Vec<(String, String)> {
    // The schema check has reported a wrong shape already.
    let read = config.pointer(at).and_then(|tls| Tls::deserialize(tls).ok());
    let wrong = read.and_then(|tls| open(&tls).err());
    wrong.map(|Wrong { field, why }| (format!("{at}/{field}"), why)).into_iter().collect()
}
