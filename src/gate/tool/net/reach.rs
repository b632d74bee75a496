//! A test connection: through the one connector, including TLS, without a byte of a request.

use std::error::Error;
use std::net::SocketAddr;

use hyper_rustls::MaybeHttpsStream;
use tower::Service as _;

use super::{Client, ConnectError};
use crate::catalog::host::Origin;

/// The endpoint that responded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// Its checked address.
    pub peer: SocketAddr,
    /// The negotiated TLS version, with a trusted certificate; `None` for `http`.
    pub tls: Option<&'static str>,
}

impl Client {
    /// Opens a new connection as a request would, and closes it. Always connects to the client's
    /// own origin, whatever `origin` is given.
    ///
    /// # Errors
    /// Why no connection was made.
    pub async fn reach(&self, origin: &Origin) -> Result<Reached, ConnectError> {
        let url = format!("{}://{}/", origin.scheme(), origin.authority());
        let uri: http::Uri = url.parse().map_err(|_| ConnectError::Name)?;
        let connecting = self.connector.clone().call(uri);
        let stream = connecting.await.map_err(|error| refused(&*error))?;
        let (tcp, tls) = match &stream {
            MaybeHttpsStream::Http(tcp) => (tcp.inner(), None),
            MaybeHttpsStream::Https(tls) => {
                let (tcp, session) = tls.inner().get_ref();
                (tcp.inner().inner(), Some(super::version(session)))
            }
        };
        let peer = tcp.peer_addr().map_err(|_| ConnectError::Silent)?;
        Ok(Reached { peer, tls })
    }
}

/// The connector's own error, at any depth of the chain.
fn refused(error: &(dyn Error + 'static)) -> ConnectError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refused) = error.downcast_ref::<ConnectError>() {
            return refused.clone();
        }
        next = error.source();
    }
    ConnectError::Silent
}
