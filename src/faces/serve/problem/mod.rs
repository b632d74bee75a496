//! Errors as callers see them: one table, three renderings, no wording of a face's own.
//!
//! The codes are contract. `rule` is one total match over `Code`, so a new code does not compile
//! until its author decides its status and whether trying again is safe. `mcp` has what only agents
//! over MCP receive: errors of an exchange, and denials a model can act on.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tonic::metadata::MetadataMap;
use tonic_types::{ErrorDetail, ErrorInfo, RetryInfo, StatusExt as _};

use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::id::CallId;
use crate::domain::time::Timestamp;
use crate::enforce::Fault;
use crate::identity::IdentityError;
use crate::ledger::permit::Receipt;

pub mod mcp;

/// The `domain` of every `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "wicketgate.dev";

/// Metadata key and HTTP header of a receipt.
pub const RECEIPT: &str = "wicketgate-receipt";

// WHY: reasons travel in trailers, and clients drop answers whose headers pass 8 KiB.
const REASONS_BYTES_MAX: usize = 3072;
const MESSAGE_BYTES_MAX: usize = 1024;

/// Whether asking again is safe, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// Repeating the request gives the same answer.
    No,
    /// Later, when the limit allows it.
    After,
    /// With the same call id: it runs at most once.
    SameId,
    /// As a new call with a new id.
    NewId,
    /// Ask for the same id until it is decided.
    Poll,
}

impl Retry {
    /// The value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::After => "after",
            Self::SameId => "same_id",
            Self::NewId => "new_id",
            Self::Poll => "poll",
        }
    }
}

/// How one code is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// gRPC status.
    pub grpc: tonic::Code,
    /// HTTP status.
    pub http: u16,
    /// JSON-RPC error code.
    pub rpc: i32,
    /// Whether asking again is safe.
    pub retry: Retry,
    /// What happened, in general: the same for every problem of this code.
    pub title: &'static str,
}

/// The contract's table.
#[must_use]
pub const fn rule(code: Code) -> Rule {
    use tonic::Code as G;
    let (grpc, http, rpc, retry, title) = match code {
        Code::RequestMalformed => {
            (G::InvalidArgument, 400, -32602, Retry::No, "the request cannot be read")
        }
        Code::IdentityMissing => {
            (G::Unauthenticated, 401, -32001, Retry::No, "no credential that is known")
        }
        Code::ManifestMismatch => {
            (G::PermissionDenied, 403, -32003, Retry::No, "the agent is not the manifest's")
        }
        Code::BindingInsufficient => {
            (G::PermissionDenied, 403, -32003, Retry::No, "the manifest accepts no such binding")
        }
        Code::ToolNotGranted => {
            (G::PermissionDenied, 403, -32003, Retry::No, "the tool does not exist for this agent")
        }
        Code::ArgumentsInvalid => {
            (G::InvalidArgument, 400, -32602, Retry::No, "the arguments break the tool's schema")
        }
        Code::EffectRefused => {
            (G::PermissionDenied, 403, -32003, Retry::No, "the target is off limits or missing")
        }
        Code::PolicyDenied => {
            (G::PermissionDenied, 403, -32003, Retry::No, "a policy denied the call")
        }
        Code::PolicyError => {
            (G::PermissionDenied, 403, -32003, Retry::No, "the policy could not answer")
        }
        Code::CallHeld => {
            (G::FailedPrecondition, 202, -32010, Retry::Poll, "the call waits for an approval")
        }
        Code::LimitExceeded => {
            (G::ResourceExhausted, 429, -32029, Retry::After, "a limit is reached")
        }
        Code::Overloaded => {
            (G::Unavailable, 503, -32053, Retry::SameId, "too much work is waiting")
        }
        Code::Shutdown => (G::Unavailable, 503, -32053, Retry::SameId, "the gate is draining"),
        Code::LedgerUnavailable => {
            (G::Unavailable, 503, -32053, Retry::SameId, "the ledger cannot be written")
        }
        Code::LedgerUnknown => {
            (G::Unavailable, 503, -32053, Retry::SameId, "the ledger did not confirm in time")
        }
        Code::ToolFailed => (G::Aborted, 502, -32050, Retry::No, "the tool failed"),
        Code::CallUnknown => {
            (G::DataLoss, 500, -32052, Retry::No, "the call ran and its outcome is not known")
        }
        Code::CallConflict => {
            (G::AlreadyExists, 409, -32009, Retry::No, "the call id was used for another call")
        }
        Code::CallNotFound => (G::NotFound, 404, -32004, Retry::No, "no such call in this run"),
        Code::CallResultUnavailable => {
            (G::NotFound, 410, -32011, Retry::No, "the recorded result can no longer be given")
        }
        Code::RunUnknown => (G::NotFound, 404, -32004, Retry::No, "no such run"),
        Code::RunSealed => (G::FailedPrecondition, 409, -32008, Retry::No, "the run is over"),
        Code::CallExpired => {
            (G::DeadlineExceeded, 410, -32012, Retry::NewId, "the call was held too long")
        }
        Code::CallCancelled => (G::Aborted, 409, -32013, Retry::NewId, "the call was cancelled"),
        Code::OperatorForbidden => {
            (G::PermissionDenied, 403, -32003, Retry::No, "the operator may not do this")
        }
        Code::ApprovalUnviewable => {
            (G::FailedPrecondition, 409, -32014, Retry::No, "the held call cannot be shown whole")
        }
        Code::NotReady => (G::Unavailable, 503, -32053, Retry::SameId, "the gate is not ready"),
        Code::RouteUnknown => (G::Unimplemented, 404, -32601, Retry::No, "there is nothing here"),
    };
    Rule { grpc, http, rpc, retry, title }
}

/// One error on its way out. Everything in it is public.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// What happened, in general.
    pub title: &'static str,
    /// The finer code: `json.duplicate_key`; empty if there is none.
    pub detail: String,
    /// What happened, this time, for a person.
    pub message: String,
    /// The call, once it has an id.
    pub call: Option<CallId>,
    /// Every reason of a recorded denial or hold.
    pub reasons: Vec<LayerReason>,
    /// Where the ledger records it.
    pub receipt: Option<Receipt>,
    /// Until when a held call waits.
    pub expires: Option<Timestamp>,
    /// When trying again makes sense.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// A problem that a face finds before it calls the road.
    #[must_use]
    pub fn new(code: Code, detail: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            title: rule(code).title,
            detail: detail.to_owned(),
            message: message.into(),
            call: None,
            reasons: Vec::new(),
            receipt: None,
            expires: None,
            retry_after: None,
        }
    }

    /// As a gRPC status with `ErrorInfo` and, when waiting makes sense, `RetryInfo`.
    #[must_use]
    pub fn status(&self) -> tonic::Status {
        let facts = self.facts().into_iter().map(|(key, value)| (key.to_owned(), value));
        let mut details = vec![ErrorDetail::from(ErrorInfo {
            reason: self.code.as_str().to_owned(),
            domain: DOMAIN.to_owned(),
            metadata: facts.collect(),
        })];
        if let Some(after) = self.retry_after {
            details.push(RetryInfo::new(Some(after)).into());
        }
        let mut metadata = MetadataMap::new();
        if let Some(receipt) = &self.receipt {
            stamp(&mut metadata, receipt);
        }
        tonic::Status::with_error_details_vec_and_metadata(
            rule(self.code).grpc,
            clipped(&self.message, MESSAGE_BYTES_MAX),
            details,
            metadata,
        )
    }

    /// As RFC 9457 problem+json.
    #[must_use]
    pub fn response(&self) -> http::Response<String> {
        let rule = rule(self.code);
        let mut body = self.body();
        body.insert("type".into(), format!("https://{DOMAIN}/problems/{}", self.code).into());
        body.insert("title".into(), self.title.into());
        body.insert("status".into(), rule.http.into());
        body.insert("detail".into(), self.message.clone().into());
        let mut response = http::Response::new(Value::Object(body).to_string());
        *response.status_mut() = http::StatusCode::from_u16(rule.http)
            .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let kind = http::HeaderValue::from_static("application/problem+json");
        headers.insert(http::header::CONTENT_TYPE, kind);
        if self.code == Code::IdentityMissing {
            let scheme = http::HeaderValue::from_static("Bearer");
            headers.insert(http::header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(after) = self.retry_after {
            headers.insert(http::header::RETRY_AFTER, whole_seconds(after).into());
        }
        if let Some(receipt) = &self.receipt
            && let Ok(value) = http::HeaderValue::from_str(&receipt_line(receipt))
        {
            headers.insert(RECEIPT, value);
        }
        response
    }

    /// As the `error` member of a JSON-RPC response.
    #[must_use]
    pub fn rpc_error(&self) -> Value {
        json!({"code": rule(self.code).rpc, "message": self.message, "data": self.data()})
    }

    /// `data` of a JSON-RPC error. There the finer code is called `detail`, as in gRPC: only RFC
    /// 9457 gives that name another meaning.
    pub(super) fn data(&self) -> Map<String, Value> {
        let mut data = self.body();
        if let Some(cause) = data.remove("cause") {
            data.insert("detail".into(), cause);
        }
        data
    }

    /// What JSON renderings share.
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("code".into(), self.code.as_str().into());
        body.insert("retry".into(), rule(self.code).retry.as_str().into());
        if !self.detail.is_empty() {
            body.insert("cause".into(), self.detail.clone().into());
        }
        if let Some(call) = &self.call {
            body.insert("call_id".into(), call.as_str().into());
        }
        if let Some(expires) = self.expires {
            body.insert("expires".into(), expires.to_string().into());
        }
        if let Some(after) = self.retry_after {
            body.insert("retry_after_seconds".into(), whole_seconds(after).into());
        }
        if !self.reasons.is_empty() {
            body.insert("reasons".into(), self.reasons.iter().map(reason_json).collect());
        }
        if let Some(receipt) = &self.receipt {
            body.insert("receipt".into(), receipt_json(receipt));
        }
        body
    }

    /// The contents of `ErrorInfo.metadata`.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("retry", rule(self.code).retry.as_str().to_owned())];
        if !self.detail.is_empty() {
            facts.push(("detail", clipped(&self.detail, 128)));
        }
        if let Some(call) = &self.call {
            facts.push(("call_id", call.as_str().to_owned()));
        }
        if let Some(expires) = self.expires {
            facts.push(("expires", expires.to_string()));
        }
        if let Some(receipt) = &self.receipt {
            facts.push(("receipt", receipt_line(receipt)));
        }
        if !self.reasons.is_empty() {
            let (reasons, omitted) = self.reasons_within(REASONS_BYTES_MAX);
            facts.push(("reasons", reasons));
            if omitted > 0 {
                facts.push(("reasons_omitted", omitted.to_string()));
            }
        }
        facts
    }

    /// As many reasons as fit, as a JSON array, and how many did not.
    fn reasons_within(&self, bytes_max: usize) -> (String, usize) {
        let mut texts: Vec<String> = Vec::new();
        let mut bytes = 2;
        for reason in &self.reasons {
            let text = reason_json(reason).to_string();
            if bytes + text.len() + 1 > bytes_max {
                break;
            }
            bytes += text.len() + 1;
            texts.push(text);
        }
        let omitted = self.reasons.len().saturating_sub(texts.len());
        (format!("[{}]", texts.join(",")), omitted)
    }
}

/// A wrong credential has one answer on every face.
impl From<IdentityError> for Problem {
    fn from(error: IdentityError) -> Self {
        Fault::from(error).into()
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self {
            code: fault.code,
            title: rule(fault.code).title,
            detail: fault.detail,
            message: fault.message,
            call: fault.call,
            reasons: fault.reasons,
            receipt: fault.receipt,
            expires: fault.expires,
            retry_after: fault.retry_after,
        }
    }
}

impl From<Problem> for tonic::Status {
    fn from(problem: Problem) -> Self {
        problem.status()
    }
}

/// A receipt in one line of ASCII, for headers and metadata.
#[must_use]
pub fn receipt_line(receipt: &Receipt) -> String {
    let binding = receipt.binding.map(|b| format!(" binding={}", b.as_str())).unwrap_or_default();
    format!(
        "seq={} run_seq={} chain={} hash={}{binding} origin={}",
        receipt.seq,
        receipt.run_seq,
        receipt.chain,
        receipt.leaf.hex(),
        receipt.origin
    )
}

/// Puts a receipt into response metadata.
pub fn stamp(metadata: &mut MetadataMap, receipt: &Receipt) {
    if let Ok(value) = receipt_line(receipt).parse() {
        metadata.insert(RECEIPT, value);
    }
}

/// A receipt as JSON.
pub(super) fn receipt_json(receipt: &Receipt) -> Value {
    let mut shown = json!({
        "origin": &*receipt.origin,
        "chain": receipt.chain.to_string(),
        "seq": receipt.seq,
        "hash": receipt.leaf.hex(),
        "run_seq": receipt.run_seq,
    });
    if let (Some(binding), Some(members)) = (receipt.binding, shown.as_object_mut()) {
        members.insert("binding".into(), binding.as_str().into());
    }
    shown
}

fn reason_json(reason: &LayerReason) -> Value {
    json!({
        "code": reason.code.as_str(),
        "detail": reason.detail,
        "message": reason.message,
        "rule": reason.rule,
    })
}

/// Rounded up, so that a caller that waits exactly this long does not come back too early.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// At most `bytes_max` bytes of a text, cut between characters.
fn clipped(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() + character.len_utf8() > bytes_max {
            break;
        }
        out.push(character);
    }
    out
}
