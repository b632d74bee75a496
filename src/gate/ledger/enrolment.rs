//! How a writer gets a certificate for the key of its epoch: from its own enrolment key or from a
//! hub.
//!
//! The private key of an epoch never leaves the process that made it. The writer sends a request
//! that states the content of the certificate and is signed by the epoch key. The signature proves
//! to the certifier that the writer holds the key.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::PortError;
use super::writer_key::{Certificate, CertificateForm, Signer, WriterKey};
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::{dsse, signer};
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};
use crate::record;

/// DSSE payload type of a request.
pub const REQUEST_TYPE: &str = "application/vnd.wicketgate.enrolment-request.v1+json";

/// A certificate, and its form in `writer.started`.
#[derive(Clone, PartialEq, Debug)]
pub struct Issued {
    /// The content of the certificate.
    pub certificate: Certificate,
    /// The key that certifies it.
    pub issued: record::chain::Certificate,
}

/// Certifies epoch keys.
#[async_trait]
pub trait Certifier: Send + Sync + std::fmt::Debug + 'static {
    /// The enrolment key, which verifiers pin.
    fn public(&self) -> PublicKey;

    /// Called before a slot is taken: a writer that cannot get a certificate must not hold a slot.
    ///
    /// # Errors
    /// Why no certificate is available now.
    async fn reachable(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// Certifies this key. The certificate may end earlier than requested and may name the pod
    /// differently; everything else is as requested.
    ///
    /// # Errors
    /// The certifier cannot answer now. The caller may repeat the same request.
    async fn certify(&self, wanted: Certificate, key: &WriterKey) -> Result<Issued, PortError>;
}

/// An enrolment key in this process.
#[derive(Clone, Debug)]
pub struct Local(pub Arc<dyn Signer>);

#[async_trait]
impl Certifier for Local {
    fn public(&self) -> PublicKey {
        self.0.public()
    }

    async fn certify(&self, wanted: Certificate, _key: &WriterKey) -> Result<Issued, PortError> {
        let issued = wanted.issue(&*self.0)?;
        Ok(Issued { certificate: wanted, issued })
    }
}

#[async_trait]
impl Certifier for SecretKey {
    fn public(&self) -> PublicKey {
        Self::public(self)
    }

    async fn certify(&self, wanted: Certificate, _key: &WriterKey) -> Result<Issued, PortError> {
        let issued = wanted.issue(self)?;
        Ok(Issued { certificate: wanted, issued })
    }
}

/// What a writer asks a hub for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Whose slot it is.
    pub tenant: String,
    /// The log that is now written in the slot; another one than before after an accepted loss.
    pub log: String,
    /// The content of the certificate.
    pub certificate: Certificate,
}

/// The signed form of a request: the members of the certificate, and two more.
#[derive(Serialize, Deserialize)]
struct RequestForm {
    tenant: String,
    log: String,
    #[serde(flatten)]
    certificate: CertificateForm,
}

impl Request {
    fn body(&self) -> Vec<u8> {
        let (tenant, log) = (self.tenant.clone(), self.log.clone());
        let form = RequestForm { tenant, log, certificate: self.certificate.form() };
        canonical::bytes(&Json::of(&form))
    }

    /// The request, and the proof that the sender holds the key it names, both in base64.
    ///
    /// # Errors
    /// The key's.
    pub fn prove(&self, key: &WriterKey) -> Result<(String, String), signer::Error> {
        let body = self.body();
        let proof = key.sign(&dsse::pae(REQUEST_TYPE, &body))?;
        Ok((STANDARD.encode(body), STANDARD.encode(proof)))
    }

    /// Parses a request with a valid proof; `None` for anything else.
    #[must_use]
    pub fn open(body: &str, proof: &str) -> Option<Self> {
        let body = STANDARD.decode(body).ok()?;
        let proof = <[u8; 64]>::try_from(STANDARD.decode(proof).ok()?).ok()?;
        let fields = Json::parse(&body, &Limits::ENTRY).ok()?;
        let RequestForm { tenant, log, certificate } = fields.read().ok()?;
        let read = Self { tenant, log, certificate: Certificate::of(certificate)? };
        // Any other member, or another spelling of one, gives other bytes.
        let same = read.body() == body;
        let holds = read.certificate.key.verifies(&dsse::pae(REQUEST_TYPE, &body), &proof);
        (same && holds).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;
    use crate::domain::time::Timestamp;

    fn request(key: &WriterKey) -> Request {
        let certificate = Certificate {
            slot: "local/0".into(),
            epoch: 3,
            key: key.public(),
            pod: "pod".into(),
            image_digest: "none".into(),
            not_after: key.not_after(),
        };
        Request { tenant: "default".into(), log: "origin".into(), certificate }
    }

    fn key() -> WriterKey {
        WriterKey::generate(&SystemEntropy, "origin", Timestamp::from_millis(0))
    }

    #[test]
    fn a_request_counts_with_the_proof_of_its_own_key_over_its_own_bytes_and_not_otherwise() {
        let (mine, other) = (key(), key());
        let request = request(&mine);
        let (body, proof) = request.prove(&mine).unwrap();
        assert_eq!(Request::open(&body, &proof), Some(request.clone()));
        let forged = request.prove(&other).unwrap().1;
        assert_eq!(Request::open(&body, &forged), None, "another key's proof");
        let later = Request { tenant: "other".into(), ..request };
        let moved = later.prove(&mine).unwrap();
        assert_eq!(Request::open(&moved.0, &proof), None, "a proof of other bytes");
        let text = String::from_utf8(STANDARD.decode(&body).unwrap()).unwrap();
        for respelled in [text.replacen('{', "{ ", 1), text.replacen('{', "{\"also\":1,", 1)] {
            let signed = mine.sign(&dsse::pae(REQUEST_TYPE, respelled.as_bytes())).unwrap();
            let opened = Request::open(&STANDARD.encode(&respelled), &STANDARD.encode(signed));
            assert_eq!(opened, None, "{respelled}");
        }
        for junk in ["", "e30=", "!"] {
            assert_eq!(Request::open(junk, &proof), None);
            assert_eq!(Request::open(&body, junk), None);
        }
    }
}
