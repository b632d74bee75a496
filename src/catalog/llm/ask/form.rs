//! What a dialect says of its requests besides their members. Each has one of these in its own module.

use super::{chat, gemini, messages, ollama, responses};
use crate::domain::dialect::{Dialect, Operation};

/// The form of the requests of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct AskForm {
    /// The member with the conversation.
    pub list: &'static str,
    /// The member with the bound of the answer; none if upstreams name it differently.
    pub bound: Option<&'static str>,
    /// The member whose object has that bound; none if the request itself has it.
    pub holder: Option<&'static str>,
    /// The members of the judged arguments that a path says, and no body.
    pub path_members: &'static [&'static str],
    /// The URL of a request.
    pub target: fn(&AskTarget<'_>) -> String,
}

/// What the URL of a request depends on.
#[derive(Clone, Copy, Debug)]
pub struct AskTarget<'a> {
    /// The URL of the upstream, which ends where the dialect's own path begins.
    pub base: &'a str,
    /// The model, as the upstream names it.
    pub model: &'a str,
    /// What is asked for.
    pub operation: Operation,
    /// Whether the answer is to be a stream.
    pub stream: bool,
    /// Whether the agent asks for the provider's preview API.
    pub beta: bool,
}

/// The URL where the base is that of the resource: most dialects say the rest in the body.
pub(super) fn plain_target(target: &AskTarget<'_>) -> String {
    let AskTarget { base, operation, beta, .. } = *target;
    let beta = if beta { "?beta=true" } else { "" };
    match operation {
        Operation::Generate => format!("{base}{beta}"),
        Operation::CountTokens => format!("{base}/count_tokens{beta}"),
    }
}

/// The form of the requests of this dialect.
#[must_use]
pub const fn form(dialect: Dialect) -> &'static AskForm {
    match dialect {
        Dialect::Chat => &chat::FORM,
        Dialect::Responses => &responses::FORM,
        Dialect::Messages => &messages::FORM,
        Dialect::Gemini => &gemini::FORM,
        Dialect::Ollama => &ollama::FORM,
    }
}
