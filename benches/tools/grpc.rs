//! A unary call of a gRPC service in this process: by a client of its own, and through the gate.

use std::path::Path;

use prost_reflect::DescriptorPool;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{FILE_DESCRIPTOR_SET, HealthCheckRequest};
use wicketgate::catalog::address::Cidr;
use wicketgate::catalog::binding::Kind;
use wicketgate::catalog::grpc::Grpc;
use wicketgate::catalog::host::Origin;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::tier::Tier;

use crate::turns::{Setup, binding};

fn kind(url: &str) -> Kind {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let service = pool.get_service_by_name("grpc.health.v1.Health").unwrap();
    let method = service.methods().find(|method| method.name() == "Check").unwrap();
    Kind::Grpc(Box::new(Grpc {
        origin: Origin::parse(url).unwrap().0,
        method,
        descriptors: Digest::of(&[FILE_DESCRIPTOR_SET]),
        metadata: Vec::new(),
        credentials: Vec::new(),
        request_bytes_max: 1 << 20,
        private_addresses: vec![Cidr::parse("127.0.0.1/32").unwrap()],
        ca: None,
    }))
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
    let client = HealthClient::new(channel);
    let setup = Setup::new(dir).await;
    setup.tools(vec![binding("t0", Tier::T0, kind(&url))]).await;
    let ask = async || {
        client.clone().check(HealthCheckRequest::default()).await.unwrap();
    };
    setup.by_turns("grpc, unary", "t0", "{}", ask).await;
    setup.gate.end().await;
}
