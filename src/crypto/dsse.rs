//! DSSE v1 envelopes (secure-systems-lab/dsse): a payload, its type, and signatures over both.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::keys::{PublicKey, SecretKey};
use super::signer::{self, Signer};
use crate::domain::canonical;
use crate::domain::json::{self, Json, Limits};

/// Why an envelope does not hold.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not a strict JSON envelope.
    #[error("envelope: {0}")]
    Json(#[from] json::Error),
    /// A member is missing, of the wrong type, or unknown.
    #[error("envelope: {0}")]
    Shape(&'static str),
    /// The payload is of another type.
    #[error("envelope: payload type `{found}`, expected `{expected}`")]
    Type {
        /// What it says.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// Too few of the trusted keys signed.
    #[error("envelope: {found} of the {required} required trusted signatures")]
    Threshold {
        /// Distinct trusted keys whose signature holds.
        found: usize,
        /// How many are required.
        required: usize,
    },
    /// A trusted key's signature is there and does not hold.
    #[error("envelope: the signature of trusted key `{0}` does not verify")]
    BadSignature(String),
}

/// The bytes a DSSE signature covers (the specification's PAE).
#[must_use]
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out =
        format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out
}

/// Signs a payload with each of these keys; the envelope as canonical JSON.
#[must_use]
pub fn sign(payload_type: &str, payload: &[u8], keys: &[&SecretKey]) -> Vec<u8> {
    let covered = pae(payload_type, payload);
    let signatures: Vec<Json> = keys
        .iter()
        .map(|key| {
            Json::object([
                ("keyid", Json::from(key.public().id())),
                ("sig", Json::from(STANDARD.encode(key.sign(&covered)))),
            ])
        })
        .collect();
    canonical::bytes(&Json::object([
        ("payload", Json::from(STANDARD.encode(payload))),
        ("payloadType", Json::from(payload_type)),
        ("signatures", signatures.into()),
    ]))
}

/// As [`sign`], by one key that need not be in this process.
///
/// # Errors
/// The signer's.
pub fn sign_by(
    payload_type: &str,
    payload: &[u8],
    signer: &dyn Signer,
) -> Result<Vec<u8>, signer::Error> {
    let signature = Json::object([
        ("keyid", Json::from(signer.public().id())),
        ("sig", Json::from(STANDARD.encode(signer.sign(&pae(payload_type, payload))?))),
    ]);
    Ok(canonical::bytes(&Json::object([
        ("payload", Json::from(STANDARD.encode(payload))),
        ("payloadType", Json::from(payload_type)),
        ("signatures", Json::from(vec![signature])),
    ])))
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
/// A key counts once, whatever the envelope calls it. Signatures by unknown keys are passed over; one
/// that names a trusted key and does not hold refuses the envelope.
///
/// # Errors
/// See [`Error`].
pub fn open(
    envelope: &[u8],
    payload_type: &str,
    trusted: &[PublicKey],
    threshold: usize,
) -> Result<Verified, Error> {
    let envelope = Json::parse(envelope, &Limits::FILE)?;
    let members = envelope.as_object().ok_or(Error::Shape("not an object"))?;
    if members.keys().any(|k| !matches!(k.as_str(), "payload" | "payloadType" | "signatures")) {
        return Err(Error::Shape("unknown member"));
    }
    let text =
        |name, missing| envelope.get(name).and_then(Json::as_str).ok_or(Error::Shape(missing));
    let found = text("payloadType", "no `payloadType`")?;
    if found != payload_type {
        return Err(Error::Type { found: found.to_owned(), expected: payload_type.to_owned() });
    }
    let payload = STANDARD
        .decode(text("payload", "no `payload`")?)
        .map_err(|_| Error::Shape("`payload` is not base64"))?;
    let covered = pae(payload_type, &payload);
    let list = envelope.get("signatures").and_then(Json::as_array);
    let mut signers = std::collections::BTreeSet::new();
    for signature in list.ok_or(Error::Shape("no `signatures`"))? {
        if let Some(signer) = check(signature, &covered, trusted)? {
            signers.insert(signer);
        }
    }
    if signers.len() < threshold.max(1) {
        return Err(Error::Threshold { found: signers.len(), required: threshold.max(1) });
    }
    Ok(Verified { payload, signers: signers.into_iter().collect() })
}

/// Whether this is an envelope of these bytes, whoever signed it.
#[must_use]
pub fn wraps(envelope: &[u8], payload: &[u8]) -> bool {
    let Ok(read) = Json::parse(envelope, &Limits::FILE) else { return false };
    let known = |k: &String| matches!(k.as_str(), "payload" | "payloadType" | "signatures");
    let inside = read.get("payload").and_then(Json::as_str).and_then(|p| STANDARD.decode(p).ok());
    read.as_object().is_some_and(|members| members.len() == 3 && members.keys().all(known))
        && inside.as_deref() == Some(payload)
}

/// The id of the trusted key that made this signature, if one did.
fn check(signature: &Json, covered: &[u8], trusted: &[PublicKey]) -> Result<Option<String>, Error> {
    let members = signature.as_object().ok_or(Error::Shape("a signature is not an object"))?;
    if members.keys().any(|k| !matches!(k.as_str(), "keyid" | "sig")) {
        return Err(Error::Shape("unknown member in a signature"));
    }
    let keyid = signature.get("keyid").and_then(Json::as_str).unwrap_or_default();
    let Some(key) = trusted.iter().find(|key| key.id() == keyid) else {
        return Ok(None);
    };
    let bytes = signature
        .get("sig")
        .and_then(Json::as_str)
        .and_then(|sig| STANDARD.decode(sig).ok())
        .and_then(|sig| <[u8; 64]>::try_from(sig).ok())
        .ok_or(Error::Shape("`sig` is not 64 bytes in base64"))?;
    if key.verifies(covered, &bytes) {
        Ok(Some(key.id()))
    } else {
        Err(Error::BadSignature(key.id()))
    }
}
