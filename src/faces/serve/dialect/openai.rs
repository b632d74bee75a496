//! What the two dialects of OpenAI have in common.

use serde_json::{Value, json};

use super::{ErrorKind, WordedError};
use crate::domain::dialect::Dialect;

/// The `type` of an error, of which there is none of its own for two kinds.
const fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::TooLarge => "invalid_request_error",
        ErrorKind::Authentication => "authentication_error",
        ErrorKind::Permission => "permission_error",
        ErrorKind::RateLimit => "rate_limit_error",
        ErrorKind::Server => "server_error",
    }
}

pub(super) fn error(error: &WordedError<'_>) -> Value {
    json!({"error": {
        "message": error.message,
        "type": kind(error.kind()),
        "param": null,
        "code": error.code,
        "wicketgate": error.problem,
    }})
}

/// One client speaks both, and lists what either takes.
pub(super) const fn lists(offered: Dialect) -> bool {
    matches!(offered, Dialect::Chat | Dialect::Responses)
}

pub(super) fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": "wicketgate"})
}

pub(super) fn models(ids: &[&str]) -> Value {
    let data: Vec<Value> = ids.iter().map(|id| model(id)).collect();
    json!({"object": "list", "data": data})
}
