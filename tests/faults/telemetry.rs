//! What reaches a collector: the metrics of `/metrics`, the lines of the log, the spans of calls; and what a collector
//! that does not work does to calls.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use rustix::process::Signal;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use wicketgate_support::ports::Port;

use crate::collector::{Collector, attribute, series, series_of_text};
use crate::sidecar::Estate;
use crate::tool::Tool;

/// An estate whose collector is at this port of this machine.
fn estate(tool: &Tool, port: u16, more: &Json) -> Estate {
    let estate = Estate::sqlite(tool);
    estate.configure(|config| {
        let mut otlp = json!({"endpoint": format!("http://127.0.0.1:{port}"),
            "private_addresses": ["127.0.0.0/8"]});
        let more = more.as_object().unwrap().clone();
        otlp.as_object_mut().unwrap().extend(more);
        config["telemetry"]["otlp"] = otlp;
    });
    estate
}

/// Serves one call and ends; what `/metrics` showed after the call.
async fn one_call(estate: &Estate, before: &[&str]) -> String {
    let mut sidecar = estate.start_under(before);
    sidecar.ready().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1,"s":"p4yload"}"#).await.unwrap();
    let page = sidecar.metrics().await;
    sidecar.signal(Signal::TERM);
    sidecar.ends(0).await;
    page
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_the_names_labels_and_values_that_prometheus_reads() {
    let tool = Tool::start().await;
    let collector = Collector::default();
    let estate = estate(&tool, collector.serve(None).await.port(), &json!({}));
    let page = one_call(&estate, &[]).await;
    let metrics = collector.last_metrics();
    let (sent, shown) = (series(&metrics), series_of_text(&page));
    let missing: Vec<_> = shown.difference(&sent).collect();
    assert_eq!(missing, Vec::<&String>::new());
    let name = |series: &String| series.split('{').next().unwrap().to_owned();
    let names = |all: &BTreeSet<String>| all.iter().map(name).collect::<BTreeSet<_>>();
    assert_eq!(names(&sent), names(&shown));

    let calls = metrics.iter().find(|metric| metric.name == "wicketgate_calls_total").unwrap();
    let Some(Data::Sum(calls)) = &calls.data else { panic!("{calls:?}") };
    assert!(calls.is_monotonic);
    let [calls] = calls.data_points.as_slice() else { panic!("{calls:?}") };
    assert_eq!(calls.value, Some(number_data_point::Value::AsInt(1)));
    assert_eq!(attribute(&calls.attributes, "tool").unwrap(), "work.do");
    assert!(calls.start_time_unix_nano < calls.time_unix_nano);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_a_log_record_in_the_trace_of_its_call_without_its_arguments() {
    let tool = Tool::start().await;
    let collector = Collector::default();
    let estate = estate(&tool, collector.serve(None).await.port(), &json!({}));
    one_call(&estate, &[]).await;
    let records = collector.log_records();
    let said = |text: &str| {
        let body = Some(Value::StringValue(text.to_owned()));
        records.iter().find(|one| one.body.as_ref().and_then(|body| body.value.clone()) == body)
    };
    let decided = said("call decided").unwrap_or_else(|| panic!("{records:?}"));
    let field = |name: &str| attribute(&decided.attributes, name);
    assert_eq!(field("tool").as_deref(), Some("work.do"));
    assert_eq!(field("verdict").as_deref(), Some("allow"));
    assert_eq!(decided.severity_text, "INFO");
    let span = collector.span("execute_tool work.do");
    assert_eq!((&decided.trace_id, &decided.span_id), (&span.trace_id, &span.span_id));
    assert!(!format!("{:?}", collector.logs.lock()).contains("p4yload"));
    // The level of the log holds for the collector too.
    assert!(
        records.iter().all(|one| one.severity_number >= decided.severity_number),
        "{records:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_signals_that_are_named_are_sent() {
    let tool = Tool::start().await;
    for signal in ["traces", "metrics", "logs"] {
        let collector = Collector::default();
        let more = json!({"signals": [signal]});
        let estate = estate(&tool, collector.serve(None).await.port(), &more);
        one_call(&estate, &["env", "OTEL_EXPORTER_OTLP_HEADERS=x-tenant=a%20b"]).await;
        let sent = [
            ("traces", !collector.traces.lock().is_empty()),
            ("metrics", !collector.metrics.lock().is_empty()),
            ("logs", !collector.logs.lock().is_empty()),
        ];
        assert_eq!(
            sent.map(|(name, any)| any == (name == signal)),
            [true; 3],
            "{signal}: {sent:?}"
        );
        let headers = collector.headers.lock();
        assert!(headers.iter().all(|all| all.get("x-tenant").unwrap() == "a b"), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_signal_and_an_unknown_one_are_reasons_not_to_start() {
    let tool = Tool::start().await;
    for signals in [json!([]), json!(["profiles"])] {
        let estate = estate(&tool, 4317, &json!({"signals": signals}));
        let mut sidecar = estate.start();
        sidecar.ends(78).await;
        assert!(sidecar.said().contains("telemetry.otlp.signals"), "{}", sidecar.said());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_off_or_never_answers_fails_no_call_and_no_end() {
    let tool = Tool::start().await;
    let off = Port::claim();
    // Connections wait in its backlog and are never accepted.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    for port in [off.number(), silent.local_addr().unwrap().port()] {
        one_call(&estate(&tool, port, &json!({})), &[]).await;
    }
    assert_eq!(tool.count(), 2);
}
