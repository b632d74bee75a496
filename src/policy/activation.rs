//! The bundle in force: one pointer, swapped at once; a candidate that fails leaves the old one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;

use super::PolicyEngine;
use super::bundle::{Bundle, Unread};
use super::fault::Error;
use super::rego::RegoEngine;
use super::selftest;
use crate::crypto::keys::PublicKey;
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

/// The bundle in force, if any. Without one every call is denied.
#[derive(Debug, Default)]
pub struct ActivePolicy {
    current: ArcSwapOption<Candidate>,
}

/// Loads a signed bundle: signature first, then validity, then a trial in a child, then its rules.
///
/// `exe` is the program that answers `policy self-test` (`/proc/self/exe`). Blocks up to ten seconds.
///
/// # Errors
/// See [`Error`]; nothing is put in force by this.
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

impl ActivePolicy {
    /// Nothing in force: every call is denied.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The bundle in force. A decision keeps what it got; it does not ask twice.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Candidate>> {
        self.current.load_full()
    }

    /// Puts a candidate in force, unless it would go back behind the one that is.
    ///
    /// Gives false when exactly this bundle already is in force. Decisions that begin after this
    /// returns are made by the candidate.
    ///
    /// # Errors
    /// Another name, an older version, or the same version with other bytes; the old one stays.
    pub fn activate(&self, candidate: Candidate) -> Result<bool, Error> {
        let candidate = Arc::new(candidate);
        loop {
            let active = self.current.load();
            if let Some(active) = active.as_deref()
                && !follows(&candidate.bundle, &active.bundle)?
            {
                return Ok(false);
            }
            let seen = self.current.compare_and_swap(&*active, Some(Arc::clone(&candidate)));
            let same = match (&*seen, &*active) {
                (Some(seen), Some(active)) => Arc::ptr_eq(seen, active),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if same {
                return Ok(true);
            }
        }
    }
}

/// Whether `next` may replace `active`; false when it is the same bundle.
fn follows(next: &Bundle, active: &Bundle) -> Result<bool, Error> {
    if next.digest() == active.digest() {
        return Ok(false);
    }
    if next.name() != active.name() {
        let (found, active) = (next.name().to_owned(), active.name().to_owned());
        return Err(Error::OtherName { found, active });
    }
    match next.version().cmp_precedence(active.version()) {
        std::cmp::Ordering::Greater => Ok(true),
        std::cmp::Ordering::Equal => {
            let (version, active) = (next.version().clone(), active.digest());
            Err(Error::Equivocation { version, active })
        }
        std::cmp::Ordering::Less => {
            let (found, active) = (next.version().clone(), active.version().clone());
            Err(Error::Rollback { found, active })
        }
    }
}
