//! The certificate a client showed in its TLS handshake, and the SPIFFE id in it.

use der::Decode as _;
use x509_cert::Certificate;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// Bytes of a SPIFFE id (SPIFFE-ID, section 2.3).
const ID_BYTES_MAX: usize = 2048;
/// Bytes of its trust domain.
const DOMAIN_BYTES_MAX: usize = 255;

/// A client's certificate that leads to the configured authority: the TLS listener checked it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificate {
    /// SHA-256 of its DER bytes.
    pub thumbprint: Digest,
    /// It counts until then, however long its connection lives.
    pub not_after: Timestamp,
    /// Its SPIFFE id, if it is an X.509-SVID: its one URI name, and well formed.
    pub spiffe: Option<String>,
}

impl ClientCertificate {
    /// Reads the DER bytes of a certificate that was checked; `None` if this reader cannot.
    pub fn read(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let (not_after, spiffe) = (ends(&certificate)?, svid(&certificate));
        Some(Self { thumbprint: Digest::of(&[der]), not_after, spiffe })
    }
}

/// When a certificate ends, from its DER bytes.
pub fn not_after(der: &[u8]) -> Option<Timestamp> {
    ends(&Certificate::from_der(der).ok()?)
}

fn ends(certificate: &Certificate) -> Option<Timestamp> {
    let end = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    Some(Timestamp::from_millis(i64::try_from(end.as_millis()).ok()?))
}

/// A text that is not the thumbprint of a client certificate.
#[derive(Debug, thiserror::Error)]
#[error(
    "`certificate` is `sha256:` and 64 hex digits, the thumbprint of a client certificate: \
     `openssl x509 -in FILE -outform DER | sha256sum`"
)]
pub struct NoThumbprint;

/// Reads the thumbprint of a client certificate as a configuration names it.
///
/// # Errors
/// See [`NoThumbprint`].
pub fn thumbprint(text: &str) -> Result<Digest, NoThumbprint> {
    text.starts_with("sha256:").then(|| Digest::parse(text)).flatten().ok_or(NoThumbprint)
}

/// The SPIFFE id of a certificate. One with a second URI name has none (X.509-SVID, section 2).
fn svid(certificate: &Certificate) -> Option<String> {
    let names = certificate.tbs_certificate().get_extension::<SubjectAltName>().ok()??.1;
    let mut uris = names.0.iter().filter_map(|name| {
        let GeneralName::UniformResourceIdentifier(uri) = name else { return None };
        Some(uri.as_str())
    });
    let (one, more) = (uris.next()?, uris.next());
    (more.is_none() && is_spiffe(one)).then(|| one.to_owned())
}

/// Whether this is a SPIFFE id of a workload: `spiffe://<trust domain>/<path>`, in the one spelling there is
/// (SPIFFE-ID, sections 2.1 to 2.4), so that two ids are the same if their bytes are.
#[must_use]
pub fn is_spiffe(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("spiffe://") else { return false };
    let Some((domain, path)) = rest.split_once('/') else { return false };
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    text.len() <= ID_BYTES_MAX
        && (1..=DOMAIN_BYTES_MAX).contains(&domain.len())
        && domain.bytes().all(lower)
        && path
            .split('/')
            .all(|segment| !matches!(segment, "" | "." | "..") && segment.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spiffe_id_has_one_spelling() {
        for uri in ["spiffe://example.org/a", "spiffe://a-b.example_1/ns/agents/sa/Reviewer.1"] {
            assert!(is_spiffe(uri), "{uri}");
        }
        let long = format!("spiffe://example.org/{}", "a".repeat(ID_BYTES_MAX));
        let wide = format!("spiffe://{}/a", "a".repeat(DOMAIN_BYTES_MAX + 1));
        for uri in [
            "spiffe://example.org",
            "spiffe://example.org/",
            "spiffe:///a",
            "spiffe://Example.org/a",
            "SPIFFE://example.org/a",
            "spiffe://example.org:8443/a",
            "spiffe://user@example.org/a",
            "spiffe://example.org//a",
            "spiffe://example.org/a/",
            "spiffe://example.org/a/../b",
            "spiffe://example.org/./a",
            "spiffe://example.org/a%2Fb",
            "spiffe://example.org/a?b",
            "spiffe://example.org/a#b",
            "https://example.org/a",
            "",
            &long,
            &wide,
        ] {
            assert!(!is_spiffe(uri), "{uri}");
        }
    }
}
