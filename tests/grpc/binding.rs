//! Bindings that are refused before anything runs, and descriptor sets that change.

use serde_json::{Value, json};

use crate::private::private;
use crate::world::{Service, World, tool};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_is_wrong_says_where_and_why() {
    let service = Service::start();
    let right = || tool("orders.x", service.port, "Act");
    let with = |name: &str, value: Value| {
        let mut tool = right();
        tool["grpc"][name] = value;
        tool
    };
    let top = |name: &str, value: Value| {
        let mut tool = right();
        tool[name] = value;
        tool
    };
    let keeper = World::keeper(&service.descriptors(), vec![right()]).await;
    let checked = keeper.ask(&["config", "check", "wicketgate.yaml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    std::fs::write(keeper.path("garbage.pb"), b"\xff\xff\xff").unwrap();
    std::fs::write(keeper.path("empty.pb"), b"").unwrap();
    private(keeper.path("open"), "secret-0123456789");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(keeper.path("open"), mode).unwrap();
    // The one file alone, without what it imports.
    std::fs::write(keeper.path("alone.pb"), alone(&std::fs::read(service.descriptors()).unwrap()))
        .unwrap();
    for (tool, says) in [
        (with("method", json!("Watch")), "tools[0].grpc.method: `Watch` is a streaming method"),
        (with("method", json!("Tell")), "tools[0].grpc.method: `Tell` is a streaming method"),
        (with("method", json!("Nothing")), "`Nothing` is no method of `shop.v1.Orders`; it has"),
        (with("method", json!("Plain")), "takes a `google.protobuf.StringValue`"),
        (with("service", json!("shop.v1.Nobody")), "tools[0].grpc.service: `shop.v1.Nobody`"),
        (with("descriptor_set", json!("none.pb")), "tools[0].grpc.descriptor_set: cannot read"),
        (with("descriptor_set", json!("garbage.pb")), "is not a complete descriptor set"),
        (with("descriptor_set", json!("alone.pb")), "is not a complete descriptor set"),
        (with("descriptor_set", json!("empty.pb")), "describes no service"),
        (with("url", json!("http://127.0.0.1:1/path")), "tools[0].grpc.url: has no path"),
        (with("private_addresses", json!([])), "not on the public Internet"),
        (with("metadata", json!({"authorization": "x"})), "never inline"),
        (with("metadata", json!({"grpc-timeout": "1S"})), "written by the gate itself"),
        (with("metadata", json!({"te": "trailers"})), "written by the gate itself"),
        (with("metadata", json!({"x-some-bin": "AA=="})), "binary metadata is not supported"),
        (with("request_bytes_max", json!(0)), "tools[0].grpc.request_bytes_max"),
        (with("reflection", json!(true)), "reflection"),
        (top("input_schema", json!({})), "tools[0].input_schema: means nothing for kind `grpc`"),
        (top("credentials", json!([{"query": "k", "file": "secret"}])), "is given in metadata"),
        (top("credentials", json!([{"header": "a", "file": "open"}])), "open` has mode 644"),
        (top("http", json!({"method": "GET", "url": "https://example.com"})), "means nothing"),
        (top("kind", json!("http")), "tools[0].grpc: means nothing for kind `http`"),
    ] {
        keeper.estate.configure(|config| config["tools"] = json!([tool]));
        let checked = keeper.ask(&["config", "check", "wicketgate.yaml"]);
        assert_ne!(checked.code, 0, "{tool} is taken");
        let started = keeper.ask(&["serve", "--config", "wicketgate.yaml"]);
        assert_eq!(started.code, 78, "{tool}: {started:?}");
        assert!(started.err.contains(says), "`{says}` is not in {}", started.err);
    }
}

/// The last file of a descriptor set: a set of its own.
fn alone(set: &[u8]) -> Vec<u8> {
    use prost::Message as _;
    let mut set = prost_types::FileDescriptorSet::decode(set).unwrap();
    set.file.retain(|file| file.name() == "service.proto");
    assert_eq!(set.file.len(), 1);
    set.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_descriptor_set_that_changes_moves_no_gate_and_every_definition() {
    let service = Service::start();
    let world = World::before(&service).await;
    let definition = || {
        let listed = world.keeper.ask(&["tools", "list", "--config", "wicketgate.yaml", "--json"]);
        assert_eq!(listed.code, 0, "{listed:?}");
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        let tools = listed["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == "orders.act").unwrap();
        assert_eq!(tool["kind"], "grpc");
        tool["definition"].as_str().unwrap().to_owned()
    };
    let before = definition();
    // Field 2 becomes field 9, which the service does not know.
    use prost::Message as _;
    let bytes = std::fs::read(service.descriptors()).unwrap();
    let mut set = prost_types::FileDescriptorSet::decode(&bytes[..]).unwrap();
    let file = set.file.iter_mut().find(|file| file.name() == "service.proto").unwrap();
    let order = file.message_type.iter_mut().find(|message| message.name() == "Order").unwrap();
    let message = order.field.iter_mut().find(|field| field.name() == "message").unwrap();
    message.number = Some(9);
    std::fs::write(world.keeper.path("shop.pb"), set.encode_to_vec()).unwrap();
    assert_ne!(definition(), before, "another file is another definition");
    // The gate that runs sends what it read at its start.
    assert_eq!(world.act("orders.act", "say", "as pinned").await.unwrap()["text"], "as pinned");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_is_a_configuration_and_a_policy() {
    let service = Service::start();
    let keeper = World::keeper(&service.descriptors(), vec![tool("orders.x", 1, "Act")]).await;
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/grpc");
    let text = std::fs::read_to_string(example.join("tools.yaml")).unwrap();
    let tools: Value = serde_saphyr::from_str(&text).unwrap();
    let made = std::process::Command::new(crate::python())
        .args(["-m", "grpc_tools.protoc", "--include_imports", "--descriptor_set_out"])
        .arg(keeper.path("orders.pb"))
        .arg("-I")
        .arg(&example)
        .arg("orders.proto")
        .status();
    assert!(made.unwrap().success());
    private(keeper.path("orders.token"), "token-0123456789");
    keeper.estate.configure(|config| config["tools"] = tools["tools"].clone());
    let policy = std::fs::read_to_string(example.join("policy.rego")).unwrap();
    keeper.estate.bundle("1.0.2", &policy, "policy");
    for order in [&["config", "check"][..], &["policy", "lint", "--bundle", "bundle"]] {
        let checked = keeper.ask(order);
        assert_eq!(checked.code, 0, "{order:?}: {checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_the_tool_connects_to_the_service_and_asks_it_nothing() {
    let service = Service::start();
    let closed = {
        let mut closed = tool("orders.closed", service.port, "Act");
        closed["grpc"]["url"] = json!(format!("http://localhost:{}", service.port));
        closed["grpc"]["private_addresses"] = json!(["10.0.0.0/8"]);
        closed
    };
    let tools = vec![tool("orders.up", service.port, "Act"), tool("orders.down", 1, "Act"), closed];
    let keeper = World::keeper(&service.descriptors(), tools).await;
    let looked = keeper.ask(&["tools", "probe", "--kind", "grpc", "--json"]);
    let shown: Value = serde_json::from_str(&looked.out).unwrap();
    let states: Vec<_> = shown["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["state"].as_str().unwrap()))
        .collect();
    let expected =
        [("orders.closed", "blocked"), ("orders.down", "unreached"), ("orders.up", "ready")];
    assert_eq!(states, expected, "{shown}");
    assert_eq!(looked.code, 1, "{looked:?}");
    assert!(service.seen().is_empty(), "it was asked something");
}
