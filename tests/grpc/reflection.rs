//! Descriptors that a server gives out itself, pinned in a file.

use serde_json::{Value, json};

use crate::world::{Service, World, tool};

/// A server that describes `set` by reflection, in the older version or in the newer one.
async fn reflecting(set: &'static [u8], older: bool) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let builder =
        tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(set);
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder();
    if older {
        let routes = { server }.add_service(builder.build_v1alpha().unwrap());
        tokio::spawn(async move { routes.serve_with_incoming(incoming).await.unwrap() });
    } else {
        let routes = { server }.add_service(builder.build_v1().unwrap());
        tokio::spawn(async move { routes.serve_with_incoming(incoming).await.unwrap() });
    }
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_descriptors_writes_the_file_that_a_gate_pins() {
    let service = Service::start();
    let set: &'static [u8] = std::fs::read(service.descriptors()).unwrap().leak();
    let keeper = World::keeper(&service.descriptors(), vec![tool("orders.act", 1, "Act")]).await;
    for older in [false, true] {
        let port = reflecting(set, older).await;
        let from = format!("http://127.0.0.1:{port}");
        let order = ["tools", "descriptors", "--from", &from, "--write", "asked.pb", "--json"];
        let closed = keeper.ask(&order);
        assert_eq!(closed.code, 2, "{closed:?}");
        assert!(closed.err.contains("not allowed"), "{closed:?}");
        let open = ["--private-address", "127.0.0.1/32"];
        let nobody = keeper.ask(&[&order[..], &open, &["--service", "shop.v1.Nobody"]].concat());
        assert_eq!(nobody.code, 2, "{nobody:?}");
        assert!(!keeper.path("asked.pb").exists(), "nothing is written of what failed");
        let named = ["--service", "shop.v1.Orders"];
        let asked = keeper.ask(&[&order[..], &open, &named].concat());
        assert_eq!(asked.code, 0, "older: {older}: {asked:?}");
        let said: Value = serde_json::from_str(&asked.out).unwrap();
        assert_eq!(said["services"], json!(["shop.v1.Orders"]));
        let again = keeper.ask(&[&order[..], &open, &named].concat());
        assert_eq!(again.code, 64, "a file that is there stays: {again:?}");
        let over = keeper.ask(&[&order[..], &open, &["--yes"]].concat());
        assert_eq!(over.code, 0, "{over:?}");
        std::fs::rename(keeper.path("asked.pb"), keeper.path("pinned.pb")).unwrap();
    }
    // What was asked for is what the service speaks.
    let world =
        World::with(&keeper.path("pinned.pb"), vec![tool("orders.act", service.port, "Act")]).await;
    assert_eq!(world.act("orders.act", "say", "pinned").await.unwrap()["text"], "pinned");
    world.close().await;
    let none = keeper.ask(&[
        "tools",
        "descriptors",
        "--from",
        &format!("http://127.0.0.1:{}", service.port),
        "--private-address",
        "127.0.0.1/32",
        "--write",
        "asked.pb",
    ]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("offers no reflection"), "{none:?}");
}
