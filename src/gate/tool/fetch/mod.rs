//! The `fetch` kind: one URL of the agent's choice, within the limits of its binding.
//!
//! The binding's rules for scheme, host and port are checked before any name is resolved. Redirects
//! are not followed: the result names the target, and fetching that is a call of its own, with its
//! own decision and entry. The request carries nothing of the gate: no run, no trace, no proxy. A
//! credential goes only to the one origin it was pinned to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use serde::Deserialize;

use super::net::{
    self, BodyError, Client, Clients, Pace, Resolve, SendError, TrustRoots, is_encoded, whole,
};
use super::probe::{self, Point, ProbeState};
use super::request::{RequestError, failed, headers_of, not_connected, sources};
use super::shape::lenient;
use super::{ToolExecutor, content};
use crate::catalog::binding::{self, Credential};
use crate::catalog::fetch::{Denied, HostPattern};
use crate::catalog::host::{Host, Origin};
use crate::catalog::web_url::{self, WebUrl};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::json::Json;
use crate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use crate::judge::prepared::{Prepared, PreparedResource};
use crate::ledger::fuse::Fuse;
use crate::ledger::permit::Permit;

/// The `User-Agent`, unless the agent may set it and does.
const AGENT: &str = concat!("wicketgate/", env!("CARGO_PKG_VERSION"));
/// Bytes of the longest header value an agent may set.
const VALUE_BYTES_MAX: usize = 1024;
/// Origins that an operator's probe connects to; the report lists further ones as not probed.
const LOOKS_MAX: usize = 16;
/// The slowest acceptable response, whatever the tool's own deadline is.
const PACE: Pace =
    Pace { head: Duration::from_secs(15), stretch: Duration::from_secs(10), bytes_min: 10 * 1024 };

/// One fetch tool.
#[derive(Debug)]
pub struct Fetch {
    rule: binding::Fetch,
    clients: Clients,
    result_bytes_max: u64,
}

/// A parsed request that waits for its permit. It holds no secrets.
struct PreparedFetch {
    url: WebUrl,
    method: Method,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Default, Deserialize)]
struct Args {
    #[serde(default, deserialize_with = "lenient")]
    url: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    method: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    headers: Option<BTreeMap<String, Json>>,
}

/// Why the agent may not call this tool for the target of a redirect.
#[derive(Debug, thiserror::Error)]
enum Redirect {
    #[error("the answer redirects to no url")]
    NoText,
    #[error("the answer redirects to `{place}`, which is refused: {why}")]
    NoUrl { place: String, why: web_url::Fault },
    #[error("the answer redirects to `{place}`, which is refused: {}", why.message)]
    Denied { place: String, why: Denied },
}

impl Fetch {
    /// Builds the tool without connecting.
    ///
    /// # Errors
    /// The certificate authorities cannot be used.
    pub fn new(
        mut rule: binding::Fetch,
        result_bytes_max: u64,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, net::Error> {
        let trust = TrustRoots::of(rule.ca.as_deref())?;
        rule.ca = None;
        let with_credentials = rule.credentials.iter().map(|(origin, _)| origin.clone()).collect();
        let clients =
            Clients::new(rule.private_addresses.clone(), with_credentials, trust, resolve);
        Ok(Self { rule, clients, result_bytes_max })
    }

    /// Parses the request from the arguments, or returns every reason against it.
    fn read(&self, args: &Json) -> Result<PreparedFetch, Vec<Denied>> {
        let args = args.read::<Args>().unwrap_or_default();
        let text = args.url.as_deref().unwrap_or_default();
        let (mut denied, url) = match WebUrl::parse(text) {
            Ok(url) => (self.rule.denials(&url), Some(url)),
            Err(fault) => {
                let refusal = Denied { detail: fault.detail(), message: fault.to_string() };
                // The refusal also names the host that a lenient URL parser would use.
                let lenient = web_url::lenient_host(text);
                let inside = lenient.and_then(|host| self.rule.admits_host(&host).err());
                ([refusal].into_iter().chain(inside).collect(), None)
            }
        };
        let method = self.method(&args).map_err(|why| denied.push(why)).ok();
        let headers = self.headers(&args).map_err(|why| denied.push(why)).ok();
        match (url, method, headers) {
            (Some(url), Some(method), Some(headers)) if denied.is_empty() => {
                Ok(PreparedFetch { url, method, headers })
            }
            (_, _, _) => Err(denied),
        }
    }

    fn method(&self, args: &Args) -> Result<Method, Denied> {
        let asked = args.method.as_deref().unwrap_or("GET");
        let found = self.rule.methods.iter().find(|method| method.as_str() == asked);
        found.cloned().ok_or_else(|| Denied {
            detail: "fetch.method",
            message: format!("this tool does not send `{}`", clip(asked, 16)),
        })
    }

    fn headers(&self, args: &Args) -> Result<Vec<(HeaderName, HeaderValue)>, Denied> {
        let denied = |message: String| Denied { detail: "fetch.header", message };
        let mut out: Vec<(HeaderName, HeaderValue)> = Vec::new();
        for (name, value) in args.headers.iter().flatten() {
            let known = HeaderName::from_bytes(name.as_bytes())
                .ok()
                .filter(|name| self.rule.headers_allowed.contains(name));
            let Some(known) = known else {
                return Err(denied(format!(
                    "header `{}` is not the agent's to set",
                    clip(name, 64)
                )));
            };
            if out.iter().any(|(earlier, _)| *earlier == known) {
                return Err(denied(format!("header `{known}` is given twice")));
            }
            let value =
                value.as_str().filter(|text| text.len() <= VALUE_BYTES_MAX && text.is_ascii());
            let Some(value) = value.and_then(|text| HeaderValue::from_str(text).ok()) else {
                return Err(denied(format!("the value of header `{known}` is no header value")));
            };
            out.push((known, value));
        }
        Ok(out)
    }

    fn request(&self, ready: &PreparedFetch) -> Result<http::Request<Full<Bytes>>, RequestError> {
        let mut request = http::Request::new(Full::new(Bytes::new()));
        *request.method_mut() = ready.method.clone();
        *request.uri_mut() = ready.url.to_string().parse().map_err(|_| RequestError::Uri)?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        for (name, value) in &ready.headers {
            headers.insert(name, value.clone());
        }
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let own = self.rule.credentials.iter().filter(|(origin, _)| *origin == ready.url.origin);
        let own: Vec<Credential> = own.map(|(_, credential)| credential.clone()).collect();
        for (name, value) in headers_of(&own)? {
            headers.append(name, value);
        }
        Ok(request)
    }

    /// Sends the request that `prepare` parsed. Only `execute` calls this, with a permitted call.
    async fn send(&self, prepared: &Prepared, fuse: &Fuse) -> Unmasked {
        let Some(ready) = prepared.hold::<PreparedFetch>() else {
            return failed(FailureClass::Changed, false, "the call was prepared by another tool");
        };
        let request = match self.request(ready) {
            Ok(request) => request,
            Err(why) => return failed(FailureClass::Protocol, false, &why.to_string()),
        };
        let client = self.clients.of(&ready.url.origin);
        let sent = tokio::time::timeout(PACE.head, client.send(request, fuse)).await;
        match sent {
            Ok(Ok(response)) => self.answer(ready, response).await,
            Ok(Err(SendError::Late(late))) => late.outcome(),
            Ok(Err(SendError::Framing(why))) => failed(FailureClass::Protocol, true, why),
            Ok(Err(error)) if error.is_connect() => not_connected(&error),
            Ok(Err(error)) => broken(&error),
            Err(_elapsed) => failed(FailureClass::Timeout, true, "the server does not answer"),
        }
    }

    async fn answer(&self, ready: &PreparedFetch, response: http::Response<Incoming>) -> Unmasked {
        let (head, body) = response.into_parts();
        let redirects = matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        if let Some(location) = head.headers.get(header::LOCATION).filter(|_| redirects) {
            return match self.leads(&ready.url, location) {
                Ok(url) => {
                    let place = ("redirect", Json::from(url));
                    completed(head.status, [place, self.headers_of(&head.headers)])
                }
                Err(why) => failed(FailureClass::Protocol, true, &why.to_string()),
            };
        }
        if is_encoded(&head.headers) {
            return failed(
                FailureClass::Protocol,
                true,
                "the answer has a content encoding that was not requested",
            );
        }
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default();
        let body = match whole(body, self.result_bytes_max, Some(PACE)).await {
            Ok(body) => body,
            Err(BodyError::TooLarge) => {
                let message = format!("the answer has more than {} bytes", self.result_bytes_max);
                return failed(FailureClass::TooLarge, true, &message);
            }
            Err(BodyError::Slow) => {
                return failed(FailureClass::Timeout, true, "the answer comes too slowly");
            }
            Err(BodyError::Broken(error)) => return broken(&error),
        };
        let headers = self.headers_of(&head.headers);
        content::body(kind, &body).among(head.status, [("content_type", Json::from(kind)), headers])
    }

    /// The target of a redirect, if the agent may call this tool for it.
    fn leads(&self, from: &WebUrl, location: &HeaderValue) -> Result<String, Redirect> {
        let text = location.to_str().map_err(|_| Redirect::NoText)?;
        let place = from.join(text).unwrap_or_else(|| text.to_owned());
        let url = match WebUrl::parse(&place) {
            Ok(url) => url,
            Err(why) => return Err(Redirect::NoUrl { place, why }),
        };
        match self.rule.denials(&url).into_iter().next() {
            None => Ok(url.to_string()),
            Some(why) => Err(Redirect::Denied { place, why }),
        }
    }

    /// The response headers that agents receive; repeated headers are joined.
    fn headers_of(&self, headers: &http::HeaderMap) -> (&'static str, Json) {
        let shown = self.rule.headers_returned.iter().filter_map(|name| {
            let lines: Vec<&str> =
                headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
            (!lines.is_empty()).then(|| (name.as_str().to_owned(), Json::from(lines.join(", "))))
        });
        ("headers", Json::object(shown))
    }
}

#[async_trait]
impl ToolExecutor for Fetch {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let ready = self.read(call.args()).map_err(|denied| {
            let reason = |denied: Denied| {
                LayerReason::effect_refused("tool.fetch", denied.detail, denied.message)
            };
            denied.into_iter().map(reason).collect::<Vec<_>>()
        })?;
        let url = &ready.url;
        let effect = Effect::Http {
            method: ready.method.as_str().to_owned(),
            scheme: url.origin.scheme().to_owned(),
            host: url.origin.host.to_string(),
            port: url.origin.port,
            path: url.path.clone(),
            query: url.pairs.clone(),
            body_bytes: 0,
        };
        Ok((effect, Box::new(ready)))
    }

    fn hosts(&self, effect: &Effect) -> Vec<String> {
        // WHY the pattern: the names below a domain are the agent's choice, and can carry anything.
        let host = effect.hosts().into_iter().find_map(|host| Host::parse(host).ok());
        let listed = host.and_then(|host| self.rule.pattern_of(&host));
        listed.map(ToString::to_string).into_iter().collect()
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        self.send(permit.prepared(), permit.fuse()).await
    }
}

/// The operator's probe: whether the hosts listed by name are reachable. Sends no request.
pub(super) async fn probe(rule: &binding::Fetch, resolve: &Arc<dyn Resolve>) -> Vec<Point> {
    let skipped = |what: String, why: &str| Point::wrong(what, ProbeState::Skipped, why, "");
    let (mut points, mut origins) = (Vec::new(), rule.origins());
    for pattern in &rule.hosts {
        if let HostPattern::Below(base) = pattern {
            points.push(skipped(format!("*.{base}"), "a pattern names no host to look at"));
        }
    }
    let beyond = origins.split_off(origins.len().min(LOOKS_MAX));
    let trust = TrustRoots::of(rule.ca.as_deref());
    for origin in &origins {
        let open = &rule.private_addresses;
        let client =
            trust.as_ref().map(|trust| Client::trusting(origin, open, trust, Arc::clone(resolve)));
        points.push(probe::connect(origin, client, None).await);
    }
    let place = |origin: &Origin| format!("{}://{}:{}", origin.scheme(), origin.host, origin.port);
    points.extend(beyond.iter().map(|o| skipped(place(o), "one of too many to look at")));
    points
}

fn completed<const N: usize>(status: StatusCode, members: [(&'static str, Json); N]) -> Unmasked {
    let number = ("status", Json::from(u64::from(status.as_u16())));
    let result = canonical::bytes(&Json::object([number].into_iter().chain(members)));
    Unmasked::Completed { result: AnswerContent::Text(result), status: status.as_u16().to_string() }
}

/// The outcome of a connection that failed in progress. `GET` and `HEAD` change nothing by
/// definition, so the call has failed and is not unknown.
fn broken(error: &(dyn std::error::Error + 'static)) -> Unmasked {
    let hyper = sources(error).find_map(|e| e.downcast_ref::<hyper::Error>());
    if hyper.is_some_and(hyper::Error::is_parse_too_large) {
        return failed(FailureClass::TooLarge, true, "the head of the answer is too large");
    }
    if hyper.is_some_and(hyper::Error::is_parse) {
        return failed(FailureClass::Protocol, true, "the answer is not http");
    }
    failed(FailureClass::ToolError, true, "the connection was lost before the answer was complete")
}

fn clip(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}
