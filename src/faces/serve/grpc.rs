//! `wicketgate.v1.Gate` over gRPC: reads a request, calls the road, writes the answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use super::convert::{self, Pieces};
use super::guard::{bearer, traceparent};
use super::pb::gate_server::{Gate as GateService, GateServer, SERVICE_NAME};
use super::problem::{self, Problem};
use super::{Error, Faces, Readiness, pb, places};
use crate::domain::code::Code;
use crate::domain::tier::Face;
use crate::enforce::{CallRequest, Fault, Released, Road, Run};
use crate::identity::{Caller, IdentityError, Peer};

/// Bytes of one request message. Larger than any acceptable arguments, so that the reader of
/// arguments, with its own message, refuses those of one byte too many.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What health speaks of on agents' listeners.
pub(super) const SERVICES: [&str; 2] = ["", SERVICE_NAME];

/// Everything agents' listeners answer.
pub(super) fn routes(faces: &Faces) -> Result<(HealthReporter, Routes), Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = reflected(&[SERVICE_NAME])?;
    let gate = GateServer::new(Gate { faces: faces.clone() })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Ok((reporter, Routes::new(gate).add_service(health).add_service(reflection)))
}

/// Reflection of these services, health and itself; it names only services of this listener.
pub(super) fn reflected(
    services: &[&'static str],
) -> Result<ServerReflectionServer<impl ServerReflection>, Error> {
    let mut builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(pb::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    for name in
        services.iter().chain(&["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"])
    {
        builder = builder.with_service_name(*name);
    }
    Ok(builder.build_v1()?)
}

/// Reports readiness as the gRPC health of these services, until shutdown; then: not serving.
pub(super) async fn report(
    health: HealthReporter,
    services: &[&'static str],
    mut readiness: watch::Receiver<Readiness>,
    shutdown: CancellationToken,
) {
    loop {
        let ready = readiness.borrow_and_update().ready;
        let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        say(&health, services, status).await;
        let changed = async { readiness.changed().await.is_ok() };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            // WHY: the sender of readiness is gone, so its last "ready" no longer holds.
            more = changed => if !more { break },
        }
    }
    say(&health, services, ServingStatus::NotServing).await;
}

pub(super) async fn say(health: &HealthReporter, services: &[&'static str], status: ServingStatus) {
    for service in services {
        health.set_service_status(*service, status).await;
    }
}

/// The service.
#[derive(Debug)]
struct Gate {
    faces: Faces,
}

impl Gate {
    fn road(&self) -> Result<&Arc<Road>, Status> {
        self.faces.road.get().ok_or_else(|| self.refuse(Problem::of(Code::NotReady, "starting")))
    }

    /// What the edge itself refuses. What the road refuses, the road has counted.
    fn refuse(&self, problem: impl Into<Problem>) -> Status {
        let problem = problem.into();
        self.faces.reject(problem.code);
        problem.status()
    }

    /// The run of the request's token, if this peer may use it.
    fn run<T>(&self, request: &Request<T>) -> Result<Arc<Run>, Status> {
        let peer = peer(request).map_err(|problem| self.refuse(problem))?;
        let token = bearer(request.metadata().as_ref()).map_err(|error| self.refuse(error))?;
        // No connection is mapped to a run: its token is the only way to it.
        let token = token.ok_or_else(|| self.refuse(IdentityError::Missing))?;
        let run = self.road()?.find_run(peer, token).map_err(|fault| self.refuse(fault))?;
        places::proved();
        Ok(run)
    }

    /// The agent that this peer, or the request's credential, is mapped to.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let peer = peer(request).map_err(|problem| self.refuse(problem))?;
        let credential = bearer(request.metadata().as_ref()).map_err(|error| self.refuse(error))?;
        let identify = &self.faces.identify;
        let caller = identify(peer, credential).map_err(|fault| self.refuse(fault))?;
        places::proved();
        Ok(caller)
    }

    async fn recorded(&self, run: &Arc<Run>, call_id: &str) -> Result<Released, Status> {
        // WHY: boxed, because the road's future is large and this one is held per request.
        Box::pin(self.road()?.call(run, call_id)).await.map_err(status_of)
    }
}

impl From<Box<Problem>> for Problem {
    fn from(problem: Box<Problem>) -> Self {
        *problem
    }
}

#[tonic::async_trait]
impl GateService for Gate {
    async fn open_run(
        &self,
        request: Request<pb::OpenRunRequest>,
    ) -> Result<Response<pb::OpenRunResponse>, Status> {
        let caller = self.caller(&request)?;
        let traceparent = traceparent(request.metadata().as_ref());
        let opening = convert::opening(request.into_inner(), traceparent)
            .map_err(|problem| self.refuse(problem))?;
        let road = self.road()?;
        let opened = Box::pin(road.open_run(Face::Grpc, &caller, opening)).await;
        let opened = opened.map_err(status_of)?;
        let (receipt, determined) = (opened.receipt.clone(), opened.determined);
        let mut response = stamped(convert::opened(opened), &receipt);
        if let Some(seed) = determined.and_then(|(seed, _)| seed.to_string().parse().ok()) {
            response.metadata_mut().insert(super::SEED, seed);
        }
        Ok(response)
    }

    async fn list_tools(
        &self,
        request: Request<pb::ListToolsRequest>,
    ) -> Result<Response<pb::ListToolsResponse>, Status> {
        let run = self.run(&request)?;
        let tools = self.road()?.list_tools(&run).map_err(status_of)?;
        let tools = tools.into_iter().map(convert::tool).collect();
        Ok(Response::new(pb::ListToolsResponse { tools }))
    }

    async fn execute_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> Result<Response<pb::ExecuteToolResponse>, Status> {
        let run = self.run(&request)?;
        let traceparent = traceparent(request.metadata().as_ref());
        let pb::ExecuteToolRequest { tool, arguments, call_id, wait_ms } = request.into_inner();
        let call = CallRequest { tool, arguments, call_id, traceparent };
        // INVARIANT: dropping this future (the client hung up, its deadline passed) abandons only
        // the waiting; the road runs the call on its own task.
        let mut answer = Box::pin(self.road()?.execute(&run, call)).await;
        if let Err(held) = &answer
            && let (Code::CallHeld, Some(call)) = (held.code, held.call.clone())
            && wait_ms > 0
        {
            answer =
                Box::pin(self.road()?.call_within(&run, call.as_str(), patience(wait_ms))).await;
        }
        let released = answer.map_err(status_of)?;
        let receipt = released.receipt().clone();
        Ok(stamped(convert::released(released), &receipt))
    }

    async fn get_call(
        &self,
        request: Request<pb::GetCallRequest>,
    ) -> Result<Response<pb::GetCallResponse>, Status> {
        let run = self.run(&request)?;
        let pb::GetCallRequest { call_id, wait_ms } = request.get_ref();
        let waiting = self.road()?.call_within(&run, call_id, patience(*wait_ms));
        let released = Box::pin(waiting).await.map_err(status_of)?;
        let recorded = released.receipt().clone();
        let pb::ExecuteToolResponse { call_id, status, result, receipt, outcome_pending } =
            convert::released(released);
        let found = pb::GetCallResponse { call_id, status, result, receipt, outcome_pending };
        Ok(stamped(found, &recorded))
    }

    type ReadResultStream = Pieces;

    async fn read_result(
        &self,
        request: Request<pb::ReadResultRequest>,
    ) -> Result<Response<Pieces>, Status> {
        let run = self.run(&request)?;
        let pb::ReadResultRequest { call_id, offset } = request.get_ref();
        let released = self.recorded(&run, call_id).await?;
        let receipt = released.receipt().clone();
        let pieces = convert::pieces(released, *offset).map_err(|problem| self.refuse(problem))?;
        Ok(stamped(pieces, &receipt))
    }

    async fn seal_run(
        &self,
        request: Request<pb::SealRunRequest>,
    ) -> Result<Response<pb::SealRunResponse>, Status> {
        let run = self.run(&request)?;
        let sealed = Box::pin(self.road()?.seal_run(&run)).await;
        let sealed = sealed.map_err(status_of)?;
        let receipt = Some(convert::receipt(&sealed.receipt));
        let run_id = run.id().to_string();
        let response = pb::SealRunResponse { run_id, entries: sealed.entries, receipt };
        Ok(stamped(response, &sealed.receipt))
    }

    async fn challenge_posture(
        &self,
        request: Request<pb::ChallengePostureRequest>,
    ) -> Result<Response<pb::ChallengePostureResponse>, Status> {
        let caller = self.caller(&request)?;
        let challenge =
            self.road()?.challenge_posture(&caller).await.map_err(|f| self.refuse(f))?;
        Ok(Response::new(convert::challenge(challenge)))
    }

    async fn report_posture(
        &self,
        request: Request<pb::ReportPostureRequest>,
    ) -> Result<Response<pb::ReportPostureResponse>, Status> {
        let caller = self.caller(&request)?;
        let report = convert::posture(request.into_inner()).map_err(|p| self.refuse(p))?;
        let observing = self.road()?.observe_posture(&caller, report);
        let observed = Box::pin(observing).await.map_err(|fault| self.refuse(fault))?;
        let receipt = observed.receipt.clone();
        Ok(stamped(convert::observed(observed), &receipt))
    }
}

/// How long a caller may wait while its call is held: it occupies a connection and a stream.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

fn patience(wait_ms: u32) -> Duration {
    Duration::from_millis(wait_ms.into()).min(PATIENCE_MAX)
}

/// An error of the road as a gRPC status.
fn status_of(fault: Fault) -> Status {
    Problem::from(fault).status()
}

fn stamped<T>(message: T, receipt: &crate::ledger::permit::Receipt) -> Response<T> {
    let mut response = Response::new(message);
    problem::stamp(response.metadata_mut(), receipt);
    response
}

/// The peer, as the listener saw it.
fn peer<T>(request: &Request<T>) -> Result<&Peer, Box<Problem>> {
    request.extensions().get::<Peer>().ok_or_else(|| {
        Box::new(Problem::new(Code::IdentityMissing, "peer", "the peer is not known"))
    })
}
