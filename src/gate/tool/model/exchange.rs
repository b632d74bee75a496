//! One permitted request in a dialect: asked at the first upstream that works, answered whole or
//! piece by piece.

use std::time::Duration;

use http::{HeaderName, HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::answered::{attempt, down, expect, priced, provider_words};
use super::broken::Broken;
use super::dialect::PreparedAsk;
use super::hold_back::{HoldBack, HoldsCredential};
use super::masking::EventMask;
use super::pump::{Pump, leave};
use super::upstream::traced;
use super::{Model, ModelUpstream, UpstreamOutcome, UpstreamRequest, passing};
use crate::catalog::llm::answer::{
    self, AnswerRules, AnsweredCall, Assembled, DenialForm, DeniedCall, TokenUsage,
};
use crate::catalog::llm::ask::{self, AskTarget};
use crate::catalog::llm::framing::{FrameReader, FrameWriter};
use crate::catalog::model::{DeniedAs, ModelFace};
use crate::domain::decision::PolicyObligation;
use crate::domain::dialect::Operation;
use crate::domain::outcome::{AnswerContent, FailureClass, Opaque, Redaction, Unmasked, Usage};
use crate::ledger::flow::{DeniedProposal, Flow};
use crate::ledger::permit::Permit;
use crate::telemetry::trace::{self, ChatResponse};
use crate::tool::net::SendError;
use crate::tool::request::{RequestError, failed, headers_of, of_call};
use crate::tool::scrub::Scrub;

/// Bytes of one event of a provider: the last one of a response repeats the whole answer.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of a streamed answer.
const STREAM_BYTES_MAX: u64 = 64 << 20;
/// How long a provider may take to hang up after the end of an answer.
const END_WAIT: Duration = Duration::from_secs(1);
/// Characters of an agent's own name that reach the provider.
const AGENT_CHARS_MAX: usize = 80;

/// One request and its answer.
pub(super) struct Exchange<'a> {
    pub model: &'a Model,
    pub face: &'a ModelFace,
    pub permit: &'a Permit,
    pub ready: &'a PreparedAsk,
    /// The credentials that nothing of the answer may hold.
    pub scrub: &'a Scrub,
    /// What the upstreams may bill that the gate asked and did not wait for.
    pub abandoned: Mutex<Option<Usage>>,
}

impl Exchange<'_> {
    pub async fn run(&self, mut flow: Flow<'_>) -> Unmasked {
        let mut last = failed(FailureClass::Connect, false, "no upstream could be asked");
        let mut opened = None;
        let mut places = Vec::with_capacity(self.ready.requests.len());
        for request in &self.ready.requests {
            let Some(place) = self.model.places.get(request.upstream) else { continue };
            if !self.permit.spares(&place.name) {
                places.push((request, place));
            }
        }
        let count = places.len();
        for (at, (request, place)) in (1_usize..).zip(places) {
            let is_last = at == count;
            let span = place.span(&request.model);
            // Until the provider reports its usage, the maximum counts as used.
            self.uses(self.guess(place));
            let opening = self.open(place, request, (&mut flow, is_last));
            match opening.instrument(span.clone()).await.map_err(|outcome| outcome.traced(&span)) {
                Ok(response) => {
                    opened = Some((place, response, span));
                    break;
                }
                Err(UpstreamOutcome::Over(outcome)) => return outcome,
                Err(UpstreamOutcome::Next(outcome)) => last = outcome,
            }
        }
        let Some((place, response, span)) = opened else { return last };
        let outcome = self.answered(place, response, flow).instrument(span.clone()).await;
        traced(&span, &outcome);
        outcome
    }

    /// Reads the answer of an upstream.
    async fn answered(
        &self,
        place: &ModelUpstream,
        response: http::Response<Incoming>,
        flow: Flow<'_>,
    ) -> Unmasked {
        let status = response.status().as_u16();
        let done = match self.ready.stream {
            true => self.stream(place, response, flow).await,
            false => self.whole(place, response, flow).await,
        };
        match done {
            Ok((json, cut)) => {
                let result = AnswerContent::of(json, cut.then_some(Opaque::Cut));
                Unmasked::Completed { result, status: status.to_string() }
            }
            Err(broken) => broken.outcome(),
        }
    }

    /// Asks one upstream and waits for the head of a good answer.
    async fn open(
        &self,
        place: &ModelUpstream,
        asked: &UpstreamRequest,
        (flow, is_last): (&mut Flow<'_>, bool),
    ) -> Result<http::Response<Incoming>, UpstreamOutcome> {
        let nothing = || self.uses(self.nothing(place));
        let Ok(request) = self.request(place, asked) else {
            nothing();
            let message = "the request cannot be written";
            return Err(UpstreamOutcome::Over(failed(FailureClass::Protocol, false, message)));
        };
        let begun = Instant::now();
        let sending = place.client.send(request, self.permit.fuse());
        let answered = tokio::time::timeout(self.face.head_timeout, sending).await;
        let tried = attempt(place, begun.elapsed(), answered.as_ref().ok());
        self.permit.observe(|seen| seen.attempts.extend(tried));
        let response = match answered {
            Err(_elapsed) => {
                self.abandon(place);
                let message = format!("model upstream `{}` did not begin to answer", place.name);
                return Err(UpstreamOutcome::Next(failed(FailureClass::Timeout, true, &message)));
            }
            Ok(Ok(response)) => response,
            Ok(Err(SendError::Late(late))) => {
                nothing();
                return Err(UpstreamOutcome::Over(late.outcome()));
            }
            Ok(Err(error)) if error.is_connect() => {
                nothing();
                return Err(UpstreamOutcome::Next(place.not_connected(&error)));
            }
            // WHY not the next one: the upstream may have answered, and bills that. Two answers to
            // one request would be paid for.
            Ok(Err(_error)) => return Err(UpstreamOutcome::Over(place.lost())),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        // Providers do not bill an error response.
        nothing();
        let headers = down(response.headers(), self.scrub);
        let words = provider_words(response.into_body()).await;
        let message =
            format!("model upstream `{}` answered `{}`{words}", place.name, status.as_u16());
        if status.is_redirection() {
            let message = format!("{message}, and redirects are not followed");
            return Err(UpstreamOutcome::Over(failed(FailureClass::Protocol, true, &message)));
        }
        let outcome = failed(FailureClass::ToolError, true, &message);
        if passing(status) && !is_last {
            return Err(UpstreamOutcome::Next(outcome));
        }
        // An agent that left learns of no status.
        let _ = flow.head((status.as_u16(), false), headers).await;
        Err(UpstreamOutcome::Over(outcome))
    }

    fn request(
        &self,
        place: &ModelUpstream,
        asked: &UpstreamRequest,
    ) -> Result<http::Request<Full<Bytes>>, RequestError> {
        let call = self.permit.call();
        let streamed = FrameReader::of(self.ready.dialect, EVENT_BYTES_MAX).media_type();
        let accept = if self.ready.stream { streamed } else { "application/json" };
        let mut request = of_call(http::Request::post(self.target(place, &asked.model)), call)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept);
        for (name, value) in self.headers() {
            request = request.header(name, value);
        }
        for (name, value) in &place.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers_of(&place.credentials)? {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(asked.body.clone()))?)
    }

    /// The URL of the request.
    fn target(&self, place: &ModelUpstream, model: &str) -> String {
        let beta = self.permit.call().dialect().is_some_and(|request| request.beta);
        let (operation, stream) = (self.ready.operation, self.ready.stream);
        let target = AskTarget { base: &place.target, model, operation, stream, beta };
        (ask::form(self.ready.dialect).target)(&target)
    }

    /// The headers of the agent that a provider receives.
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let sent = self.permit.call().dialect().map(|request| request.headers.as_slice());
        let sent = sent.unwrap_or_default();
        let of = |name: &str| {
            let named = sent.iter().filter(|(sent, _)| sent == name);
            named.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        let agent: String = of("user-agent").join(" ").chars().take(AGENT_CHARS_MAX).collect();
        let mut headers =
            vec![("user-agent", format!("wicketgate/{} ({agent})", env!("CARGO_PKG_VERSION")))];
        let betas = self.face.betas_of(&of("anthropic-beta")).join(",");
        let passed = [
            ("anthropic-version", of("anthropic-version").join(",")),
            ("openai-beta", of("openai-beta").join(",")),
            ("anthropic-beta", betas),
        ];
        headers.extend(passed.into_iter().filter(|(_, value)| !value.is_empty()));
        let parsed = headers.into_iter().filter_map(|(name, value)| {
            Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?))
        });
        parsed.collect()
    }

    /// What the answer may hold. `renumber`: whether the gate changes the number of its events.
    pub fn rules(&self, renumber: bool) -> AnswerRules {
        let swallow_usage = !self.ready.wants_usage;
        let hosted_allowed = self.ready.hosted.iter().cloned().collect();
        AnswerRules { swallow_usage, hosted_allowed, renumber }
    }

    /// An answer in pieces, as it is kept.
    async fn stream(
        &self,
        place: &ModelUpstream,
        response: http::Response<Incoming>,
        mut flow: Flow<'_>,
    ) -> Result<(Vec<u8>, bool), Broken> {
        let mut events = FrameReader::of(self.ready.dialect, EVENT_BYTES_MAX);
        expect(response.headers(), events.media_type())?;
        let mask = EventMask::of(self.ready.dialect, self.permit.obligations())?;
        let headers = down(response.headers(), self.scrub);
        flow.head((response.status().as_u16(), true), headers).await?;
        let mut body = response.into_body();
        let mut pump = Pump {
            exchange: self,
            writer: FrameWriter::new(self.ready.framing),
            answer: answer::stream(self.ready.dialect, self.rules(mask.is_some())),
            mask,
            text: HoldBack::new(self.scrub),
            frames: Vec::new(),
            shown: 0,
        };
        let mut read = 0_u64;
        while !pump.answer.is_over() {
            let silence = self.face.silence_timeout;
            let piece = flow.beside(tokio::time::timeout(silence, body.frame())).await?;
            let Some(piece) = piece.map_err(|_| Broken::Silent(silence))? else { break };
            let Ok(data) = piece.map_err(|_| Broken::Lost)?.into_data() else { continue };
            read = read.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
            if read > self.cap() {
                return Err(Broken::TooMuch(self.cap()));
            }
            let taken = pump.events(events.push(&data)?, &mut flow).await;
            self.uses(self.so_far(place, pump.answer.usage(), pump.seen()));
            taken?;
        }
        // A connection that was read to its end takes the next request.
        let _in_time = flow.beside(tokio::time::timeout(END_WAIT, drained(body))).await?;
        let Pump { answer, writer, mut text, mask, .. } = pump;
        let (frames, assembled) = answer.finish()?;
        self.ended(place, &assembled);
        if let Some(mask) = mask {
            mask.verify(&assembled.json)?;
        }
        let end = Bytes::from(writer.end(&frames));
        if self.scrub.hides_in(&end) || self.scrub.hides_in(&assembled.json) {
            return Err(HoldsCredential.into());
        }
        leave(text.flush(), &mut flow).await?;
        flow.end(end).await?;
        let cut = is_cut(&assembled.stop);
        Ok((assembled.json, cut))
    }

    /// The most bytes of a streamed answer.
    fn cap(&self) -> u64 {
        let caps = self.permit.obligations().iter().filter_map(PolicyObligation::cap);
        caps.fold(STREAM_BYTES_MAX.min(self.model.result_bytes_max), u64::min)
    }

    /// Notes how many findings were masked so far.
    pub fn masked(&self, masked: u64) {
        let redaction = Redaction { masked, unscanned: None };
        self.permit.observe(|seen| seen.redaction = Some(redaction));
    }

    /// The denial as it leaves in the answer.
    pub fn denied(
        &self,
        call: &AnsweredCall,
        denied: &DeniedProposal,
    ) -> Result<DeniedCall, Broken> {
        let form = match self.face.denied_as {
            DeniedAs::Call => DenialForm::Call,
            DeniedAs::Text => DenialForm::Text,
            DeniedAs::Error => return Err(Broken::Denied(denied.message.clone())),
        };
        Ok(DeniedCall {
            form,
            tool: call.name.clone(),
            code: denied.code.as_str().to_owned(),
            rule: denied.rule.clone(),
            message: denied.message.clone(),
            call: denied.call.as_ref().map(ToString::to_string).unwrap_or_default(),
        })
    }

    /// Notes what the call uses: at this upstream, and at those that were left before.
    pub fn uses(&self, usage: Usage) {
        let usage = with_abandoned(usage, self.abandoned.lock().as_ref());
        self.permit.observe(|seen| seen.usage = Some(usage));
    }

    /// Leaves an upstream that may answer after all, and bill that.
    fn abandon(&self, place: &ModelUpstream) {
        let guess = self.guess(place);
        // A price of the call counts once.
        let cost_micro_usd = guess.cost_micro_usd.filter(|_| place.price.is_some());
        let mut abandoned = self.abandoned.lock();
        let usage = Usage { cost_micro_usd, ..guess };
        *abandoned = Some(with_abandoned(usage, abandoned.as_ref()));
    }

    /// What a request costs of which no token is billed. Providers count tokens for nothing, so the
    /// price of a call is none of that.
    pub fn nothing(&self, place: &ModelUpstream) -> Usage {
        let used = place.used(0, 0, self.model.flat);
        match self.ready.operation {
            Operation::CountTokens => {
                Usage { cost_micro_usd: used.cost_micro_usd.map(|_flat| 0), ..used }
            }
            Operation::Generate => used,
        }
    }

    fn guess(&self, place: &ModelUpstream) -> Usage {
        if self.ready.operation == Operation::CountTokens {
            return self.nothing(place);
        }
        let (input, output) = (self.ready.input_tokens, self.ready.output_tokens);
        Usage { estimated: true, ..place.used(input, output, self.model.flat) }
    }

    /// The usage of an answer that breaks off here: what the provider counted, and at least what was
    /// seen of it.
    fn so_far(&self, place: &ModelUpstream, counted: Option<TokenUsage>, shown: u64) -> Usage {
        let seen = shown.div_ceil(4);
        match counted {
            Some(counted) => {
                let counted = TokenUsage { output: counted.output.max(seen), ..counted };
                Usage { estimated: true, ..self.counted(place, &counted) }
            }
            None => Usage {
                estimated: true,
                ..place.used(self.ready.input_tokens, seen, self.model.flat)
            },
        }
    }

    pub fn ended(&self, place: &ModelUpstream, assembled: &Assembled) {
        let usage = match &assembled.usage {
            Some(counted) => self.counted(place, counted),
            None => self.guess(place),
        };
        self.trace(assembled, &usage);
        self.uses(usage);
        let model = assembled.model.clone();
        self.permit.observe(|seen| seen.model = model);
    }

    /// Puts the answer on the span of its request.
    fn trace(&self, assembled: &Assembled, usage: &Usage) {
        let response = ChatResponse {
            model: assembled.model.as_deref().unwrap_or_default(),
            finish_reason: &assembled.stop,
            tokens: (!usage.estimated).then_some((usage.input_tokens, usage.output_tokens)),
        };
        trace::chat_response(&Span::current(), &response);
    }

    fn counted(&self, place: &ModelUpstream, counted: &TokenUsage) -> Usage {
        Usage {
            cost_micro_usd: place.price.map(|price| priced(price, counted)).or(self.model.flat),
            cached_input_tokens: counted.cached_input,
            cache_write_tokens: counted.cache_write.saturating_add(counted.cache_write_1h),
            reasoning_tokens: counted.reasoning,
            ..place.used(counted.input, counted.output, self.model.flat)
        }
    }
}

/// Reads what comes behind an answer. Nothing of it is used.
async fn drained(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

/// The usage at one upstream together with that of the upstreams that were left.
fn with_abandoned(usage: Usage, abandoned: Option<&Usage>) -> Usage {
    let Some(left) = abandoned else { return usage };
    let sum = |a: u64, b: u64| a.saturating_add(b);
    let costs = [usage.cost_micro_usd, left.cost_micro_usd];
    Usage {
        input_tokens: sum(usage.input_tokens, left.input_tokens),
        output_tokens: sum(usage.output_tokens, left.output_tokens),
        cost_micro_usd: costs.into_iter().flatten().reduce(sum),
        estimated: true,
        ..usage
    }
}

pub(super) fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// Whether the answer was cut at its token limit, in the words of any dialect.
pub(super) fn is_cut(stop: &str) -> bool {
    matches!(stop, "length" | "max_tokens" | "incomplete" | "max_output_tokens" | "MAX_TOKENS")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(upstream: &str, tokens: u64, cost: Option<u64>) -> Usage {
        Usage {
            upstream: upstream.to_owned(),
            input_tokens: tokens,
            output_tokens: tokens.saturating_add(1),
            cost_micro_usd: cost,
            estimated: false,
            cached_input_tokens: 4,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
        }
    }

    #[test]
    fn what_an_upstream_that_was_left_may_bill_counts_beside_what_the_next_one_counts() {
        let here = usage("b", 3, Some(7));
        assert_eq!(with_abandoned(here.clone(), None), here);
        let all = with_abandoned(here, Some(&usage("a", 10, Some(100))));
        assert_eq!((all.input_tokens, all.output_tokens, all.cost_micro_usd), (13, 15, Some(107)));
        assert_eq!((all.upstream.as_str(), all.estimated), ("b", true));
        assert_eq!(all.cached_input_tokens, 4);
        let unpriced = with_abandoned(usage("b", 3, None), Some(&usage("a", 10, None)));
        assert_eq!(unpriced.cost_micro_usd, None);
    }
}
