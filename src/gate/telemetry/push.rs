//! Sends the metrics to the collector, every 30 seconds and once at the end.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1;
use opentelemetry_sdk::Resource;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::export::{EXPORT_WITHIN, SCOPE};
use super::metrics::Metrics;
use super::openmetrics::{self, Times};
use crate::clock::{Clock as _, SystemClock};

const EVERY: Duration = Duration::from_secs(30);

/// The metrics that are sent: those of the gate that runs in this process.
#[derive(Clone, Debug, Default)]
pub struct MetricsSource(Arc<ArcSwapOption<Metrics>>);

impl MetricsSource {
    /// From now on, these are sent.
    pub fn set(&self, metrics: &Arc<Metrics>) {
        self.0.store(Some(Arc::clone(metrics)));
    }
}

/// The task that sends the metrics.
#[derive(Debug)]
pub(super) struct MetricsPush {
    stop: CancellationToken,
    /// Closed when the task ended.
    ended: mpsc::Receiver<()>,
}

impl MetricsPush {
    /// Starts the task on the runtime that is entered.
    pub fn start(
        channel: Channel,
        resource: &Resource,
        headers: &[(String, String)],
        source: MetricsSource,
    ) -> Self {
        let stop = CancellationToken::new();
        let (running, ended) = mpsc::sync_channel(1);
        let clock = SystemClock::new();
        let pusher = Pusher {
            client: MetricsServiceClient::new(channel),
            headers: metadata(headers),
            resource: resource.into(),
            source,
            began: nanos(&clock),
            clock,
            failed: false,
        };
        let pushing = pusher.run(stop.clone(), running);
        drop(tokio::runtime::Handle::current().spawn(pushing));
        Self { stop, ended }
    }

    /// Sends the metrics a last time.
    pub fn close(self, within: Duration) {
        self.stop.cancel();
        // Whether the task ended or the time did makes no difference: there is nothing left to do.
        self.ended.recv_timeout(within).ok();
    }
}

#[derive(Debug)]
struct Pusher {
    client: MetricsServiceClient<Channel>,
    headers: MetadataMap,
    resource: v1::Resource,
    source: MetricsSource,
    clock: SystemClock,
    /// Since when the metrics count, in nanoseconds since 1970.
    began: u64,
    /// Whether the last attempt failed; only a change is logged.
    failed: bool,
}

impl Pusher {
    async fn run(mut self, stop: CancellationToken, running: mpsc::SyncSender<()>) {
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = false;
        while !last {
            last = tokio::select! {
                biased;
                () = stop.cancelled() => true,
                _ = every.tick() => false,
            };
            self.push().await;
        }
        drop(running);
    }

    async fn push(&mut self) {
        let metrics = self.source.0.load_full();
        let Some(Ok(text)) = metrics.map(|metrics| metrics.text()) else { return };
        let mut request = Request::new(self.message(&text));
        *request.metadata_mut() = self.headers.clone();
        let sending = tokio::time::timeout(EXPORT_WITHIN, self.client.export(request));
        let sent = sending.await.unwrap_or_else(|_late| Err(Status::deadline_exceeded("")));
        let rejected = sent.as_ref().ok().and_then(|sent| sent.get_ref().partial_success.as_ref());
        let rejected = rejected.map_or(0, |partial| partial.rejected_data_points);
        let code = sent.as_ref().map_or_else(Status::code, |_| Code::Ok);
        let failed = sent.is_err() || rejected > 0;
        if failed && !self.failed {
            // WHY the code alone: the message is the collector's, and may repeat a credential.
            tracing::warn!(?code, rejected, "the collector did not take the metrics");
        }
        if self.failed && !failed {
            tracing::info!("the collector takes the metrics again");
        }
        self.failed = failed;
    }

    fn message(&self, text: &str) -> ExportMetricsServiceRequest {
        let times = Times { began: self.began, now: nanos(&self.clock) };
        let scope = InstrumentationScope { name: SCOPE.to_owned(), ..Default::default() };
        let metrics = ScopeMetrics {
            scope: Some(scope),
            metrics: openmetrics::metrics(text, times),
            schema_url: String::new(),
        };
        let resource_metrics = vec![ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics: vec![metrics],
            schema_url: String::new(),
        }];
        ExportMetricsServiceRequest { resource_metrics }
    }
}

/// Leaves out what gRPC cannot carry, as the SDK does for the other signals.
fn metadata(headers: &[(String, String)]) -> MetadataMap {
    let mut all = MetadataMap::new();
    for (name, value) in headers {
        let name = AsciiMetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes());
        let value = AsciiMetadataValue::try_from(value.as_str());
        if let (Ok(name), Ok(mut value)) = (name, value) {
            value.set_sensitive(true);
            all.insert(name, value);
        }
    }
    all
}

fn nanos(clock: &SystemClock) -> u64 {
    u64::try_from(clock.now().millis()).unwrap_or_default().saturating_mul(1_000_000)
}
