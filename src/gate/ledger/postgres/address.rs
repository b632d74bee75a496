//! Parses the database's URL, and protects the connection to it.

use std::error::Error as _;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::errors::{Failure, nothing_written};
use crate::catalog::unreached::Unreached;
use crate::domain::closed::texts;
use crate::ledger::store::StoreError;

texts! {
    /// The modes of libpq, weakest first.
    pub(super) enum Mode {
        Disable = "disable",
        Allow = "allow",
        Prefer = "prefer",
        Require = "require",
        VerifyCa = "verify-ca",
        VerifyFull = "verify-full",
    }
}

/// A database, from a URL alone: no environment variable, no password file.
pub(super) struct Address {
    config: Config,
    pub(super) mode: Mode,
    authority: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Address {
    /// Reads `postgres://…`, with the `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of libpq.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], which shows nothing of the URL.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        // WHY: the parser's error would repeat parts of the URL, including the password.
        let unread = || StoreError::Unavailable("the database address cannot be read".into());
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let mut mode = Mode::Prefer;
        let (mut authority, mut certificate, mut key) = (None, None, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = url::form_urlencoded::parse(pair.as_bytes()).next() else {
                continue;
            };
            let file = || Some(PathBuf::from(&*value));
            match &*name {
                "sslmode" | "ssl-mode" => {
                    let found = Mode::parse(&value);
                    mode = found.ok_or_else(unread)?;
                }
                "sslrootcert" => authority = file(),
                "sslcert" => certificate = file(),
                "sslkey" => key = file(),
                _ => rest.push(pair),
            }
        }
        let mut config: Config =
            format!("{place}?{}", rest.join("&")).parse().map_err(|_| unread())?;
        config.application_name("wicketgate").ssl_mode(match mode {
            Mode::Disable | Mode::Allow => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        Ok(Self { config, mode, authority, certificate, key })
    }

    /// Whether every server in the URL satisfies this.
    pub(super) fn all_hosts(&self, near: impl Fn(&str) -> bool) -> bool {
        let named = self.config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => near(name),
            Host::Unix(_) => true,
        });
        named && self.config.get_hostaddrs().iter().all(|ip| ip.is_loopback())
    }

    /// The hosts of the URL with their ports, for the operator.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        // WHY: a single port is that of all hosts, and none is the usual one.
        let port = |i: usize| ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        let named = |(i, host): (usize, &Host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(i)),
            Host::Unix(folder) => format!("{}:{}", folder.display(), port(i)),
        };
        self.config.get_hosts().iter().enumerate().map(named).collect::<Vec<_>>().join(", ")
    }

    /// A new connection. Reads the certificate files each time.
    pub(super) async fn connect(&self) -> Result<(Client, PostgresConnection), Failure> {
        let tls = self.client_config().map_err(Failure::Final)?;
        self.config.connect(Tls(Arc::new(tls))).await.map_err(|error| match unreached(&error) {
            Some(end) => {
                let unreached = Unreached { address: self.place(), end };
                Failure::Final(StoreError::Unavailable(unreached.to_string()))
            }
            None => nothing_written(&error),
        })
    }

    fn client_config(&self) -> Result<ClientConfig, StoreError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match self.mode {
            Mode::VerifyFull => builder.with_root_certificates(self.authorities()?),
            Mode::VerifyCa => {
                let roots = Arc::new(self.authorities()?);
                let chain =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                let chain = Some(chain.build().map_err(unusable)?);
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(AnyName { chain, provider }))
            }
            Mode::Disable | Mode::Allow | Mode::Prefer | Mode::Require => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName { chain: None, provider })),
        };
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|_| unreadable(key, "no private key in PEM"))?;
                builder.with_client_auth_cert(chain, key).map_err(unusable)
            }
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(_), None) | (None, Some(_)) => {
                Err(unusable("`sslcert` and `sslkey` go together"))
            }
        }
    }

    /// The authorities of this machine, and those of `sslrootcert`.
    fn authorities(&self) -> Result<RootCertStore, StoreError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = &self.authority {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|e| unreadable(path, e))?;
            }
        }
        Ok(roots)
    }
}

/// How the network refused a connection, if it did.
fn unreached(error: &Error) -> Option<ErrorKind> {
    let end = error.source()?.downcast_ref::<std::io::Error>()?.kind();
    matches!(
        end,
        ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::PermissionDenied
            | ErrorKind::TimedOut
    )
    .then_some(end)
}

/// Why TLS with the database is impossible.
fn unusable(why: impl Display) -> StoreError {
    StoreError::Unavailable(format!("TLS of the database: {why}"))
}

/// The same of a file.
fn unreadable(path: &Path, why: impl Display) -> StoreError {
    unusable(format_args!("`{}`: {why}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let wrong = |e| unreadable(path, e);
    CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)
}

/// Drives the protocol of one connection. Makes no progress unless it is polled.
pub(super) type PostgresConnection = Connection<Socket, Secured>;

struct Tls(Arc<ClientConfig>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Secured;
    type TlsConnect = Handshake;
    type Error = std::convert::Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        // A directory of Unix sockets is not a server name, and such sockets carry no TLS.
        let name = ServerName::try_from(host.to_owned()).ok();
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

struct Handshake {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Secured;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Secured>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or(ErrorKind::InvalidInput)?;
            Ok(Secured(Box::new(self.connector.connect(name, stream).await?)))
        })
    }
}

/// A stream of TLS.
pub(super) struct Secured(Box<TlsStream<Socket>>);

impl tokio_postgres::tls::TlsStream for Secured {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Accepts a certificate for any name: one of a known authority, or any at all without a `chain` to
/// check.
#[derive(Debug)]
struct AnyName {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(leaf, between, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            answer => answer,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
