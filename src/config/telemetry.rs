//! `telemetry`: how much is logged, and where traces, metrics and logs go.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::address::{Cidr, is_public};
use crate::catalog::form::{FilePath, WebAddress};
use crate::catalog::host::{Host, Origin};
use crate::catalog::web_url::unescaped;
use crate::telemetry::export::{self, Signals};
use crate::tool::net::{GrpcDialer, System, TrustRoots};

/// `telemetry`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The lowest severity that is logged.
    #[schemars(extend("enum" = ["error", "warn", "info", "debug", "trace"]))]
    pub log: String,
    /// Where traces, metrics and logs are sent over OTLP. Default: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<Otlp>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { log: "info".to_owned(), otlp: None }
    }
}

/// `telemetry.otlp`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// URL of the collector's gRPC port: scheme, host and port, no path.
    #[schemars(with = "WebAddress", example = "http://127.0.0.1:4317")]
    pub endpoint: String,
    /// Address ranges outside the public Internet that the collector may be reached at.
    #[serde(default)]
    #[schemars(length(max = 64), example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// Certificate authorities (PEM) to trust for https, instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
    /// What is sent: the spans of calls, the metrics of `/metrics`, the events of the log.
    #[serde(default = "Signal::all")]
    #[schemars(length(min = 1, max = 3))]
    pub signals: Vec<Signal>,
}

/// `telemetry.otlp.signals`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The spans of calls.
    Traces,
    /// The metrics that the operator listener shows, under the same names.
    Metrics,
    /// The events that are logged to standard error.
    Logs,
}

impl Signal {
    fn all() -> Vec<Self> {
        vec![Self::Traces, Self::Metrics, Self::Logs]
    }
}

impl Otlp {
    /// Everything that the exporter needs.
    ///
    /// # Errors
    /// The field that cannot be used, and why.
    pub fn exporter(&self) -> Result<export::Otlp, (&'static str, String)> {
        let sent = |signal| self.signals.contains(&signal);
        let signals = Signals {
            traces: sent(Signal::Traces),
            metrics: sent(Signal::Metrics),
            logs: sent(Signal::Logs),
        };
        let dial = Arc::new(self.open()?);
        let service_name = "wicketgate".to_owned();
        Ok(export::Otlp { dial, service_name, signals, headers: headers() })
    }

    /// The way to the collector, through the one outbound connector.
    ///
    /// # Errors
    /// The field that cannot be used, and why.
    pub fn open(&self) -> Result<GrpcDialer, (&'static str, String)> {
        let invalid = |field: &'static str| move |why: String| (field, why);
        let (origin, path) =
            Origin::parse(&self.endpoint).map_err(|e| invalid("endpoint")(e.to_string()))?;
        if path != "/" {
            return Err(invalid("endpoint")(
                "leave the path out: expected scheme, host and port".into(),
            ));
        }
        let open = self.private_addresses.iter().map(|range| Cidr::parse(range));
        let open = open
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| invalid("private_addresses")(e.to_string()))?;
        if let Host::Ip(ip) = &origin.host
            && !is_public(*ip)
            && !open.iter().any(|range| range.contains(*ip))
        {
            let why =
                format!("`{ip}` is not a public address: add its range to `private_addresses`");
            return Err(invalid("endpoint")(why));
        }
        let ca = self.ca_file.as_ref().map(|path| {
            std::fs::read(path)
                .map_err(|e| invalid("ca_file")(format!("`{}`: {e}", path.display())))
        });
        let trust = TrustRoots::of_http2(ca.transpose()?.as_deref());
        let trust = trust.map_err(|e| invalid("ca_file")(e.to_string()))?;
        let dial = GrpcDialer::new(&origin, &open, &trust, Arc::new(System));
        dial.map_err(|e| invalid("endpoint")(e.to_string()))
    }
}

/// The metadata of requests that carry metrics, from the variables that OpenTelemetry defines. The
/// SDK reads those of the other signals.
fn headers() -> Vec<(String, String)> {
    let of = |name: &str| super::environment(name).filter(|text| !text.is_empty());
    let text =
        of("OTEL_EXPORTER_OTLP_METRICS_HEADERS").or_else(|| of("OTEL_EXPORTER_OTLP_HEADERS"));
    let pairs = text.iter().flat_map(|text| text.split(','));
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), unescaped(value.trim()))).collect()
}

/// Checks beyond the schema: a collector that could never be reached.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    // The schema check has reported a wrong shape already.
    let read = config.pointer("/telemetry/otlp").and_then(|otlp| Otlp::deserialize(otlp).ok());
    let error = read.and_then(|otlp| otlp.open().err());
    let at = |field: &str| format!("/telemetry/otlp/{field}");
    error.map(|(field, why)| (at(field), why)).into_iter().collect()
}
