//! Answers of the face as HTTP carries them.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, HeaderName, StatusCode};
use hyper::body::Bytes;
use serde_json::Value;
use tonic::body::Body;

use super::stream::StreamHead;
use crate::catalog::llm::framing::StreamFraming;
use crate::domain::dialect::Dialect;
use crate::enforce::Released;
use crate::mcp::http::JSON;
use crate::serve::problem::{Problem, RECEIPT, receipt_line};

/// What the face answers with.
pub(super) type LlmResponse = http::Response<Body>;

/// The header with the id of the call.
const CALL: HeaderName = HeaderName::from_static("wicketgate-call");
/// The header with the id of the run.
const RUN: HeaderName = HeaderName::from_static("wicketgate-run");

/// One JSON text.
fn text(bytes: Bytes) -> LlmResponse {
    let mut response = http::Response::new(Body::new(http_body_util::Full::new(bytes)));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// One JSON value.
pub(super) fn json(value: &Value) -> LlmResponse {
    text(Bytes::from(value.to_string()))
}

/// A stream of events.
pub(super) fn events(framing: StreamFraming, body: Body) -> LlmResponse {
    let mut response = http::Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(framing.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // WHY: a proxy that buffers events would keep them from the client.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    response
}

/// A recorded answer, and the receipt of its outcome.
pub(super) fn whole(released: Released, headers: &HeaderMap) -> LlmResponse {
    let receipt = receipt_line(released.receipt());
    let mut response = text(Bytes::from(released.into_result()));
    with(&mut response, headers);
    stamped(response, &receipt)
}

/// Adds headers of the provider to those that an answer has.
fn with(response: &mut LlmResponse, headers: &HeaderMap) {
    for (name, value) in headers {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
}

/// An answer that comes, with the provider's status and headers.
pub(super) fn begun(head: &StreamHead, framing: StreamFraming, body: Body) -> LlmResponse {
    let mut response = events(framing, body);
    *response.status_mut() = head.status;
    with(&mut response, &head.headers);
    stamped(response, &head.receipt)
}

/// A problem, in the words of a dialect; `allowed` are the methods of the path.
pub(super) fn problem(problem: &Problem, dialect: Dialect, allowed: &'static str) -> LlmResponse {
    let mut response = problem
        .llm_response(dialect)
        .map(|body| Body::new(http_body_util::Full::new(Bytes::from(body))));
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    response
}

/// An answer of the gate's own loop, and the receipt of its last call of the model.
pub(super) fn managed(body: Vec<u8>, receipt: &str) -> LlmResponse {
    stamped(text(Bytes::from(body)), receipt)
}

fn stamped(mut response: LlmResponse, receipt: &str) -> LlmResponse {
    if receipt.is_empty() {
        return response;
    }
    if let Ok(line) = HeaderValue::from_str(receipt) {
        response.headers_mut().insert(RECEIPT, line);
    }
    response
}

/// The same answer with the ids of its run and its call, as far as it has them.
pub(super) fn named(mut response: LlmResponse, run: Option<&str>, call: &str) -> LlmResponse {
    let headers = response.headers_mut();
    let ids = [(RUN, run), (CALL, Some(call).filter(|call| !call.is_empty()))];
    for (name, id) in ids {
        if let Some(value) = id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(name, value);
        }
    }
    response
}
