//! Signing a lock, and accepting a signed one: exact bytes, trusted keys.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BYTES_MAX, Error, Lock};
use crate::crypto::dsse;
use crate::crypto::files::beside;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::domain::digest::Digest;

/// DSSE payload type of a lock.
pub const PAYLOAD_TYPE: &str = "application/vnd.wicketgate.tools-lock.v1+json";

/// Where the envelope of a lock lies: `tools.lock` → `tools.lock.sig.json`.
pub fn envelope_path(lock: &Path) -> PathBuf {
    beside(lock, ".sig.json")
}

/// The envelope of these bytes by these keys.
///
/// # Errors
/// The bytes are not a lock.
pub fn sign(text: &[u8], path: &str, keys: &[&SecretKey]) -> Result<Vec<u8>, Error> {
    Lock::read(text, path)?;
    Ok(dsse::sign(PAYLOAD_TYPE, text, keys))
}

/// A lock that a trusted key signed.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified {
    /// The lock.
    pub lock: Lock,
    /// Ids of the trusted keys that signed it, sorted; at least one.
    pub signers: Arc<[String]>,
    /// SHA-256 of its exact bytes.
    pub digest: Digest,
}

impl Verified {
    /// Reads a lock and the envelope beside it. `None` without a lock.
    ///
    /// # Errors
    /// There is one, and it does not count.
    pub fn load(path: &Path, trusted: &[PublicKey]) -> Result<Option<Self>, Error> {
        let Some(text) = read(path)? else { return Ok(None) };
        let shown = path.display().to_string();
        let envelope_file = envelope_path(path);
        let Some(envelope) = read(&envelope_file)? else {
            let why = format!("`{shown}` is not signed: there is no envelope beside it");
            return Err(Error::Signature { path: envelope_file.display().to_string(), why });
        };
        Self::open(&text, &envelope, trusted, &shown).map(Some)
    }

    /// As [`Self::load`], from bytes. `path` is for messages.
    ///
    /// # Errors
    /// The lock does not count.
    pub fn open(
        text: &[u8],
        envelope: &[u8],
        trusted: &[PublicKey],
        path: &str,
    ) -> Result<Self, Error> {
        let refused = |why: String| Error::Signature { path: format!("{path}.sig.json"), why };
        let opened =
            dsse::open(envelope, PAYLOAD_TYPE, trusted, 1).map_err(|error| match error {
                dsse::Error::Threshold { .. } => refused("none is by a trusted key".into()),
                error @ (dsse::Error::Json(_)
                | dsse::Error::Shape(_)
                | dsse::Error::Base64(_)
                | dsse::Error::Type { .. }
                | dsse::Error::BadSignature(_)) => refused(error.to_string()),
            })?;
        if opened.payload != text {
            return Err(refused(format!("they are over other bytes than `{path}` holds now")));
        }
        // Nothing of the text is looked at before its signature holds.
        let lock = Lock::read(text, path)?;
        Ok(Self { lock, signers: opened.signers.into(), digest: Digest::of(&[text]) })
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let failed = |e: std::io::Error| Error::Unreadable {
        path: path.display().to_string(),
        why: e.to_string(),
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let most = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX).saturating_mul(2);
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}
