//! Models for agents below `/v1`, in the dialects of OpenAI and Anthropic, below `/v1beta` in that of
//! Google, and below `/api` in that of Ollama: an agent changes its base URL and its key, and nothing
//! else.
//!
//! A face like the others: it finds the caller and the run, hands the body to the road as it came,
//! and sends what the road gives. `route` has the paths, `credential` the key of each SDK, `models`
//! the lists of models, `stream` and `frames` an answer on its way. The same below `/r/<run>/v1`: a
//! run of this name over MCP with the same credential is the same run.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use http::header::USER_AGENT;
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use super::agent_api::AgentApi;
use super::dialect::ANTHROPIC;
use super::guard::{self, IDEMPOTENCY_KEY};
use super::handover::AnswerSlot;
use super::problem::Problem;
use super::problem::exchange::Broken;
use super::{Access, Faces, edge};
use crate::catalog::llm::ask::AskPlace;
use crate::catalog::llm::framing::{StreamFraming, streams};
use crate::domain::code::Code;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::id::CallId;
use crate::domain::json::Limits;
use crate::domain::sent::SentJson;
use crate::domain::tier::Face;
use crate::domain::token::{self, Family};
use crate::enforce::{AskUnderway, ModelRequest, Opening, Run, Thread};
use crate::identity::Peer;
use places::ModelPlaces;
use reply::LlmResponse;
use route::{BETA, EVENTS, LIST, LlmRoute, ModelPath, Purpose, ROUTES, is_beta};
use stream::{AnswerForm, Asking};

pub(super) use managed::asks_as_text;

mod credential;
mod frames;
mod managed;
mod models;
mod places;
mod reply;
mod route;
mod stream;

/// What a request to a model may weigh.
const BODY: Limits = Limits::MODEL;

/// Bodies of more bytes are read on a thread of their own: they would keep others waiting.
const APART_BYTES: usize = 256 << 10;

/// Headers by which clients name their sessions: labels of the run, never its key.
const SESSIONS: [&str; 4] =
    ["x-claude-code-session-id", "session-id", "session_id", "x-session-id"];

/// Headers of a client that its provider reads too.
const PASSED_ON: [&str; 3] = [ANTHROPIC, "anthropic-beta", "openai-beta"];

/// Characters of a session's name and of a client's name for itself.
const SESSION_CHARS_MAX: usize = 128;
const CLIENT_CHARS_MAX: usize = 80;

/// The face. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Llm {
    shared: Arc<LlmShared>,
}

/// What all requests share.
#[derive(Debug)]
struct LlmShared {
    api: AgentApi,
    hosts: Arc<[String]>,
    permits: Arc<Semaphore>,
    places: ModelPlaces,
}

/// What is known of a request, for the headers of its answer.
#[derive(Debug, Default)]
struct Known {
    run: Option<String>,
    call: String,
}

/// The names and accesses of the face's routes.
pub fn surface() -> impl Iterator<Item = (String, Access)> {
    ROUTES.iter().flat_map(|route| {
        let paths = route.paths().into_iter();
        paths.map(|path| (format!("{} {path}", route.method), route.access))
    })
}

impl Llm {
    /// The face over the gate. `hosts` are names of this machine besides loopback ones; `permits`
    /// limits the requests of all faces of the same listeners that ask no model, `most` those that do.
    pub(super) fn new(
        faces: Faces,
        hosts: Arc<[String]>,
        permits: Arc<Semaphore>,
        most: usize,
    ) -> Self {
        let (api, places) = (AgentApi::new(faces), ModelPlaces::new(most));
        Self { shared: Arc::new(LlmShared { api, hosts, permits, places }) }
    }

    /// Whether a path is for this face, known or not.
    pub(super) fn claims(path: &str) -> bool {
        ModelPath::of(path).is_some()
    }

    /// Answers one request of this peer. Dropping the future or its body counts as the client's
    /// disconnect, and stops the call.
    pub(super) async fn answer(
        &self,
        peer: &Peer,
        request: http::Request<Incoming>,
    ) -> LlmResponse {
        let path = request.uri().path().to_owned();
        let path = ModelPath::of(&path);
        let dialect = path.map_or(Dialect::Chat, |path| path.dialect(request.headers()));
        let allowed = path.and_then(|path| path.route()).map_or("", |(route, _)| route.method);
        let mut known = Known::default();
        let answered = match path {
            Some(path) => self.shared.routed(peer, request, path, &mut known).await,
            None => Err(self.shared.api.refuse(edge::nowhere())),
        };
        let response =
            answered.unwrap_or_else(|problem| reply::problem(&problem, dialect, allowed));
        reply::named(response, known.run.as_deref(), &known.call)
    }
}

impl LlmShared {
    async fn routed(
        &self,
        peer: &Peer,
        request: http::Request<Incoming>,
        path: ModelPath<'_>,
        known: &mut Known,
    ) -> Result<LlmResponse, Problem> {
        let refuse = |problem: Problem| self.api.refuse(problem);
        let headers = request.headers();
        guard::bearable(headers)
            .and_then(|()| guard::unambiguous(headers))
            .and_then(|()| guard::from_here(&request, peer, &self.hosts))
            .map_err(|breach| refuse(breach.into()))?;
        let (route, model) = path.route().ok_or_else(|| refuse(edge::nowhere()))?;
        if request.method() != route.method {
            let breach = Broken::Verb.because("the path is not served with this method");
            return Err(refuse(breach.into()));
        }
        let query = request.uri().query().unwrap_or_default();
        if !is_known_query(query, route) {
            let message = "the query is not known here; a credential is sent in a header";
            return Err(refuse(Broken::Message.because(message).detail("http.query").into()));
        }
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default();
        match route.purpose {
            Purpose::Ask(dialect, operation) => {
                let beta = is_beta(query, dialect);
                let caller = self.caller(peer, &parts.headers, path.run())?;
                let place = self.places.request().map_err(refuse)?;
                let at = route.streams.map(|streams| ask_place(model, operation, streams, query));
                let at = at.transpose().map_err(refuse)?;
                let managed = managed::wanted(&parts.headers, dialect).map_err(refuse)?;
                let managed = path.is_managed() || managed;
                let read = self.read(&parts.headers, body, at).await.map_err(refuse)?;
                let asked = Asked { dialect, operation, beta, headers: parts.headers, read };
                let mut response = match managed {
                    true => self.managed(caller, asked, known).await?,
                    false => self.asked(caller, asked, known).await?,
                };
                AnswerSlot::new(place).keep(&mut response);
                Ok(response)
            }
            Purpose::Models | Purpose::Model => {
                let caller = self.caller(peer, &parts.headers, path.run())?;
                let permit = Arc::clone(&self.permits).try_acquire_owned();
                let permit =
                    permit.map_err(|_| refuse(Problem::of(Code::Overloaded, "requests")))?;
                let run = self.run(caller, &parts.headers, known).await?;
                let offered = self.api.road()?.models(&run);
                let dialect = path.dialect(&parts.headers);
                let shown = match route.purpose {
                    Purpose::Model => models::one(&offered, model, dialect),
                    Purpose::Ask(..) | Purpose::Models => Some(models::list(&offered, dialect)),
                };
                let message = "no tool of this agent offers a model of this id";
                let missing = || refuse(Problem::new(Code::RouteUnknown, "model", message));
                let mut response = reply::json(&shown.ok_or_else(missing)?);
                AnswerSlot::new(permit).keep(&mut response);
                Ok(response)
            }
        }
    }

    /// Who asks, in which run. Nothing of the body was read.
    fn caller(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        run: Option<&str>,
    ) -> Result<ModelCaller, Problem> {
        let refuse = |problem: Problem| self.api.refuse(problem);
        let name = guard::run_name(run, headers).map_err(|breach| refuse(breach.into()))?;
        let shown = credential::shown(headers).map_err(refuse)?;
        match (shown.filter(|shown| token::family(shown) == Some(Family::Run)), name) {
            (Some(_), Some(_)) => {
                let message = "the credential is that of a run, and the request names a run: leave the name out";
                Err(refuse(Broken::Ambiguous.because(message).detail("run.name").into()))
            }
            (Some(token), None) => Ok(ModelCaller::Run(self.api.run_of(peer, token)?)),
            (None, name) => {
                let caller = self.api.caller_of(peer, shown)?;
                let thread = name.map_or(Thread::Caller, Thread::Named);
                self.api.road()?;
                Ok(ModelCaller::Agent(Box::new(caller), thread))
            }
        }
    }

    /// The run of this caller; opens one if there is none.
    async fn run(
        &self,
        caller: ModelCaller,
        headers: &HeaderMap,
        known: &mut Known,
    ) -> Result<Arc<Run>, Problem> {
        let run = match caller {
            ModelCaller::Run(run) => run,
            ModelCaller::Agent(caller, thread) => {
                let (road, opening) = (self.api.road()?, opening(headers));
                Box::pin(road.implicit_run(Face::Llm, &caller, &thread, opening)).await?
            }
        };
        known.run = Some(run.id().to_string());
        Ok(run)
    }

    /// The body.
    async fn read(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        at: Option<AskPlace>,
    ) -> Result<ReadBody, Problem> {
        let length = guard::length(headers).unwrap_or(BODY.bytes_max).min(BODY.bytes_max);
        let mut memory = self.places.body(length)?;
        let bytes = guard::body_within(headers, body, BODY.bytes_max).await?;
        places::shrink(&mut memory, bytes.len());
        let bytes = at.map_or(bytes.clone(), |at| at.arguments(&bytes).into());
        let sent = if bytes.len() > APART_BYTES {
            let lost = |_| Problem::of(Code::Overloaded, "requests");
            tokio::task::spawn_blocking(move || sent(&bytes)).await.map_err(lost)?
        } else {
            sent(&bytes)
        };
        Ok(ReadBody { sent: sent?, memory })
    }

    /// Asks the road, and answers with what it gives.
    async fn asked(
        &self,
        caller: ModelCaller,
        asked: Asked,
        known: &mut Known,
    ) -> Result<LlmResponse, Problem> {
        let refuse = |problem: Problem| self.api.refuse(problem);
        let Asked { dialect, operation, beta, headers, read } = asked;
        let key = call_id(&headers).map_err(refuse)?;
        let args = read.sent.value();
        let framing = StreamFraming::of(dialect, args);
        let place = match streams(dialect, args) && operation == Operation::Generate {
            true => Some(self.places.stream().map_err(refuse)?),
            false => None,
        };
        let run = self.run(caller, &headers, known).await?;
        let road = Arc::clone(self.api.road()?);
        let request = ModelRequest {
            dialect,
            operation,
            beta,
            body: read.sent,
            headers: passed_on(&headers),
            call_id: key.unwrap_or_default(),
            traceparent: guard::traceparent(&headers),
            managed: None,
        };
        let ask = Box::pin(road.begin_ask(&run, request)).await.map_err(|failed| {
            let problem = Problem::of_model(*failed);
            known.call = problem.call.as_ref().map(ToString::to_string).unwrap_or_default();
            problem
        })?;
        known.call = ask.call().to_string();
        stream::answered(asking(ask, read.memory), AnswerForm { dialect, framing, place }).await
    }
}

/// Who asks a model.
enum ModelCaller {
    /// The holder of a run's token.
    Run(Arc<Run>),
    /// An agent, in this thread of its work. Boxed: a run is one pointer.
    Agent(Box<crate::identity::Caller>, Thread),
}

/// A body that was read, with the memory that it takes.
struct ReadBody {
    sent: SentJson,
    memory: tokio::sync::OwnedSemaphorePermit,
}

/// One request to a model.
struct Asked {
    dialect: Dialect,
    operation: Operation,
    beta: bool,
    headers: HeaderMap,
    read: ReadBody,
}

/// The road's answer. Its memory is free once the answer begins: the request was sent on.
fn asking(ask: AskUnderway, memory: tokio::sync::OwnedSemaphorePermit) -> Asking {
    Box::pin(async move {
        let reply = Box::pin(ask.reply()).await;
        drop(memory);
        match reply {
            Ok(reply) => Ok(reply.into()),
            Err(failed) => Err(Problem::of_model(*failed)),
        }
    })
}

/// Reads a body.
fn sent(body: &[u8]) -> Result<SentJson, Problem> {
    SentJson::read(body, &BODY).map_err(|error| {
        let (code, message) = (error.code, error.to_string());
        Problem::from(Broken::Json.because(message).detail(code))
    })
}

/// What the path and the query of a request to Gemini say.
fn ask_place(
    segment: &str,
    operation: Operation,
    streams: bool,
    query: &str,
) -> Result<AskPlace, Problem> {
    let model = models::unescaped(segment).ok_or_else(edge::nowhere)?;
    let stream = (operation == Operation::Generate).then_some(streams);
    // Google answers with a list unless it is asked for events.
    let is_list = streams && !query.split('&').any(|part| part == EVENTS);
    Ok(AskPlace { model, stream, is_list })
}

/// Clients of Anthropic mark what is a preview, and say how long a list they take, as those of Google do;
/// lists are whole here. Clients of Google say how a stream is framed.
fn is_known_query(query: &str, route: &LlmRoute) -> bool {
    let lists = route.purpose == Purpose::Models;
    let is_limit = |part: &str| {
        let names = ["limit=", "pageSize="].into_iter();
        let digits = names.filter_map(|name| part.strip_prefix(name)).next().unwrap_or_default();
        (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_form = |part: &str| match route.streams {
        Some(streams) => part == LIST || streams && part == EVENTS,
        None => part == BETA,
    };
    query.is_empty() || query.split('&').all(|part| is_form(part) || lists && is_limit(part))
}

/// The id that the client gives its call, if it gives one.
fn call_id(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let message = "`Idempotency-Key` is a call id, [A-Za-z0-9_.-]{1,64}";
    let id = CallId::parse(bare.unwrap_or(text));
    let id = id.ok_or_else(|| Broken::Message.because(message).detail("call.id"))?;
    Ok(Some(id.as_str().to_owned()))
}

/// The headers that the road may send to the provider: those of the dialect, and the client's name
/// for itself.
fn passed_on(headers: &HeaderMap) -> Vec<(String, String)> {
    let of_dialect = PASSED_ON.iter().filter_map(|name| {
        let values = headers.get_all(*name).iter().filter_map(|value| value.to_str().ok());
        let values: Vec<&str> = values.collect();
        (!values.is_empty()).then(|| ((*name).to_owned(), values.join(",")))
    });
    let client = client(headers).map(|client| (USER_AGENT.as_str().to_owned(), client));
    of_dialect.chain(client).collect()
}

/// What the client calls itself: a claim.
fn client(headers: &HeaderMap) -> Option<String> {
    printable(headers, USER_AGENT.as_str(), CLIENT_CHARS_MAX)
}

/// What an implicit run is opened with.
fn opening(headers: &HeaderMap) -> Opening {
    let session = SESSIONS.iter().find_map(|name| printable(headers, name, SESSION_CHARS_MAX));
    let named = [("client", client(headers)), ("session", session)];
    let named = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let face = ("face".to_owned(), Face::Llm.as_str().to_owned());
    let labels: BTreeMap<String, String> = named.chain([face]).collect();
    Opening { labels, traceparent: guard::traceparent(headers), ..Opening::default() }
}

/// The first value of a header, as far as it is text and not longer than this.
fn printable(headers: &HeaderMap, name: &str, chars_max: usize) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    let text: String = text.chars().filter(|c| !c.is_control()).take(chars_max).collect();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::enforce::Fault;
    use crate::serve::{Readiness, driver, listener};
    use crate::telemetry::metrics::Metrics;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_str(value).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    }

    #[test]
    fn of_a_clients_headers_only_those_of_the_dialect_and_its_name_go_on() {
        let long = "x".repeat(200);
        let sent = headers(&[
            ("authorization", "Bearer secret"),
            ("x-api-key", "secret"),
            ("cookie", "secret"),
            ("openai-organization", "org"),
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "a"),
            ("anthropic-beta", "b, c"),
            ("user-agent", &long),
        ]);
        let passed = passed_on(&sent);
        let passed: Vec<(&str, &str)> =
            passed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let client = "x".repeat(80);
        assert_eq!(
            passed,
            [
                ("anthropic-version", "2023-06-01"),
                ("anthropic-beta", "a,b, c"),
                ("user-agent", client.as_str())
            ]
        );
    }

    #[test]
    fn the_session_of_a_client_is_a_label_of_bounded_length() {
        let long = "s".repeat(500);
        for name in ["x-claude-code-session-id", "session-id", "session_id", "x-session-id"] {
            let labels = opening(&headers(&[(name, &long), ("user-agent", "codex/1")])).labels;
            assert_eq!(labels["session"].len(), 128, "{name}");
            assert_eq!((labels["client"].as_str(), labels["face"].as_str()), ("codex/1", "llm"));
        }
        assert_eq!(opening(&headers(&[])).labels.len(), 1);
    }

    #[test]
    fn a_query_carries_a_mark_of_a_preview_or_the_length_of_a_list_and_no_key() {
        let route = |path: &str| ModelPath::of(path).unwrap().route().unwrap().0;
        let (asks, models) = (route("/v1/messages"), route("/v1/models"));
        let streams = route("/v1beta/models/m:streamGenerateContent");
        let whole = route("/v1beta/models/m:generateContent");
        for (query, route) in [
            ("", asks),
            ("beta=true", asks),
            ("limit=20", models),
            ("pageSize=50", models),
            ("limit=1000&beta=true", models),
            ("alt=sse", streams),
            ("alt=json", streams),
            ("alt=json", whole),
        ] {
            assert!(is_known_query(query, route), "{query}");
        }
        for query in ["alt=sse", "key=a", "$alt=json", "alt=proto", "alt=json&key=a", "beta=true"] {
            assert!(!is_known_query(query, whole), "{query}");
        }
        for query in ["key=secret", "beta=false", "beta=true&key=a", "limit=20", "&", "api_key="] {
            assert!(!is_known_query(query, asks), "{query}");
        }
        for query in ["limit=", "limit=12345", "limit=-1", "after_id=a"] {
            assert!(!is_known_query(query, models), "{query}");
        }
    }

    #[test]
    fn a_body_says_whether_it_asks_for_a_stream_and_is_strict_json() {
        let read = |body: &str| {
            let sent = sent(body.as_bytes());
            sent.map(|sent| streams(Dialect::Chat, sent.value())).map_err(|problem| problem.detail)
        };
        assert_eq!(read(r#"{"stream":true}"#), Ok(true));
        for body in
            [r#"{"stream":false}"#, r#"{"stream":"true"}"#, "{}", "[]", r#"{"a":{"stream":true}}"#]
        {
            assert_eq!(read(body), Ok(false), "{body}");
        }
        assert_eq!(read(r#"{"model":"a","model":"b"}"#), Err("json.duplicate_key".to_owned()));
        assert_eq!(read(""), Err("json.syntax".to_owned()));
    }

    /// Sends lines of a request to a gate that knows no caller and has no ledger yet; the answer.
    async fn asked(lines: &str) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        use tonic::service::Routes;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = listener::socket(&path).await.unwrap();
        let faces = Faces {
            road: Arc::default(),
            identify: Arc::new(|_, _| Err(Fault::new(Code::IdentityMissing, "not known"))),
            readiness: tokio::sync::watch::channel(Readiness::default()).1,
            metrics: Arc::new(Metrics::new([], "0", "test")),
            clock: Arc::new(crate::clock::SystemClock::new()),
            entropy: Arc::new(crate::clock::SystemEntropy),
        };
        let most = edge::RequestPlaces { requests: 8, models: 8 };
        let edge = edge::Edge::new(Routes::default(), faces, Vec::new(), most);
        let (limits, closing) = (driver::Limits::of(4, Duration::ZERO), CancellationToken::new());
        tokio::spawn(driver::run(socket, limits, closing, move |io, peer, closing| {
            driver::either(io, edge.at(peer, closing.clone()), closing)
        }));
        let mut client = tokio::net::UnixStream::connect(&path).await.unwrap();
        let (first, rest) = lines.split_once('\n').unwrap_or((lines, ""));
        let rest: String = rest.lines().map(|line| format!("{line}\r\n")).collect();
        let text =
            format!("{first} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{rest}\r\n");
        client.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn what_is_refused_before_the_road_is_refused_in_the_words_of_the_dialect() {
        let run = token::write(Family::Run, &[7; 32]);
        for (lines, status, texts) in [
            (
                "GET /v1/files",
                "404",
                &["\"code\":\"route.unknown\"", "\"type\":\"invalid_request_error\""][..],
            ),
            ("POST /v1/messages/batches", "404", &["{\"error\":{", "\"type\":\"not_found_error\""]),
            ("POST /v1/../admin", "404", &["route.unknown"]),
            ("POST /v1beta/models/m:embedContent", "404", &["\"status\":\"NOT_FOUND\""]),
            ("POST /v1beta/models/m:generateContent?key=secret", "400", &["http.query"]),
            ("POST /api/pull", "404", &["{\"error\":\""]),
            ("GET /v1/chat/completions", "405", &["allow: POST\r\n"]),
            ("POST /r/a/v1/models", "405", &["allow: GET\r\n"]),
            ("POST /v1/responses?key=a", "400", &["http.query"]),
            (
                "POST /v1/messages\nAuthorization: Bearer a\nX-Api-Key: a",
                "400",
                &["credential.twice"],
            ),
            (
                "POST /v1/messages\nX-Api-Key: a",
                "401",
                &[
                    "authentication_error",
                    "www-authenticate: Bearer\r\n",
                    "x-should-retry: false\r\n",
                ],
            ),
            ("POST /r/a/v1/messages\nX-Wicketgate-Run: b", "400", &["run.name"]),
            ("POST /r/a/v1/messages\nX-Api-Key: RUN", "400", &["run.name"]),
            (
                "POST /v1/messages\nSec-Fetch-Mode: cors\nX-Api-Key: RUN",
                "503",
                &["retry-after: 5\r\n", "not_ready"],
            ),
            ("POST /v1/messages\nOrigin: http://evil.example", "403", &["http.origin"]),
        ] {
            let answer = asked(&lines.replace("RUN", &run)).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{lines}: {answer}");
            assert!(answer.contains("content-type: application/json\r\n"), "{lines}: {answer}");
            for text in texts {
                assert!(answer.contains(text), "{lines}: {text}: {answer}");
            }
        }
    }
}
