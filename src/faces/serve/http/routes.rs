//! The face as one table: each route once, with its access, its types, its answers and the method
//! that answers it. The router, the document at `/openapi.json` and the list of the whole surface are
//! made of it.

use std::pin::Pin;
use std::sync::Arc;

use axum::response::Response;
use http::Method;
use schemars::{Schema, SchemaGenerator};

use super::request::HttpExchange;
use super::{DOCUMENT, calls, events, results, runs, wire};
use crate::domain::code::Code;
use crate::enforce::Run;
use crate::identity::Caller;
use crate::serve::Access;
use crate::serve::problem::Problem;

/// What a route of the face is.
#[derive(Clone, Debug)]
pub struct HttpRoute {
    /// The method.
    pub method: Method,
    /// The path; a parameter stands in braces.
    pub path: &'static str,
    /// The id of the operation in the document.
    pub id: &'static str,
    /// What the route does, in one sentence.
    pub about: &'static str,
    /// What a request must have.
    pub access: Access,
    /// The query and the headers that it takes.
    pub takes: &'static [RequestParameter],
    /// The schema of its body, and whether the body has to be there.
    pub body: Option<(SchemaOf, bool)>,
    /// Its answers that are no problem.
    pub answers: &'static [HttpAnswer],
    /// The codes of the problems that it answers with, without those of a broken exchange.
    pub codes: &'static [Code],
    pub(super) answerer: Answerer,
}

/// A schema, made when the document is.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a request can carry besides path and body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestParameter {
    /// `wait_ms` in the query.
    WaitMs,
    /// `Idempotency-Key`.
    IdempotencyKey,
    /// `Last-Event-ID`.
    LastEventId,
    /// `Range` and `If-Range`.
    Range,
    /// `If-None-Match`.
    IfNoneMatch,
    /// `traceparent`.
    Traceparent,
}

/// An answer that is no problem.
#[derive(Clone, Copy, Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// What the answer is, in one sentence.
    pub about: &'static str,
    /// Its body.
    pub content: &'static [Content],
    /// Its headers besides those of every answer.
    pub headers: &'static [AnswerHeader],
}

/// The form of a body.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// One JSON text of this schema.
    Json(SchemaOf),
    /// A stream of events.
    Events,
}

/// A header of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerHeader {
    /// Where what the answer is about can be asked for.
    Location,
    /// The place of the entry in the ledger.
    Receipt,
    /// The tag of the body.
    Etag,
    /// Which bytes of the whole the body has.
    ContentRange,
    /// The seed of a deterministic run.
    Seed,
}

type HttpWork = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// What answers a route, and whose requests it takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answerer {
    /// Every client's: the document.
    Document,
    /// An agent's.
    Caller(fn(HttpExchange, Caller) -> HttpWork),
    /// A holder's of a run token.
    Run(fn(HttpExchange, Arc<Run>) -> HttpWork),
}

impl HttpRoute {
    /// Method and path, as documents name a route.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The parameter of the path, if it has one.
    #[must_use]
    pub fn parameter(&self) -> Option<&'static str> {
        let (_, rest) = self.path.split_once('{')?;
        Some(rest.split_once('}')?.0)
    }

    /// The segment of a path of this route that stands for the parameter, as it was sent; empty if
    /// the route has none.
    pub(super) fn segment(&self, path: &str) -> String {
        let mut both = self.path.split('/').zip(path.split('/'));
        let found = both.find(|(own, _)| own.starts_with('{'));
        found.map(|(_, sent)| sent.to_owned()).unwrap_or_default()
    }

    /// Whether agents and not runs are the ones who ask.
    #[must_use]
    pub const fn is_of_agents(&self) -> bool {
        matches!(self.answerer, Answerer::Caller(_))
    }
}

macro_rules! schema {
    ($type:ty) => {
        |schemas| schemas.subschema_for::<$type>()
    };
}

macro_rules! json {
    ($status:literal, $type:ty, $about:literal, $($header:ident)*) => {
        HttpAnswer {
            status: $status,
            about: $about,
            content: &[Content::Json(schema!($type))],
            headers: &[$(AnswerHeader::$header),*],
        }
    };
}

/// Codes of a gate that cannot answer now.
macro_rules! codes {
    (caller: $($code:ident)*) => {
        &[Code::IdentityMissing, Code::NotReady, Code::Overloaded, $(Code::$code,)*]
    };
    (run: $($code:ident)*) => { codes!(caller: RunUnknown $($code)*) };
    // Whatever a call can be answered with, when it is made and later.
    (call: $($code:ident)*) => {
        codes!(run: RequestMalformed BindingInsufficient ToolNotGranted ArgumentsInvalid
            EffectRefused PolicyDenied PolicyError CallHeld LimitExceeded Shutdown
            LedgerUnavailable LedgerUnknown ToolFailed CallUnknown CallResultUnavailable
            CallExpired CallCancelled ManifestMismatch $($code)*)
    };
}

const NOT_MODIFIED: HttpAnswer = HttpAnswer {
    status: 304,
    about: "The client has it.",
    content: &[],
    headers: &[AnswerHeader::Etag],
};

const CALL_MADE: &[HttpAnswer] = &[HttpAnswer {
    status: 200,
    about: "The call ran and its outcome is recorded; or the events of the call.",
    content: &[Content::Json(schema!(wire::CallAnswer)), Content::Events],
    headers: &[AnswerHeader::Receipt],
}];

/// The table.
pub const ROUTES: &[HttpRoute] = &[
    HttpRoute {
        method: Method::POST,
        path: "/gate/v1/runs",
        id: "openRun",
        about: "Opens a run: the gate compares the agent's claims with its signed manifest and returns the run token.",
        access: Access::Identified,
        takes: &[RequestParameter::Traceparent],
        body: Some((schema!(wire::RunRequest), false)),
        answers: &[json!(201, wire::OpenedRunBody, "The run is open.", Location Receipt Seed)],
        codes: codes!(caller: RequestMalformed ManifestMismatch BindingInsufficient RunUnknown RunSealed
            LimitExceeded Shutdown LedgerUnavailable LedgerUnknown),
        answerer: Answerer::Caller(|exchange, caller| Box::pin(runs::open(exchange, caller))),
    },
    HttpRoute {
        method: Method::GET,
        path: "/gate/v1/run",
        id: "getRun",
        about: "Shows the run of the token.",
        access: Access::Identified,
        takes: &[],
        body: None,
        answers: &[json!(200, wire::RunBody, "The run.",)],
        codes: codes!(run:),
        answerer: Answerer::Run(|exchange, run| Box::pin(runs::show(exchange, run))),
    },
    HttpRoute {
        method: Method::POST,
        path: "/gate/v1/run/seal",
        id: "sealRun",
        about: "Ends the run: the gate waits for its calls, cancels held ones and records the seal.",
        access: Access::Identified,
        takes: &[],
        body: Some((schema!(wire::NoMembers), false)),
        answers: &[json!(200, wire::SealedBody, "The run is over.", Receipt)],
        codes: codes!(run: Shutdown LedgerUnavailable LedgerUnknown),
        answerer: Answerer::Run(|exchange, run| Box::pin(runs::seal(exchange, run))),
    },
    HttpRoute {
        method: Method::GET,
        path: "/gate/v1/tools",
        id: "listTools",
        about: "Lists the tools that exist for the agent of the run, sorted by name.",
        access: Access::Identified,
        takes: &[RequestParameter::IfNoneMatch],
        body: None,
        answers: &[json!(200, wire::ToolList, "The tools.", Etag), NOT_MODIFIED],
        codes: codes!(run: RunSealed),
        answerer: Answerer::Run(|exchange, run| Box::pin(runs::tools(exchange, run))),
    },
    HttpRoute {
        method: Method::GET,
        path: "/gate/v1/tools/{name}",
        id: "getTool",
        about: "Shows one tool.",
        access: Access::Identified,
        takes: &[RequestParameter::IfNoneMatch],
        body: None,
        answers: &[json!(200, wire::ToolBody, "The tool.", Etag), NOT_MODIFIED],
        codes: codes!(run: RunSealed ToolNotGranted),
        answerer: Answerer::Run(|exchange, run| Box::pin(runs::tool(exchange, run))),
    },
    HttpRoute {
        method: Method::POST,
        path: "/gate/v1/calls",
        id: "makeCall",
        about: "Makes one call of one tool, with the id of `Idempotency-Key` or `call_id`, else with one that the gate gives it.",
        access: Access::Enforced,
        takes: &[RequestParameter::IdempotencyKey, RequestParameter::Traceparent],
        body: Some((schema!(wire::CallBody), true)),
        answers: CALL_MADE,
        codes: codes!(call: CallConflict RunSealed),
        answerer: Answerer::Run(|exchange, run| Box::pin(calls::make(exchange, run))),
    },
    HttpRoute {
        method: Method::PUT,
        path: "/gate/v1/calls/{call_id}",
        id: "putCall",
        about: "Makes the call of this id: the same id with the same bytes gets the recorded answer, and with other bytes a conflict.",
        access: Access::Enforced,
        takes: &[RequestParameter::IdempotencyKey, RequestParameter::Traceparent],
        body: Some((schema!(wire::CallBody), true)),
        answers: CALL_MADE,
        codes: codes!(call: CallConflict RunSealed),
        answerer: Answerer::Run(|exchange, run| Box::pin(calls::make(exchange, run))),
    },
    HttpRoute {
        method: Method::GET,
        path: "/gate/v1/calls/{call_id}",
        id: "getCall",
        about: "Gives the recorded answer of a call: what its request was answered with, or will be.",
        access: Access::Identified,
        takes: &[RequestParameter::WaitMs],
        body: None,
        answers: &[json!(
            200,
            wire::CallAnswer,
            "The call ran and its outcome is recorded.",
            Receipt
        )],
        codes: codes!(call: CallNotFound),
        answerer: Answerer::Run(|exchange, run| Box::pin(calls::show(exchange, run))),
    },
    HttpRoute {
        method: Method::DELETE,
        path: "/gate/v1/calls/{call_id}",
        id: "cancelCall",
        about: "Asks a call to stop; how it ended is its answer. A call that is over is not changed.",
        access: Access::Identified,
        takes: &[],
        body: None,
        answers: &[json!(202, wire::CancelBody, "The call was asked to stop.", Location)],
        codes: codes!(run: CallNotFound),
        answerer: Answerer::Run(|exchange, run| Box::pin(calls::cancel(exchange, run))),
    },
    HttpRoute {
        method: Method::GET,
        path: "/gate/v1/calls/{call_id}/result",
        id: "readResult",
        about: "Gives the exact bytes of a result, or one range of them.",
        access: Access::Identified,
        takes: &[RequestParameter::Range, RequestParameter::IfNoneMatch],
        body: None,
        answers: &[
            json!(200, serde_json::Value, "The result, as the tool wrote it.", Etag Receipt),
            HttpAnswer {
                status: 206,
                about: "The bytes of the range.",
                content: &[],
                headers: &[AnswerHeader::Etag, AnswerHeader::Receipt, AnswerHeader::ContentRange],
            },
            NOT_MODIFIED,
        ],
        codes: codes!(call: CallNotFound),
        answerer: Answerer::Run(|exchange, run| Box::pin(results::read(exchange, run))),
    },
    HttpRoute {
        method: Method::GET,
        path: "/gate/v1/calls/{call_id}/events",
        id: "followCall",
        about: "Streams what happens to a call: `held`, `authorized`, `progress`, then `completed` or `problem`.",
        access: Access::Identified,
        takes: &[RequestParameter::LastEventId],
        body: None,
        answers: &[
            HttpAnswer {
                status: 200,
                about: "The events. The `id` of each is the place of its entry in the run.",
                content: &[Content::Events],
                headers: &[],
            },
            HttpAnswer {
                status: 204,
                about: "The client has the last event.",
                content: &[],
                headers: &[],
            },
        ],
        codes: codes!(call: CallNotFound),
        answerer: Answerer::Run(|exchange, run| Box::pin(events::of_call(exchange, run))),
    },
    HttpRoute {
        method: Method::POST,
        path: "/gate/v1/posture/challenge",
        id: "challengePosture",
        about: "Begins a test of the agent's isolation: the answer says what must be out of its reach.",
        access: Access::Identified,
        takes: &[],
        body: Some((schema!(wire::NoMembers), false)),
        answers: &[json!(200, wire::ChallengeBody, "What to test.",)],
        codes: codes!(caller: LimitExceeded Shutdown),
        answerer: Answerer::Caller(|exchange, caller| Box::pin(runs::challenge(exchange, caller))),
    },
    HttpRoute {
        method: Method::POST,
        path: "/gate/v1/posture/report",
        id: "reportPosture",
        about: "Records the findings of a test, as a statement of this caller.",
        access: Access::Identified,
        takes: &[],
        body: Some((schema!(wire::PostureBody), true)),
        answers: &[json!(200, wire::PostureAnswer, "What the gate concludes.", Receipt)],
        codes: codes!(caller: RequestMalformed LimitExceeded Shutdown LedgerUnavailable LedgerUnknown),
        answerer: Answerer::Caller(|exchange, caller| Box::pin(runs::report(exchange, caller))),
    },
    HttpRoute {
        method: Method::GET,
        path: DOCUMENT,
        id: "getDocument",
        about: "Gives this document.",
        access: Access::Open,
        takes: &[RequestParameter::IfNoneMatch],
        body: None,
        answers: &[
            json!(200, serde_json::Map<String, serde_json::Value>, "The document.", Etag),
            NOT_MODIFIED,
        ],
        codes: &[],
        answerer: Answerer::Document,
    },
];
