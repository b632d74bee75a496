//! TLS over a connection that was already checked, for protocols that are not HTTP.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ConnectError, Error};
use crate::catalog::host::Host;

/// Talks TLS to one host, whose certificate must be for its name.
#[derive(Clone)]
pub struct Secure {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Secure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secure").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Secure {
    /// For this host; `ca` is PEM text of the only authorities to trust, the public ones if absent.
    ///
    /// # Errors
    /// Certificate authorities that cannot be read.
    pub fn new(host: &Host, ca: Option<&[u8]>) -> Result<Self, Error> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.clone())?,
            Host::Ip(ip) => ServerName::IpAddress((*ip).into()),
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(super::tls(ca, None)?)), name })
    }

    /// What a finished handshake agreed on.
    #[must_use]
    pub fn version(stream: &TlsStream<TcpStream>) -> &'static str {
        super::version(stream.get_ref().1)
    }

    /// The handshake.
    ///
    /// # Errors
    /// A server that is not who it should be, or that does not answer.
    pub async fn handshake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, ConnectError> {
        let shaking = self.connector.connect(self.name.clone(), stream);
        match tokio::time::timeout(super::CONNECT, shaking).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(super::handshake(&error).unwrap_or(ConnectError::Unreachable)),
            Err(_elapsed) => Err(ConnectError::Unreachable),
        }
    }
}
