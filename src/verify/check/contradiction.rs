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
    #[error("it is no decision")]
    NoDecision,
    #[error("no policy is named")]
    NoPolicy,
    #[error(transparent)]
    Policy(#[from] fault::Error),
    #[error("`{0}`, and no policy was asked")]
    Unasked(String),
    #[error("refused without a reason")]
    NoReason,
    #[error("a policy's word (`{0}`) without the input it was asked with")]
    NoInput(String),
    #[error("the policy's input: {0}")]
    Input(#[from] json::Error),
    #[error("the policy's input is not in canonical form")]
    Form,
    #[error("the policy's input: {0}")]
    Shape(Mismatch),
    #[error("the policy's input has other members than it may have")]
    Members,
    #[error("the policy saw another `{0}` than is recorded")]
    Member(&'static str),
    #[error("decided by a policy that had ended")]
    Ended,
    #[error("the policy saw other runs above than the run was opened below")]
    Delegation,
    #[error("the policy saw other labels than the run was opened with")]
    Labels,
    #[error("the manifest: {0}")]
    Manifest(#[from] yaml::Error),
    #[error("the policy saw another owner or other labels than the manifest's")]
    Owner,
    #[error("the run is bound to its model by less than the manifest accepts")]
    Binding,
    #[error("the policy saw another `agent.tier3` than the manifest says")]
    Tier3,
    #[error("the policy saw approvals that are not recorded")]
    Approvals,
    #[error("the policy saw other layers that count approvers than it has")]
    Quorum,
    #[error("the policy saw another break-glass order than is recorded")]
    BreakGlass,
    #[error("the policy saw two counts of one thing")]
    Counters,
    #[error("the policy saw no time")]
    NoTime,
    #[error("the policy saw {told}, and the entry is of {recorded}")]
    Time { told: Timestamp, recorded: Timestamp },
    #[error("the policy saw two times")]
    TwoTimes,
    #[error("the policy saw another time at which the run was opened")]
    OpenedAt,
    #[error("the policy saw other observing layers than it has")]
    Observing,
    #[error("no arguments are committed to")]
    NoArguments,
    #[error("the policy saw another effect than is recorded")]
    Effect,
    #[error("the policy saw other arguments than were recorded")]
    Arguments,
    #[error("the policy saw other findings than there are")]
    Findings,
}

/// Why a decision cannot be made again.
#[derive(thiserror::Error, Debug)]
pub(super) enum Undecidable {
    #[error("the policy's input is not disclosed")]
    Input,
    #[error("decided by `{0}`, this is `{ENGINE}`")]
    Engine(String),
    #[error("the opening of its run is not here")]
    Opening,
    #[error("the bytes of {} are not here", .0.prefixed())]
    Policy(Digest),
    #[error("the arguments are not disclosed")]
    Arguments,
    #[error("refused because the policy took too long")]
    Deadline,
    #[error("the policy takes too long on this machine")]
    Slow,
}
