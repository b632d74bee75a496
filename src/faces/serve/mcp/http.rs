//! What every HTTP request of the face is checked for before its body is read, and its body.

use std::time::Duration;

use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, ORIGIN,
    TRANSFER_ENCODING,
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};

use super::message::BODY_BYTES_MAX;
use super::reply::ReplyRefusal;
use crate::identity::Peer;
use crate::mcp::http::BodyForm;
use crate::serve::body::{self, Timely};
use crate::serve::edge;
use crate::serve::problem::mcp::Broken;

pub(super) const RUN: &str = "x-wicketgate-run";

/// How long a body may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Headers that may stand once: of two copies, another reader could use the other one;
/// `authorization` has its own reader.
const ONCE: [http::HeaderName; 4] = [HOST, ORIGIN, CONTENT_TYPE, CONTENT_LENGTH];

/// Refuses headers that two readers could read differently.
pub(super) fn unambiguous(headers: &HeaderMap) -> Result<(), ReplyRefusal> {
    let ours = |name: &http::HeaderName| {
        let name = name.as_str();
        name.starts_with("mcp-") || name == RUN
    };
    for name in headers.keys().filter(|name| ONCE.contains(name) || ours(name)) {
        if headers.get_all(name).iter().nth(1).is_some() {
            let message = format!("`{name}` is given more than once");
            return Err(ReplyRefusal::broken(Broken::Ambiguous, message).detail("http.repeated"));
        }
    }
    if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH) {
        let message = "`content-length` and `transfer-encoding` contradict each other";
        return Err(ReplyRefusal::broken(Broken::Ambiguous, message).detail("http.framing"));
    }
    Ok(())
}

/// Refuses host names that are not this machine's, and pages from other origins: a page anywhere
/// can make a browser ask a loopback port, under a name of the page's choice.
pub(super) fn from_here(
    request: &http::Request<Incoming>,
    peer: &Peer,
    hosts: &[String],
) -> Result<(), ReplyRefusal> {
    if peer.may_be_rebound()
        && !edge::one_host(request).is_some_and(|host| edge::is_local(&host, hosts))
    {
        let message = "the host is not a name of this machine";
        return Err(ReplyRefusal::broken(Broken::Host, message));
    }
    let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
    let same = origin.to_str().ok().zip(host).is_some_and(|(origin, host)| is_same(origin, host));
    if same {
        return Ok(());
    }
    Err(ReplyRefusal::broken(Broken::Origin, "pages from elsewhere are not served here"))
}

/// Whether a page of this origin is served by this very host, and that is a loopback name.
fn is_same(origin: &str, host: &str) -> bool {
    let Some((scheme, place)) = origin.split_once("://") else { return false };
    let Ok(authority) = place.parse::<http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    matches!(scheme, "http" | "https")
        && place.eq_ignore_ascii_case(host)
        && edge::is_local(&name.to_ascii_lowercase(), &[])
}

/// What a client takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Accepts {
    /// One JSON text.
    pub json: bool,
    /// A stream of events.
    pub events: bool,
}

impl Accepts {
    /// The accepted formats in these headers; without any, JSON, since older clients know no other.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self { json: false, events: false };
        let mut any = false;
        for value in headers.get_all(ACCEPT) {
            any = true;
            for range in value.to_str().unwrap_or_default().split(',') {
                let kind = range.split(';').next().unwrap_or_default().trim();
                let all = kind == "*/*";
                accepts.json |= all || kind.eq_ignore_ascii_case("application/json");
                accepts.json |= kind.eq_ignore_ascii_case("application/*");
                accepts.events |= all || kind.eq_ignore_ascii_case("text/event-stream");
                accepts.events |= kind.eq_ignore_ascii_case("text/*");
            }
        }
        if any { accepts } else { Self { json: true, events: false } }
    }
}

/// The body of a POST: JSON, of a bearable size, in time.
pub(super) async fn body(headers: &HeaderMap, body: Incoming) -> Result<Bytes, ReplyRefusal> {
    if BodyForm::of(headers) != BodyForm::Json || headers.contains_key(CONTENT_ENCODING) {
        let message = "the body is said not to be plain `application/json`";
        return Err(ReplyRefusal::broken(Broken::MediaType, message));
    }
    let too_large = || ReplyRefusal::broken(Broken::TooLarge, "the body is larger than 4 MiB");
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|text| text.parse().ok()).is_some_and(|n: usize| n > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let collected = Limited::new(Timely::new(body, BODY_WITHIN), BODY_BYTES_MAX).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            return too_large();
        }
        match error.downcast_ref::<body::Error>() {
            Some(body::Error::Late) => {
                ReplyRefusal::broken(Broken::Late, "the body did not arrive in time")
            }
            Some(body::Error::Broken(_)) | None => {
                ReplyRefusal::broken(Broken::Message, "the body was cut off").detail("message.cut")
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_served_only_by_the_loopback_host_it_came_from() {
        for (origin, host) in [
            ("http://localhost:8080", "localhost:8080"),
            ("http://127.0.0.1:1", "127.0.0.1:1"),
            ("http://[::1]:1", "[::1]:1"),
        ] {
            assert!(is_same(origin, host), "{origin}");
        }
        for (origin, host) in [
            ("http://localhost:8080", "localhost:8081"),
            ("http://localhost", "127.0.0.1"),
            ("http://evil.example", "evil.example"),
            ("http://localhost.evil.example", "localhost.evil.example"),
            ("null", "localhost"),
            ("file://localhost", "localhost"),
            ("http://localhost@evil.example", "localhost"),
            ("http://localhost/", "localhost"),
            ("", ""),
        ] {
            assert!(!is_same(origin, host), "{origin}");
        }
    }

    fn accepts(values: &[&str]) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        let Accepts { json, events } = Accepts::of(&headers);
        (json, events)
    }

    #[test]
    fn what_a_client_takes_is_read_from_its_header() {
        assert_eq!(accepts(&["application/json, text/event-stream"]), (true, true));
        assert_eq!(accepts(&["application/json", "text/event-stream;q=0.5"]), (true, true));
        assert_eq!(accepts(&["*/*"]), (true, true));
        assert_eq!(accepts(&[]), (true, false));
        assert_eq!(accepts(&["text/event-stream"]), (false, true));
        assert_eq!(accepts(&["text/html"]), (false, false));
    }
}
