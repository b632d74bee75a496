//! A call as it happens: `held`, `authorized`, `progress`, and at last `completed` or `problem`. Each
//! event is durable before it is sent; its `id` is the place of its entry in the run.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::stream;
use http::StatusCode;
use http::header::ACCEPT;
use hyper::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::request::HttpExchange;
use super::wire::{AuthorizedEvent, CallAnswer, ProgressEvent};
use super::{calls, reply};
use crate::enforce::{Answer, AnswerProgress, Follower, Milestone, Run};
use crate::ledger::permit::Receipt;
use crate::mcp::sse;
use crate::serve::problem::exchange::Broken;
use crate::serve::problem::{Problem, ShownReceipt};

/// A call that is over sooner is answered without a stream, as over MCP.
const STREAM_AFTER: Duration = Duration::from_secs(1);

/// Between two signs of life. Only writing to a stream shows whether the client is still there.
const BEAT: Duration = Duration::from_secs(1);

/// A comment: carries nothing, and shows that the gate is alive.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The next milestone, and its follower.
type NextMilestone = Pin<Box<dyn Future<Output = (Follower, Option<Milestone>)> + Send>>;

fn upcoming(mut follower: Follower) -> NextMilestone {
    Box::pin(async move {
        let milestone = follower.next().await;
        (follower, milestone)
    })
}

/// Answers the request that makes a call: at once if the call is over soon, else as a stream.
pub(super) async fn of_request(
    exchange: HttpExchange,
    follower: Follower,
) -> Result<Response, Problem> {
    let place = exchange.stream_place()?;
    let (mut next, mut ready) = (upcoming(follower), VecDeque::new());
    let begins = tokio::time::sleep(STREAM_AFTER);
    tokio::pin!(begins);
    loop {
        let (follower, milestone) = tokio::select! {
            biased;
            next = &mut next => next,
            () = &mut begins => return Ok(streamed(ready, Some(next), place)),
        };
        match milestone {
            Some(Milestone::Over(answer)) => match *answer {
                Err(fault) => return Err(fault.into()),
                Ok(released) if exchange.accepts.json => {
                    return Ok(exchange.kept(calls::answer(released)));
                }
                Ok(_) => {
                    ready.push_back(written(Milestone::Over(answer)));
                    return Ok(streamed(ready, None, place));
                }
            },
            Some(milestone) => ready.push_back(written(milestone)),
            None => return Ok(streamed(ready, None, place)),
        }
        next = upcoming(follower);
    }
}

/// Streams what happens to a call, from after the last event that the client has.
pub(super) async fn of_call(exchange: HttpExchange, run: Arc<Run>) -> Result<Response, Problem> {
    if !exchange.accepts.events && exchange.headers.contains_key(ACCEPT) {
        return Err(exchange.refuse(Broken::Accept.because("the answer is `text/event-stream`")));
    }
    exchange.without_query()?;
    let (call, after) = (exchange.call()?, exchange.last_event()?);
    if !run.has(&call) {
        // A call that a recording answered, or none.
        drop(exchange.api.answer(&run, call.as_str(), 0).await?);
    }
    let place = exchange.stream_place()?;
    let mut next = upcoming(Follower::new(exchange.api.road()?, &run, &call, after));
    let mut ready = VecDeque::from([COMMENT]);
    if after > 0 {
        // A client that has the last event comes back by itself, until it is told not to.
        let (follower, milestone) = tokio::select! {
            biased;
            next = &mut next => next,
            () = tokio::time::sleep(STREAM_AFTER) => return Ok(streamed(ready, Some(next), place)),
        };
        match milestone {
            Some(Milestone::Over(answer)) if place_of(&answer).is_some_and(|at| at <= after) => {
                return Ok(exchange.kept(reply::bare(StatusCode::NO_CONTENT)));
            }
            Some(milestone) => ready.push_back(written(milestone)),
            None => {}
        }
        next = upcoming(follower);
    }
    Ok(streamed(ready, Some(next), place))
}

/// A stream of what is ready, and of what comes.
fn streamed(
    ready: VecDeque<Bytes>,
    next: Option<NextMilestone>,
    place: OwnedSemaphorePermit,
) -> Response {
    let stream = EventStream { ready, next, _place: place };
    let pieces = stream::unfold(stream, |mut stream| async move {
        let piece = stream.piece().await?;
        Some((Ok::<_, Infallible>(piece), stream))
    });
    reply::events(Body::from_stream(pieces))
}

/// The rest of one stream.
struct EventStream {
    ready: VecDeque<Bytes>,
    next: Option<NextMilestone>,
    _place: OwnedSemaphorePermit,
}

impl EventStream {
    async fn piece(&mut self) -> Option<Bytes> {
        if let Some(bytes) = self.ready.pop_front() {
            return Some(bytes);
        }
        let next = self.next.as_mut()?;
        let (follower, milestone) = tokio::select! {
            biased;
            next = next => next,
            () = tokio::time::sleep(BEAT) => return Some(COMMENT),
        };
        self.next = None;
        let milestone = milestone?;
        if !matches!(milestone, Milestone::Over(_)) {
            self.next = Some(upcoming(follower));
        }
        Some(written(milestone))
    }
}

/// The place in the run of the entry that records this answer; none if that entry is still to come.
fn place_of(answer: &Answer) -> Option<u64> {
    match answer {
        Ok(released) if released.is_pending() => None,
        Ok(released) => Some(released.receipt().run_seq),
        Err(fault) => fault.receipt.as_ref().map(|receipt| receipt.run_seq),
    }
}

/// One milestone as an event.
fn written(milestone: Milestone) -> Bytes {
    let id = |receipt: Option<&Receipt>| receipt.map(|receipt| receipt.run_seq);
    let event = match milestone {
        Milestone::Held(fault) => {
            let id = id(fault.receipt.as_ref());
            sse::event("held", id, Problem::from(*fault).response().body().as_bytes())
        }
        Milestone::Authorized(call, receipt) => {
            let shown = ShownReceipt::of(&receipt);
            let body = AuthorizedEvent { call_id: call.as_str().to_owned(), receipt: shown };
            sse::event("authorized", Some(receipt.run_seq), text(&body).as_bytes())
        }
        Milestone::Progress(call, progress) => {
            let AnswerProgress { bytes, pieces, receipt } = progress;
            let body = ProgressEvent { call_id: call.as_str().to_owned(), bytes, pieces };
            sse::event("progress", Some(receipt.run_seq), text(&body).as_bytes())
        }
        Milestone::Over(answer) => {
            let id = place_of(&answer);
            match *answer {
                Ok(released) => {
                    sse::event("completed", id, text(&CallAnswer::from(released)).as_bytes())
                }
                Err(fault) => {
                    sse::event("problem", id, Problem::from(fault).response().body().as_bytes())
                }
            }
        }
    };
    event.into()
}

fn text(body: &impl serde::Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}
