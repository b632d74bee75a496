//! The key of one epoch: made in memory, certified by the enrolment key, gone with the process.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::clock::Entropy;
use crate::crypto::dsse;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::note::Checkpoint;
use crate::crypto::signer;
pub use crate::crypto::signer::Signer;
use crate::domain::canonical;
use crate::domain::id::Epoch;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;
use crate::record::fleet::WriterEnrolled;
use crate::record::{self, Base64, HexDigest};

/// DSSE payload type of a writer's certificate.
pub const CERTIFICATE_TYPE: &str = "application/vnd.wicketgate.writer-certificate.v1+json";
/// How long a certificate is valid; an older writer stops and must be restarted.
pub const CERTIFICATE_TERM: Duration = Duration::from_secs(90 * 24 * 3600);

/// The content of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// `local/0`.
    pub slot: String,
    /// The epoch this key is for.
    pub epoch: Epoch,
    /// The key.
    pub key: PublicKey,
    /// Host name or pod.
    pub pod: String,
    /// Digest of the image, or `none`.
    pub image_digest: String,
    /// The key signs nothing after this time.
    pub not_after: Timestamp,
}

/// A certificate as it is signed.
#[derive(Serialize, Deserialize)]
pub(super) struct CertificateForm {
    slot: String,
    epoch: Epoch,
    key: Base64<32>,
    pod: String,
    image_digest: String,
    not_after: Timestamp,
}

impl Certificate {
    fn body(&self) -> Vec<u8> {
        canonical::bytes(&Json::of(&self.form()))
    }

    /// Its members in signed form.
    pub(super) fn form(&self) -> CertificateForm {
        CertificateForm {
            slot: self.slot.clone(),
            epoch: self.epoch,
            key: Base64(self.key.to_bytes()),
            pod: self.pod.clone(),
            image_digest: self.image_digest.clone(),
            not_after: self.not_after,
        }
    }

    /// The certificate with these members; `None` if the key is invalid.
    pub(super) fn of(form: CertificateForm) -> Option<Self> {
        Some(Self {
            slot: form.slot,
            epoch: form.epoch,
            key: PublicKey::from_bytes(&form.key.0)?,
            pod: form.pod,
            image_digest: form.image_digest,
            not_after: form.not_after,
        })
    }

    /// The certificate that a `writer.enrolled` records.
    #[must_use]
    pub fn enrolled(entry: &WriterEnrolled) -> Option<Self> {
        Some(Self {
            slot: entry.slot.to_string(),
            epoch: entry.epoch.get(),
            key: PublicKey::from_bytes(&entry.key.0)?,
            pod: entry.pod.to_string(),
            image_digest: entry.image_digest.to_string(),
            not_after: entry.not_after,
        })
    }

    /// The certificate in its form in `writer.started`.
    ///
    /// # Errors
    /// The signer's.
    pub fn issue(&self, signer: &dyn Signer) -> Result<record::chain::Certificate, signer::Error> {
        let body = self.body();
        let signature = signer.sign(&dsse::pae(CERTIFICATE_TYPE, &body))?;
        Ok(record::chain::Certificate {
            body: STANDARD.encode(&body).into(),
            keyid: HexDigest(signer.public().digest()),
            sig: Base64(signature),
        })
    }

    /// Reads a certificate and checks that this enrolment key signed it.
    #[must_use]
    pub fn open(issued: &record::chain::Certificate, enrolment: &PublicKey) -> Option<Self> {
        let body = STANDARD.decode(issued.body.as_str()).ok()?;
        let signed = issued.keyid.to_string() == enrolment.id()
            && enrolment.verifies(&dsse::pae(CERTIFICATE_TYPE, &body), &issued.sig.0);
        if !signed {
            return None;
        }
        let read = Self::of(Json::parse(&body, &Limits::ENTRY).ok()?.read().ok()?)?;
        (read.body() == body).then_some(read)
    }
}

/// The key that signs the checkpoints of an epoch.
#[derive(Clone, Debug)]
pub struct WriterKey {
    key: Arc<dyn Signer>,
    /// A key that is being rotated out: it signs too.
    also: Option<Arc<dyn Signer>>,
    origin: String,
    not_after: Timestamp,
}

impl WriterKey {
    /// A fresh key for one epoch of this log.
    pub fn generate(entropy: &dyn Entropy, origin: &str, now: Timestamp) -> Self {
        let keys = LogKeys { key: Arc::new(SecretKey::generate(entropy)), also: None };
        Self::stable(keys, origin, now)
    }

    /// Keys that outlive their epochs: those of the fleet log, which witnesses know.
    pub fn stable(keys: LogKeys, origin: &str, now: Timestamp) -> Self {
        let LogKeys { key, also } = keys;
        Self { key, also, origin: origin.to_owned(), not_after: now.plus(CERTIFICATE_TERM) }
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }

    /// The name of the log it signs for.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// When it stops signing.
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The same key with a certificate that ends then.
    pub(super) fn until(self, not_after: Timestamp) -> Self {
        Self { not_after, ..self }
    }

    /// Signs these bytes with the key itself, as proof that this process holds it.
    ///
    /// # Errors
    /// The signer's.
    pub(super) fn sign(&self, message: &[u8]) -> Result<[u8; 64], signer::Error> {
        self.key.sign(message)
    }

    /// The signed checkpoint over a tree of this size and root.
    ///
    /// # Errors
    /// The signer's: it hangs, died or refuses. Nothing was signed.
    pub fn checkpoint(
        &self,
        size: u64,
        root: crate::domain::digest::Digest,
    ) -> Result<String, signer::Error> {
        let also = self.also.iter().filter(|also| also.public() != self.key.public());
        let signers: Vec<&dyn Signer> =
            std::iter::once(&self.key).chain(also).map(|signer| &**signer).collect();
        Checkpoint { origin: self.origin.clone(), size, root }.sign_by(&signers)
    }
}

/// The keys of a log with a stable key.
#[derive(Clone, Debug)]
pub struct LogKeys {
    /// Signs every checkpoint; the certificate is about this key.
    pub key: Arc<dyn Signer>,
    /// During a rotation: the old key, which signs too.
    pub also: Option<Arc<dyn Signer>>,
}
