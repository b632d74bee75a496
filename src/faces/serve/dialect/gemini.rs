//! Google's Gemini.

use http::HeaderMap;
use serde_json::{Value, json};

use super::{BegunResponse, ErrorKind, SpokenDialect, WordedError};
use crate::domain::dialect::Dialect;

/// The dialect.
pub(super) struct SpokenGemini;

/// The `status` of an error.
const fn status(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid | ErrorKind::TooLarge => "INVALID_ARGUMENT",
        ErrorKind::Authentication => "UNAUTHENTICATED",
        ErrorKind::Permission => "PERMISSION_DENIED",
        ErrorKind::NotFound => "NOT_FOUND",
        ErrorKind::RateLimit => "RESOURCE_EXHAUSTED",
        ErrorKind::Server => "UNAVAILABLE",
    }
}

impl SpokenDialect for SpokenGemini {
    fn root(&self) -> &'static str {
        "/v1beta"
    }

    fn claims(&self, path: &str, _headers: &HeaderMap) -> bool {
        path.starts_with(self.root())
    }

    /// WHY: a library of Google takes one for the beginning of an error.
    fn has_comments(&self) -> bool {
        false
    }

    fn beat(&self) -> &'static [u8] {
        b"\n"
    }

    fn error(&self, error: &WordedError<'_>) -> Value {
        json!({"error": {
            "code": error.status.as_u16(),
            "message": error.message,
            "status": status(error.kind()),
            "wicketgate": error.problem,
        }})
    }

    fn broken(&self, error: &WordedError<'_>, begun: &BegunResponse) -> Vec<u8> {
        let body = self.error(error);
        let text = match begun.list {
            None => format!("data: {body}\n\n"),
            Some(false) => format!("[{body}\n]\n"),
            Some(true) => format!(",\r\n{body}\n]\n"),
        };
        text.into_bytes()
    }

    fn lists(&self, offered: Dialect) -> bool {
        offered == Dialect::Gemini
    }

    fn model(&self, id: &str) -> Value {
        json!({
            "name": format!("models/{id}"), "baseModelId": id, "version": "", "displayName": id,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    }

    fn models(&self, ids: &[&str]) -> Value {
        let models: Vec<Value> = ids.iter().map(|id| self.model(id)).collect();
        json!({"models": models})
    }
}
