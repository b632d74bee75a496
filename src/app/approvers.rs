//! Whose approvals count: the gate reads the signed list anew for each approval, so that a person
//! taken off it counts no more, and excludes keys that an operator revoked.

use std::path::Path;
use std::sync::Arc;

use super::checked::{self, Checked, Live};
use super::fleet;
use super::lists::{Error, KeptList, ListFile, ended};
use crate::approval::approvers::Purpose;
use crate::approval::order::{self, Loosening, OrderKind};
use crate::approval::proposal::{self, Proposer};
use crate::approval::{self, ApprovalRefusal, Approvers, RefusalReason, SignedApproval};
use crate::config::Config;
use crate::crypto::keys::PublicKey;
use crate::domain::time::Timestamp;
use crate::enforce::{
    ApproverStatement, Checker, CountedApproval, Parties, Readying, Releaser, Signers,
};
use crate::evidence::artifacts::{Artifacts, SignedList};
use crate::ledger::Ledger;
use crate::ledger::hold::HeldCall;
use crate::operator::own_keys::ReadApprovers;

/// Who approves held calls and gives orders that take back a stop.
#[derive(Debug)]
struct ApproverList {
    list: KeptList,
    owners: bool,
    tenant: String,
}

/// The signers whose approvals, and orders that take back a stop, count by the configured list.
/// Without a list, none count.
pub(super) fn signers(checked: &Checked, ledger: &Ledger) -> Signers {
    let live = checked.live();
    let list = signed(checked, &live, ledger);
    if let Some(Err(why)) = list.as_ref().map(KeptList::open) {
        // Held calls wait all the same; an operator may mend the list meanwhile.
        tracing::warn!(%why, "approvals are not accepted: the list of approvers cannot be used");
    }
    let (owners, tenant) = (live.config.approvals.owner_may_approve, fleet::tenant(&live.config));
    let list = list.map(|list| Arc::new(ApproverList { list, owners, tenant }));
    Signers {
        orders: list.clone().map(|list| list as Arc<dyn Releaser>),
        approvals: list.map(|list| list as Arc<dyn Checker>),
    }
}

/// The configured list itself.
pub(super) fn signed(checked: &Checked, live: &Live, ledger: &Ledger) -> Option<KeptList> {
    let file = ListFile {
        purpose: Purpose::Approval,
        file: live.config.approvals.signers.clone()?,
        trusted: live.approver_keys.clone(),
        threshold: live.config.trust.approver_threshold,
        apart_from: None,
        // As the road, which asks for another key, these terms change with a restart only.
        passkeys: checked.config.approvals.passkey_terms(),
    };
    Some(KeptList::of(file, checked, ledger))
}

/// Reads the configured list, to show operators their own keys. `None`: no list is configured here.
pub(super) fn operator_part(config: &Config) -> Result<Option<ReadApprovers>, super::Error> {
    let Some(file) = config.approvals.signers.clone() else { return Ok(None) };
    let mut problems = Vec::new();
    let trusted = checked::keys(&config.trust.approver_keys, &mut problems);
    if !problems.is_empty() {
        return Err(super::Error::Config(problems));
    }
    let threshold = config.trust.approver_threshold;
    Ok(Some(Arc::new(move || {
        let (list, _) = read(Purpose::Approval, &file, (&trusted, threshold))?;
        Ok(list)
    })))
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
    let list = Approvers::open(purpose, &text, &envelope, trusted)
        .map_err(|source| Error::Unsigned { path: shown(file), source })?;
    Ok((list, (text, envelope)))
}

/// The configured list, for orders to erase and to end a hold; it is kept for evidence.
///
/// # Errors
/// No list is configured, no approver on it counts, or it cannot be kept.
pub(crate) fn for_orders(config: &Config, now: Timestamp) -> Result<Approvers, Error> {
    let file = config.approvals.signers.as_ref().ok_or(Error::Unset)?;
    let mut problems = Vec::new();
    let keys = checked::keys(&config.trust.approver_keys, &mut problems);
    if let Some(why) = problems.pop() {
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
    /// The hold, with every subject who may not approve it.
    fn of(&self, hold: &HeldCall, parties: &Parties) -> approval::Hold {
        let mut excluded = vec![parties.agent.clone()];
        excluded.extend((!self.owners).then(|| parties.owner.clone()));
        excluded.extend(hold.asked_by.as_ref().map(|by| by.approval.subject.clone()));
        approval::Hold {
            call_digest: hold.call_digest,
            definition: hold.definition,
            layers: hold.layers.clone(),
            manifest: parties.manifest,
            run: hold.run,
            expires: hold.expires,
            nonce: hold.nonce.to_string(),
            excluded,
            given: hold.granted.clone(),
        }
    }
}

impl Releaser for ApproverList {
    fn ready(&self) -> Readying<'_> {
        Box::pin(self.list.bind())
    }

    fn loosens(
        &self,
        signed: &SignedApproval,
        now: Timestamp,
    ) -> Result<Loosening, ApprovalRefusal> {
        let list = self.list.current(Purpose::Order)?;
        order::check(&list, (&self.tenant, &[OrderKind::Reinstate, OrderKind::Allow]), signed, now)
    }
}

impl Checker for ApproverList {
    fn ready(&self) -> Readying<'_> {
        Box::pin(self.list.bind())
    }

    fn check(
        &self,
        hold: &HeldCall,
        parties: &Parties,
        signed: &ApproverStatement<'_>,
    ) -> Result<CountedApproval, ApprovalRefusal> {
        let (list, held) = (self.list.current(Purpose::Approval)?, self.of(hold, parties));
        let (statement, signature) = (signed.statement.as_bytes(), signed.signature);
        let counted = approval::check(&held, &list, statement, signature, signed.now)?;
        Ok(CountedApproval {
            approval: counted.by,
            verdict: counted.statement.verdict,
            signers: Some(*list.digest()),
            signature: counted.signature,
        })
    }

    fn propose(
        &self,
        hold: &HeldCall,
        parties: &Parties,
        given: &ApproverStatement<'_>,
        arguments: &[u8],
    ) -> Result<Proposer, ApprovalRefusal> {
        let (list, mut held) = (self.list.current(Purpose::Approval)?, self.of(hold, parties));
        // The proposer of these arguments may propose others: a proposal approves nothing.
        if let Some(by) = &hold.asked_by {
            held.excluded.retain(|excluded| !by.is(excluded));
        }
        let signed = (given.statement.as_bytes(), given.signature);
        let counted = proposal::check(&held, &list, signed, given.now)?;
        if !counted.statement.names(&hold.salt, arguments) {
            let other = RefusalReason::Other("approval.arguments", "other arguments");
            return Err(Purpose::Approval.refusal(other));
        }
        let (statement, signature) = (given.statement.to_owned(), counted.signature);
        let signed = Some(SignedApproval { statement, signature });
        Ok(Proposer { approval: counted.by, signers: Some(*list.digest()), signed })
    }
}
