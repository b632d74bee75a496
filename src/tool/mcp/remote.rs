//! The streamable HTTP transport: every message its own POST through the one outbound connector.
//!
//! Nothing is followed that a server points at: no redirect, no `resource_metadata`, no other host.
//! What authenticates a request comes from the operator's configuration and from nowhere else.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use super::pipe::cancelled;
use super::traffic::{Answer, Ask, Broken, Notes, Traffic, refusal};
use crate::catalog::binding::{Credential, Place};
use crate::catalog::server;
use crate::ledger::fuse::Fuse;
use crate::mcp::header::encoded;
use crate::mcp::rpc::{Id, Message};
use crate::mcp::sse;
use crate::tool::http::{headers_of, push_pair};
use crate::tool::net::{Client, Refused, Resolve, SendError, is_encoded};

/// Bytes of a body that only says why something failed.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Bytes an answer may have beyond its result: the frame around it.
const FRAME_BYTES: usize = 64 * 1024;
/// Events of one stream.
const EVENTS_MAX: usize = 100_000;
/// Requests of the server that are refused aloud, in one stream.
const REFUSALS_MAX: usize = 16;
/// Bytes of a session's id.
const SESSION_BYTES_MAX: usize = 1024;
/// How long a message may take that nobody waits for.
const ASIDE: Duration = Duration::from_secs(5);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

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
    /// A client of this server. Connects to nothing.
    ///
    /// # Errors
    /// Certificate authorities or secrets that cannot be used.
    pub fn open(
        remote: &server::Remote,
        resolve: Arc<dyn Resolve>,
        traffic: Arc<Traffic>,
        tasks: &TaskTracker,
    ) -> Result<Arc<Self>, String> {
        let client =
            Client::new(&remote.origin, &remote.private_addresses, remote.ca.as_deref(), resolve)?;
        let headers: HeaderMap = remote.headers.iter().cloned().collect();
        headers_of(&remote.credentials)?;
        let mut target = remote.target.clone();
        for credential in &remote.credentials {
            if let Place::Query(name) = &credential.place {
                push_pair(&mut target, name, &credential.secret.expose());
            }
        }
        let uri = format!("{}://{}{target}", remote.origin.scheme(), remote.origin.authority());
        let uri = uri.parse().map_err(|_invalid| "its URL cannot be written".to_owned())?;
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

    fn head(&self, method: Method, accept: &'static str) -> http::Request<Full<Bytes>> {
        let mut request = http::Request::new(Full::new(Bytes::new()));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        // INVARIANT: every value a secret takes is visible ASCII, so it fits a header.
        for (name, value) in headers_of(&self.credentials).unwrap_or_default() {
            headers.append(name, value);
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(version) = self.traffic.version() {
            headers.insert(VERSION, HeaderValue::from_static(version.as_str()));
        }
        if let Some(session) = self.session.lock().clone() {
            headers.insert(SESSION, session);
        }
        request
    }

    fn post(&self, body: Vec<u8>) -> http::Request<Full<Bytes>> {
        let mut request = self.head(Method::POST, "application/json, text/event-stream");
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        *request.body_mut() = Full::new(body.into());
        request
    }

    /// The request with its mirror in the headers, if the version wants one.
    fn mirrored(&self, body: Vec<u8>, ask: &Ask<'_>) -> Result<http::Request<Full<Bytes>>, Broken> {
        let mut request = self.post(body);
        if !self.is_stateless() {
            return Ok(request);
        }
        let unfit = || Broken::NotSent("the arguments fit no header".to_owned());
        let headers = request.headers_mut();
        let method = HeaderValue::from_str(ask.method).map_err(|_| unfit())?;
        headers.insert(HeaderName::from_static("mcp-method"), method);
        if let Some(name) = ask.name {
            let name = HeaderValue::from_str(&encoded(name)).map_err(|_| unfit())?;
            headers.insert(HeaderName::from_static("mcp-name"), name);
        }
        for (name, value) in ask.headers {
            headers.insert(name, value.clone());
        }
        Ok(request)
    }

    fn is_stateless(&self) -> bool {
        self.traffic.version().is_some_and(crate::mcp::Version::is_stateless)
    }

    /// Asks, and waits without end: the caller has a deadline. Dropped, the request is cancelled.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn request(self: &Arc<Self>, ask: &Ask<'_>) -> Result<Answer, Broken> {
        if self.traffic.over.is_cancelled() {
            return Err(Broken::NotSent("the connection to the server is closed".to_owned()));
        }
        let number = self.traffic.number();
        let request = self.mirrored(self.traffic.frame(number, ask), ask)?;
        let mut flight = Flight { remote: Arc::clone(self), number, cancel: ask.call };
        let answer = match self.client.send(request, &ask.fuse).await {
            Ok(response) => self.answer(response, number, ask).await,
            Err(SendError::Framing(why)) => Err(Broken::Protocol(why.to_owned())),
            Err(SendError::Late(late)) => Err(late.into()),
            Err(error) => Err(self.broken(&error, error.is_connect())),
        };
        flight.cancel = false;
        if ask.call && answer.is_ok() {
            self.traffic.mark_answered();
        }
        answer
    }

    /// Says something that wants no answer.
    ///
    /// # Errors
    /// It could not be said.
    pub async fn notify(&self, message: Vec<u8>) -> Result<(), Broken> {
        let sent =
            tokio::time::timeout(ASIDE, self.client.send(self.post(message), &Fuse::never())).await;
        let response = sent
            .map_err(|_elapsed| Broken::Lost)?
            .map_err(|error| self.broken(&error, error.is_connect()))?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(Broken::Status(status.as_u16())) }
    }

    async fn answer(
        self: &Arc<Self>,
        response: http::Response<Incoming>,
        number: u64,
        ask: &Ask<'_>,
    ) -> Result<Answer, Broken> {
        let status = response.status();
        // Whatever they point at is not looked at.
        let deaf = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if deaf || status.is_redirection() || status.is_informational() {
            return Err(Broken::Status(status.as_u16()));
        }
        if status == StatusCode::NOT_FOUND && self.session.lock().is_some() {
            self.traffic.end("the server has forgotten the session");
            return Err(Broken::Status(status.as_u16()));
        }
        if is_encoded(response.headers()) {
            return Err(Broken::Protocol("the server's answer is encoded".to_owned()));
        }
        if status.is_success() && ask.method == "initialize" {
            self.keep_session(response.headers())?;
        }
        let kind = essence(response.headers());
        match (status.is_success(), kind.as_str()) {
            (true, "text/event-stream") => self.streamed(response.into_body(), number, ask).await,
            (true, "application/json") => {
                let body = self.whole(response.into_body(), ask.bytes_max).await?;
                let answer = self.message(&body, number);
                answer.ok_or_else(|| {
                    self.traffic.tally.dropped("unknown_id");
                    Broken::Protocol("the server's answer is no answer to the request".to_owned())
                })
            }
            (false, "application/json") => {
                let body = self.whole(response.into_body(), ERROR_BYTES_MAX).await.ok();
                let answer = body.and_then(|body| self.message(&body, number));
                answer
                    .filter(|answer| answer.outcome.is_err())
                    .ok_or(Broken::Status(status.as_u16()))
            }
            (false, _) => Err(Broken::Status(status.as_u16())),
            (true, _) => {
                let message = "the server's answer is neither JSON nor a stream of events";
                Err(Broken::Protocol(message.to_owned()))
            }
        }
    }

    /// The answer in this text, if it is one to this request. An error may come without an id.
    fn message(&self, text: &[u8], number: u64) -> Option<Answer> {
        let Ok(Message::Response { id, outcome }) = Message::read(text) else { return None };
        let ours = id.as_ref() == Some(&self.traffic.id(number));
        let unread = id.is_none() && outcome.is_err();
        (ours || unread)
            .then(|| Answer { outcome: outcome.map(ToOwned::to_owned), notes: Notes::default() })
    }

    fn keep_session(&self, headers: &HeaderMap) -> Result<(), Broken> {
        let Some(session) = headers.get(SESSION) else { return Ok(()) };
        let visible = session.as_bytes().iter().all(|byte| (0x21..=0x7e).contains(byte));
        if !visible || session.is_empty() || session.len() > SESSION_BYTES_MAX {
            return Err(Broken::Protocol("the server's session id is no id".to_owned()));
        }
        let mut session = session.clone();
        session.set_sensitive(true);
        *self.session.lock() = Some(session);
        Ok(())
    }

    async fn whole(&self, mut body: Incoming, bytes_max: usize) -> Result<Vec<u8>, Broken> {
        let most = bytes_max.saturating_add(FRAME_BYTES);
        let announced = hyper::body::Body::size_hint(&body).lower();
        if announced > u64::try_from(most).unwrap_or(u64::MAX) {
            return Err(Broken::TooLarge(bytes_max));
        }
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(&error, false))?;
            if let Ok(data) = frame.into_data() {
                if bytes.len().saturating_add(data.len()) > most {
                    return Err(Broken::TooLarge(bytes_max));
                }
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes)
    }

    /// Reads messages until `each` has what it wants; `None` if the stream ends before.
    async fn messages<T>(
        &self,
        mut body: Incoming,
        bytes_max: usize,
        mut each: impl FnMut(&str) -> ControlFlow<T>,
    ) -> Result<Option<T>, Broken> {
        let mut reader = sse::Reader::new(bytes_max.saturating_add(FRAME_BYTES));
        let mut seen = 0_usize;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(&error, false))?;
            let Ok(data) = frame.into_data() else { continue };
            let events = reader.push(&data).map_err(|_large| Broken::TooLarge(bytes_max))?;
            for event in events.iter().filter(|event| !event.data.is_empty()) {
                seen = seen.saturating_add(1);
                if let ControlFlow::Break(found) = each(&event.data) {
                    return Ok(Some(found));
                }
            }
            if seen > EVENTS_MAX {
                return Err(Broken::Protocol("the server's stream does not end".to_owned()));
            }
        }
        Ok(None)
    }

    async fn streamed(
        self: &Arc<Self>,
        body: Incoming,
        number: u64,
        ask: &Ask<'_>,
    ) -> Result<Answer, Broken> {
        let mut notes = Notes::default();
        let mut refused = 0_usize;
        let found = self.messages(body, ask.bytes_max, |text| {
            match Message::read(text.as_bytes()) {
                Ok(Message::Response { id, outcome }) => {
                    if id.as_ref() == Some(&self.traffic.id(number)) {
                        let outcome = outcome.map(ToOwned::to_owned);
                        return ControlFlow::Break(Answer { outcome, notes: Notes::default() });
                    }
                    self.traffic.tally.dropped("unknown_id");
                }
                Ok(Message::Notification { method, params }) => {
                    self.notified(&method, params, number, &mut notes, ask.call);
                }
                Ok(Message::Request { id, method, .. }) => self.refuse(&id, &method, &mut refused),
                Err(_malformed) => self.traffic.tally.dropped("malformed"),
            }
            ControlFlow::Continue(())
        });
        match found.await? {
            Some(answer) => Ok(Answer { notes, ..answer }),
            None => {
                self.traffic.mark_stale();
                Err(Broken::Lost)
            }
        }
    }

    fn notified(
        &self,
        method: &str,
        params: Option<&serde_json::value::RawValue>,
        number: u64,
        notes: &mut Notes,
        call: bool,
    ) {
        // A stream belongs to its request, and so do the words in it.
        let kept = match method {
            "notifications/tools/list_changed" => {
                self.traffic.mark_stale();
                true
            }
            "notifications/progress" => {
                call && self.traffic.number_of_token(params) == Some(number)
                    && notes.keep(method, params)
            }
            "notifications/message" => call && notes.keep(method, params),
            _ => false,
        };
        if !kept {
            self.traffic.tally.dropped("notification");
        }
    }

    /// Refuses what the server asks. A stateless server may not ask, so it is not answered.
    fn refuse(self: &Arc<Self>, id: &Id, method: &str, refused: &mut usize) {
        if method != "ping" {
            self.traffic.tally.dropped("request");
        }
        *refused = refused.saturating_add(1);
        if *refused <= REFUSALS_MAX && !self.is_stateless() {
            let (remote, message) = (Arc::clone(self), refusal(id, method));
            self.tasks.spawn(async move { _ = remote.notify(message).await });
        }
    }

    /// Opens the stream on which the server says that its tools changed.
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
                _ended = remote.heard() => {}
            }
            remote.listening.store(false, Ordering::Release);
        });
    }

    async fn heard(self: &Arc<Self>) -> Result<(), Broken> {
        let request = if self.is_stateless() {
            let ask = Ask {
                method: "subscriptions/listen",
                params: vec![("notifications", br#"{"toolsListChanged":true}"#)],
                ..Ask::default()
            };
            self.mirrored(self.traffic.frame(self.traffic.number(), &ask), &ask)?
        } else {
            self.head(Method::GET, "text/event-stream")
        };
        let response =
            self.client.send(request, &Fuse::never()).await.map_err(|_error| Broken::Lost)?;
        if !response.status().is_success() || essence(response.headers()) != "text/event-stream" {
            return Err(Broken::Status(response.status().as_u16()));
        }
        let mut refused = 0_usize;
        let ended = self.messages(response.into_body(), FRAME_BYTES, |text| {
            match Message::read(text.as_bytes()) {
                Ok(Message::Notification { method, .. })
                    if method == "notifications/tools/list_changed" =>
                {
                    self.traffic.mark_stale();
                }
                Ok(Message::Request { id, method, .. }) => self.refuse(&id, &method, &mut refused),
                Ok(Message::Notification { .. } | Message::Response { .. }) | Err(_) => {}
            }
            ControlFlow::<()>::Continue(())
        });
        // What changed while nobody listened is found by looking.
        let ended = ended.await;
        self.traffic.mark_stale();
        ended.map(|_none| ())
    }

    /// Ends it. Orderly, the server is told that the session is over.
    pub async fn close(&self, orderly: bool) {
        self.traffic.end("the gate closed the connection");
        if orderly && self.session.lock().is_some() {
            let request = self.head(Method::DELETE, "application/json");
            let _ = tokio::time::timeout(ASIDE, self.client.send(request, &Fuse::never())).await;
        }
    }

    /// What became of a request whose connection failed.
    fn broken(&self, error: &(dyn std::error::Error + 'static), connecting: bool) -> Broken {
        let sources = || std::iter::successors(Some(error), |error| error.source());
        if connecting {
            let why = sources()
                .find_map(|e| e.downcast_ref::<Refused>())
                .map_or_else(|| "no connection to the server".to_owned(), ToString::to_string);
            self.traffic.end(&why);
            return Broken::NotSent(why);
        }
        let hyper = sources().find_map(|e| e.downcast_ref::<hyper::Error>());
        if hyper.is_some_and(hyper::Error::is_parse_too_large) {
            return Broken::Protocol("the head of the server's answer is too large".to_owned());
        }
        if hyper.is_some_and(hyper::Error::is_parse) {
            return Broken::Protocol("the server's answer is not HTTP".to_owned());
        }
        self.traffic.mark_stale();
        Broken::Lost
    }
}

fn essence(headers: &HeaderMap) -> String {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A request on its way. Dropped before its answer, it is cancelled: closing its stream does that,
/// and servers of versions with sessions are told.
struct Flight {
    remote: Arc<Remote>,
    number: u64,
    cancel: bool,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let runs = tokio::runtime::Handle::try_current().is_ok();
        if self.cancel && runs && !self.remote.is_stateless() {
            let remote = Arc::clone(&self.remote);
            let message = cancelled(&remote.traffic.id(self.number));
            let tasks = remote.tasks.clone();
            tasks.spawn(async move { _ = remote.notify(message).await });
        }
    }
}
