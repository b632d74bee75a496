//! The `model` kind: one request to a language model, at the first of its upstreams that works.
//!
//! Only chat is supported, and only functions that the agent itself calls may be offered to the
//! model: tools that a provider runs on its own (web search, code, hosted MCP) would bypass the
//! gate.

mod answered;
mod broken;
mod dialect;
mod exchange;
mod hold_back;
mod masking;
mod model_request;
mod ollama;
mod openai;
mod probing;
mod proposed;
mod pump;
mod upstream;
mod whole;

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, StatusCode};
use hyper::body::{Bytes, Incoming};
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use self::answered::attempt;
use self::dialect::PreparedAsk;
use self::exchange::Exchange;
use self::model_request::{ModelQuestion, ModelQuestionError, Size};
pub(super) use self::probing::probe;
use super::net::{BodyError, Client, Resolve, SendError, whole};
use super::request::failed;
use super::scrub::Scrub;
use super::{Error, ToolExecutor};
use crate::catalog::binding::{self, Api, Credential};
use crate::catalog::host::Origin;
use crate::catalog::model::config::Price;
use crate::catalog::model::{InputReserve, ModelFace};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::json::{self, Json, Limits};
use crate::domain::members::Mismatch;
use crate::domain::outcome::{AnswerContent, FailureClass, Opaque, Unmasked, Usage};
use crate::domain::plural::many;
use crate::judge::prepared::PreparedResource;
use crate::ledger::flow::Flow;
use crate::ledger::permit::Permit;
use crate::limits::Spend;
use crate::telemetry::trace::{self, ChatResponse};

/// A model and its upstreams.
#[derive(Debug)]
pub struct Model {
    places: Vec<ModelUpstream>,
    output_tokens_max: u64,
    /// The number of tokens that text and images count as.
    reserve: InputReserve,
    /// The cost of every call, if tokens have no price.
    flat: Option<u64>,
    result_bytes_max: u64,
    /// What agents may ask in dialects.
    face: Option<ModelFace>,
}

#[derive(Debug)]
struct ModelUpstream {
    name: String,
    api: Api,
    client: Client,
    origin: Origin,
    target: String,
    models: std::collections::BTreeMap<String, String>,
    headers: Vec<(HeaderName, HeaderValue)>,
    credentials: Vec<Credential>,
    price: Option<Price>,
    output_tokens_field: &'static str,
}

/// Requests that are written and wait for their permit. They hold no secrets.
struct PreparedModel {
    /// What each upstream would be asked, in order.
    requests: Vec<UpstreamRequest>,
    output_tokens: u64,
    /// The maximum number of input tokens.
    input_tokens: u64,
}

#[derive(Debug)]
struct UpstreamRequest {
    /// The upstream's index.
    upstream: usize,
    /// The model, as the upstream names it.
    model: String,
    body: Bytes,
}

/// The response of a model.
#[derive(Debug, PartialEq)]
struct ModelAnswer {
    model: String,
    content: Json,
    refusal: Option<String>,
    tool_calls: Vec<Json>,
    finish_reason: String,
    /// Input and output tokens.
    tokens: Option<(u64, u64)>,
}

/// Why an upstream's response is not a chat response.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error(transparent)]
    Json(#[from] json::Error),
    #[error(transparent)]
    Shape(#[from] Mismatch),
    #[error(transparent)]
    Written(#[from] serde_json::Error),
    #[error("{}", many(.0, "choice"))]
    Choices(usize),
    #[error(transparent)]
    Call(#[from] ModelQuestionError),
}

/// The result at one upstream.
enum UpstreamOutcome {
    /// The call is over.
    Over(Unmasked),
    /// The upstream did nothing, so the next one may be asked.
    Next(Unmasked),
}

impl Model {
    /// Builds the clients without connecting.
    ///
    /// # Errors
    /// Certificate authorities or secrets cannot be used.
    pub fn new(
        model: binding::Model,
        flat: Option<u64>,
        result_bytes_max: u64,
        resolve: &Arc<dyn Resolve>,
    ) -> Result<Self, Error> {
        let (output_tokens_max, reserve) = (model.output_tokens_max, model.reserve);
        let places = model.upstreams;
        let places = places.into_iter().map(|place| ModelUpstream::new(place, resolve));
        let places = places.collect::<Result<_, Error>>()?;
        let face = model.face;
        Ok(Self { places, output_tokens_max, reserve, flat, result_bytes_max, face })
    }

    /// The maximum usage for this many input tokens. A response is no longer than the request
    /// allows.
    fn bound(&self, output_tokens: u64, input_tokens: u64) -> Spend {
        let priced = self.places.iter().filter_map(|place| place.price);
        let most_expensive = priced.map(|price| cost(price, input_tokens, output_tokens)).max();
        Spend {
            tokens: input_tokens.saturating_add(output_tokens),
            cost_micro_usd: most_expensive.or(self.flat),
        }
    }

    /// The number of input tokens that these arguments are taken for.
    fn input_tokens(&self, args: &Json, args_bytes: u64) -> u64 {
        let images = u64::try_from(Size::of(args).images()).unwrap_or(u64::MAX);
        self.reserve.input_tokens(args_bytes, images)
    }

    fn output_tokens(&self, args: &Json) -> u64 {
        let asked = Size::of(args).max_output_tokens;
        asked.unwrap_or(self.output_tokens_max).min(self.output_tokens_max)
    }

    async fn ask(&self, permit: &Permit, ready: &PreparedModel) -> Unmasked {
        let mut last =
            failed(FailureClass::Changed, false, "the call was prepared by another tool");
        for request in &ready.requests {
            let Some(place) = self.places.get(request.upstream) else { continue };
            if permit.spares(&place.name) {
                continue;
            }
            // Until the provider reports its usage, the maximum counts as used.
            permit.observe(|seen| seen.usage = Some(place.guess(ready, self.flat)));
            let span = place.span(&request.model);
            let asking = self.ask_at(place, permit, ready, &request.body);
            let outcome = asking.instrument(span.clone()).await;
            match outcome.traced(&span) {
                UpstreamOutcome::Over(outcome) => return outcome,
                UpstreamOutcome::Next(outcome) => last = outcome,
            }
        }
        last
    }

    async fn ask_at(
        &self,
        place: &ModelUpstream,
        permit: &Permit,
        ready: &PreparedModel,
        body: &Bytes,
    ) -> UpstreamOutcome {
        let Ok(request) = place.request(permit.call(), body) else {
            let message = "the request cannot be written";
            return UpstreamOutcome::Over(failed(FailureClass::Protocol, false, message));
        };
        let begun = Instant::now();
        let answered = place.client.send(request, permit.fuse()).await;
        let tried = attempt(place, begun.elapsed(), Some(&answered));
        permit.observe(|seen| seen.attempts.extend(tried));
        let response = match answered {
            Ok(response) => response,
            Err(SendError::Late(late)) => {
                permit.observe(|seen| seen.usage = Some(place.used(0, 0, self.flat)));
                return UpstreamOutcome::Over(late.outcome());
            }
            Err(error) if error.is_connect() => {
                permit.observe(|seen| seen.usage = Some(place.used(0, 0, self.flat)));
                return UpstreamOutcome::Next(place.not_connected(&error));
            }
            Err(_error) => return UpstreamOutcome::Over(place.lost()),
        };
        let status = response.status();
        if !status.is_success() {
            let message = format!("model upstream `{}` answered `{}`", place.name, status.as_u16());
            // Providers do not bill an error response.
            let nothing = place.used(0, 0, self.flat);
            permit.observe(|seen| seen.usage = Some(nothing));
            let outcome = failed(FailureClass::ToolError, true, &message);
            return if passing(status) {
                UpstreamOutcome::Next(outcome)
            } else {
                UpstreamOutcome::Over(outcome)
            };
        }
        let answer = match self.read(place, response.into_body()).await {
            Ok(answer) => answer,
            Err(outcome) => return UpstreamOutcome::Over(outcome),
        };
        trace::chat_response(&Span::current(), &answer.facts());
        let usage = match answer.tokens {
            Some((input, output)) => place.used(input, output, self.flat),
            None => place.guess(ready, self.flat),
        };
        permit.observe(|seen| seen.usage = Some(usage.clone()));
        // The response was cut at the token limit; OpenAI and Ollama both call that `length`.
        let cut = (answer.finish_reason == "length").then_some(Opaque::Cut);
        let result = AnswerContent::of(canonical::bytes(&answer.result(place, &usage)), cut);
        UpstreamOutcome::Over(Unmasked::Completed { result, status: status.as_u16().to_string() })
    }

    async fn read(&self, place: &ModelUpstream, body: Incoming) -> Result<ModelAnswer, Unmasked> {
        let most = self.result_bytes_max;
        let bytes = whole(body, most, None).await.map_err(|why| match why {
            BodyError::TooLarge => {
                let message = format!("the model's answer has more than {most} bytes");
                failed(FailureClass::TooLarge, true, &message)
            }
            BodyError::Slow | BodyError::Broken(_) => place.lost(),
        })?;
        let parsed = Json::parse(&bytes, &Limits { depth_max: 60, ..Limits::FILE })
            .map_err(AnswerError::Json)
            .and_then(|answer| match place.api {
                Api::Ollama => ollama::read_answer(&answer, &bytes),
                Api::OpenAi | Api::Responses | Api::Anthropic | Api::Gemini => {
                    openai::read_answer(&answer)
                }
            });
        parsed.map_err(|why| {
            let message = format!("the answer of model upstream `{}`: {why}", place.name);
            failed(FailureClass::Protocol, true, &message)
        })
    }
}

impl ModelAnswer {
    /// What traces show of the response.
    fn facts(&self) -> ChatResponse<'_> {
        let Self { model, finish_reason, tokens, .. } = self;
        ChatResponse { model, finish_reason, tokens: *tokens }
    }

    /// The result that the agent receives.
    fn result(self, place: &ModelUpstream, usage: &Usage) -> Json {
        let mut message = vec![("role", Json::from("assistant")), ("content", self.content)];
        message.extend(self.refusal.map(|text| ("refusal", Json::from(text))));
        if !self.tool_calls.is_empty() {
            message.push(("tool_calls", self.tool_calls.into()));
        }
        let mut used = vec![
            ("input_tokens", Json::from(usage.input_tokens)),
            ("output_tokens", Json::from(usage.output_tokens)),
        ];
        used.extend(usage.cost_micro_usd.map(|cost| ("cost_micro_usd", Json::from(cost))));
        used.extend(usage.estimated.then(|| ("estimated", Json::from(true))));
        Json::object([
            ("model", Json::from(self.model)),
            ("upstream", Json::from(place.name.as_str())),
            ("message", Json::object(message)),
            ("finish_reason", Json::from(self.finish_reason)),
            ("usage", Json::object(used)),
        ])
    }
}

#[async_trait]
impl ToolExecutor for Model {
    fn most_of(&self, call: &ToolCall) -> Option<Spend> {
        let Some((request, face)) = call.dialect().zip(self.face.as_ref()) else {
            let bytes = u64::try_from(call.canonical().len()).unwrap_or(u64::MAX);
            return self.most(call.args(), bytes);
        };
        // A request that cannot be read is refused, and costs nothing.
        let reading = dialect::reading(call, request, &face.rules);
        reading.asked().ok().map(|asked| self.most_of_ask(asked))
    }

    fn model_face(&self) -> Option<&ModelFace> {
        self.face.as_ref()
    }

    async fn stream(&self, permit: &Permit, flow: Flow<'_>, scrub: &Scrub) -> Unmasked {
        let prepared = permit.prepared().hold::<PreparedAsk>().zip(self.face.as_ref());
        match prepared {
            Some((ready, face)) => {
                let abandoned = parking_lot::Mutex::new(None);
                Exchange { model: self, face, permit, ready, scrub, abandoned }.run(flow).await
            }
            None => failed(FailureClass::Changed, false, "the call was prepared by another tool"),
        }
    }

    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        if let Some(request) = call.dialect() {
            return self.prepare_dialect(call, request);
        }
        let refuse = |detail: &str, message: String| {
            vec![LayerReason::effect_refused("tool.model", detail, message)]
        };
        let ask = ModelQuestion::read(call.args(), call.sent())
            .map_err(|why| refuse(why.detail(), why.to_string()))?;
        let args_bytes = u64::try_from(call.canonical().len()).unwrap_or(u64::MAX);
        let input_tokens = self.input_tokens(call.args(), args_bytes);
        let output_tokens = self.output_tokens(call.args());
        let (mut requests, mut upstreams, mut known) = (Vec::new(), Vec::new(), false);
        for (index, place) in self.places.iter().enumerate() {
            let Some(model) = place.models.get(&ask.model) else { continue };
            let body = match place.api {
                Api::OpenAi => {
                    Some(openai::body(&ask, model, (place.output_tokens_field, output_tokens)))
                }
                Api::Ollama => ollama::body(&ask, model, output_tokens),
                // Only agents that speak these dialects themselves are served there.
                Api::Responses | Api::Anthropic | Api::Gemini => None,
            };
            known = true;
            // An upstream that cannot express the request is skipped.
            let Some(body) = body else { continue };
            let (model_name, body) = (model.clone(), Bytes::from(body));
            requests.push(UpstreamRequest { upstream: index, model: model_name, body });
            upstreams.push(place.facts(model));
        }
        if requests.is_empty() && known {
            let message = "`ollama` does not support `tool_choice: required`, nor arguments of a \
                           function that are no strict JSON";
            return Err(refuse("model.argument", message.into()));
        }
        if requests.is_empty() {
            let message = format!("model `{}` is not one of the binding's", ask.model);
            return Err(refuse("model.unknown", message));
        }
        let longest = requests.iter().map(|request| request.body.len()).max().unwrap_or_default();
        let effect = Effect::Model {
            model: ask.model.clone(),
            upstreams,
            messages: u64::try_from(ask.messages.len()).unwrap_or(u64::MAX),
            new_messages: u64::try_from(ask.messages.len()).unwrap_or(u64::MAX),
            messages_cut: 0,
            images: u64::try_from(Size::of(call.args()).images()).unwrap_or(u64::MAX),
            output_tokens_max: output_tokens,
            functions: ask.functions(),
            body_bytes: u64::try_from(longest).unwrap_or(u64::MAX),
            request: None,
        };
        Ok((effect, Box::new(PreparedModel { requests, output_tokens, input_tokens })))
    }

    fn most(&self, args: &Json, args_bytes: u64) -> Option<Spend> {
        Some(self.bound(self.output_tokens(args), self.input_tokens(args, args_bytes)))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        match permit.prepared().hold::<PreparedModel>() {
            Some(ready) => self.ask(permit, ready).await,
            None => failed(FailureClass::Changed, false, "the call was prepared by another tool"),
        }
    }
}

/// Rounded up, so that a fraction is not free.
fn cost(price: Price, input: u64, output: u64) -> u64 {
    let of = |tokens: u64, price: u64| u128::from(tokens).saturating_mul(u128::from(price));
    let millionths = of(input, price.input).saturating_add(of(output, price.output));
    u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Whether the status means that the upstream does not work at present.
fn passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

#[cfg(test)]
mod tests;
