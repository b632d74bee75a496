//! What a request of the face consists of, read once: its body, its query, the id of its call.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::HeaderMap;
use hyper::body::{Body as _, Bytes};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::code::Code;
use crate::domain::id::CallId;
use crate::domain::json::Json;
use crate::serve::agent_api::AgentApi;
use crate::serve::guard::{self, Accepts, IDEMPOTENCY_KEY, LAST_EVENT};
use crate::serve::handover::AnswerSlot;
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::{Breach, Broken};

/// The longest that a caller may wait while its call is held, in milliseconds.
pub(super) const WAIT_MS_MAX: u32 = 60_000;

/// One request whose caller is known.
pub(super) struct HttpExchange {
    pub api: AgentApi,
    /// The places of event streams.
    pub streams: Arc<Semaphore>,
    pub accepts: Accepts,
    /// The parameter of its path; empty if the path has none.
    pub segment: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Body,
    /// Its place among the answers in memory.
    pub slot: AnswerSlot,
}

impl HttpExchange {
    /// Refuses the request for this.
    pub(super) fn refuse(&self, problem: impl Into<Problem>) -> Problem {
        self.api.refuse(problem)
    }

    /// The answer, which keeps the request's place until the client has taken it.
    pub(super) fn kept(self, mut response: Response) -> Response {
        self.slot.keep(&mut response);
        response
    }

    /// Refuses a client that takes no JSON.
    pub(super) fn answers_json(&self) -> Result<(), Problem> {
        match self.accepts.json {
            true => Ok(()),
            false => Err(self.refuse(Broken::Accept.because("the answer is `application/json`"))),
        }
    }

    /// Refuses a query: most routes have none, and a token in one would be logged on its way.
    pub(super) fn without_query(&self) -> Result<(), Problem> {
        match self.query.as_str() {
            "" => Ok(()),
            _ => Err(self.refuse(malformed("http.query", "this route takes no query"))),
        }
    }

    /// The only query of the face: `wait_ms`.
    pub(super) fn wait_ms(&self) -> Result<u32, Problem> {
        if self.query.is_empty() {
            return Ok(0);
        }
        let digits = self.query.strip_prefix("wait_ms=").filter(|digits| is_number(digits));
        let wait = digits.and_then(|digits| digits.parse().ok()).filter(|ms| *ms <= WAIT_MS_MAX);
        let message = "the query is `wait_ms=<milliseconds>`, 60,000 at most";
        wait.ok_or_else(|| self.refuse(malformed("http.query", message)))
    }

    /// The call of the path.
    pub(super) fn call(&self) -> Result<CallId, Problem> {
        let missing = || self.refuse(Problem::of(Code::CallNotFound, ""));
        CallId::parse(&self.segment).ok_or_else(missing)
    }

    /// The place in the run of the newest event that the client has; 0: it has none.
    pub(super) fn last_event(&self) -> Result<u64, Problem> {
        let Some(value) = self.headers.get(LAST_EVENT) else { return Ok(0) };
        let number = value.to_str().ok().filter(|text| is_number(text));
        let message = "`Last-Event-ID` is the `id` of an event of this call";
        let number = number.and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| self.refuse(malformed("http.last_event", message)))
    }

    /// The id that `Idempotency-Key` gives the call, bare or quoted.
    pub(super) fn key(&self) -> Result<Option<String>, Problem> {
        let Some(value) = self.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let id = CallId::parse(bare.unwrap_or(text));
        let message = "`Idempotency-Key` is a call id, [A-Za-z0-9_.-]{1,64}";
        id.map(|id| Some(id.as_str().to_owned()))
            .ok_or_else(|| self.refuse(malformed("call.id", message)))
    }

    /// Reads the body: the strict reader first, then the type on the same bytes.
    pub(super) async fn read<T>(&mut self) -> Result<T, Problem>
    where
        T: for<'a> Deserialize<'a>,
    {
        let bytes = self.bytes().await?;
        typed(&bytes).map_err(|problem| self.refuse(*problem))
    }

    /// As [`Self::read`], for a body that may be left out.
    pub(super) async fn read_if_any<T>(&mut self) -> Result<T, Problem>
    where
        T: for<'a> Deserialize<'a> + Default,
    {
        if self.body.is_end_stream() {
            return Ok(T::default());
        }
        self.read().await
    }

    /// The bytes of the body, read by the strict reader.
    pub(super) async fn bytes(&mut self) -> Result<Bytes, Problem> {
        let body = std::mem::take(&mut self.body);
        let bytes = guard::body(&self.headers, body).await;
        let bytes = bytes.map_err(|breach| self.refuse(breach))?;
        match Json::parse(&bytes, &guard::BODY) {
            Ok(_) => Ok(bytes),
            Err(error) => {
                let breach = Broken::Json.because(error.to_string()).detail(error.code);
                Err(self.refuse(breach))
            }
        }
    }

    /// A place among the streams of events.
    pub(super) fn stream_place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let full = |_taken| self.refuse(Problem::of(Code::Overloaded, "streams"));
        Arc::clone(&self.streams).try_acquire_owned().map_err(full)
    }
}

/// A strict body as a type; the error names the member.
pub(super) fn typed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Box<Problem>> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut reader);
    read.map(|Object(value)| value).map_err(|error| {
        let place = match error.path().to_string() {
            whole if whole == "." => "the body".to_owned(),
            member => format!("`{member}`"),
        };
        let message = format!("{place}: {}", error.inner());
        Box::new(malformed("body.member", &message).into())
    })
}

/// A value that is an object: serde takes an array for a struct too, its members by their place.
#[derive(Clone, Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectReader(PhantomData)).map(Self)
    }
}

struct ObjectReader<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectReader<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

/// A request that says something else than the route takes.
pub(super) fn malformed(detail: &'static str, message: &str) -> Breach {
    Broken::Message.because(message).detail(detail)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::http::wire::{CallBody, NoMembers, PostureBody};

    #[test]
    fn a_body_is_an_object_of_known_members_and_its_arguments_are_its_bytes() {
        let body = r#"{"arguments" : {"b":1.0, "a":[1,1e0] ,"\u0063":"\u00e9"} , "tool":"t"}"#;
        let read = typed::<CallBody>(body.as_bytes()).unwrap();
        assert_eq!(read.arguments.get(), r#"{"b":1.0, "a":[1,1e0] ,"\u0063":"\u00e9"}"#);
        assert!(typed::<NoMembers>(b"{}").is_ok());
        let message = |error: Box<Problem>| error.message;
        let array = typed::<NoMembers>(b"[]").map_err(message);
        assert!(array.unwrap_err().starts_with("the body: invalid type: sequence"));
        let probes = br#"{"nonce":"n","doctor":"d","probes":[["p","t","open","d"]]}"#;
        let probes = typed::<PostureBody>(probes).map_err(message).map(|_| ());
        assert!(probes.as_ref().unwrap_err().starts_with("`probes[0]`: "), "{probes:?}");
        let unknown = typed::<CallBody>(br#"{"tool":"t","arguments":{},"x":1}"#).map_err(message);
        assert!(unknown.unwrap_err().contains("`x`"));
    }
}
