//! The statement by which an approver submits a held call again with other arguments, and its
//! check.
//!
//! It has the form of an approval of the held call, with the verdict `modify`, and names the new
//! arguments. A proposer may not approve the call with the new arguments: another approver must.

use super::approvers::Purpose;
use super::check::{about, barred, refuse, signer};
use super::{
    Approval, ApprovalRefusal, ApprovalStatement, ApproverVerdict, Approvers, Hold,
    MalformedStatement, SignedApproval,
};
use crate::domain::canonical;
use crate::domain::commitment::derived;
use crate::domain::digest::{Digest, Salt};
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;

/// The verdict of a proposal.
const MODIFY: &str = "modify";

/// The signed statement: the members of a [`Statement`] about the held call, with the verdict
/// `modify`, and `arguments`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// The held call. It must not run with its old arguments.
    of: ApprovalStatement,
    /// The new arguments: see [`named`].
    arguments: String,
}

/// How a proposal names its arguments (their canonical bytes): 64 hex digits, keyed with the salt
/// of the held arguments, so that the name reveals nothing to guess once those are erased.
#[must_use]
pub fn named(salt: &Salt, arguments: &[u8]) -> String {
    hex::encode(derived(salt, &[b"arguments:", arguments]))
}

impl Proposal {
    /// The proposal of these arguments (canonical) for the held call of `about`.
    #[must_use]
    pub fn new(about: ApprovalStatement, salt: &Salt, arguments: &[u8]) -> Self {
        let of = ApprovalStatement { verdict: ApproverVerdict::Refuse, ..about };
        Self { of, arguments: named(salt, arguments) }
    }

    /// Reads the bytes that were signed: canonical form, exactly the members of a proposal.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedStatement> {
        let json = Json::parse(bytes, &Limits::FILE)?;
        let Json::Object(mut members) = json else { return Err(MalformedStatement::Object) };
        let taken = |value: Option<Json>| value.as_ref().and_then(Json::as_str).map(str::to_owned);
        if taken(members.remove("verdict")).as_deref() != Some(MODIFY) {
            return Err(MalformedStatement::Value { name: "verdict", expected: MODIFY });
        }
        let arguments = taken(members.remove("arguments"));
        let arguments = arguments.ok_or(MalformedStatement::Member("arguments"))?;
        members.insert("verdict".into(), Json::from(ApproverVerdict::Refuse.as_str()));
        let of = ApprovalStatement::parse(&canonical::bytes(&Json::Object(members)))?;
        let proposal = Self { of, arguments };
        if proposal.bytes() == bytes { Ok(proposal) } else { Err(MalformedStatement::Canonical) }
    }

    /// The bytes that are signed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut members = self.of.members();
        members.insert("verdict".into(), Json::from(MODIFY));
        members.insert("arguments".into(), Json::from(self.arguments.as_str()));
        canonical::bytes(&Json::Object(members))
    }

    /// The nonce of the hold it is about.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.of.nonce
    }

    /// Whether it names these arguments, for a hold with this salt.
    #[must_use]
    pub fn names(&self, salt: &Salt, arguments: &[u8]) -> bool {
        self.arguments == named(salt, arguments)
    }
}

/// The approver who changed the arguments of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposer {
    /// Whose signature it is.
    pub approval: Approval,
    /// SHA-256 of the list of approvers by which the proposal is valid.
    pub signers: Option<Digest>,
    /// What was signed, until it is recorded.
    pub signed: Option<SignedApproval>,
}

impl Proposer {
    /// Whether this subject is the proposer, who may not approve the call.
    #[must_use]
    pub fn is(&self, subject: &str) -> bool {
        self.approval.subject.eq_ignore_ascii_case(subject)
    }
}

/// The subject of this proposal, if it is about this hold, in time, and signed by an approver who
/// may approve it.
///
/// # Errors
/// As [`super::check()`]. This does not check the arguments: see [`Proposal::names`].
pub fn check(
    hold: &Hold,
    approvers: &Approvers,
    (statement, signature): (&[u8], &str),
    now: Timestamp,
) -> Result<(Proposal, Approval), ApprovalRefusal> {
    let said = Proposal::parse(statement)
        .or_else(|why| refuse("approval.statement", format!("the statement: {why}")))?;
    let approval = signer(approvers, statement, signature, now, Purpose::Approval)?;
    about(hold, &said.of)?;
    if now >= hold.expires {
        return refuse("approval.expired", format!("the hold ended at {}", hold.expires));
    }
    barred(hold, &approval)?;
    Ok((said, approval))
}
