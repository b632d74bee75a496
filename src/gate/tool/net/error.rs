//! Why the configuration of an origin cannot be used. Detected before any connection is made.

use rustls::pki_types::{InvalidDnsNameError, pem};

/// An error in the files or the address of an origin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate file is not PEM.
    #[error("not a PEM certificate: {0}")]
    Pem(#[source] pem::Error),
    /// A certificate file contains no certificate.
    #[error("no certificate in it")]
    NoCertificate,
    /// A certificate cannot serve as an authority.
    #[error("not usable as authority: {0}")]
    Authority(#[source] rustls::Error),
    /// The client certificate and its key do not belong together.
    #[error("the certificate and its key: {0}")]
    Identity(#[source] rustls::Error),
    /// A client certificate is configured for an origin without TLS.
    #[error("a certificate is shown over https alone")]
    NoTls,
    /// This build supports no version of TLS.
    #[error(transparent)]
    Tls(rustls::Error),
    /// A certificate cannot be issued for this name.
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    /// The origin cannot be written as a URI.
    #[error(transparent)]
    Uri(#[from] http::uri::InvalidUri),
    /// The origin is not a gRPC endpoint.
    #[error(transparent)]
    Endpoint(#[from] tonic::transport::Error),
}
