//! What agents over MCP receive: errors of an exchange, and denials a model can act on.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{Problem, reason_json, receipt_json, whole_seconds};
use crate::domain::code::{Code, Rule};
use crate::mcp::{META_CALL, META_RECEIPT, rpc};

/// What can be wrong with an exchange before the gate reads the request in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The body is not JSON that every parser reads alike.
    Json,
    /// The JSON is not a single JSON-RPC message.
    Message,
    /// Parameters are missing or of the wrong kind.
    Params,
    /// The method is unknown.
    Method,
    /// A header is missing, or contradicts the body.
    Mirror,
    /// The protocol version is not spoken.
    Version,
    /// A server needs a capability that the client does not have.
    Capability,
    /// A header is repeated, or the framing can be read in two ways.
    Ambiguous,
    /// The request comes from a page of another origin.
    Origin,
    /// The host is not a name of this machine.
    Host,
    /// No such path.
    Route,
    /// The path is there and the HTTP method is not.
    Verb,
    /// The client takes neither JSON nor events.
    Accept,
    /// The body's media type is not JSON.
    MediaType,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    Late,
    /// The request names no session.
    SessionMissing,
    /// There is no such session, or it is another caller's.
    SessionUnknown,
    /// The session has its stream already, or too many streams are open.
    StreamTaken,
}

/// How one of them is rendered.
#[derive(Clone, Copy, Debug)]
pub struct BrokenRule {
    /// HTTP status where requests stand alone (2026-07-28).
    pub http: u16,
    /// HTTP status inside a session (2025): JSON-RPC errors about a request travel in a 200.
    pub http_in_session: u16,
    /// JSON-RPC error code.
    pub rpc: i64,
    /// The finer code, unless the code that found the error supplies a better one.
    pub detail: &'static str,
}

/// The table.
#[must_use]
pub const fn broken(what: Broken) -> BrokenRule {
    let (http, http_in_session, rpc, detail) = match what {
        Broken::Json => (400, 400, rpc::PARSE_ERROR, "json.syntax"),
        Broken::Message => (400, 400, rpc::INVALID_REQUEST, "rpc.message"),
        Broken::Params => (400, 200, rpc::INVALID_PARAMS, "rpc.params"),
        Broken::Method => (404, 200, rpc::METHOD_NOT_FOUND, "rpc.method"),
        Broken::Mirror => (400, 400, rpc::HEADER_MISMATCH, "http.mirror"),
        Broken::Version => (400, 400, rpc::UNSUPPORTED_VERSION, "mcp.version"),
        Broken::Capability => (400, 200, rpc::MISSING_CAPABILITY, "mcp.capability"),
        Broken::Ambiguous => (400, 400, rpc::INVALID_REQUEST, "http.ambiguous"),
        Broken::Origin => (403, 403, rpc::INVALID_REQUEST, "http.origin"),
        Broken::Host => (403, 403, rpc::INVALID_REQUEST, "http.host"),
        Broken::Route => (404, 404, rpc::INVALID_REQUEST, "http.route"),
        Broken::Verb => (405, 405, rpc::INVALID_REQUEST, "http.method"),
        Broken::Accept => (406, 406, rpc::INVALID_REQUEST, "http.accept"),
        Broken::MediaType => (415, 415, rpc::INVALID_REQUEST, "http.content_type"),
        Broken::TooLarge => (413, 413, rpc::INVALID_REQUEST, "message.size"),
        Broken::Late => (408, 408, rpc::INVALID_REQUEST, "message.late"),
        Broken::SessionMissing => (400, 400, rpc::INVALID_REQUEST, "mcp.session_missing"),
        Broken::SessionUnknown => (404, 404, rpc::INVALID_REQUEST, "mcp.session_unknown"),
        Broken::StreamTaken => (409, 409, rpc::INVALID_REQUEST, "mcp.stream"),
    };
    BrokenRule { http, http_in_session, rpc, detail }
}

/// The code of a broken exchange.
#[must_use]
pub fn broken_code(what: Broken) -> Code {
    if what == Broken::Route { Code::RouteUnknown } else { Code::RequestMalformed }
}

/// The `data` of a JSON-RPC error about a broken exchange.
#[must_use]
pub fn broken_data(what: Broken, detail: &str) -> Map<String, Value> {
    let detail = if detail.is_empty() { broken(what).detail } else { detail };
    let code = broken_code(what);
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
        let Rule { title, execution, .. } = self.code.rule();
        let mut text = if self.message == self.code.message() {
            title.to_owned()
        } else if self.message.starts_with(title) {
            self.message.clone()
        } else {
            format!("{title}: {}", self.message)
        };
        text.push_str(" (");
        let first = self.reasons.first();
        if let Some(reason) = first.filter(|reason| !reason.rule.is_empty()) {
            let _ = write!(text, "rule {}, ", reason.rule);
        }
        let _ = write!(text, "code {}", self.code);
        if !self.detail.is_empty() {
            let _ = write!(text, "/{}", self.detail);
        }
        let advice = self.code.advice(self.retry_after.map(whole_seconds));
        let _ = write!(text, "). {}. {}.", execution.as_str(), advice);
        for reason in self.reasons.iter().skip(1).take(REASONS_MAX) {
            let _ = write!(text, " also: {} ({}).", reason.message, reason.rule);
        }
        if let Some(receipt) = &self.receipt {
            let _ = write!(text, " receipt: entry {} of chain {}.", receipt.seq, receipt.chain);
        }
        text
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

/// Reasons after the first that the sentence contains; `_meta` has them all.
const REASONS_MAX: usize = 4;
