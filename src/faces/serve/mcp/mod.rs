//! MCP for agents at `/mcp`: streamable HTTP, with a handshake (2025) and without (2026-07-28).
//!
//! A face like the others: it reads a message, calls the road, renders the result. Each request
//! shows the era of its client (`modern`, `legacy`), so both share one path. `/mcp` shows
//! everything an agent is granted under governed names, `/mcp/s/<server>` one server's tools under
//! their own; `/mcp/r/<run>…` or `X-Wicketgate-Run` gives the run a name. A call belongs to an
//! implicit run of its caller and session, and a denial is a tool error a model can act on, never
//! "not found".

use std::sync::Arc;

use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::guard::{self, Accepts, bearer};
use super::handover::AnswerSlot;
use super::problem::Problem;
use super::problem::exchange::Broken;
use super::{Faces, places};
use crate::domain::code::Code;
use crate::domain::json::Json;
use crate::identity::{Caller, Peer};
use crate::mcp::http::VERSION;
use crate::mcp::rpc::Id;
use crate::mcp::{META_VERSION, Version};
use exchange::Exchange;
use holds::Holds;
use message::ClientMessage;
use reply::{McpResponse, ReplyRefusal};
use session::Sessions;
use view::PathView;

mod call;
mod exchange;
mod holds;
mod ids;
mod legacy;
mod level;
mod list;
mod message;
mod mirror;
mod modern;
mod render;
mod reply;
mod session;
mod stream;
mod view;

/// Streams of changes that are open at the same time, over all callers.
const STREAMS_MAX: usize = 512;

/// The MCP face. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mcp {
    shared: Arc<SharedFace>,
}

/// What all requests share.
#[derive(Debug)]
struct SharedFace {
    faces: Faces,
    hosts: Arc<[String]>,
    permits: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    sessions: Sessions,
    holds: Holds,
}

impl Mcp {
    /// The face over the gate. `hosts` are names of this machine besides loopback ones; `permits`
    /// limits the requests of all faces of the same listeners.
    pub(super) fn new(faces: Faces, hosts: Arc<[String]>, permits: Arc<Semaphore>) -> Self {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let (sessions, holds) = (Sessions::default(), Holds::default());
        Self { shared: Arc::new(SharedFace { faces, hosts, permits, streams, sessions, holds }) }
    }

    /// Whether a path is for this face.
    pub(super) fn claims(path: &str) -> bool {
        PathView::claims(path)
    }

    /// Answers one request. Dropping the future or its body counts as the client's disconnect.
    pub(super) async fn answer(
        &self,
        peer: &Peer,
        request: http::Request<Incoming>,
        closing: CancellationToken,
    ) -> McpResponse {
        let modern = is_modern(request.headers());
        match self.admitted(peer, request, closing).await {
            Ok(answer) => answer,
            Err(refused) => refused.answer(&self.shared.faces, None, modern),
        }
    }

    async fn admitted(
        &self,
        peer: &Peer,
        request: http::Request<Incoming>,
        closing: CancellationToken,
    ) -> Result<McpResponse, ReplyRefusal> {
        let path = request.uri().path();
        let view = PathView::of(path);
        let no_route = || ReplyRefusal::broken(Broken::Route, Code::RouteUnknown.message());
        let view = view.ok_or_else(no_route)?;
        let shared = &self.shared;
        guard::unambiguous(request.headers())?;
        guard::from_here(&request, peer, &shared.hosts)?;
        let verb = Verb::of(request.method(), is_modern(request.headers()));
        let verb =
            verb.ok_or_else(|| ReplyRefusal::broken(Broken::Verb, "not with this method"))?;
        let caller = self.identified(peer, request.headers())?;
        let permit = Arc::clone(&shared.permits)
            .try_acquire_owned()
            .map_err(|_| ReplyRefusal::turned(Problem::of(Code::Overloaded, "requests")))?;
        let Some(road) = shared.faces.road.get() else {
            let refused = ReplyRefusal::turned(Problem::of(Code::NotReady, "starting"));
            let modern = is_modern(request.headers());
            let id = asked_id(verb, request).await;
            return Ok(refused.answer(&shared.faces, id.as_ref(), modern));
        };
        let (parts, body) = request.into_parts();
        let exchange = Exchange {
            shared: Arc::clone(shared),
            road: Arc::clone(road),
            caller,
            run_name: guard::run_name(view.run.as_deref(), &parts.headers)?,
            view,
            accepts: Accepts::of(&parts.headers),
            headers: parts.headers,
            closing,
        };
        match verb {
            Verb::Post => post(exchange, body, AnswerSlot::new(permit)).await,
            Verb::Get => legacy::get(&exchange),
            Verb::Delete => legacy::delete(&exchange).await,
        }
    }

    fn identified(&self, peer: &Peer, headers: &http::HeaderMap) -> Result<Caller, ReplyRefusal> {
        let credential = bearer(headers).map_err(ReplyRefusal::turned)?;
        let caller =
            (self.shared.faces.identify)(peer, credential).map_err(ReplyRefusal::turned)?;
        places::proved();
        Ok(caller)
    }
}

/// What is done with a path.
#[derive(Clone, Copy)]
enum Verb {
    Post,
    Get,
    Delete,
}

impl Verb {
    fn of(method: &http::Method, modern: bool) -> Option<Self> {
        match method.as_str() {
            "POST" => Some(Self::Post),
            "GET" if !modern => Some(Self::Get),
            "DELETE" if !modern => Some(Self::Delete),
            _ => None,
        }
    }
}

/// The id of the request, if it can be read: the client matches its answer by it.
async fn asked_id(verb: Verb, request: http::Request<Incoming>) -> Option<Id> {
    let Verb::Post = verb else { return None };
    let (parts, body) = request.into_parts();
    let body = guard::body(&parts.headers, body).await.ok()?;
    match message::read(&body) {
        Ok(ClientMessage::Request(request)) => Some(request.id),
        Ok(ClientMessage::Notification(_) | ClientMessage::Response) => None,
        Err(unread) => unread.id,
    }
}

async fn post(
    exchange: Exchange,
    body: Incoming,
    slot: AnswerSlot,
) -> Result<McpResponse, ReplyRefusal> {
    if !exchange.accepts.json && !exchange.accepts.events {
        return Err(ReplyRefusal::broken(Broken::Accept, "neither JSON nor events are accepted"));
    }
    let body = guard::body(&exchange.headers, body).await?;
    let by_header = is_modern(&exchange.headers);
    let ask = match message::read(&body) {
        Ok(ask) => ask,
        Err(unread) => {
            let (faces, id) = (&exchange.shared.faces, unread.id);
            return Ok(unread.refused.answer(faces, id.as_ref(), by_header));
        }
    };
    drop(body);
    // A stream of changes has a place of its own.
    let slot = Some(slot).filter(|_| !modern::is_listening(&ask));
    let mut answer = if by_header || (is_alone(&ask) && !legacy::is_initialize(&ask)) {
        modern::post(exchange, ask).await
    } else {
        legacy::post(exchange, ask).await
    };
    if let Some(slot) = slot {
        slot.keep(&mut answer);
    }
    Ok(answer)
}

/// Whether the headers mark a request that stands alone.
fn is_modern(headers: &http::HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|value| value.to_str().ok());
    let version = version.and_then(|text| Version::parse(text.trim_matches([' ', '\t'])));
    version.is_some_and(Version::is_stateless)
}

/// Whether the body marks it so.
fn is_alone(ask: &ClientMessage) -> bool {
    match ask {
        ClientMessage::Request(ask) | ClientMessage::Notification(ask) => {
            ask.meta(META_VERSION).is_some_and(|version| !matches!(version, Json::Null))
        }
        ClientMessage::Response => false,
    }
}
