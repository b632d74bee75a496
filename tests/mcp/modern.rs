//! MCP 2026-07-28: requests that stand alone, and headers that must say what the body says.

use serde_json::{Value, json};

use crate::checker::{calls, kinds};
use crate::client::ask;
use crate::gate::{Gate, VERSION, with_meta};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_says_what_it_is_and_lists_what_is_granted_in_one_order() {
    let gate = Gate::start().await;
    let found = gate.alone("server/discover", json!({})).await.result();
    assert_eq!(found["resultType"], "complete");
    assert_eq!(found["supportedVersions"][0], VERSION);
    assert_eq!(found["capabilities"], json!({"tools": {"listChanged": true}}));
    assert_eq!(found["cacheScope"], "private");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "wicketgate");
    let list = gate.alone("tools/list", json!({})).await.result();
    assert_eq!((&list["resultType"], &list["cacheScope"]), (&json!("complete"), &json!("private")));
    assert!(list["ttlMs"].as_u64().is_some(), "{list}");
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    let mut sorted = names.clone();
    sorted.sort_by_key(|name| name.as_str().unwrap());
    assert_eq!(names, sorted);
    assert_eq!(names.len(), 9, "granted and nothing else: {names:?}");
    assert!(!list.to_string().contains("work.unbound"), "bound and not granted");
    assert_eq!(list["tools"][0]["annotations"]["readOnlyHint"], false);
    assert_eq!(list, gate.alone("tools/list", json!({})).await.result());
    let bad = gate.alone("tools/list", json!({"cursor": "zz"})).await;
    assert_eq!(bad.refusal(), (400, -32602, "list.cursor".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_long_comes_in_pages() {
    let names: Vec<String> = (0..450).map(|n| format!("many.t{n:03}")).collect();
    let gate = Gate::start_with(|config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let model = tools[0].clone();
        for name in &names {
            let mut tool = model.clone();
            tool["name"] = json!(name);
            tools.push(tool);
        }
    })
    .await;
    // The manifest grants them in its next version.
    let Gate { estate, mut sidecar, .. } = gate;
    sidecar.stop().await;
    estate.manifest("1.1.0", "manifest", |text| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        let tools = manifest["spec"]["tools"].as_array_mut().unwrap();
        tools.extend(names.iter().map(|name| json!({"name": name, "tier": "T1"})));
        manifest.to_string()
    });
    let gate = Gate::again(gate.tool, estate).await;
    let mut seen = Vec::new();
    let mut params = json!({});
    let mut pages = 0;
    loop {
        let page = gate.alone("tools/list", params).await.result();
        assert_eq!(page["cacheScope"], "private");
        let tools = page["tools"].as_array().unwrap();
        seen.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        pages += 1;
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        params = json!({"cursor": cursor});
    }
    assert_eq!((seen.len(), pages), (459, 3));
    assert!(seen.is_sorted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_missing_or_say_something_else_run_nothing() {
    let gate = Gate::start().await;
    let call = json!({"name": "work.do", "arguments": {"n": 1}});
    let mirror = (400, -32020, "http.mirror".to_owned());
    for lines in [
        [("MCP-Protocol-Version", "2025-11-25")],
        [("MCP-Protocol-Version", "-")],
        [("Mcp-Method", "-")],
        [("Mcp-Method", "tools/list")],
        [("Mcp-Method", "TOOLS/CALL")],
        [("Mcp-Name", "-")],
        [("Mcp-Name", "work.fail")],
        [("Mcp-Name", "WORK.DO")],
        [("Mcp-Name", "=?base64?***?=")],
        [("Mcp-Name", "=?base64?d29yay5mYWls?=")],
    ] {
        let reply = gate.alone_at("/mcp", "tools/call", call.clone(), &lines).await;
        assert_eq!(reply.refusal(), mirror, "{lines:?}: {reply:?}");
        assert_eq!(reply.json()["id"], 1);
    }
    assert_eq!(gate.tool.count(), 0);
    for lines in [
        [("Mcp-Name", "  work.do  ")],
        [("Mcp-Name", "=?base64?d29yay5kbw==?=")],
        [("mcp-name", "work.do")],
    ] {
        let reply = gate.alone_at("/mcp", "tools/call", call.clone(), &lines).await;
        assert_eq!(reply.result()["structuredContent"]["body"]["done"], true, "{lines:?}");
    }
    assert_eq!(gate.tool.count(), 3);
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 3, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_that_is_mirrored_into_a_header_is_in_both_places_or_in_none() {
    let gate = Gate::start_with(|config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let tool = tools.iter_mut().find(|tool| tool["name"] == "work.do").unwrap();
        tool["input_schema"]["properties"]["s"]["x-mcp-header"] = json!("Region");
    })
    .await;
    let call = |args: Value| json!({"name": "work.do", "arguments": args});
    let mirror = (400, -32020, "http.mirror".to_owned());
    for (args, header) in [
        (json!({"s": "us"}), "-"),
        (json!({"s": "us"}), "eu"),
        (json!({}), "us"),
        (json!({"s": "us"}), "=?base64?!?="),
    ] {
        let lines = [("Mcp-Param-Region", header)];
        let reply = gate.alone_at("/mcp", "tools/call", call(args), &lines).await;
        assert_eq!(reply.refusal(), mirror, "{reply:?}");
    }
    assert_eq!(gate.tool.count(), 0);
    for (args, header) in
        [(json!({"s": "us"}), "us"), (json!({}), "-"), (json!({"s": "é"}), "=?base64?w6k=?=")]
    {
        let lines = [("Mcp-Param-Region", header)];
        let reply = gate.alone_at("/mcp", "tools/call", call(args), &lines).await;
        assert_eq!(reply.result()["structuredContent"]["body"]["done"], true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_says_its_version_and_what_the_client_can_do() {
    let gate = Gate::start().await;
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let headers = [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "server/discover")];
    let params = (400, -32602, "rpc.meta".to_owned());
    for meta in [
        None,
        Some(json!({capabilities: {}})),
        Some(json!({version: VERSION})),
        Some(json!({version: VERSION, capabilities: []})),
        Some(json!({version: 1, capabilities: {}})),
    ] {
        let given = meta.clone().map_or(json!({}), |meta| json!({"_meta": meta}));
        let body = ask(101, "server/discover", given).to_string();
        let reply = gate.post("/mcp", &headers, body.as_bytes()).await;
        assert_eq!(reply.refusal(), params, "{meta:?}: {reply:?}");
        assert_eq!(reply.json()["id"], 101);
    }
    let enough = json!({"_meta": {version: VERSION, capabilities: {}}});
    let body = ask(105, "server/discover", enough).to_string();
    assert_eq!(gate.post("/mcp", &headers, body.as_bytes()).await.status, 200);
    for unknown in ["v999.0.0", "1900-01-01", "2025-11-25"] {
        let meta = json!({"_meta": {version: unknown}});
        let lines = [("MCP-Protocol-Version", unknown)];
        let reply = gate.alone_at("/mcp", "server/discover", meta, &lines).await;
        assert_eq!(reply.refusal(), (400, -32022, "mcp.version".to_owned()), "{reply:?}");
        let data = reply.json()["error"]["data"].clone();
        assert_eq!(data["requested"], unknown);
        assert!(data["supported"].as_array().unwrap().contains(&json!(VERSION)), "{data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_methods_are_refused_and_notifications_are_accepted() {
    let gate = Gate::start().await;
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"] {
        let reply = gate.alone(method, json!({})).await;
        assert_eq!(reply.refusal(), (404, -32601, "rpc.method".to_owned()), "{method}: {reply:?}");
    }
    // Known methods that this agent was not given are told in the same words.
    for method in ["prompts/get", "resources/read", "prompts/list", "completion/complete"] {
        for path in ["/mcp", "/mcp/s/work", "/mcp/s/nowhere"] {
            let params = json!({"name": "x", "uri": "x"});
            let reply = gate.alone_at(path, method, params, &[("Mcp-Name", "x")]).await;
            assert_eq!(
                (reply.status, reply.refusal().1),
                (404, -32601),
                "{path} {method}: {reply:?}"
            );
        }
    }
    let noted =
        json!({"jsonrpc": "2.0", "method": "notifications/x", "params": with_meta(json!({}))});
    let noted = noted.to_string();
    let reply = gate.post("/mcp", &[("MCP-Protocol-Version", VERSION)], noted.as_bytes()).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
    let reply = gate.post("/mcp", &[("MCP-Protocol-Version", VERSION)], response.as_bytes()).await;
    assert_eq!(reply.status, 400);
    let summary = gate.checked().await;
    // Where a server is named, a denial is on the books; elsewhere it is counted.
    assert_eq!(calls(&summary, "denied"), 4, "{summary}");
    assert!(kinds(&summary, "request.rejected") >= 1, "{summary}");
}
