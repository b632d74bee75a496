//! The agent: a plain gRPC client on the gate's socket. It knows only the gate's address.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_types::StatusExt as _;

use super::PATIENCE;
use crate::serve::pb::gate_client::GateClient;
use crate::serve::pb::{
    self, ExecuteToolRequest, GetCallRequest, ListToolsRequest, OpenRunRequest, OpenRunResponse,
    SealRunRequest, SealRunResponse, Tool,
};

/// The gate's address as gRPC wants it.
pub fn endpoint(socket: &Path) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()));
    endpoint.map(|endpoint| endpoint.timeout(PATIENCE))
}

/// A connected agent.
pub struct DemoAgent {
    gate: GateClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

/// The gate's answer to one call.
pub enum DemoAnswer {
    /// It ran: the tool's status, its result, and its entry in the ledger.
    Ran { status: String, result: String, entry: u64 },
    /// It did not run, or not well.
    Refused(DemoRefusal),
}

/// A refusal, read from the status and its `google.rpc.ErrorInfo`.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct DemoRefusal {
    /// The dotted code: `policy.denied`.
    pub code: String,
    /// The gRPC status.
    pub grpc: String,
    /// For a person.
    pub message: String,
    /// Which rules spoke: `wicketgate.agent.deny agent/main.rego:9`.
    pub rules: Vec<String>,
    /// When a held call expires.
    pub expires: Option<String>,
}

impl DemoAgent {
    /// Connects through the socket.
    pub async fn connect(socket: &Path) -> Result<Self, tonic::transport::Error> {
        let channel = endpoint(socket)?.connect().await?;
        Ok(Self { gate: GateClient::new(channel), token: None })
    }

    /// Opens the run and keeps its token.
    pub async fn open(&mut self, model: &str, hash: &str) -> Result<OpenRunResponse, DemoRefusal> {
        let claims = OpenRunRequest {
            model: model.to_owned(),
            instructions_sha256: vec![hash.to_owned()],
            ..OpenRunRequest::default()
        };
        let opened = self.gate.open_run(claims).await.map_err(|s| refused(&s))?.into_inner();
        self.token = format!("Bearer {}", opened.run_token).parse().ok();
        Ok(opened)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// The tools that exist for it.
    pub async fn tools(&mut self) -> Result<Vec<Tool>, DemoRefusal> {
        let request = self.request(ListToolsRequest {});
        let listed = self.gate.list_tools(request).await.map_err(|s| refused(&s))?;
        Ok(listed.into_inner().tools)
    }

    /// Asks for one call.
    pub async fn call(&mut self, id: &str, tool: &str, arguments: &Value) -> DemoAnswer {
        let request = self.request(ExecuteToolRequest {
            tool: tool.to_owned(),
            arguments: arguments.to_string().into_bytes(),
            call_id: id.to_owned(),
            wait_ms: 0,
            ..ExecuteToolRequest::default()
        });
        match self.gate.execute_tool(request).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                DemoAnswer::Ran {
                    status: answer.status,
                    result: text(answer.result),
                    entry: answer.receipt.map(|receipt| receipt.seq).unwrap_or_default(),
                }
            }
            Err(status) => DemoAnswer::Refused(refused(&status)),
        }
    }

    /// Asks the gate for a call's outcome; a refusal is an answer here.
    pub async fn recorded(&mut self, id: &str) -> Result<(), DemoRefusal> {
        let request = self.request(GetCallRequest { call_id: id.to_owned(), wait_ms: 0 });
        self.gate.get_call(request).await.map(|_| ()).map_err(|s| refused(&s))
    }

    /// Ends the run.
    pub async fn seal(&mut self) -> Result<SealRunResponse, DemoRefusal> {
        let request = self.request(SealRunRequest {});
        self.gate.seal_run(request).await.map(tonic::Response::into_inner).map_err(|s| refused(&s))
    }
}

fn text(result: Option<pb::Result>) -> String {
    match result.and_then(|result| result.body) {
        Some(pb::result::Body::Inline(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Some(pb::result::Body::Ref(reference)) => format!("{} bytes", reference.size),
        None => String::new(),
    }
}

/// A reason of the policy, as far as the quickstart prints it.
#[derive(Deserialize)]
struct Reason {
    rule: String,
}

fn refused(status: &Status) -> DemoRefusal {
    let info = status.get_details_error_info();
    let fact = |name: &str| info.as_ref().and_then(|info| info.metadata.get(name)).cloned();
    let reasons = fact("reasons").and_then(|text| serde_json::from_str(&text).ok());
    let reasons: Vec<Reason> = reasons.unwrap_or_default();
    DemoRefusal {
        code: info.as_ref().map(|info| info.reason.clone()).unwrap_or_default(),
        grpc: format!("{:?}", status.code()),
        message: status.message().to_owned(),
        rules: reasons.into_iter().map(|reason| reason.rule).collect(),
        expires: fact("expires"),
    }
}
