//! `wicketgate.v1.Gate` over gRPC: reads a request, calls the road, writes the answer.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use super::agent_api::AgentApi;
use super::convert::{self, Pieces};
use super::guard::traceparent;
use super::pb::gate_server::{Gate as GateService, GateServer, SERVICE_NAME};
use super::problem::{self, Problem};
use super::{Error, Faces, Readiness, pb};
use crate::domain::code::Code;
use crate::domain::tier::Face;
use crate::enforce::{CallRequest, Run};
use crate::identity::{Caller, Peer};

/// Bytes of one request message. Larger than any acceptable arguments, so that the reader of
/// arguments, with its own message, refuses those of one byte too many.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What health speaks of on agents' listeners.
pub(super) const SERVICES: [&str; 2] = ["", SERVICE_NAME];

/// Everything agents' listeners answer.
pub(super) fn routes(faces: &Faces) -> Result<(HealthReporter, Routes), Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = reflected(&[SERVICE_NAME])?;
    let gate = GateServer::new(Gate { api: AgentApi::new(faces.clone()) })
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
    api: AgentApi,
}

impl Gate {
    /// The run of the request's token, if this peer may use it.
    fn run<T>(&self, request: &Request<T>) -> Result<Arc<Run>, Problem> {
        let peer = peer(request).map_err(|problem| self.api.refuse(problem))?;
        self.api.run(peer, request.metadata().as_ref())
    }

    /// The agent that this peer, or the request's credential, is mapped to.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Problem> {
        let peer = peer(request).map_err(|problem| self.api.refuse(problem))?;
        self.api.caller(peer, request.metadata().as_ref())
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
            .map_err(|problem| self.api.refuse(problem))?;
        let opened = self.api.open(Face::Grpc, &caller, opening).await?;
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
        let tools = self.api.road()?.list_tools(&run).map_err(Problem::from)?;
        let tools = tools.into_iter().map(convert::tool).collect();
        Ok(Response::new(pb::ListToolsResponse { tools }))
    }

    async fn execute_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> Result<Response<pb::ExecuteToolResponse>, Status> {
        let run = self.run(&request)?;
        let traceparent = traceparent(request.metadata().as_ref());
        let pb::ExecuteToolRequest { tool, arguments, call_id, wait_ms, justification } =
            request.into_inner();
        let justification = Some(justification);
        let face = Some(Face::Grpc);
        let call = CallRequest { tool, arguments, call_id, traceparent, justification, face };
        let released = self.api.execute(&run, call, wait_ms).await?;
        let receipt = released.receipt().clone();
        Ok(stamped(convert::released(released), &receipt))
    }

    async fn get_call(
        &self,
        request: Request<pb::GetCallRequest>,
    ) -> Result<Response<pb::GetCallResponse>, Status> {
        let run = self.run(&request)?;
        let pb::GetCallRequest { call_id, wait_ms } = request.get_ref();
        let released = self.api.answer(&run, call_id, *wait_ms).await?;
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
        let released = self.api.answer(&run, call_id, 0).await?;
        let receipt = released.receipt().clone();
        let pieces = convert::pieces(released, *offset);
        Ok(stamped(pieces.map_err(|problem| self.api.refuse(problem))?, &receipt))
    }

    async fn seal_run(
        &self,
        request: Request<pb::SealRunRequest>,
    ) -> Result<Response<pb::SealRunResponse>, Status> {
        let run = self.run(&request)?;
        let sealed = self.api.seal(&run).await?;
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
        Ok(Response::new(convert::challenge(self.api.challenge(&caller).await?)))
    }

    async fn report_posture(
        &self,
        request: Request<pb::ReportPostureRequest>,
    ) -> Result<Response<pb::ReportPostureResponse>, Status> {
        let caller = self.caller(&request)?;
        let report = convert::posture(request.into_inner()).map_err(|p| self.api.refuse(p))?;
        let observed = self.api.report(&caller, report).await?;
        let receipt = observed.receipt.clone();
        Ok(stamped(convert::observed(observed), &receipt))
    }
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
