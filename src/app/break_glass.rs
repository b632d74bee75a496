//! Which break-glass statements count: the gate reads the signed list anew for each, without
//! revoked keys and without any key that approves calls too.

use std::path::PathBuf;
use std::sync::Arc;

use super::checked::{self, Checked};
use super::lists::{Error, KnownLists};
use super::{approvers, fleet, operators};
use crate::approval::Approvers;
use crate::approval::approvers::Purpose;
use crate::approval::break_glass::{self, Open, SignedBreakGlass, Terms};
use crate::config::Config;
use crate::crypto::keys::PublicKey;
use crate::crypto::sshsig::SshSig;
use crate::domain::time::Timestamp;
use crate::enforce::{ApprovalRefusal, Breaker, Readying};
use crate::evidence::artifacts::{Artifacts, SignedList};
use crate::ledger::Ledger;
use crate::operator::break_glass::Glass;
use crate::telemetry::metrics::Metrics;

/// The list in its file, and who may sign it.
#[derive(Clone, Debug)]
struct BreakGlassList {
    file: PathBuf,
    trusted: Vec<PublicKey>,
    threshold: usize,
    /// The list of approvers: break-glass has keys of its own.
    approvers: Option<PathBuf>,
}

/// The list of this gate, which keeps what it read for evidence.
#[derive(Debug)]
struct RecordedList {
    list: BreakGlassList,
    terms: Terms,
    artifacts: Artifacts,
    known: KnownLists,
}

/// The configured list and terms; `None`: break-glass is not configured.
fn configured(config: &Config) -> Result<Option<(BreakGlassList, Terms)>, Vec<String>> {
    let Some(section) = &config.trust.break_glass else { return Ok(None) };
    let mut wrong = Vec::new();
    let trusted = checked::keys(&section.keys, &mut wrong);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let list = BreakGlassList {
        file: section.signers.clone(),
        trusted,
        threshold: section.threshold,
        approvers: config.approvals.signers.clone(),
    };
    let (quorum, minutes) = (section.quorum, section.max_minutes);
    Ok(Some((list, Terms { tenant: fleet::tenant(config), quorum, minutes })))
}

/// What is wrong with the list that is configured, if one is.
pub(super) fn wrong(config: &Config) -> Vec<String> {
    match configured(config) {
        Ok(None) => Vec::new(),
        Ok(Some((list, _))) => {
            list.open().err().map(|wrong| wrong.to_string()).into_iter().collect()
        }
        Err(wrong) => wrong,
    }
}

/// The configured list of a gate. `None`: no statement opens anything here.
pub(super) fn breaker(
    checked: &Checked,
    ledger: &Ledger,
) -> Result<Option<Arc<dyn Breaker>>, Vec<String>> {
    let Some((list, terms)) = configured(&checked.config)? else { return Ok(None) };
    if let Err(why) = list.open() {
        // An operator may mend it before it is needed.
        tracing::warn!(%why, "no break-glass order can count");
    }
    let known = KnownLists::of(Purpose::BreakGlass, checked, ledger);
    let artifacts = checked.artifacts.clone();
    Ok(Some(Arc::new(RecordedList { list, terms, artifacts, known })))
}

/// What the operator API needs to take statements. `None`: it takes none.
pub(super) fn office(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Option<Glass>, super::Error> {
    let Some((list, terms)) = configured(config).map_err(super::Error::Config)? else {
        return Ok(None);
    };
    let alarm = operators::webhook(config)?;
    let list = Arc::new(move || Ok(list.open()?.0));
    Ok(Some(Glass { terms, list, alarm, metrics: Arc::clone(metrics) }))
}

impl BreakGlassList {
    /// The list as it is now, and its envelope.
    fn open(&self) -> Result<(Approvers, SignedList), Error> {
        let trusted = (self.trusted.as_slice(), self.threshold);
        let (list, signed) = approvers::read(Purpose::BreakGlass, &self.file, trusted)?;
        if let Some(of_calls) = &self.approvers {
            // An unreadable list of approvers counts as empty.
            let of_calls = std::fs::read(of_calls).ok();
            let of_calls = of_calls.and_then(|text| Approvers::parse(&text).ok());
            let shared = list.signers().iter().find(|signer| {
                of_calls.as_ref().is_some_and(|list| list.signer(&signer.key).is_some())
            });
            if let Some(shared) = shared {
                let key = shared.key.fingerprint();
                return Err(Error::Shared { path: self.file.display().to_string(), key });
            }
        }
        Ok((list, signed))
    }
}

impl Breaker for RecordedList {
    fn ready(&self) -> Readying<'_> {
        Box::pin(async {
            match self.list.open() {
                Ok((list, _)) => self.known.bind(&list).await,
                // The check of a statement reports this.
                Err(_) => Ok(()),
            }
        })
    }

    fn check(&self, signed: &SignedBreakGlass, now: Timestamp) -> Result<Open, ApprovalRefusal> {
        let unusable = |wrong: Error| ApprovalRefusal {
            detail: "break_glass.signer".into(),
            message: format!("the list of break-glass signers cannot be used: {wrong}"),
        };
        let (list, (text, envelope)) = self.list.open().map_err(unusable)?;
        self.known.counts(&list).map_err(unusable)?;
        let kept = self.artifacts.put_approvers(list.digest(), &text, &envelope);
        kept.map_err(|unkept| unusable(unkept.into()))?;
        let refused = |why: break_glass::ApprovalRefusal| ApprovalRefusal {
            detail: why.code.to_owned(),
            message: why.why,
        };
        let open = break_glass::check(&self.terms, &self.known.trusted(list), signed, now);
        let mut open = open.map_err(refused)?;
        // The ledger records signatures as stock tools spell them.
        for signature in &mut open.signed.signatures {
            if let Ok(spelled) = SshSig::parse(signature) {
                *signature = spelled.armored();
            }
        }
        Ok(open)
    }
}
