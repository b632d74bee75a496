//! The findings of P4 and what it may lack: one place for the messages about approvals, proposals,
//! break-glass orders and loosening orders.

use super::lists;
use crate::approval::{ApprovalRefusal, MalformedStatement, approvers};
use crate::crypto::dsse;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json;
use crate::record::chain::SignerList;

/// Why a signature does not prove what an entry records about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignatureFlaw {
    #[error("seq {0}: {1}")]
    Seq(Seq, #[source] Box<Self>),
    #[error("`{0}` seq {1}: {2}")]
    Entry(String, Seq, #[source] Box<Self>),
    #[error(transparent)]
    List(#[from] lists::Error),
    #[error(transparent)]
    Approvers(#[from] approvers::Error),
    #[error(transparent)]
    Refused(#[from] ApprovalRefusal),
    #[error(transparent)]
    Statement(#[from] MalformedStatement),
    #[error("the policy's input: {0}")]
    Input(#[from] json::Error),
    /// A file of `approvals/` that differs from the signed bytes.
    #[error("`{0}` differs from what was signed")]
    File(String),
    #[error("`{0}` does not belong to any approval")]
    StrayFile(String),
    #[error("fleet seq {0}: version {1} of a list follows version {2}")]
    Version(Seq, u64, u64),
    #[error("the list of {0}: {1}")]
    Envelope(SignerList, #[source] dsse::Error),
    #[error("the list of {0} is not the one that was signed")]
    OtherList(SignerList),
    #[error("it must commit to exactly one signed {0}")]
    NoPayload(&'static str),
    #[error("its {0} is malformed")]
    Malformed(&'static str),
    #[error("it names no {0}")]
    Names(&'static str),
    #[error("the signature is not in canonical form")]
    Armor,
    #[error("recorded as `{0}`, but `{1}` was signed")]
    Verdict(String, &'static str),
    /// A member of the entry (first) differs from the signed one (second).
    #[error("{0} are not those of the {1}")]
    Differ(&'static str, &'static str),
    #[error("the policy saw an approval that was never given")]
    Ungiven,
    #[error("the call was released, but the policy saw no approval")]
    Unapproved,
    #[error("it names who wrote its arguments, but no proposal")]
    NoProposal,
    #[error("no call was held that its proposal is about")]
    NoHold,
    #[error("`asked_by` does not name the person who signed the proposal")]
    Proposer,
    #[error("the call it changes was for another tool")]
    Tool,
    #[error("the proposal is about other arguments")]
    Arguments,
    #[error("the break-glass order is for another agent")]
    GlassAgent,
    #[error("the break-glass order is not for this tool")]
    GlassTools,
    #[error("it is not signed")]
    Unsigned,
    #[error("its order has no signature")]
    NoSignature,
    #[error("its order names no list of approvers")]
    NoList,
    #[error("the version of the list differs from the signed one")]
    ListVersion,
    #[error("the {0} differs from the signed one")]
    Other(&'static str),
    #[error("it names a signed order, but reinstates nothing")]
    Idle,
    #[error("its target or its end differs from the order's")]
    Target,
    #[error("`after` is not the entry that the order names as the newest")]
    After,
    #[error("{0} was erased before its retention time was over")]
    Young(Digest),
    #[error("{0} is not among the payloads that the order names")]
    NotOrdered(Digest),
    #[error("it lifts a different hold from the one that the order names")]
    OtherHold,
    #[error("its order was already used once")]
    Used,
    #[error("the hold was placed after the order to lift it was signed")]
    Placed,
    #[error("a value passed the firewall, and no signed order lets it")]
    NoException,
    #[error("a value passed the firewall by an order about another {0}")]
    ExceptionOf(&'static str),
    #[error("a value passed the firewall after its order had ended")]
    ExceptionOver,
    #[error("the order that let it pass was signed afterwards")]
    ExceptionEarly,
}

impl SignatureFlaw {
    /// This flaw, at the entry of this number.
    pub(super) fn at(self, seq: Seq) -> Self {
        Self::Seq(seq, Box::new(self))
    }
}

/// What the bundle or the trust file lacks to check a signature.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("seq {0}: {1}")]
    Seq(Seq, #[source] Box<Self>),
    #[error("`{0}` seq {1}: {2}")]
    Entry(String, Seq, #[source] Box<Self>),
    #[error("`{0}` is about a held call, but this program does not know the kind")]
    Kind(String),
    #[error("the trust file names no {0}")]
    Trust(SignerList),
    #[error("the bundle does not include the list of {0}")]
    List(SignerList),
    #[error("it names no list of approvers")]
    NoList,
    #[error("{0} is not disclosed")]
    Payload(&'static str),
    #[error("the proposed arguments are not disclosed")]
    Arguments,
    #[error("the call that it changes was held before the entries of this bundle begin")]
    Hold,
    #[error("the bundle does not include the opening of its run")]
    Opening,
}

impl Missing {
    /// This, at the entry of this number.
    pub(super) fn at(self, seq: Seq) -> Self {
        Self::Seq(seq, Box::new(self))
    }
}

/// Why a signature does not count, or cannot be checked.
#[derive(Debug)]
pub(super) enum Bad {
    Invalid(SignatureFlaw),
    Unverifiable(Missing),
}

impl Bad {
    /// This, at the entry of this number.
    pub(super) fn at(self, seq: Seq) -> Self {
        match self {
            Self::Invalid(flaw) => Self::Invalid(flaw.at(seq)),
            Self::Unverifiable(missing) => Self::Unverifiable(missing.at(seq)),
        }
    }
}

impl<E: Into<SignatureFlaw>> From<E> for Bad {
    fn from(why: E) -> Self {
        Self::Invalid(why.into())
    }
}

impl From<Missing> for Bad {
    fn from(missing: Missing) -> Self {
        Self::Unverifiable(missing)
    }
}
