//! The state of a connection over any transport: its ids, requests and responses, and unsolicited
//! messages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Entropy;
use crate::ledger::fuse::{Fuse, Late};
use crate::mcp::raw::{Members, ObjectWriter, array, quoted};
use crate::mcp::rpc::{self, Id};
use crate::mcp::{META_CAPABILITIES, META_CLIENT, META_LEVEL, META_VERSION, Version};
use crate::telemetry::metrics::Metrics;
use crate::tool::net::ConnectError;

/// Notifications kept per call.
const NOTES_MAX: usize = 256;
/// Bytes of these notifications together.
const NOTE_BYTES_MAX: usize = 256 * 1024;

/// One request.
#[derive(Debug, Default)]
pub(super) struct McpRequest<'a> {
    /// Its method.
    pub method: &'a str,
    /// Members of its parameters, raw; the connection writes `_meta`.
    pub params: Vec<(&'a str, &'a [u8])>,
    /// Further members of `_meta`, raw.
    pub meta: Vec<(&'a str, Vec<u8>)>,
    /// The value for the `Mcp-Name` header.
    pub name: Option<&'a str>,
    /// The values for the `Mcp-Param-*` headers.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// Largest size of the result in bytes.
    pub bytes_max: usize,
    /// True for a call: its notifications are kept, and dropping the request cancels it.
    pub call: bool,
    /// The permit of the call; for other requests, one that never ends.
    pub fuse: Fuse,
}

impl McpRequest<'_> {
    /// Subscribes to a stateless server's announcements of tool changes.
    pub fn subscription() -> Self {
        Self {
            method: "subscriptions/listen",
            params: vec![("notifications", br#"{"toolsListChanged":true}"#)],
            ..Self::default()
        }
    }
}

/// The response to a request.
#[derive(Debug)]
pub(super) struct McpReply {
    /// The result unchanged, or the server's error.
    pub outcome: Result<Box<RawValue>, rpc::Error>,
    /// The server's notifications during the call.
    pub notes: Notes,
}

/// Why no response arrived. The texts contain nothing from the gate's or the server's data.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrafficError {
    /// Nothing reached the server.
    #[error(transparent)]
    NotSent(#[from] Obstacle),
    /// The permit of the call had ended; nothing reached the server.
    #[error(transparent)]
    Late(#[from] Late),
    /// The connection ended; whether the call took effect is unknown.
    #[error("the connection to the server was lost")]
    Lost,
    /// The server responded with an HTTP error.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// The response breaks the protocol or a rule of this gate.
    #[error("{0}")]
    Protocol(&'static str),
    /// The response is larger than allowed.
    #[error("the server's answer has more than {0} bytes")]
    TooLarge(usize),
}

/// Why nothing reached the server.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Obstacle {
    /// The server's process has ended.
    #[error("the server is not running")]
    Process,
    /// The connection has ended.
    #[error("the connection to the server is closed")]
    Closed,
    /// The connector made no connection.
    #[error(transparent)]
    Refused(#[from] ConnectError),
    /// No connection was made, for another reason.
    #[error("no connection to the server")]
    NoConnection,
    /// The arguments do not fit the headers in which a server without sessions expects them too.
    #[error("the arguments fit no header")]
    Header,
}

/// Notifications that belong to one call, in order, each an object of `method` and `params`.
#[derive(Debug, Default)]
pub(super) struct Notes {
    kept: Vec<Vec<u8>>,
    bytes: usize,
}

impl Notes {
    /// Keeps a notification if it fits. `progressToken` is the gate's and is removed.
    pub fn keep(&mut self, method: &str, params: Option<&RawValue>) -> bool {
        let mut own = ObjectWriter::default();
        if let Some(params) = params {
            let Ok(members) = Members::of(params) else { return false };
            own = own.copy(members.iter().filter(|(name, _)| *name != "progressToken"));
        }
        let note =
            ObjectWriter::default().text("method", method).member("params", &own.end()).end();
        let bytes = self.bytes.saturating_add(note.len());
        if self.kept.len() >= NOTES_MAX || bytes > NOTE_BYTES_MAX {
            return false;
        }
        self.bytes = bytes;
        self.kept.push(note);
        true
    }

    /// The notifications as a JSON array; `None` if there are none.
    pub fn array(&self) -> Option<Vec<u8>> {
        (!self.kept.is_empty()).then(|| array(&self.kept))
    }
}

/// The state of one connection apart from its transport.
#[derive(Debug)]
pub(super) struct Traffic {
    prefix: String,
    next: AtomicU64,
    version: Mutex<Option<Version>>,
    logs: AtomicBool,
    stale: AtomicBool,
    answered: AtomicU64,
    /// Notified when the tools must be listed again.
    pub changed: Notify,
    /// Cancelled when the connection is over.
    pub over: CancellationToken,
    reason: Mutex<Option<String>>,
    metrics: Arc<OnceLock<Arc<Metrics>>>,
}

impl Traffic {
    pub fn new(entropy: &dyn Entropy, metrics: &Arc<OnceLock<Arc<Metrics>>>) -> Self {
        let mut random = [0_u8; 8];
        entropy.fill(&mut random);
        Self {
            prefix: format!("wg-{}-", hex::encode(random)),
            next: AtomicU64::new(1),
            version: Mutex::new(None),
            logs: AtomicBool::new(false),
            stale: AtomicBool::new(true),
            answered: AtomicU64::new(0),
            changed: Notify::new(),
            over: CancellationToken::new(),
            reason: Mutex::new(None),
            metrics: Arc::clone(metrics),
        }
    }

    /// A number that no other request of this connection has.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The id for this number. Only the server can know it before it is used.
    pub fn id(&self, number: u64) -> Id {
        Id::Text(format!("{}{number}", self.prefix))
    }

    /// The number in one of the gate's ids, whether the gate still waits for it or not.
    pub fn number_of(&self, text: &str) -> Option<u64> {
        let number = text.strip_prefix(&self.prefix)?.parse().ok()?;
        (self.id(number) == Id::Text(text.to_owned()) && number < self.next.load(Ordering::Relaxed))
            .then_some(number)
    }

    /// The number in one of the gate's progress tokens.
    pub fn number_of_token(&self, params: Option<&RawValue>) -> Option<u64> {
        let members = Members::of(params?).ok()?;
        self.number_of(members.text("progressToken")?.strip_prefix("p-")?)
    }

    /// Counts a dropped message, once the metrics are set: `unknown_id`, `repeated_id`,
    /// `malformed`, `request`, `notification`.
    pub fn dropped(&self, why: &'static str) {
        if let Some(metrics) = self.metrics.get() {
            metrics.upstream_dropped(why);
        }
    }

    /// Keeps a notification with the call that `whose` returns, selected by the number in its token
    /// if there is one; otherwise drops and counts it.
    pub fn notified<'n>(
        &self,
        method: &str,
        params: Option<&RawValue>,
        whose: impl FnOnce(Option<u64>) -> Option<&'n mut Notes>,
    ) {
        let notes = match method {
            "notifications/tools/list_changed" => return self.mark_stale(),
            "notifications/progress" => {
                self.number_of_token(params).and_then(|number| whose(Some(number)))
            }
            "notifications/message" => whose(None),
            _ => None,
        };
        if !notes.is_some_and(|notes| notes.keep(method, params)) {
            self.dropped("notification");
        }
    }

    /// The response to a server's request, if it may send any: a stateless server may not.
    pub fn response_to(&self, id: &Id, method: &str) -> Option<Vec<u8>> {
        if method != "ping" {
            self.dropped("request");
        }
        (!self.is_stateless()).then(|| refusal(id, method))
    }

    /// The one request whose id occurs in malformed bytes.
    pub fn blamed(&self, bytes: &[u8]) -> Option<u64> {
        let text = String::from_utf8_lossy(bytes);
        let begin = format!("\"{}", self.prefix);
        let mut found = text.match_indices(&begin).filter_map(|(at, _)| {
            let rest = text.get(at.saturating_add(1)..)?;
            self.number_of(rest.split('"').next()?)
        });
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// The complete message of one request.
    pub fn frame(&self, number: u64, ask: &McpRequest<'_>) -> Vec<u8> {
        let token = ask.call.then(|| quoted(&format!("p-{}{number}", self.prefix)).into_bytes());
        let token = token.map(|token| ("progressToken", token));
        let mut meta: Vec<(&str, Vec<u8>)> = token.into_iter().collect();
        if let Some(version) = self.version().filter(|version| version.is_stateless()) {
            meta.extend(stateless(version));
            if ask.call && self.logs.load(Ordering::Relaxed) {
                meta.push((META_LEVEL, b"\"debug\"".to_vec()));
            }
        }
        let meta =
            meta.iter().chain(&ask.meta).fold(None, |meta: Option<ObjectWriter>, (name, value)| {
                Some(meta.unwrap_or_default().member(name, value))
            });
        let params = ask
            .params
            .iter()
            .fold(ObjectWriter::default(), |params, (name, value)| params.member(name, value));
        let params = match meta {
            Some(meta) => params.member("_meta", &meta.end()),
            None => params,
        };
        rpc::request(&self.id(number), ask.method, &params.end())
    }

    /// The version in use; `None` before the negotiation.
    pub fn version(&self) -> Option<Version> {
        *self.version.lock()
    }

    /// Whether the version in use has no sessions.
    pub fn is_stateless(&self) -> bool {
        self.version().is_some_and(Version::is_stateless)
    }

    /// Sets the version in use.
    pub fn speak(&self, version: Option<Version>) {
        *self.version.lock() = version;
    }

    /// Records that the server can log; a stateless server must be asked for logs in every request.
    pub fn ask_for_logs(&self) {
        self.logs.store(true, Ordering::Relaxed);
    }

    /// Marks the list of tools as outdated: no call may begin before it is read again.
    pub fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Marks the list of tools as current, just before it is read.
    pub fn mark_fresh(&self) {
        self.stale.store(false, Ordering::Release);
    }

    /// Whether the tools must be listed before a call.
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Counts a call that got a response.
    pub fn mark_answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether any call on this connection got a response.
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed) > 0
    }

    /// Ends the connection, for this reason.
    pub fn end(&self, why: &str) {
        self.reason.lock().get_or_insert_with(|| why.to_owned());
        self.over.cancel();
    }

    /// The reason the connection ended.
    pub fn reason(&self) -> String {
        self.reason.lock().clone().unwrap_or_else(|| "the connection ended".to_owned())
    }
}

/// The gate's identity, for a handshake or a stateless request.
pub(super) fn client() -> Vec<u8> {
    ObjectWriter::default()
        .text("name", "wicketgate")
        .text("version", env!("CARGO_PKG_VERSION"))
        .end()
}

fn stateless(version: Version) -> [(&'static str, Vec<u8>); 3] {
    [
        (META_VERSION, quoted(version.as_str()).into_bytes()),
        (META_CLIENT, client()),
        (META_CAPABILITIES, b"{}".to_vec()),
    ]
}

/// The response to a server's request: a ping is answered, every other method is refused.
fn refusal(id: &Id, method: &str) -> Vec<u8> {
    if method == "ping" {
        return rpc::result(id, b"{}");
    }
    rpc::error(Some(id), rpc::METHOD_NOT_FOUND, "this client offers nothing of the kind", None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;

    fn traffic() -> Traffic {
        Traffic::new(&SystemEntropy, &Arc::default())
    }

    #[test]
    fn only_ids_that_were_given_out_are_known() {
        let (traffic, other) = (traffic(), traffic());
        let number = traffic.number();
        let Id::Text(id) = traffic.id(number) else { panic!() };
        assert_eq!(traffic.number_of(&id), Some(number));
        assert_eq!(other.number_of(&id), None, "another connection's");
        for wrong in
            [format!("{id}0"), id.replace("-1", "-01"), id.replace("-1", "-+1"), "1".into()]
        {
            assert_eq!(traffic.number_of(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_laid_to_one_request_or_to_none() {
        let traffic = traffic();
        let ids: Vec<_> =
            [traffic.number(), traffic.number()].map(|n| traffic.id(n).to_json()).into();
        let line = |id: &str| format!("{{\"id\":{id},\"result\":\u{fffd}");
        assert_eq!(traffic.blamed(line(&ids[0]).as_bytes()), Some(1));
        assert_eq!(traffic.blamed(format!("{}{}", ids[0], ids[1]).as_bytes()), None);
        assert_eq!(traffic.blamed(b"\xff\xfe"), None);
    }

    #[test]
    fn notes_are_kept_without_our_token_and_not_without_end() {
        let mut notes = Notes::default();
        assert_eq!(notes.array(), None);
        let params =
            RawValue::from_string(r#"{"progressToken":"x","progress":1.0}"#.into()).unwrap();
        assert!(notes.keep("notifications/progress", Some(&params)));
        let expected = r#"[{"method":"notifications/progress","params":{"progress":1.0}}]"#;
        assert_eq!(notes.array().as_deref(), Some(expected.as_bytes()));
        let kept = (0..1000).filter(|_| notes.keep("n", None)).count();
        assert_eq!(kept, NOTES_MAX - 1);
        let long = RawValue::from_string(format!("{{\"a\":\"{}\"}}", "x".repeat(NOTE_BYTES_MAX)));
        assert!(!Notes::default().keep("n", Some(&long.unwrap())));
    }
}
