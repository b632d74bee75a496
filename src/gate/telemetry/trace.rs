//! Logs to standard error and, if configured, traces to an OpenTelemetry collector.
//!
//! Span and attribute names follow the GenAI semantic conventions. There is one trace per call: a root
//! `execute_tool {tool}` and a child for each stage of the road. No argument, result or credential is
//! ever an attribute.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tonic::transport::Channel;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry};

use super::Stage;

/// `allow`, `deny` or `require_approval`.
pub const VERDICT: &str = "wicketgate.verdict";
/// The stable code of the error.
pub const ERROR_TYPE: &str = "error.type";
/// The operation of every root span.
pub const EXECUTE_TOOL: &str = "execute_tool";

const EXPORT_WITHIN: Duration = Duration::from_secs(5);
const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// Port to a collector. `tool::net` implements it; this module opens no connection itself.
pub trait CollectorDialer: Send + Sync + std::fmt::Debug {
    /// A channel that connects on first use and reconnects after a loss. Called on the exporter's
    /// own runtime.
    fn dial(&self) -> Channel;
}

/// Where traces go, over OTLP/gRPC.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// Connects to the collector.
    pub dial: Arc<dyn CollectorDialer>,
    /// `service.name` of this process.
    pub service_name: String,
}

/// Why logs or traces cannot be set up.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// The filter cannot be read.
    #[error("cannot read log filter `{filter}`: {source}")]
    Filter {
        /// The filter, as configured.
        filter: String,
        /// The parser's error.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The exporter cannot be built.
    #[error("cannot export traces: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The exporter's thread cannot be started.
    #[error("cannot start the exporter: {0}")]
    Runtime(#[from] io::Error),
    /// A logger is installed already.
    #[error("logging is set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Exports traces until it is dropped.
#[derive(Debug)]
#[must_use = "spans that were not sent are lost when this is dropped"]
pub struct TraceGuard {
    exporter: Option<Exporter>,
}

impl TraceGuard {
    /// Sends pending spans, for at most 3 seconds. Blocks, so do not call it from a task.
    pub fn flush(mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.close(FLUSH_WITHIN);
        }
    }
}

impl Drop for TraceGuard {
    fn drop(&mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.close(FLUSH_WITHIN);
        }
    }
}

/// The exporter, on a thread of its own: it shares nothing with the road.
#[derive(Debug)]
struct Exporter {
    provider: SdkTracerProvider,
    runtime: tokio::runtime::Runtime,
}

impl Exporter {
    fn new(otlp: &Otlp) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp")
            .enable_all()
            .build()?;
        let entered = runtime.enter();
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_channel(otlp.dial.dial())
            .with_timeout(EXPORT_WITHIN)
            .build()?;
        drop(entered);
        let resource = Resource::builder_empty()
            .with_service_name(otlp.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Self { provider, runtime })
    }

    fn close(self, within: Duration) {
        // A collector that is down loses spans and does not delay the shutdown.
        let _ = self.provider.shutdown_with_timeout(within);
        self.runtime.shutdown_background();
    }
}

/// Sets up logs at the levels in `log` (`info,wicketgate=debug`), as JSON lines or as text, and
/// traces if a collector is configured.
///
/// Text is coloured only on a terminal and not when `NO_COLOR` is set; control characters of values
/// are escaped, so one event is one line.
///
/// # Errors
/// The filter or the endpoint cannot be read, or a logger is installed already.
pub fn init(log: &str, json: bool, otlp: Option<&Otlp>) -> Result<TraceGuard, Error> {
    // WHY: the spans of calls are for collectors. If logs subscribed to them too, every call would
    // pay for six spans that no log shows.
    let filter = EnvFilter::try_new(format!("{log},{TARGET}=off"))
        .map_err(|source| Error::Filter { filter: log.to_owned(), source })?;
    let terminal = io::stderr().is_terminal();
    let writer = StderrLines { terminal: terminal && !json };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let logs = match (json, terminal) {
        (true, _) => layer.json().with_current_span(false).with_span_list(false).boxed(),
        // WHY: with_ansi(true) would overrule NO_COLOR, which the layer reads by itself.
        (false, true) => layer.boxed(),
        (false, false) => layer.with_ansi(false).boxed(),
    };
    let exporter = otlp.map(Exporter::new).transpose()?;
    // WHY: only the gate's own spans; the exporter's connection must not trace itself.
    let traces = exporter.as_ref().map(|exporter| {
        tracing_opentelemetry::layer::<Layered>()
            .with_tracer(exporter.provider.tracer("wicketgate"))
            .with_location(false)
            .with_threads(false)
            .with_filter(FilterFn::new(|meta| meta.is_span() && meta.target() == TARGET))
    });
    tracing_subscriber::registry().with(logs.with_filter(filter)).with(traces).try_init()?;
    Ok(TraceGuard { exporter })
}

type Layered = tracing_subscriber::layer::Layered<Filtered, Registry>;
type Filtered = tracing_subscriber::filter::Filtered<
    Box<dyn tracing_subscriber::Layer<Registry> + Send + Sync>,
    EnvFilter,
    Registry,
>;

/// Target of every span that is exported.
const TARGET: &str = "wicketgate::call";

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

/// Records the verdict on a call's root span.
pub fn verdict(call: &Span, verdict: &'static str) {
    call.record(VERDICT, verdict);
}

/// Records an error code on a call's root span.
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

/// Writes each event to standard error on one line.
#[derive(Clone, Copy, Debug)]
struct StderrLines {
    terminal: bool,
}

impl<'a> MakeWriter<'a> for StderrLines {
    type Writer = EventWriter;

    fn make_writer(&'a self) -> EventWriter {
        EventWriter { terminal: self.terminal }
    }
}

/// Writes one event.
#[derive(Debug)]
struct EventWriter {
    terminal: bool,
}

impl Write for EventWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().lock().write_all(one_line(&text, self.terminal).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// The text with control characters escaped, except for the newline at its end.
///
/// Colours are escape sequences too: on a terminal they pass, because the formatter has already
/// escaped those inside values.
fn one_line(text: &str, terminal: bool) -> String {
    let (body, end) = text.strip_suffix('\n').map_or((text, ""), |body| (body, "\n"));
    let mut line = String::with_capacity(text.len());
    for character in body.chars() {
        if character.is_control() && !(terminal && character == '\u{1b}') {
            line.extend(character.escape_unicode());
        } else {
            line.push(character);
        }
    }
    line + end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects without the gate's own checks.
    #[derive(Debug)]
    struct Plain(String);

    impl CollectorDialer for Plain {
        fn dial(&self) -> Channel {
            Channel::from_shared(self.0.clone()).unwrap().connect_lazy()
        }
    }

    #[test]
    fn one_event_is_one_line() {
        assert_eq!(one_line("a\nb\tc\u{1b}[2J\n", false), "a\\u{a}b\\u{9}c\\u{1b}[2J\n");
        assert_eq!(one_line("\u{1b}[32mok\u{1b}[0m\n", true), "\u{1b}[32mok\u{1b}[0m\n");
        assert_eq!(one_line("\u{9b}31m", true), "\\u{9b}31m");
    }

    #[test]
    fn a_collector_that_is_down_costs_spans_and_nothing_else() {
        use opentelemetry::trace::Tracer as _;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let dial = Arc::new(Plain(endpoint));
        let otlp = Otlp { dial, service_name: "test".into() };
        let exporter = Exporter::new(&otlp).unwrap();
        let tracer = exporter.provider.tracer("test");
        // Far more spans than the queue holds: starting and ending spans never waits for room.
        for _ in 0..20_000 {
            drop(tracer.start("call"));
        }
        exporter.close(Duration::from_millis(50));
    }

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
