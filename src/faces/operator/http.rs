//! The operator API over HTTP: JSON in and out, every error a problem (RFC 9457) with a stable code.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::post;
use axum::{RequestExt as _, Router};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use schemars::{Schema, SchemaGenerator};

use super::OperatorApi;
use super::api::requests::Enrolment;
use super::api::{Input, Reply, Route, Serve, ask};
use super::credential::ShownCredential;
use super::enrolment::Registrar;
use crate::domain::code::Code;
use crate::domain::json::{Json, Limits};
use crate::serve::problem::Problem;

/// How long a body may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How a reply is sent.
pub(crate) trait HttpReply: Send + 'static {
    fn answer(self, api: &OperatorApi) -> Response;

    fn schema(schemas: &mut SchemaGenerator) -> Schema;
}

impl<T: Reply> HttpReply for T {
    /// 202: the order is recorded, and the body says what is missing.
    fn answer(self, _api: &OperatorApi) -> Response {
        let status = if self.is_complete() { StatusCode::OK } else { StatusCode::ACCEPTED };
        json(status, &self)
    }

    fn schema(schemas: &mut SchemaGenerator) -> Schema {
        schemas.subschema_for::<T>()
    }
}

fn json(status: StatusCode, body: &impl serde::Serialize) -> Response {
    // WHY: as a value its members are sorted, on every face.
    let body = serde_json::to_value(body).unwrap_or_default().to_string();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Answers one route. It checks the credential before it reads anything else of the request.
pub(super) async fn handle<R: Serve>(
    State(api): State<Arc<OperatorApi>>,
    mut request: Request,
) -> Response {
    let answered = async {
        let shown = ShownCredential::of(request.headers(), request.extensions());
        let who = api.admit(&shown, R::ROW.right)?;
        let path = request.extract_parts::<Path<R::Path>>().await;
        let Path(path) = path.map_err(|rejection| api.refuse(misnamed(&rejection)))?;
        let headers = request.headers().clone();
        let mut request = read::<R>(request).await.map_err(|problem| api.refuse(problem))?;
        request.complete(&headers, &shown);
        ask::<R>(&api, &who, (path, request)).await
    };
    match answered.await {
        Ok(reply) => reply.answer(&api),
        Err(problem) => problem.response().map(Body::from),
    }
}

fn misnamed(rejection: &PathRejection) -> Problem {
    let message = format!("the path: {}", super::visible(&rejection.body_text()));
    Problem::new(Code::RequestMalformed, "http.path", message)
}

/// The query of a request that reads, the body of one that changes.
async fn read<R: Route>(request: Request) -> Result<R::Request, Problem> {
    let json = match R::ROW.method {
        _ if !R::Request::CARRIED => Json::Null,
        Method::GET => query(request.uri().query().unwrap_or_default(), R::Request::TEXTS)?,
        _ => body(request, R::Request::BYTES_MAX).await?,
    };
    input(&json)
}

/// The body, read as the type of this route: an object for a struct, at any depth.
pub(super) fn input<T: Input>(json: &Json) -> Result<T, Problem> {
    json.read().map_err(|mismatch| {
        let whole = if mismatch.member().is_empty() { "the request: " } else { "" };
        let message = super::visible(&format!("{whole}{mismatch}"));
        Problem::new(Code::RequestMalformed, T::CAUSE, message)
    })
}

/// A query of numbers and of these texts, each name once.
fn query(query: &str, texts: &[&str]) -> Result<Json, Problem> {
    let malformed = || {
        let message = "the query must be `name=<number>`, with each name at most once";
        Problem::new(Code::RequestMalformed, "http.query", message)
    };
    let mut members = std::collections::BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let plain = value.bytes().all(|b| b.is_ascii_digit());
        let value = match texts.contains(&name.as_ref()) {
            true => Json::from(value.as_ref()),
            false => plain
                .then(|| value.parse::<u64>().ok())
                .flatten()
                .map(Json::from)
                .ok_or_else(malformed)?,
        };
        if members.insert(name.into_owned(), value).is_some() {
            return Err(malformed());
        }
    }
    Ok(Json::Object(members))
}

/// The body: strict JSON of at most so many bytes. Only `application/json` is accepted, so that a
/// page's form is refused.
async fn body(request: Request, most: usize) -> Result<Json, Problem> {
    let malformed = |message: &str| Problem::new(Code::RequestMalformed, "", message);
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        return Err(malformed("the body must be `application/json`"));
    }
    let read = Limited::new(request.into_body(), most).collect();
    let read = tokio::time::timeout(BODY_WITHIN, read).await;
    let bytes = match read {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            let message = format!("the body must have at most {} KiB", most / 1024);
            return Err(malformed(&message));
        }
        Err(_late) => return Err(malformed("the body did not arrive in time")),
    };
    Json::parse(&bytes, &Limits::ARGUMENTS)
        .map_err(|error| Problem::new(Code::RequestMalformed, error.code, error.message))
}

pub(super) fn malformed(api: &OperatorApi, message: &str) -> Problem {
    api.refused(Code::RequestMalformed, "", message)
}

/// The path of a hub's registrar, with `POST`.
pub const ENROLMENT: &str = "/v1/enrol";

/// The router of [`ENROLMENT`].
pub fn enrolment(registrar: Arc<Registrar>) -> Router {
    Router::new().route(ENROLMENT, post(enrol)).with_state(registrar)
}

async fn enrol(State(registrar): State<Arc<Registrar>>, request: Request) -> Response {
    let answered = async {
        let shown = ShownCredential::of(request.headers(), request.extensions());
        // WHY: check the credential before reading the body.
        let who = registrar.admit(&shown).await?;
        let input = match body(request, Enrolment::BYTES_MAX).await {
            Ok(json) => input::<Enrolment>(&json),
            Err(problem) => Err(problem),
        };
        let input = input.map_err(|problem| registrar.refuse(problem))?;
        registrar.enrol(&who, &input).await
    };
    match answered.await {
        Ok(enrolled) => json(StatusCode::OK, &enrolled),
        Err(problem) => problem.response().map(Body::from),
    }
}

/// Headers for a browser that gets here: load nothing, allow no frame, guess no types.
pub(crate) fn guards() -> [(HeaderName, HeaderValue); 2] {
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    [
        (http::header::CONTENT_SECURITY_POLICY, nothing),
        (http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]
}
