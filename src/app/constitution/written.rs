//! What goes on the books about an amendment.

use super::Constitution;
use super::effect::Effect;
use super::rows::{Refusal, refuse};
use crate::approval::amendment::Pending;
use crate::approval::{Approval, Word};
use crate::control::Order;
use crate::control::Row;
use crate::control::amendments::Proposal;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::ledger::drafts::{Written, clip, layers};
use crate::ledger::entry::{Draft, Kind};
use crate::policy::bundle::Bundle;

/// Bytes of a text in an entry.
const TEXT_MAX: usize = 1024;

type Members = Vec<(&'static str, Json)>;

/// What a publisher signed, apart from the verdict, and how it may be checked later.
fn signed(pending: &Pending, approval: &Approval, (list, signature): (&Digest, &str)) -> Members {
    let roles = approval.roles.iter().map(|role| Json::from(role.as_str()));
    vec![
        ("bundle", Json::from(pending.bundle.prefixed())),
        ("base", Json::from(pending.base.prefixed())),
        ("author", Json::from(pending.author.as_str())),
        ("nonce", Json::from(pending.nonce.as_str())),
        ("expires", Json::from(pending.expires.to_string())),
        ("subject", Json::from(approval.subject.as_str())),
        ("roles", roles.collect::<Vec<_>>().into()),
        ("key", Json::from(approval.key.as_str())),
        ("signers", Json::from(list.prefixed())),
        ("signature", Json::from(signature)),
    ]
}

impl Constitution {
    pub(super) async fn record_proposal(
        &self,
        proposal: &Proposal,
        bundle: &Bundle,
        effect: &Effect,
    ) -> Result<(), Refusal> {
        let mut data = vec![
            ("bundle", Json::from(proposal.bundle.prefixed())),
            ("base", Json::from(proposal.base.prefixed())),
            ("version", Json::from(clip(&bundle.version().to_string(), 64))),
            ("layers", layers(bundle.layers())),
            ("subject", Json::from(proposal.author.as_str())),
            ("agents", effect.agent_list()),
            ("findings", effect.finding_list()),
            ("nonce", Json::from(proposal.nonce.as_str())),
            ("expires", Json::from(proposal.expires.to_string())),
        ];
        if !proposal.reason.is_empty() {
            data.push(("reason", Json::from(clip(&proposal.reason, TEXT_MAX))));
        }
        self.record(Kind::AmendmentProposed, data).await
    }

    pub(super) async fn record_word(
        &self,
        pending: &Pending,
        (approval, word): (&Approval, Word),
        by: (&Digest, &str),
    ) -> Result<(), Refusal> {
        let mut data = signed(pending, approval, by);
        let kind = match word {
            Word::Approve => Kind::AmendmentApproved,
            Word::Refuse => {
                data.push(("step", Json::from("approval")));
                data.push(("code", Json::from("amendment.refused")));
                data.push(("message", Json::from("a publisher refused it")));
                Kind::AmendmentRefused
            }
        };
        self.record(kind, data).await
    }

    /// That a row was not obeyed, and why. What cannot be recorded is in the log and in the report.
    pub(super) async fn record_refusal(&self, row: &Row, step: &'static str, why: &Refusal) {
        let Some(bundle) = row.order.as_ref().and_then(Order::amends) else { return };
        let data = vec![
            ("bundle", Json::from(bundle.prefixed())),
            ("step", Json::from(step)),
            ("subject", Json::from(row.given.subject.as_str())),
            ("code", Json::from(why.code.as_str())),
            ("message", Json::from(clip(&why.message, TEXT_MAX))),
        ];
        if let Err(lost) = self.record(Kind::AmendmentRefused, data).await {
            tracing::error!(order = row.seq, why = %lost.message, "a refused amendment is not recorded");
        }
    }

    /// For as long as it takes: what follows from it must not come before it.
    async fn record(&self, kind: Kind, data: Members) -> Result<(), Refusal> {
        let written = Written::bare(Draft::of(kind, Json::object(data)));
        match self.ledger.owe(written).await {
            Ok(_) => Ok(()),
            Err(error) => refuse("ledger.unavailable", error.to_string()),
        }
    }
}
