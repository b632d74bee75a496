//! The one outbound connector: nothing in this process reaches a network tool past it.
//!
//! A client belongs to one binding and can only reach that binding's host. It resolves the name
//! once per connection, checks every answer, and connects to exactly an address it checked. It
//! knows no proxies, follows no redirects and reads no environment.

mod connect;

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
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

pub use connect::{Connector, Refused, Resolve, System};

use crate::catalog::address::Cidr;
use crate::catalog::host::Origin;

/// Header lines of one response.
const HEADERS_MAX: usize = 64;
/// Bytes of one response head.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(10);
/// Name, TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(10);

/// A client that can reach one origin.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pool<Limited, Full<Bytes>>,
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
    ) -> Result<Self, String> {
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve);
        let mut https = HttpsConnector::from((connector, tls(ca)?));
        if origin.tls {
            https.enforce_https();
        }
        // A request that hyper could not even begin to write on a connection the server had closed
        // is put on another one; one of which a single byte was written never is.
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http1_max_headers(HEADERS_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(Limited(https));
        Ok(Self { pool })
    }

    /// Sends one request.
    ///
    /// # Errors
    /// What hyper or the connector says; nothing was sent if it is a connect error.
    pub async fn send(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<hyper::body::Incoming>, hyper_util::client::legacy::Error> {
        self.pool.request(request).await
    }
}

/// The connector under its deadline: TLS has none of its own.
#[derive(Clone, Debug)]
struct Limited(HttpsConnector<Connector>);

type Connection = hyper_rustls::MaybeHttpsStream<TokioIo<tokio::net::TcpStream>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl tower::Service<http::Uri> for Limited {
    type Response = Connection;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            tokio::time::timeout(CONNECT, connecting)
                .await
                .unwrap_or_else(|_elapsed| Err(Refused::Unreachable.into()))
        })
    }
}

fn tls(ca: Option<&[u8]>) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let Some(pem) = ca else { return Ok(builder.with_webpki_roots().with_no_client_auth()) };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("not a PEM certificate: {error}"))?;
        roots.add(certificate).map_err(|error| format!("not usable as authority: {error}"))?;
    }
    if roots.is_empty() {
        return Err("no certificate in it".into());
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
