//! What every request of a browser is checked for first, and the headers of every answer.
//!
//! The listener has checked the host. Here follow method and origin; session, right and form token come with the page
//! (`super::visit`).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderValue, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, Method, StatusCode, Uri};

use super::pages::Failure;
use super::site::Console;
use crate::domain::code::Code;

/// Nothing but our own files, no frame, no text that becomes markup or code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
const PERMISSIONS: &str = "publickey-credentials-get=(self), publickey-credentials-create=(self)";

/// The headers of every answer.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    // WHY: under `no-referrer` browsers send a page's own forms with `Origin: null`, and no login would pass.
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("permissions-policy"), HeaderValue::from_static(PERMISSIONS)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

/// Checks a request, and completes the answer.
pub(super) async fn guard(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match refused(&console, &request) {
        None => next.run(request).await,
        Some(failure) => {
            console.api.refuse(failure.problem(Code::RequestMalformed));
            failure.page(&console)
        }
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    // What is named by its digest may be kept; it said so.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if console.secure {
        let always = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, always);
    }
    response
}

/// Why a request is not answered, if it is not.
fn refused(console: &Console, request: &Request) -> Option<Failure> {
    let forbidden = |message: &str| Some(Failure::new(StatusCode::FORBIDDEN, message));
    let posts = *request.method() == Method::POST;
    if !posts && !matches!(*request.method(), Method::GET | Method::HEAD) {
        let message = "pages are read with GET, and forms are sent with POST";
        return Some(Failure::new(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    let headers = request.headers();
    let ours = match lone(headers, &ORIGIN) {
        Err(Repeated) => false,
        Ok(None) => !posts,
        Ok(Some(origin)) => is_ours(console, request, origin),
    };
    if !ours {
        return forbidden("the request comes from a page that is not of this console");
    }
    match lone(headers, &HeaderName::from_static("sec-fetch-site")) {
        Ok(None | Some("same-origin" | "none")) => None,
        // The issuer leads here. What counts is the secret of the login that began in this browser.
        Ok(Some("cross-site" | "same-site")) if console.comes_back(request) => None,
        // A link in a message leads here too. The reader goes on by a link of this page, without what the other one
        // may have put into a query.
        Ok(Some(_)) | Err(Repeated) => {
            let message = "a page elsewhere led here";
            let failure = Failure::new(StatusCode::FORBIDDEN, message);
            Some(failure.leading_to(request.uri().path()))
        }
    }
}

/// A header that stands more than once, or is no text.
struct Repeated;

fn lone<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Repeated> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.to_str().map(Some).map_err(|_| Repeated),
        (Some(_), Some(_)) => Err(Repeated),
    }
}

/// Whether a page of this origin is a page of this console.
fn is_ours(console: &Console, request: &Request, origin: &str) -> bool {
    if !console.origins.is_empty() {
        return console.origins.iter().any(|ours| ours == origin);
    }
    let named = named(console, request.headers(), request.uri());
    named.is_some_and(|named| origin.eq_ignore_ascii_case(&named))
}

/// The origin that a request names by its host.
pub(super) fn named(console: &Console, headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(http::uri::Authority::as_str))?;
    let scheme = if console.secure { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}
