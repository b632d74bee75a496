//! What signatures are worth: pure functions, the same at the gate and in an audit.

use std::collections::BTreeSet;

use super::approvers::Purpose;
use super::{
    Approval, ApprovalRefusal, ApprovalStatement, ApproverVerdict, Approvers, RefusalReason,
    Statement,
};
use crate::crypto::ssh::SshKey;
use crate::crypto::sshsig::SshSig;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::time::Timestamp;
use crate::record::approval::KeyKind;

/// The role that an approver needs for a decision to count.
pub const ROLE: &str = "approver";

/// A statement, and who signed it with a key of the list that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedStatement<S> {
    /// What was signed.
    pub statement: S,
    /// Who signed it.
    pub by: Approval,
    /// The signature as stock tools spell it.
    pub signature: String,
}

impl<S: Statement> VerifiedStatement<S> {
    /// Reads a statement and checks the signature over it.
    ///
    /// # Errors
    /// The first thing that is wrong, under its code: `approval.statement` (not canonical, or not
    /// exactly a statement's members), `approval.signature`, `approval.namespace`, `approval.signer`
    /// (not in the list), `approval.revoked`, `approval.early` and `approval.lapsed` (the key's own
    /// time), `approval.role`; of passkeys `approval.unverified` (no person was verified),
    /// `approval.passkey` (none count here), `approval.origin`, `approval.synced`; of orders and
    /// break-glass with their own first word.
    pub fn check(
        list: &Approvers,
        (statement, signature): (&[u8], &str),
        now: Timestamp,
    ) -> Result<Self, ApprovalRefusal> {
        let read = read(statement)?;
        let (by, signature) = signer(list, (statement, signature), now, S::PURPOSE)?;
        Ok(Self { statement: read, by, signature })
    }
}

fn read<S: Statement>(statement: &[u8]) -> Result<S, ApprovalRefusal> {
    S::parse(statement).map_err(|why| S::PURPOSE.refusal(why.into()))
}

/// A signer, and the signature as stock tools spell it.
pub(super) type SignerSignature = (Approval, String);

/// Reads a statement and checks every signature over it: each is of a key that counts, no key
/// signed twice, and enough different subjects signed. The signers are in the order of their
/// signatures.
///
/// # Errors
/// As [`VerifiedStatement::check`], and `break_glass.again` and `break_glass.quorum`.
pub(super) fn check_all<S: Statement>(
    list: &Approvers,
    (statement, signatures): (&[u8], &[String]),
    (most, quorum): (usize, usize),
    now: Timestamp,
) -> Result<(S, Vec<SignerSignature>), ApprovalRefusal> {
    let read = read(statement)?;
    if signatures.len() > most {
        return S::PURPOSE.refuse(RefusalReason::Many(most));
    }
    let mut by: Vec<SignerSignature> = Vec::new();
    for signature in signatures {
        let one = signer(list, (statement, signature), now, S::PURPOSE)?;
        if by.iter().any(|(other, _)| other.key == one.0.key) {
            return S::PURPOSE.refuse(RefusalReason::Twice(one.0.key));
        }
        by.push(one);
    }
    let people = people(by.iter().map(|(by, _)| by));
    if people < quorum {
        return S::PURPOSE.refuse(RefusalReason::Quorum(people, quorum));
    }
    Ok((read, by))
}

/// How many different people these signers are: one subject counts once, whatever its keys.
pub fn people<'a>(by: impl IntoIterator<Item = &'a Approval>) -> usize {
    let subjects = by.into_iter().map(|one| one.subject.to_ascii_lowercase());
    subjects.collect::<BTreeSet<_>>().len()
}

/// The signer of these bytes, if the list allows the signature for this purpose, and the signature
/// as stock tools spell it.
pub(super) fn signer(
    list: &Approvers,
    (statement, signature): (&[u8], &str),
    now: Timestamp,
    purpose: Purpose,
) -> Result<(Approval, String), ApprovalRefusal> {
    let namespace = purpose.namespace();
    let invalid = |error| purpose.refusal(RefusalReason::Signature(error));
    let signature = SshSig::parse(signature).map_err(invalid)?;
    let key = signature.key.fingerprint();
    signature.verify(namespace, statement).map_err(invalid)?;
    let Some(signer) = list.signer(&signature.key) else {
        return purpose.refuse(RefusalReason::Unlisted(key, purpose.list()));
    };
    if !signer.signs(namespace) {
        return purpose.refuse(RefusalReason::OtherNamespace(key, namespace));
    }
    if list.is_revoked(&key) {
        return purpose.refuse(RefusalReason::Revoked(key));
    }
    if let Some(after) = signer.after.filter(|after| now < *after) {
        return purpose.refuse(RefusalReason::Early(key, after));
    }
    if let Some(before) = signer.before.filter(|before| now > *before) {
        return purpose.refuse(RefusalReason::Lapsed(key, before));
    }
    let (subject, role) = (signer.subject.clone(), purpose.role());
    if !signer.roles.iter().any(|one| one == role) {
        return purpose.refuse(RefusalReason::Role(subject, role));
    }
    if let Some(assertion) = signature.assertion() {
        list.passkeys().check(assertion, purpose)?;
    }
    let origin = signature.assertion().map(|made| made.origin().as_str().to_owned());
    let (roles, key_kind) = (signer.roles.clone(), Some(kind(&signature.key)));
    Ok((Approval { subject, roles, key, key_kind, origin }, signature.armored()))
}

const fn kind(key: &SshKey) -> KeyKind {
    match key {
        SshKey::Plain(_) => KeyKind::File,
        SshKey::Hardware { .. } => KeyKind::Hardware,
        SshKey::Passkey { .. } => KeyKind::Passkey,
    }
}

/// What waits for approvals: its end, and whose approvals do not count.
pub(super) struct Ballot<'a> {
    pub purpose: Purpose,
    /// What it is, for messages: `the hold`, and `this hold`.
    pub names: (&'static str, &'static str),
    pub expires: Timestamp,
    /// Subjects who may not approve it, and why.
    pub excluded: (&'a [String], &'static str),
    /// Subjects who have approved it already.
    pub given: Vec<&'a str>,
}

impl Ballot<'_> {
    /// Refuses what comes too late.
    pub fn in_time(&self, now: Timestamp) -> Result<(), ApprovalRefusal> {
        if now < self.expires {
            return Ok(());
        }
        self.purpose.refuse(RefusalReason::Expired(self.names.0, self.expires))
    }

    /// Refuses what comes too late, and an approval of a subject who takes part or has approved
    /// before: such a subject could approve its own call. Everyone may refuse.
    pub fn accepts(
        &self,
        by: &Approval,
        verdict: ApproverVerdict,
        now: Timestamp,
    ) -> Result<(), ApprovalRefusal> {
        self.in_time(now)?;
        if verdict == ApproverVerdict::Refuse {
            return Ok(());
        }
        let (excluded, because) = self.excluded;
        if excluded.iter().any(|one| by.is(one)) {
            return self.purpose.refuse(RefusalReason::Barred(by.subject.clone(), because));
        }
        if self.given.iter().any(|one| by.is(one)) {
            return self.purpose.refuse(RefusalReason::Again(by.subject.clone(), self.names.1));
        }
        Ok(())
    }
}

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
    pub excluded: Vec<String>,
    /// Approvals that are counted. A second one of the same person does not count, unless it
    /// [replaces](Approval::replaces) the first.
    pub given: Vec<Approval>,
}

impl Hold {
    /// This hold, as something that waits for an approval of this signer.
    pub(super) fn ballot(&self, by: &Approval) -> Ballot<'_> {
        let given = self.given.iter().filter(|given| !by.replaces(given));
        Ballot {
            purpose: Purpose::Approval,
            names: ("the hold", "this hold"),
            expires: self.expires,
            excluded: (
                &self.excluded,
                "started the run, owns its manifest or changed the arguments",
            ),
            given: given.map(|given| given.subject.as_str()).collect(),
        }
    }

    /// Refuses a statement that is not about exactly this hold.
    pub(super) fn about(&self, statement: &ApprovalStatement) -> Result<(), ApprovalRefusal> {
        let same = [
            (statement.run == self.run, "approval.run", "another run"),
            (statement.call_digest == self.call_digest, "approval.call", "another call"),
            (statement.nonce == self.nonce, "approval.nonce", "another hold"),
            (statement.manifest == self.manifest, "approval.manifest", "another manifest"),
            (statement.layers == self.layers, "approval.layers", "other layers of the policy"),
            (statement.definition == self.definition, "approval.definition", "another definition"),
            (
                statement.expires == self.expires,
                "approval.expires",
                "a hold that ends at another time",
            ),
        ];
        match same.into_iter().find(|(same, ..)| !same) {
            None => Ok(()),
            Some((_, code, what)) => Purpose::Approval.refuse(RefusalReason::Other(code, what)),
        }
    }
}

/// The approval or refusal in this statement and its signer, if it counts for this hold at this
/// time.
///
/// An approval never overrides a denial: the policy is asked again with it. The signer is checked
/// against the list before anything is compared, so that a third party cannot learn about a hold by
/// guessing.
///
/// # Errors
/// The first thing that is wrong, under its code: those of [`VerifiedStatement::check`], `approval.run`,
/// `approval.call`, `approval.nonce`, `approval.manifest`, `approval.layers`, `approval.definition`,
/// `approval.expires` (another end than the hold's), `approval.expired`, `approval.self`,
/// `approval.again`.
pub fn check(
    hold: &Hold,
    approvers: &Approvers,
    statement: &[u8],
    signature: &str,
    now: Timestamp,
) -> Result<VerifiedStatement<ApprovalStatement>, ApprovalRefusal> {
    let signed =
        VerifiedStatement::<ApprovalStatement>::check(approvers, (statement, signature), now)?;
    hold.about(&signed.statement)?;
    hold.ballot(&signed.by).accepts(&signed.by, signed.statement.verdict, now)?;
    Ok(signed)
}
