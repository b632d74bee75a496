//! Runs and their tools: opened, shown, sealed; and tests of the agent's isolation.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use hyper::body::Bytes;

use super::ROOT;
use super::reply;
use super::request::{HttpExchange, Object};
use super::wire::{
    ChallengeBody, NoMembers, OpenedRunBody, PostureAnswer, PostureBody, RunBody, RunRequest,
    SealedBody, ToolBody, ToolList,
};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::tier::Face;
use crate::enforce::Run;
use crate::identity::Caller;
use crate::serve::problem::Problem;
use crate::serve::{SEED, agent_api, guard};

/// Opens a run.
pub(super) async fn open(mut exchange: HttpExchange, caller: Caller) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let request: RunRequest = exchange.read_if_any().await?;
    let opening = request.opening(guard::traceparent(&exchange.headers));
    let opening = opening.map_err(|problem| exchange.refuse(*problem))?;
    let opened = exchange.api.open(Face::Http, &caller, opening).await?;
    let receipt = opened.receipt.clone();
    let seed = opened.determined.map(|(seed, _)| seed.to_string());
    let body = OpenedRunBody::from(opened);
    let mut response = reply::stamped(reply::json(StatusCode::CREATED, &body), &receipt);
    if let Some(seed) = seed.and_then(|seed| HeaderValue::from_str(&seed).ok()) {
        response.headers_mut().insert(HeaderName::from_static(SEED), seed);
    }
    Ok(exchange.kept(reply::located(response, &format!("{ROOT}/run"))))
}

/// Shows the run of the token.
pub(super) async fn show(exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let response = reply::json(StatusCode::OK, &RunBody::from(run.view()));
    Ok(exchange.kept(response))
}

/// Lists the tools of the run.
pub(super) async fn tools(exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let tools = exchange.api.road()?.list_tools(&run)?;
    let tools = tools.into_iter().map(ToolBody::from).collect();
    Ok(tagged(exchange, &ToolList { tools }))
}

/// Shows one tool of the run.
pub(super) async fn tool(exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let found = exchange.api.road()?.find_tool(&run, &exchange.segment)?;
    let missing = || exchange.refuse(Problem::of(Code::ToolNotGranted, ""));
    let tool = ToolBody::from(found.ok_or_else(missing)?);
    Ok(tagged(exchange, &tool))
}

/// A body that a client may keep while its digest is the same.
fn tagged(exchange: HttpExchange, body: &impl serde::Serialize) -> Response {
    let text = serde_json::to_string(body).unwrap_or_default();
    let etag = reply::etag(&Digest::of(&[text.as_bytes()]).hex());
    let response = reply::cached(&exchange.headers, Bytes::from(text), &etag);
    exchange.kept(response)
}

/// Ends the run.
pub(super) async fn seal(mut exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let NoMembers {} = exchange.read_if_any().await?;
    let sealed = exchange.api.seal(&run).await?;
    let response = reply::json(StatusCode::OK, &SealedBody::of(&run, &sealed));
    Ok(exchange.kept(reply::stamped(response, &sealed.receipt)))
}

/// Begins a test of the caller's isolation.
pub(super) async fn challenge(
    mut exchange: HttpExchange,
    caller: Caller,
) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let NoMembers {} = exchange.read_if_any().await?;
    let challenge = exchange.api.challenge(&caller).await?;
    let response = reply::json(StatusCode::OK, &ChallengeBody::from(challenge));
    Ok(exchange.kept(response))
}

/// Records the findings of a test.
pub(super) async fn report(
    mut exchange: HttpExchange,
    caller: Caller,
) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let PostureBody { nonce, doctor, probes } = exchange.read().await?;
    let probes = probes.into_iter().map(|Object(probe)| probe.texts()).collect();
    let report = agent_api::posture(nonce, doctor, probes);
    let report = report.map_err(|problem| exchange.refuse(*problem))?;
    let observed = exchange.api.report(&caller, report).await?;
    let receipt = observed.receipt.clone();
    let response = reply::json(StatusCode::OK, &PostureAnswer::from(observed));
    Ok(exchange.kept(reply::stamped(response, &receipt)))
}
