//! What clients of a dialect read and send besides questions and answers: errors, signs of life, lists
//! of models. Each dialect has one module; nothing else in `serve` asks which dialect it is.
//!
//! A new one has its variant in `domain::dialect`, a module here, in `catalog/llm/ask`, in
//! `catalog/llm/answer` and in `tool/model/masking`, its rows in `llm/route.rs`, and a module in
//! `tests/llm/said`, which puts it into every test of the dialects.

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::domain::dialect::Dialect;
use crate::domain::id::CallId;

mod chat;
mod gemini;
mod messages;
mod ollama;
mod openai;
mod responses;

pub(super) use messages::ANTHROPIC;

/// A comment: carries nothing, and shows that the gate is alive.
pub(super) const COMMENT: &[u8] = b":\n\n";

/// The time at which clients read that a model was made: the gate does not know it.
const UNDATED: &str = "1970-01-01T00:00:00Z";

/// The kinds of errors that the dialects distinguish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ErrorKind {
    /// The request is wrong.
    Invalid,
    /// The credential is wrong.
    Authentication,
    /// It is denied.
    Permission,
    /// There is no such thing.
    NotFound,
    /// The body is too large.
    TooLarge,
    /// A limit is reached, and becomes free by itself.
    RateLimit,
    /// The gate or the model failed.
    Server,
}

impl ErrorKind {
    pub(super) const fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            401 => Self::Authentication,
            403 => Self::Permission,
            404 | 410 => Self::NotFound,
            413 => Self::TooLarge,
            429 => Self::RateLimit,
            400..=499 => Self::Invalid,
            _ => Self::Server,
        }
    }
}

/// An error, before a dialect words it.
#[derive(Debug)]
pub(super) struct WordedError<'a> {
    pub status: StatusCode,
    /// What happened, and what to do next.
    pub message: String,
    /// The stable code.
    pub code: &'static str,
    /// The whole of it, as a document of RFC 9457.
    pub problem: Value,
    pub call: Option<&'a CallId>,
}

impl WordedError<'_> {
    const fn kind(&self) -> ErrorKind {
        ErrorKind::of(self.status)
    }
}

/// What a client has read of an answer that breaks off: the event that ends it agrees with that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct BegunResponse {
    /// The provider's id of the response, if it was sent.
    pub id: Option<String>,
    /// The number of the next event.
    pub next_number: u64,
    /// Whether the answer is one JSON list, and whether it has an item.
    pub list: Option<bool>,
}

/// A dialect, as its clients know it.
pub(super) trait SpokenDialect: Sync {
    /// Where its paths begin.
    fn root(&self) -> &'static str {
        "/v1"
    }

    /// Whether a request at a path that has no dialect of its own is of a client of this one.
    fn claims(&self, path: &str, headers: &HeaderMap) -> bool;

    /// Whether the gate runs its tool loop.
    fn runs_loop(&self) -> bool {
        false
    }

    /// Whether clients ask for a preview API in the query.
    fn has_preview(&self) -> bool {
        false
    }

    /// Whether the event of an error goes on with the id and the numbers of the events before it.
    fn numbers_events(&self) -> bool {
        false
    }

    /// Whether its streams may have comments.
    fn has_comments(&self) -> bool {
        true
    }

    /// The sign of life in a stream that has been silent for a second.
    fn beat(&self) -> &'static [u8] {
        COMMENT
    }

    /// The same in one that has been silent for long.
    fn ping(&self) -> &'static [u8] {
        self.beat()
    }

    /// An error as a whole answer.
    fn error(&self, error: &WordedError<'_>) -> Value;

    /// The event of an answer that breaks off. Nothing follows it, no end of the answer either: of an
    /// error before a clean end some clients see only the end.
    fn broken(&self, error: &WordedError<'_>, begun: &BegunResponse) -> Vec<u8>;

    /// Whether its clients list a model that this dialect is offered for.
    fn lists(&self, offered: Dialect) -> bool;

    /// A model.
    fn model(&self, id: &str) -> Value;

    /// A list of models.
    fn models(&self, ids: &[&str]) -> Value;
}

/// The dialect, as its clients know it.
pub(super) const fn spoken(dialect: Dialect) -> &'static dyn SpokenDialect {
    match dialect {
        Dialect::Chat => &chat::SpokenChat,
        Dialect::Responses => &responses::SpokenResponses,
        Dialect::Messages => &messages::SpokenMessages,
        Dialect::Gemini => &gemini::SpokenGemini,
        Dialect::Ollama => &ollama::SpokenOllama,
    }
}
