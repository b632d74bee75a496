//! Answers of the face.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION,
};
use http::{HeaderName, StatusCode};
use hyper::body::Bytes;
use serde::Serialize;

use super::ROOT;
use crate::domain::code::Code;
use crate::ledger::permit::Receipt;
use crate::mcp::http::{EVENTS, JSON};
use crate::serve::problem::{Problem, RECEIPT, receipt_line};

/// When to ask again for a held call.
const HELD_AGAIN: Duration = Duration::from_secs(1);

/// A status without a body.
pub(super) fn bare(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// One JSON text.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    // WHY no error: the types of `wire` have no maps with keys that are not text.
    let text = serde_json::to_string(body).unwrap_or_default();
    bytes(status, Bytes::from(text))
}

/// JSON that is written already.
pub(super) fn bytes(status: StatusCode, json: Bytes) -> Response {
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// JSON that a client may keep while the tag is the same.
pub(super) fn cached(headers: &HeaderMap, json: Bytes, etag: &HeaderValue) -> Response {
    let mut response = match has(headers, etag) {
        true => bare(StatusCode::NOT_MODIFIED),
        false => bytes(StatusCode::OK, json),
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, etag.clone());
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

/// Whether the client has what carries this tag.
pub(super) fn has(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let listed = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = listed.flat_map(|value| value.split(',')).map(str::trim);
    let own = etag.to_str().unwrap_or_default();
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == own)
}

/// A strong tag, from a digest in hex.
pub(super) fn etag(hex: &str) -> HeaderValue {
    // WHY no error: hex digits and quotes fit a header.
    HeaderValue::from_str(&format!("\"{hex}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// A stream of events.
pub(super) fn events(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // WHY: a proxy that buffers events would keep them from the client.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    response
}

/// A problem. That of a held call says where to ask again, and when.
pub(super) fn problem(problem: &Problem) -> Response {
    let held = problem.call.as_ref().filter(|_| problem.code == Code::CallHeld);
    let Some(call) = held else { return problem.response().map(Body::from) };
    let waiting = match problem.retry_after {
        Some(_) => problem.clone(),
        None => problem.clone().after(HELD_AGAIN),
    };
    located(waiting.response().map(Body::from), &of_call(call.as_str()))
}

/// Where a call is.
pub(super) fn of_call(call: &str) -> String {
    format!("{ROOT}/calls/{call}")
}

/// Where the bytes of its result are.
pub(super) fn of_result(call: &str) -> String {
    format!("{}/result", of_call(call))
}

/// The same answer about this place.
pub(super) fn located(mut response: Response, path: &str) -> Response {
    if let Ok(place) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

/// The same answer with this receipt.
pub(super) fn stamped(mut response: Response, receipt: &Receipt) -> Response {
    if let Ok(line) = HeaderValue::from_str(&receipt_line(receipt)) {
        response.headers_mut().insert(RECEIPT, line);
    }
    response
}
