//! The office over HTTP: JSON in and out, every error a problem (RFC 9457) with a stable code.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use axum::routing::get;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;

use super::approvals::SHOWN_MAX;
use super::credential::Shown;
use super::enrolment::Registrar;
use super::staff::{Right, Who};
use super::{Office, Sent};
use crate::approval::break_glass::Signed;
use crate::control::{Action, Order, Target};
use crate::domain::code::Code;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;
use crate::serve::problem::Problem;

/// Bytes of a request's body.
const BODY_MAX: usize = 256 * 1024;
/// Bytes of a body that carries a bundle.
pub(super) const BUNDLE_BODY_MAX: usize = 1024 * 1024;
/// How long a body may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// A route of the office and what it needs.
pub const ROUTES: [(&str, Right); 27] = [
    ("GET /v1/amendments", Right::Study),
    ("POST /v1/amendments", Right::Propose),
    ("GET /v1/amendments/{bundle}", Right::Study),
    ("POST /v1/amendments/{bundle}", Right::Publish),
    ("POST /v1/amendments/{bundle}/activate", Right::Publish),
    ("GET /v1/approvals", Right::Look),
    ("GET /v1/approvals/{run}/{call}", Right::Read),
    ("POST /v1/approvals/{run}/{call}", Right::Word),
    ("POST /v1/approvals/{run}/{call}/modify", Right::Word),
    ("GET /v1/break-glass", Right::Look),
    ("POST /v1/break-glass", Right::Switch),
    ("POST /v1/break-glass/{nonce}/close", Right::Switch),
    ("POST /v1/break-glass/{nonce}/review", Right::Review),
    ("GET /v1/control", Right::Look),
    ("POST /v1/control", Right::Switch),
    ("GET /v1/control/head", Right::Look),
    ("POST /v1/control/reinstate", Right::Switch),
    ("GET /v1/control/{seq}", Right::Look),
    ("GET /v1/erasures", Right::Custody),
    ("POST /v1/erasures", Right::Erase),
    ("GET /v1/erasures/head", Right::Custody),
    ("GET /v1/erasures/{seq}", Right::Custody),
    ("POST /v1/exports", Right::Export),
    ("GET /v1/fleet", Right::Look),
    ("GET /v1/holds", Right::Custody),
    ("POST /v1/holds", Right::Hold),
    ("GET /v1/runs", Right::Look),
];

/// The router of [`ROUTES`].
pub fn router(office: Arc<Office>) -> Router {
    Router::new()
        .merge(super::amendment_routes::router())
        .merge(super::evidence_routes::router())
        .route("/v1/approvals", get(list))
        .route("/v1/approvals/{run}/{call}", get(show).post(word))
        .route("/v1/approvals/{run}/{call}/modify", axum::routing::post(modify))
        .route("/v1/break-glass", get(glass).post(open_glass))
        .route("/v1/break-glass/{nonce}/close", axum::routing::post(close_glass))
        .route("/v1/break-glass/{nonce}/review", axum::routing::post(review_glass))
        .route("/v1/control", get(rows).post(switch))
        .route("/v1/control/head", get(head))
        .route("/v1/control/reinstate", axum::routing::post(reinstate))
        .route("/v1/control/{seq}", get(row))
        .route("/v1/fleet", get(fleet))
        .route("/v1/runs", get(runs))
        .with_state(office)
}

/// The one route of the registrar.
pub const ENROLMENT: &str = "POST /v1/enrol";
/// Bytes of a request to be enrolled.
const ENROLMENT_MAX: usize = 16 * 1024;

/// The router of [`ENROLMENT`].
pub fn enrolment(registrar: Arc<Registrar>) -> Router {
    Router::new().route("/v1/enrol", axum::routing::post(enrol)).with_state(registrar)
}

async fn enrol(State(registrar): State<Arc<Registrar>>, request: Request) -> Response {
    let said = async {
        let shown = Shown::of(request.headers(), request.extensions());
        // Whoever is not known is not read any further.
        let who = registrar.admit(&shown).await?;
        let read = read_body(request, &["request", "proof"], ENROLMENT_MAX).await;
        let body = read.map_err(|problem| registrar.refuse(problem))?;
        let text = |name: &str| body.get(name).and_then(Json::as_str).unwrap_or_default();
        Ok((StatusCode::OK, registrar.enrol(&who, text("request"), text("proof")).await?))
    };
    answer(said.await)
}

pub(super) type Answer = Result<(StatusCode, Value), Problem>;

/// Renders what a handler says.
pub(super) fn answer(said: Answer) -> Response {
    let (status, kind, body) = match said {
        Ok((status, body)) => (status, "application/json", body.to_string()),
        Err(problem) => return problem.response().map(Body::from),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Who sends this request, if that person may.
pub(super) fn admit(office: &Office, request: &Request, right: Right) -> Result<Who, Problem> {
    office.admit(&Shown::of(request.headers(), request.extensions()), right)
}

/// What a client asked for in the query: known names only, each at most once, numbers only.
fn number(office: &Office, query: Option<&str>, name: &str, default: u64) -> Result<u64, Problem> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(default) };
    let value = query.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    value.filter(digits).and_then(|text| text.parse().ok()).ok_or_else(|| {
        let message = format!("the query is `{name}=<number>` or nothing");
        office.refuse(Problem::new(Code::RequestMalformed, "http.query", message))
    })
}

fn most(count: u64) -> usize {
    usize::try_from(count).unwrap_or(SHOWN_MAX)
}

type Named = Path<(String, String)>;

async fn list(
    State(office): State<Arc<Office>>,
    RawQuery(query): RawQuery,
    shown: Shown,
) -> Response {
    let said = async {
        office.admit(&shown, Right::Look)?;
        let most = most(number(&office, query.as_deref(), "limit", 100)?);
        Ok((StatusCode::OK, office.held(most).await?))
    };
    answer(said.await)
}

async fn show(State(office): State<Arc<Office>>, path: Named, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Read)?;
        let Path((run, call)) = path;
        Ok((StatusCode::OK, office.show(&run, &call).await?))
    };
    answer(said.await)
}

async fn word(State(office): State<Arc<Office>>, path: Named, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Word)?;
        let signed = signed(&office, request).await?;
        let Path((run, call)) = path;
        let sent = office.word(&who, (&run, &call), signed).await?;
        Ok(sent_answer(&sent))
    };
    answer(said.await)
}

/// A body that is a statement and one signature over it.
pub(super) async fn signed(office: &Office, request: Request) -> Result<(String, String), Problem> {
    let body = body(office, request, &["statement", "signature"]).await?;
    let text = |name: &str| body.get(name).and_then(Json::as_str).map(str::to_owned);
    text("statement")
        .zip(text("signature"))
        .ok_or_else(|| malformed(office, "expected `statement` and `signature`, both text"))
}

async fn modify(State(office): State<Arc<Office>>, path: Named, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Word)?;
        let names = ["arguments", "reason", "statement", "signature"];
        let body = body(&office, request, &names).await?;
        let text = |name: &str| body.get(name).and_then(Json::as_str);
        let Some(arguments) = text("arguments") else {
            return Err(malformed(&office, "expected `arguments`: text that is a JSON object"));
        };
        let signed = text("statement").zip(text("signature")).ok_or_else(|| {
            malformed(&office, "expected `statement` and `signature`: a proposal is signed")
        })?;
        let signed = (signed.0.to_owned(), signed.1.to_owned());
        let reason = optional(&office, &body, "reason")?.unwrap_or_default();
        let Path((run, call)) = path;
        let sent = office.modify(&who, (&run, &call), (arguments, reason), signed).await?;
        Ok(sent_answer(&sent))
    };
    answer(said.await)
}

async fn switch(State(office): State<Arc<Office>>, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Switch)?;
        let names = ["action", "target", "name", "reason", "expires"];
        let body = body(&office, request, &names).await?;
        let (order, reason, expires) = order(&office, &body)?;
        let sent = office.order(&who, &order, (&reason, expires), None).await?;
        Ok(sent_answer(&sent))
    };
    answer(said.await)
}

async fn reinstate(State(office): State<Arc<Office>>, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Switch)?;
        let body = body(&office, request, &["statement", "signature"]).await?;
        let text = |name: &str| body.get(name).and_then(Json::as_str).map(str::to_owned);
        let signed = text("statement").zip(text("signature"));
        let (statement, signature) =
            signed.ok_or_else(|| malformed(&office, "expected `statement` and `signature`"))?;
        let signed = crate::approval::Signed { statement, signature };
        Ok(sent_answer(&office.loosen(&who, signed).await?))
    };
    answer(said.await)
}

async fn head(State(office): State<Arc<Office>>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Look)?;
        Ok((StatusCode::OK, office.head().await?))
    };
    answer(said.await)
}

/// 200 when it is known that everything was obeyed, else 202: the order stands, and the body says what
/// is missing.
pub(super) fn sent_answer(sent: &Sent) -> (StatusCode, Value) {
    let status = if sent.complete() { StatusCode::OK } else { StatusCode::ACCEPTED };
    (status, sent.to_json())
}

/// An order as it is written in a body.
pub(super) fn order(
    office: &Office,
    body: &Json,
) -> Result<(Order, String, Option<Timestamp>), Problem> {
    let text = |name: &str| body.get(name).and_then(Json::as_str);
    let action = text("action").and_then(Action::parse);
    let action =
        action.ok_or_else(|| malformed(office, "`action` is one of suspend, revoke, kill"))?;
    if action == Action::Reinstate {
        let message = "an order that takes back a stop is signed: `wicketgate control reinstate`, or POST /v1/control/reinstate";
        return Err(malformed(office, message));
    }
    let name = optional(office, body, "name")?.unwrap_or_default();
    let target = text("target").and_then(|kind| Target::parse(kind, name));
    let target = target.ok_or_else(|| {
        let message = "`target` is one of all, agent, run, tool, manifest, key, and `name` fits it";
        malformed(office, message)
    })?;
    let reason = text("reason").filter(|reason| !reason.trim().is_empty());
    let reason =
        reason.ok_or_else(|| malformed(office, "`reason` says why, for whoever reads it"))?;
    let expires = optional(office, body, "expires")?.map(|text| {
        let at = Timestamp::parse(text).filter(|at| *at > office.clock.now());
        at.ok_or_else(|| {
            malformed(office, "`expires` is a later instant like 2026-11-21T20:05:03.123Z")
        })
    });
    Ok((Order::Switch { action, target }, reason.to_owned(), expires.transpose()?))
}

pub(super) fn optional<'a>(
    office: &Office,
    body: &'a Json,
    name: &str,
) -> Result<Option<&'a str>, Problem> {
    match body.get(name) {
        None => Ok(None),
        Some(value) => {
            value.as_str().map(Some).ok_or_else(|| malformed(office, &format!("`{name}` is text")))
        }
    }
}

async fn glass(State(office): State<Arc<Office>>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Look)?;
        Ok((StatusCode::OK, office.glass().await?))
    };
    answer(said.await)
}

async fn open_glass(State(office): State<Arc<Office>>, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Switch)?;
        let body = body(&office, request, &["statement", "signatures"]).await?;
        let signed: Signed = body.read().map_err(|_| {
            malformed(&office, "expected `statement`, text, and `signatures`, at most 16 texts")
        })?;
        Ok(sent_answer(&office.open_glass(&who, signed).await?))
    };
    answer(said.await)
}

async fn close_glass(
    State(office): State<Arc<Office>>,
    Path(nonce): Path<String>,
    request: Request,
) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Switch)?;
        let body = body(&office, request, &["reason"]).await?;
        let reason = optional(&office, &body, "reason")?.unwrap_or_default();
        Ok(sent_answer(&office.close_glass(&who, &nonce, reason).await?))
    };
    answer(said.await)
}

async fn review_glass(
    State(office): State<Arc<Office>>,
    Path(nonce): Path<String>,
    request: Request,
) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Review)?;
        let body = body(&office, request, &["note"]).await?;
        let note = optional(&office, &body, "note")?.unwrap_or_default();
        Ok(sent_answer(&office.review_glass(&who, &nonce, note).await?))
    };
    answer(said.await)
}

async fn rows(
    State(office): State<Arc<Office>>,
    RawQuery(query): RawQuery,
    shown: Shown,
) -> Response {
    let said = async {
        office.admit(&shown, Right::Look)?;
        let since = number(&office, query.as_deref(), "since", 0)?;
        Ok((StatusCode::OK, office.rows(since).await?))
    };
    answer(said.await)
}

async fn row(State(office): State<Arc<Office>>, path: Path<String>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Look)?;
        let seq = path.0.parse().ok().filter(|seq| *seq > 0);
        let seq = seq.ok_or_else(|| malformed(&office, "the number of an order is 1 or more"))?;
        Ok((StatusCode::OK, office.row(seq).await?))
    };
    answer(said.await)
}

async fn fleet(State(office): State<Arc<Office>>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Look)?;
        Ok((StatusCode::OK, office.fleet().await?))
    };
    answer(said.await)
}

async fn runs(
    State(office): State<Arc<Office>>,
    RawQuery(query): RawQuery,
    shown: Shown,
) -> Response {
    let said = async {
        office.admit(&shown, Right::Look)?;
        let most = most(number(&office, query.as_deref(), "limit", 100)?);
        Ok((StatusCode::OK, office.runs(most).await?))
    };
    answer(said.await)
}

pub(super) fn malformed(office: &Office, message: &str) -> Problem {
    office.refuse(Problem::new(Code::RequestMalformed, "", message))
}

/// The body: strict JSON, an object of these members and no others. `application/json` alone is taken,
/// so that no page's form is.
pub(super) async fn body(
    office: &Office,
    request: Request,
    names: &[&str],
) -> Result<Json, Problem> {
    body_of(office, request, names, BODY_MAX).await
}

pub(super) async fn body_of(
    office: &Office,
    request: Request,
    names: &[&str],
    most: usize,
) -> Result<Json, Problem> {
    read_body(request, names, most).await.map_err(|problem| office.refuse(problem))
}

/// As [`body`], of at most so many bytes, and counted by nobody.
pub(super) async fn read_body(
    request: Request,
    names: &[&str],
    most: usize,
) -> Result<Json, Problem> {
    let malformed = |message: &str| Problem::new(Code::RequestMalformed, "", message);
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        return Err(malformed("the body is `application/json`"));
    }
    let read = Limited::new(request.into_body(), most).collect();
    let read = tokio::time::timeout(BODY_WITHIN, read).await;
    let bytes = match read {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            let message = format!("the body is at most {} KiB", most / 1024);
            return Err(malformed(&message));
        }
        Err(_late) => return Err(malformed("the body did not arrive in time")),
    };
    let json = Json::parse(&bytes, &Limits::ARGUMENTS)
        .map_err(|error| Problem::new(Code::RequestMalformed, error.code, error.message))?;
    let Some(members) = json.as_object() else {
        return Err(malformed("expected an object"));
    };
    match members.keys().find(|name| !names.contains(&name.as_str())) {
        Some(unknown) => {
            let message = format!("`{}` is not known here", super::visible(unknown));
            Err(malformed(&message))
        }
        None => Ok(json),
    }
}

/// What browsers are told, should one get here: load nothing, be framed by nobody, guess no types.
pub(crate) fn guards() -> [(HeaderName, HeaderValue); 2] {
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    [
        (http::header::CONTENT_SECURITY_POLICY, nothing),
        (http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]
}
