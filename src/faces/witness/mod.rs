//! Witnesses: third parties that see the heads of a log, and nothing but heads.
//!
//! `server` is the small server an auditor runs (c2sp.org/tlog-witness): it cosigns a head only if it
//! extends the one it cosigned last, and has that on disk before the cosignature leaves it. `client`
//! is the log's side of it, `tsa` that of time stamping authorities (RFC 3161). Both verify every
//! answer before they use it.

pub mod client;
mod port;
mod protocol;
pub mod server;
pub mod state;
pub mod tsa;

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};

use crate::catalog::address::{self, Cidr};
use crate::catalog::host::{self, Origin};
use crate::ledger::fuse::Fuse;
use crate::tool::net::{Client, ConnectError, Identity, System};

/// How long one request may take, from the name to the last byte of the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// An answer: its status, its media type, its bytes.
#[derive(Debug)]
pub struct WitnessResponse {
    /// Its status.
    pub status: http::StatusCode,
    kind: String,
    /// Its bytes.
    pub body: Bytes,
}

/// Why a server cannot be reached, or does not answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL is not a server's address.
    #[error(transparent)]
    Url(#[from] host::Error),
    /// The URL has more than a plain path.
    #[error("the path of a url has no braces, no query and no fragment")]
    Path,
    /// Its query is none.
    #[error(
        "the query of a url has no fragment, no blank and no character beyond ascii: write `%20`"
    )]
    Query,
    /// No network can be named.
    #[error(transparent)]
    Network(#[from] address::Error),
    /// Authorities or certificate cannot be used.
    #[error("{0}")]
    Trust(Box<dyn std::error::Error + Send + Sync>),
    /// A part of the request has a character that no request may have.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// The exchange failed before its answer began.
    #[error("{0}")]
    Exchange(String),
    /// The answer was cut short, or is too long.
    #[error("the answer cannot be read: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
    /// The answer did not come within its time.
    #[error("no answer in time")]
    Late,
}

/// One HTTP server that was named by the operator, so that its address may be a private one.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    origin: Origin,
    /// The path of its URL: requests go to it or below it.
    path: String,
}

impl Remote {
    /// The server at this URL; every request goes below its path. `ca`: PEM of the only authorities
    /// that may certify it.
    ///
    /// # Errors
    /// What is wrong with the URL or the authorities.
    pub fn new(url: &str, ca: Option<&[u8]>) -> Result<Self, RemoteError> {
        Self::presenting(url, ca, None)
    }

    /// As `new`, showing this certificate of ours, over https alone.
    ///
    /// # Errors
    /// As `new`.
    pub fn presenting(
        url: &str,
        ca: Option<&[u8]>,
        identity: Option<&Identity>,
    ) -> Result<Self, RemoteError> {
        let (origin, path) = Origin::parse(url)?;
        if path.contains(['{', '}', '?', '#']) {
            return Err(RemoteError::Path);
        }
        let any_address = ["0.0.0.0/0", "::/0"].map(Cidr::parse);
        let any_address = any_address.into_iter().collect::<Result<Vec<_>, _>>()?;
        let resolve = std::sync::Arc::new(System);
        let client = match identity {
            None => Client::new(&origin, &any_address, ca, resolve),
            Some(identity) => Client::presenting(&origin, &any_address, ca, identity, resolve),
        };
        let client = client.map_err(|error| RemoteError::Trust(error.into()))?;
        Ok(Self { client, origin, path })
    }

    /// The receiver at this URL, which may have a query: every request goes to the URL itself.
    ///
    /// # Errors
    /// As `new`.
    pub fn receiving(url: &str, ca: Option<&[u8]>) -> Result<Self, RemoteError> {
        let Some((place, query)) = url.split_once('?') else { return Self::new(url, ca) };
        if query.contains(|c: char| !c.is_ascii_graphic() || c == '#') {
            return Err(RemoteError::Query);
        }
        let mut remote = Self::new(place, ca)?;
        remote.path = format!("{}?{query}", remote.path);
        Ok(remote)
    }

    /// Sends one request to a path below the URL's (`/…`), or to the URL itself (empty), and reads
    /// the whole answer, of at most `bytes_max` bytes.
    async fn ask(
        &self,
        method: http::Method,
        path: &str,
        kind: Option<&'static str>,
        body: Vec<u8>,
        bytes_max: usize,
    ) -> Result<WitnessResponse, RemoteError> {
        let mut request = http::Request::builder().method(method);
        if let Some(kind) = kind {
            request = request.header(http::header::CONTENT_TYPE, kind);
        }
        self.send(request, path, body, bytes_max).await
    }

    /// Sends this request, as `ask` does, and reads the whole answer of at most `bytes_max` bytes, within 15 seconds.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is too long or too late.
    pub async fn send(
        &self,
        request: http::request::Builder,
        path: &str,
        body: Vec<u8>,
        bytes_max: usize,
    ) -> Result<WitnessResponse, RemoteError> {
        let exchange = async {
            let response = self.begin(request, path, body).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, bytes_max).collect().await;
            let body = body.map_err(RemoteError::Answer)?.to_bytes();
            let kind = head.headers.get(http::header::CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
            Ok(WitnessResponse { status: head.status, kind, body })
        };
        tokio::time::timeout(ANSWER_WITHIN, exchange).await.unwrap_or(Err(RemoteError::Late))
    }

    /// As [`Self::send`], for an answer that may take long to begin and is not read yet.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer does not begin within this time.
    pub async fn open(
        &self,
        request: http::request::Builder,
        path: &str,
        body: Vec<u8>,
        begins_within: Duration,
    ) -> Result<http::Response<Incoming>, RemoteError> {
        tokio::time::timeout(begins_within, self.begin(request, path, body))
            .await
            .unwrap_or(Err(RemoteError::Late))
    }

    async fn begin(
        &self,
        request: http::request::Builder,
        path: &str,
        body: Vec<u8>,
    ) -> Result<http::Response<Incoming>, RemoteError> {
        let scheme = if self.origin.tls { "https" } else { "http" };
        let Origin { host, port, .. } = &self.origin;
        let path = match path {
            "" => self.path.clone(),
            below => format!("{}{below}", self.path.trim_end_matches('/')),
        };
        let uri = format!("{scheme}://{host}:{port}{path}");
        let request = request.uri(uri).body(Full::new(Bytes::from(body)))?;
        let answer = self.client.send(request, &Fuse::never()).await;
        answer.map_err(|error| RemoteError::Exchange(chain(&error)))
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    // The reader is an operator, who needs the address that was not reached.
    let one = |error: &(dyn std::error::Error + 'static)| {
        let refused = error.downcast_ref::<ConnectError>().map(ConnectError::detail);
        refused.unwrap_or_else(|| error.to_string())
    };
    let mut text = error.to_string();
    let mut cause = error.source();
    // The client library's own prefix does not help the operator: `client error (Connect)`.
    if let Some(inner) = cause.filter(|_| text.starts_with("client error (")) {
        text = one(inner);
        cause = inner.source();
    }
    while let Some(inner) = cause {
        text = format!("{text}: {}", one(inner));
        cause = inner.source();
    }
    text
}
