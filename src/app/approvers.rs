//! Whose approvals count: the gate reads the signed list anew for each approval, so that a person
//! taken off it counts no more, and excludes keys that an operator revoked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checked::{self, Checked, Live};
use super::lists::{Error, KnownLists, ended};
use crate::approval::approvers::Purpose;
use crate::approval::order::{self, Loosening, OrderKind};
use crate::approval::proposal::{self, Proposer};
use crate::approval::{self, Approvers, SignedApproval};
use crate::config::Config;
use crate::crypto::keys::PublicKey;
use crate::crypto::sshsig::SshSig;
use crate::domain::time::Timestamp;
use crate::enforce::{
    ApprovalRefusal, ApproverStatement, Checker, CountedApproval, Parties, Readying, Releaser,
    Signers,
};
use crate::evidence::artifacts::{Artifacts, SignedList};
use crate::ledger::Ledger;
use crate::ledger::hold::HeldCall;

/// The list in its file, and who may sign it.
#[derive(Debug)]
pub(super) struct ApproverList {
    file: PathBuf,
    trusted: Vec<PublicKey>,
    threshold: usize,
    owners: bool,
    tenant: String,
    artifacts: Artifacts,
    known: KnownLists,
}

/// The signers whose approvals, and orders that take back a stop, count by the configured list.
/// Without a list, none count.
pub(super) fn signers(checked: &Checked, ledger: &Ledger) -> Signers {
    let list = signed(checked, &checked.live(), ledger).map(Arc::new);
    if let Some(Err(why)) = list.as_ref().map(|list| list.open()) {
        // Held calls wait all the same; an operator may mend the list meanwhile.
        tracing::warn!(%why, "no approval can count");
    }
    Signers {
        orders: list.clone().map(|list| list as Arc<dyn Releaser>),
        approvals: list.map(|list| list as Arc<dyn Checker>),
    }
}

/// The configured list itself.
pub(super) fn signed(checked: &Checked, live: &Live, ledger: &Ledger) -> Option<ApproverList> {
    let config = &live.config;
    Some(ApproverList {
        file: config.approvals.signers.clone()?,
        trusted: live.approver_keys.clone(),
        threshold: config.trust.approver_threshold,
        owners: config.approvals.owner_may_approve,
        tenant: super::fleet::tenant(config),
        artifacts: checked.artifacts.clone(),
        known: KnownLists::of(Purpose::Approval, checked, ledger),
    })
}

/// A list for this purpose, and its text with its envelope, if enough of these keys signed it.
pub(super) fn read(
    purpose: Purpose,
    file: &Path,
    trusted: (&[PublicKey], usize),
) -> Result<(Approvers, SignedList), Error> {
    let shown = |file: &Path| file.display().to_string();
    let bytes = |file: &Path| {
        std::fs::read(file).map_err(|source| Error::Unread { path: shown(file), source })
    };
    let mut envelope = file.to_owned().into_os_string();
    envelope.push(".sig.json");
    let (text, envelope) = (bytes(file)?, bytes(Path::new(&envelope))?);
    let list = Approvers::open_for(purpose, &text, &envelope, trusted)
        .map_err(|source| Error::Unsigned { path: shown(file), source })?;
    Ok((list, (text, envelope)))
}

/// The configured list, for orders to erase and to end a hold; it is kept for evidence.
///
/// # Errors
/// No list is configured, no approver on it counts, or it cannot be kept.
pub(crate) fn for_orders(config: &Config, now: Timestamp) -> Result<Approvers, Error> {
    let file = config.approvals.signers.as_ref().ok_or(Error::Unset)?;
    let mut wrong = Vec::new();
    let keys = checked::keys(&config.trust.approver_keys, &mut wrong);
    if let Some(why) = wrong.pop() {
        return Err(Error::Keys(why));
    }
    let trusted = (keys.as_slice(), config.trust.approver_threshold);
    let (list, (text, envelope)) = in_force(file, trusted, now)?;
    let kept = Artifacts::open(&config.evidence.artifacts(config));
    let kept = kept.and_then(|at| at.put_approvers(list.digest(), &text, &envelope));
    Ok(kept.map(|()| list)?)
}

/// A list for orders, and its text with its envelope, if it has not ended.
///
/// # Errors
/// The list lacks signatures, or it has ended.
pub(crate) fn in_force(
    file: &Path,
    trusted: (&[PublicKey], usize),
    now: Timestamp,
) -> Result<(Approvers, SignedList), Error> {
    let (list, signed) = read(Purpose::Order, file, trusted)?;
    ended(&list, now)?;
    Ok((list, signed))
}

impl ApproverList {
    fn read(&self) -> Result<(Approvers, SignedList), Error> {
        read(Purpose::Approval, &self.file, (&self.trusted, self.threshold))
    }

    /// Records the list as it is now on the chain, if it may be there. From a list that cannot be
    /// read no approver counts; the check of an approval reports that.
    pub(super) async fn bind(&self) -> Result<(), ApprovalRefusal> {
        match self.read() {
            Ok((list, _)) => self.known.bind(&list).await,
            Err(_) => Ok(()),
        }
    }

    /// The current list, once the chain has recorded it, as [`Self::open`] gives it.
    pub(super) fn counting(&self) -> Result<Approvers, Error> {
        let list = self.open()?;
        self.known.counts(&list)?;
        Ok(list)
    }

    /// The list as it is now, without the keys that were revoked; it is kept for evidence.
    pub(super) fn open(&self) -> Result<Approvers, Error> {
        let (list, (text, envelope)) = self.read()?;
        self.known.check(&list)?;
        self.artifacts.put_approvers(list.digest(), &text, &envelope)?;
        Ok(self.known.trusted(list))
    }
}

impl ApproverList {
    /// The list as it is now; one that cannot be used refuses under this code.
    fn current(&self, code: &str) -> Result<Approvers, ApprovalRefusal> {
        self.counting().map_err(|message| ApprovalRefusal {
            detail: code.into(),
            message: format!("the list of approvers cannot be used: {message}"),
        })
    }

    /// The hold, with every subject who may not approve it.
    fn of(&self, hold: &HeldCall, parties: &Parties) -> approval::Hold {
        let mut barred = vec![parties.agent.clone()];
        barred.extend((!self.owners).then(|| parties.owner.clone()));
        barred.extend(hold.asked_by.as_ref().map(|by| by.approval.subject.clone()));
        approval::Hold {
            call_digest: hold.call_digest,
            definition: hold.definition,
            layers: hold.layers.clone(),
            manifest: parties.manifest,
            run: hold.run,
            expires: hold.expires,
            nonce: hold.nonce.to_string(),
            barred,
            given: hold.granted.iter().map(|granted| granted.subject.clone()).collect(),
        }
    }
}

fn refused(why: approval::ApprovalRefusal) -> ApprovalRefusal {
    ApprovalRefusal { detail: why.code.to_owned(), message: why.why }
}

/// A signature in its one spelling.
fn spelled(signature: &str) -> Result<String, ApprovalRefusal> {
    let spelled = SshSig::parse(signature).map(|signature| signature.armored());
    let detail = || "approval.signature".to_owned();
    spelled.map_err(|why| ApprovalRefusal { detail: detail(), message: why.to_string() })
}

impl Releaser for ApproverList {
    fn ready(&self) -> Readying<'_> {
        Box::pin(self.bind())
    }

    fn loosens(
        &self,
        signed: &SignedApproval,
        now: Timestamp,
    ) -> Result<Loosening, ApprovalRefusal> {
        let list = self.current("order.signer")?;
        order::check(&list, (&self.tenant, &[OrderKind::Reinstate]), signed, now).map_err(refused)
    }
}

impl Checker for ApproverList {
    fn ready(&self) -> Readying<'_> {
        Box::pin(self.bind())
    }

    fn check(
        &self,
        hold: &HeldCall,
        parties: &Parties,
        said: &ApproverStatement<'_>,
    ) -> Result<CountedApproval, ApprovalRefusal> {
        let (list, held) = (self.current("approval.signer")?, self.of(hold, parties));
        let (statement, signature) = (said.statement.as_bytes(), said.signature);
        let checked = approval::check(&held, &list, statement, signature, said.now);
        let (approval, word) = checked.map_err(refused)?;
        let signature = spelled(signature)?;
        Ok(CountedApproval { approval, word, signers: Some(*list.digest()), signature })
    }

    fn propose(
        &self,
        hold: &HeldCall,
        parties: &Parties,
        said: &ApproverStatement<'_>,
        arguments: &[u8],
    ) -> Result<Proposer, ApprovalRefusal> {
        let (list, mut held) = (self.current("approval.signer")?, self.of(hold, parties));
        // The proposer of these arguments may propose others: a proposal approves nothing.
        if let Some(by) = &hold.asked_by {
            held.barred.retain(|barred| !by.is(barred));
        }
        let signed = (said.statement.as_bytes(), said.signature);
        let checked = proposal::check(&held, &list, signed, said.now);
        let (proposal, approval) = checked.map_err(refused)?;
        if !proposal.names(&hold.salt, arguments) {
            let message = "the statement is about other arguments".to_owned();
            return Err(ApprovalRefusal { detail: "approval.arguments".into(), message });
        }
        let (statement, signature) = (said.statement.to_owned(), spelled(said.signature)?);
        let signed = Some(SignedApproval { statement, signature });
        Ok(Proposer { approval, signers: Some(*list.digest()), signed })
    }
}
