//! TLS over a connection to a checked address, for protocols other than HTTP.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ConnectError, Error};
use crate::catalog::host::Host;

/// Performs TLS with one host, whose certificate must be valid for its name.
#[derive(Clone)]
pub struct Secure {
    connector: TlsConnector,
    name: ServerName<'static>,
}

crate::record::debug_by!(Secure: name);

impl Secure {
    /// For this host; `ca` is PEM text of the only authorities to trust, the public ones if absent.
    ///
    /// # Errors
    /// The certificate authorities cannot be read.
    pub fn new(host: &Host, ca: Option<&[u8]>) -> Result<Self, Error> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.clone())?,
            Host::Ip(ip) => ServerName::IpAddress((*ip).into()),
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(super::tls(ca, None)?)), name })
    }

    /// The TLS version that a handshake negotiated.
    pub fn version(stream: &TlsStream<TcpStream>) -> &'static str {
        super::version(stream.get_ref().1)
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// The server's certificate is not valid for its name, or the server does not respond.
    pub async fn handshake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, ConnectError> {
        let handshake = self.connector.connect(self.name.clone(), stream);
        match tokio::time::timeout(super::CONNECT, handshake).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(super::handshake(&error).unwrap_or(ConnectError::Silent)),
            Err(_elapsed) => Err(ConnectError::Silent),
        }
    }
}
