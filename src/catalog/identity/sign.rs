//! Signing a manifest, and accepting a signed one: exact bytes, trusted keys, its time.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::Error;
use super::instructions::InstructionScope;
use super::manifest::Manifest;
use super::{schema, templates};
use crate::crypto::dsse;
use crate::crypto::files::beside;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;

/// DSSE payload type of a manifest.
pub const PAYLOAD_TYPE: &str = "application/vnd.wicketgate.manifest.v1+yaml";

/// Where the envelope of a manifest lies: `agent.yaml` → `agent.yaml.sig.json`.
pub fn envelope_path(manifest: &Path) -> PathBuf {
    beside(manifest, ".sig.json")
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Io { path: path.display().to_string(), source })
}

impl Manifest {
    /// Reads `agent.yaml` and the envelope beside it: signed by `threshold` distinct trusted keys
    /// over the exact file bytes, well formed, and within its time. Its status is not looked at
    /// (`bind` does). Its templates are read from the directory beside it.
    ///
    /// # Errors
    /// See [`Error::code`].
    pub fn load(
        path: &Path,
        trusted: &[PublicKey],
        threshold: usize,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let yaml = read(path)?;
        let envelope_file = envelope_path(path);
        let envelope = read(&envelope_file).map_err(|_| Error::Signature {
            path: envelope_file.display().to_string(),
            why: format!(
                "`{}` is not signed: there is no readable envelope beside it",
                path.display()
            ),
        })?;
        let shown = path.display().to_string();
        let mut manifest = Self::verify(&shown, &yaml, envelope, trusted, threshold, now)?;
        manifest.load_templates(path)?;
        Ok(manifest)
    }

    /// Reads the templates that it names from the directory beside `path`, its file. Their digests
    /// are in the signed text, so they need no signatures.
    ///
    /// # Errors
    /// `manifest.template`: one is not there, has other bytes, or is no template.
    pub fn load_templates(&mut self, path: &Path) -> Result<(), Error> {
        let entries = self.instructions.iter();
        let named = entries.filter(|entry| entry.scope == InstructionScope::Template);
        self.templates = templates::beside(path, named.map(|entry| &entry.sha256))?;
        Ok(())
    }

    /// As [`Self::load`], from bytes and without templates. `file` is only for messages.
    ///
    /// # Errors
    /// See [`Error::code`].
    pub fn verify(
        file: &str,
        yaml: &[u8],
        envelope: Vec<u8>,
        trusted: &[PublicKey],
        threshold: usize,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let envelope_name = format!("{file}.sig.json");
        one_algorithm(&envelope, &envelope_name)?;
        let opened = dsse::open(&envelope, PAYLOAD_TYPE, trusted, threshold)
            .map_err(|e| refused(e, &envelope_name, threshold))?;
        if opened.payload != yaml {
            let why = format!("they are over other bytes than `{file}` holds now");
            return Err(Error::Signature { path: envelope_name, why });
        }
        // Nothing of the text is looked at before its signature holds.
        let mut manifest = schema::read(yaml, file)?;
        if now < manifest.not_before {
            let at = manifest.not_before.to_string();
            return Err(Error::NotYetValid { path: file.to_owned(), at });
        }
        if now >= manifest.not_after {
            let at = manifest.not_after.to_string();
            return Err(Error::Expired { path: file.to_owned(), at });
        }
        manifest.envelope = envelope;
        manifest.signers = opened.signers;
        Ok(manifest)
    }
}

/// The envelope of these manifest bytes by these keys.
///
/// # Errors
/// The bytes are not a manifest that this build would accept; expiry aside.
pub fn sign(yaml: &[u8], file: &str, keys: &[&SecretKey]) -> Result<Vec<u8>, Error> {
    schema::read(yaml, file)?;
    Ok(dsse::sign(PAYLOAD_TYPE, yaml, keys))
}

/// Whether this manifest may follow the newest version of the same agent that was in force.
///
/// # Errors
/// `manifest.downgrade` for an older version; `manifest.equivocation` for the same version (build
/// metadata aside) with other bytes.
pub fn succeeds(
    previous: Option<(&semver::Version, &Digest)>,
    candidate: &Manifest,
) -> Result<(), Error> {
    let Some((version, digest)) = previous else { return Ok(()) };
    match candidate.version.cmp_precedence(version) {
        std::cmp::Ordering::Greater => Ok(()),
        std::cmp::Ordering::Equal if candidate.digest == *digest => Ok(()),
        std::cmp::Ordering::Equal => Err(Error::Equivocation {
            name: candidate.name.clone(),
            version: candidate.version.to_string(),
        }),
        std::cmp::Ordering::Less => Err(Error::Downgrade {
            name: candidate.name.clone(),
            version: candidate.version.to_string(),
            previous: version.to_string(),
        }),
    }
}

/// Ed25519 is the only algorithm, so an envelope may not name one or contain a signature of another
/// size.
fn one_algorithm(envelope: &[u8], path: &str) -> Result<(), Error> {
    let refuse = |why: String| Err(Error::Algorithm { path: path.to_owned(), why });
    let Ok(envelope) = Json::parse(envelope, &Limits::FILE) else {
        return Ok(()); // `dsse::open` says what is wrong with it
    };
    let signatures = envelope.get("signatures").and_then(Json::as_array).unwrap_or_default();
    for value in std::iter::once(&envelope).chain(signatures) {
        for name in ["alg", "algorithm", "protected", "header"] {
            if value.get(name).is_some() {
                return refuse(format!("`{name}` names an algorithm; only ed25519 exists here"));
            }
        }
    }
    for signature in signatures {
        let sig = signature.get("sig").and_then(Json::as_str).map(|sig| STANDARD.decode(sig));
        if let Some(Ok(bytes)) = sig
            && bytes.len() != 64
        {
            return refuse(format!("a signature of {} bytes is not ed25519", bytes.len()));
        }
    }
    Ok(())
}

fn refused(error: dsse::Error, path: &str, threshold: usize) -> Error {
    let path = path.to_owned();
    match error {
        // No trusted signature at all is "not signed", not "too few".
        dsse::Error::Threshold { found, required } if found > 0 => {
            Error::Threshold { path, found, required }
        }
        dsse::Error::BadSignature(_) if threshold > 1 => {
            Error::Threshold { path, found: threshold.saturating_sub(1), required: threshold }
        }
        dsse::Error::Threshold { .. } => {
            Error::Signature { path, why: "none is by a trusted key".into() }
        }
        error @ (dsse::Error::Json(_)
        | dsse::Error::Shape(_)
        | dsse::Error::Base64(_)
        | dsse::Error::Type { .. }
        | dsse::Error::BadSignature(_)) => Error::Signature { path, why: error.to_string() },
    }
}
