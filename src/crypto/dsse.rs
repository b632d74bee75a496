//! DSSE v1 envelopes (secure-systems-lab/dsse): a payload, its type, and signatures over both.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::keys::{PublicKey, SecretKey};
use super::signer::{self, Signer};
use crate::domain::canonical;
use crate::domain::json::{self, Json, Limits};
use crate::domain::members::Mismatch;

/// Why an envelope is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not a strict JSON envelope.
    #[error("envelope: {0}")]
    Json(#[from] json::Error),
    /// A member is missing, of the wrong type, or unknown.
    #[error("envelope: {0}")]
    Shape(#[from] Mismatch),
    /// A payload or a signature that is not base64.
    #[error("envelope: {0}")]
    Base64(&'static str),
    /// The payload is of another type.
    #[error("envelope: payload type `{found}`, expected `{expected}`")]
    Type {
        /// The type found.
        found: String,
        /// The type expected.
        expected: String,
    },
    /// Too few of the trusted keys signed.
    #[error("envelope: {found} of the {required} required trusted signatures")]
    Threshold {
        /// Distinct trusted keys with a valid signature.
        found: usize,
        /// How many are required.
        required: usize,
    },
    /// A trusted key's signature is invalid.
    #[error("envelope: the signature of trusted key `{0}` does not verify")]
    BadSignature(String),
}

/// The bytes a DSSE signature covers (the specification's PAE).
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out =
        format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out
}

/// Signs a payload with each of these keys; the envelope as canonical JSON.
pub fn sign(payload_type: &str, payload: &[u8], keys: &[&SecretKey]) -> Vec<u8> {
    let covered = pae(payload_type, payload);
    let signatures = keys.iter().map(|key| Signature::of(&key.public(), key.sign(&covered)));
    Envelope::of(payload_type, payload, signatures.collect()).bytes()
}

/// As [`sign`], with a key that may be outside this process.
///
/// # Errors
/// The signer's.
pub fn sign_by(
    payload_type: &str,
    payload: &[u8],
    signer: &dyn Signer,
) -> Result<Vec<u8>, signer::Error> {
    let signature = signer.sign(&pae(payload_type, payload))?;
    let signatures = vec![Signature::of(&signer.public(), signature)];
    Ok(Envelope::of(payload_type, payload, signatures).bytes())
}

/// An envelope without further members.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<Signature>,
}

/// One signature; untrusted keys may have any members.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    #[serde(default)]
    keyid: String,
    #[serde(default)]
    sig: String,
}

impl Signature {
    fn of(key: &PublicKey, signature: [u8; 64]) -> Self {
        Self { keyid: key.id(), sig: STANDARD.encode(signature) }
    }
}

impl Envelope {
    fn of(payload_type: &str, payload: &[u8], signatures: Vec<Signature>) -> Self {
        let payload = STANDARD.encode(payload);
        Self { payload, payload_type: payload_type.to_owned(), signatures }
    }

    fn bytes(&self) -> Vec<u8> {
        canonical::bytes(&Json::of(self))
    }
}

/// A payload that enough trusted keys signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The exact bytes that were signed.
    pub payload: Vec<u8>,
    /// Ids of the distinct trusted keys that signed, sorted.
    pub signers: Vec<String>,
}

/// Opens an envelope: exactly this payload type, at least `threshold` distinct trusted keys.
///
/// A key counts once, whatever the envelope calls it. Signatures by unknown keys are ignored. An
/// invalid signature that names a trusted key invalidates the envelope.
///
/// # Errors
/// See [`Error`].
pub fn open(
    envelope: &[u8],
    payload_type: &str,
    trusted: &[PublicKey],
    threshold: usize,
) -> Result<Verified, Error> {
    let envelope: Envelope = Json::parse(envelope, &Limits::FILE)?.read()?;
    if envelope.payload_type != payload_type {
        let expected = payload_type.to_owned();
        return Err(Error::Type { found: envelope.payload_type, expected });
    }
    let payload = STANDARD.decode(envelope.payload);
    let payload = payload.map_err(|_| Error::Base64("`payload` is not base64"))?;
    let covered = pae(payload_type, &payload);
    let mut signers = std::collections::BTreeSet::new();
    for signature in &envelope.signatures {
        if let Some(signer) = check(signature, &covered, trusted)? {
            signers.insert(signer);
        }
    }
    if signers.len() < threshold.max(1) {
        return Err(Error::Threshold { found: signers.len(), required: threshold.max(1) });
    }
    Ok(Verified { payload, signers: signers.into_iter().collect() })
}

/// Whether this is an envelope of these bytes, by any signer.
#[must_use]
pub fn wraps(envelope: &[u8], payload: &[u8]) -> bool {
    let read = Json::parse(envelope, &Limits::FILE).ok();
    let read = read.and_then(|json| json.read::<Envelope>().ok());
    let inside = read.and_then(|envelope| STANDARD.decode(envelope.payload).ok());
    inside.as_deref() == Some(payload)
}

/// The id of the trusted key that made this signature, if any.
fn check(
    signature: &Signature,
    covered: &[u8],
    trusted: &[PublicKey],
) -> Result<Option<String>, Error> {
    let Some(key) = trusted.iter().find(|key| key.id() == signature.keyid) else {
        return Ok(None);
    };
    let bytes = STANDARD.decode(&signature.sig).ok();
    let bytes = bytes
        .and_then(|sig| <[u8; 64]>::try_from(sig).ok())
        .ok_or(Error::Base64("`sig` is not 64 bytes in base64"))?;
    if key.verifies(covered, &bytes) {
        Ok(Some(key.id()))
    } else {
        Err(Error::BadSignature(key.id()))
    }
}
