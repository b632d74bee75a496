//! Why a request to a model is refused.

use crate::llm::cursor::PlaceError;

/// Why a request is refused. A message names the member and says what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AskError {
    /// A member that the dialect's table does not have.
    #[error(
        "unknown member `{0}`; remove it, or ask the operator to add its name to `model.pass_members`"
    )]
    Unknown(String),
    /// A member with a value of another form.
    #[error("`{at}`: expected {expected}")]
    Shape {
        /// The member.
        at: String,
        /// The form.
        expected: &'static str,
    },
    /// Two tools of one name.
    #[error("`{at}`: a tool `{name}` is offered twice; offer each name once")]
    Twice {
        /// The second one.
        at: String,
        /// The name.
        name: String,
    },
    /// A name that only the gate gives.
    #[error("`{0}`: the name `wicketgate_denied` belongs to the gate; remove the tool")]
    Reserved(String),
    /// Other models that the provider may answer with.
    #[error(
        "`{0}`: the provider would ask other models past the gate; remove it, or ask the operator to list their provider in `model.upstreams`"
    )]
    OtherModel(String),
    /// An operation that the dialect does not have.
    #[error("this protocol counts no tokens; use `/v1/messages/count_tokens`")]
    Operation,
    /// The bytes of the request do not hold what was read from them.
    #[error("the request cannot be read as it was sent; send plain UTF-8 JSON")]
    Sent,
    /// A tool, or a trace of a tool, that the provider runs.
    #[error(
        "`{at}` is of type `{kind}`: the provider would run it past the gate; remove it, or ask the operator for `model.hosted_tools`"
    )]
    HostedTool {
        /// The tool.
        at: String,
        /// Its type, or the name of the member.
        kind: String,
    },
    /// State at the provider, which the gate cannot see.
    #[error(
        "`{0}`: the gate cannot see what the provider remembers, and no setting allows it; send the whole conversation"
    )]
    RemoteState(String),
    /// Content that the provider would fetch.
    #[error(
        "`{0}`: the provider would fetch this past the gate; send the content inline, or ask the operator for `model.remote_hosts`"
    )]
    RemoteContent(String),
    /// More than one answer.
    #[error(
        "`{0}`: each answer is judged by itself, and no setting allows more in one request; ask for one"
    )]
    Choices(String),
    /// Content of a type that the gate does not read.
    #[error(
        "`{at}`: the gate does not read content of type `{kind}`, and no setting lets it pass; remove it"
    )]
    Content {
        /// The part, block or item.
        at: String,
        /// Its type.
        kind: String,
    },
}

impl From<PlaceError> for AskError {
    fn from(_: PlaceError) -> Self {
        Self::Sent
    }
}

impl AskError {
    /// The stable detail of the refusal.
    #[must_use]
    pub const fn detail(&self) -> &'static str {
        match self {
            Self::Unknown(_)
            | Self::Shape { .. }
            | Self::Twice { .. }
            | Self::Reserved(_)
            | Self::OtherModel(_)
            | Self::Operation
            | Self::Sent => "model.argument",
            Self::HostedTool { .. } => "model.hosted_tool",
            Self::RemoteState(_) => "model.remote_state",
            Self::RemoteContent(_) => "model.remote_content",
            Self::Choices(_) => "model.choices",
            Self::Content { .. } => "model.content",
        }
    }
}
