//! TLS of a listener: its own certificate, and which client certificates it accepts. It reads its
//! files again when they change; open connections continue with what they began with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use webpki::EndEntityCert;

use super::listener::Stream;
use crate::catalog::form::FilePath;
use crate::crypto::files::FileMarks;
use crate::domain::time::Timestamp;
use crate::identity::certificate::{ClientCertificate, not_after};
use crate::tool::net::identity::{Identity, Wrong, authorities};

/// `listen.tls`, `operator.tls` and their like.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Certificate chain of the listener (PEM), its own certificate first.
    #[schemars(with = "FilePath")]
    pub cert: PathBuf,
    /// Private key of the certificate (PEM), a file of mode 0600.
    #[schemars(with = "FilePath")]
    pub key: PathBuf,
    /// Certificate authorities (PEM) for client certificates. Without them the listener asks no
    /// client for a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub client_ca: Option<PathBuf>,
}

impl Section {
    /// The listener's TLS; a client without a certificate may still use what needs none.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn open(&self) -> Result<Tls, Wrong> {
        self.open_for(self.client_ca.clone().map_or(Clients::Unasked, Clients::Asked))
    }

    /// The same, but the listener serves only clients with a certificate.
    ///
    /// # Errors
    /// As [`Self::open`]; or no authority is configured, so that no certificate would count.
    pub fn demand(&self) -> Result<Tls, Wrong> {
        let why = "set it: agents are known by certificates, and these are their authorities";
        let missing = || Wrong { field: "client_ca", why: why.to_owned() };
        self.open_for(Clients::Demanded(self.client_ca.clone().ok_or_else(missing)?))
    }

    fn open_for(&self, clients: Clients) -> Result<Tls, Wrong> {
        let (cert, key) = (self.cert.clone(), self.key.clone());
        Tls::load(Files { cert, key, clients })
    }
}

/// Who has to show a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Clients {
    /// The listener asks no client for one.
    Unasked,
    /// The listener asks every client; a client without one may still use what needs no
    /// certificate. Authorities in PEM.
    Asked(PathBuf),
    /// The listener refuses connections without one. Authorities in PEM.
    Demanded(PathBuf),
}

/// The files of a listener's TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// The certificate chain (PEM), the listener's own first.
    pub cert: PathBuf,
    /// Its private key (PEM), mode 0600.
    pub key: PathBuf,
    /// Whose certificates count.
    pub clients: Clients,
}

impl Files {
    fn all(&self) -> Vec<PathBuf> {
        let own = [self.cert.clone(), self.key.clone()];
        match &self.clients {
            Clients::Unasked => own.into(),
            Clients::Asked(ca) | Clients::Demanded(ca) => {
                own.into_iter().chain([ca.clone()]).collect()
            }
        }
    }
}

/// TLS 1.2 and 1.3 for HTTP/2 and HTTP/1.1 with one certificate, and the authorities of its clients'. Clones are
/// the same listener's.
#[derive(Clone)]
pub struct Tls(Arc<SharedTls>);

struct SharedTls {
    files: Files,
    live: ArcSwap<Live>,
    status: Mutex<TlsStatus>,
}

/// The last good contents of the files.
struct Live {
    acceptor: TlsAcceptor,
    names: Arc<[String]>,
    not_after: Timestamp,
}

/// The result of the last look at the files.
#[derive(Default)]
struct TlsStatus {
    seen: FileMarks,
    refused: Option<TlsRefusal>,
}

/// A file that was refused, after its field in the configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {}", .0.field, .0.why)]
pub struct TlsRefusal(Wrong);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.0.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the PEM files of a listener. A client's certificate that does not lead to the authorities, has
    /// ended or is for something else ends the handshake.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn load(files: Files) -> Result<Self, Wrong> {
        // WHY: mark the files before reading them, so that a change in between counts.
        let seen = FileMarks::of(files.all());
        let live = ArcSwap::from_pointee(Live::read(&files)?);
        let status = Mutex::new(TlsStatus { seen, refused: None });
        Ok(Self(Arc::new(SharedTls { files, live, status })))
    }

    /// Reads the files again if they changed, or if they were refused the last time. It refuses
    /// unusable files, and the old ones stay in force. `None`: nothing is new.
    #[must_use]
    pub fn look(&self) -> Option<Result<(), TlsRefusal>> {
        let mut status = self.0.status.lock();
        let again = status.refused.is_some();
        if !again && !status.seen.changed() {
            return None;
        }
        status.seen = FileMarks::of(self.0.files.all());
        let read = Live::read(&self.0.files);
        let refused = read.map(|live| self.0.live.store(Arc::new(live))).err();
        let refused = refused.map(TlsRefusal);
        // Report a repeated refusal only once.
        let new = refused.is_none() || refused != status.refused;
        let outcome = new.then(|| refused.clone().map_or(Ok(()), Err));
        status.refused = refused;
        outcome
    }

    /// Why the files as they are now were refused.
    #[must_use]
    pub fn refused(&self) -> Option<TlsRefusal> {
        self.0.status.lock().refused.clone()
    }

    /// When the certificate in force ends: clients reject it from then on.
    pub fn not_after(&self) -> Timestamp {
        self.0.live.load().not_after
    }

    /// The DNS names of the certificate in force: a request may use these for this machine.
    pub fn names(&self) -> Arc<[String]> {
        Arc::clone(&self.0.live.load().names)
    }

    /// The connection after its handshake, with the certificate that the client showed, if it did; `None`: it is
    /// over. No byte of a request was read before.
    pub(crate) async fn secured(
        &self,
        stream: Stream,
        closing: &CancellationToken,
    ) -> Option<(Stream, Option<Arc<ClientCertificate>>)> {
        let acceptor = self.0.live.load().acceptor.clone();
        let secured = tokio::select! {
            biased;
            () = closing.cancelled() => return None,
            secured = stream.secured(&acceptor) => secured,
        };
        let (stream, der) = match secured {
            Ok(secured) => secured,
            Err(error) => {
                tracing::info!(%error, "a TLS handshake failed");
                return None;
            }
        };
        let Some(der) = der else { return Some((stream, None)) };
        let Some(certificate) = ClientCertificate::read(&der) else {
            tracing::info!("a client certificate cannot be read");
            return None;
        };
        Some((stream, Some(Arc::new(certificate))))
    }
}

impl Live {
    fn read(files: &Files) -> Result<Self, Wrong> {
        let Files { cert, key, clients } = files;
        let identity = Identity::load(cert, key)?;
        let fault = |field, why: String| Wrong { field, why };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| fault("cert", e.to_string()))?;
        let builder = match clients {
            Clients::Unasked => builder.with_no_client_auth(),
            Clients::Asked(path) => builder.with_client_cert_verifier(verifier(path, false)?),
            Clients::Demanded(path) => builder.with_client_cert_verifier(verifier(path, true)?),
        };
        let unusable = |why: String| fault("cert", format!("`{}`: {why}", cert.display()));
        let leaf = identity.chain.first().ok_or_else(|| unusable("no certificate in it".into()))?;
        let names = names(leaf).map_err(|error| unusable(format!("not usable: {error}")))?;
        let not_after =
            not_after(leaf).ok_or_else(|| unusable("its validity cannot be read".into()))?;
        let Identity { chain, key: secret } = identity;
        let mut config = builder.with_single_cert(chain, secret).map_err(|e| {
            let why = format!("`{}`: not the key of the certificate: {e}", key.display());
            fault("key", why)
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // WHY: on a resumed session the client would not show its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), names, not_after })
    }
}

/// Who checks clients' certificates against the authorities in this file.
fn verifier(path: &Path, demanded: bool) -> Result<Arc<dyn ClientCertVerifier>, Wrong> {
    let fault = |why: String| {
        let why = format!("`{}`: {why}", path.display());
        Wrong { field: "client_ca", why }
    };
    let pem = std::fs::read(path).map_err(|e| fault(e.to_string()))?;
    let roots = Arc::new(authorities(&pem).map_err(|e| fault(e.to_string()))?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let builder = if demanded { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|e| fault(e.to_string()))
}

fn names(leaf: &rustls::pki_types::CertificateDer<'_>) -> Result<Arc<[String]>, webpki::Error> {
    let entity = EndEntityCert::try_from(leaf)?;
    // A wildcard names no single host.
    Ok(entity.valid_dns_names().filter(|name| !name.contains('*')).map(str::to_owned).collect())
}
