//! OpenAI's chat completions, which many clients and servers speak.

use http::HeaderMap;
use serde_json::Value;

use super::{BegunResponse, SpokenDialect, WordedError, openai};
use crate::domain::dialect::Dialect;

/// The dialect.
pub(super) struct SpokenChat;

impl SpokenDialect for SpokenChat {
    /// It has what no other dialect claims.
    fn claims(&self, _path: &str, _headers: &HeaderMap) -> bool {
        false
    }

    fn runs_loop(&self) -> bool {
        true
    }

    fn error(&self, error: &WordedError<'_>) -> Value {
        openai::error(error)
    }

    fn broken(&self, error: &WordedError<'_>, _begun: &BegunResponse) -> Vec<u8> {
        format!("data: {}\n\n", self.error(error)).into_bytes()
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
