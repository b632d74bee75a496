//! What one signature is worth for one hold: a pure function, the same at the gate and in an audit.

use super::approvers::Purpose;
use super::{Approval, ApprovalStatement, ApproverVerdict, Approvers};
use crate::crypto::sshsig::{self, SshSig};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::time::Timestamp;

/// The role that an approver needs for a decision to count.
pub const ROLE: &str = "approver";

/// A held call, and the subjects who may not release it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// `call_digest` of the entry `call.held`.
    pub call_digest: Digest,
    /// Its `definition`.
    pub definition: Option<Digest>,
    /// Its `layers`.
    pub layers: Vec<(String, Digest)>,
    /// The manifest of the run.
    pub manifest: Digest,
    /// The run.
    pub run: RunId,
    /// When the hold ends.
    pub expires: Timestamp,
    /// Its `nonce`.
    pub nonce: String,
    /// Subjects who may not approve: those who started the run or proposed its arguments, and the
    /// owner of its manifest unless the configuration lets owners. They may refuse.
    pub barred: Vec<String>,
    /// Subjects who have approved this hold already: a second approval of theirs does not count.
    pub given: Vec<String>,
}

/// Why a signed decision does not count.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}: {why}")]
pub struct ApprovalRefusal {
    /// Stable: `approval.signature`, `approval.nonce`, …
    pub code: &'static str,
    /// For a person.
    pub why: String,
}

pub(super) fn refuse<T>(code: &'static str, why: impl Into<String>) -> Result<T, ApprovalRefusal> {
    Err(ApprovalRefusal { code, why: why.into() })
}

/// The approval or refusal in this statement and its signer, if it counts for this hold at this
/// time.
///
/// An approval never overrides a denial: the policy is asked again with it. The signer is checked
/// against the list before anything is compared, so that a third party cannot learn about a hold by
/// guessing.
///
/// # Errors
/// The first thing that is wrong, under its code: `approval.statement` (not canonical, or not exactly a
/// statement's members), `approval.signature`, `approval.namespace`, `approval.signer` (not in the list),
/// `approval.revoked`, `approval.early` and `approval.lapsed` (the key's own time), `approval.role`,
/// `approval.run`, `approval.call`, `approval.nonce`, `approval.manifest`, `approval.layers`,
/// `approval.definition`, `approval.expires` (another end than the hold's), `approval.expired`,
/// `approval.self`, `approval.again`.
pub fn check(
    hold: &Hold,
    approvers: &Approvers,
    statement: &[u8],
    signature: &str,
    now: Timestamp,
) -> Result<(Approval, ApproverVerdict), ApprovalRefusal> {
    let said = ApprovalStatement::parse(statement)
        .or_else(|why| refuse("approval.statement", format!("the statement: {why}")))?;
    let approval = signer(approvers, statement, signature, now, Purpose::Approval)?;
    about(hold, &said)?;
    if now >= hold.expires {
        return refuse("approval.expired", format!("the hold ended at {}", hold.expires));
    }
    if said.verdict == ApproverVerdict::Approve {
        may(hold, &approval)?;
    }
    Ok((approval, said.verdict))
}

/// The signer of these bytes, if the list allows the signature for this purpose.
pub(super) fn signer(
    approvers: &Approvers,
    statement: &[u8],
    signature: &str,
    now: Timestamp,
    purpose: Purpose,
) -> Result<Approval, ApprovalRefusal> {
    let wrong = |error: sshsig::Error| {
        let code = match error {
            sshsig::Error::Namespace(_) => "approval.namespace",
            sshsig::Error::Form(_)
            | sshsig::Error::Key(_)
            | sshsig::Error::Absent
            | sshsig::Error::Wrong => "approval.signature",
        };
        ApprovalRefusal { code, why: error.to_string() }
    };
    let signature = SshSig::parse(signature).map_err(wrong)?;
    let key = signature.key.fingerprint();
    signature.verify(purpose.namespace(), statement).map_err(wrong)?;
    let Some(signer) = approvers.signer(&signature.key) else {
        let list = purpose.list();
        return refuse("approval.signer", format!("{key} is not in the list of {list}"));
    };
    let namespace = purpose.namespace();
    if !signer.signs(namespace) {
        return refuse(
            "approval.signer",
            format!("{key} is in the list, and not for `{namespace}`"),
        );
    }
    if approvers.is_revoked(&key) {
        return refuse("approval.revoked", format!("{key} is revoked"));
    }
    if let Some(after) = signer.after.filter(|after| now < *after) {
        return refuse("approval.early", format!("{key} counts from {after} on"));
    }
    if let Some(before) = signer.before.filter(|before| now > *before) {
        return refuse("approval.lapsed", format!("{key} counted until {before}"));
    }
    let role = purpose.role();
    if !signer.roles.iter().any(|one| one == role) {
        return refuse("approval.role", format!("`{}` has no role `{role}`", signer.subject));
    }
    Ok(Approval { subject: signer.subject.clone(), roles: signer.roles.clone(), key })
}

/// Whether a statement is about exactly this hold.
pub(super) fn about(hold: &Hold, said: &ApprovalStatement) -> Result<(), ApprovalRefusal> {
    let same = [
        (said.run == hold.run, "approval.run", "another run"),
        (said.call_digest == hold.call_digest, "approval.call", "another call"),
        (said.nonce == hold.nonce, "approval.nonce", "another hold"),
        (said.manifest == hold.manifest, "approval.manifest", "another manifest"),
        (said.layers == hold.layers, "approval.layers", "other layers of the policy"),
        (said.definition == hold.definition, "approval.definition", "another definition"),
        (said.expires == hold.expires, "approval.expires", "a hold that ends at another time"),
    ];
    match same.into_iter().find(|(same, _, _)| !same) {
        None => Ok(()),
        Some((_, code, what)) => refuse(code, format!("the statement is about {what}")),
    }
}

/// Whether this subject may approve this hold, and has not done so before.
fn may(hold: &Hold, approval: &Approval) -> Result<(), ApprovalRefusal> {
    let subject = &approval.subject;
    barred(hold, approval)?;
    if hold.given.contains(subject) {
        return refuse("approval.again", format!("`{subject}` has approved this hold before"));
    }
    Ok(())
}

/// Refuses a subject who may not approve this hold: such a subject could approve its own call.
pub(super) fn barred(hold: &Hold, approval: &Approval) -> Result<(), ApprovalRefusal> {
    let subject = &approval.subject;
    // Letters may be written otherwise in a manifest or by an identity provider.
    if hold.barred.iter().any(|barred| barred.eq_ignore_ascii_case(subject)) {
        let why =
            format!("`{subject}` started the run, owns its manifest or changed the arguments");
        return refuse("approval.self", why);
    }
    Ok(())
}
