//! OpenAI's responses.

use http::HeaderMap;
use serde_json::{Value, json};

use super::{BegunResponse, ErrorKind, SpokenDialect, WordedError, openai};
use crate::domain::dialect::Dialect;
use crate::domain::id::CallId;
use crate::mcp::sse;

/// The dialect.
pub(super) struct SpokenResponses;

/// The `code` of a response that failed. Clients stop at the first, and ask again at the second.
const fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid
        | ErrorKind::Authentication
        | ErrorKind::Permission
        | ErrorKind::NotFound
        | ErrorKind::TooLarge => "invalid_prompt",
        ErrorKind::RateLimit | ErrorKind::Server => "server_error",
    }
}

/// The event `response.failed`.
fn failed(error: &WordedError<'_>, begun: &BegunResponse) -> Value {
    let code = code(error.kind());
    let own = || format!("resp_{}", error.call.map_or("wicketgate", CallId::as_str));
    let id = begun.id.clone().unwrap_or_else(own);
    // WHY the error beside the response: OpenAI's libraries raise it, and say nothing of the other.
    let beside = json!({"code": code, "message": error.message, "type": code});
    let number = begun.next_number;
    json!({"type": "response.failed", "sequence_number": number, "error": beside, "response": {
        "id": id,
        "object": "response",
        "created_at": 0,
        "status": "failed",
        "error": {"code": code, "message": error.message},
        "incomplete_details": null,
        "output": [],
        "usage": null,
        "wicketgate": error.problem,
    }})
}

impl SpokenDialect for SpokenResponses {
    fn claims(&self, path: &str, _headers: &HeaderMap) -> bool {
        path.starts_with("/v1/responses")
    }

    fn numbers_events(&self) -> bool {
        true
    }

    fn error(&self, error: &WordedError<'_>) -> Value {
        openai::error(error)
    }

    fn broken(&self, error: &WordedError<'_>, begun: &BegunResponse) -> Vec<u8> {
        sse::event("response.failed", None, failed(error, begun).to_string().as_bytes())
    }

    fn lists(&self, offered: Dialect) -> bool {
        openai::lists(offered)
    }

    fn model(&self, id: &str) -> Value {
        openai::model(id)
    }

    fn models(&self, ids: &[&str]) -> Value {
        openai::models(ids)
    }
}
