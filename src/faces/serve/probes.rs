//! What the operators' listener answers without a credential: liveness, readiness, metrics.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::json;
use tokio::sync::watch;

use super::Readiness;
use crate::telemetry::metrics::Metrics;

/// The type of what `/metrics` answers.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the operators' listener shows.
#[derive(Clone, Debug)]
pub struct OperatorView {
    /// Whether the gate can do its work.
    pub readiness: watch::Receiver<Readiness>,
    /// What was counted.
    pub metrics: Arc<Metrics>,
}

impl OperatorView {
    /// Whether the gate can do its work now.
    pub(super) fn now(&self) -> Readiness {
        // WHY: the sender of readiness is gone, so its last "ready" no longer holds.
        if self.readiness.has_changed().is_err() {
            let reasons = vec!["the gate has stopped".to_owned()];
            return Readiness { reasons, ..Readiness::default() };
        }
        self.readiness.borrow().clone()
    }
}

pub(crate) fn refusal(status: StatusCode, message: &str) -> Response {
    let body = json!({"type": "about:blank", "status": status.as_u16(), "detail": message});
    typed(status, "application/problem+json", body.to_string())
}

pub(crate) async fn livez() -> Response {
    typed(StatusCode::OK, "text/plain; charset=utf-8", "ok\n".into())
}

/// Whether agents may send requests; a store that is away does not delay the start.
pub(super) async fn startupz(State(view): State<OperatorView>, headers: HeaderMap) -> Response {
    let now = view.now();
    let reasons = if now.started { Vec::new() } else { now.reasons };
    health_response(&headers, ("started", now.started), (&reasons, &[]))
}

pub(super) async fn readyz(State(view): State<OperatorView>, headers: HeaderMap) -> Response {
    let Readiness { ready, reasons, notes, .. } = view.now();
    health_response(&headers, ("ready", ready), (&reasons, &notes))
}

/// The state and its reasons: as JSON, or as lines for a client that asks for text.
pub(crate) fn health_response(
    headers: &HeaderMap,
    (what, so): (&'static str, bool),
    (reasons, notes): (&[String], &[String]),
) -> Response {
    let status = if so { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let plain = headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes() == b"text/plain");
    if plain {
        let first = if so { what.to_owned() } else { format!("not {what}") };
        let lines = reasons.iter().chain(notes);
        let text = lines.fold(format!("{first}\n"), |text, line| text + line + "\n");
        return typed(status, "text/plain; charset=utf-8", text);
    }
    let body = json!({what: so, "reasons": reasons, "notes": notes});
    typed(status, "application/json", body.to_string())
}

pub(super) async fn metrics(State(view): State<OperatorView>) -> Response {
    view.metrics.ready(view.now().ready);
    match view.metrics.text() {
        Ok(text) => typed(StatusCode::OK, OPENMETRICS, text),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written"),
    }
}

pub(crate) fn typed(status: StatusCode, kind: &'static str, body: String) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static(kind))], Body::from(body)).into_response()
}
