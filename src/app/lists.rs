//! Which signed list of people counts: it must not be older than the newest this chain has
//! recorded, and must not have ended.
//!
//! The chain records a list before any approval counts by it. So an attacker cannot bring back a
//! removed person by putting the old file back, not even while no gate runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::checked::Checked;
use super::running::Running;
use super::versions::{self, Versions};
use super::{PAUSE, approvers as people};
use crate::approval::Approvers;
use crate::approval::approvers::{self, Purpose};
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::time::Timestamp;
use crate::enforce::{ApprovalRefusal, Breaker, Stops};
use crate::evidence;
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
    #[error("`{path}`: {key} approves calls too: break-glass has keys of its own")]
    Shared { path: String, key: String },
    /// It may not follow the one on the chain.
    #[error(transparent)]
    StaleList(#[from] versions::StaleList),
    /// Its time is over.
    #[error("the list has ended at {0}: sign one with a higher `version` and a later `expires`")]
    Ended(Timestamp),
    /// It is not on the chain yet.
    #[error("the list was changed in this moment: say it again")]
    Changed,
    /// It cannot be kept for evidence.
    #[error(transparent)]
    Unkept(#[from] evidence::Error),
    /// A key that may sign it cannot be used.
    #[error("{0}")]
    Keys(String),
    /// None is configured, where one is needed to take orders.
    #[error(
        "no list says who the operators are: set `approvals.signers`, and give operators' keys the role \
         `operator` and the namespace `wicketgate-order`"
    )]
    Unset,
}

/// What is known of the lists of one purpose.
pub(super) struct KnownLists {
    purpose: Purpose,
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

debug_by!(KnownLists: purpose);

impl KnownLists {
    pub(super) fn of(purpose: Purpose, checked: &Checked, ledger: &Ledger) -> Self {
        Self {
            purpose,
            versions: Arc::clone(&checked.versions),
            stops: Arc::clone(&checked.stops),
            clock: Arc::clone(&checked.clock),
            ledger: ledger.clone(),
        }
    }

    /// A list without the keys that an operator has stopped.
    pub(super) fn trusted(&self, list: Approvers) -> Approvers {
        let now = self.clock.now();
        let keys = list.signers().iter().map(|signer| signer.key.fingerprint());
        let stopped: Vec<String> = keys.filter(|key| self.stops.has_key(key, now)).collect();
        list.without(stopped)
    }

    /// Refuses a list that may not follow the one on the chain, and one that has ended.
    pub(super) fn check(&self, list: &Approvers) -> Result<(), Error> {
        self.versions.check_list(self.purpose, list)?;
        ended(list, self.clock.now())
    }

    /// As [`Self::check`]; and refuses a list that is not on the chain.
    pub(super) fn counts(&self, list: &Approvers) -> Result<(), Error> {
        self.check(list)?;
        if self.versions.has_list(self.purpose, list) { Ok(()) } else { Err(Error::Changed) }
    }

    /// Puts a list on the chain that may follow, and is not there.
    pub(super) async fn bind(&self, list: &Approvers) -> Result<(), ApprovalRefusal> {
        if self.check(list).is_err() || self.versions.has_list(self.purpose, list) {
            // The check of an approval reports what is wrong with it.
            return Ok(());
        }
        let unwritten =
            |message: String| ApprovalRefusal { detail: "ledger.unavailable".into(), message };
        let edition = list.edition();
        let bound = SignersBound {
            digest: TaggedDigest(*list.digest()),
            expires: edition.expires.map(|at| at.to_string().into()),
            list: self.purpose.list(),
            version: edition.version.into(),
        };
        let recorded = self.ledger.record(DraftWithPayloads::bare(Draft::of(bound))).await;
        recorded.map_err(|error| unwritten(error.to_string()))?;
        self.versions.keep_list(self.purpose, list);
        Ok(())
    }
}
