//! The gate's MCP face as one client sees it: its session, its paths, and the tools the client
//! knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::exchange::{Driven, Fault, GateAddress, messages};
use super::headers::{self, MirroredHeaders, WithMeta};
use super::host::Host;
use crate::mcp::http::{BodyForm, Session, session_id};
use crate::mcp::raw::{Members, ObjectWriter};
use crate::mcp::rpc::{self, Id, Message};

/// Pages of one list of tools, at most.
const PAGES_MAX: usize = 64;

/// The paths of the gate this client uses.
#[derive(Clone, Debug)]
pub struct Paths {
    /// For requests that belong to a session.
    pub session: String,
    /// The path for requests that stand alone; they share a run only by its name.
    pub alone: String,
}

impl Paths {
    /// The paths of this server's view, or of all servers; `run` is the name of a run the user
    /// gave, `own` is a name that no other bridge uses.
    pub fn new(server: Option<&str>, run: Option<&str>, own: &str) -> Self {
        let view = server.map(|name| format!("/s/{name}")).unwrap_or_default();
        let named = |run: &str| format!("/mcp/r/{run}{view}");
        Self {
            session: run.map_or_else(|| format!("/mcp{view}"), named),
            alone: named(run.unwrap_or(own)),
        }
    }
}

/// The state that the handshake left.
#[derive(Clone, Debug, Default)]
struct Handshake {
    session: Session,
    /// The client's own `initialize`, to begin again with a gate that forgot the session.
    initialize: Option<Bytes>,
    initialized: Option<Bytes>,
    /// Counts handshakes.
    turn: u64,
}

/// One client of the face.
#[derive(Debug)]
pub struct Client {
    gate: GateAddress,
    host: Arc<Host>,
    paths: Paths,
    handshake: Mutex<Handshake>,
    renewing: tokio::sync::Mutex<()>,
    tools: Mutex<MirroredHeaders>,
    out: mpsc::Sender<Vec<u8>>,
    /// A call was denied because its tool is not as it was signed.
    drifted: Arc<AtomicBool>,
}

/// One request of the client's.
#[derive(Debug)]
pub struct ClientRequest {
    /// Its id.
    pub id: Id,
    /// Its method.
    pub method: String,
    /// Its whole text.
    pub text: Bytes,
    /// The version in the request, if it stands alone.
    pub alone: Option<String>,
}

impl Client {
    /// A client that writes the gate's messages to `out`.
    pub fn new(
        gate: GateAddress,
        host: Arc<Host>,
        paths: Paths,
        out: mpsc::Sender<Vec<u8>>,
        drifted: Arc<AtomicBool>,
    ) -> Self {
        Self {
            gate,
            host,
            paths,
            handshake: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            tools: Mutex::default(),
            out,
            drifted,
        }
    }

    /// Writes one message to the client. False when the client reads no more.
    pub async fn write_message(&self, message: Vec<u8>) -> bool {
        self.out.send(message).await.is_ok()
    }

    /// Handles the client's handshake.
    pub async fn initialize(&self, request: &ClientRequest) {
        *self.handshake.lock() =
            Handshake { initialize: Some(request.text.clone()), ..Handshake::default() };
        match self.handshake(request.text.clone(), Some(&request.id)).await {
            Ok(true) => {}
            Ok(false) => _ = self.write_message(unanswered(&request.id)).await,
            Err(fault) => _ = self.write_message(refused(&request.id, &fault)).await,
        }
    }

    /// Sends `initialize` and keeps the session; passes the answer on to the client if it waits
    /// under this id.
    async fn handshake(&self, text: Bytes, waiting: Option<&Id>) -> Result<bool, Fault> {
        let headers = headers_of(&Session::default(), &Method::POST);
        let answer = self.send(&self.paths.session, headers, text).await?;
        let id = session_id(answer.headers()).ok().flatten();
        let accepted = answer.status().is_success();
        let mut messages = messages(answer);
        while let Some(message) = messages.next().await? {
            let read = Message::read(&message);
            if let Ok(Message::Response { outcome: Ok(result), .. }) = &read
                && accepted
            {
                let version = Members::of(result).ok();
                let version = version.and_then(|members| members.text("protocolVersion"));
                let version = version.and_then(|version| HeaderValue::try_from(version).ok());
                let mut handshake = self.handshake.lock();
                handshake.session = Session { id: id.clone(), version };
                handshake.turn = handshake.turn.saturating_add(1);
            }
            let is_response = matches!(read, Ok(Message::Response { .. }));
            match (waiting, is_response) {
                (Some(id), true) => _ = self.write_message(addressed(message, id)).await,
                (Some(_), false) => _ = self.write_message(message).await,
                (None, _) => {}
            }
            if is_response {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins the session again with the client's own messages, unless another task has just done
    /// so.
    async fn renew(&self, turn: u64) -> Result<(), Fault> {
        let _one = self.renewing.lock().await;
        let handshake = self.handshake.lock().clone();
        let (Some(initialize), true) = (handshake.initialize, handshake.turn == turn) else {
            return Ok(());
        };
        tracing::info!("the gate no longer knows the session: starting a new one");
        self.handshake(initialize, None).await?;
        if let Some(initialized) = handshake.initialized {
            let (headers, _) = self.session_headers(&Method::POST);
            self.send(&self.paths.session, headers, initialized).await?;
        }
        Ok(())
    }

    fn session_headers(&self, method: &Method) -> (HeaderMap, u64) {
        let handshake = self.handshake.lock();
        (headers_of(&handshake.session, method), handshake.turn)
    }

    /// Sends one message; starts the gate if none answers. It never sends a message twice: it tries
    /// again only when no connection was made.
    async fn send(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Driven>, Fault> {
        match self.gate.send(Method::POST, path, headers.clone(), body.clone()).await {
            Err(Fault::Unreachable { .. }) => {}
            other => return other,
        }
        // WHY boxed: it holds a whole configuration while the gate starts.
        if let Err(why) = Box::pin(self.host.ensure(&self.gate)).await {
            tracing::error!(%why, "the gate");
        }
        self.gate.send(Method::POST, path, headers, body).await
    }

    /// Sends a request of the session that has no message.
    async fn bare(&self, method: Method, headers: HeaderMap) -> Result<Response<Driven>, Fault> {
        // A gate that is not there is not started for this.
        self.gate.send(method, &self.paths.session, headers, Bytes::new()).await
    }

    /// Sends a notification or a response of a session.
    pub async fn notify(&self, method: Option<&str>, text: Bytes) {
        if method == Some("notifications/initialized") {
            self.handshake.lock().initialized = Some(text.clone());
        }
        let (headers, _) = self.session_headers(&Method::POST);
        match self.send(&self.paths.session, headers, text).await {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => {
                tracing::warn!(status = %answer.status(), "the gate refused a notification");
            }
            Err(fault) => tracing::warn!(%fault, "a notification did not reach the gate"),
        }
    }

    /// Whether a handshake gave this client a session.
    pub fn has_session(&self) -> bool {
        self.handshake.lock().session.id.is_some()
    }

    /// Sends a request to the gate, and passes its answer on to the client.
    pub async fn request(&self, request: &ClientRequest) {
        let answer = match &request.alone {
            None => self.ask_in_session(request).await,
            Some(version) => self.ask_alone(request, version).await,
        };
        let relayed = match answer {
            Ok(answer) => self.relay(answer, request).await,
            Err(fault) => Err(fault),
        };
        match relayed {
            Ok(true) => {}
            Ok(false) => _ = self.write_message(unanswered(&request.id)).await,
            Err(fault) => _ = self.write_message(refused(&request.id, &fault)).await,
        }
    }

    async fn ask_in_session(&self, request: &ClientRequest) -> Result<Response<Driven>, Fault> {
        let (headers, turn) = self.session_headers(&Method::POST);
        let had_session = self.has_session();
        let path = &self.paths.session;
        let answer = self.send(path, headers, request.text.clone()).await?;
        if !had_session || answer.status() != StatusCode::NOT_FOUND {
            return Ok(answer);
        }
        // The gate does not know the session, so it did not look at the request.
        self.renew(turn).await?;
        let (headers, _) = self.session_headers(&Method::POST);
        self.send(path, headers, request.text.clone()).await
    }

    async fn ask_alone(
        &self,
        request: &ClientRequest,
        version: &str,
    ) -> Result<Response<Driven>, Fault> {
        let params = match Message::read(&request.text) {
            Ok(Message::Request { params, .. }) => params,
            Ok(_) | Err(_) => None,
        };
        if request.method == "tools/call"
            && let Some(tool) = headers::tool_called(params)
            && !self.tools.lock().contains_key(&tool)
        {
            // Only the list of tools says which parameters go into headers.
            self.learn(version, params).await?;
        }
        let mut headers = headers_alone(version);
        headers::mirror(&request.method, params, &self.tools.lock(), &mut headers);
        self.send(&self.paths.alone, headers, request.text.clone()).await
    }

    /// Reads the whole list of tools, for their mirrored parameters.
    async fn learn(&self, version: &str, params: Option<&RawValue>) -> Result<(), Fault> {
        let params: Option<WithMeta<&RawValue>> =
            params.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let meta = params.map_or("{}", |params| params.meta.get());
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut params = ObjectWriter::default().member("_meta", meta.as_bytes());
            if let Some(cursor) = &cursor {
                params = params.text("cursor", cursor);
            }
            let id = Id::Text("wicketgate-tools".to_owned());
            let text = rpc::request(&id, "tools/list", &params.end());
            let mut headers = headers_alone(version);
            headers::mirror("tools/list", None, &MirroredHeaders::new(), &mut headers);
            let answer = self.send(&self.paths.alone, headers, Bytes::from(text)).await?;
            cursor = None;
            let mut messages = messages(answer);
            while let Some(message) = messages.next().await? {
                let Ok(Message::Response { outcome, .. }) = Message::read(&message) else {
                    continue;
                };
                cursor = outcome.ok().and_then(|list| headers::note(list, &mut self.tools.lock()));
                break;
            }
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Passes on the messages of an answer. True if the response was among them.
    async fn relay(
        &self,
        answer: Response<Driven>,
        request: &ClientRequest,
    ) -> Result<bool, Fault> {
        let status = answer.status();
        let is_stream = BodyForm::of(answer.headers()) == BodyForm::Events;
        let mut messages = messages(answer);
        while let Some(message) = messages.next().await? {
            let read = Message::read(&message);
            let read = read.map(|message| matches!(message, Message::Response { .. }));
            let (message, is_response) = match read {
                Ok(is_response) if is_stream => (message, is_response),
                Ok(true) => (addressed(message, &request.id), true),
                Ok(false) | Err(_) if !is_stream => (foreign(&request.id, status, &message), true),
                Ok(_) | Err(_) => continue,
            };
            self.remember(request, &message);
            self.write_message(message).await;
            if is_response {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn remember(&self, request: &ClientRequest, message: &[u8]) {
        let listed = request.method == "tools/list" && request.alone.is_some();
        if !listed && request.method != "tools/call" {
            return;
        }
        let Ok(Message::Response { outcome: Ok(result), .. }) = Message::read(message) else {
            return;
        };
        if listed {
            headers::note(result, &mut self.tools.lock());
        } else if detail(result).is_some_and(|d| matches!(d.as_str(), "tool.drift" | "changed")) {
            self.drifted.store(true, Ordering::Relaxed);
        }
    }

    /// Passes on the gate's messages outside of answers, until the stream ends. Returns whether to
    /// ask again soon, or later, after a refusal; `None`: never.
    pub async fn listen(&self) -> Option<bool> {
        let (headers, turn) = self.session_headers(&Method::GET);
        let Ok(answer) = self.bare(Method::GET, headers).await else { return Some(true) };
        if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
            return None;
        }
        if answer.status() == StatusCode::NOT_FOUND {
            // A new gate runs in the old one's place: subscribe to its changes, too.
            return Some(self.renew(turn).await.is_ok());
        }
        if !answer.status().is_success() || BodyForm::of(answer.headers()) != BodyForm::Events {
            return Some(false);
        }
        let mut messages = messages(answer);
        while let Ok(Some(message)) = messages.next().await {
            if Message::read(&message).is_ok() && !self.write_message(message).await {
                return None;
            }
        }
        Some(true)
    }

    /// Ends the session.
    pub async fn end(&self) {
        if self.has_session() {
            let (headers, _) = self.session_headers(&Method::DELETE);
            if let Err(fault) = self.bare(Method::DELETE, headers).await {
                tracing::debug!(%fault, "the session could not be ended");
            }
        }
    }
}

/// The detail of a denial.
fn detail(result: &RawValue) -> Option<String> {
    let result: WithMeta<DetailMeta> = serde_json::from_str(result.get()).ok()?;
    Some(result.meta.detail)
}

/// `_meta` of a denial.
#[derive(Deserialize)]
struct DetailMeta {
    #[serde(rename = "wicketgate.dev/detail")]
    detail: String,
}

fn headers_of(session: &Session, method: &Method) -> HeaderMap {
    let mut headers = HeaderMap::new();
    session.put(method, &mut headers);
    headers
}

/// Headers of a request that stands alone.
fn headers_alone(version: &str) -> HeaderMap {
    let version = HeaderValue::try_from(version).ok();
    headers_of(&Session { id: None, version }, &Method::POST)
}

/// A response under the id of its request: an error about unreadable headers may come without one.
fn addressed(message: Vec<u8>, id: &Id) -> Vec<u8> {
    match Message::read(&message) {
        Ok(Message::Response { id: None, outcome: Err(e) }) => {
            rpc::error(Some(id), e.code, &e.message, e.data.as_deref().map(str::as_bytes))
        }
        Ok(_) | Err(_) => message,
    }
}

fn error(id: &Id, message: &str, code: &str) -> Vec<u8> {
    let data = ObjectWriter::default().text("code", code).end();
    rpc::error(Some(id), rpc::INTERNAL_ERROR, message, Some(&data))
}

fn unanswered(id: &Id) -> Vec<u8> {
    error(id, "the gate ended without an answer; do not repeat the call unseen", "call.unknown")
}

fn refused(id: &Id, fault: &Fault) -> Vec<u8> {
    match fault {
        Fault::Unreachable { .. } => error(id, &fault.to_string(), "not_ready"),
        Fault::Broken(_) => error(id, &fault.to_string(), "call.unknown"),
    }
}

/// The error for an answer that is not JSON-RPC: a problem document, or an empty body.
fn foreign(id: &Id, status: StatusCode, body: &[u8]) -> Vec<u8> {
    let problem = Members::parse(body).ok();
    let text = |name: &str| problem.as_ref().and_then(|members| members.text(name));
    let detail = text("detail").or_else(|| text("title")).unwrap_or_default();
    let message = format!("the gate answered {}: {detail}", status.as_u16());
    error(id, message.trim_end_matches(": "), text("code").as_deref().unwrap_or("not_ready"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_a_session_share_a_run_of_their_own() {
        let all = Paths::new(None, None, "stdio-1");
        assert_eq!((all.session.as_str(), all.alone.as_str()), ("/mcp", "/mcp/r/stdio-1"));
        let one = Paths::new(Some("git"), None, "stdio-1");
        let expected = ("/mcp/s/git", "/mcp/r/stdio-1/s/git");
        assert_eq!((one.session.as_str(), one.alone.as_str()), expected);
        let named = Paths::new(Some("git"), Some("nightly"), "stdio-1");
        assert_eq!(named.session, "/mcp/r/nightly/s/git");
        assert_eq!(named.alone, named.session);
    }

    #[test]
    fn what_is_no_response_becomes_an_error_of_the_request() {
        let problem = br#"{"code":"ledger.unavailable","title":"the ledger does not answer"}"#;
        let reply = foreign(&Id::Int(3), StatusCode::SERVICE_UNAVAILABLE, problem);
        let Ok(Message::Response { id: Some(Id::Int(3)), outcome: Err(e) }) = Message::read(&reply)
        else {
            panic!()
        };
        assert_eq!(e.message, "the gate answered 503: the ledger does not answer");
        assert_eq!(e.data.as_deref(), Some(r#"{"code":"ledger.unavailable"}"#));
        let reply = foreign(&Id::Int(3), StatusCode::BAD_GATEWAY, b"<html>");
        assert!(String::from_utf8(reply).unwrap().contains("the gate answered 502\""));
        let bare = rpc::error(None, -32020, "no", None);
        let reply = addressed(bare, &Id::Text("a".into()));
        assert!(String::from_utf8(reply).unwrap().contains(r#""id":"a""#));
    }
}
