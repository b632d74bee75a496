//! Approvals and refusals of a held call, as entries record them.

use crate::approval::Approval;
use crate::approval::proposal::Proposer;
use crate::domain::digest::Digest;
use crate::record::approval::{ApprovalGranted, ApprovalRefused, KeyKind};
use crate::record::call::Layer;
use crate::record::{self, Entry, Text};

/// The approval that an entry records, if it records one.
#[must_use]
pub fn granted(entry: &Entry) -> Option<Approval> {
    let ApprovalGranted { subject, roles, key, key_kind, origin, .. } = entry.draft.get()?;
    Some(approval((subject, roles), (key, *key_kind, origin.as_ref())))
}

/// The refusal that an entry records, if it records one.
#[must_use]
pub fn refused(entry: &Entry) -> Option<Approval> {
    let ApprovalRefused { subject, roles, key, key_kind, origin, .. } = entry.draft.get()?;
    Some(approval((subject, roles), (key, *key_kind, origin.as_ref())))
}

fn approval(
    (subject, roles): (&str, &[Text]),
    (key, key_kind, origin): (&str, Option<KeyKind>, Option<&Text>),
) -> Approval {
    let roles = roles.iter().map(ToString::to_string).collect();
    let (subject, key) = (subject.to_owned(), key.to_owned());
    Approval { subject, roles, key, key_kind, origin: origin.map(ToString::to_string) }
}

/// The approver who wrote the arguments of a call.
pub fn proposer(by: &record::call::Proposer) -> Proposer {
    let signers = by.signers.map(|digest| digest.0);
    let key = (by.key.as_str(), by.key_kind, by.origin.as_ref());
    Proposer { approval: approval((&by.subject, &by.roles), key), signers, signed: None }
}

/// Name and digest of each layer.
pub fn layers(list: &[Layer]) -> Vec<(String, Digest)> {
    list.iter().map(|layer| (layer.layer.to_string(), layer.digest.0)).collect()
}
