//! One tool, or one other method, of a server: prepared without contacting it, called only with a
//! permit.

use crate::domain::outcome::{Cgroup, Sandbox};
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderName, HeaderValue};
use async_trait::async_trait;
use serde::Deserialize;

use super::link::McpLink;
use super::pin::Pin;
use super::result;
use super::traffic::{McpRequest, TrafficError};
use super::{Error, McpUpstream};
use crate::catalog::drift::Drift;
use crate::catalog::server::{Mcp, Target, Transport};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::json::Json;
use crate::domain::outcome::{FailureClass, Unmasked};
use crate::judge::prepared::PreparedResource;
use crate::ledger::fuse::Fuse;
use crate::ledger::permit::Permit;
use crate::mcp::http;
use crate::mcp::raw::quoted;
use crate::tool::ToolExecutor;
use crate::tool::shape::lenient;

/// How long before its deadline a call stops waiting for a connection, so that its outcome can
/// still be recorded as "nothing was sent".
const MARGIN: Duration = Duration::from_millis(100);

/// One governed name of a server.
#[derive(Debug)]
pub(crate) struct McpTool {
    upstream: Arc<McpUpstream>,
    mcp: Mcp,
    pin: Option<Arc<Pin>>,
    read_only: bool,
    bytes_max: usize,
}

/// A request that waits for its permit and for a connection.
struct PreparedMcp {
    name: Option<String>,
    params: Vec<(String, Vec<u8>)>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl McpTool {
    /// The tool of this binding. Does not start the server.
    ///
    /// # Errors
    /// The pinned data cannot be read.
    pub fn new(
        upstream: Arc<McpUpstream>,
        mcp: Mcp,
        read_only: bool,
        result_bytes_max: u64,
    ) -> Result<Self, Error> {
        let pin = match &mcp.target {
            Target::Tool(name) => Some(upstream.pin(name, &mcp.pinned)?),
            Target::Method(_) => None,
        };
        let bytes_max = usize::try_from(result_bytes_max).unwrap_or(usize::MAX);
        Ok(Self { upstream, mcp, pin, read_only, bytes_max })
    }

    fn method(&self) -> &'static str {
        match &self.mcp.target {
            Target::Tool(_) => "tools/call",
            Target::Method(method) => method,
        }
    }

    fn ready(&self, call: &ToolCall) -> Result<PreparedMcp, LayerReason> {
        let refuse =
            |detail: &str, message: &str| LayerReason::effect_refused("tool.mcp", detail, message);
        let args = call.args();
        let (name, params) = match &self.mcp.target {
            Target::Tool(tool) => {
                let named = ("name".to_owned(), quoted(tool).into_bytes());
                let arguments = ("arguments".to_owned(), call.canonical().to_vec());
                (Some(tool.clone()), vec![named, arguments])
            }
            Target::Method(method) => {
                let members = args.as_object().into_iter().flatten();
                let params: Vec<_> =
                    members.map(|(name, value)| (name.clone(), canonical::bytes(value))).collect();
                if params.iter().any(|(name, _)| name == "_meta") {
                    return Err(refuse("mcp.meta", "`_meta` is not the agent's to write"));
                }
                (named(method, args), params)
            }
        };
        let invalid = |invalid: http::InvalidHeader| refuse("mcp.header", &invalid.to_string());
        let headers = http::mirror_args(args, &self.mcp.mirrored).map_err(invalid)?;
        Ok(PreparedMcp { name, params, headers })
    }

    /// Sends the call that `prepare` built. Only `execute` calls this, with a permitted call.
    async fn send(
        &self,
        link: &McpLink,
        ready: &PreparedMcp,
        (call, fuse): (&ToolCall, &Fuse),
    ) -> Unmasked {
        let params = ready.params.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let trace = call.traceparent().map(|trace| ("traceparent", quoted(trace).into_bytes()));
        let ask = McpRequest {
            method: self.method(),
            params: params.collect(),
            meta: trace.into_iter().collect(),
            name: ready.name.as_deref().filter(|_| http::name_of(self.method()).is_some()),
            headers: &ready.headers,
            bytes_max: self.bytes_max,
            call: true,
            fuse: fuse.clone(),
        };
        match link.wire.request(&ask).await {
            Ok(answer) => match &answer.outcome {
                Ok(result) => result::outcome(result, &answer.notes, self.bytes_max),
                Err(error) => result::refused(error),
            },
            Err(broken) => self.broken(&broken),
        }
    }

    /// As `send`, for tests of a connection with many calls.
    #[cfg(test)]
    pub(super) async fn sent(&self, link: &McpLink, call: &ToolCall) -> Unmasked {
        let ready = self.ready(call).expect("the call can be prepared");
        self.send(link, &ready, (call, &Fuse::never())).await
    }

    fn broken(&self, broken: &TrafficError) -> Unmasked {
        let message = broken.to_string();
        match broken {
            TrafficError::Late(late) => late.outcome(),
            TrafficError::NotSent(_) => failed(FailureClass::Connect, false, message),
            TrafficError::Lost if self.read_only => failed(FailureClass::ToolError, true, message),
            TrafficError::Lost => Unmasked::Unknown { cause: "connection_lost".into() },
            TrafficError::Status(300..=399) => {
                let message = format!("{message}, which is not followed");
                failed(FailureClass::Protocol, true, message)
            }
            TrafficError::Status(_) => failed(FailureClass::ToolError, true, message),
            TrafficError::Protocol(_) => failed(FailureClass::Protocol, true, message),
            TrafficError::TooLarge(_) => failed(FailureClass::TooLarge, true, message),
        }
    }
}

#[async_trait]
impl ToolExecutor for McpTool {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        if let Some(Drift::Breaking(what)) = self.pin.as_ref().map(|pin| pin.drift()) {
            return Err(vec![LayerReason {
                code: Code::ToolNotGranted,
                detail: "tool.drift".into(),
                message: format!(
                    "tool `{}` is no longer what was signed ({}); it is denied until its lock is \
                     signed again",
                    call.tool(),
                    what.join("; ")
                ),
                rule: "tools.lock".into(),
            }]);
        }
        let ready = self.ready(call).map_err(|reason| vec![reason])?;
        let effect = Effect::Mcp {
            server: self.mcp.server.name.clone(),
            transport: self.mcp.server.transport.as_str().to_owned(),
            method: self.method().to_owned(),
            name: ready.name.clone().unwrap_or_default(),
        };
        Ok((effect, Box::new(ready)))
    }

    fn hosts(&self, _: &Effect) -> Vec<String> {
        match &self.mcp.server.transport {
            Transport::Http(remote) => vec![remote.origin.host.to_string()],
            Transport::Stdio(_) => Vec::new(),
        }
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        let prepared = permit.prepared();
        let Some(ready) = prepared.hold::<PreparedMcp>() else {
            let message = "the call was prepared by another tool".to_owned();
            return failed(FailureClass::Changed, false, message);
        };
        let timeout = prepared.tool().map_or(Duration::ZERO, |tool| tool.timeout);
        let patience = timeout.saturating_sub(MARGIN.min(timeout / 4));
        let waited = tokio::time::timeout(patience, self.upstream.supervisor.ready()).await;
        let link = match waited {
            Ok(Ok(link)) => link,
            Ok(Err(why)) => return failed(FailureClass::Connect, false, why.to_string()),
            Err(_elapsed) => {
                let message = format!("server `{}` does not answer", self.mcp.server.name);
                return failed(FailureClass::Connect, false, message);
            }
        };
        // The tool matched its signature when the call was judged, but may differ on this
        // connection.
        if let Some(Drift::Breaking(_)) = self.pin.as_ref().map(|pin| pin.drift()) {
            let message = "the tool is no longer what was signed".to_owned();
            return failed(FailureClass::Changed, false, message);
        }
        if let Some(level) = self.mcp.server.isolation() {
            let held = self.upstream.supervisor.together();
            permit.observe(|seen| {
                seen.sandbox = Sandbox::parse(level);
                seen.cgroup = held.and_then(Cgroup::parse);
            });
        }
        self.send(&link, ready, (prepared.call(), permit.fuse())).await
    }
}

/// The subject of a completion: a prompt by name, or a resource by URI.
#[derive(Deserialize)]
struct CompletionParams {
    #[serde(rename = "ref")]
    reference: Reference,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default, deserialize_with = "lenient")]
    name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    uri: Option<String>,
}

/// The name of the subject, as a policy reads it.
fn named(method: &str, args: &Json) -> Option<String> {
    if method == "completion/complete" {
        let CompletionParams { reference } = args.read().ok()?;
        return reference.name.or(reference.uri);
    }
    args.get(http::name_of(method)?).and_then(Json::as_str).map(str::to_owned)
}

fn failed(class: FailureClass, started: bool, message: String) -> Unmasked {
    Unmasked::Failed { class, started, message }
}
