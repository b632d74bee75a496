//! Where traces, metrics and logs go: to the collector that is named, over the gate's own connector, and nowhere else.

use std::sync::Arc;

use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::ca::Ca;
use crate::collector::Collector;
use crate::sidecar::Estate;
use crate::tool::Tool;

/// A listener that counts who connects.
async fn canary() -> (u16, Arc<parking_lot::Mutex<u32>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(parking_lot::Mutex::new(0));
    let counted = Arc::clone(&seen);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            *counted.lock() += 1;
        }
    });
    (port, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_go_to_the_collector_that_is_named_whatever_the_environment_says() {
    let ca = Ca::new();
    ca.server("collector");
    let read = |name: &str| std::fs::read(ca.path(name)).unwrap();
    let identity = Identity::from_pem(read("collector.pem"), read("collector.key"));
    let tool = Tool::start().await;
    let (elsewhere, seen) = canary().await;
    for secure in [false, true] {
        let collector = Collector::default();
        let tls = secure.then(|| ServerTlsConfig::new().identity(identity.clone()));
        let port = collector.serve(tls).await.port();
        let estate = Estate::sqlite(&tool);
        estate.configure(|config| {
            let scheme = if secure { "https" } else { "http" };
            let mut otlp = json!({"endpoint": format!("{scheme}://127.0.0.1:{port}"),
                "private_addresses": ["127.0.0.0/8"]});
            if secure {
                otlp["ca_file"] = json!(ca.path("ca.pem"));
            }
            config["telemetry"]["otlp"] = otlp;
        });
        let there = format!("http://127.0.0.1:{elsewhere}");
        let names = [
            "http_proxy",
            "https_proxy",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "grpc_proxy",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        ];
        let mut words = vec!["env".to_owned()];
        words.extend(names.iter().map(|name| format!("{name}={there}")));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut sidecar = estate.start_under(&words);
        sidecar.ready().await;
        let agent = sidecar.open().await;
        agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
        // What was not sent yet is sent when it ends.
        sidecar.signal(Signal::TERM);
        sidecar.ends(0).await;
        let spans = collector.spans();
        assert!(spans.iter().any(|one| one.name == "execute_tool work.do"), "{secure}: {spans:?}");
        assert!(!collector.last_metrics().is_empty() && !collector.log_records().is_empty());
    }
    assert_eq!(*seen.lock(), 0);
    // It is alive: this is the first connection it sees.
    drop(tokio::net::TcpStream::connect(("127.0.0.1", elsewhere)).await.unwrap());
    crate::waiting::until("the canary to be alive", || async { *seen.lock() == 1 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_whose_address_is_not_open_is_a_reason_not_to_start() {
    let tool = Tool::start().await;
    for (otlp, place) in [
        (json!({"endpoint": "http://127.0.0.1:4317"}), "telemetry.otlp.endpoint"),
        (
            json!({"endpoint": "http://10.0.0.1:4317", "private_addresses": ["127.0.0.0/8"]}),
            "telemetry.otlp.endpoint",
        ),
        (json!({"endpoint": "https://otel.example.com/v1/traces"}), "telemetry.otlp.endpoint"),
        (
            json!({"endpoint": "https://otel.example.com", "private_addresses": ["home"]}),
            "telemetry.otlp.private_addresses",
        ),
        (
            json!({"endpoint": "https://otel.example.com", "ca_file": "none.pem"}),
            "telemetry.otlp.ca_file",
        ),
    ] {
        let estate = Estate::sqlite(&tool);
        estate.configure(|config| config["telemetry"]["otlp"] = otlp.clone());
        let mut sidecar = estate.start();
        sidecar.ends(78).await;
        assert!(sidecar.said().contains(place), "{otlp}: {}", sidecar.said());
    }
}
