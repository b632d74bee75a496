//! Why the answer of a model does not go on.

use std::time::Duration;

use super::hold_back::HoldsCredential;
use super::masking::UnknownKind;
use crate::catalog::llm::answer::AnswerError;
use crate::catalog::llm::sse;
use crate::domain::outcome::{FailureClass, Unmasked};
use crate::firewall::Unmaskable;
use crate::ledger::flow::FlowStopped;
use crate::tool::request::failed;

/// Why an answer does not go on. Each is an outcome of its call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Stopped(#[from] FlowStopped),
    #[error(transparent)]
    Credential(#[from] HoldsCredential),
    #[error(transparent)]
    Large(#[from] sse::TooLarge),
    #[error("a tool call of the answer could not be decided")]
    Undecided,
    #[error("a tool call of the answer was denied: {0}")]
    Denied(String),
    #[error("the provider was silent for {} seconds", .0.as_secs())]
    Silent(Duration),
    #[error("the connection to the provider was lost")]
    Lost,
    #[error("the answer has more than {0} bytes")]
    TooMuch(u64),
    #[error("the policy masks personal data, and the answer cannot go on: {0}")]
    Personal(#[from] Unmaskable),
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    #[error("the provider answered with `{0}`, where an answer of this protocol was due")]
    Form(String),
}

impl Broken {
    /// The outcome of the call.
    pub fn outcome(&self) -> Unmasked {
        let class = match self {
            Self::Stopped(FlowStopped::Left) => {
                return Unmasked::Cancelled { reason: crate::tool::LEFT.to_owned() };
            }
            Self::Stopped(FlowStopped::Unrecorded) | Self::Undecided => {
                return Unmasked::Unknown { cause: "unrecorded".to_owned() };
            }
            Self::Answer(AnswerError::Provider { .. } | AnswerError::Cut) | Self::Lost => {
                FailureClass::ToolError
            }
            Self::Answer(AnswerError::CallTooLarge) | Self::Large(_) | Self::TooMuch(_) => {
                FailureClass::TooLarge
            }
            Self::Silent(_) => FailureClass::Timeout,
            Self::Personal(_) => FailureClass::Opaque,
            Self::Answer(
                AnswerError::NotJson(_)
                | AnswerError::Protocol(_)
                | AnswerError::Acting { .. }
                | AnswerError::Choices
                | AnswerError::ProviderRan(_)
                | AnswerError::Undecided(_)
                | AnswerError::UnknownCall(_),
            )
            | Self::Credential(_)
            | Self::Denied(_)
            | Self::Kind(_)
            | Self::Form(_) => FailureClass::Protocol,
        };
        failed(class, true, &self.to_string())
    }
}
