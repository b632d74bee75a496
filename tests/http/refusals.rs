//! What is refused before anything is asked of the road: who, from where, in which form.

use serde_json::json;

use crate::gate::{Gate, TOKEN, call, claims, is, problem};
use crate::wire::{Wire, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_is_one_bearer_token_of_the_right_kind() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let agent = format!("Bearer {TOKEN}");
    let ask = async |path: &str, values: &[&str]| {
        let lines: Vec<(&str, &str)> =
            values.iter().map(|value| ("Authorization", *value)).collect();
        let (verb, body) = if path.ends_with("runs") { ("POST", "{}") } else { ("GET", "") };
        let reply = gate.ask(verb, path, &lines, body).await;
        if reply.status == 401 {
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        problem(&reply)
    };
    let missing = is(401, "identity.missing", "credential.missing");
    let malformed = is(401, "identity.missing", "credential.malformed");
    let unknown = is(401, "identity.missing", "credential.unknown");
    assert_eq!(ask("/gate/v1/run", &[]).await, missing);
    assert_eq!(ask("/gate/v1/run?token=wgr_x", &[]).await, missing);
    for values in [&["Basic eDp5"][..], &["Bearer"], &["wgr_x"], &[&run.bearer, &run.bearer]] {
        assert_eq!(ask("/gate/v1/run", values).await, malformed, "{values:?}");
    }
    assert_eq!(ask("/gate/v1/runs", &[&agent, &agent]).await, malformed);
    // An agent's token opens runs, and a run's token is of use in its run only.
    assert_eq!(ask("/gate/v1/run", &[&agent]).await, unknown);
    assert_eq!(ask("/gate/v1/runs", &["Bearer nobody-knows-this-token-0123456789"]).await, unknown);
    assert_eq!(ask("/gate/v1/runs", &[&run.bearer]).await.0, 401);
    let other = format!("Bearer wgr_{}", "a".repeat(run.bearer.len() - "Bearer wgr_".len()));
    assert!([401, 404].contains(&ask("/gate/v1/run", &[&other]).await.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_names_from_elsewhere_are_turned_away_on_every_route() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    for path in ["/gate/v1/run", "/gate/v1/tools", "/openapi.json", "/gate/v1/no-such"] {
        let ask = async |name: &str, value: &str| {
            let lines = [("Authorization", run.bearer.as_str()), (name, value)];
            problem(&gate.ask("GET", path, &lines, "").await)
        };
        let origin = is(403, "request.malformed", "http.origin");
        assert_eq!(ask("Origin", "http://evil.example").await, origin, "{path}");
        assert_eq!(ask("Host", "evil.example").await, is(403, "request.malformed", "http.host"));
    }
    // Node's fetch says so of itself, and is no page.
    let lines = [("Authorization", run.bearer.as_str()), ("Sec-Fetch-Mode", "cors")];
    assert_eq!(gate.ask("GET", "/gate/v1/run", &lines, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn con_015_an_agent_reaches_neither_the_console_nor_a_route_of_operators() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    for path in [
        "/console",
        "/console/",
        "/console/login",
        "/console/calls.csv",
        "/console/static/0/style.css",
        "/v1/runs",
        "/v1/calls",
        "/v1/live",
        "/v1/orders",
        "/gate/v1/../../console",
        "/gate/v1/%2e%2e/console",
    ] {
        for verb in ["GET", "POST"] {
            let reply = gate.of(&run, verb, path, "").await;
            assert!([404, 405].contains(&reply.status), "{verb} {path}: {}", reply.status);
            assert!(!reply.body.contains("<html"), "{verb} {path}: {}", reply.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_or_a_method_that_is_not_served_says_so_and_nothing_is_normalised() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    for path in [
        "/gate/v1",
        "/gate/v1/",
        "/gate/v1/run/",
        "/gate/v1/calls/a/b",
        "/gate/v1/calls/",
        "/gate/v1//run",
        "/gate/v1/../v1/run",
        "/gate/v1/%72un",
        "/gate/v1/admin",
    ] {
        let reply = gate.of(&run, "GET", path, "").await;
        assert_eq!(problem(&reply), is(404, "route.unknown", "http.route"), "{path}");
    }
    let escaped = gate.of(&run, "GET", "/gate/v1/calls/%61", "").await;
    assert_eq!(problem(&escaped), is(404, "call.not_found", ""));
    for (verb, path, allowed) in [
        ("GET", "/gate/v1/runs", &["POST"][..]),
        ("POST", "/gate/v1/run", &["GET", "HEAD"]),
        ("PATCH", "/gate/v1/calls/a", &["DELETE", "GET", "HEAD", "PUT"]),
        ("POST", "/openapi.json", &["GET", "HEAD"]),
        ("TRACE", "/gate/v1/tools", &["GET", "HEAD"]),
        ("BREW", "/gate/v1/tools", &["GET", "HEAD"]),
    ] {
        let reply = gate.of(&run, verb, path, "").await;
        assert_eq!(problem(&reply), is(405, "request.malformed", "http.method"), "{verb} {path}");
        let options = gate.of(&run, "OPTIONS", path, "").await;
        assert_eq!((options.status, options.body.as_str()), (204, ""));
        for reply in [reply, options] {
            let mut methods: Vec<&str> = reply.header("allow").unwrap().split(',').collect();
            methods.sort_unstable();
            assert_eq!(methods, allowed, "{verb} {path}");
            assert!(reply.header("access-control-allow-origin").is_none());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_two_readers_could_read_differently_is_no_call() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let post = async |body: &str| problem(&gate.of(&run, "POST", "/gate/v1/calls", body).await);
    for (body, cause) in [
        (r#"{"tool": "work.do", "tool": "work.fail", "arguments": {}}"#, "json.duplicate_key"),
        (r#"{"tool": "work.do", "Tool": "work.fail", "arguments": {}}"#, "json.duplicate_key"),
        (r#"{"tool": "work.do", "arguments": {"n": 1, "n": 2}}"#, "json.duplicate_key"),
        (r#"{"tool": "work.do", "arguments": {}} {}"#, "json.trailing_data"),
        (r#"{"tool": "work.do", "arguments": {"n": 9007199254740993}}"#, "json.int_out_of_range"),
        (r#"{"tool": "work.do", "arguments": {}, "token": "x"}"#, "body.member"),
        (r#"{"tool": "work.do"}"#, "body.member"),
        (r#"{"tool": 1, "arguments": {}}"#, "body.member"),
        (r#"{"tool": "work.do", "arguments": {}, "wait_ms": -1}"#, "body.member"),
        (r#"{"tool": "work.do", "arguments": {}, "wait_ms": 60001}"#, "wait_ms"),
        (r#"{"tool": "work.do", "arguments": []}"#, "arguments.type"),
        ("[]", "body.member"),
        ("{", "json.syntax"),
    ] {
        assert_eq!(post(body).await, is(400, "request.malformed", cause), "{body}");
    }
    let body = call(json!({})).to_string();
    for (name, first, second) in [
        ("Content-Type", "application/json", "application/json"),
        ("Idempotency-Key", "a", "b"),
        ("Host", "localhost", "localhost"),
    ] {
        let lines = [("Authorization", run.bearer.as_str()), (name, first), (name, second)];
        let reply = gate.ask("POST", "/gate/v1/calls", &lines, &body).await;
        assert_eq!(problem(&reply), is(400, "request.malformed", "http.repeated"), "{name}");
    }
    for query in ["?wait_ms=1", "?x", "?access_token=wgr_x"] {
        let reply = gate.of(&run, "POST", &format!("/gate/v1/calls{query}"), &body).await;
        assert_eq!(problem(&reply), is(400, "request.malformed", "http.query"), "{query}");
    }
    for query in ["?wait_ms=-1", "?wait_ms=60001", "?wait_ms=1&wait_ms=2", "?wait=1", "?wait_ms="] {
        let reply = gate.of(&run, "GET", &format!("/gate/v1/calls/a{query}"), "").await;
        assert_eq!(problem(&reply), is(400, "request.malformed", "http.query"), "{query}");
    }
    assert_eq!(gate.tool.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_form_of_a_message_has_a_status_of_its_own() {
    let gate = Gate::start().await;
    let run = gate.open().await;
    let body = call(json!({})).to_string();
    let ask = async |lines: &[(&str, &str)], body: &str| {
        let mut all = vec![("Authorization", run.bearer.as_str())];
        all.extend_from_slice(lines);
        problem(&gate.ask("POST", "/gate/v1/calls", &all, body).await)
    };
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json-seq", "-"] {
        let refused = ask(&[("Content-Type", kind)], &body).await;
        assert_eq!(refused, is(415, "request.malformed", "http.content_type"), "{kind}");
    }
    let packed = ask(&[("Content-Encoding", "gzip")], &body).await;
    assert_eq!(packed, is(415, "request.malformed", "http.content_type"));
    let html = ask(&[("Accept", "text/html")], &body).await;
    assert_eq!(html, is(406, "request.malformed", "http.accept"));
    let long = "x".repeat(15 * 1024);
    assert_eq!(
        ask(&[("X-Long", &long)], &body).await,
        is(431, "request.malformed", "http.headers")
    );
    // Said to be too large, and too large without saying so; one of a byte too many for arguments only is read.
    let five = format!("{}", 5 << 20);
    let mut wire = Wire::open(&gate.tcp).await;
    let lines = [
        ("Host", gate.host.as_str()),
        ("Authorization", run.bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Content-Length", five.as_str()),
    ];
    wire.send(&request("POST", "/gate/v1/calls", &lines, b"")).await;
    assert_eq!(problem(&wire.reply().await.unwrap()), is(413, "request.malformed", "message.size"));
    let large = |bytes: usize| call(json!({"s": "x".repeat(bytes)})).to_string();
    let chunked = |body: &str| format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let mut wire = Wire::open(&gate.tcp).await;
    let lines = [
        ("Host", gate.host.as_str()),
        ("Authorization", run.bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Transfer-Encoding", "chunked"),
    ];
    wire.send(&request("POST", "/gate/v1/calls", &lines, b"")).await;
    wire.send(chunked(&large(4 << 20)).as_bytes()).await;
    assert_eq!(problem(&wire.reply().await.unwrap()), is(413, "request.malformed", "message.size"));
    assert_eq!(ask(&[], &large(1 << 20)).await, is(400, "request.malformed", "json.size"));
    // A body that is cut off is no call.
    let mut wire = Wire::open(&gate.tcp).await;
    let cut = gate.written("POST", "/gate/v1/calls", &[("Authorization", &run.bearer)], &body);
    wire.send(&cut[..cut.len() - 1]).await;
    wire.end_sending().await;
    assert!(wire.reply().await.is_none_or(|reply| reply.status == 400));
    assert_eq!(gate.tool.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_knows_its_peer_and_takes_any_host() {
    let gate = Gate::start().await;
    let mut wire = Wire::open(&gate.socket()).await;
    let lines = [("Host", "anything"), ("Content-Type", "application/json")];
    let body = claims().to_string();
    wire.send(&request("POST", "/gate/v1/runs", &lines, body.as_bytes())).await;
    let opened = wire.reply().await.unwrap();
    assert_eq!(opened.status, 201, "{opened:?}");
    // The token of a run that was opened on the socket is of no use to who stands elsewhere.
    let token = format!("Bearer {}", opened.json()["run_token"].as_str().unwrap());
    let elsewhere = gate.ask("GET", "/gate/v1/run", &[("Authorization", &token)], "").await;
    assert_eq!(problem(&elsewhere).0, 404, "{elsewhere:?}");
}
