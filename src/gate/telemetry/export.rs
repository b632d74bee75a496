//! Traces, metrics and logs to an OpenTelemetry collector, over OTLP/gRPC.
//!
//! The exporter has a runtime, a connection and threads of its own: it shares nothing with the road.
//! Its queues are bounded; a collector that is down loses what does not fit.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, ContextGuard, KeyValue};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use super::push::{MetricsPush, MetricsSource};
use super::setup::Error;

/// How long one attempt to send may take.
pub(super) const EXPORT_WITHIN: Duration = Duration::from_secs(5);
const FLUSH_WITHIN: Duration = Duration::from_secs(3);
/// The name under which spans and metrics are sent.
pub(super) const SCOPE: &str = "wicketgate";

/// Port to a collector. `tool::net` implements it; this module opens no connection itself.
pub trait CollectorDialer: Send + Sync + std::fmt::Debug {
    /// A channel that connects on first use and reconnects after a loss. Called on the exporter's
    /// own runtime.
    fn dial(&self) -> Channel;
}

/// What is sent to the collector, over OTLP/gRPC.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// Connects to the collector.
    pub dial: Arc<dyn CollectorDialer>,
    /// `service.name` of this process.
    pub service_name: String,
    /// What is sent.
    pub signals: Signals,
    /// Metadata of the requests that carry metrics, by name. The SDK reads that of traces and logs
    /// from the environment by itself.
    pub headers: Vec<(String, String)>,
}

/// Which kinds of telemetry are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signals {
    /// The spans of calls.
    pub traces: bool,
    /// What `/metrics` shows.
    pub metrics: bool,
    /// What standard error shows.
    pub logs: bool,
}

impl Signals {
    /// Everything.
    pub const ALL: Self = Self { traces: true, metrics: true, logs: true };
}

/// The exporter of every signal that is sent.
#[derive(Debug)]
pub(super) struct Exporter {
    traces: Option<SdkTracerProvider>,
    logs: Option<SdkLoggerProvider>,
    metrics: Option<MetricsPush>,
    runtime: Runtime,
}

thread_local! {
    /// Held by the threads of the exporter's runtime for as long as they live.
    static SILENCE: Cell<Option<ContextGuard>> = const { Cell::new(None) };
}

impl Exporter {
    pub fn new(otlp: &Otlp, source: &MetricsSource) -> Result<Self, Error> {
        let runtime = runtime()?;
        let entered = runtime.enter();
        let channel = otlp.dial.dial();
        let resource = Resource::builder_empty()
            .with_service_name(otlp.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let Signals { traces, metrics, logs } = otlp.signals;
        let traces = traces.then(|| span_provider(channel.clone(), &resource)).transpose()?;
        let logs = logs.then(|| log_provider(channel.clone(), &resource)).transpose()?;
        let metrics =
            metrics.then(|| MetricsPush::start(channel, &resource, &otlp.headers, source.clone()));
        drop(entered);
        Ok(Self { traces, logs, metrics, runtime })
    }

    /// Makes spans, if they are sent.
    pub fn tracer(&self) -> Option<SdkTracer> {
        self.traces.as_ref().map(|provider| provider.tracer(SCOPE))
    }

    /// Takes log events, if they are sent.
    pub fn log_bridge(&self) -> Option<OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>> {
        self.logs.as_ref().map(OpenTelemetryTracingBridge::new)
    }

    /// Sends what was not sent yet, each signal for at most 3 seconds and all at once.
    pub fn close(self) {
        self.close_within(FLUSH_WITHIN);
    }

    fn close_within(self, within: Duration) {
        let Self { traces, logs, metrics, runtime } = self;
        // A collector that is down loses telemetry and does not delay the shutdown. A thread that
        // cannot be started loses that of its signal.
        let spans = traces.map(|traces| beside(move || traces.shutdown_with_timeout(within)));
        let lines = logs.map(|logs| beside(move || logs.shutdown_with_timeout(within)));
        if let Some(metrics) = metrics {
            metrics.close(within);
        }
        for closing in [spans, lines].into_iter().flatten().flatten() {
            drop(closing.join());
        }
        runtime.shutdown_background();
    }
}

fn beside(
    close: impl FnOnce() -> OTelSdkResult + Send + 'static,
) -> io::Result<JoinHandle<OTelSdkResult>> {
    thread::Builder::new().spawn(close)
}

/// The runtime of the connection to the collector.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("otlp")
        .enable_all()
        // WHY: at level `debug` the connection writes log lines of its own. If they were sent too,
        // every line that is sent would make the next ones.
        .on_thread_start(|| SILENCE.set(Some(Context::enter_telemetry_suppressed_scope())))
        .on_thread_stop(|| drop(SILENCE.take()))
        .build()
}

fn span_provider(channel: Channel, resource: &Resource) -> Result<SdkTracerProvider, Error> {
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_channel(channel)
        .with_timeout(EXPORT_WITHIN)
        .build()?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter);
    Ok(provider.with_resource(resource.clone()).build())
}

fn log_provider(channel: Channel, resource: &Resource) -> Result<SdkLoggerProvider, Error> {
    let exporter = LogExporter::builder()
        .with_tonic()
        .with_channel(channel)
        .with_timeout(EXPORT_WITHIN)
        .build()?;
    let provider = SdkLoggerProvider::builder().with_batch_exporter(exporter);
    Ok(provider.with_resource(resource.clone()).build())
}

#[cfg(test)]
mod tests {
    use opentelemetry::logs::{LogRecord as _, Logger as _, LoggerProvider as _};
    use opentelemetry::trace::Tracer as _;

    use super::*;
    use crate::telemetry::metrics::Metrics;

    /// Connects without the gate's own checks.
    #[derive(Debug)]
    struct Plain(String);

    impl CollectorDialer for Plain {
        fn dial(&self) -> Channel {
            Channel::from_shared(self.0.clone()).unwrap().connect_lazy()
        }
    }

    #[test]
    fn a_collector_that_is_down_costs_telemetry_and_nothing_else() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let (dial, service_name) = (Arc::new(Plain(endpoint)), "test".to_owned());
        let otlp = Otlp { dial, service_name, signals: Signals::ALL, headers: Vec::new() };
        let source = MetricsSource::default();
        source.set(&Arc::new(Metrics::new([], "1", "abc")));
        let exporter = Exporter::new(&otlp, &source).unwrap();
        let tracer = exporter.tracer().unwrap();
        let logger = exporter.logs.as_ref().unwrap().logger("test");
        // Far more than the queues hold: no span and no record waits for room.
        for _ in 0..20_000 {
            drop(tracer.start("call"));
            let mut record = logger.create_log_record();
            record.set_body("call decided".into());
            logger.emit(record);
        }
        exporter.close_within(Duration::from_millis(50));
    }

    #[test]
    fn the_threads_of_the_connection_send_no_log_lines_of_their_own() {
        let runtime = runtime().unwrap();
        let task = runtime.spawn(async { Context::is_current_telemetry_suppressed() });
        assert!(runtime.block_on(task).unwrap());
        assert!(!Context::is_current_telemetry_suppressed());
        runtime.shutdown_background();
    }
}
