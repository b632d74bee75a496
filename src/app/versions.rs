//! The newest version of each manifest, bundle and list of people that was in force: the gate
//! refuses older ones, and the same version with other bytes. It reads them from the chain at the
//! opening: no other file decides what may follow.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::approval::Approvers;
use crate::approval::approvers::Purpose;
use crate::domain::digest::Digest;
use crate::identity;
use crate::identity::callers::Callers;
use crate::ledger::in_force::{Activated, Marks};
use crate::ledger::{self, Ledger};
use crate::policy::activation::{self, InForce};
use crate::policy::bundle::Bundle;

/// A list of people that may not follow the newest one of its purpose.
#[derive(Debug, thiserror::Error)]
#[error(
    "approvers.version: version {version} of the list is not higher than version {newest}, which was in force here: put \
     `# wicketgate: version={}` before its first key and sign it again",
    .newest.saturating_add(1)
)]
pub(crate) struct StaleList {
    version: u64,
    newest: u64,
}

/// Why a bundle may not follow the one that was last in force.
#[derive(Debug, thiserror::Error)]
pub(super) enum SuccessionError {
    /// The chain names no version.
    #[error("the version in force is none")]
    NoVersion,
    /// It is older, or another one of the same version.
    #[error("{}{error}; {}", code(.error), .error.next())]
    Bundle {
        /// The policy's error.
        error: crate::policy::fault::Error,
    },
}

/// The code of a bundle that may not follow, before its text.
fn code(error: &crate::policy::fault::Error) -> String {
    error.succession().map(|code| format!("{code}: ")).unwrap_or_default()
}

/// The marks read from the chain; empty until it is open.
#[derive(Debug, Default)]
pub(super) struct Versions(Mutex<Marks>);

impl Versions {
    /// Marks that another reader read from the chain.
    pub const fn of(marks: Marks) -> Self {
        Self(Mutex::new(marks))
    }

    /// Reads the chain's marks for the configured agents.
    pub async fn read(
        &self,
        ledger: &Ledger,
        callers: &Callers,
        lists: &BTreeSet<&str>,
    ) -> Result<(), ledger::Error> {
        let agents: BTreeSet<&str> =
            callers.manifests().iter().map(|manifest| manifest.name.as_str()).collect();
        let marks = ledger.marks(&agents, lists).await?;
        *self.0.lock() = marks;
        Ok(())
    }

    /// Refuses a manifest older than the newest one, or equal in version and not in bytes.
    pub fn check(&self, callers: &Callers) -> Result<(), identity::Error> {
        let marks = self.0.lock();
        for manifest in callers.manifests() {
            let previous = marks.manifests.get(&manifest.name).map(|(v, digest)| (v, digest));
            identity::succeeds(previous, manifest)?;
        }
        Ok(())
    }

    /// Remembers the manifests that are in force now, and on the chain.
    pub fn keep(&self, callers: &Callers) {
        let mut marks = self.0.lock();
        for manifest in callers.manifests() {
            let newest = (manifest.version.clone(), manifest.digest);
            marks.manifests.insert(manifest.name.clone(), newest);
        }
    }

    /// Refuses a list of people with a lower version than the newest of its purpose, or the same version and other
    /// bytes.
    pub fn check_list(&self, purpose: Purpose, list: &Approvers) -> Result<(), StaleList> {
        let marks = self.0.lock();
        let Some((newest, digest)) = marks.lists.get(purpose.list().as_str()) else {
            return Ok(());
        };
        let version = list.edition().version;
        if version > *newest || (version == *newest && digest == list.digest()) {
            return Ok(());
        }
        Err(StaleList { version, newest: *newest })
    }

    /// Whether just this list is the newest of its purpose, and on the chain.
    pub fn has_list(&self, purpose: Purpose, list: &Approvers) -> bool {
        let marks = self.0.lock();
        let is = |(version, digest): &(u64, Digest)| {
            *version == list.edition().version && digest == list.digest()
        };
        marks.lists.get(purpose.list().as_str()).is_some_and(is)
    }

    /// Remembers a list that is on the chain now.
    pub fn keep_list(&self, purpose: Purpose, list: &Approvers) {
        let newest = (list.edition().version, *list.digest());
        self.0.lock().lists.insert(purpose.list().to_string(), newest);
    }

    /// Refuses a bundle that may not follow the one that was last in force on this chain.
    pub fn check_bundle(&self, bundle: &Bundle) -> Result<(), SuccessionError> {
        let marks = self.0.lock();
        let Some(last) = &marks.bundle else { return Ok(()) };
        let version =
            semver::Version::parse(&last.version).map_err(|_| SuccessionError::NoVersion)?;
        let active = InForce { name: last.name.clone(), version, digest: last.bundle };
        match activation::follows(bundle, &active) {
            Ok(_) => Ok(()),
            Err(error) => Err(SuccessionError::Bundle { error }),
        }
    }

    /// Remembers the bundle that is in force now, and on the chain.
    pub fn keep_bundle(&self, bundle: &Bundle) {
        let (name, version) = (bundle.name().to_owned(), bundle.version().to_string());
        self.0.lock().bundle = Some(Activated { bundle: bundle.digest(), name, version });
    }
}
