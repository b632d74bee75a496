//! Answers of the face as HTTP carries them.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderName, StatusCode};
use hyper::body::Bytes;
use serde_json::{Map, Value};
use tonic::body::Body;

use crate::domain::code::Code;
use crate::enforce::Fault;
use crate::mcp::http::{EVENTS, JSON};
use crate::mcp::rpc::{self, Id};
use crate::serve::Faces;
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::{Breach, Broken};
use crate::serve::problem::mcp::broken_data;

/// What the face answers with.
pub(super) type McpResponse = http::Response<Body>;

/// One JSON text.
pub(super) fn json(status: StatusCode, body: Vec<u8>) -> McpResponse {
    let mut answer = http::Response::new(Body::new(http_body_util::Full::new(Bytes::from(body))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

/// A status without a body.
pub(super) fn bare(status: StatusCode) -> McpResponse {
    let mut answer = http::Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// A stream of events.
pub(super) fn events(body: Body) -> McpResponse {
    let mut answer = http::Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // WHY: a proxy that buffers events would keep them from the client.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    answer
}

/// Something that is answered with an error.
#[derive(Debug)]
pub(super) enum ReplyRefusal {
    /// The exchange is wrong.
    Broken(Box<ExchangeError>),
    /// The road refused it: a JSON-RPC error, with the server's own code and message if it gave
    /// some. The road has counted it.
    Recorded(Box<Problem>, Option<(i64, String)>),
    /// Refused before the gate read the request: a JSON-RPC error all the same, with the HTTP
    /// status of its code.
    Turned(Box<Problem>),
}

/// What is wrong with an exchange.
#[derive(Debug)]
pub(super) struct ExchangeError {
    what: Broken,
    detail: String,
    message: String,
    more: Map<String, Value>,
    /// What it is counted as; `None` if it is recorded already.
    counted: Option<Code>,
}

impl ReplyRefusal {
    /// The exchange is wrong in this way.
    pub(super) fn broken(what: Broken, message: impl Into<String>) -> Self {
        let (message, more) = (message.into(), Map::new());
        let counted = Some(what.code());
        Self::Broken(Box::new(ExchangeError {
            what,
            detail: String::new(),
            message,
            more,
            counted,
        }))
    }

    /// A parameter is missing or of the wrong kind.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::broken(Broken::Params, message)
    }

    /// This server does not know the method.
    pub(super) fn method(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::broken(Broken::Method, format!("no method `{shown}` here"))
    }

    /// The same with a finer code.
    pub(super) fn detail(mut self, detail: &str) -> Self {
        if let Self::Broken(found) = &mut self {
            detail.clone_into(&mut found.detail);
        }
        self
    }

    /// The same with one more member of `data`.
    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        if let Self::Broken(found) = &mut self {
            found.more.insert(name.to_owned(), value);
        }
        self
    }

    /// The same, counted as this.
    pub(super) fn counted(mut self, code: Code) -> Self {
        if let Self::Broken(found) = &mut self {
            found.counted = Some(code);
        }
        self
    }

    /// The same, marked as already recorded by the road.
    pub(super) fn recorded(mut self) -> Self {
        if let Self::Broken(found) = &mut self {
            found.counted = None;
        }
        self
    }

    /// The same with a server's own code and message.
    pub(super) fn with_server_error(self, code: i64, message: String) -> Self {
        match self {
            Self::Recorded(problem, _) => Self::Recorded(problem, Some((code, message))),
            Self::Broken(_) | Self::Turned(_) => self,
        }
    }

    /// Refused before the gate read the request.
    pub(super) fn turned(problem: impl Into<Problem>) -> Self {
        Self::Turned(Box::new(problem.into()))
    }

    /// The JSON-RPC message, and the HTTP status it travels in.
    pub(super) fn message(&self, id: Option<&Id>, modern: bool) -> (StatusCode, Vec<u8>) {
        match self {
            Self::Broken(found) => {
                let rule = found.what.rule();
                let mut data = broken_data(found.what, &found.detail);
                data.extend(found.more.clone());
                let data = Value::Object(data).to_string();
                let status = if modern { rule.http } else { rule.http_in_session };
                let text = rpc::error(id, rule.rpc, &found.message, Some(data.as_bytes()));
                (status, text)
            }
            Self::Recorded(problem, Some((code, message))) => {
                let data = Value::Object(problem.data()).to_string();
                (StatusCode::OK, rpc::error(id, *code, message, Some(data.as_bytes())))
            }
            Self::Recorded(problem, None) | Self::Turned(problem) => {
                let (code, data) = (problem.code.rule().wire.rpc, Value::Object(problem.data()));
                let (code, data) = (i64::from(code), data.to_string());
                (StatusCode::OK, rpc::error(id, code, &problem.message, Some(data.as_bytes())))
            }
        }
    }

    /// Counts an error that the road has not counted.
    pub(super) fn count(&self, faces: &Faces) {
        match self {
            Self::Broken(found) => {
                if let Some(code) = found.counted {
                    faces.reject(code);
                }
            }
            Self::Recorded(..) => {}
            Self::Turned(problem) => faces.reject(problem.code),
        }
    }

    /// The whole answer, counted.
    pub(super) fn answer(self, faces: &Faces, id: Option<&Id>, modern: bool) -> McpResponse {
        self.count(faces);
        let (status, text) = self.message(id, modern);
        if let Self::Turned(problem) = &self {
            return turned(problem, text);
        }
        let mut answer = json(status, text);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            let verbs = if modern { "POST" } else { "POST, GET, DELETE" };
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(verbs));
        }
        answer
    }
}

impl From<Breach> for ReplyRefusal {
    fn from(breach: Breach) -> Self {
        Self::broken(breach.what, breach.message).detail(breach.detail)
    }
}

impl From<Fault> for ReplyRefusal {
    fn from(fault: Fault) -> Self {
        Self::Recorded(Box::new(fault.into()), None)
    }
}

/// A JSON-RPC error with the status and the headers of the problem.
fn turned(problem: &Problem, text: Vec<u8>) -> McpResponse {
    let (mut parts, _) = problem.response().into_parts();
    parts.headers.insert(CONTENT_TYPE, JSON);
    let body = Body::new(http_body_util::Full::new(Bytes::from(text)));
    http::Response::from_parts(parts, body)
}
