//! The listener of the injector: reviews, liveness, readiness and metrics over TLS.
//!
//! It knows its caller by the network alone: a review contains no secret, an answer changes nothing here, and the API server
//! checks the certificate of the injector.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use http::header::HeaderMap;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper_util::service::TowerToHyperService;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::profile::ProfileDirectory;
use super::review::{ReviewOutcome, WebhookPath, answer};
use crate::clock::Clock;
use crate::serve::body::Timely;
use crate::serve::driver::{self, Limits};
use crate::serve::listener::Listener;
use crate::serve::places::proved;
use crate::serve::probes::{OPENMETRICS, health_response, livez, refusal, typed};
use crate::serve::tls::Tls;
use crate::telemetry::injector::InjectorMetrics;

/// The most bytes of a review: two pods of the largest size that the API server stores.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How long the body of a review may take to arrive: as long as the API server waits for the answer.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// Connections on which a review came.
const CONNECTIONS: usize = 256;
/// How long reviews under way may take after the signal to stop.
const DRAIN: Duration = Duration::from_secs(5);
/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long before the end of its certificate the injector is not ready any more: operators notice before pods are refused.
const READY_UNTIL: Duration = Duration::from_secs(24 * 60 * 60);

/// What an injector works with.
pub struct InjectorServer {
    /// What pods get.
    pub profiles: ProfileDirectory,
    /// Its certificate.
    pub tls: Tls,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where to count.
    pub metrics: InjectorMetrics,
}

crate::record::debug_by!(InjectorServer: profiles);

/// Serves until `shutdown`, then lets reviews under way end, five seconds at most. Follows the files meanwhile.
pub async fn serve(injector: InjectorServer, listener: Listener, shutdown: CancellationToken) {
    let (tls, injector) = (injector.tls.clone(), Arc::new(injector));
    let router = Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(&injector));
    let serve = move |stream, _, closing| {
        let (router, tls) = (router.clone(), tls.clone());
        async move {
            let Some((stream, _)) = tls.secured(stream, &closing).await else { return };
            driver::either(stream, TowerToHyperService::new(router), closing).await;
        }
    };
    let accepting = driver::run(listener, Limits::of(CONNECTIONS, DRAIN), shutdown.clone(), serve);
    tokio::join!(accepting, follow(&injector, &shutdown));
}

/// Reads files again that changed, until `shutdown`.
async fn follow(injector: &InjectorServer, shutdown: &CancellationToken) {
    let mut every = tokio::time::interval(LOOK_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = every.tick() => {}
        }
        if let Some(read) = injector.tls.look() {
            injector.metrics.certificate_read(read.is_ok());
            match read {
                Ok(()) => tracing::info!("the certificate was reloaded"),
                Err(why) => {
                    tracing::error!(%why, "the new certificate was refused; the old one stays in use");
                }
            }
        }
        if let Some(read) = injector.profiles.look() {
            injector.metrics.profiles_read(read.is_ok());
            match read {
                Ok(()) => tracing::info!("the profiles were reloaded"),
                Err(why) => {
                    tracing::error!(%why, "the new profiles were refused; the old ones stay in use");
                }
            }
        }
    }
}

async fn mutate(State(injector): State<Arc<InjectorServer>>, body: Body) -> Response {
    review(WebhookPath::Mutate, &injector, body).await
}

async fn validate(State(injector): State<Arc<InjectorServer>>, body: Body) -> Response {
    review(WebhookPath::Validate, &injector, body).await
}

async fn review(path: WebhookPath, injector: &InjectorServer, body: Body) -> Response {
    let body = Limited::new(Timely::new(body, BODY_WITHIN), BODY_BYTES_MAX).collect().await;
    let body = match body {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            injector.metrics.reviewed(path.as_str(), ReviewOutcome::Malformed.as_str());
            return if error.is::<LengthLimitError>() {
                refusal(StatusCode::PAYLOAD_TOO_LARGE, "a review has at most 3 MiB")
            } else {
                refusal(StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time")
            };
        }
    };
    let answer = answer(path, &body, &injector.profiles.live());
    injector.metrics.reviewed(path.as_str(), answer.outcome.as_str());
    let (webhook, outcome, pod) = (path.as_str(), answer.outcome.as_str(), &answer.pod);
    tracing::info!(webhook, outcome, pod, reasons = ?answer.reasons, "reviewed");
    match answer.body {
        Ok(review) => {
            // The API server keeps its connection: it has a place that strangers cannot take.
            proved();
            typed(answer.status, "application/json", review.to_string())
        }
        Err(why) => refusal(answer.status, &why),
    }
}

async fn readyz(State(injector): State<Arc<InjectorServer>>, headers: HeaderMap) -> Response {
    let ends = injector.tls.not_after();
    let mut reasons = Vec::new();
    if ends <= injector.clock.now().plus(READY_UNTIL) {
        reasons.push(format!(
            "the certificate ends at {ends}; renew it, at least 24 hours before its end"
        ));
    }
    let certificate =
        injector.tls.refused().map(|why| format!("the new certificate was refused: {why}"));
    let profiles =
        injector.profiles.refused().map(|why| format!("the new profiles were refused: {why}"));
    let notes: Vec<String> = certificate.into_iter().chain(profiles).collect();
    health_response(&headers, ("ready", reasons.is_empty()), (&reasons, &notes))
}

async fn metrics(State(injector): State<Arc<InjectorServer>>) -> Response {
    injector.metrics.certificate_ends(injector.tls.not_after().seconds());
    match injector.metrics.text() {
        Ok(text) => typed(StatusCode::OK, OPENMETRICS, text),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written"),
    }
}
