//! Logs to standard error and, if a collector is configured, everything that it is sent.

use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::filter::{EnvFilter, FilterFn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry};

use super::export::{Exporter, Otlp};
use super::push::MetricsSource;
use super::trace::TARGET;

/// Why logs or telemetry cannot be set up.
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
    #[error("cannot export telemetry: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The exporter's thread cannot be started.
    #[error("cannot start the exporter: {0}")]
    Runtime(#[from] io::Error),
    /// A logger is installed already.
    #[error("logging is set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Exports telemetry until it is dropped.
#[derive(Debug)]
#[must_use = "telemetry that was not sent is lost when this is dropped"]
pub struct TelemetryGuard {
    exporter: Option<Exporter>,
    metrics: MetricsSource,
}

impl TelemetryGuard {
    /// Takes the metrics that are exported. Without a collector no code reads them.
    pub fn metrics(&self) -> MetricsSource {
        self.metrics.clone()
    }

    /// Sends what was not sent yet, for at most 3 seconds. Blocks, so do not call it from a task.
    pub fn flush(mut self) {
        self.close();
    }

    fn close(&mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.close();
        }
    }
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sets up logs at the levels in `log` (`info,wicketgate=debug`), as JSON lines or as text, and the
/// export to a collector if one is configured. The collector gets the events that standard error
/// gets.
///
/// Text is coloured only on a terminal and not when `NO_COLOR` is set; control characters of values
/// are escaped, so one event is one line.
///
/// # Errors
/// The filter or the endpoint cannot be read, or a logger is installed already.
pub fn init(log: &str, json: bool, otlp: Option<&Otlp>) -> Result<TelemetryGuard, Error> {
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
    let metrics = MetricsSource::default();
    let exporter = otlp.map(|otlp| Exporter::new(otlp, &metrics)).transpose()?;
    // WHY: only the gate's own spans; the exporter's connection must not trace itself.
    let traces = exporter.as_ref().and_then(Exporter::tracer).map(|tracer| {
        tracing_opentelemetry::layer::<Layered>()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_filter(FilterFn::new(|meta| meta.is_span() && meta.target() == TARGET))
    });
    let exported = exporter.as_ref().and_then(Exporter::log_bridge);
    let exported = exported.map(|bridge| bridge.with_filter(filter.clone()));
    let logs = tracing_subscriber::registry().with(logs.with_filter(filter));
    // WHY this order: a log record takes its trace from the span that the layer of traces entered.
    logs.with(traces).with(exported).try_init()?;
    Ok(TelemetryGuard { exporter, metrics })
}

type Layered = tracing_subscriber::layer::Layered<Filtered, Registry>;
type Filtered = tracing_subscriber::filter::Filtered<
    Box<dyn tracing_subscriber::Layer<Registry> + Send + Sync>,
    EnvFilter,
    Registry,
>;

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

    #[test]
    fn one_event_is_one_line() {
        assert_eq!(one_line("a\nb\tc\u{1b}[2J\n", false), "a\\u{a}b\\u{9}c\\u{1b}[2J\n");
        assert_eq!(one_line("\u{1b}[32mok\u{1b}[0m\n", true), "\u{1b}[32mok\u{1b}[0m\n");
        assert_eq!(one_line("\u{9b}31m", true), "\\u{9b}31m");
    }
}
