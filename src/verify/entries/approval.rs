//! Approvals and refusals of a held call, as entries record them.

use crate::approval::Approval;
use crate::approval::proposal::Proposer;
use crate::domain::digest::Digest;
use crate::record::approval::{ApprovalGranted, ApprovalRefused};
use crate::record::call::Layer;
use crate::record::{self, Entry, Text};

/// The approval that an entry records, if it records one.
#[must_use]
pub fn granted(entry: &Entry) -> Option<Approval> {
    let ApprovalGranted { subject, roles, key, .. } = entry.draft.get()?;
    Some(approval(subject, roles, key))
}

/// The refusal that an entry records, if it records one.
#[must_use]
pub fn refused(entry: &Entry) -> Option<Approval> {
    let ApprovalRefused { subject, roles, key, .. } = entry.draft.get()?;
    Some(approval(subject, roles, key))
}

fn approval(subject: &str, roles: &[Text], key: &str) -> Approval {
    let roles = roles.iter().map(ToString::to_string).collect();
    Approval { subject: subject.to_owned(), roles, key: key.to_owned() }
}

/// The approver who wrote the arguments of a call.
pub fn proposer(by: &record::call::Proposer) -> Proposer {
    let signers = by.signers.map(|digest| digest.0);
    Proposer { approval: approval(&by.subject, &by.roles, &by.key), signers, signed: None }
}

/// Name and digest of each layer.
pub fn layers(list: &[Layer]) -> Vec<(String, Digest)> {
    list.iter().map(|layer| (layer.layer.to_string(), layer.digest.0)).collect()
}
