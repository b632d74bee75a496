//! A witness (c2sp.org/tlog-witness): cosigns a head if it extends the one it cosigned last.
//!
//! Any client may ask: what counts is the log's signature on the head. Only heads and proofs come
//! in here, so that the operator of a witness learns nothing of what a log is about.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;

use super::protocol::{BODY_BYTES_MAX, SIZE, Submission};
use super::state::{Error, Log, Remembered, Store};
use crate::clock::Clock;
use crate::crypto::consistency::verifies_consistency;
use crate::crypto::cosign;
use crate::crypto::keys::SecretKey;
use crate::crypto::merkle::empty_root;
use crate::crypto::note::{self, Checkpoint, SignatureLine, VerifierKey};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::serve::body::Timely;
use crate::serve::driver::{self, Limits};
use crate::serve::listener::Listener;

/// Connections at the same time; one more is closed at once.
const CONNECTIONS: usize = 64;
/// How long requests under way may take after the signal to stop.
const DRAIN: Duration = Duration::from_secs(5);
/// How long the body of a request may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// What a witness works with.
pub struct WitnessServer {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: SecretKey,
    /// What it remembers.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

crate::record::debug_by!(WitnessServer: name);

/// Serves until `shutdown`, then lets requests under way end, five seconds at most.
pub async fn serve(witness: WitnessServer, listener: Listener, shutdown: CancellationToken) {
    let router = Router::new()
        .route("/add-checkpoint", post(add_checkpoint))
        .route("/{hash}/checkpoint", get(newest))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(witness));
    // A witness knows none of its clients, so all of them share the places of strangers.
    let limits = Limits { connections: 0, unknown: CONNECTIONS, drain: DRAIN };
    let serve = move |stream, _, closing| {
        driver::http1(stream, TowerToHyperService::new(router.clone()), closing)
    };
    driver::run(listener, limits, shutdown, serve).await;
}

/// What is answered to a submission.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Verdict {
    /// 200: the cosignature line.
    Cosigned(SignatureLine),
    /// 400, 403, 404, 422: why not.
    No(StatusCode, &'static str),
    /// 409: the size that was cosigned last.
    Conflict(Seq),
}

async fn add_checkpoint(State(witness): State<Arc<WitnessServer>>, body: Body) -> Response {
    let body = match read(body).await {
        Ok(body) => body,
        Err((status, why)) => return plain_response(status, why),
    };
    // WHY: it writes the state to disk, which must not delay other connections.
    let decided = tokio::task::spawn_blocking(move || witness.decide(&body)).await;
    match decided {
        Ok(Ok(Verdict::Cosigned(line))) => {
            text(StatusCode::OK, "text/plain; charset=utf-8", format!("{line}\n"))
        }
        Ok(Ok(Verdict::No(status, why))) => plain_response(status, why),
        Ok(Ok(Verdict::Conflict(size))) => text(StatusCode::CONFLICT, SIZE, format!("{size}\n")),
        Ok(Err(error)) => {
            tracing::error!(%error, "a head was not cosigned: it could not be stored");
            plain_response(StatusCode::INTERNAL_SERVER_ERROR, "the witness cannot store this head")
        }
        Err(_panicked) => plain_response(StatusCode::INTERNAL_SERVER_ERROR, "the witness failed"),
    }
}

/// Reads a body that may be neither long nor slow.
async fn read(body: Body) -> Result<String, (StatusCode, &'static str)> {
    let body = Limited::new(Timely::new(body, BODY_WITHIN), BODY_BYTES_MAX);
    let body = body.collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            (StatusCode::PAYLOAD_TOO_LARGE, "a submission has at most 64 KiB")
        } else {
            (StatusCode::REQUEST_TIMEOUT, "the submission did not arrive in time")
        }
    })?;
    String::from_utf8(body.to_bytes().into())
        .map_err(|_| (StatusCode::BAD_REQUEST, "the submission is not UTF-8"))
}

impl WitnessServer {
    /// Its public key by name.
    fn vkey(&self) -> VerifierKey {
        VerifierKey::witness(&self.name, self.key.public())
    }

    /// Judges a submission, and has a new head on disk before it is answered.
    fn decide(&self, body: &str) -> Result<Verdict, Error> {
        let bad_request = |why| Ok(Verdict::No(StatusCode::BAD_REQUEST, why));
        let submission = match Submission::parse(body) {
            Ok(submission) => submission,
            Err(why) => return bad_request(why),
        };
        let Ok((checkpoint, lines)) = Checkpoint::parse(submission.note) else {
            return bad_request("the checkpoint is malformed");
        };
        let Some(log) = self.store.log(&checkpoint.origin) else {
            return Ok(Verdict::No(StatusCode::NOT_FOUND, "the log is not known here"));
        };
        if note::verify(&checkpoint.body(), &lines, log.keys()).is_err() {
            let why = "no signature of the log, or one that does not verify";
            return Ok(Verdict::No(StatusCode::FORBIDDEN, why));
        }
        if submission.old > checkpoint.size {
            return bad_request("the old size is larger than that of the checkpoint");
        }
        self.store.update(log, |newest| {
            match extends(newest, submission.old, &submission.proof, &checkpoint) {
                Err(verdict) => {
                    // A log learns our size by a mismatch; any other error may be a fork.
                    if newest.map_or(0, |newest| newest.checkpoint.size) == submission.old {
                        let log = &checkpoint.origin;
                        tracing::warn!(log, ?verdict, "refused to cosign a signed head");
                    }
                    (None, verdict)
                }
                Ok(()) => self.cosign(newest, log, &checkpoint, &lines),
            }
        })
    }

    /// A cosignature with the current time; and the head to store, if it is new.
    fn cosign(
        &self,
        newest: Option<&Remembered>,
        log: &Log,
        checkpoint: &Checkpoint,
        lines: &[SignatureLine],
    ) -> (Option<Remembered>, Verdict) {
        let time = u64::try_from(self.clock.now().seconds()).unwrap_or_default();
        let line = cosign::cosign(&self.name, &self.key, time, checkpoint);
        if newest.is_some_and(|newest| newest.checkpoint == *checkpoint) {
            return (None, Verdict::Cosigned(line));
        }
        // The witness did not verify other cosignatures, so it drops them.
        let own = self.vkey();
        let kept = lines.iter().filter(|line| log.keys().iter().any(|key| line.is_of(key)));
        let kept = kept.filter(|line| !line.is_of(&own)).chain([&line]);
        let note = kept.fold(checkpoint.body() + "\n", |note, line| format!("{note}{line}\n"));
        let next = Remembered { checkpoint: checkpoint.clone(), note };
        (Some(next), Verdict::Cosigned(line))
    }
}

/// Whether a head may follow the last cosigned one; the answer if not.
fn extends(
    newest: Option<&Remembered>,
    old: Seq,
    proof: &[Digest],
    checkpoint: &Checkpoint,
) -> Result<(), Verdict> {
    let known = newest.map_or(0, |newest| newest.checkpoint.size);
    if old != known {
        return Err(Verdict::Conflict(known));
    }
    let unproven = Verdict::No(StatusCode::UNPROCESSABLE_ENTITY, "the proof does not verify");
    let (size, root) = (checkpoint.size, &checkpoint.root);
    if old == size {
        // Nothing was cosigned yet, or an empty tree: there is one root it can have.
        let empty = empty_root();
        let wanted = newest.map_or(&empty, |newest| &newest.checkpoint.root);
        return match (wanted == root, proof.is_empty()) {
            (false, _) => Err(Verdict::Conflict(known)),
            (true, false) => Err(unproven),
            (true, true) => Ok(()),
        };
    }
    let holds = match newest.filter(|_| old > 0) {
        None => proof.is_empty(),
        Some(newest) => verifies_consistency(old, size, &newest.checkpoint.root, root, proof),
    };
    if holds { Ok(()) } else { Err(unproven) }
}

async fn newest(State(witness): State<Arc<WitnessServer>>, Path(hash): Path<String>) -> Response {
    let hash = Digest::parse(&hash).filter(|parsed| parsed.hex() == hash);
    // WHY: a head that is being written is waited for.
    let found =
        tokio::task::spawn_blocking(move || witness.store.by_hash(&hash?).and_then(Log::newest));
    match found.await.ok().flatten() {
        Some(newest) => text(StatusCode::OK, "text/plain; charset=utf-8", newest.note),
        None => plain_response(StatusCode::NOT_FOUND, "no head of such a log was cosigned here"),
    }
}

async fn livez() -> Response {
    plain_response(StatusCode::OK, "ok")
}

async fn readyz(State(witness): State<Arc<WitnessServer>>) -> Response {
    if witness.store.is_whole() {
        plain_response(StatusCode::OK, "ready")
    } else {
        plain_response(StatusCode::SERVICE_UNAVAILABLE, "the state could not be written: restart")
    }
}

fn plain_response(status: StatusCode, why: &str) -> Response {
    text(status, "text/plain; charset=utf-8", format!("{why}\n"))
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, Body::from(body)).into_response()
}
