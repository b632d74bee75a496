//! Why an answer is not passed on, and errors in the words of each dialect.

use super::acting::short;
use super::{Frame, text_of};
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, json};

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
    /// The provider ran a tool that nobody allowed.
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

/// An error as an agent reads it.
#[derive(Clone, Debug)]
pub struct ErrorWords {
    /// The dialect's type: `permission_error`, `api_error`, …
    pub kind: String,
    /// Our code.
    pub code: String,
    /// What happened and what to do next.
    pub message: String,
    /// The problem, for programs.
    pub wicketgate: Json,
    /// The id of the call; empty if there is none.
    pub call: String,
    /// Whether the gate denies: asking again does not help.
    pub denied: bool,
}

/// The body of an error answer.
pub fn error_body(dialect: Dialect, words: &ErrorWords) -> Json {
    let ErrorWords { kind, code, message, wicketgate, call, denied: _ } = words;
    let shared = [
        ("message", Json::from(message.as_str())),
        ("type", Json::from(kind.as_str())),
        ("wicketgate", wicketgate.clone()),
    ];
    match dialect {
        Dialect::Chat | Dialect::Responses => {
            let own = [("param", Json::Null), ("code", Json::from(code.as_str()))];
            Json::object([("error", Json::object(shared.into_iter().chain(own)))])
        }
        Dialect::Messages => Json::object([
            ("type", Json::from("error")),
            ("error", Json::object(shared)),
            ("request_id", Json::from(call.as_str())),
        ]),
    }
}

/// The frames of an error within a stream. The connection ends after them, without the end of an
/// answer: a clean end would make clients take what they have for a whole answer.
pub fn error_frame(dialect: Dialect, words: &ErrorWords) -> Vec<Frame> {
    match dialect {
        Dialect::Chat => vec![Frame::unnamed(canonical::text(&error_body(dialect, words)))],
        Dialect::Messages => {
            // These two types decide whether clients ask again.
            let kind = if words.denied { "permission_error" } else { "api_error" };
            let words = ErrorWords { kind: kind.into(), ..words.clone() };
            vec![Frame::named("error", canonical::text(&error_body(dialect, &words)))]
        }
        Dialect::Responses => {
            // Clients ask again for everything but an invalid prompt.
            let code = if words.denied { "invalid_prompt" } else { "server_error" };
            let event = json!({
                "type": "response.failed",
                "sequence_number": 0,
                "response": {
                    "id": &words.call, "object": "response", "status": "failed", "output": [],
                    "error": {"code": code, "message": &words.message},
                },
                "wicketgate": words.wicketgate.to_serde(),
            });
            vec![Frame::named("response.failed", canonical::text(&event))]
        }
    }
}

/// The sign of life of a stream in which nothing happens.
pub fn ping(dialect: Dialect) -> Vec<u8> {
    match dialect {
        Dialect::Chat | Dialect::Responses => b":\n\n".to_vec(),
        Dialect::Messages => Frame::named("ping", r#"{"type":"ping"}"#).encode(),
    }
}

/// A protocol error about an event of this type.
pub(super) fn unexpected(kind: &str) -> AnswerError {
    AnswerError::Protocol(format!("`{}` where it does not belong", short(kind)))
}
