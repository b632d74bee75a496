//! The spans of calls. Names and attributes follow the GenAI semantic conventions.
//!
//! There is one trace per call: a root `execute_tool {tool}` and a child for each stage of the road. A
//! call of a model has a span `chat {model}` for each upstream that is asked, below the stage of the
//! tool. No argument, message, result or credential is ever an attribute.

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, Context, Value};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::Stage;

/// `allow`, `deny` or `require_approval`.
pub const VERDICT: &str = "wicketgate.verdict";
/// The stable code of the error.
pub const ERROR_TYPE: &str = "error.type";
/// The operation of every root span.
pub const EXECUTE_TOOL: &str = "execute_tool";

/// The operation of every span of a model.
const CHAT: &str = "chat";

/// Target of every span that is exported.
pub(super) const TARGET: &str = "wicketgate::call";

/// The attributes of a call's root span.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Id of the call.
    pub call: &'a str,
    /// Name of the agent, from its manifest.
    pub agent: &'a str,
    /// Id of the run.
    pub run: &'a str,
    /// W3C trace context from the caller.
    pub traceparent: Option<&'a str>,
}

/// Opens the root span of one call, as a child of the caller's span if the caller sent one.
///
/// Fill [`VERDICT`] and [`ERROR_TYPE`] with [`verdict`] and [`error`].
#[must_use]
pub fn call_span(call: &Call<'_>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "execute_tool",
        otel.name = format_args!("{EXECUTE_TOOL} {}", call.tool),
        otel.kind = "internal",
        otel.status_code = tracing::field::Empty,
        gen_ai.operation.name = EXECUTE_TOOL,
        gen_ai.tool.name = call.tool,
        gen_ai.tool.call.id = call.call,
        gen_ai.agent.name = call.agent,
        wicketgate.run.id = call.run,
        wicketgate.verdict = tracing::field::Empty,
        error.r#type = tracing::field::Empty,
    );
    if let Some(parent) = call.traceparent.and_then(parent) {
        // Without a collector the parent has no use, so the error is ignored.
        let _ = span.set_parent(parent);
    }
    span
}

/// Opens the span of one stage, as a child of the call's.
#[must_use]
pub fn stage_span(call: &Span, stage: Stage) -> Span {
    match stage {
        Stage::Prepare => tracing::info_span!(target: TARGET, parent: call, "prepare"),
        Stage::Judge => tracing::info_span!(target: TARGET, parent: call, "judge"),
        Stage::Commit => tracing::info_span!(target: TARGET, parent: call, "commit"),
        Stage::Tool => tracing::info_span!(target: TARGET, parent: call, "tool"),
        Stage::Settle => tracing::info_span!(target: TARGET, parent: call, "settle"),
    }
}

/// What is known of a request to a model before it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Chat<'a> {
    /// The API that the upstream speaks: `openai`, `ollama`.
    pub provider: &'a str,
    /// The model, as the upstream names it.
    pub model: &'a str,
    /// Host of the upstream.
    pub host: &'a str,
    /// Port of the upstream.
    pub port: u16,
}

/// What a model's response says of itself.
#[derive(Clone, Copy, Debug)]
pub struct ChatResponse<'a> {
    /// The model that answered.
    pub model: &'a str,
    /// Why the response ends: `stop`, `length`, `tool_calls`.
    pub finish_reason: &'a str,
    /// Input and output tokens, if the provider counted them.
    pub tokens: Option<(u64, u64)>,
}

/// Opens the span of one request to a model, below the span that is entered.
#[must_use]
pub fn chat_span(chat: &Chat<'_>) -> Span {
    tracing::info_span!(
        target: TARGET,
        "chat",
        otel.name = format_args!("{CHAT} {}", chat.model),
        otel.kind = "client",
        otel.status_code = tracing::field::Empty,
        gen_ai.operation.name = CHAT,
        gen_ai.provider.name = chat.provider,
        gen_ai.request.model = chat.model,
        server.address = chat.host,
        server.port = i64::from(chat.port),
        error.r#type = tracing::field::Empty,
    )
}

/// Records the response on the span of its request.
pub fn chat_response(chat: &Span, response: &ChatResponse<'_>) {
    // WHY not as fields of the span: those have no lists and no unsigned numbers.
    chat.set_attribute("gen_ai.response.model", response.model.to_owned());
    let reasons = Array::String(vec![response.finish_reason.to_owned().into()]);
    chat.set_attribute("gen_ai.response.finish_reasons", Value::Array(reasons));
    if let Some((input, output)) = response.tokens {
        let number = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        chat.set_attribute("gen_ai.usage.input_tokens", number(input));
        chat.set_attribute("gen_ai.usage.output_tokens", number(output));
    }
}

/// Records the verdict on a call's root span.
pub fn verdict(call: &Span, verdict: &'static str) {
    call.record(VERDICT, verdict);
}

/// Records an error code on the root span of a call, or on the span of a request to a model.
pub fn error(call: &Span, code: &'static str) {
    call.record(ERROR_TYPE, code);
    call.record("otel.status_code", "ERROR");
}

/// The W3C trace context of a span, to pass to the tool or to record. `None` if the span is not
/// traced.
#[must_use]
pub fn traceparent(span: &Span) -> Option<String> {
    let context = span.context();
    let here = context.span().span_context().clone();
    if !here.is_valid() {
        return None;
    }
    let flags = here.trace_flags().to_u8();
    Some(format!("00-{}-{}-{flags:02x}", here.trace_id(), here.span_id()))
}

/// Whether this is a W3C `traceparent` of version 00, the only version that is kept and recorded.
#[must_use]
pub fn valid_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut field = |length: usize| {
        parts.next().filter(|part| part.len() == length && part.bytes().all(lower_hex))
    };
    let (version, trace, span, flags) = (field(2), field(32), field(16), field(2));
    let some = |part: Option<&str>| part.is_some_and(|part| part.bytes().any(|b| b != b'0'));
    version == Some("00") && some(trace) && some(span) && flags.is_some() && parts.next().is_none()
}

const fn lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

fn parent(traceparent: &str) -> Option<Context> {
    let mut parts = Some(traceparent).filter(|text| valid_traceparent(text))?.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    let there = SpanContext::new(trace, span, flags, true, TraceState::default());
    Some(Context::new().with_remote_span_context(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_trace_context_of_version_00_is_kept() {
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(valid_traceparent(valid));
        for malformed in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        ] {
            assert!(!valid_traceparent(malformed), "{malformed}");
        }
    }
}
