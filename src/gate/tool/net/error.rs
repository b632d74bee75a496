//! Why an origin cannot be connected to as it is configured. Found before anything is connected to.

use rustls::pki_types::{InvalidDnsNameError, pem};

/// What is wrong with the files or the address of an origin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of certificates is no PEM.
    #[error("not a PEM certificate: {0}")]
    Pem(#[source] pem::Error),
    /// A file of certificates has none.
    #[error("no certificate in it")]
    NoCertificate,
    /// A certificate cannot be that of an authority.
    #[error("not usable as authority: {0}")]
    Authority(#[source] rustls::Error),
    /// The certificate shown to the origin and its key do not belong together.
    #[error("the certificate and its key: {0}")]
    Identity(#[source] rustls::Error),
    /// A certificate is to be shown to an origin without TLS.
    #[error("a certificate is shown over https alone")]
    NoTls,
    /// This build speaks no version of TLS.
    #[error(transparent)]
    Tls(rustls::Error),
    /// A certificate cannot be for this name.
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    /// The origin has no form as a URI.
    #[error(transparent)]
    Uri(#[from] http::uri::InvalidUri),
    /// The origin is no endpoint of gRPC.
    #[error(transparent)]
    Endpoint(#[from] tonic::transport::Error),
}
