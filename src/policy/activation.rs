//! The bundle in force: one pointer, swapped at once; a candidate that fails leaves the old one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::PolicyEngine;
use super::bundle::{Bundle, Unread};
use super::fault::Error;
use super::rego::RegoEngine;
use super::selftest;
use crate::crypto::keys::PublicKey;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// Whose signature puts a bundle in force. Kept apart from the signers of manifests.
#[derive(Debug, Clone)]
pub struct Trust {
    /// The keys.
    pub keys: Vec<PublicKey>,
    /// How many of them must have signed; 0 counts as 1.
    pub threshold: usize,
}

/// A bundle that may be put in force.
#[derive(Debug)]
pub struct Candidate {
    /// The bundle.
    pub bundle: Bundle,
    /// It, ready to decide.
    pub engine: Arc<dyn PolicyEngine>,
    /// Ids of the trusted keys that signed.
    pub signers: Vec<String>,
}

/// The bundle that is, or last was, in force; the next one is compared with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: semver::Version,
    /// Its digest.
    pub digest: Digest,
}

/// Loads a signed bundle: signature first, then validity, then a trial in a child, then its rules.
///
/// `exe` is the program that answers `policy self-test` (`/proc/self/exe`). Blocks up to ten
/// seconds.
///
/// # Errors
/// See [`Error`]. This function puts no bundle in force.
pub fn load_signed(
    dir: &Path,
    trust: &Trust,
    now: Timestamp,
    exe: &Path,
    deadline: Duration,
) -> Result<Candidate, Error> {
    let unread = Unread::read(dir).map_err(Error::Load)?;
    let signed = unread.verify_signature(&trust.keys, trust.threshold)?;
    unread.check_validity(now)?;
    let tried = selftest::run_in_child(exe, dir)?;
    let bundle = unread.check().map_err(Error::Load)?;
    if tried != bundle.digest() {
        return Err(Error::SelfTest("the directory changed while it was tried".to_owned()));
    }
    let engine = Arc::new(RegoEngine::new(&bundle, deadline)?);
    Ok(Candidate { bundle, engine, signers: signed.signers })
}

/// Whether `next` may replace the bundle in force; false when it is the same bundle.
///
/// # Errors
/// Another name, an older version, or the same version with other bytes; the old one stays.
pub fn follows(next: &Bundle, active: &InForce) -> Result<bool, Error> {
    if next.digest() == active.digest {
        return Ok(false);
    }
    if next.name() != active.name {
        let (found, active) = (next.name().to_owned(), active.name.clone());
        return Err(Error::OtherName { found, active });
    }
    match next.version().cmp_precedence(&active.version) {
        std::cmp::Ordering::Greater => Ok(true),
        std::cmp::Ordering::Equal => {
            let (version, active) = (next.version().clone(), active.digest);
            Err(Error::Equivocation { version, active })
        }
        std::cmp::Ordering::Less => {
            let (found, active) = (next.version().clone(), active.version.clone());
            Err(Error::Rollback { found, active })
        }
    }
}
