//! The gate, from an agent's side: one run with a label.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_types::StatusExt as _;

use crate::domain::code::Code;
use crate::serve::pb::gate_client::GateClient;
use crate::serve::pb::{ExecuteToolRequest, OpenRunRequest, SealRunRequest};

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// An open run of the person who runs the command.
pub(in crate::cli) struct OperatorRun {
    gate: GateClient<Channel>,
    token: MetadataValue<Ascii>,
    /// Its id.
    pub run: String,
    /// Its token.
    pub run_token: String,
}

/// The gate's answer to one call.
pub(in crate::cli) enum GateAnswer {
    /// It ran; the sequence number of its entry.
    Ran(u64),
    /// It waits for an approval.
    Held(CallRefusal),
    /// It did not run, or not well.
    Refused(CallRefusal),
}

/// A refusal, read from the status and its `google.rpc.ErrorInfo`.
#[derive(Debug, thiserror::Error)]
#[error("{}{message}", if code.is_empty() { String::new() } else { format!("{code}: ") })]
pub(in crate::cli) struct CallRefusal {
    code: String,
    /// The finer code: `file.changed`.
    pub detail: String,
    message: String,
}

impl CallRefusal {
    /// Whether the run ended before.
    pub fn is_sealed(&self) -> bool {
        self.code == Code::RunSealed.as_str()
    }

    /// Whether the run claims less than the manifest demands.
    pub fn lacks_claims(&self) -> bool {
        self.code == Code::BindingInsufficient.as_str()
    }
}

/// Why the operator's own run could not be opened.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Error {
    /// No gate answers on the socket.
    #[error("the gate does not answer at `{}`: {source}", socket.display())]
    Unreachable { socket: PathBuf, source: tonic::transport::Error },
    /// The token cannot be sent.
    #[error("the token has characters other than visible ASCII")]
    Token,
    /// The gate refuses the run.
    #[error(transparent)]
    Refused(#[from] CallRefusal),
}

impl OperatorRun {
    /// Opens the run.
    pub async fn open(
        socket: &Path,
        token: Option<&str>,
        (model, instructions): (&str, &[String]),
        (label, value): (&str, &str),
    ) -> Result<Self, Error> {
        let unreachable = |source| Error::Unreachable { socket: socket.to_owned(), source };
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()));
        let endpoint = endpoint.map_err(unreachable)?.timeout(PATIENCE);
        let mut gate = GateClient::new(endpoint.connect().await.map_err(unreachable)?);
        let mut request = Request::new(OpenRunRequest {
            model: model.to_owned(),
            instructions_sha256: instructions.to_vec(),
            labels: [(label.to_owned(), value.to_owned())].into_iter().collect(),
            ..OpenRunRequest::default()
        });
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", bearer(token)?);
        }
        let opened = gate.open_run(request).await.map_err(|status| refusal(&status))?.into_inner();
        let token = bearer(&opened.run_token)?;
        Ok(Self { gate, token, run: opened.run_id, run_token: opened.run_token })
    }

    fn with<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.token.clone());
        request
    }

    /// Asks for one call.
    pub async fn call(&mut self, id: &str, tool: &str, arguments: &Value) -> GateAnswer {
        let request = self.with(ExecuteToolRequest {
            tool: tool.to_owned(),
            arguments: arguments.to_string().into_bytes(),
            call_id: id.to_owned(),
            wait_ms: 0,
            ..ExecuteToolRequest::default()
        });
        match self.gate.execute_tool(request).await {
            Ok(answer) => GateAnswer::Ran(answer.into_inner().receipt.map_or(0, |r| r.seq)),
            Err(status) => match refusal(&status) {
                held if held.code == "call.held" => GateAnswer::Held(held),
                refusal => GateAnswer::Refused(refusal),
            },
        }
    }

    /// Ends the run.
    pub async fn seal(&mut self) -> Result<(), CallRefusal> {
        let request = self.with(SealRunRequest {});
        self.gate.seal_run(request).await.map(|_| ()).map_err(|status| refusal(&status))
    }
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, Error> {
    format!("Bearer {token}").parse().map_err(|_| Error::Token)
}

fn refusal(status: &Status) -> CallRefusal {
    let info = status.get_details_error_info();
    let code = info.as_ref().map(|info| info.reason.clone()).unwrap_or_default();
    let fact = |name: &str| info.as_ref().and_then(|info| info.metadata.get(name)).cloned();
    let detail = fact("detail").unwrap_or_default();
    CallRefusal { code, detail, message: status.message().to_owned() }
}
