//! Servers that break the protocol, lie, or never answer.

use serde_json::{Value, json};

use crate::frames::{Act, Server};
use crate::until;
use crate::world::{Service, World, tool, writer};

/// A gate before these servers: a tool that reads and one that writes for each.
async fn before(servers: &[&Server], timeout_ms: u64) -> (Service, World) {
    // Only for its descriptor set.
    let service = Service::start();
    let tools = servers.iter().enumerate().flat_map(|(n, server)| {
        let read = tool(&format!("orders.read{n}"), server.port, "Act");
        let write = writer(&format!("orders.write{n}"), server.port, "Change");
        [read, write].map(|mut tool| {
            tool["timeout_ms"] = json!(timeout_ms);
            tool
        })
    });
    let tools: Vec<Value> = tools.collect();
    let world = World::with(&service.descriptors(), tools).await;
    (service, world)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_breaks_the_protocol_ends_the_call_and_never_the_gate() {
    // Whether it is known, of a call that changes something, that the answer is none.
    let acts = [
        (Act::Garbage, "call.unknown"),
        (Act::Http1, "call.unknown"),
        (Act::Reset, "call.unknown"),
        (Act::Close, "call.unknown"),
        (Act::HalfClose, "call.unknown"),
        (Act::Flood, "call.unknown"),
        (Act::NoStatus, "call.unknown"),
        (Act::Compressed, "tool.failed"),
        (Act::Twice, "tool.failed"),
        (Act::Short, "tool.failed"),
        (Act::NoMessage, "tool.failed"),
        (Act::Html, "tool.failed"),
        (Act::Refused, "call.unknown"),
        (Act::OddStatus, "tool.failed"),
    ];
    let servers: Vec<Server> = acts.iter().map(|(act, _)| Server::start(*act, *act)).collect();
    let well = Server::start(Act::Well, Act::Well);
    let all: Vec<&Server> = servers.iter().chain([&well]).collect();
    let (_service, world) = before(&all, 8000).await;
    for (n, (act, code)) in acts.iter().enumerate() {
        let read = world.act(&format!("orders.read{n}"), "say", "x").await.unwrap_err();
        assert_eq!(read.code, "tool.failed", "{act:?}: {read:?}");
        let write = world.act(&format!("orders.write{n}"), "say", "x").await.unwrap_err();
        assert_eq!(&write.code, code, "{act:?}: {write:?}");
        assert_eq!(servers[n].requests(), 2, "{act:?}: nothing is sent twice");
    }
    let last = format!("orders.read{}", acts.len());
    assert_eq!(world.act(&last, "say", "x").await.unwrap(), json!({"text": "well"}));
    let summary = world.close().await;
    assert_eq!(summary["calls"]["unknown"], 8, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_times_out_is_reset_and_its_frozen_connection_is_not_reused() {
    let server = Server::start(Act::Silent, Act::Well);
    let (_service, world) = before(&[&server], 700).await;
    let silent = world.act("orders.read0", "say", "x").await.unwrap_err();
    assert_eq!(silent.code, "tool.failed", "{silent:?}");
    // CANCEL, as the protocol says of a caller that went.
    until("the reset", || async { server.resets() == [8] }).await;
    assert_eq!(server.connections(), 1);
    assert_eq!(world.act("orders.read0", "say", "x").await.unwrap(), json!({"text": "well"}));
    assert_eq!(world.act("orders.read0", "say", "x").await.unwrap(), json!({"text": "well"}));
    assert_eq!(server.connections(), 2, "what answers is kept, what froze is not");
    world.close().await;
}
