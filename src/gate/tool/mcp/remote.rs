//! The streamable HTTP transport: every message is a POST of its own through the one outbound
//! connector.
//!
//! The gate follows nothing that a server points to: no redirect, no `resource_metadata`, no other
//! host. Credentials come only from the operator's configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use super::Error;
use super::traffic::{McpReply, McpRequest, Notes, Obstacle, Traffic, TrafficError};
use crate::catalog::binding::{Credential, CredentialTarget};
use crate::catalog::server;
use crate::ledger::fuse::Fuse;
use crate::mcp::http::{BodyForm, Messages, Session, Unread, mirror, session_id};
use crate::mcp::rpc::{self, Id, Message};
use crate::tool::net::{Client, ConnectError, Resolve, SendError, is_encoded};
use crate::tool::request::{headers_of, push_pair};

/// Bytes of a body that only explains a failure.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Bytes that a response may have beyond its result: the frame around it.
const FRAME_BYTES: usize = 64 * 1024;
/// Events of one stream.
const EVENTS_MAX: usize = 100_000;
/// Requests of the server that get a refusal as a response, per stream.
const REFUSALS_MAX: usize = 16;
/// How long a notification may take.
const ASIDE: Duration = Duration::from_secs(5);

/// A server behind a URL.
#[derive(Debug)]
pub(super) struct Remote {
    traffic: Arc<Traffic>,
    client: Client,
    uri: http::Uri,
    headers: HeaderMap,
    credentials: Vec<Credential>,
    session: Mutex<Option<HeaderValue>>,
    listening: AtomicBool,
    tasks: TaskTracker,
}

impl Remote {
    /// Builds a client of this server without connecting.
    ///
    /// # Errors
    /// Certificate authorities or secrets cannot be used.
    pub fn open(
        remote: &server::Remote,
        resolve: Arc<dyn Resolve>,
        traffic: Arc<Traffic>,
        tasks: &TaskTracker,
    ) -> Result<Arc<Self>, Error> {
        let client =
            Client::new(&remote.origin, &remote.private_addresses, remote.ca.as_deref(), resolve)?;
        let headers: HeaderMap = remote.headers.iter().cloned().collect();
        headers_of(&remote.credentials)?;
        let mut target = remote.target.clone();
        for credential in &remote.credentials {
            if let CredentialTarget::Query(name) = &credential.place {
                push_pair(&mut target, name, &credential.secret.expose());
            }
        }
        let uri = format!("{}://{}{target}", remote.origin.scheme(), remote.origin.authority());
        let uri = uri.parse().map_err(|_invalid| Error::Url)?;
        Ok(Arc::new(Self {
            traffic,
            client,
            uri,
            headers,
            credentials: remote.credentials.clone(),
            session: Mutex::new(None),
            listening: AtomicBool::new(false),
            tasks: tasks.clone(),
        }))
    }

    fn head(&self, method: Method) -> http::Request<Full<Bytes>> {
        let version = self.traffic.version();
        let version = version.map(|version| HeaderValue::from_static(version.as_str()));
        let session = Session { id: self.session.lock().clone(), version };
        let mut request = http::Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        // INVARIANT: every value of a secret is visible ASCII, so it fits a header.
        for (name, value) in headers_of(&self.credentials).unwrap_or_default() {
            headers.append(name, value);
        }
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        session.put(&method, headers);
        *request.method_mut() = method;
        request
    }

    fn post(&self, body: Vec<u8>) -> http::Request<Full<Bytes>> {
        let mut request = self.head(Method::POST);
        *request.body_mut() = Full::new(body.into());
        request
    }

    /// The request with its parameters mirrored in headers, if the version demands that.
    fn mirrored(
        &self,
        body: Vec<u8>,
        ask: &McpRequest<'_>,
    ) -> Result<http::Request<Full<Bytes>>, TrafficError> {
        let mut request = self.post(body);
        if self.traffic.is_stateless() {
            let invalid = |_| TrafficError::NotSent(Obstacle::Header);
            mirror(ask.method, ask.name, request.headers_mut()).map_err(invalid)?;
            request.headers_mut().extend(ask.headers.iter().cloned());
        }
        Ok(request)
    }

    /// Sends a request and waits without a limit: the caller sets a deadline. Dropping the future
    /// cancels the request.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn request(self: &Arc<Self>, ask: &McpRequest<'_>) -> Result<McpReply, TrafficError> {
        if self.traffic.over.is_cancelled() {
            return Err(TrafficError::NotSent(Obstacle::Closed));
        }
        let number = self.traffic.number();
        let request = self.mirrored(self.traffic.frame(number, ask), ask)?;
        let mut flight = RemoteRequest { remote: Arc::clone(self), number, cancel: ask.call };
        let answer = match self.client.send(request, &ask.fuse).await {
            Ok(response) => self.answer(response, number, ask).await,
            Err(SendError::Framing(why)) => Err(TrafficError::Protocol(why)),
            Err(SendError::Late(late)) => Err(late.into()),
            Err(error) => Err(self.broken(&error, error.is_connect())),
        };
        flight.cancel = false;
        if ask.call && answer.is_ok() {
            self.traffic.mark_answered();
        }
        answer
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// The notification could not be sent.
    pub async fn notify(&self, message: Vec<u8>) -> Result<(), TrafficError> {
        let sent =
            tokio::time::timeout(ASIDE, self.client.send(self.post(message), &Fuse::never())).await;
        let response = sent
            .map_err(|_elapsed| TrafficError::Lost)?
            .map_err(|error| self.broken(&error, error.is_connect()))?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(TrafficError::Status(status.as_u16())) }
    }

    async fn answer(
        self: &Arc<Self>,
        response: http::Response<Incoming>,
        number: u64,
        ask: &McpRequest<'_>,
    ) -> Result<McpReply, TrafficError> {
        let status = response.status();
        // The target that these responses point to is ignored.
        let unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if unauthorized || status.is_redirection() || status.is_informational() {
            return Err(TrafficError::Status(status.as_u16()));
        }
        if status == StatusCode::NOT_FOUND && self.session.lock().is_some() {
            self.traffic.end("the server has forgotten the session");
            return Err(TrafficError::Status(status.as_u16()));
        }
        if is_encoded(response.headers()) {
            return Err(TrafficError::Protocol("the server's answer is encoded"));
        }
        if status.is_success() && ask.method == "initialize" {
            let invalid = |_| TrafficError::Protocol("the server's session id is no id");
            if let Some(id) = session_id(response.headers()).map_err(invalid)? {
                *self.session.lock() = Some(id);
            }
        }
        match (status.is_success(), BodyForm::of(response.headers())) {
            (true, BodyForm::Events) => self.streamed(response, number, ask).await,
            (true, BodyForm::Json) => {
                let answer = self.message(response, number, ask.bytes_max).await?;
                answer.ok_or_else(|| {
                    self.traffic.dropped("unknown_id");
                    TrafficError::Protocol("the server's answer is no answer to the request")
                })
            }
            (false, BodyForm::Json) => {
                let answer = self.message(response, number, ERROR_BYTES_MAX).await.ok().flatten();
                answer
                    .filter(|answer| answer.outcome.is_err())
                    .ok_or(TrafficError::Status(status.as_u16()))
            }
            (false, BodyForm::Events | BodyForm::Other) => {
                Err(TrafficError::Status(status.as_u16()))
            }
            (true, BodyForm::Other) => {
                let message = "the server's answer is neither JSON nor a stream of events";
                Err(TrafficError::Protocol(message))
            }
        }
    }

    /// The response in one message, if it belongs to this request. An error may have no id.
    async fn message(
        &self,
        response: http::Response<Incoming>,
        number: u64,
        bytes_max: usize,
    ) -> Result<Option<McpReply>, TrafficError> {
        let text = self.next(&mut messages(response, bytes_max), bytes_max).await?;
        let read = text.as_deref().map(Message::read);
        let Some(Ok(Message::Response { id, outcome })) = read else { return Ok(None) };
        let ours = id.as_ref() == Some(&self.traffic.id(number));
        let unread = id.is_none() && outcome.is_err();
        let outcome = outcome.map(ToOwned::to_owned);
        Ok((ours || unread).then(|| McpReply { outcome, notes: Notes::default() }))
    }

    async fn next(
        &self,
        messages: &mut Messages<Incoming>,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, TrafficError> {
        messages.next().await.map_err(|unread| match unread {
            Unread::Broken(error) => self.broken(&error, false),
            Unread::TooLarge => TrafficError::TooLarge(bytes_max),
            Unread::Endless => TrafficError::Protocol("the server's stream does not end"),
        })
    }

    async fn streamed(
        self: &Arc<Self>,
        response: http::Response<Incoming>,
        number: u64,
        ask: &McpRequest<'_>,
    ) -> Result<McpReply, TrafficError> {
        let mut notes = Notes::default();
        let mut refused = 0_usize;
        let mut stream = messages(response, ask.bytes_max);
        while let Some(text) = self.next(&mut stream, ask.bytes_max).await? {
            match Message::read(&text) {
                Ok(Message::Response { id, outcome }) => {
                    if id.as_ref() == Some(&self.traffic.id(number)) {
                        return Ok(McpReply { outcome: outcome.map(ToOwned::to_owned), notes });
                    }
                    self.traffic.dropped("unknown_id");
                }
                Ok(Message::Notification { method, params }) => {
                    // A stream belongs to its request, and so do the notifications in it.
                    let ours = |named: Option<u64>| ask.call && named.is_none_or(|n| n == number);
                    let kept = &mut notes;
                    self.traffic.notified(&method, params, |named| ours(named).then_some(kept));
                }
                Ok(Message::Request { id, method, .. }) => self.refuse(&id, &method, &mut refused),
                Err(_malformed) => self.traffic.dropped("malformed"),
            }
        }
        self.traffic.mark_stale();
        Err(TrafficError::Lost)
    }

    /// Refuses a request of the server.
    fn refuse(self: &Arc<Self>, id: &Id, method: &str, refused: &mut usize) {
        *refused = refused.saturating_add(1);
        if let Some(message) =
            self.traffic.response_to(id, method).filter(|_| *refused <= REFUSALS_MAX)
        {
            let remote = Arc::clone(self);
            self.tasks.spawn(async move { _ = remote.notify(message).await });
        }
    }

    /// Opens the stream on which the server announces changes of its tools.
    pub fn listen(self: &Arc<Self>) {
        if self.listening.swap(true, Ordering::AcqRel) {
            return;
        }
        let remote = Arc::clone(self);
        self.tasks.spawn(async move {
            let over = remote.traffic.over.clone();
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                _ended = remote.listen_once() => {}
            }
            remote.listening.store(false, Ordering::Release);
        });
    }

    async fn listen_once(self: &Arc<Self>) -> Result<(), TrafficError> {
        let request = if self.traffic.is_stateless() {
            let ask = McpRequest::subscription();
            self.mirrored(self.traffic.frame(self.traffic.number(), &ask), &ask)?
        } else {
            self.head(Method::GET)
        };
        let response =
            self.client.send(request, &Fuse::never()).await.map_err(|_error| TrafficError::Lost)?;
        if !response.status().is_success() || BodyForm::of(response.headers()) != BodyForm::Events {
            return Err(TrafficError::Status(response.status().as_u16()));
        }
        let ended = self.changes(messages(response, 0)).await;
        // Changes during the gap are found by listing the tools again.
        self.traffic.mark_stale();
        ended
    }

    /// Processes announcements until the stream ends.
    async fn changes(self: &Arc<Self>, mut stream: Messages<Incoming>) -> Result<(), TrafficError> {
        let mut refused = 0_usize;
        while let Some(text) = self.next(&mut stream, 0).await? {
            match Message::read(&text) {
                Ok(Message::Notification { method, .. })
                    if method == "notifications/tools/list_changed" =>
                {
                    self.traffic.mark_stale();
                }
                Ok(Message::Request { id, method, .. }) => self.refuse(&id, &method, &mut refused),
                Ok(Message::Notification { .. } | Message::Response { .. }) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the connection. If `orderly`, the server is notified that the session is over.
    pub async fn close(&self, orderly: bool) {
        self.traffic.end("the gate closed the connection");
        if orderly && self.session.lock().is_some() {
            let request = self.head(Method::DELETE);
            let _ = tokio::time::timeout(ASIDE, self.client.send(request, &Fuse::never())).await;
        }
    }

    /// The error for a request whose connection failed.
    fn broken(&self, error: &(dyn std::error::Error + 'static), connecting: bool) -> TrafficError {
        let sources = || std::iter::successors(Some(error), |error| error.source());
        if connecting {
            let refused = sources().find_map(|e| e.downcast_ref::<ConnectError>()).cloned();
            let why = refused.map_or(Obstacle::NoConnection, Obstacle::Refused);
            self.traffic.end(&why.to_string());
            return TrafficError::NotSent(why);
        }
        let hyper = sources().find_map(|e| e.downcast_ref::<hyper::Error>());
        if hyper.is_some_and(hyper::Error::is_parse_too_large) {
            return TrafficError::Protocol("the head of the server's answer is too large");
        }
        if hyper.is_some_and(hyper::Error::is_parse) {
            return TrafficError::Protocol("the server's answer is not HTTP");
        }
        self.traffic.mark_stale();
        TrafficError::Lost
    }
}

/// The messages of a response whose result has at most so many bytes.
fn messages(response: http::Response<Incoming>, bytes_max: usize) -> Messages<Incoming> {
    Messages::of(response, bytes_max.saturating_add(FRAME_BYTES), EVENTS_MAX)
}

/// A request in progress. Dropping it before the response cancels it: the stream closes, and
/// servers with sessions are notified.
struct RemoteRequest {
    remote: Arc<Remote>,
    number: u64,
    cancel: bool,
}

impl Drop for RemoteRequest {
    fn drop(&mut self) {
        let runs = tokio::runtime::Handle::try_current().is_ok();
        if self.cancel && runs && !self.remote.traffic.is_stateless() {
            let remote = Arc::clone(&self.remote);
            let message = rpc::cancellation(&remote.traffic.id(self.number));
            let tasks = remote.tasks.clone();
            tasks.spawn(async move { _ = remote.notify(message).await });
        }
    }
}
