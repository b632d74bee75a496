//! The exact bytes of a result, whole or one range of them.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::header::{ACCEPT_RANGES, CONTENT_RANGE, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use hyper::body::Bytes;

use super::reply;
use super::request::HttpExchange;
use crate::domain::digest::Digest;
use crate::enforce::Run;
use crate::serve::agent_api::length;
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::Broken;

/// Which bytes a client wants of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ByteRange {
    Whole,
    /// From here, and so many.
    Part(usize, usize),
    /// None that there are.
    Outside,
}

/// Gives the bytes of a result.
pub(super) async fn read(exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let call = exchange.call()?;
    let released = exchange.api.answer(&run, call.as_str(), 0).await?;
    let receipt = released.receipt().clone();
    let result = Bytes::from(released.into_result());
    let etag = reply::etag(&Digest::of(&[&result]).hex());
    let size = result.len();
    let mut response = match wanted(&exchange.headers, &etag, size) {
        _ if reply::has(&exchange.headers, &etag) => {
            reply::cached(&exchange.headers, result, &etag)
        }
        ByteRange::Whole => reply::cached(&exchange.headers, result, &etag),
        ByteRange::Part(start, count) => {
            let part = result.slice(start..start + count);
            let mut response = reply::cached(&exchange.headers, part, &etag);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            ranged(response, &format!("bytes {start}-{}/{size}", start + count - 1))
        }
        ByteRange::Outside => {
            let message =
                format!("the result has {} bytes, and none of this range", length(&result));
            let problem = exchange.refuse(Broken::Range.because(message));
            ranged(reply::problem(&problem), &format!("bytes */{size}"))
        }
    };
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(exchange.kept(reply::stamped(response, &receipt)))
}

fn ranged(mut response: Response, range: &str) -> Response {
    if let Ok(range) = HeaderValue::from_str(range) {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    response
}

/// The bytes that these headers ask for. A range of another form than `bytes=a-b` is ignored, as is
/// one for another version of the result (RFC 9110, 14.2 and 13.1.5).
fn wanted(headers: &HeaderMap, etag: &HeaderValue, size: usize) -> ByteRange {
    if headers.get(IF_RANGE).is_some_and(|version| version != etag) {
        return ByteRange::Whole;
    }
    let text = headers.get(RANGE).and_then(|range| range.to_str().ok());
    let Some((from, to)) = text.and_then(|text| text.strip_prefix("bytes=")?.split_once('-'))
    else {
        return ByteRange::Whole;
    };
    let number = |digits: &str| -> Option<usize> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // More digits than a number has are more bytes than there are.
        plain.then(|| digits.parse().unwrap_or(usize::MAX))
    };
    let (start, end) = match (number(from), number(to)) {
        (Some(start), Some(last)) if start <= last => (start, last.saturating_add(1).min(size)),
        (Some(start), None) if to.is_empty() => (start, size),
        (None, Some(last)) if from.is_empty() => (size.saturating_sub(last), size),
        (Some(_) | None, Some(_) | None) => return ByteRange::Whole,
    };
    if start < end { ByteRange::Part(start, end - start) } else { ByteRange::Outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_bytes_is_read_and_anything_else_is_no_range() {
        let etag = HeaderValue::from_static("\"a\"");
        let of = |range: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, range.parse().unwrap());
            wanted(&headers, &etag, 10)
        };
        assert_eq!(of("bytes=0-0"), ByteRange::Part(0, 1));
        assert_eq!(of("bytes=2-4"), ByteRange::Part(2, 3));
        assert_eq!(of("bytes=8-99999999999999999999999"), ByteRange::Part(8, 2));
        assert_eq!(of("bytes=7-"), ByteRange::Part(7, 3));
        assert_eq!(of("bytes=-3"), ByteRange::Part(7, 3));
        assert_eq!(of("bytes=-30"), ByteRange::Part(0, 10));
        for outside in ["bytes=10-", "bytes=10-12", "bytes=-0"] {
            assert_eq!(of(outside), ByteRange::Outside, "{outside}");
        }
        for ignored in
            ["bytes=-", "bytes=4-2", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes=+1-2"]
        {
            assert_eq!(of(ignored), ByteRange::Whole, "{ignored}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, "bytes=1-2".parse().unwrap());
        headers.insert(IF_RANGE, "\"a\"".parse().unwrap());
        assert_eq!(wanted(&headers, &etag, 10), ByteRange::Part(1, 2));
        headers.insert(IF_RANGE, "\"b\"".parse().unwrap());
        assert_eq!(wanted(&headers, &etag, 10), ByteRange::Whole);
        assert_eq!(wanted(&HeaderMap::new(), &etag, 0), ByteRange::Whole);
    }
}
