//! One request and its response, with limits on framing, size and speed.
//!
//! hyper refuses a head that is not HTTP, is too large or has contradicting lengths. Responses that
//! hyper tolerates but another reader would parse differently are refused here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::{Client as Pool, Error};
use tokio::sync::Notify;

use super::Limited;
use super::guarded::Guarded;
use crate::ledger::fuse::{Fuse, Late};

/// Interim responses (1xx) before the final one.
const INTERIM_MAX: usize = 4;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The error of hyper or of the connector.
    #[error(transparent)]
    Http(#[from] Error),
    /// A response that readers could parse differently, or that is malformed.
    #[error("{0}")]
    Framing(&'static str),
    /// The permit of the call had ended; nothing was sent.
    #[error(transparent)]
    Late(#[from] Late),
}

impl SendError {
    /// Whether no connection was made, so that nothing was sent.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        match self {
            Self::Http(error) => error.is_connect(),
            Self::Framing(_) | Self::Late(_) => false,
        }
    }
}

/// The slowest acceptable response.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time from the request to the end of the response head.
    pub head: Duration,
    /// In each interval of this length …
    pub stretch: Duration,
    /// … at least this many bytes of the body must arrive, or its end.
    pub bytes_min: usize,
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub enum BodyError {
    /// The body has more bytes than allowed.
    TooLarge,
    /// The body arrives too slowly.
    Slow,
    /// The connection failed, or the framing broke.
    Broken(hyper::Error),
}

pub(super) async fn send(
    pool: &Pool<Limited, Guarded>,
    request: http::Request<Full<Bytes>>,
    fuse: &Fuse,
) -> Result<http::Response<Incoming>, SendError> {
    let cut = Arc::new(AtomicBool::new(false));
    let mut request = request.map(|body| Guarded::new(body, fuse.clone(), Arc::clone(&cut)));
    let flood = Arc::new(Notify::new());
    let (notify, seen) = (Arc::clone(&flood), AtomicUsize::new(0));
    hyper::ext::on_informational(&mut request, move |_interim| {
        if seen.fetch_add(1, Ordering::Relaxed) >= INTERIM_MAX {
            notify.notify_one();
        }
    });
    let response = tokio::select! {
        biased;
        () = flood.notified() => {
            return Err(SendError::Framing("the answer begins with too many interim answers"));
        }
        response = pool.request(request) => match response {
            Ok(response) => response,
            Err(_) if cut.load(Ordering::Acquire) => return Err(SendError::Late(Late)),
            Err(error) => return Err(error.into()),
        },
    };
    match framing(response.status(), response.headers()) {
        None => Ok(response),
        Some(why) => Err(SendError::Framing(why)),
    }
}

/// Why the end of this response is ambiguous.
fn framing(status: StatusCode, headers: &HeaderMap) -> Option<&'static str> {
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Some("the answer switches to another protocol");
    }
    let lengths: Vec<&HeaderValue> = headers.get_all(header::CONTENT_LENGTH).iter().collect();
    let digits = |value: &&HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    if lengths.len() > 1 || !lengths.iter().all(digits) {
        return Some("the answer gives its length more than once");
    }
    let codings: Vec<&HeaderValue> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
    if codings.is_empty() {
        return None;
    }
    if !lengths.is_empty() {
        return Some("the answer gives a length and comes in chunks");
    }
    let chunked = |value: &&HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    (codings.len() > 1 || !codings.iter().all(chunked))
        .then_some("the answer comes in an unknown transfer coding")
}

/// Whether the body of a response is encoded. The gate requests no encoding and decodes none.
#[must_use]
pub fn is_encoded(headers: &HeaderMap) -> bool {
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    !headers.get_all(header::CONTENT_ENCODING).iter().all(plain)
}

/// The whole body of at most `bytes_max` bytes, or the reason it was not read: never a part of it.
/// Trailers are dropped.
///
/// # Errors
/// See [`BodyError`].
pub async fn whole(
    mut body: Incoming,
    bytes_max: u64,
    pace: Option<Pace>,
) -> Result<Vec<u8>, BodyError> {
    if hyper::body::Body::size_hint(&body).lower() > bytes_max {
        return Err(BodyError::TooLarge);
    }
    let most = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    let mut stretch = Stretch { pace, before: 0 };
    loop {
        let slow = stretch.over();
        tokio::pin!(slow);
        // One interval: reads frames until it is over.
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut slow => break,
            };
            let Some(frame) = frame else { return Ok(bytes) };
            if let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() {
                if bytes.len().saturating_add(data.len()) > most {
                    return Err(BodyError::TooLarge);
                }
                bytes.extend_from_slice(&data);
            }
        }
        if !stretch.next(bytes.len()) {
            return Err(BodyError::Slow);
        }
    }
}

/// An interval of a response, and the bytes received before it.
struct Stretch {
    pace: Option<Pace>,
    before: usize,
}

impl Stretch {
    /// Completes when the interval is over; never, if there is no pace.
    fn over(&self) -> impl Future<Output = ()> + use<> {
        let length = self.pace.map(|pace| pace.stretch);
        async move {
            match length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Whether enough bytes arrived in the interval; starts the next one.
    fn next(&mut self, bytes: usize) -> bool {
        let received = bytes.saturating_sub(self.before);
        self.before = bytes;
        self.pace.is_none_or(|pace| received >= pace.bytes_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn an_answer_whose_end_is_a_matter_of_opinion_is_refused() {
        const CL: &str = "content-length";
        const TE: &str = "transfer-encoding";
        for accepted in [vec![], vec![(CL, "5")], vec![(TE, "Chunked")]] {
            assert_eq!(framing(StatusCode::OK, &headers(&accepted)), None, "{accepted:?}");
        }
        for refused in [
            vec![(CL, "5"), (CL, "5")],
            vec![(CL, "5"), (CL, "6")],
            vec![(CL, "5, 5")],
            vec![(CL, "+5")],
            vec![(CL, "5"), (TE, "chunked")],
            vec![(TE, "xchunked")],
            vec![(TE, "chunked"), (TE, "chunked")],
            vec![(TE, "gzip, chunked")],
            vec![(TE, "identity")],
        ] {
            assert!(framing(StatusCode::OK, &headers(&refused)).is_some(), "{refused:?}");
        }
        assert!(framing(StatusCode::SWITCHING_PROTOCOLS, &HeaderMap::new()).is_some());
    }
}
