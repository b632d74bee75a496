use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::Status;
use wicketgate::catalog::address::Cidr;
use wicketgate::catalog::host::Origin;
use wicketgate::telemetry::Stage;
use wicketgate::telemetry::export::{CollectorDialer as _, Otlp, Signals};
use wicketgate::telemetry::setup;
use wicketgate::telemetry::trace::{self, Call};
use wicketgate::tool::net::{GrpcDialer, Resolve, TrustRoots};

use crate::collector::Collector;

fn texts(span: &Span) -> BTreeMap<String, String> {
    let text = |value: &Option<Value>| match value {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter();
    pairs.map(|kv| (kv.key.clone(), text(&kv.value.clone().unwrap().value))).collect()
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_is_one_trace_below_the_callers_span() {
    let collector = Collector::default();
    let dial = Arc::new(dial(&["127.0.0.1"], collector.serve(None).await.port(), &["127.0.0.0/8"]));
    let signals = Signals { logs: false, ..Signals::ALL };
    let service_name = "gate-under-test".to_owned();
    let otlp = Otlp { dial, service_name, signals, headers: Vec::new() };
    let guard = setup::init("off", true, Some(&otlp)).unwrap();
    let call = Call {
        tool: "tickets.create",
        call: "call-7",
        agent: "review",
        run: "run-1",
        traceparent: Some(PARENT),
    };
    let span = trace::call_span(&call);
    let ours = trace::traceparent(&span).unwrap();
    for stage in Stage::ALL.iter().copied() {
        drop(trace::stage_span(&span, stage));
    }
    trace::verdict(&span, "deny");
    trace::error(&span, "policy.denied");
    tracing::info!(parent: &span, arguments = "s3cret", "an event is a log line, not an attribute");
    drop(span);
    tokio::task::spawn_blocking(move || guard.flush()).await.unwrap();

    let spans = collector.spans();
    let root = spans.iter().find(|span| span.name == "execute_tool tickets.create").unwrap();
    assert_eq!(hex::encode(&root.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex::encode(&root.parent_span_id), "00f067aa0ba902b7");
    assert!(ours.contains(&hex::encode(&root.span_id)) && ours.ends_with("-01"));
    let said = texts(root);
    for (key, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "tickets.create"),
        ("gen_ai.tool.call.id", "call-7"),
        ("gen_ai.agent.name", "review"),
        ("wicketgate.run.id", "run-1"),
        ("wicketgate.verdict", "deny"),
        ("error.type", "policy.denied"),
    ] {
        assert_eq!(said.get(key).map(String::as_str), Some(value), "{key} in {said:?}");
    }
    assert_eq!(root.status.as_ref().unwrap().code, 2);
    let children: Vec<&str> = spans
        .iter()
        .filter(|span| span.parent_span_id == root.span_id)
        .map(|span| span.name.as_str())
        .collect();
    assert_eq!(children, ["prepare", "judge", "commit", "tool", "settle"]);
    assert_eq!(spans.len(), 6, "the exporter does not trace itself");
    assert!(!format!("{:?}", collector.traces.lock()).contains("s3cret"));
}

/// A resolver that gives these answers, one after another.
#[derive(Debug)]
struct Told(parking_lot::Mutex<Vec<&'static str>>);

#[tonic::async_trait]
impl Resolve for Told {
    async fn lookup(&self, _: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        let answer = self.0.lock().pop().ok_or(std::io::ErrorKind::NotFound)?;
        Ok(vec![SocketAddr::new(answer.parse().unwrap(), port)])
    }
}

/// The way to a collector by name, whose addresses are these, one after another.
fn dial(answers: &[&'static str], port: u16, open: &[&str]) -> GrpcDialer {
    let (origin, _) = Origin::parse(&format!("http://collector.test:{port}")).unwrap();
    let open: Vec<Cidr> = open.iter().map(|range| Cidr::parse(range).unwrap()).collect();
    let told = Told(parking_lot::Mutex::new(answers.iter().rev().copied().collect()));
    GrpcDialer::new(&origin, &open, &TrustRoots::of_http2(None).unwrap(), Arc::new(told)).unwrap()
}

async fn export(dial: &GrpcDialer) -> Result<(), Status> {
    let mut client = TraceServiceClient::new(dial.dial());
    client.export(ExportTraceServiceRequest::default()).await.map(drop)
}

/// Everything a status and what caused it say.
fn said(status: &Status) -> String {
    let mut text = status.to_string();
    let mut next = std::error::Error::source(status);
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_resolution_of_a_collectors_name_must_give_an_allowed_address() {
    let collector = Collector::default();
    let port = collector.serve(None).await.port();
    // Not opened: it is there and sees nothing.
    let refused = export(&dial(&["127.0.0.1"], port, &[])).await.unwrap_err();
    assert!(said(&refused).contains("an address that is not allowed"), "{refused:?}");
    let other = export(&dial(&["127.0.0.1"], port, &["10.0.0.0/8"])).await.unwrap_err();
    assert!(said(&other).contains("an address that is not allowed"), "{other:?}");
    assert!(collector.traces.lock().is_empty());
    // A name that leads elsewhere when it is asked for again is refused then.
    let moving = dial(&["127.0.0.1", "169.254.169.254"], port, &["127.0.0.0/8"]);
    export(&moving).await.unwrap();
    let refused = export(&moving).await.unwrap_err();
    assert!(said(&refused).contains("an address that is not allowed"), "{refused:?}");
    assert_eq!(collector.traces.lock().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_points_elsewhere_is_not_followed() {
    let collector = Collector::default();
    let elsewhere = collector.serve(None).await;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let heard = Arc::clone(&heard);
            let answer = service_fn(move |request: hyper::Request<Incoming>| {
                heard.lock().push(request.uri().to_string());
                let there = format!("http://{elsewhere}{}", request.uri().path());
                let moved = hyper::Response::builder().status(307).header("location", there);
                let moved = moved.body(String::new()).unwrap();
                async move { Ok::<_, Infallible>(moved) }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
        }
    });
    let refused = export(&dial(&["127.0.0.1"], port, &["127.0.0.0/8"])).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(asked.lock().len(), 1, "{asked:?}");
    assert!(asked.lock()[0].starts_with(&format!("http://collector.test:{port}/")), "{asked:?}");
    assert!(collector.traces.lock().is_empty());
}
