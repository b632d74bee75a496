use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use wicketgate::telemetry::Stage;
use wicketgate::telemetry::trace::{self, Call, Otlp};

#[derive(Clone, Default)]
struct Collector(Arc<parking_lot::Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock();
        let resources = requests.iter().flat_map(|request| request.resource_spans.clone());
        resources.flat_map(|r| r.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

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
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let service = TraceServiceServer::new(collector.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));

    let otlp = Otlp { endpoint, service_name: "gate-under-test".into() };
    let guard = trace::init("off", true, Some(&otlp)).unwrap();
    let call = Call {
        tool: "tickets.create",
        call: "call-7",
        agent: "review",
        run: "run-1",
        traceparent: Some(PARENT),
    };
    let span = trace::call_span(&call);
    let ours = trace::traceparent(&span).unwrap();
    for stage in Stage::ALL {
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
    assert!(!format!("{:?}", collector.0.lock()).contains("s3cret"));
}
