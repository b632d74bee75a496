//! The document of the face (OpenAPI 3.1), made of its table and of the types of its bodies.

use std::collections::BTreeMap;

use http::{HeaderValue, StatusCode};
use hyper::body::Bytes;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::reply;
use super::request::WAIT_MS_MAX;
use super::routes::{AnswerHeader, Content, HttpAnswer, HttpRoute, ROUTES, RequestParameter};
use super::wire::{AuthorizedEvent, CallAnswer, ProgressEvent};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::serve::Access;
use crate::serve::problem::ProblemBody;
use crate::serve::problem::exchange::Broken;

/// The document as it is served.
#[derive(Debug)]
pub(super) struct Document {
    bytes: Bytes,
    etag: HeaderValue,
}

impl Document {
    pub(super) fn new() -> Self {
        let text = document().to_string();
        let etag = reply::etag(&Digest::of(&[text.as_bytes()]).hex());
        Self { bytes: Bytes::from(text), etag }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    pub(super) const fn etag(&self) -> &HeaderValue {
        &self.etag
    }
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.as_str().to_lowercase(), operation);
        }
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Wicketgate for agents",
            "summary": "The gate between an agent and its tools, over HTTP and JSON.",
            "description": "Every error is a problem (RFC 9457) with a stable `code`. Open a run with the agent's credential, then send \
                its token as `Authorization: Bearer`. A denial is a problem and never a result.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {"url": "/", "description": "The listener that gave this document."},
            {"url": "http://127.0.0.1:7300", "description": "`listen.tcp` of a gate on this machine."},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas.take(),
            "securitySchemes": {
                "agent": {"type": "http", "scheme": "bearer", "description": "The agent's token. On a Unix socket the kernel identifies the peer, and over mutual TLS the certificate does: then there is none."},
                "run": {"type": "http", "scheme": "bearer", "bearerFormat": "wgr_…", "description": "The run token."},
            },
        },
    })
}

/// The schemas of requests and of answers: a member that may be left out of one is always in the
/// other.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        let answers = settings().for_serialize().into_generator();
        Self { requests: settings().into_generator(), answers }
    }

    fn take(mut self) -> Map<String, Value> {
        let mut all = self.requests.take_definitions(true);
        all.extend(self.answers.take_definitions(true));
        all
    }
}

fn operation(route: &HttpRoute, schemas: &mut Schemas) -> Value {
    let mut parameters: Vec<Value> = route.parameter().map(in_path).into_iter().collect();
    parameters.extend(route.takes.iter().flat_map(|taken| parameter(*taken)));
    let security = match (route.access, route.is_of_agents()) {
        (Access::Open, _) => json!([]),
        (Access::Enforced | Access::Identified | Access::Operated, true) => {
            json!([{"agent": []}, {}])
        }
        (Access::Enforced | Access::Identified | Access::Operated, false) => json!([{"run": []}]),
    };
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.about,
        "x-wicketgate-access": route.access.as_str(),
        "security": security,
        "responses": responses(route, schemas),
    });
    let Some(members) = operation.as_object_mut() else { return operation };
    if !parameters.is_empty() {
        members.insert("parameters".into(), parameters.into());
    }
    if let Some((schema, required)) = route.body {
        let schema = Value::from(schema(&mut schemas.requests));
        let content = json!({"application/json": {"schema": schema}});
        members.insert("requestBody".into(), json!({"required": required, "content": content}));
    }
    operation
}

fn in_path(name: &str) -> Value {
    let (pattern, about) = match name {
        "call_id" => ("^[A-Za-z0-9_.-]{1,64}$", "The call."),
        _ => ("^[A-Za-z0-9_.-]{1,128}$", "The tool."),
    };
    let schema = json!({"type": "string", "pattern": pattern});
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
}

fn parameter(taken: RequestParameter) -> Vec<Value> {
    let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
    let header = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "header", "description": about, "schema": schema});
    match taken {
        RequestParameter::WaitMs => {
            let schema = json!({"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX});
            let about = "If the call is held, how many milliseconds to wait for approvers.";
            vec![json!({"name": "wait_ms", "in": "query", "description": about, "schema": schema})]
        }
        RequestParameter::IdempotencyKey => {
            let about = "The id of the call, bare or quoted. It must be that of path and body, if they have one.";
            vec![header(
                "Idempotency-Key",
                about,
                text("^(\"[A-Za-z0-9_.-]{1,64}\"|[A-Za-z0-9_.-]{1,64})$"),
            )]
        }
        RequestParameter::LastEventId => {
            let about =
                "The `id` of the newest event that the client has; the stream begins after it.";
            vec![header("Last-Event-ID", about, text("^[0-9]{1,19}$"))]
        }
        RequestParameter::Range => {
            let about = "One range of bytes: `bytes=0-1023`. Another form is ignored.";
            let version = "The range counts only if the result has this tag.";
            vec![
                header("Range", about, json!({"type": "string"})),
                header("If-Range", version, json!({"type": "string"})),
            ]
        }
        RequestParameter::IfNoneMatch => {
            let about = "Tags of what the client has.";
            vec![header("If-None-Match", about, json!({"type": "string"}))]
        }
        RequestParameter::Traceparent => {
            let about = "The trace of the request (W3C Trace Context). Another form is ignored.";
            vec![header("traceparent", about, json!({"type": "string"}))]
        }
    }
}

/// Every status of the route: its answers, and its problems with their codes.
fn responses(route: &HttpRoute, schemas: &mut Schemas) -> Value {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for answer in route.answers {
        all.insert(answer.status.to_string(), success(answer, schemas));
    }
    let problem = Value::from(schemas.answers.subschema_for::<ProblemBody<'_>>());
    for (status, codes) in problems(route) {
        let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let one = json!({"allOf": [problem, {"properties": {
            "status": {"const": status.as_u16()}, "code": {"enum": names}}}]});
        let mut response = json!({
            "description": about(status, &names),
            "content": {"application/problem+json": {"schema": one}},
        });
        let headers = problem_headers(status);
        if let (false, Some(members)) = (headers.is_empty(), response.as_object_mut()) {
            members.insert("headers".into(), headers.into());
        }
        all.insert(status.as_str().to_owned(), response);
    }
    Value::Object(all.into_iter().collect())
}

fn about(status: StatusCode, names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{}: {}.", status.canonical_reason().unwrap_or_default(), quoted.join(", "))
}

/// The statuses of a route's problems, each with the codes that have it there.
#[must_use]
pub fn problems(route: &HttpRoute) -> BTreeMap<StatusCode, Vec<Code>> {
    let mut broken = vec![Broken::Ambiguous, Broken::Origin, Broken::Host, Broken::Headers];
    if route.access != Access::Open {
        broken.push(Broken::Accept);
    }
    if route.body.is_some() {
        broken.extend([Broken::MediaType, Broken::TooLarge, Broken::Late, Broken::Json]);
    }
    if route.takes.contains(&RequestParameter::Range) {
        broken.push(Broken::Range);
    }
    let own = route
        .codes
        .iter()
        .filter_map(|code| Some((StatusCode::from_u16(code.rule().wire.http).ok()?, *code)));
    let broken = broken.into_iter().map(|what| (what.rule().http, what.code()));
    let mut all: BTreeMap<StatusCode, Vec<Code>> = BTreeMap::new();
    for (status, code) in own.chain(broken) {
        let codes = all.entry(status).or_default();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    all
}

fn success(answer: &HttpAnswer, schemas: &mut Schemas) -> Value {
    let mut content = Map::new();
    for form in answer.content {
        match form {
            Content::Json(schema) => {
                let schema = Value::from(schema(&mut schemas.answers));
                content.insert("application/json".into(), json!({"schema": schema}));
            }
            Content::Events => {
                content.insert("text/event-stream".into(), events(schemas));
            }
        }
    }
    if answer.status == StatusCode::PARTIAL_CONTENT.as_u16() {
        content.insert(
            "application/json".into(),
            json!({"schema": {"type": "string", "format": "binary"}}),
        );
    }
    let mut response = json!({"description": answer.about});
    let Some(members) = response.as_object_mut() else { return response };
    if !content.is_empty() {
        members.insert("content".into(), content.into());
    }
    let headers: Map<String, Value> = answer.headers.iter().map(|name| header(*name)).collect();
    if !headers.is_empty() {
        members.insert("headers".into(), headers.into());
    }
    response
}

/// The text of a stream, and the types of what its events carry.
fn events(schemas: &mut Schemas) -> Value {
    let problem = Value::from(schemas.answers.subschema_for::<ProblemBody<'_>>());
    let authorized = Value::from(schemas.answers.subschema_for::<AuthorizedEvent>());
    let progress = Value::from(schemas.answers.subschema_for::<ProgressEvent>());
    let completed = Value::from(schemas.answers.subschema_for::<CallAnswer>());
    json!({
        "schema": {"type": "string"},
        "x-wicketgate-events": {
            "held": problem, "authorized": authorized, "progress": progress,
            "completed": completed, "problem": problem,
        },
    })
}

fn header(name: AnswerHeader) -> (String, Value) {
    let (name, about) = match name {
        AnswerHeader::Location => ("Location", "Where it can be asked for."),
        AnswerHeader::Receipt => ("wicketgate-receipt", "The place of the entry in the ledger."),
        AnswerHeader::Etag => ("ETag", "The tag of the whole, from its SHA-256."),
        AnswerHeader::ContentRange => ("Content-Range", "Which bytes of the whole these are."),
        AnswerHeader::Seed => ("x-wicketgate-seed", "The seed of a deterministic run."),
    };
    (name.to_owned(), json!({"description": about, "schema": {"type": "string"}}))
}

fn problem_headers(status: StatusCode) -> Map<String, Value> {
    let text = |about: &str| json!({"description": about, "schema": {"type": "string"}});
    let seconds = || {
        json!({"description": "The number of seconds after which to ask again.",
            "schema": {"type": "integer", "minimum": 0}})
    };
    let headers = match status {
        StatusCode::ACCEPTED => vec![
            ("Location", text("Where to ask for the answer of the call.")),
            ("Retry-After", seconds()),
            ("wicketgate-receipt", text("The place of the entry in the ledger.")),
        ],
        StatusCode::UNAUTHORIZED => vec![("WWW-Authenticate", text("`Bearer`."))],
        StatusCode::RANGE_NOT_SATISFIABLE => {
            vec![("Content-Range", text("How many bytes the whole has."))]
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            vec![("Retry-After", seconds())]
        }
        _ => Vec::new(),
    };
    headers.into_iter().map(|(name, header)| (name.to_owned(), header)).collect()
}
