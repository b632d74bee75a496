//! A unary call of a gRPC service in this process: by a client of its own, and through the gate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prost_reflect::DescriptorPool;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{FILE_DESCRIPTOR_SET, HealthCheckRequest};
use wicketgate::catalog::Binding;
use wicketgate::catalog::address::Cidr;
use wicketgate::catalog::binding::Kind;
use wicketgate::catalog::grpc::Grpc;
use wicketgate::catalog::host::Origin;
use wicketgate::catalog::schema::Schema;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::tier::Tier;
use wicketgate::enforce::Bounds;
use wicketgate::ledger::sqlite::Sqlite;
use wicketgate::tool::Toolbox;
use wicketgate::tool::mcp::Upstreams;

use crate::files::median;
use crate::road::Gate;

const CALLS: usize = 500;

/// The harness grants this name.
fn binding(url: &str) -> Binding {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let service = pool.get_service_by_name("grpc.health.v1.Health").unwrap();
    let method = service.methods().find(|method| method.name() == "Check").unwrap();
    let grpc = Grpc {
        origin: Origin::parse(url).unwrap().0,
        method,
        descriptors: Digest::of(&[FILE_DESCRIPTOR_SET]),
        metadata: Vec::new(),
        credentials: Vec::new(),
        request_bytes_max: 1 << 20,
        private_addresses: vec![Cidr::parse("127.0.0.1/32").unwrap()],
        ca: None,
    };
    Binding {
        name: ToolName::parse("t0").unwrap(),
        description: "asks how a service is".into(),
        schema: Schema::parse(br#"{"type":"object","additionalProperties":true}"#).unwrap(),
        kind: Kind::Grpc(Box::new(grpc)),
        tier: Tier::T0,
        read_only: true,
        idempotent: true,
        timeout: Duration::from_secs(10),
        result_bytes_max: 1 << 20,
        cost_micro_usd: None,
        shown: None,
        definition: Digest::of(&[b"grpc"]),
    }
}

/// Prints one line.
pub async fn measure(dir: &Path) {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    let channel = tonic::transport::Endpoint::new(url.clone()).unwrap().connect().await.unwrap();
    let mut client = HealthClient::new(channel);
    let dir = tempfile::tempdir_in(dir).unwrap();
    let store = Arc::new(Sqlite::open(&dir.path().join("ledger.sqlite")).await.unwrap());
    let gate = Gate::over(store, Bounds::default(), &Arc::new(AtomicU64::new(0))).await;
    let toolbox = Toolbox::build(vec![binding(&url)], &Upstreams::new(&[])).unwrap();
    gate.road.set_toolbox(toolbox).await.unwrap();
    let run = gate.run().await;
    let (mut alone, mut through) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let began = Instant::now();
        client.check(HealthCheckRequest::default()).await.unwrap();
        alone.push(began.elapsed());
        let began = Instant::now();
        gate.call_tool(&run, "t0", "{}").await.unwrap();
        through.push(began.elapsed());
    }
    let (alone, through) = (median(alone), median(through));
    println!(
        "{:<14} {:>13}   alone {alone:>7.3} ms   through the gate {through:>7.3} ms   added {:.3} ms",
        "grpc",
        "unary",
        through - alone
    );
    gate.end().await;
}
