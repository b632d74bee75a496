//! The main exchanges, word for word: changing one is a change everybody sees.

use std::fmt::Write as _;

use regex::Regex;
use serde_json::json;

use crate::client::{Reply, ask, request};
use crate::gate::{Gate, OTHER, initialize};

const GOLDEN: &str = include_str!("../golden/mcp.txt");

/// What differs from run to run, by what it is.
fn masked(text: &str, gate: &Gate) -> String {
    let mut text = text.replace(&gate.host, "<host>");
    for (what, with) in [
        (r"\b[0-9a-f]{64}\b", "<hash>"),
        (r"\bm-[0-9a-f]{32}\b", "<call>"),
        (r"\b[0-9a-f]{32}\b", "<id>"),
        (r"\b20\d\d-\d\d-\d\dT[0-9:.]+Z", "<time>"),
        (r#""(seq|run_seq)":\d+"#, "\"$1\":<n>"),
        (r"entry \d+ of", "entry <n> of"),
        (r#""origin":"[^"]*""#, "\"origin\":\"<origin>\""),
    ] {
        text = Regex::new(what).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

fn written(out: &mut String, what: &str, reply: &Reply) {
    writeln!(out, "# {what}\n{}", reply.status).unwrap();
    for (name, value) in &reply.headers {
        if !["date", "content-length", "transfer-encoding"].contains(&name.as_str()) {
            writeln!(out, "{name}: {value}").unwrap();
        }
    }
    writeln!(out, "{}\n", reply.body).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_main_exchanges_match_the_golden_file() {
    let gate = Gate::start_with(|config| {
        // Two tools are enough to show a list.
        let tools = config["tools"].as_array_mut().unwrap();
        tools.retain(|tool| {
            ["work.do", "work.held", "policy.undefined"].contains(&tool["name"].as_str().unwrap())
        });
    })
    .await;
    let mut out = String::new();
    let hello = initialize("2025-11-25").to_string();
    written(&mut out, "initialize", &gate.post("/mcp", &[], hello.as_bytes()).await);
    let session = gate.session().await;
    written(&mut out, "tools/list, in a session", &session.ask("tools/list", json!({})).await);
    written(&mut out, "a good call, in a session", &session.call("work.do", json!({})).await);
    written(&mut out, "a denial, in a session", &session.call("policy.undefined", json!({})).await);
    written(&mut out, "a held call, in a session", &session.call("work.held", json!({})).await);
    written(&mut out, "no such method, in a session", &session.ask("no/such", json!({})).await);
    let other = format!("Bearer {OTHER}");
    let theft = session.send(&ask(1, "ping", json!({})), &[("Authorization", &other)]).await;
    written(&mut out, "another caller's session", &theft);
    let lines = gate.lines(&[("Mcp-Session-Id", &session.id)]);
    let end = gate.raw(&request("DELETE", "/mcp", &lines, b"")).await.unwrap();
    written(&mut out, "the end of a session", &end);

    written(&mut out, "server/discover", &gate.alone("server/discover", json!({})).await);
    let list = gate.alone_at("/mcp/s/work", "tools/list", json!({}), &[]).await;
    written(&mut out, "tools/list of one server, alone", &list);
    written(&mut out, "a good call, alone", &gate.call("work.do", json!({})).await);
    written(&mut out, "a tool that is not granted, alone", &gate.call("work.no", json!({})).await);
    let capable = json!({"name": "work.held", "arguments": {"n": 1},
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}});
    written(&mut out, "a held call, alone", &gate.alone("tools/call", capable).await);
    let lines = [("Mcp-Name", "work.held")];
    let call = json!({"name": "work.do", "arguments": {}});
    let mismatch = gate.alone_at("/mcp", "tools/call", call, &lines).await;
    written(&mut out, "a header that says something else", &mismatch);
    written(&mut out, "no such method, alone", &gate.alone("no/such", json!({})).await);
    written(
        &mut out,
        "a name that is there twice",
        &gate.post("/mcp", &[], br#"{"a":1,"a":2}"#).await,
    );
    written(&mut out, "nobody", &gate.post("/mcp", &[("Authorization", "-")], b"{}").await);
    let foreign = [("Origin", "http://evil.example")];
    written(&mut out, "a page from elsewhere", &gate.post("/mcp", &foreign, b"{}").await);

    let seen = masked(&out, &gate);
    if seen != GOLDEN {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/mcp.txt");
        std::fs::write(path, &seen).unwrap();
        panic!("tests/golden/mcp.txt differs; what is said now is in {path}\n{seen}");
    }
}
