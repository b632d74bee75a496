//! What every HTTP request of an agent is checked for before a face reads it: headers that two
//! readers could read differently, the host, the origin, the credential, and the body.

use std::time::Duration;

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    IF_RANGE, ORIGIN, RANGE, TRANSFER_ENCODING,
};
use http::uri::Authority;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};

use super::body::{self, Timely};
use super::problem::exchange::{Breach, Broken};
use crate::domain::json::Limits;
use crate::identity::{IdentityError, Peer, authorization};
use crate::mcp::http::BodyForm;
use crate::telemetry::trace;

/// The header that names the run of an MCP request.
pub(super) const RUN: &str = "x-wicketgate-run";
/// The header that names a call, on a request that makes one.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The header that names the newest event which a client has.
pub(super) const LAST_EVENT: &str = "last-event-id";

/// Bytes of a whole body.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;

/// What a body may weigh: the most that arguments may, and the message around them.
pub(super) const BODY: Limits =
    Limits { bytes_max: BODY_BYTES_MAX, depth_max: 36, values_max: 131_072, key_bytes_max: 256 };

/// How long a body may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of all names and values of a request's headers. Below what the connection itself reads, so
/// that the refusal is worded.
const HEADERS_BYTES_MAX: usize = 14 * 1024;

/// Bytes of a run's name.
const RUN_NAME_BYTES_MAX: usize = 64;

/// Headers that may stand once: of two copies, another reader could use the other one;
/// `authorization` has its own reader.
const ONCE: [http::HeaderName; 6] = [HOST, ORIGIN, CONTENT_TYPE, CONTENT_LENGTH, RANGE, IF_RANGE];

/// The bearer token of a request, on every face; `None` without one.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, IdentityError> {
    authorization::bearer(headers.get_all(AUTHORIZATION).iter().map(http::HeaderValue::as_bytes))
}

/// The caller's trace context, if it is one.
pub(super) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("traceparent")?.to_str().ok()?;
    trace::valid_traceparent(value).then(|| value.to_owned())
}

/// Refuses headers that two readers could read differently.
pub(super) fn unambiguous(headers: &HeaderMap) -> Result<(), Breach> {
    let ours = |name: &http::HeaderName| {
        let name = name.as_str();
        name.starts_with("mcp-")
            || [RUN, IDEMPOTENCY_KEY, LAST_EVENT, "anthropic-version"].contains(&name)
    };
    for name in headers.keys().filter(|name| ONCE.contains(name) || ours(name)) {
        if headers.get_all(name).iter().nth(1).is_some() {
            let message = format!("`{name}` is given more than once");
            return Err(Broken::Ambiguous.because(message).detail("http.repeated"));
        }
    }
    if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH) {
        let message = "`content-length` and `transfer-encoding` contradict each other";
        return Err(Broken::Ambiguous.because(message).detail("http.framing"));
    }
    Ok(())
}

/// Refuses headers of an unbearable size.
pub(super) fn bearable(headers: &HeaderMap) -> Result<(), Breach> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(Broken::Headers.because("the headers are larger than 14 KiB"));
    }
    Ok(())
}

/// Refuses host names that are not this machine's, and pages from other origins: a page anywhere
/// can make a browser ask a loopback port, under a name of the page's choice.
pub(super) fn from_here<B>(
    request: &http::Request<B>,
    peer: &Peer,
    hosts: &[String],
) -> Result<(), Breach> {
    if peer.may_be_rebound() && !one_host(request).is_some_and(|host| is_local(&host, hosts)) {
        return Err(Broken::Host.because("the host is not a name of this machine"));
    }
    let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(Authority::as_str));
    let same = origin.to_str().ok().zip(host).is_some_and(|(origin, host)| is_same(origin, host));
    if same {
        return Ok(());
    }
    Err(Broken::Origin.because("pages from elsewhere are not served here"))
}

/// Whether a page of this origin is served by this very host, and that is a loopback name.
fn is_same(origin: &str, host: &str) -> bool {
    let Some((scheme, place)) = origin.split_once("://") else { return false };
    let Ok(authority) = place.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    matches!(scheme, "http" | "https")
        && place.eq_ignore_ascii_case(host)
        && is_local(&name.to_ascii_lowercase(), &[])
}

/// The host a request is for, if exactly one is named.
pub(super) fn one_host<B>(request: &http::Request<B>) -> Option<String> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = hosts.next().map(|value| value.to_str().ok()?.parse::<Authority>().ok());
    if hosts.next().is_some() {
        return None;
    }
    let target = request.uri().authority();
    let host = match (header, target) {
        (Some(None), _) | (None, None) => return None,
        (Some(Some(header)), Some(target)) if header != *target => return None,
        (Some(Some(header)), _) => header,
        (None, Some(target)) => target.clone(),
    };
    Some(host.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase())
}

/// Whether this is a name of this machine: loopback, or one the operator listed.
pub(super) fn is_local(host: &str, listed: &[String]) -> bool {
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback || host == "localhost" || listed.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// What a client takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Accepts {
    /// One JSON text.
    pub json: bool,
    /// A stream of events.
    pub events: bool,
    /// A stream of events, by its own name: the client asks for it.
    pub wants_events: bool,
}

impl Accepts {
    /// The accepted formats in these headers; without any, JSON, since older clients know no other.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self::default();
        let mut any = false;
        for value in headers.get_all(ACCEPT) {
            any = true;
            value.to_str().unwrap_or_default().split(',').for_each(|range| accepts.add(range));
        }
        if any { accepts } else { Self { json: true, ..Self::default() } }
    }

    fn add(&mut self, range: &str) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        // A weight of nothing means: not this one (RFC 9110, 12.4.2).
        let unwanted = |part: &str| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32))
        };
        if parts.any(unwanted) {
            return;
        }
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        self.json |= is("*/*") || is("application/*") || is("application/json");
        self.wants_events |= is("text/event-stream");
        self.events |= is("*/*") || is("text/*") || is("text/event-stream");
    }
}

/// Whether a run may be called so: `[A-Za-z0-9_.-]{1,64}`, and not only dots.
pub(super) fn is_run_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=RUN_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && !name.bytes().all(|b| b == b'.')
}

/// The name of the run: from the path, from the header, or from both if they agree.
pub(super) fn run_name(path: Option<&str>, headers: &HeaderMap) -> Result<Option<String>, Breach> {
    let Some(value) = headers.get(RUN) else { return Ok(path.map(str::to_owned)) };
    let refused = |message: &str| Err(Broken::Ambiguous.because(message).detail("run.name"));
    match (value.to_str().ok().filter(|name| is_run_name(name)), path) {
        (Some(name), None) => Ok(Some(name.to_owned())),
        (Some(name), Some(path)) if name == path => Ok(Some(name.to_owned())),
        (Some(_), Some(_)) => refused("the path names another run than `x-wicketgate-run`"),
        (None, _) => refused("a run is called [A-Za-z0-9_.-]{1,64}"),
    }
}

/// The body of a request: JSON, of 4 MiB at most, in time.
pub(super) async fn body<B>(headers: &HeaderMap, body: B) -> Result<Bytes, Breach>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    body_within(headers, body, BODY_BYTES_MAX).await
}

/// The number of bytes that a request says its body has.
pub(super) fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The body of a request: JSON, of so many bytes at most, in time.
pub(super) async fn body_within<B>(
    headers: &HeaderMap,
    body: B,
    bytes_max: usize,
) -> Result<Bytes, Breach>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if BodyForm::of(headers) != BodyForm::Json || headers.contains_key(CONTENT_ENCODING) {
        let message = "the body is said not to be plain `application/json`";
        return Err(Broken::MediaType.because(message));
    }
    let too_large =
        || Broken::TooLarge.because(format!("the body is larger than {} MiB", bytes_max >> 20));
    if length(headers).is_some_and(|length| length > bytes_max) {
        return Err(too_large());
    }
    let collected = Limited::new(Timely::new(body, BODY_WITHIN), bytes_max).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            return too_large();
        }
        match error.downcast_ref::<body::Error>() {
            Some(body::Error::Late) => Broken::Late.because("the body did not arrive in time"),
            Some(body::Error::Broken(_)) | None => {
                Broken::Message.because("the body was cut off").detail("message.cut")
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

    fn headers(name: &http::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), value.parse().unwrap());
        }
        headers
    }

    fn accepts(values: &[&str]) -> (bool, bool, bool) {
        let Accepts { json, events, wants_events } = Accepts::of(&headers(&ACCEPT, values));
        (json, events, wants_events)
    }

    #[test]
    fn what_a_client_takes_is_read_from_its_header() {
        assert_eq!(accepts(&["application/json, text/event-stream"]), (true, true, true));
        assert_eq!(accepts(&["application/json", "text/event-stream;q=0.5"]), (true, true, true));
        assert_eq!(accepts(&["*/*"]), (true, true, false));
        assert_eq!(accepts(&[]), (true, false, false));
        assert_eq!(accepts(&["text/event-stream"]), (false, true, true));
        assert_eq!(accepts(&["application/json, text/event-stream; q=0"]), (true, false, false));
        assert_eq!(accepts(&["text/html"]), (false, false, false));
    }

    #[test]
    fn headers_that_are_given_twice_or_are_too_large_are_refused() {
        let details = |headers: &HeaderMap| {
            let detail = |breach: Breach| breach.detail;
            [unambiguous(headers), bearable(headers)].map(|checked| checked.err().map(detail))
        };
        assert_eq!(details(&headers(&CONTENT_TYPE, &["application/json"])), [None, None]);
        assert_eq!(details(&headers(&ACCEPT, &["a/b", "c/d"])), [None, None]);
        for name in ["content-type", "range", "idempotency-key", "last-event-id", "mcp-name"] {
            let name = http::HeaderName::from_static(name);
            assert_eq!(details(&headers(&name, &["a", "a"])), [Some("http.repeated"), None]);
        }
        let large = headers(&ACCEPT, &["x".repeat(HEADERS_BYTES_MAX).as_str()]);
        assert_eq!(details(&large), [None, Some("http.headers")]);
        let mut framing = headers(&CONTENT_LENGTH, &["1"]);
        framing.insert(TRANSFER_ENCODING, http::HeaderValue::from_static("chunked"));
        assert_eq!(details(&framing), [Some("http.framing"), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_in_time_and_in_full_or_refused() {
        type Piece = Result<hyper::body::Frame<Bytes>, std::io::Error>;
        let json = headers(&CONTENT_TYPE, &["application/json; charset=utf-8"]);
        let slow = http_body_util::StreamBody::new(tokio_stream::pending::<Piece>());
        assert_eq!(body(&json, slow).await.unwrap_err().what, Broken::Late);
        let cut = tokio_stream::iter([Piece::Err(std::io::ErrorKind::UnexpectedEof.into())]);
        let cut = body(&json, http_body_util::StreamBody::new(cut)).await.unwrap_err();
        assert_eq!((cut.what, cut.detail), (Broken::Message, "message.cut"));
        let of = |bytes: usize| http_body_util::Full::new(Bytes::from(vec![b' '; bytes]));
        assert_eq!(body(&json, of(BODY_BYTES_MAX)).await.unwrap().len(), BODY_BYTES_MAX);
        let large = body(&json, of(BODY_BYTES_MAX + 1)).await.unwrap_err();
        assert_eq!(large.what, Broken::TooLarge);
        let form = headers(&CONTENT_TYPE, &["text/plain"]);
        assert_eq!(body(&form, of(1)).await.unwrap_err().what, Broken::MediaType);
    }

    fn host(uri: &str, headers: &[&str]) -> Option<String> {
        let mut request = http::Request::builder().uri(uri);
        for value in headers {
            request = request.header(HOST, *value);
        }
        one_host(&request.body(()).unwrap())
    }

    #[test]
    fn exactly_one_host_is_read() {
        assert_eq!(host("/", &["LocalHost:7301"]).as_deref(), Some("localhost"));
        assert_eq!(host("/", &["[::1]:7301"]).as_deref(), Some("::1"));
        assert_eq!(host("http://127.0.0.1:1/", &[]).as_deref(), Some("127.0.0.1"));
        assert_eq!(host("/", &[]), None);
        assert_eq!(host("/", &["localhost", "localhost"]), None);
        assert_eq!(host("http://localhost/", &["evil.example"]), None);
        assert_eq!(host("/", &["not a host"]), None);
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        let listed = ["gate.example".to_owned()];
        for name in ["localhost", "127.0.0.1", "127.9.9.9", "::1", "gate.example"] {
            assert!(is_local(name, &listed), "{name}");
        }
        for name in ["localhost.evil.example", "10.0.0.1", "evil.example", "", "0.0.0.0"] {
            assert!(!is_local(name, &listed), "{name}");
        }
    }
}
