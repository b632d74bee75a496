//! Ollama's chat.

use http::HeaderMap;
use serde_json::{Value, json};

use super::{BegunResponse, SpokenDialect, UNDATED, WordedError};
use crate::domain::dialect::Dialect;

/// The dialect.
pub(super) struct SpokenOllama;

impl SpokenDialect for SpokenOllama {
    fn root(&self) -> &'static str {
        "/api"
    }

    fn claims(&self, path: &str, _headers: &HeaderMap) -> bool {
        path.starts_with(self.root())
    }

    /// Lines have none.
    fn has_comments(&self) -> bool {
        false
    }

    /// WHY no line: clients read each as JSON, and take space before it.
    fn beat(&self) -> &'static [u8] {
        b" "
    }

    fn error(&self, error: &WordedError<'_>) -> Value {
        json!({"error": error.message, "wicketgate": error.problem})
    }

    fn broken(&self, error: &WordedError<'_>, _begun: &BegunResponse) -> Vec<u8> {
        format!("{}\n", self.error(error)).into_bytes()
    }

    fn lists(&self, offered: Dialect) -> bool {
        offered == Dialect::Ollama
    }

    fn model(&self, id: &str) -> Value {
        json!({
            "name": id, "model": id, "modified_at": UNDATED, "size": 0, "digest": "",
            "details": {"format": "", "family": "", "families": null, "parameter_size": "",
                "quantization_level": ""},
        })
    }

    fn models(&self, ids: &[&str]) -> Value {
        let models: Vec<Value> = ids.iter().map(|id| self.model(id)).collect();
        json!({"models": models})
    }
}
