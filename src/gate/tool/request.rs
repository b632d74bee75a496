//! Shared by the kinds that use HTTP: headers and targets of a request, and the classes of
//! failures.

use http::{HeaderName, HeaderValue, header};

use super::net::ConnectError;
use crate::catalog::binding::{Credential, CredentialTarget};
use crate::catalog::template::encode;
use crate::domain::call::ToolCall;
use crate::domain::outcome::{FailureClass, Unmasked};

/// Why a request cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A secret has characters that a header cannot hold.
    #[error("the secret for `{0}` fits no header")]
    Secret(HeaderName),
    /// The URL is not a URI.
    #[error("no uri")]
    Uri,
    /// The parts do not form a request.
    #[error(transparent)]
    Form(#[from] http::Error),
}

/// The headers that carry these credentials, with their current values.
///
/// # Errors
/// A secret does not fit a header.
pub(super) fn headers_of(
    credentials: &[Credential],
) -> Result<Vec<(HeaderName, HeaderValue)>, RequestError> {
    let mut out = Vec::new();
    for credential in credentials {
        let CredentialTarget::Header(name) = &credential.place else { continue };
        let text = format!("{}{}", credential.prefix, &*credential.secret.latest());
        let mut value =
            HeaderValue::from_str(&text).map_err(|_| RequestError::Secret(name.clone()))?;
        value.set_sensitive(true);
        out.push((name.clone(), value));
    }
    Ok(out)
}

/// Completes the request of this call. Its headers let a server recognise a repetition, and let its
/// operator find the ledger entry. No encoding is requested.
pub(super) fn of_call(request: http::request::Builder, call: &ToolCall) -> http::request::Builder {
    let id = format!("{}.{}", call.run(), call.id());
    let request = request
        .header(header::ACCEPT_ENCODING, "identity")
        .header("idempotency-key", &id)
        .header("x-wicketgate-call", &id);
    match call.traceparent() {
        Some(traceparent) => request.header("traceparent", traceparent),
        None => request,
    }
}

pub(super) fn push_pair(target: &mut String, name: &str, value: &str) {
    target.push(if target.contains('?') { '&' } else { '?' });
    encode(name, target);
    target.push('=');
    encode(value, target);
}

pub(super) fn failed(class: FailureClass, started: bool, message: &str) -> Unmasked {
    Unmasked::Failed { class, started, message: message.to_owned() }
}

pub(super) fn sources<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// The connector's error, if it made no connection.
pub(super) fn refusal<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a ConnectError> {
    sources(error).find_map(|error| error.downcast_ref())
}

pub(super) fn not_connected(error: &(dyn std::error::Error + 'static)) -> Unmasked {
    let message =
        refusal(error).map_or_else(|| "no connection to the tool".to_owned(), ToString::to_string);
    failed(FailureClass::Connect, false, &message)
}
