//! TLS by a stock `openssl` authority, and addresses that are not opened.

use serde_json::json;

use crate::ca::Ca;
use crate::world::{Service, World, tool};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_believed_by_its_authority_and_by_no_other() {
    let (ca, other) = (Ca::new(), Ca::new());
    ca.server("server");
    let service = Service::secure(&ca.path("server.pem"), &ca.path("server.key"));
    let secure = |name: &str, host: &str, authority: Option<&str>| {
        let mut tool = tool(name, service.port, "Act");
        tool["grpc"]["url"] = json!(format!("https://{host}:{}", service.port));
        if let Some(authority) = authority {
            tool["grpc"]["ca_file"] = json!(authority);
        }
        tool
    };
    let right = ca.shown("ca.pem");
    let wrong = other.shown("ca.pem");
    let mut clear = tool("orders.clear", service.port, "Act");
    clear["timeout_ms"] = json!(4000);
    let tools = vec![
        secure("orders.right", "127.0.0.1", Some(&right)),
        secure("orders.named", "localhost", Some(&right)),
        secure("orders.wrong", "127.0.0.1", Some(&wrong)),
        secure("orders.public", "127.0.0.1", None),
        clear,
    ];
    let world = World::with(&service.descriptors(), tools).await;
    for name in ["orders.right", "orders.named"] {
        assert_eq!(world.act(name, "say", "x").await.unwrap()["text"], "x", "{name}");
    }
    let seen = service.seen().len();
    for name in ["orders.wrong", "orders.public"] {
        let refused = world.act(name, "say", "x").await.unwrap_err();
        assert_eq!(refused.code, "tool.failed");
        assert!(refused.message.contains("certificate"), "{name}: {refused:?}");
    }
    // HTTP/2 in clear is no TLS.
    assert_eq!(world.act("orders.clear", "say", "x").await.unwrap_err().code, "tool.failed");
    assert_eq!(service.seen().len(), seen, "nobody else reached the service");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_does_not_connect_to_a_name_that_resolves_to_a_disallowed_address() {
    let service = Service::start();
    let mut elsewhere = tool("orders.elsewhere", service.port, "Act");
    elsewhere["grpc"]["url"] = json!(format!("http://localhost:{}", service.port));
    elsewhere["grpc"]["private_addresses"] = json!(["10.0.0.0/8"]);
    let world = World::with(&service.descriptors(), vec![elsewhere]).await;
    let refused = world.act("orders.elsewhere", "say", "x").await.unwrap_err();
    assert_eq!(refused.code, "tool.failed");
    assert!(refused.message.contains("not allowed"), "{refused:?}");
    assert!(service.seen().is_empty());
    world.close().await;
}
