//! Calls: made, asked for, cancelled.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;

use super::request::{HttpExchange, WAIT_MS_MAX, malformed};
use super::wire::{CallAnswer, CallBody, CancelBody};
use super::{events, reply};
use crate::domain::code::Code;
use crate::domain::id::CallId;
use crate::domain::tier::Face;
use crate::enforce::{CallRequest, Fault, Follower, Released, Run};
use crate::serve::agent_api::executed;
use crate::serve::guard;
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::Broken;
use crate::serve::trace::{self, AnsweredBy};

/// Makes one call.
pub(super) async fn make(mut exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    let streams = exchange.accepts.wants_events || !exchange.accepts.json;
    if streams && !exchange.accepts.events {
        let breach = Broken::Accept.because("the answer is `application/json` or events");
        return Err(exchange.refuse(breach));
    }
    exchange.without_query()?;
    let CallBody { tool, arguments, call_id, wait_ms, justification } = exchange.read().await?;
    let wait_ms = wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        return Err(exchange.refuse(malformed("wait_ms", "`wait_ms`: 60,000 at most")));
    }
    let call = CallRequest {
        call_id: call_name(&exchange, call_id)?,
        traceparent: guard::traceparent(&exchange.headers),
        justification,
        face: Some(Face::Http),
        tool,
        // INVARIANT: exactly the bytes of the body, which the strict reader has read.
        arguments: Box::<str>::from(arguments).into_string().into_bytes(),
    };
    if streams {
        return followed(exchange, run, call, wait_ms).await;
    }
    let released = exchange.api.execute(&run, call, wait_ms).await?;
    Ok(exchange.kept(answer(released)))
}

/// The result of a call, and its receipt.
pub(super) fn answer(released: Released) -> Response {
    let receipt = released.receipt().clone();
    reply::stamped(reply::json(StatusCode::OK, &CallAnswer::from(released)), &receipt)
}

/// The id of a call: from the path, the header and the body, if those that are there agree. Empty if
/// none is.
fn call_name(exchange: &HttpExchange, in_body: Option<String>) -> Result<String, Problem> {
    let in_path = Some(exchange.segment.clone()).filter(|segment| !segment.is_empty());
    let mut names = [in_path, exchange.key()?, in_body].into_iter().flatten();
    let Some(name) = names.next() else { return Ok(String::new()) };
    if names.any(|other| other != name) {
        let message = "path, `Idempotency-Key` and `call_id` name different calls";
        return Err(exchange.refuse(malformed("call.id", message)));
    }
    // WHY not only dots: clients and proxies resolve such a segment of a path.
    if name.bytes().all(|byte| byte == b'.') {
        let message = "a call id is [A-Za-z0-9_.-]{1,64}, and not only dots";
        return Err(exchange.refuse(malformed("call.id", message)));
    }
    Ok(name)
}

/// Makes one call whose client takes events.
async fn followed(
    exchange: HttpExchange,
    run: Arc<Run>,
    mut call: CallRequest,
    wait_ms: u32,
) -> Result<Response, Problem> {
    let road = Arc::clone(exchange.api.road()?);
    if call.call_id.is_empty() {
        call.call_id = road.minted_id(&run, &call.tool, &call.arguments);
    }
    let invalid = || exchange.refuse(malformed("call.id", "a call id is [A-Za-z0-9_.-]{1,64}"));
    let id = CallId::parse(&call.call_id).ok_or_else(invalid)?;
    let follower = Follower::new(&road, &run, &id, 0);
    let asked = async move { executed(&road, &run, call, wait_ms).await };
    events::of_request(exchange, follower.asking(Box::pin(asked))).await
}

/// The recorded answer of a call.
pub(super) async fn show(exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    exchange.answers_json()?;
    let (call, wait_ms) = (exchange.call()?, exchange.wait_ms()?);
    match exchange.api.answer(&run, call.as_str(), wait_ms).await {
        Ok(released) => Ok(exchange.kept(answer(released))),
        Err(problem) if problem.code == Code::CallNotFound => {
            let road = exchange.api.road()?;
            let trace = trace::of_request(road, &run, &call, &AnsweredBy::new()).await?;
            let answer = trace.and_then(CallAnswer::traced).ok_or(problem)?;
            Ok(exchange.kept(reply::json(StatusCode::OK, &answer)))
        }
        Err(problem) => Err(problem),
    }
}

/// Stops a call. How it ended is the answer of the call.
pub(super) async fn cancel(exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    exchange.answers_json()?;
    exchange.without_query()?;
    let call = exchange.call()?;
    if !run.has(&call) {
        return Err(exchange.refuse(Problem::from(Fault::of(Code::CallNotFound).about(&call))));
    }
    exchange.api.road()?.cancel(&run, call.as_str());
    let body = CancelBody { call_id: call.as_str().to_owned() };
    let response = reply::json(StatusCode::ACCEPTED, &body);
    Ok(exchange.kept(reply::located(response, &reply::of_call(call.as_str()))))
}
