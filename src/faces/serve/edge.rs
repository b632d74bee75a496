//! Chooses the face of a request; checks every gRPC request before a method sees it, and every
//! answer after.
//!
//! Browsers are turned away (a page can reach a loopback port), the caller's deadline is kept, and
//! tonic's own errors become errors of the contract.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, ORIGIN};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::service::Routes;
use tower::ServiceExt as _;

use super::body::Timely;
use super::handover::AnswerSlot;
use super::http::HttpFace;
use super::llm::Llm;
use super::mcp::Mcp;
use super::problem::Problem;
use super::{Faces, guard, timeout};
use crate::domain::code::Code;
use crate::identity::Peer;

/// Path of every method of the gate.
const GATE: &str = "/wicketgate.v1.";

/// How long a request's message may take to arrive.
const MESSAGE_WITHIN: Duration = Duration::from_secs(30);

type EdgeResponse = http::Response<tonic::body::Body>;

/// The agent's side of the gate, for peers not yet identified.
#[derive(Clone)]
pub(super) struct Edge {
    routes: Routes,
    mcp: Mcp,
    http: HttpFace,
    llm: Llm,
    pub(super) faces: Faces,
    hosts: Arc<[String]>,
    permits: Arc<Semaphore>,
}

/// How many requests have answers that are not yet taken, over all connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestPlaces {
    /// Of every face but the next; health and reflection do not count, so that a busy gate can still
    /// report its state.
    pub requests: usize,
    /// To models.
    pub models: usize,
}

impl Edge {
    pub(super) fn new(
        routes: Routes,
        faces: Faces,
        hosts: Vec<String>,
        most: RequestPlaces,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(most.requests));
        let hosts: Arc<[String]> = hosts.into();
        let mcp = Mcp::new(faces.clone(), Arc::clone(&hosts), Arc::clone(&permits));
        let http = HttpFace::new(faces.clone(), Arc::clone(&hosts), Arc::clone(&permits));
        let llm = Llm::new(faces.clone(), Arc::clone(&hosts), Arc::clone(&permits), most.models);
        Self { routes: routes.prepare(), mcp, http, llm, faces, hosts, permits }
    }

    /// The same for one connection of this peer; `closing` ends endless streams.
    pub(super) fn at(&self, peer: Peer, closing: CancellationToken) -> ConnectionEdge {
        ConnectionEdge { edge: self.clone(), peer, closing }
    }
}

/// One connection's side of the gate.
#[derive(Clone)]
pub(super) struct ConnectionEdge {
    edge: Edge,
    peer: Peer,
    closing: CancellationToken,
}

impl hyper::service::Service<http::Request<Incoming>> for ConnectionEdge {
    type Response = EdgeResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<EdgeResponse, Infallible>> + Send>>;

    fn call(&self, mut request: http::Request<Incoming>) -> Self::Future {
        let connection = self.clone();
        Box::pin(async move {
            if connection.is_outlived() {
                return Ok(connection.outlived(is_grpc(&request)));
            }
            if Mcp::claims(request.uri().path()) {
                let Self { edge, peer, closing } = connection;
                return Ok(edge.mcp.answer(&peer, request, closing).await);
            }
            if HttpFace::claims(request.uri().path()) {
                return Ok(connection.edge.http.answer(&connection.peer, request).await);
            }
            if Llm::claims(request.uri().path()) {
                return Ok(connection.edge.llm.answer(&connection.peer, request).await);
            }
            if !is_grpc(&request) {
                return Ok(connection.unknown());
            }
            if let Err(problem) = connection.admit(&request) {
                return Ok(connection.refusal(&problem));
            }
            let ours = request.uri().path().starts_with(GATE);
            let permit = match Arc::clone(&connection.edge.permits).try_acquire_owned() {
                Ok(permit) if ours => Some(AnswerSlot::new(permit)),
                Err(_) if ours => return Ok(connection.refusal(&overloaded())),
                Ok(_) | Err(_) => None,
            };
            request.extensions_mut().insert(connection.peer.clone());
            let deadline = deadline(request.headers());
            let request = request.map(|body| match ours {
                true => tonic::body::Body::new(Timely::new(body, MESSAGE_WITHIN)),
                false => tonic::body::Body::new(body),
            });
            let routed = connection.edge.routes.clone().oneshot(request);
            let answer = match deadline {
                None => routed.await,
                Some(wait) => match tokio::time::timeout(wait, routed).await {
                    Ok(answer) => answer,
                    Err(_) => return Ok(overdue().into_http()),
                },
            };
            let mut answer = match answer {
                Ok(answer) => connection.reworded(answer),
                Err(never) => match never {},
            };
            if let Some(slot) = permit {
                slot.keep(&mut answer);
            }
            Ok(answer)
        })
    }
}

impl ConnectionEdge {
    /// No face answers here.
    fn unknown(&self) -> EdgeResponse {
        self.plain(&nowhere())
    }

    /// Whether the client's certificate has ended while its connection lived.
    fn is_outlived(&self) -> bool {
        let now = self.edge.faces.clock.now();
        self.peer.certificate.as_ref().is_some_and(|shown| shown.not_after <= now)
    }

    fn outlived(&self, grpc: bool) -> EdgeResponse {
        let (code, message) =
            (Code::IdentityMissing, "the certificate of this connection has ended");
        let problem = Problem::new(code, "certificate.ended", message);
        if grpc { self.refusal(&problem) } else { self.plain(&problem) }
    }

    /// A refusal for a client that does not speak gRPC.
    fn plain(&self, problem: &Problem) -> EdgeResponse {
        self.edge.faces.reject(problem.code);
        problem.response().map(|body| {
            tonic::body::Body::new(http_body_util::Full::new(hyper::body::Bytes::from(body)))
        })
    }

    fn admit(&self, request: &http::Request<Incoming>) -> Result<(), Box<Problem>> {
        let refuse = |detail: &str, message: &str| {
            Err(Box::new(Problem::new(Code::RequestMalformed, detail, message)))
        };
        let headers = request.headers();
        if headers.contains_key(ORIGIN) {
            return refuse("http.origin", "browsers are not served here");
        }
        let hosts = &self.edge.hosts;
        let named = || guard::one_host(request).is_some_and(|host| guard::is_local(&host, hosts));
        if self.peer.may_be_rebound() && !named() {
            return refuse("http.host", "the host is not a name of this machine");
        }
        Ok(())
    }

    fn refusal(&self, problem: &Problem) -> EdgeResponse {
        self.edge.faces.reject(problem.code);
        problem.status().into_http()
    }

    /// Replaces tonic's own answer to an unreadable message by an error of the contract.
    fn reworded(&self, answer: EdgeResponse) -> EdgeResponse {
        match misread(answer.headers(), "the message is larger than 4 MiB") {
            Some(problem) => self.refusal(&problem),
            None => answer,
        }
    }
}

/// The problem, if these are the headers of tonic's own answer to an unreadable message; `large` is
/// the message for one that is too large.
pub(crate) fn misread(headers: &HeaderMap, large: &str) -> Option<Problem> {
    let has_details = headers.contains_key("grpc-status-details-bin");
    let status = headers.get("grpc-status").filter(|_| !has_details)?;
    let code = tonic::Code::from_bytes(status.as_bytes());
    let (detail, message) = if code == tonic::Code::OutOfRange {
        ("message.size", large)
    } else if code == tonic::Code::Internal {
        ("message.protobuf", "the message cannot be read")
    } else {
        // These statuses are the protocol's own and stay as they are: OK, UNIMPLEMENTED.
        return None;
    };
    Some(Problem::new(Code::RequestMalformed, detail, message))
}

/// Whether this is a gRPC request; outside the paths of the other faces the gate serves no other.
pub(super) fn is_grpc<B>(request: &http::Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    request.version() == http::Version::HTTP_2
        && kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// No face answers at this path.
pub(super) fn nowhere() -> Problem {
    Problem::of(Code::RouteUnknown, "http.route")
}

fn overloaded() -> Problem {
    Problem::of(Code::Overloaded, "requests")
}

fn deadline(headers: &HeaderMap) -> Option<Duration> {
    timeout::parse(headers.get("grpc-timeout")?.to_str().ok()?)
}

fn overdue() -> Status {
    Status::deadline_exceeded(
        "the deadline passed while waiting; a call that was admitted goes on, ask for it by its id",
    )
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::net::UnixStream;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::enforce::Fault;
    use crate::serve::pb::gate_server::{Gate, GateServer};
    use crate::serve::{Readiness, convert, driver, listener, pb};
    use crate::telemetry::metrics::Metrics;

    /// A gate that never answers.
    struct Silent;

    macro_rules! silent {
        ($($name:ident($request:ident) -> $answer:ty;)*) => {
            #[tonic::async_trait]
            impl Gate for Silent {
                type ReadResultStream = convert::Pieces;
                $(async fn $name(
                    &self,
                    _: tonic::Request<pb::$request>,
                ) -> Result<tonic::Response<$answer>, Status> {
                    std::future::pending().await
                })*
            }
        };
    }

    silent! {
        open_run(OpenRunRequest) -> pb::OpenRunResponse;
        list_tools(ListToolsRequest) -> pb::ListToolsResponse;
        execute_tool(ExecuteToolRequest) -> pb::ExecuteToolResponse;
        get_call(GetCallRequest) -> pb::GetCallResponse;
        read_result(ReadResultRequest) -> convert::Pieces;
        seal_run(SealRunRequest) -> pb::SealRunResponse;
        challenge_posture(ChallengePostureRequest) -> pb::ChallengePostureResponse;
        report_posture(ReportPostureRequest) -> pb::ReportPostureResponse;
    }

    #[tokio::test]
    async fn waiting_is_bounded_by_the_callers_deadline_by_room_and_by_the_drain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let socket = listener::socket(&path).await.unwrap();
        let faces = Faces {
            road: Arc::default(),
            identify: Arc::new(|_, _| Err(Fault::new(Code::IdentityMissing, "nobody"))),
            readiness: tokio::sync::watch::channel(Readiness::default()).1,
            metrics: Arc::new(Metrics::new([], "0", "test")),
            clock: Arc::new(crate::clock::SystemClock::new()),
            entropy: Arc::new(crate::clock::SystemEntropy),
        };
        let edge = Edge::new(
            Routes::new(GateServer::new(Silent)),
            faces,
            Vec::new(),
            RequestPlaces { requests: 1, models: 1 },
        );
        let limits = driver::Limits::of(4, Duration::ZERO);
        let shutdown = CancellationToken::new();
        let served = driver::run(socket, limits, shutdown.clone(), move |io, peer, closing| {
            driver::either(io, edge.at(peer, closing.clone()), closing)
        });
        let served = tokio::spawn(served);
        let stream = TokioIo::new(UnixStream::connect(&path).await.unwrap());
        let (mut client, connection) =
            hyper::client::conn::http2::Builder::new(TokioExecutor::new())
                .handshake(stream)
                .await
                .unwrap();
        tokio::spawn(connection);
        // WHY: by hand, because tonic's client keeps the deadline too and would answer first.
        let empty = || http_body_util::Full::new(hyper::body::Bytes::from_static(&[0; 5]));
        let ask = || {
            http::Request::post("http://gate/wicketgate.v1.Gate/ExecuteTool")
                .header("content-type", "application/grpc")
                .header("te", "trailers")
        };
        let late = ask().header("grpc-timeout", "20m").body(empty()).unwrap();
        let late = client.send_request(late).await.unwrap();
        let status = Status::from_header_map(late.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        assert!(status.message().contains("goes on"), "{status:?}");

        // The first request's place is free again, and it is the only one.
        let mut busy = client.clone();
        let first = tokio::spawn(client.send_request(ask().body(empty()).unwrap()));
        let refused = loop {
            let next = ask().header("grpc-timeout", "20m").body(empty()).unwrap();
            let next = busy.send_request(next).await.unwrap();
            let status = Status::from_header_map(next.headers()).unwrap();
            if status.code() != tonic::Code::DeadlineExceeded {
                break status;
            }
        };
        assert_eq!(refused.code(), tonic::Code::Unavailable);

        // A request that never ends does not hold up shutdown beyond the drain time.
        shutdown.cancel();
        served.await.unwrap();
        assert!(first.await.unwrap().is_err());
    }
}
