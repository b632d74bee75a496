//! An OpenTelemetry collector on loopback that keeps what it is sent.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataMap;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
pub struct Collector {
    pub traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    pub metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
    pub logs: Arc<Mutex<Vec<ExportLogsServiceRequest>>>,
    /// The metadata of every request.
    pub headers: Arc<Mutex<Vec<MetadataMap>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.headers.lock().push(request.metadata().clone());
        self.traces.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.headers.lock().push(request.metadata().clone());
        self.metrics.lock().push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Collector {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.headers.lock().push(request.metadata().clone());
        self.logs.lock().push(request.into_inner());
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

impl Collector {
    /// Listens, over TLS if there is any.
    pub async fn serve(&self, tls: Option<ServerTlsConfig>) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let server = server
            .add_service(TraceServiceServer::new(self.clone()))
            .add_service(MetricsServiceServer::new(self.clone()))
            .add_service(LogsServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    /// Every span it was sent.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.traces.lock();
        let resources = requests.iter().flat_map(|request| request.resource_spans.clone());
        resources.flat_map(|r| r.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// The span of this name.
    pub fn span(&self, name: &str) -> Span {
        let spans = self.spans();
        let found = spans.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no span `{name}` in {spans:?}")).clone()
    }

    /// The metrics it was sent last.
    pub fn last_metrics(&self) -> Vec<Metric> {
        let requests = self.metrics.lock();
        let resources = requests.last().into_iter().flat_map(|last| last.resource_metrics.clone());
        resources.flat_map(|r| r.scope_metrics).flat_map(|scope| scope.metrics).collect()
    }

    /// Every log record it was sent.
    pub fn log_records(&self) -> Vec<LogRecord> {
        let requests = self.logs.lock();
        let resources = requests.iter().flat_map(|request| request.resource_logs.clone());
        resources.flat_map(|r| r.scope_logs).flat_map(|scope| scope.log_records).collect()
    }
}

/// The value of an attribute, as text.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(text(found.value.as_ref().and_then(|value| value.value.as_ref())))
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::ArrayValue(list)) => {
            list.values.iter().map(|item| text(item.value.as_ref())).collect::<Vec<_>>().join(",")
        }
        other => format!("{other:?}"),
    }
}

/// Every series of these metrics, as Prometheus writes it: `name{label="value"}`. Of a histogram, its
/// buckets, its sum and its count.
pub fn series(metrics: &[Metric]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for metric in metrics {
        let name = &metric.name;
        match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => {
                all.extend(gauge.data_points.iter().map(|p| one(name, &p.attributes, None)));
            }
            Data::Sum(sum) => {
                all.extend(sum.data_points.iter().map(|p| one(name, &p.attributes, None)));
            }
            Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    let of =
                        |suffix: &str| one(&format!("{name}_{suffix}"), &point.attributes, None);
                    all.extend([of("sum"), of("count")]);
                    let bounds = point.explicit_bounds.iter().chain([&f64::INFINITY]);
                    let bucket = format!("{name}_bucket");
                    all.extend(bounds.map(|bound| one(&bucket, &point.attributes, Some(*bound))));
                }
            }
            other @ (Data::ExponentialHistogram(_) | Data::Summary(_)) => panic!("{other:?}"),
        }
    }
    all
}

/// Every series of a page of metrics, in the same form.
pub fn series_of_text(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| line.starts_with("wicketgate_"));
    let mut all = BTreeSet::new();
    for line in lines {
        let (series, _value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let mut pairs: Vec<String> = Vec::new();
        let mut bound = None;
        for pair in labels.trim_end_matches('}').split(',').filter(|pair| !pair.is_empty()) {
            match pair.strip_prefix("le=\"") {
                Some(text) => bound = Some(text.trim_end_matches('"')),
                None => pairs.push(pair.to_owned()),
            }
        }
        pairs.extend(bound.map(|text| bounded(text.trim_start_matches('+').parse().unwrap())));
        all.insert(format!("{name}{{{}}}", pairs.join(",")));
    }
    all
}

fn one(name: &str, labels: &[KeyValue], bound: Option<f64>) -> String {
    let mut pairs: Vec<String> = labels
        .iter()
        .map(|label| {
            let value = label.value.as_ref().and_then(|value| value.value.as_ref());
            format!("{}=\"{}\"", label.key, text(value))
        })
        .collect();
    pairs.extend(bound.map(bounded));
    format!("{name}{{{}}}", pairs.join(","))
}

fn bounded(bound: f64) -> String {
    format!("le=\"{bound}\"")
}
