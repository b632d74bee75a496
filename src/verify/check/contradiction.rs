//! Contradictions that P5 finds in a decision, and reasons why it cannot make one again.

use super::same;
use crate::domain::digest::Digest;
use crate::domain::json;
use crate::domain::members::Mismatch;
use crate::domain::time::Timestamp;
use crate::policy::fault;
use crate::policy::rego::ENGINE;
use crate::yaml;

/// How a recorded decision or its input contradicts the entry, the policy or the manifest.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Differs(#[from] same::Error),
    #[error("the entry is not a decision")]
    NoDecision,
    #[error("the entry names no policy")]
    NoPolicy,
    #[error(transparent)]
    Policy(#[from] fault::Error),
    #[error("recorded as `{0}`, but no policy was evaluated")]
    Unasked(String),
    #[error("denied without a reason")]
    NoReason,
    #[error("a policy decided (`{0}`), but the entry commits to no policy input")]
    NoInput(String),
    #[error("the policy's input: {0}")]
    Input(#[from] json::Error),
    #[error("the policy's input is not in canonical form")]
    Form,
    #[error("the policy's input: {0}")]
    Shape(Mismatch),
    #[error("the policy's input has unexpected or missing members")]
    Members,
    #[error("the policy saw a different `{0}` from the recorded one")]
    Member(&'static str),
    #[error("decided by a policy that had already expired")]
    Ended,
    #[error(
        "the policy saw different ancestor runs from the ones recorded when the run was opened"
    )]
    Delegation,
    #[error("the policy saw different labels from the ones that the run was opened with")]
    Labels,
    #[error("the manifest: {0}")]
    Manifest(#[from] yaml::Error),
    #[error("the policy saw an owner or labels that differ from the manifest's")]
    Owner,
    #[error("the run's binding to its model is weaker than the manifest accepts")]
    Binding,
    #[error("`observed`, but the call is neither one to a model nor proposed by one")]
    Unproposed,
    #[error("`proposed_by` names `{0}`, which is no call to a model")]
    ProposedBy(String),
    #[error("the policy saw an `agent.tier3` that differs from the manifest's")]
    Tier3,
    #[error("the policy saw approvals that are not recorded")]
    Approvals,
    #[error("the policy saw different layers that count approvers from the ones in its bundle")]
    Quorum,
    #[error("the policy saw a different break-glass order from the recorded one")]
    BreakGlass,
    #[error("the policy saw two different values of the same counter")]
    Counters,
    #[error("the policy's input has no time")]
    NoTime,
    #[error("the policy saw the time {seen}, and the entry is of {recorded}")]
    Time { seen: Timestamp, recorded: Timestamp },
    #[error("the policy saw two different times")]
    TwoTimes,
    #[error("the policy saw a different opening time of the run from the recorded one")]
    OpenedAt,
    #[error("the policy saw different layers in observe mode from the ones in its bundle")]
    Observing,
    #[error("the entry commits to no arguments")]
    NoArguments,
    #[error("the policy saw a different effect from the recorded one")]
    Effect,
    #[error("the policy saw different arguments from the recorded ones")]
    Arguments,
    #[error("the policy saw findings that do not follow from the arguments")]
    Findings,
    #[error("the policy saw findings that lack a recorded one")]
    RecordedFindings,
    #[error("the policy saw a different `firewall.{0}` from the recorded one")]
    Search(&'static str),
    #[error(
        "the kinds that the entry calls masked are not those of its findings, or the masked arguments have one of them"
    )]
    Masked,
    #[error("the policy saw a different `taint.{0}` from the recorded one")]
    Taint(&'static str),
}

/// Why a decision cannot be made again.
#[derive(thiserror::Error, Debug)]
pub(super) enum Undecidable {
    #[error("the policy's input is not disclosed")]
    Input,
    #[error("decided by `{0}`, but this program has `{ENGINE}`")]
    Engine(String),
    #[error("the bundle does not include the opening of its run")]
    Opening,
    #[error("the bundle does not include the bytes of {}", .0.prefixed())]
    Policy(Digest),
    #[error("the arguments are not disclosed")]
    Arguments,
    #[error("denied because the policy took too long")]
    Deadline,
    #[error("the policy takes too long on this machine")]
    Slow,
}
