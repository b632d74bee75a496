//! An agent: a gRPC client on the socket that keeps every receipt it was given.

use std::path::Path;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};
use tonic_types::StatusExt as _;
use wicketgate_faces::serve::pb;
use wicketgate_faces::serve::pb::gate_client::GateClient;

/// Every receipt that was given out.
#[derive(Clone, Default)]
pub struct Receipts(Arc<Mutex<Vec<String>>>);

impl Receipts {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Takes over another gate's.
    pub fn add(&self, other: &Receipts) {
        self.0.lock().extend(other.lines());
    }

    /// Keeps a receipt as JSON answers have it.
    pub fn note(&self, receipt: &serde_json::Value) {
        self.0.lock().push(
            serde_json::json!({"chain": receipt["chain"], "seq": receipt["seq"], "leaf": receipt["hash"]})
                .to_string(),
        );
    }

    /// Those of several gates.
    pub fn all(of: &[Receipts]) -> Receipts {
        let all = Receipts::default();
        of.iter().for_each(|one| all.add(one));
        all
    }

    fn keep(&self, receipt: Option<&pb::Receipt>) {
        let receipt = receipt.expect("every answer has a receipt");
        self.0.lock().push(
            serde_json::json!({"chain": receipt.chain, "seq": receipt.seq, "leaf": receipt.hash})
                .to_string(),
        );
    }
}

/// One run.
#[derive(Clone)]
pub struct Agent {
    pub gate: GateClient<Channel>,
    pub token: String,
    pub run: String,
    pub receipts: Receipts,
}

/// A refusal, by its stable parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    pub grpc: tonic::Code,
    pub code: String,
    pub detail: String,
    pub message: String,
}

impl Refused {
    #[track_caller]
    pub fn of(status: &Status) -> Self {
        let info = status.get_details_error_info();
        let detail = info.as_ref().and_then(|info| info.metadata.get("detail").cloned());
        Self {
            grpc: status.code(),
            code: info.map(|info| info.reason).unwrap_or_default(),
            detail: detail.unwrap_or_default(),
            message: status.message().to_owned(),
        }
    }
}

/// A channel to the socket; it connects when it is used, again and again.
pub fn channel(socket: &Path) -> Channel {
    let path = socket.to_owned();
    let connect = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    Endpoint::from_static("http://gate").connect_with_connector_lazy(connect)
}

/// What an honest agent of the test's manifest claims.
pub fn claims() -> pb::OpenRunRequest {
    pb::OpenRunRequest {
        model: "test-model".to_owned(),
        instructions_sha256: vec!["ab".repeat(32)],
        ..pb::OpenRunRequest::default()
    }
}

impl Agent {
    /// Opens a run, which must succeed.
    pub async fn open(socket: &Path, receipts: &Receipts) -> Agent {
        Self::try_open(socket, receipts).await.expect("a run is opened")
    }

    /// Opens a run over TCP, known by this token.
    pub async fn known_by(port: u16, token: &str) -> Agent {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
        let gate = GateClient::new(endpoint.connect_lazy());
        let receipts = Receipts::default();
        let mut agent = Agent { gate, token: token.to_owned(), run: String::new(), receipts };
        let request = agent.with(claims());
        let opened = agent.gate.open_run(request).await.unwrap().into_inner();
        (agent.token, agent.run) = (opened.run_token, opened.run_id);
        agent
    }

    pub async fn try_open(socket: &Path, receipts: &Receipts) -> Result<Agent, Status> {
        let mut gate = GateClient::new(channel(socket)).max_encoding_message_size(64 << 20);
        let opened = gate.open_run(claims()).await?.into_inner();
        receipts.keep(opened.receipt.as_ref());
        let receipts = receipts.clone();
        Ok(Agent { gate, token: opened.run_token, run: opened.run_id, receipts })
    }

    fn with<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let token = format!("Bearer {}", self.token).parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        request
    }

    /// One call; an answer within 8 seconds, whatever it is, unless the tool waits.
    pub async fn call(&self, tool: &str, id: &str, args: &str) -> Result<String, Refused> {
        self.call_bytes(tool, id, args.as_bytes()).await
    }

    pub async fn call_bytes(&self, tool: &str, id: &str, args: &[u8]) -> Result<String, Refused> {
        let status = self.raw(tool, id, args).await;
        status.map_err(|status| Refused::of(&status))
    }

    pub async fn raw(&self, tool: &str, id: &str, args: &[u8]) -> Result<String, Status> {
        let request = pb::ExecuteToolRequest {
            tool: tool.to_owned(),
            arguments: args.to_vec(),
            call_id: id.to_owned(),
            wait_ms: 0,
            ..pb::ExecuteToolRequest::default()
        };
        let answer = self.gate.clone().execute_tool(self.with(request)).await?.into_inner();
        self.receipts.keep(answer.receipt.as_ref());
        Ok(inline(answer.result))
    }

    /// One call with the agent's reason for it.
    pub async fn justified(&self, tool: &str, id: &str, why: &str) -> Result<String, Refused> {
        let request = pb::ExecuteToolRequest {
            tool: tool.to_owned(),
            arguments: b"{}".to_vec(),
            call_id: id.to_owned(),
            justification: why.to_owned(),
            ..pb::ExecuteToolRequest::default()
        };
        let answer = self.gate.clone().execute_tool(self.with(request)).await;
        let answer = answer.map_err(|status| Refused::of(&status))?.into_inner();
        self.receipts.keep(answer.receipt.as_ref());
        Ok(inline(answer.result))
    }

    pub async fn get(&self, id: &str) -> Result<String, Refused> {
        let request = pb::GetCallRequest { call_id: id.to_owned(), wait_ms: 0 };
        match self.gate.clone().get_call(self.with(request)).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                self.receipts.keep(answer.receipt.as_ref());
                Ok(inline(answer.result))
            }
            Err(status) => Err(Refused::of(&status)),
        }
    }

    /// How a held call ends, if it does so soon enough.
    pub async fn wait(&self, id: &str, wait_ms: u32) -> Result<String, Refused> {
        let request = pb::GetCallRequest { call_id: id.to_owned(), wait_ms };
        match self.gate.clone().get_call(self.with(request)).await {
            Ok(answer) => Ok(inline(answer.into_inner().result)),
            Err(status) => Err(Refused::of(&status)),
        }
    }

    /// A call whose result is too large for its answer: its size and digest.
    pub async fn call_large(&self, tool: &str, id: &str) -> (u64, String) {
        let request = pb::ExecuteToolRequest {
            tool: tool.to_owned(),
            arguments: b"{}".to_vec(),
            call_id: id.to_owned(),
            wait_ms: 0,
            ..pb::ExecuteToolRequest::default()
        };
        let answer = self.gate.clone().execute_tool(self.with(request)).await.unwrap().into_inner();
        self.receipts.keep(answer.receipt.as_ref());
        match answer.result.and_then(|r| r.body) {
            Some(pb::result::Body::Ref(by)) => (by.size, by.sha256),
            other => panic!("an inline result: {other:?}"),
        }
    }

    /// The result of a call, piece by piece.
    pub async fn read(&self, id: &str) -> Result<Vec<u8>, Refused> {
        let request = pb::ReadResultRequest { call_id: id.to_owned(), ..Default::default() };
        let refused = |status| Refused::of(&status);
        let answer = self.gate.clone().read_result(self.with(request)).await.map_err(refused)?;
        let mut pieces = answer.into_inner();
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.message().await.map_err(refused)? {
            bytes.extend_from_slice(&piece.data);
        }
        Ok(bytes)
    }

    pub async fn tools(&self) -> Vec<String> {
        let request = self.with(pb::ListToolsRequest::default());
        let tools = self.gate.clone().list_tools(request).await.unwrap().into_inner().tools;
        tools.into_iter().map(|tool| tool.name).collect()
    }

    pub async fn seal(&self) -> Result<u64, Refused> {
        let request = self.with(pb::SealRunRequest::default());
        match self.gate.clone().seal_run(request).await {
            Ok(sealed) => {
                let sealed = sealed.into_inner();
                self.receipts.keep(sealed.receipt.as_ref());
                Ok(sealed.entries)
            }
            Err(status) => Err(Refused::of(&status)),
        }
    }
}

fn inline(result: Option<pb::Result>) -> String {
    match result.and_then(|r| r.body) {
        Some(pb::result::Body::Inline(bytes)) => String::from_utf8(bytes).unwrap(),
        other => panic!("no inline result: {other:?}"),
    }
}
