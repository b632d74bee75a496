//! What an upstream answered with: the headers and the errors that agents learn of, and what its
//! tokens cost.

use std::time::Duration;

use http::{HeaderMap, Response, header};
use hyper::body::Incoming;

use super::ModelUpstream;
use super::broken::Broken;
use crate::catalog::llm::answer::TokenUsage;
use crate::catalog::model::config::Price;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::UpstreamAttempt;
use crate::tool::net::{SendError, is_encoded, whole};
use crate::tool::scrub::Scrub;

/// Bytes that are read of a provider's error.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// How long they may take: the next upstream waits.
const ERROR_WAIT: Duration = Duration::from_secs(10);
/// Headers of providers that agents receive.
const DOWN: [&str; 4] = ["request-id", "x-request-id", "retry-after", "openai-processing-ms"];
const DOWN_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// What tokens cost: those in a cache have prices of their own.
pub(super) fn priced(price: Price, counted: &TokenUsage) -> u64 {
    let TokenUsage { input, output, cached_input, cache_write, cache_write_1h, .. } = *counted;
    let apart = cached_input.saturating_add(cache_write).saturating_add(cache_write_1h);
    let write = price.cache_write.unwrap_or(price.input);
    let parts = [
        (input.saturating_sub(apart), price.input),
        (cached_input, price.cached_input.unwrap_or(price.input)),
        (cache_write, write),
        (cache_write_1h, price.cache_write_1h.unwrap_or(write)),
        (output, price.output),
    ];
    let all =
        parts.iter().map(|(tokens, price)| u128::from(*tokens).saturating_mul(u128::from(*price)));
    let millionths = all.fold(0_u128, u128::saturating_add);
    u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// What became of one question, for the record. One that was never sent is none. Without an answer
/// its time was over.
pub(super) fn attempt(
    place: &ModelUpstream,
    took: Duration,
    answered: Option<&Result<Response<Incoming>, SendError>>,
) -> Option<UpstreamAttempt> {
    let status = match answered {
        None => "timeout".to_owned(),
        Some(Ok(response)) => response.status().as_u16().to_string(),
        Some(Err(SendError::Late(_))) => return None,
        Some(Err(error)) if error.is_connect() => "connect".to_owned(),
        Some(Err(SendError::Http(_))) => "lost".to_owned(),
        Some(Err(SendError::Framing(_))) => "protocol".to_owned(),
    };
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    Some(UpstreamAttempt { upstream: place.name.clone(), status, ms })
}

/// The headers of an answer that the agent receives: none with a credential of the gate.
pub(super) fn down(headers: &HeaderMap, scrub: &Scrub) -> Vec<(String, String)> {
    let passes = |name: &str| {
        DOWN.contains(&name) || DOWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let passed = headers.iter().filter(|(name, _)| passes(name.as_str()));
    let texts = passed.filter_map(|(name, value)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    });
    texts.filter(|(name, value)| !scrub.holds(name) && !scrub.holds(value)).collect()
}

/// Refuses an answer in another form, such as a page of a proxy, or in an encoding: the gate asks
/// for none.
pub(super) fn expect(headers: &HeaderMap, kind: &str) -> Result<(), Broken> {
    if is_encoded(headers) {
        let encoding = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        let encoding: String = encoding.unwrap_or_default().chars().take(64).collect();
        return Err(Broken::Form(format!("content-encoding: {encoding}")));
    }
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(kind) {
        return Ok(());
    }
    Err(Broken::Form(given.chars().take(64).collect()))
}

/// What a provider says about its error, for the agent.
pub(super) async fn provider_words(body: Incoming) -> String {
    let read = tokio::time::timeout(ERROR_WAIT, whole(body, ERROR_BYTES_MAX, None)).await;
    let Ok(Ok(bytes)) = read else { return String::new() };
    let Ok(json) = Json::parse(&bytes, &Limits::MODEL) else { return String::new() };
    let error = json.get("error").unwrap_or(&json);
    let message = error.get("message").or(Some(error)).and_then(Json::as_str);
    message.map(|message| format!(": {message}")).unwrap_or_default()
}
