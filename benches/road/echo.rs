//! The floor of a call: the same messages through the same library, answered at once by another
//! process that does nothing else.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status};
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_server::{Gate, GateServer};
use wicketgate_support::bench::tool;

struct Echo {
    small: Vec<u8>,
    large: Vec<u8>,
}

fn only_the_floor<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("this is only the floor"))
}

#[tonic::async_trait]
impl Gate for Echo {
    type ReadResultStream = tokio_stream::Empty<Result<pb::ReadResultResponse, Status>>;

    async fn execute_tool(
        &self,
        request: Request<pb::ExecuteToolRequest>,
    ) -> Result<Response<pb::ExecuteToolResponse>, Status> {
        let asked = request.into_inner();
        let body = if asked.tool == "large" { &self.large } else { &self.small };
        let body = pb::result::Body::Inline(body.clone());
        Ok(Response::new(pb::ExecuteToolResponse {
            call_id: asked.call_id,
            status: "200".into(),
            result: Some(pb::Result { body: Some(body) }),
            receipt: None,
            outcome_pending: false,
        }))
    }

    async fn read_result(
        &self,
        _: Request<pb::ReadResultRequest>,
    ) -> Result<Response<Self::ReadResultStream>, Status> {
        only_the_floor()
    }

    async fn open_run(
        &self,
        _: Request<pb::OpenRunRequest>,
    ) -> Result<Response<pb::OpenRunResponse>, Status> {
        only_the_floor()
    }

    async fn challenge_posture(
        &self,
        _: Request<pb::ChallengePostureRequest>,
    ) -> Result<Response<pb::ChallengePostureResponse>, Status> {
        only_the_floor()
    }

    async fn report_posture(
        &self,
        _: Request<pb::ReportPostureRequest>,
    ) -> Result<Response<pb::ReportPostureResponse>, Status> {
        only_the_floor()
    }

    async fn list_tools(
        &self,
        _: Request<pb::ListToolsRequest>,
    ) -> Result<Response<pb::ListToolsResponse>, Status> {
        only_the_floor()
    }

    async fn get_call(
        &self,
        _: Request<pb::GetCallRequest>,
    ) -> Result<Response<pb::GetCallResponse>, Status> {
        only_the_floor()
    }

    async fn seal_run(
        &self,
        _: Request<pb::SealRunRequest>,
    ) -> Result<Response<pb::SealRunResponse>, Status> {
        only_the_floor()
    }
}

/// This program as the echo server, until its standard input ends.
pub fn serve(socket: &str, port_file: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let unix = tokio::net::UnixListener::bind(socket).unwrap();
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        std::fs::write(port_file, tcp.local_addr().unwrap().port().to_string()).unwrap();
        let echo = || Echo { small: tool::body(256).into(), large: tool::body(8192).into() };
        let unix = tonic::transport::Server::builder()
            .add_service(GateServer::new(echo()))
            .serve_with_incoming(tokio_stream::wrappers::UnixListenerStream::new(unix));
        let accepted = tokio_stream::wrappers::TcpListenerStream::new(tcp)
            .map(|stream| stream.inspect(|stream| stream.set_nodelay(true).unwrap()));
        let tcp = tonic::transport::Server::builder()
            .add_service(GateServer::new(echo()))
            .serve_with_incoming(accepted);
        tokio::select! {
            _ = unix => {}
            _ = tcp => {}
            _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())) => {}
        }
    });
    runtime.shutdown_background();
}

/// The echo server in a process of its own.
pub struct EchoServer {
    child: Child,
    /// Its Unix socket.
    pub socket: PathBuf,
    /// Its TCP address.
    pub url: String,
}

impl EchoServer {
    /// Starts it and waits until it listens.
    pub async fn start(dir: &Path) -> Self {
        let (socket, port_file) = (dir.join("echo.sock"), dir.join("echo.port"));
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("echo-server")
            .args([&socket, &port_file])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let port = loop {
            match std::fs::read_to_string(&port_file) {
                Ok(port) if !port.is_empty() => break port,
                _ => tokio::time::sleep(std::time::Duration::from_millis(2)).await,
            }
        };
        Self { child, socket, url: format!("http://127.0.0.1:{port}") }
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
