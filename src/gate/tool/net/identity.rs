//! A certificate with its private key: the identity of this process over TLS.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Error;
use crate::crypto::private;

/// An error in one of the TLS files.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct Wrong {
    /// The file, by its name in the configuration: `cert`, `key` or `client_ca`.
    pub field: &'static str,
    /// The error, for a human reader; never a part of the file.
    pub why: String,
}

/// A certificate chain, the leaf first, and the leaf's private key.
pub struct Identity {
    /// The chain, as it is sent.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key, which is never shown.
    pub key: PrivateKeyDer<'static>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads PEM files: the chain, and the key, which only its owner may read.
    ///
    /// # Errors
    /// A file cannot be read or has other content, or other users may read the key.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, Wrong> {
        let wrong = |field, path: &Path, why: String| {
            let why = format!("`{}`: {why}", path.display());
            Wrong { field, why }
        };
        let pem = std::fs::read(cert).map_err(|e| wrong("cert", cert, e.to_string()))?;
        let chain = certificates(&pem).map_err(|why| wrong("cert", cert, why.to_string()))?;
        let read = private::read(key, private::BYTES_MAX);
        let (_, pem) = read.map_err(|why| wrong("key", key, why.to_string()))?;
        // WHY not the parser's message: it may contain a part of the file.
        let none = |_| wrong("key", key, "no private key in PEM (PKCS#8, SEC 1 or PKCS#1)".into());
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(none)?;
        Ok(Self { chain, key })
    }
}

/// The certificates of a PEM file, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(Error::Pem)?;
    if all.is_empty() { Err(Error::NoCertificate) } else { Ok(all) }
}

/// The authorities of a PEM file, at least one.
///
/// # Errors
/// A certificate is malformed or cannot be an authority.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(Error::Authority)?;
    }
    Ok(roots)
}
