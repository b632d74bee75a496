use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;
use wicketgate::identity::Peer;
use wicketgate::serve::AgentEndpoint;
use wicketgate::serve::agents::{self, AgentSettings};
use wicketgate::serve::grpc::MESSAGE_BYTES_MAX;
use wicketgate::serve::pb::gate_client::GateClient;
use wicketgate::serve::{Error, Readiness, pb};
use wicketgate::telemetry::metrics::Metrics;

use crate::{Seen, faces};

struct Served {
    folder: tempfile::TempDir,
    tcp: std::net::SocketAddr,
    tell: watch::Sender<Readiness>,
    seen: Seen,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), Error>>,
}

async fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let places = vec![
        AgentEndpoint::Socket(folder.path().join("agent.sock")),
        AgentEndpoint::Tcp(([127, 0, 0, 1], 0).into()),
    ];
    let bound = agents::bind(AgentSettings { places, ..AgentSettings::default() }).await.unwrap();
    let tcp = bound.addresses()[0];
    let (faces, tell, seen) = faces();
    let metrics = Arc::clone(&faces.metrics);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(bound.serve(faces, shutdown.clone()));
    Served { folder, tcp, tell, seen, metrics, shutdown, task }
}

impl Served {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    async fn by_socket(&self) -> Channel {
        let path = self.socket();
        let connect = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        Endpoint::from_static("http://gate").connect_with_connector(connect).await.unwrap()
    }

    async fn by_tcp(&self) -> Channel {
        Endpoint::new(format!("http://{}", self.tcp)).unwrap().connect().await.unwrap()
    }
}

fn told(status: &Status) -> (Code, String, String) {
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("{status:?}"));
    let detail = info.metadata.get("detail").cloned().unwrap_or_default();
    (status.code(), info.reason, detail)
}

fn is(code: Code, reason: &str, detail: &str) -> (Code, String, String) {
    (code, reason.to_owned(), detail.to_owned())
}

fn with<T>(message: T, header: &'static str, value: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().append(header, value.parse().unwrap());
    request
}

#[tokio::test]
async fn the_listener_says_who_the_peer_is_and_the_caller_cannot() {
    let served = serve().await;
    let mut unix = GateClient::new(served.by_socket().await);
    let request = with(pb::OpenRunRequest::default(), "x-forwarded-user", "root");
    let refused = unix.open_run(request).await.unwrap_err();
    assert_eq!(told(&refused), is(Code::Unauthenticated, "identity.missing", ""));
    assert_eq!(refused.message(), "nothing");
    let mut tcp = GateClient::new(served.by_tcp().await);
    let request = with(pb::OpenRunRequest::default(), "authorization", "bearer key");
    let refused = tcp.open_run(request).await.unwrap_err();
    assert_eq!(refused.message(), "key");
    let uid = Some(rustix::process::getuid().as_raw());
    let socket = Some(served.socket());
    let unix = Peer { listener: "uds", uid, socket, certificate: None };
    let peers = [unix, Peer { listener: "tcp", ..Peer::default() }];
    assert_eq!(*served.seen.lock(), peers);
    let counted = served.metrics.text().unwrap();
    assert!(counted.contains(r#"wicketgate_rejected_total{code="identity.missing"} 2"#));
}

#[tokio::test]
async fn silent_peers_keep_no_agent_out_on_either_listener() {
    let served = serve().await;
    let (mut sockets, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        sockets.push(UnixStream::connect(served.socket()).await.unwrap());
        streams.push(tokio::net::TcpStream::connect(served.tcp).await.unwrap());
    }
    for channel in [served.by_socket().await, served.by_tcp().await] {
        let refused = GateClient::new(channel).open_run(pb::OpenRunRequest::default()).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }
    sockets[0].readable().await.unwrap();
    assert!(sockets[0].try_read(&mut [0; 16]).is_ok_and(|read| read == 0), "its place was taken");
}

#[tokio::test]
async fn without_a_run_token_no_method_but_open_run_gets_anywhere() {
    let served = serve().await;
    let mut gate = GateClient::new(served.by_socket().await);
    let missing = is(Code::Unauthenticated, "identity.missing", "credential.missing");
    let refused = [
        gate.list_tools(pb::ListToolsRequest::default()).await.unwrap_err(),
        gate.execute_tool(pb::ExecuteToolRequest::default()).await.unwrap_err(),
        gate.get_call(pb::GetCallRequest::default()).await.unwrap_err(),
        gate.read_result(pb::ReadResultRequest::default()).await.unwrap_err(),
        gate.seal_run(pb::SealRunRequest::default()).await.unwrap_err(),
    ];
    for status in &refused {
        assert_eq!(told(status), missing);
    }
}

#[tokio::test]
async fn before_the_ledger_is_open_the_gate_is_not_ready() {
    let served = serve().await;
    let mut gate = GateClient::new(served.by_socket().await);
    let request = with(pb::ExecuteToolRequest::default(), "authorization", "Bearer wgr_x");
    let refused = gate.execute_tool(request).await.unwrap_err();
    assert_eq!(told(&refused), is(Code::Unavailable, "not_ready", "starting"));
}

#[tokio::test]
async fn a_credential_is_shown_once_and_as_bearer() {
    let served = serve().await;
    let mut gate = GateClient::new(served.by_socket().await);
    let malformed = is(Code::Unauthenticated, "identity.missing", "credential.malformed");
    for value in ["", "Bearer", "Bearer ", "Basic eDp5", "wgr_x"] {
        let request = with(pb::ListToolsRequest::default(), "authorization", value);
        let refused = gate.list_tools(request).await.unwrap_err();
        assert_eq!(told(&refused), malformed, "`{value}`");
    }
    let mut twice = with(pb::ListToolsRequest::default(), "authorization", "Bearer a");
    twice.metadata_mut().append("authorization", "Bearer a".parse().unwrap());
    assert_eq!(told(&gate.list_tools(twice).await.unwrap_err()), malformed);
}

#[tokio::test]
async fn only_a_message_above_four_mebibytes_is_refused_as_malformed() {
    let served = serve().await;
    let mut gate = GateClient::new(served.by_socket().await);
    let asking = |bytes: usize| {
        let arguments = vec![b' '; bytes];
        let message = pb::ExecuteToolRequest { arguments, ..pb::ExecuteToolRequest::default() };
        with(message, "authorization", "Bearer wgr_x")
    };
    // A byte too many for arguments still reaches the reader of arguments, behind the road.
    let reached = gate.execute_tool(asking(1_048_577)).await.unwrap_err();
    assert_eq!(told(&reached).1, "not_ready");
    let refused = gate.execute_tool(asking(MESSAGE_BYTES_MAX + 1)).await.unwrap_err();
    assert_eq!(told(&refused), is(Code::InvalidArgument, "request.malformed", "message.size"));
}

#[tokio::test]
async fn browsers_and_foreign_names_are_turned_away() {
    let served = serve().await;
    let mut gate = GateClient::new(served.by_tcp().await);
    let request = with(pb::OpenRunRequest::default(), "origin", "http://localhost");
    let refused = gate.open_run(request).await.unwrap_err();
    assert_eq!(told(&refused), is(Code::InvalidArgument, "request.malformed", "http.origin"));

    let endpoint = Endpoint::new(format!("http://{}", served.tcp)).unwrap();
    let rebound = endpoint.origin(Uri::from_static("http://evil.example"));
    let mut gate = GateClient::new(rebound.connect().await.unwrap());
    let refused = gate.open_run(pb::OpenRunRequest::default()).await.unwrap_err();
    assert_eq!(told(&refused), is(Code::InvalidArgument, "request.malformed", "http.host"));
    assert!(served.seen.lock().is_empty());
}

#[tokio::test]
async fn health_follows_readiness_and_ends_with_it() {
    let served = serve().await;
    let mut health = HealthClient::new(served.by_socket().await);
    let service = "wicketgate.v1.Gate".to_owned();
    let mut said = health.watch(HealthCheckRequest { service }).await.unwrap().into_inner();
    let mut until = async |status: ServingStatus| {
        while said.next().await.unwrap().unwrap().status() != status {}
    };
    until(ServingStatus::NotServing).await;
    served.tell.send(Readiness { ready: true, ..Readiness::default() }).unwrap();
    until(ServingStatus::Serving).await;
    drop(served.tell);
    until(ServingStatus::NotServing).await;
}

#[tokio::test]
async fn reflection_names_the_gate() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let served = serve().await;
    let mut reflection = ServerReflectionClient::new(served.by_socket().await);
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = reflection.server_reflection_info(tokio_stream::once(ask)).await.unwrap();
    let answer = answers.into_inner().next().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    assert!(list.service.iter().any(|service| service.name == "wicketgate.v1.Gate"));
    let operators = |name: &str| name.ends_with(".Approvals") || name.ends_with(".Control");
    assert!(!list.service.iter().any(|service| operators(&service.name)), "served elsewhere");
}

#[tokio::test]
async fn shutdown_ends_idle_connections_and_removes_the_socket() {
    let served = serve().await;
    let mut gate = GateClient::new(served.by_socket().await);
    gate.open_run(pb::OpenRunRequest::default()).await.unwrap_err();
    served.shutdown.cancel();
    served.task.await.unwrap().unwrap();
    assert!(!served.folder.path().join("agent.sock").exists());
    assert_eq!(
        gate.open_run(pb::OpenRunRequest::default()).await.unwrap_err().code(),
        Code::Unavailable
    );
}

#[tokio::test]
async fn agents_tcp_stays_on_this_machine() {
    let places = vec![AgentEndpoint::Tcp(([0, 0, 0, 0], 0).into())];
    let refused = agents::bind(AgentSettings { places, ..AgentSettings::default() }).await;
    assert!(matches!(refused, Err(Error::NotLoopback(_))));
}
