//! Anthropic's messages.

use http::HeaderMap;
use serde_json::{Value, json};

use super::{BegunResponse, ErrorKind, SpokenDialect, UNDATED, WordedError};
use crate::domain::dialect::Dialect;
use crate::mcp::sse;

/// The header by which its clients are known: they ask for models at the path of the others.
pub(in crate::serve) const ANTHROPIC: &str = "anthropic-version";

/// The dialect.
pub(super) struct SpokenMessages;

/// The `type` of an error.
const fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid_request_error",
        ErrorKind::Authentication => "authentication_error",
        ErrorKind::Permission => "permission_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::RateLimit => "rate_limit_error",
        ErrorKind::Server => "api_error",
    }
}

impl SpokenDialect for SpokenMessages {
    fn claims(&self, path: &str, headers: &HeaderMap) -> bool {
        let below = path.strip_prefix(self.root());
        let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        path.starts_with("/v1/messages") || is_below && headers.contains_key(ANTHROPIC)
    }

    fn has_preview(&self) -> bool {
        true
    }

    fn ping(&self) -> &'static [u8] {
        b"event: ping\ndata: {\"type\": \"ping\"}\n\n"
    }

    fn error(&self, error: &WordedError<'_>) -> Value {
        let WordedError { message, problem, .. } = error;
        let worded = json!({"type": kind(error.kind()), "message": message, "wicketgate": problem});
        let mut body = json!({"type": "error", "error": worded});
        if let (Some(call), Some(members)) = (error.call, body.as_object_mut()) {
            members.insert("request_id".into(), call.as_str().into());
        }
        body
    }

    fn broken(&self, error: &WordedError<'_>, _begun: &BegunResponse) -> Vec<u8> {
        sse::event("error", None, self.error(error).to_string().as_bytes())
    }

    fn lists(&self, offered: Dialect) -> bool {
        offered == Dialect::Messages
    }

    fn model(&self, id: &str) -> Value {
        json!({"type": "model", "id": id, "display_name": id, "created_at": UNDATED})
    }

    fn models(&self, ids: &[&str]) -> Value {
        let data: Vec<Value> = ids.iter().map(|id| self.model(id)).collect();
        json!({
            "data": data,
            "has_more": false,
            "first_id": ids.first(),
            "last_id": ids.last(),
        })
    }
}
