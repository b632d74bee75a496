//! What agents over MCP receive: data about a broken exchange, and denials a model can act on.

use serde_json::{Map, Value, json};

use super::exchange::Broken;
use super::{Problem, reason_json, receipt_json, whole_seconds};
use crate::enforce::ModelWords;
use crate::mcp::{META_CALL, META_RECEIPT};

/// The `data` of a JSON-RPC error about a broken exchange.
#[must_use]
pub fn broken_data(what: Broken, detail: &str) -> Map<String, Value> {
    let detail = if detail.is_empty() { what.rule().detail } else { detail };
    let code = what.code();
    let mut data = Map::new();
    data.insert("code".into(), code.as_str().into());
    data.insert("detail".into(), detail.into());
    data.insert("retry".into(), code.rule().retry.as_str().into());
    data
}

impl Problem {
    /// As the text of a tool error: what happened, the rule that decided, whether anything ran, and
    /// what the model can do now.
    #[must_use]
    pub fn tool_text(&self) -> String {
        let words = ModelWords {
            code: self.code,
            detail: &self.detail,
            message: &self.message,
            reasons: &self.reasons,
            retry_after: self.retry_after,
            receipt: self.receipt.as_ref(),
        };
        words.text()
    }

    /// As the `_meta` of a tool error: the same for programs.
    #[must_use]
    pub fn tool_meta(&self) -> Map<String, Value> {
        let mut meta = Map::new();
        let retry = self.code.rule().retry.as_str();
        meta.insert("wicketgate.dev/code".into(), self.code.as_str().into());
        meta.insert("wicketgate.dev/retry".into(), retry.into());
        if !self.detail.is_empty() {
            meta.insert("wicketgate.dev/detail".into(), self.detail.clone().into());
        }
        if !self.reasons.is_empty() {
            let reasons = self.reasons.iter().map(reason_json).collect();
            meta.insert("wicketgate.dev/reasons".into(), reasons);
        }
        if let Some(after) = self.retry_after {
            meta.insert("wicketgate.dev/retry_after_seconds".into(), whole_seconds(after).into());
        }
        if let Some(expires) = self.expires {
            meta.insert("wicketgate.dev/expires".into(), expires.to_string().into());
        }
        if let Some(call) = &self.call {
            meta.insert(META_CALL.into(), call.as_str().into());
        }
        if let Some(receipt) = &self.receipt {
            meta.insert(META_RECEIPT.into(), receipt_json(receipt));
        }
        meta
    }

    /// As a whole result of `tools/call`.
    #[must_use]
    pub fn tool_error(&self) -> Map<String, Value> {
        let mut result = Map::new();
        result.insert("content".into(), json!([{"type": "text", "text": self.tool_text()}]));
        result.insert("isError".into(), true.into());
        result.insert("_meta".into(), self.tool_meta().into());
        result
    }
}
