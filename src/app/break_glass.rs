//! Which break-glass statements count: the gate reads the signed list anew for each, without
//! revoked keys and without any key that approves calls too.

use std::sync::Arc;

use super::checked::{self, Checked};
use super::lists::{KeptList, ListFile};
use super::{fleet, operators};
use crate::approval::approvers::Purpose;
use crate::approval::break_glass::{self, Open, SignedBreakGlass, Terms};
use crate::approval::{ApprovalRefusal, PasskeyTerms};
use crate::config::Config;
use crate::domain::time::Timestamp;
use crate::enforce::{Breaker, Readying};
use crate::ledger::Ledger;
use crate::operator::break_glass::BreakGlassParts;
use crate::telemetry::metrics::Metrics;

/// The list of this gate.
#[derive(Debug)]
struct BreakGlassList {
    list: KeptList,
    terms: Terms,
}

/// The configured list and terms; `None`: break-glass is not configured.
fn configured(config: &Config) -> Result<Option<(ListFile, Terms)>, Vec<String>> {
    let Some(section) = &config.trust.break_glass else { return Ok(None) };
    let mut problems = Vec::new();
    let trusted = checked::keys(&section.keys, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let list = ListFile {
        purpose: Purpose::BreakGlass,
        file: section.signers.clone(),
        trusted,
        threshold: section.threshold,
        apart_from: config.approvals.signers.clone(),
        passkeys: PasskeyTerms::Off,
    };
    let (quorum, minutes) = (section.quorum, section.max_minutes);
    Ok(Some((list, Terms { tenant: fleet::tenant(config), quorum, minutes })))
}

/// What is wrong with the list that is configured, if one is.
pub(super) fn wrong(config: &Config) -> Vec<String> {
    match configured(config) {
        Ok(None) => Vec::new(),
        Ok(Some((list, _))) => {
            list.read().err().map(|problems| problems.to_string()).into_iter().collect()
        }
        Err(problems) => problems,
    }
}

/// The configured list of a gate. `None`: no statement opens anything here.
pub(super) fn breaker(
    checked: &Checked,
    ledger: &Ledger,
) -> Result<Option<Arc<dyn Breaker>>, Vec<String>> {
    let Some((list, terms)) = configured(&checked.config)? else { return Ok(None) };
    if let Err(why) = list.read() {
        // An operator may mend it before it is needed.
        tracing::warn!(%why, "break-glass orders are not accepted: the list of signers cannot be used");
    }
    let list = KeptList::of(list, checked, ledger);
    Ok(Some(Arc::new(BreakGlassList { list, terms })))
}

/// What the operator API needs to take statements. `None`: it takes none.
pub(super) fn operator_part(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Option<BreakGlassParts>, super::Error> {
    let Some((list, terms)) = configured(config).map_err(super::Error::Config)? else {
        return Ok(None);
    };
    let alarm = operators::webhook(config)?;
    let list = Arc::new(move || Ok(list.read()?.0));
    Ok(Some(BreakGlassParts { terms, list, alarm, metrics: Arc::clone(metrics) }))
}

impl Breaker for BreakGlassList {
    fn ready(&self) -> Readying<'_> {
        Box::pin(self.list.bind())
    }

    fn check(&self, signed: &SignedBreakGlass, now: Timestamp) -> Result<Open, ApprovalRefusal> {
        break_glass::check(&self.terms, &self.list.current(Purpose::BreakGlass)?, signed, now)
    }
}
