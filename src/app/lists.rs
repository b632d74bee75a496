//! Which signed list of people counts: it must not be older than the newest this chain has
//! recorded, and must not have ended.
//!
//! The chain records a list before any approval counts by it. So an attacker cannot bring back a
//! removed person by putting the old file back, not even while no gate runs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::checked::Checked;
use super::running::Running;
use super::versions::{self, Versions};
use super::{PAUSE, approvers as people};
use crate::approval::approvers::{self, Purpose};
use crate::approval::{ApprovalRefusal, Approvers, PasskeyTerms, RefusalReason};
use crate::clock::Clock;
use crate::config::Config;
use crate::crypto::keys::PublicKey;
use crate::domain::time::Timestamp;
use crate::enforce::{Breaker, Stops};
use crate::evidence;
use crate::evidence::artifacts::{Artifacts, SignedList};
use crate::ledger::Ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::chain::SignersBound;
use crate::record::debug_by;
use crate::record::{Draft, TaggedDigest};

/// Why a signed list of people does not count.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The list or its envelope cannot be read.
    #[error("`{path}`: {source}")]
    Unread { path: String, source: std::io::Error },
    /// The list is malformed or lacks signatures.
    #[error("`{path}`: {source}")]
    Unsigned { path: String, source: approvers::Error },
    /// One of its keys approves calls.
    #[error("`{path}`: {key} also approves calls: break-glass needs separate keys")]
    Shared { path: String, key: String },
    /// It may not follow the one on the chain.
    #[error(transparent)]
    StaleList(#[from] versions::StaleList),
    /// Its time is over.
    #[error("the list expired at {0}: sign one with a higher `version` and a later `expires`")]
    Ended(Timestamp),
    /// It is not on the chain yet.
    #[error("the list changed while the request was handled: repeat the request")]
    Changed,
    /// It cannot be kept for evidence.
    #[error(transparent)]
    Unkept(#[from] evidence::Error),
    /// A key that may sign it cannot be used.
    #[error("{0}")]
    Keys(String),
    /// None is configured, where one is needed to take orders.
    #[error("{}", RefusalReason::NoOperators)]
    Unset,
}

/// A signed list in its file, and who may sign it.
#[derive(Clone, Debug)]
pub(super) struct ListFile {
    pub purpose: Purpose,
    pub file: PathBuf,
    pub trusted: Vec<PublicKey>,
    pub threshold: usize,
    /// The list of approvers, if this list has keys of its own.
    pub apart_from: Option<PathBuf>,
    /// Which of its passkeys count.
    pub passkeys: PasskeyTerms,
}

/// A signed list of this gate, which is read anew for each statement and kept for evidence.
pub(super) struct KeptList {
    pub file: ListFile,
    artifacts: Artifacts,
    versions: Arc<Versions>,
    stops: Arc<Stops>,
    clock: Arc<dyn Clock>,
    ledger: Ledger,
}

/// The names of the lists that a configuration has.
pub(super) fn configured(config: &Config) -> BTreeSet<&'static str> {
    let approving = config.approvals.signers.as_ref().map(|_| Purpose::Approval.list().as_str());
    let breaking = config.trust.break_glass.as_ref().map(|_| Purpose::BreakGlass.list().as_str());
    approving.into_iter().chain(breaking).collect()
}

/// Records the lists of people in the chain, as far as they count.
pub(super) async fn bind(
    checked: &Checked,
    running: &Running,
    breaker: Option<&dyn Breaker>,
) -> Result<(), super::Error> {
    let list = people::signed(checked, &checked.live(), &running.ledger);
    loop {
        let mut bound = Ok(());
        if let Some(list) = &list {
            bound = list.bind().await;
        }
        if let (Ok(()), Some(breaker)) = (&bound, breaker) {
            bound = breaker.ready().await;
        }
        let Err(why) = bound else { return Ok(()) };
        if running.stop.is_cancelled() {
            return Err(super::System::List(why).into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Refuses a list that has ended.
pub(super) fn ended(list: &Approvers, now: Timestamp) -> Result<(), Error> {
    match list.edition().expires {
        Some(end) if end <= now => Err(Error::Ended(end)),
        Some(_) | None => Ok(()),
    }
}

impl ListFile {
    /// The list as it is now, and its text with its envelope.
    pub(super) fn read(&self) -> Result<(Approvers, SignedList), Error> {
        let (list, signed) =
            people::read(self.purpose, &self.file, (&self.trusted, self.threshold))?;
        // An unreadable list of approvers counts as empty.
        let others = self.apart_from.as_ref().and_then(|file| std::fs::read(file).ok());
        if let Some(others) = others.and_then(|text| Approvers::parse(&text).ok()) {
            let mut keys = list.signers().iter().map(|signer| &signer.key);
            if let Some(shared) = keys.find(|key| others.signer(key).is_some()) {
                let (path, key) = (self.file.display().to_string(), shared.fingerprint());
                return Err(Error::Shared { path, key });
            }
        }
        Ok((list.admitting(self.passkeys.clone()), signed))
    }
}

debug_by!(KeptList: file);

impl KeptList {
    pub(super) fn of(file: ListFile, checked: &Checked, ledger: &Ledger) -> Self {
        Self {
            file,
            artifacts: checked.artifacts.clone(),
            versions: Arc::clone(&checked.versions),
            stops: Arc::clone(&checked.stops),
            clock: Arc::clone(&checked.clock),
            ledger: ledger.clone(),
        }
    }

    /// The list as it is now, without the keys that an operator has stopped; it is kept for evidence.
    pub(super) fn open(&self) -> Result<Approvers, Error> {
        let (list, (text, envelope)) = self.file.read()?;
        self.check(&list)?;
        self.artifacts.put_approvers(list.digest(), &text, &envelope)?;
        let now = self.clock.now();
        let keys = list.signers().iter().map(|signer| signer.key.fingerprint());
        let stopped: Vec<String> = keys.filter(|key| self.stops.has_key(key, now)).collect();
        Ok(list.without(stopped))
    }

    /// As [`Self::open`], once the chain has recorded the list.
    pub(super) fn counting(&self) -> Result<Approvers, Error> {
        let list = self.open()?;
        if self.versions.has_list(self.file.purpose, &list) {
            Ok(list)
        } else {
            Err(Error::Changed)
        }
    }

    /// As [`Self::counting`], for statements of this purpose.
    pub(super) fn current(&self, purpose: Purpose) -> Result<Approvers, ApprovalRefusal> {
        self.counting().map_err(|why| ApprovalRefusal::unusable(purpose, why))
    }

    /// Refuses a list that may not follow the one on the chain, and one that has ended.
    fn check(&self, list: &Approvers) -> Result<(), Error> {
        self.versions.check_list(self.file.purpose, list)?;
        ended(list, self.clock.now())
    }

    /// Records the list as it is now on the chain, if it may follow and is not there. By a list that
    /// cannot be used no signature counts; the check of a statement reports that.
    pub(super) async fn bind(&self) -> Result<(), ApprovalRefusal> {
        let purpose = self.file.purpose;
        let Ok((list, _)) = self.file.read() else { return Ok(()) };
        if self.check(&list).is_err() || self.versions.has_list(purpose, &list) {
            return Ok(());
        }
        let edition = list.edition();
        let bound = SignersBound {
            digest: TaggedDigest(*list.digest()),
            expires: edition.expires.map(|at| at.to_string().into()),
            list: purpose.list(),
            version: edition.version.into(),
        };
        let recorded = self.ledger.record(DraftWithPayloads::bare(Draft::of(bound))).await;
        recorded.map_err(|error| ApprovalRefusal::unrecorded(purpose, error))?;
        self.versions.keep_list(purpose, &list);
        Ok(())
    }
}
