//! Which signed list of people counts: none that is older than the newest this chain has had, and none that has ended.
//!
//! A list is on the chain before anybody's word counts by it, so that whoever took a person off a list cannot be undone
//! by putting the old file back, not even while no gate runs.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use super::checked::Checked;
use super::running::Running;
use super::versions::Versions;
use super::{Error, PAUSE, approvers};
use crate::approval::Approvers;
use crate::approval::approvers::Purpose;
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::time::Timestamp;
use crate::enforce::{Breaker, Refused, Road};

/// What is known of the lists of one purpose.
pub(super) struct Known {
    purpose: Purpose,
    versions: Arc<Versions>,
    clock: Arc<dyn Clock>,
    road: Weak<Road>,
}

/// The names of the lists that a configuration has.
pub(super) fn configured(config: &Config) -> BTreeSet<&'static str> {
    let approving = config.approvals.signers.as_ref().map(|_| Purpose::Approval.list().as_str());
    let breaking = config.trust.break_glass.as_ref().map(|_| Purpose::BreakGlass.list().as_str());
    approving.into_iter().chain(breaking).collect()
}

/// Has the lists of people on the chain, those that may be there.
pub(super) async fn bind(
    checked: &Checked,
    running: &Running,
    road: &Arc<Road>,
    breaker: Option<&dyn Breaker>,
) -> Result<(), Error> {
    let list = approvers::signed(checked, &checked.live(), road);
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
            return Err(Error::System(why.message));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Refuses a list that has ended.
pub(super) fn ended(list: &Approvers, now: Timestamp) -> Result<(), String> {
    match list.edition().expires {
        Some(end) if end <= now => Err(format!(
            "the list has ended at {end}: sign one with a higher `version` and a later `expires`"
        )),
        Some(_) | None => Ok(()),
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

impl Known {
    pub(super) fn of(purpose: Purpose, checked: &Checked, road: &Arc<Road>) -> Self {
        let (versions, clock) = (Arc::clone(&checked.versions), Arc::clone(&checked.clock));
        Self { purpose, versions, clock, road: Arc::downgrade(road) }
    }

    /// Refuses a list that may not follow the one on the chain, and one that has ended.
    pub(super) fn check(&self, list: &Approvers) -> Result<(), String> {
        self.versions.check_list(self.purpose, list)?;
        ended(list, self.clock.now())
    }

    /// As [`Self::check`]; and refuses a list that is not on the chain.
    pub(super) fn counts(&self, list: &Approvers) -> Result<(), String> {
        self.check(list)?;
        if self.versions.has_list(self.purpose, list) {
            Ok(())
        } else {
            Err("the list was changed in this moment: say it again".to_owned())
        }
    }

    /// Puts a list on the chain that may follow, and is not there.
    pub(super) async fn bind(&self, list: &Approvers) -> Result<(), Refused> {
        if self.check(list).is_err() || self.versions.has_list(self.purpose, list) {
            // What is wrong with it is said by whoever goes by it.
            return Ok(());
        }
        let unwritten = |message: String| Refused { detail: "ledger.unavailable".into(), message };
        let road = self.road.upgrade().ok_or_else(|| unwritten("the gate has stopped".into()))?;
        let recorded = road.bind_signers(self.purpose.list(), list).await;
        recorded.map_err(|error| unwritten(error.to_string()))?;
        self.versions.keep_list(self.purpose, list);
        Ok(())
    }
}
