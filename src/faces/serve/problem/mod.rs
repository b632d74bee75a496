//! Errors as callers see them: renderings of the table in `domain::code`, no wording of a face's own.
//! `exchange` has what can be wrong before a request is read, `mcp` what only agents over MCP
//! receive: denials a model can act on; `llm` what clients of models receive.

use std::time::Duration;

use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
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

pub mod exchange;
pub mod llm;
pub mod mcp;

/// The `domain` of every `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "wicketgate.dev";

/// Metadata key and HTTP header of a receipt.
pub const RECEIPT: &str = "wicketgate-receipt";

// WHY: reasons travel in trailers, and clients drop answers whose headers pass 8 KiB.
const REASONS_BYTES_MAX: usize = 3072;
const MESSAGE_BYTES_MAX: usize = 1024;

/// One error on its way out. Everything in it is public.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
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
    /// The HTTP status of an exchange that is broken; `None`: that of the code.
    http: Option<StatusCode>,
}

impl Problem {
    /// A problem that a face finds before it calls the road.
    #[must_use]
    pub fn new(code: Code, detail: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.to_owned(),
            message: message.into(),
            call: None,
            reasons: Vec::new(),
            receipt: None,
            expires: None,
            retry_after: None,
            http: None,
        }
    }

    /// The same with this HTTP status, in the status line and in the body. Only the table of broken
    /// exchanges has statuses other than those of the codes.
    #[must_use]
    fn at(mut self, status: StatusCode) -> Self {
        self.http = Some(status);
        self
    }

    /// The same; the caller may try again after this time.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The HTTP status, of the status line and of the body.
    #[must_use]
    pub fn http_status(&self) -> StatusCode {
        let of_code = || StatusCode::from_u16(self.code.rule().wire.http).ok();
        self.http.or_else(of_code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// A problem that has no data beyond its code and the finer code.
    #[must_use]
    pub fn of(code: Code, detail: &str) -> Self {
        Self::new(code, detail, code.message())
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
            tonic::Code::from(self.code.rule().wire.grpc as i32),
            clipped(&self.message, MESSAGE_BYTES_MAX),
            details,
            metadata,
        )
    }

    /// As RFC 9457 problem+json.
    #[must_use]
    pub fn response(&self) -> http::Response<String> {
        let status = self.http_status();
        // WHY: as a value its members are sorted, on every face.
        let body = self.document(status).to_string();
        let mut response = http::Response::new(body);
        *response.status_mut() = status;
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

    /// The JSON document of RFC 9457 with this status.
    fn document(&self, status: StatusCode) -> Value {
        let body = ProblemBody {
            kind: format!("https://{DOMAIN}/problems/{}", self.code),
            title: self.code.rule().title,
            status: status.as_u16(),
            detail: &self.message,
            facts: self.shown(),
        };
        serde_json::to_value(body).unwrap_or_default()
    }

    /// As the `error` member of a JSON-RPC response.
    #[must_use]
    pub fn rpc_error(&self) -> Value {
        json!({"code": self.code.rule().wire.rpc, "message": self.message, "data": self.data()})
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

    /// What JSON renderings share, as members.
    fn body(&self) -> Map<String, Value> {
        match serde_json::to_value(self.shown()) {
            Ok(Value::Object(members)) => members,
            Ok(_) | Err(_) => Map::new(),
        }
    }

    /// What JSON renderings share.
    fn shown(&self) -> ProblemFacts<'_> {
        ProblemFacts {
            code: self.code.as_str(),
            retry: self.code.rule().retry.as_str(),
            cause: Some(self.detail.as_str()).filter(|detail| !detail.is_empty()),
            call_id: self.call.as_ref().map(CallId::as_str),
            expires: self.expires.map(|expires| expires.to_string()),
            retry_after_seconds: self.retry_after.map(whole_seconds),
            reasons: self.reasons.iter().map(ShownReason::of).collect(),
            receipt: self.receipt.as_ref().map(ShownReceipt::of),
        }
    }

    /// The contents of `ErrorInfo.metadata`.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("retry", self.code.rule().retry.as_str().to_owned())];
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
            detail: fault.detail,
            message: fault.message,
            call: fault.call,
            reasons: fault.reasons,
            receipt: fault.receipt,
            expires: fault.expires,
            retry_after: fault.retry_after,
            http: None,
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

/// The place of an entry in the ledger: enough to find it, and to prove it offline later.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Receipt")]
pub struct ShownReceipt {
    /// How the model and instructions behind the call are known. Absent for an entry of no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<&'static str>,
    /// The chain, 32 lowercase hex digits.
    pub chain: String,
    /// The RFC 6962 leaf hash of the entry, 64 lowercase hex digits.
    pub hash: String,
    /// The name of the log.
    pub origin: String,
    /// The place of the entry in its run, from 0, which is its opening; 0 also for an entry of no run.
    pub run_seq: u64,
    /// The place of the entry in its chain, from 0.
    pub seq: u64,
}

impl ShownReceipt {
    /// The receipt as JSON has it.
    #[must_use]
    pub fn of(receipt: &Receipt) -> Self {
        Self {
            binding: receipt.binding.map(|binding| binding.as_str()),
            chain: receipt.chain.to_string(),
            hash: receipt.leaf.hex(),
            origin: receipt.origin.to_string(),
            run_seq: receipt.run_seq,
            seq: receipt.seq,
        }
    }
}

/// A receipt as JSON.
pub(super) fn receipt_json(receipt: &Receipt) -> Value {
    serde_json::to_value(ShownReceipt::of(receipt)).unwrap_or_default()
}

fn reason_json(reason: &LayerReason) -> Value {
    serde_json::to_value(ShownReason::of(reason)).unwrap_or_default()
}

/// An error (RFC 9457).
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody<'a> {
    /// A URI for the code.
    #[serde(rename = "type")]
    kind: String,
    /// What happened, the same for every problem of the code.
    title: &'static str,
    /// The HTTP status.
    #[schemars(range(min = 200, max = 599))]
    status: u16,
    /// What happened this time, for a person.
    detail: &'a str,
    #[serde(flatten)]
    facts: ProblemFacts<'a>,
}

/// What every JSON rendering of a problem says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ProblemFacts<'a> {
    /// The stable code.
    #[schemars(schema_with = "codes")]
    code: &'static str,
    /// Whether to ask again, and how: `no`, `after`, `same_id`, `new_id`, `poll`.
    retry: &'static str,
    /// The finer code.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a str>,
    /// The call that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    /// The end of the time that a held call waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// The number of seconds after which to ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
    /// Every reason of a recorded denial or hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<ShownReason<'a>>,
    /// The entry that records it. Absent: nothing is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<ShownReceipt>,
}

/// One reason of a decision.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Reason")]
struct ShownReason<'a> {
    /// The code of the layer that gave it.
    code: &'static str,
    /// The finer code.
    detail: &'a str,
    /// What the layer says, for a person.
    message: &'a str,
    /// The rule that decided, with its file and line if a policy has it.
    rule: &'a str,
}

impl<'a> ShownReason<'a> {
    fn of(reason: &'a LayerReason) -> Self {
        let LayerReason { code, detail, message, rule } = reason;
        Self { code: code.as_str(), detail, message, rule }
    }
}

/// The schema of a code: one of the table.
fn codes(_: &mut SchemaGenerator) -> Schema {
    let all: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    schemars::json_schema!({"type": "string", "enum": all})
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
