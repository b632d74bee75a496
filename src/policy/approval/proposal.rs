//! The statement by which an approver submits a held call again with other arguments, and its
//! check.
//!
//! It has the form of an approval of the held call, with the verdict `modify`, and names the new
//! arguments. A proposer may not approve the call with the new arguments: another approver must.

use super::approvers::Purpose;
use super::check::Ballot;
use super::{
    Approval, ApprovalRefusal, ApprovalStatement, ApproverVerdict, Approvers, Hold,
    MalformedStatement, SignedApproval, Statement, VerifiedStatement,
};
use crate::domain::commitment::derived;
use crate::domain::digest::{Digest, Salt};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// The verdict of a proposal.
const MODIFY: &str = "modify";

/// The signed statement: the members of an [`ApprovalStatement`] about the held call, with the verdict
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

impl Statement for Proposal {
    const PURPOSE: Purpose = Purpose::Approval;
    /// An approval, and how it names the arguments.
    const BYTES_MAX: usize = ApprovalStatement::BYTES_MAX + 256;

    fn of(mut json: Json) -> Result<Self, MalformedStatement> {
        let Json::Object(members) = &mut json else { return Err(MalformedStatement::Object) };
        let refuse = Json::from(ApproverVerdict::Refuse.as_str());
        let verdict = members.insert("verdict".into(), refuse);
        if verdict.as_ref().and_then(Json::as_str) != Some(MODIFY) {
            return Err(MalformedStatement::Value { name: "verdict", expected: MODIFY });
        }
        let Some(Json::String(arguments)) = members.remove("arguments") else {
            return Err(MalformedStatement::Member("arguments"));
        };
        Ok(Self { of: ApprovalStatement::of(json)?, arguments })
    }

    fn members(&self) -> Json {
        let mut json = self.of.members();
        if let Json::Object(members) = &mut json {
            members.insert("verdict".into(), Json::from(MODIFY));
            members.insert("arguments".into(), Json::from(self.arguments.as_str()));
        }
        json
    }

    fn bounded(&self) -> Result<(), MalformedStatement> {
        self.of.bounded()
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
        self.approval.is(subject)
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
    signed: (&[u8], &str),
    now: Timestamp,
) -> Result<VerifiedStatement<Proposal>, ApprovalRefusal> {
    let signed = VerifiedStatement::<Proposal>::check(approvers, signed, now)?;
    hold.about(&signed.statement.of)?;
    // A proposal approves nothing: one who approved the old arguments may propose others.
    let ballot = Ballot { given: Vec::new(), ..hold.ballot(&signed.by) };
    ballot.accepts(&signed.by, ApproverVerdict::Approve, now)?;
    Ok(signed)
}
