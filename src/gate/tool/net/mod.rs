//! The one outbound connector: nothing in this process reaches a network tool past it.
//!
//! A client belongs to one binding and can only reach that binding's host. It resolves the name
//! once per connection, checks every answer, and connects to exactly an address it checked. It
//! knows no proxies, follows no redirects and reads no environment.

mod clients;
mod connect;
mod dial;
mod error;
mod exchange;
mod guarded;
pub mod identity;
mod knock;
mod reach;
mod secure;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

pub use clients::Clients;
pub use connect::{ConnectError, Connector, Resolve, System};
pub use dial::GrpcDialer;
pub use error::Error;
pub use exchange::{BodyError, Pace, SendError, is_encoded, whole};
pub use identity::Identity;
pub use knock::knock;
pub use reach::Reached;
pub use secure::Secure;

use crate::catalog::address::Cidr;
use crate::catalog::host::Origin;
use crate::ledger::fuse::Fuse;
use guarded::Guarded;

/// Header lines of one response.
const HEADERS_MAX: usize = 64;
/// Bytes of one response head.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(10);
/// Name, TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(10);
/// What a server may send ahead on one HTTP/2 stream, and on all of one connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// What waits on one HTTP/2 stream for a server to take it.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// Whose certificates are believed: the public authorities, or these alone. Nothing switches it off.
#[derive(Clone, Debug)]
pub struct TrustRoots(Arc<rustls::ClientConfig>);

impl TrustRoots {
    /// Reads PEM text of the only authorities to believe; the public ones if there is none.
    ///
    /// # Errors
    /// Certificate authorities that cannot be read.
    pub fn of(ca: Option<&[u8]>) -> Result<Self, Error> {
        tls(ca, None).map(Arc::new).map(Self)
    }

    /// The same for servers that speak HTTP/2 and nothing else.
    ///
    /// # Errors
    /// Certificate authorities that cannot be read.
    pub fn of_http2(ca: Option<&[u8]>) -> Result<Self, Error> {
        let mut tls = tls(ca, None)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(tls)))
    }
}

/// How the client talks once it is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HttpVersion {
    Http1,
    Http2,
}

/// A client that can reach one origin.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pool<Limited, Guarded>,
    /// The pool's own way to make a connection.
    connector: Limited,
}

impl Client {
    /// A client for this origin.
    ///
    /// # Errors
    /// Certificate authorities that cannot be read.
    pub fn new(
        origin: &Origin,
        open: &[Cidr],
        ca: Option<&[u8]>,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, Error> {
        Ok(Self::trusting(origin, open, &TrustRoots::of(ca)?, resolve))
    }

    /// The same with authorities that were read before.
    #[must_use]
    pub fn trusting(
        origin: &Origin,
        open: &[Cidr],
        trust: &TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Self {
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve);
        Self::made(connector, Arc::clone(&trust.0), HttpVersion::Http1)
    }

    /// The same for an origin that is sent nobody's secrets: in clear, too, wherever its name leads.
    #[must_use]
    pub fn asking(
        origin: &Origin,
        open: &[Cidr],
        trust: &TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Self {
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve).and_public();
        Self::made(connector, Arc::clone(&trust.0), HttpVersion::Http1)
    }

    /// A client that speaks HTTP/2 from the first byte, on one connection for requests side by side. What is
    /// dropped before its end is reset at the server.
    #[must_use]
    pub fn http2(
        origin: &Origin,
        open: &[Cidr],
        trust: &TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Self {
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve);
        Self::made(connector, Arc::clone(&trust.0), HttpVersion::Http2)
    }

    /// As [`Self::new`], over TLS alone, showing this certificate to whoever asks for one.
    ///
    /// # Errors
    /// As [`Self::new`], an origin without TLS, or a key that is not the certificate's.
    pub fn presenting(
        origin: &Origin,
        open: &[Cidr],
        ca: Option<&[u8]>,
        identity: &Identity,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, Error> {
        if !origin.tls {
            return Err(Error::NoTls);
        }
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve);
        Ok(Self::made(connector, Arc::new(tls(ca, Some(identity))?), HttpVersion::Http1))
    }

    fn made(connector: Connector, tls: Arc<rustls::ClientConfig>, version: HttpVersion) -> Self {
        let connector = Limited::over(connector, tls);
        // A request that hyper could not even begin to write on a connection the server had closed
        // is put on another one; one of which a single byte was written never is.
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http1_max_headers(HEADERS_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .http2_only(version == HttpVersion::Http2)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .http2_max_send_buf_size(SEND_BYTES_MAX)
            .build(connector.clone());
        Self { pool, connector }
    }

    /// Sends one request and waits for a head that every reader reads the same way. The permit behind it is
    /// redeemed when the request is written, on a connection that is there.
    ///
    /// # Errors
    /// `Late`, and nothing was sent; what hyper, the connector or the framing of the answer says; nothing was sent if it is a connect
    /// error.
    pub async fn send(
        &self,
        request: http::Request<Full<Bytes>>,
        fuse: &Fuse,
    ) -> Result<http::Response<hyper::body::Incoming>, SendError> {
        exchange::send(&self.pool, request, fuse).await
    }
}

/// The connector under its deadline: TLS has none of its own.
#[derive(Clone, Debug)]
struct Limited(HttpsConnector<Connector>);

impl Limited {
    fn over(connector: Connector, tls: Arc<rustls::ClientConfig>) -> Self {
        let secure = connector.is_tls();
        let mut https = HttpsConnector::from((connector, tls));
        if secure {
            https.enforce_https();
        }
        Self(https)
    }
}

type ClientStream = hyper_rustls::MaybeHttpsStream<TokioIo<tokio::net::TcpStream>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl tower::Service<http::Uri> for Limited {
    type Response = ClientStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<ClientStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            tokio::time::timeout(CONNECT, connecting)
                .await
                .unwrap_or_else(|_elapsed| Err(ConnectError::Unreachable.into()))
                .map_err(|error| handshake(&*error).map_or(error, Into::into))
        })
    }
}

/// The version that was agreed on.
fn version(session: &rustls::ClientConnection) -> &'static str {
    match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
        Some(_) | None => "TLS",
    }
}

/// What went wrong in the TLS handshake, if it was there.
fn handshake(error: &(dyn std::error::Error + 'static)) -> Option<ConnectError> {
    let mut next = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(_)) => return Some(ConnectError::Certificate),
            Some(_) => return Some(ConnectError::Tls),
            None => {}
        }
        // An I/O error shows what it wraps by a door of its own.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn tls(ca: Option<&[u8]>, identity: Option<&Identity>) -> Result<rustls::ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?;
    let builder = match ca {
        None => builder.with_webpki_roots(),
        Some(pem) => builder.with_root_certificates(identity::authorities(pem)?),
    };
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(Error::Identity),
    }
}
