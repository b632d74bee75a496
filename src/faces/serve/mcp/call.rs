//! One call: from an MCP request to the road, and from its result to the agent's response.

use std::pin::Pin;
use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::holds::Holds;
use super::ids::{self, Answering};
use super::list::{ShownTools, governed};
use super::message::McpRequest;
use super::render::{Rendered, Style};
use super::reply::{self, McpResponse, ReplyRefusal};
use super::session::Session;
use super::{mirror, stream};
use crate::clock::random16;
use crate::domain::canonical;
use crate::domain::code::{Code, Reader, held};
use crate::domain::effect::ToolKind;
use crate::domain::id::CallId;
use crate::domain::json::Json;
use crate::domain::tier::Face;
use crate::enforce::{CallRequest, Fault, Road, Run, Thread};
use crate::mcp::rpc::{self, ServerError};
use crate::mcp::{META_CALL_ID, META_JUSTIFICATION};
use crate::serve::problem::exchange::Broken;
use crate::serve::problem::{Problem, receipt_json};

/// Everything about a caller that its call depends on.
pub(super) struct CallerTraits {
    /// How results are rendered.
    pub style: Style,
    /// Which run the call belongs to.
    pub thread: Thread,
    /// The session, for clients that have one.
    pub session: Option<Arc<Session>>,
    /// The client can ask a person something.
    pub elicits: bool,
    /// Names of the capabilities the client declared with the request; a session's are not looked at.
    pub capabilities: Vec<String>,
}

/// What is sent back.
struct ToolReply {
    status: StatusCode,
    notes: Vec<Vec<u8>>,
    message: Vec<u8>,
}

/// Answers a request that goes down the road: at once if it is quick, else as a stream.
pub(super) async fn answer(
    exchange: Exchange,
    traits: CallerTraits,
    ask: McpRequest,
) -> McpResponse {
    let accepts = exchange.accepts;
    let work = async move {
        match called(&exchange, &traits, &ask).await {
            Ok(Rendered { notes, result }) => {
                ToolReply { status: StatusCode::OK, notes, message: rpc::result(&ask.id, &result) }
            }
            Err(refused) => {
                refused.count(&exchange.shared.faces);
                let (status, message) = refused.message(Some(&ask.id), traits.style.modern);
                ToolReply { status, notes: Vec::new(), message }
            }
        }
    };
    let mut work: Pin<Box<dyn Future<Output = ToolReply> + Send>> = Box::pin(work);
    if !accepts.events {
        let outcome = work.await;
        return reply::json(outcome.status, outcome.message);
    }
    tokio::select! {
        biased;
        outcome = &mut work => {
            if outcome.notes.is_empty() && accepts.json {
                return reply::json(outcome.status, outcome.message);
            }
            reply::events(stream::of(&outcome.into_messages()))
        }
        () = tokio::time::sleep(stream::STREAM_AFTER) => {
            let work = async move { work.await.into_messages() };
            reply::events(stream::until_done(Box::pin(work)))
        }
    }
}

impl ToolReply {
    fn into_messages(mut self) -> Vec<Vec<u8>> {
        self.notes.push(self.message);
        self.notes
    }
}

/// The call to make on the road.
struct ToolRequest {
    tool: String,
    /// As received bytes: the road reads exactly what the client sent.
    arguments: Vec<u8>,
    /// The same in canonical form, to compare two calls.
    canonical: Vec<u8>,
    /// A method other than `tools/call`: its result and its errors are the protocol's own.
    method: bool,
    /// The tool is a server's: its result is one of MCP already.
    server: bool,
}

async fn called(
    exchange: &Exchange,
    traits: &CallerTraits,
    ask: &McpRequest,
) -> Result<Rendered, ReplyRefusal> {
    let run = exchange.run(&traits.thread, ask).await?;
    let tool_request = match ask.method.as_str() {
        "tools/call" => tool(exchange, traits, ask, &run)?,
        method => passed_on(exchange, ask, &run, method)?,
    };
    let (run, call, _answering) = named(exchange, traits, ask, run, &tool_request).await?;
    let key = Holds::key(run.id(), &tool_request.tool, &tool_request.canonical);
    let holds = &exchange.shared.holds;
    let request = CallRequest {
        tool: tool_request.tool.clone(),
        arguments: tool_request.arguments.clone(),
        call_id: call.clone(),
        traceparent: ask.meta("traceparent").and_then(Json::as_str).map(str::to_owned),
        justification: ask.meta(META_JUSTIFICATION).and_then(Json::as_str).map(str::to_owned),
        face: Some(Face::Mcp),
    };
    // WHY: only where requests stand alone does a closed response mean that the client no longer
    // wants the call.
    let mut left = CancelOnDrop::new(exchange, &run, &call, traits.style.modern);
    let answer = Box::pin(exchange.road.execute(&run, request)).await;
    left.answered();
    match answer {
        Ok(released) => {
            holds.forget(&key);
            Ok(match (tool_request.method, tool_request.server) {
                (true, _) => traits.style.of_method(&released),
                (false, true) => traits.style.of_server(&released),
                (false, false) => traits.style.of_tool(&released),
            })
        }
        Err(fault) => {
            if fault.code == Code::CallHeld {
                holds.remember(key, &call);
            } else if fault.receipt.is_some() {
                // Without a receipt the outcome of the call is unknown.
                holds.forget(&key);
            }
            refused(traits, &tool_request, ask, &call, fault)
        }
    }
}

/// The run and the call of a request. A session remembers them for as long as it lasts.
async fn named(
    exchange: &Exchange,
    traits: &CallerTraits,
    ask: &McpRequest,
    run: Arc<Run>,
    tool_request: &ToolRequest,
) -> Result<(Arc<Run>, String, Option<Answering>), ReplyRefusal> {
    let refused = |fault: Fault| ReplyRefusal::turned(Problem::from(fault));
    let ids = traits.session.as_ref().map(|session| &session.ids);
    let key = Holds::key(run.id(), &tool_request.tool, &tool_request.canonical);
    let wanted = wanted_id(ask, traits.style.modern)?;
    let known = ids.map(|ids| ids.known(&ask.id, &key.1)).transpose().map_err(refused)?.flatten();
    let call = match (known, wanted) {
        (Some(known), Some(wanted)) if known.call != wanted => {
            return Err(refused(ids::conflict(&ask.id)));
        }
        (Some(known), _) => known.call,
        (None, Some(wanted)) => wanted,
        (None, None) => match exchange.shared.holds.find(&key) {
            Some(held) => held,
            // WHY: the ledger knows calls that this process has forgotten, or never knew.
            None => exchange
                .road
                .held_like(&run, &tool_request.tool, &tool_request.canonical)
                .await?
                .map_or_else(
                    || minted(exchange, &run, tool_request, traits, ask),
                    |held| held.to_string(),
                ),
        },
    };
    let Some(ids) = ids else { return Ok((run, call, None)) };
    let (named, answering) = ids.begin(&ask.id, (&run, &call), key.1).map_err(refused)?;
    Ok((named.run, named.call, Some(answering)))
}

/// `tools/call`.
fn tool(
    exchange: &Exchange,
    traits: &CallerTraits,
    ask: &McpRequest,
    run: &Arc<Run>,
) -> Result<ToolRequest, ReplyRefusal> {
    let name = exchange.view.inward(ask.required("name")?);
    let none = Json::object::<String>([]);
    let args = ask.param("arguments").unwrap_or(&none);
    if args.as_object().is_none() {
        return Err(
            ReplyRefusal::params("`params.arguments` is no object").detail("arguments.type")
        );
    }
    let found = exchange.road.find_tool(run, &name)?;
    let found = found.filter(|tool| exchange.view.outward(&tool.name).is_some());
    if let Some(tool) = found.as_ref().filter(|_| traits.style.modern) {
        mirror::params(&exchange.headers, &tool.input_schema, args)?;
    }
    let server = found.is_some_and(|tool| tool.kind == ToolKind::Mcp.as_str());
    Ok(ToolRequest {
        tool: name,
        arguments: ask.arguments(),
        canonical: canonical::bytes(args),
        method: false,
        server,
    })
}

/// Another method of the one server that this path shows.
fn passed_on(
    exchange: &Exchange,
    ask: &McpRequest,
    run: &Arc<Run>,
    method: &str,
) -> Result<ToolRequest, ReplyRefusal> {
    let shown = ShownTools::new(exchange.road.list_tools(run)?, &exchange.view, run.determined());
    let Some(server) = shown.server() else {
        return Err(ReplyRefusal::method(method).counted(Code::ToolNotGranted));
    };
    let tool = governed(server, method);
    // WHY: a server view names the server whether or not it exists; only a request that concerns
    // the agent's manifest is worth a durable denial.
    if shown.is_empty() && exchange.view.server.is_some() {
        return Err(ReplyRefusal::method(method).counted(Code::ToolNotGranted));
    }
    let mut params = ask.params.clone();
    if let Json::Object(members) = &mut params {
        members.remove("_meta");
    }
    Ok(ToolRequest {
        tool,
        arguments: ask.passed_on(),
        canonical: canonical::bytes(&params),
        method: true,
        server: true,
    })
}

/// The call id that the caller chose.
fn wanted_id(ask: &McpRequest, modern: bool) -> Result<Option<String>, ReplyRefusal> {
    let state = ask.param("requestState").filter(|_| modern);
    let Some(given) = ask.meta(META_CALL_ID).or(state) else { return Ok(None) };
    let id = given.as_str().and_then(CallId::parse).ok_or_else(|| {
        ReplyRefusal::params("a call id is [A-Za-z0-9_.-]{1,64}").detail("call.id")
    })?;
    Ok(Some(id.as_str().to_owned()))
}

/// A call id for a caller that chose none.
fn minted(
    exchange: &Exchange,
    run: &Run,
    tool_request: &ToolRequest,
    traits: &CallerTraits,
    ask: &McpRequest,
) -> String {
    if let Some(seeded) = run.mint(&tool_request.tool, &tool_request.canonical) {
        return format!("m-{}", hex::encode(seeded));
    }
    match &traits.session {
        Some(session) => session.ids.derived(&ask.id),
        None => format!("m-{}", hex::encode(random16(&*exchange.shared.faces.entropy))),
    }
}

/// The agent's response when there is no result.
fn refused(
    traits: &CallerTraits,
    tool_request: &ToolRequest,
    ask: &McpRequest,
    call: &str,
    fault: Fault,
) -> Result<Rendered, ReplyRefusal> {
    if tool_request.method {
        if fault.code != Code::ToolNotGranted {
            let theirs = servers_own(&fault);
            let refused = ReplyRefusal::from(fault);
            return Err(theirs.into_iter().fold(refused, |refused, theirs| {
                refused.with_server_error(theirs.code, theirs.message)
            }));
        }
        let mut refused = ReplyRefusal::method(&ask.method).recorded();
        refused = refused.with("code", fault.code.as_str().into());
        return Err(match &fault.receipt {
            Some(receipt) => refused.with("receipt", receipt_json(receipt)),
            None => refused,
        });
    }
    match fault.code.rule().reader {
        Reader::Program => Err(fault.into()),
        Reader::Model => {
            if let Some(lacking) = lacking(traits, &fault) {
                return Err(lacking);
            }
            let waits = fault.code == Code::CallHeld;
            let problem = Problem::from(fault);
            if waits && traits.elicits && !declined(ask) {
                return Ok(input_required(&problem, call));
            }
            Ok(traits.style.of_problem(&problem))
        }
    }
}

/// A server's own error for a method, read from its outcome (`tool::mcp`). A client that asks for a
/// resource knows the server's own codes, and none of ours.
fn servers_own(fault: &Fault) -> Option<ServerError> {
    ServerError::read(&fault.message).filter(|_| fault.code == Code::ToolFailed)
}

/// The server needs a capability that this client lacks: the error is for the client, since no
/// model can help it. A capability that the client has and this gate does not pass on stays a tool
/// error.
fn lacking(traits: &CallerTraits, fault: &Fault) -> Option<ReplyRefusal> {
    let theirs = servers_own(fault).filter(|_| traits.style.modern)?;
    let (message, needs) = theirs.needs()?;
    if needs.iter().all(|need| traits.capabilities.iter().any(|declared| declared == need)) {
        return None;
    }
    let needs: serde_json::Map<_, _> =
        needs.into_iter().map(|need| (need.to_owned(), json!({}))).collect();
    let refused = ReplyRefusal::broken(Broken::Capability, message)
        .with("code", fault.code.as_str().into())
        .with("requiredCapabilities", Value::Object(needs))
        .recorded();
    Some(match &fault.receipt {
        Some(receipt) => refused.with("receipt", receipt_json(receipt)),
        None => refused,
    })
}

/// The name of the only question that the face asks.
const QUESTION: &str = "wicketgate_wait";

/// What a person answered to [`QUESTION`].
#[derive(Deserialize)]
struct WaitAnswer {
    action: String,
}

#[derive(Deserialize)]
struct InputResponses {
    wicketgate_wait: WaitAnswer,
}

/// Whether the person declined to wait: the model then gets the state of the call.
fn declined(ask: &McpRequest) -> bool {
    let responses = ask.read::<InputResponses>("inputResponses");
    responses.is_some_and(|given| given.wicketgate_wait.action != "accept")
}

/// Asks whether to go on waiting. No answer approves anything: the client repeats the same call.
fn input_required(problem: &Problem, call: &str) -> Rendered {
    let message = held::question(&problem.message);
    let schema = json!({"type": "object", "properties": {"wait": {
        "type": "boolean", "title": "Check again", "description": "approves nothing", "default": true}}});
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    let result = json!({
        "resultType": "input_required",
        "inputRequests": {QUESTION: {"method": "elicitation/create", "params": params}},
        "requestState": call,
        "_meta": Value::Object(problem.tool_meta()),
    });
    Rendered { notes: Vec::new(), result: result.to_string().into_bytes() }
}

/// Cancels the call when no receiver waits for its answer any more.
struct CancelOnDrop {
    road: Arc<Road>,
    run: Arc<Run>,
    call: String,
    closing: tokio_util::sync::CancellationToken,
    waited_for: bool,
}

impl CancelOnDrop {
    fn new(exchange: &Exchange, run: &Arc<Run>, call: &str, armed: bool) -> Self {
        Self {
            road: Arc::clone(&exchange.road),
            run: Arc::clone(run),
            call: call.to_owned(),
            closing: exchange.closing.clone(),
            waited_for: armed,
        }
    }

    fn answered(&mut self) {
        self.waited_for = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // WHY: a gate that stops closes connections by itself; its calls are ended by the drain.
        if self.waited_for && !self.closing.is_cancelled() {
            self.road.cancel(&self.run, &self.call);
        }
    }
}

/// A stream that was refused before it began.
pub(super) fn taken(message: &str) -> ReplyRefusal {
    ReplyRefusal::broken(Broken::StreamTaken, message)
}
