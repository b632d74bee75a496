//! The one outbound connector: no code in this process reaches a network tool by another path.
//!
//! A client belongs to one binding and can only reach that binding's host. It resolves the name
//! once per connection, checks every address, and connects to an address it checked. It uses no
//! proxies, follows no redirects and reads no environment.

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
/// Time limit for name, TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes that a server may send ahead on one HTTP/2 stream, and on all streams of one connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Bytes that wait on one HTTP/2 stream until the server accepts them.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// The trusted authorities: the public ones, or only the given ones. Verification cannot be turned
/// off.
#[derive(Clone, Debug)]
pub struct TrustRoots(Arc<rustls::ClientConfig>);

impl TrustRoots {
    /// Reads PEM text of the only authorities to trust; `None` selects the public ones.
    ///
    /// # Errors
    /// The certificate authorities cannot be read.
    pub fn of(ca: Option<&[u8]>) -> Result<Self, Error> {
        tls(ca, None).map(Arc::new).map(Self)
    }

    /// The same, for servers that support only HTTP/2.
    ///
    /// # Errors
    /// The certificate authorities cannot be read.
    pub fn of_http2(ca: Option<&[u8]>) -> Result<Self, Error> {
        let mut tls = tls(ca, None)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(tls)))
    }
}

/// The HTTP version of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HttpVersion {
    Http1,
    Http2,
}

/// A client that can reach one origin.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pool<Limited, Guarded>,
    /// The connector that the pool uses.
    connector: Limited,
}

impl Client {
    /// A client for this origin.
    ///
    /// # Errors
    /// The certificate authorities cannot be read.
    pub fn new(
        origin: &Origin,
        open: &[Cidr],
        ca: Option<&[u8]>,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, Error> {
        Ok(Self::trusting(origin, open, &TrustRoots::of(ca)?, resolve))
    }

    /// The same, with authorities that were read before.
    pub fn trusting(
        origin: &Origin,
        open: &[Cidr],
        trust: &TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Self {
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve);
        Self::made(connector, Arc::clone(&trust.0), HttpVersion::Http1)
    }

    /// The same, for an origin that receives no secrets: clear text is allowed, whatever address
    /// its name has.
    pub fn asking(
        origin: &Origin,
        open: &[Cidr],
        trust: &TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Self {
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve).and_public();
        Self::made(connector, Arc::clone(&trust.0), HttpVersion::Http1)
    }

    /// A client that uses HTTP/2 from the first byte, on one connection for concurrent requests.
    /// Dropping a request before its end resets its stream at the server.
    pub fn http2(
        origin: &Origin,
        open: &[Cidr],
        trust: &TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Self {
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve);
        Self::made(connector, Arc::clone(&trust.0), HttpVersion::Http2)
    }

    /// As [`Self::new`], over TLS only, presenting this certificate to a server that requests one.
    ///
    /// # Errors
    /// As [`Self::new`]; also an origin without TLS, or a key that does not belong to the
    /// certificate.
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
        // hyper retries a request on another connection only if the server had closed the first one
        // before a single byte was written.
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

    /// Sends one request and waits for a response head that every reader parses the same way. The
    /// permit is redeemed when the request is written, on an open connection.
    ///
    /// # Errors
    /// `Late`, and nothing was sent; the error of hyper, of the connector or of the response's
    /// framing. After a connect error nothing was sent.
    pub async fn send(
        &self,
        request: http::Request<Full<Bytes>>,
        fuse: &Fuse,
    ) -> Result<http::Response<hyper::body::Incoming>, SendError> {
        exchange::send(&self.pool, request, fuse).await
    }
}

/// The connector with a deadline, because TLS has none of its own.
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
                .unwrap_or_else(|_elapsed| Err(ConnectError::Silent.into()))
                .map_err(|error| handshake(&*error).map_or(error, Into::into))
        })
    }
}

/// The negotiated TLS version.
fn version(session: &rustls::ClientConnection) -> &'static str {
    match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
        Some(_) | None => "TLS",
    }
}

/// The error of the TLS handshake, if that failed.
fn handshake(error: &(dyn std::error::Error + 'static)) -> Option<ConnectError> {
    let mut next = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(_)) => return Some(ConnectError::Certificate),
            Some(_) => return Some(ConnectError::Tls),
            None => {}
        }
        // An I/O error exposes its inner error through `get_ref`, not `source`.
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
