//! HTTP and JSON for agents below `/gate/v1`: the operations of `wicketgate.v1.Gate`, with problems
//! (RFC 9457), and their OpenAPI document at `/openapi.json`.
//!
//! `routes` is the face as one table: it makes the router, the document and the list of the whole
//! surface. `wire` has the types of bodies, `calls`, `events` and `results` what is asked of calls,
//! `runs` the rest.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use http::header::{ALLOW, CACHE_CONTROL, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::agent_api::AgentApi;
use super::guard::{self, Accepts};
use super::handover::AnswerSlot;
use super::problem::Problem;
use super::problem::exchange::Broken;
use super::{Faces, edge};
use crate::domain::code::Code;
use crate::identity::Peer;
use openapi::Document;
use request::HttpExchange;
use routes::{Answerer, HttpRoute, ROUTES};

mod calls;
mod events;
pub mod openapi;
mod reply;
mod request;
mod results;
pub mod routes;
mod runs;
pub mod wire;

/// Where the routes of the face begin.
const ROOT: &str = "/gate/v1";
/// Where its document is.
const DOCUMENT: &str = "/openapi.json";

/// Streams of events that are open at the same time, over all callers.
const STREAMS_MAX: usize = 512;

/// The face. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct HttpFace {
    router: Router,
    shared: Arc<HttpShared>,
}

/// What all requests share.
#[derive(Debug)]
struct HttpShared {
    api: AgentApi,
    hosts: Arc<[String]>,
    permits: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    document: OnceLock<Document>,
}

impl HttpFace {
    /// The face over the gate. `hosts` are names of this machine besides loopback ones; `permits`
    /// limits the requests of all faces of the same listeners.
    pub(super) fn new(faces: Faces, hosts: Arc<[String]>, permits: Arc<Semaphore>) -> Self {
        let (api, streams) = (AgentApi::new(faces), Arc::new(Semaphore::new(STREAMS_MAX)));
        let document = OnceLock::new();
        let shared = Arc::new(HttpShared { api, hosts, permits, streams, document });
        Self { router: router(&shared), shared }
    }

    /// Whether a path is for this face, known or not.
    pub(super) fn claims(path: &str) -> bool {
        let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        path == DOCUMENT || path.strip_prefix(ROOT).is_some_and(below)
    }

    /// Answers one request of this peer. Dropping the future or its body counts as the client's
    /// disconnect, and stops no call.
    pub(super) async fn answer(
        &self,
        peer: &Peer,
        mut request: http::Request<Incoming>,
    ) -> http::Response<tonic::body::Body> {
        let headers = request.headers();
        let guarded = guard::bearable(headers)
            .and_then(|()| guard::unambiguous(headers))
            .and_then(|()| guard::from_here(&request, peer, &self.shared.hosts));
        let response = match guarded {
            Ok(()) => {
                request.extensions_mut().insert(peer.clone());
                let routed = self.router.clone().oneshot(request.map(Body::new));
                routed.await.unwrap_or_else(|never| match never {})
            }
            Err(breach) => reply::problem(&self.shared.api.refuse(breach)),
        };
        response.map(tonic::body::Body::new)
    }
}

/// Serves the table.
fn router(shared: &Arc<HttpShared>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        // WHY no error: a test holds the table, whose methods the router knows.
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let handler = move |State(shared): State<Arc<HttpShared>>, request: Request| async move {
            shared.handle(route, request).await
        };
        router = router.route(route.path, on(filter, handler));
    }
    router.fallback(nowhere).method_not_allowed_fallback(elsewise).with_state(Arc::clone(shared))
}

/// Nothing is served at this path.
async fn nowhere(State(shared): State<Arc<HttpShared>>) -> Response {
    reply::problem(&shared.api.refuse(edge::nowhere()))
}

/// The path is served, and this method is not; the router adds which methods are.
async fn elsewise(State(shared): State<Arc<HttpShared>>, method: Method) -> Response {
    if method == Method::OPTIONS {
        // No header of CORS: no page from elsewhere is served.
        return reply::bare(StatusCode::NO_CONTENT);
    }
    let breach = Broken::Verb.because("the path is not served with this method");
    reply::problem(&shared.api.refuse(breach))
}

impl HttpShared {
    /// Answers one route: it finds the caller before it reads anything of the body.
    async fn handle(self: Arc<Self>, route: &'static HttpRoute, request: Request) -> Response {
        let mut response = match self.routed(route, request).await {
            Ok(response) => response,
            Err(problem) => reply::problem(&problem),
        };
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        // The router adds it where it belongs.
        headers.remove(ALLOW);
        response
    }

    async fn routed(
        &self,
        route: &'static HttpRoute,
        request: Request,
    ) -> Result<Response, Problem> {
        let (mut parts, body) = request.into_parts();
        let api = &self.api;
        let peer: Option<Peer> = parts.extensions.remove();
        let unknown = || Problem::new(Code::IdentityMissing, "peer", "the peer is not known");
        let peer = peer.ok_or_else(|| api.refuse(unknown()))?;
        let exchange = |slot: AnswerSlot, parts: http::request::Parts, body: Body| HttpExchange {
            api: api.clone(),
            streams: Arc::clone(&self.streams),
            accepts: Accepts::of(&parts.headers),
            segment: route.segment(parts.uri.path()),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers,
            body,
            slot,
        };
        let answering = match route.answerer {
            Answerer::Document => {
                let document = self.document.get_or_init(Document::new);
                return Ok(reply::cached(&parts.headers, document.bytes(), document.etag()));
            }
            Answerer::Caller(answerer) => {
                let caller = api.caller(&peer, &parts.headers)?;
                api.road()?;
                answerer(exchange(self.slot()?, parts, body), caller)
            }
            Answerer::Run(answerer) => {
                api.road()?;
                let run = api.run(&peer, &parts.headers)?;
                answerer(exchange(self.slot()?, parts, body), run)
            }
        };
        answering.await
    }

    /// A place among the answers in memory.
    fn slot(&self) -> Result<AnswerSlot, Problem> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let full = |_taken| self.api.refuse(Problem::of(Code::Overloaded, "requests"));
        permit.map(AnswerSlot::new).map_err(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_paths_are_the_faces() {
        for path in ["/gate/v1", "/gate/v1/", "/gate/v1/calls", "/gate/v1/../mcp", "/openapi.json"]
        {
            assert!(HttpFace::claims(path), "{path}");
        }
        for path in ["/gate/v10", "/gate", "/gate/v2/calls", "/openapi.json/", "/", "/v1/runs"] {
            assert!(!HttpFace::claims(path), "{path}");
        }
    }

    #[test]
    fn every_route_has_a_method_that_the_router_knows() {
        for route in ROUTES {
            assert!(MethodFilter::try_from(route.method.clone()).is_ok(), "{}", route.name());
        }
    }
}
