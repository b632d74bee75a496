//! The entries that the ledger records about an amendment.

use super::Constitution;
use super::effect::Effect;
use super::rows::AmendmentRefusal;
use crate::approval::amendment::Pending;
use crate::approval::{Approval, ApproverVerdict};
use crate::control::Order;
use crate::control::Row;
use crate::control::amendments::Proposal;
use crate::domain::digest::Digest;
use crate::ledger::drafts::DraftWithPayloads;
use crate::policy::bundle::Bundle;
use crate::record::approval::{AmendmentApproved, AmendmentProposed, AmendmentRefused, Step};
use crate::record::decided::layers;
use crate::record::{Body, Draft, Nonce, TaggedDigest, Text};

/// Bytes of a text in an entry.
const TEXT_MAX: usize = 1024;

/// What a publisher signed, and how it may be checked later.
fn approved(
    pending: &Pending,
    approval: &Approval,
    (list, signature): (&Digest, &str),
) -> AmendmentApproved {
    AmendmentApproved {
        author: Some(pending.author.as_str().into()),
        base: Some(TaggedDigest(pending.base)),
        bundle: TaggedDigest(pending.bundle),
        expires: Some(pending.expires),
        key: approval.key.as_str().into(),
        nonce: Nonce::parse(&pending.nonce),
        roles: approval.roles.iter().map(Text::from).collect(),
        signature: Some(signature.into()),
        signers: Some(TaggedDigest(*list)),
        subject: approval.subject.as_str().into(),
    }
}

/// The same for a publisher who refused.
fn refused(amendment: AmendmentApproved) -> AmendmentRefused {
    AmendmentRefused {
        author: amendment.author,
        base: amendment.base,
        bundle: amendment.bundle,
        code: "amendment.refused".into(),
        expires: amendment.expires,
        key: Some(amendment.key),
        message: "a publisher refused it".into(),
        nonce: amendment.nonce,
        roles: Some(amendment.roles),
        signature: amendment.signature,
        signers: amendment.signers,
        step: Step::Approval,
        subject: amendment.subject,
    }
}

impl Constitution {
    pub(super) async fn record_proposal(
        &self,
        proposal: &Proposal,
        bundle: &Bundle,
        effect: &Effect,
    ) -> Result<(), AmendmentRefusal> {
        let reason = (!proposal.reason.is_empty()).then(|| Text::clip(&proposal.reason, TEXT_MAX));
        self.record(AmendmentProposed {
            agents: effect.agent_list(),
            base: Some(TaggedDigest(proposal.base)),
            bundle: TaggedDigest(proposal.bundle),
            expires: Some(proposal.expires),
            findings: effect.finding_list(),
            layers: layers(bundle.layers()),
            nonce: Nonce::parse(&proposal.nonce),
            reason,
            subject: proposal.author.as_str().into(),
            version: Text::clip(&bundle.version().to_string(), 64),
        })
        .await
    }

    pub(super) async fn record_publication(
        &self,
        pending: &Pending,
        (approval, verdict): (&Approval, ApproverVerdict),
        by: (&Digest, &str),
    ) -> Result<(), AmendmentRefusal> {
        let publication = approved(pending, approval, by);
        match verdict {
            ApproverVerdict::Approve => self.record(publication).await,
            ApproverVerdict::Refuse => self.record(refused(publication)).await,
        }
    }

    /// That a row was not obeyed, and why. What cannot be recorded is in the log and in the report.
    pub(super) async fn record_refusal(&self, row: &Row, step: Step, why: &AmendmentRefusal) {
        let Some(bundle) = row.order.as_ref().and_then(Order::amends) else { return };
        let refused = AmendmentRefused {
            author: None,
            base: None,
            bundle: TaggedDigest(*bundle),
            code: why.code().into(),
            expires: None,
            key: None,
            message: Text::clip(&why.to_string(), TEXT_MAX),
            nonce: None,
            roles: None,
            signature: None,
            signers: None,
            step,
            subject: row.given.subject.as_str().into(),
        };
        if let Err(lost) = self.record(refused).await {
            tracing::error!(order = row.seq, why = %lost, "the refusal of an amendment could not be recorded");
        }
    }

    /// Waits as long as the ledger takes: the amendment's effect must not precede its entry.
    async fn record(&self, body: impl Into<Body>) -> Result<(), AmendmentRefusal> {
        let written = DraftWithPayloads::bare(Draft::of(body));
        self.ledger.owe(written).await?;
        Ok(())
    }
}
