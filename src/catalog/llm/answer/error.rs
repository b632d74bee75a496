//! Why an answer is not passed on.

use super::acting::short;
use super::text_of;
use crate::domain::json::Json;

/// Why an answer is not passed on. A caller may read it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AnswerError {
    /// An event or an answer is not strict JSON; the code of the strict reader.
    #[error("the provider's answer is not strict JSON ({0})")]
    NotJson(&'static str),
    /// It is JSON, and not of this protocol.
    #[error("the provider's answer does not follow its protocol: {0}")]
    Protocol(String),
    /// A part that the gate does not know has a member by which a tool could be called.
    #[error(
        "the provider's answer has a part `{kind}` that the gate does not know, with a member `{member}`"
    )]
    Acting {
        /// The type of the part.
        kind: String,
        /// The member.
        member: String,
    },
    /// More than one choice.
    #[error("the provider's answer has more than one choice; ask for one")]
    Choices,
    /// The provider ran a tool that was not allowed.
    #[error("the provider ran `{0}` by itself, which was not allowed")]
    ProviderRan(String),
    /// A tool call is too large.
    #[error("the model's tool call has more than {} bytes", super::CALL_BYTES_MAX)]
    CallTooLarge,
    /// The provider reports an error instead of going on.
    #[error("the provider failed: {message}")]
    Provider {
        /// Its words, at most 512 characters.
        message: String,
    },
    /// The answer broke off.
    #[error("the provider's answer broke off before its end")]
    Cut,
    /// The gate went on although a call was neither allowed nor denied.
    #[error("tool call {0} of the answer was not decided")]
    Undecided(usize),
    /// The gate decided about a call that does not wait.
    #[error("tool call {0} of the answer does not wait for a decision")]
    UnknownCall(usize),
}

impl AnswerError {
    /// The stable detail of `tool.failed`.
    pub const fn detail(&self) -> &'static str {
        match self {
            Self::NotJson(_)
            | Self::Protocol(_)
            | Self::Acting { .. }
            | Self::Undecided(_)
            | Self::UnknownCall(_) => "protocol",
            Self::Choices => "model.choices",
            Self::ProviderRan(_) => "model.hosted_tool",
            Self::CallTooLarge => "model.tool_call",
            Self::Provider { .. } => "model.error",
            Self::Cut => "model.cut",
        }
    }

    /// What a provider reports: an object with a message, or a message.
    pub(super) fn provider(error: &Json) -> Self {
        let words = error.as_str().or_else(|| text_of(error, "message"));
        let words = words.or_else(|| text_of(error, "type")).or_else(|| text_of(error, "code"));
        let message = words.unwrap_or("it gave no reason");
        Self::Provider { message: message.chars().take(512).collect() }
    }
}

/// A protocol error about an event of this type.
pub(super) fn unexpected(kind: &str) -> AnswerError {
    AnswerError::Protocol(format!("`{}` where it does not belong", short(kind)))
}
