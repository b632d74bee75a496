//! TLS of a listener: what it shows of itself, and whose certificates count as somebody's.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;
use webpki::EndEntityCert;

use crate::tool::net::identity::{Identity, Wrong, authorities};

/// TLS 1.2 and 1.3 for HTTP/2 and HTTP/1.1 with one certificate, and the authorities of its clients'.
#[derive(Clone)]
pub struct Tls {
    pub(super) acceptor: TlsAcceptor,
    names: Arc<[String]>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the PEM files of a listener. With `client_ca` clients are asked for a certificate: one that
    /// does not lead there, has ended or is for something else ends the handshake; who shows none may still
    /// ask what needs no certificate.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn load(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, Wrong> {
        let identity = Identity::load(cert, key)?;
        let wrong = |field, why: String| Wrong { field, why };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong("cert", e.to_string()))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let bad = |why: String| wrong("client_ca", format!("`{}`: {why}", path.display()));
                let pem = std::fs::read(path).map_err(|e| bad(e.to_string()))?;
                let roots = Arc::new(authorities(&pem).map_err(bad)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|e| bad(e.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let names = names(&identity).map_err(|why| {
            let why = format!("`{}`: {why}", cert.display());
            wrong("cert", why)
        })?;
        let Identity { chain, key: secret } = identity;
        let mut config = builder.with_single_cert(chain, secret).map_err(|e| {
            let why = format!("`{}`: not the key of the certificate: {e}", key.display());
            wrong("key", why)
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // WHY: a session that is taken up again is not asked for its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), names })
    }

    /// The DNS names of the certificate: under these this machine may be asked.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

fn names(identity: &Identity) -> Result<Arc<[String]>, String> {
    let leaf = identity.chain.first().ok_or("no certificate in it")?;
    let entity = EndEntityCert::try_from(leaf).map_err(|e| format!("not usable: {e}"))?;
    // A wildcard is no name of anybody.
    Ok(entity.valid_dns_names().filter(|name| !name.contains('*')).map(str::to_owned).collect())
}
