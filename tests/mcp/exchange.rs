//! What is decided before anybody looks at what is asked for: who, from where, in which form.

use serde_json::json;
use wicketgate::serve::SURFACE;

use crate::checker::{calls, kinds};
use crate::client::{Wire, ask, request};
use crate::gate::{BOTH, Gate, TOKEN, VERSION, initialize, with_meta};

fn hello() -> Vec<u8> {
    initialize("2025-11-25").to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_known_caller_gets_an_answer_and_no_header_makes_one_known() {
    let gate = Gate::start().await;
    for value in ["-", "Bearer nobody-knows-this-token-0123456789", "Basic eDp5", "Bearer", TOKEN] {
        let spoofed = [("Authorization", value), ("X-Forwarded-User", "root"), ("X-Agent-Id", "a")];
        let reply = gate.post("/mcp", &spoofed, &hello()).await;
        assert_eq!(reply.status, 401, "{value}: {reply:?}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let said = reply.json();
        assert_eq!((&said["jsonrpc"], &said["id"]), (&json!("2.0"), &json!(null)), "{said}");
        assert_eq!(said["error"]["data"]["code"], "identity.missing", "{said}");
    }
    assert_eq!(gate.post("/mcp", &[], &hello()).await.status, 200);
    // On the socket the kernel says who is there, and no name of a host means anything.
    let mut wire = Wire::open(&gate.socket()).await;
    let lines = [("Host", "anything"), ("Content-Type", "application/json"), ("Accept", BOTH)];
    wire.send(&request("POST", "/mcp", &lines, &hello())).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
    let summary = gate.checked().await;
    assert!(kinds(&summary, "request.rejected") >= 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_four_shapes_of_path_lead_anywhere_and_grpc_is_where_it_was() {
    let gate = Gate::start().await;
    for path in [
        "/",
        "/v1/tools/call",
        "/admin/health",
        "/readyz",
        "/metrics",
        "/livez",
        "/mcp/../admin/keys",
        "/mcp/r/..",
        "/mcp/s/UPPER",
        "/mcp/x",
        "/mcpx",
        "/wicketgate.v1.Gate/OpenRun",
        "//mcp",
        "/mcp/r/%2e%2e",
        "/mcp/s/a/r/b",
    ] {
        for verb in ["GET", "POST"] {
            let lines = gate.lines(&[]);
            let body: &[u8] = if verb == "POST" { b"{}" } else { b"" };
            let reply = gate.raw(&request(verb, path, &lines, body)).await.unwrap();
            assert_eq!(reply.status, 404, "{verb} {path}: {reply:?}");
        }
    }
    for path in ["/mcp", "/mcp/", "/mcp/r/night", "/mcp/s/work", "/mcp/r/night/s/work", "/mcp?x=y"]
    {
        assert_eq!(gate.post(path, &[], &hello()).await.status, 200, "{path}");
    }
    let agent = gate.sidecar.open().await;
    agent.call("work.do", "beside", "{}").await.unwrap();
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_readers_could_read_differently_is_refused_and_hung_up_on() {
    let gate = Gate::start().await;
    let ambiguous = (400, -32600, "http.repeated".to_owned());
    for (name, value) in [
        ("Host", "localhost"),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Session-Id", "0123"),
        ("Mcp-Method", "initialize"),
        ("Mcp-Name", "a"),
        ("Mcp-Param-Region", "a"),
        ("X-Wicketgate-Run", "night"),
        ("Origin", "http://localhost"),
    ] {
        let mut lines = gate.lines(&[]);
        if !lines.iter().any(|(n, _)| *n == name) {
            lines.push((name, value));
        }
        lines.push((name, value));
        let reply = gate.raw(&request("POST", "/mcp", &lines, &hello())).await.unwrap();
        assert_eq!(reply.refusal(), ambiguous, "{name}: {reply:?}");
    }
    let smuggled = "0\r\n\r\nGET /mcp HTTP/1.1\r\nHost: x\r\n\r\n";
    let (length, chunked) =
        (format!("Content-Length: {}\r\n", smuggled.len()), "Transfer-Encoding: chunked\r\n");
    let two = "Content-Length: 2\r\n".to_owned();
    for lines in [
        format!("{length}{chunked}"),
        format!("{chunked}{length}"),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        format!("{two}{two}"),
        format!("{two}Content-Length: 3\r\n"),
        "Content-Length: +2\r\n".to_owned(),
        "Content-Length : 2\r\n".to_owned(),
        "X-Folded: a\r\n b\r\n".to_owned(),
    ] {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nAccept: {BOTH}\r\n{lines}\r\n",
            gate.host
        );
        let mut wire = Wire::open(&gate.tcp).await;
        wire.send(format!("{head}{smuggled}").as_bytes()).await;
        let reply = wire.reply().await.unwrap_or_else(|| panic!("no answer to {lines}"));
        assert_eq!(reply.status, 400, "{lines}: {reply:?}");
        assert!(wire.is_over().await, "{lines}: what follows must not be read as a request");
    }
    assert_eq!(gate.tool.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_pieces_and_one_after_the_other_on_one_connection_are_read_as_sent() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let list = session.bytes(&ask(1, "tools/list", json!({})), &[]);
    let mut wire = Wire::open(&gate.tcp).await;
    for _ in 0..2 {
        wire.send(&list).await;
        assert_eq!(wire.reply().await.unwrap().status, 200);
    }
    // Two at once, the second already there when the first is read.
    wire.send(&[list.clone(), list.clone()].concat()).await;
    for _ in 0..2 {
        assert_eq!(wire.reply().await.unwrap().status, 200);
    }
    let body = ask(1, "ping", json!({})).to_string();
    let mut lines = gate.lines(&[("Mcp-Session-Id", &session.id)]);
    lines.push(("Transfer-Encoding", "chunked"));
    let mut chunked = request("POST", "/mcp", &lines, b"");
    for piece in body.as_bytes().chunks(7) {
        chunked.extend(format!("{:x};ext=1\r\n", piece.len()).into_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\nTrailer-Is: ignored\r\n\r\n");
    for piece in [chunked.clone(), chunked].concat().chunks(11) {
        wire.send(piece).await;
    }
    for _ in 0..2 {
        assert_eq!(wire.reply().await.unwrap().status, 200);
    }
    wire.send(&list).await;
    assert_eq!(wire.reply().await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_this_machine_and_its_own_pages_are_served_and_no_others() {
    let gate = Gate::start().await;
    let port = gate.host.split_once(':').unwrap().1.to_owned();
    let local = |name: &str| format!("{name}:{port}");
    let (localhost, six) = (local("localhost"), local("[::1]"));
    let page = |host: &str| format!("http://{host}");
    let table = [
        (gate.host.clone(), "-".to_owned(), 200),
        (localhost.clone(), "-".to_owned(), 200),
        (six.clone(), "-".to_owned(), 200),
        (gate.host.clone(), page(&gate.host), 200),
        (localhost.clone(), page(&localhost), 200),
        (localhost.clone(), page(&gate.host), 403),
        (localhost.clone(), page("localhost"), 403),
        (localhost.clone(), page("localhost:1"), 403),
        (localhost.clone(), page("evil.example"), 403),
        (localhost.clone(), "null".to_owned(), 403),
        (localhost, String::from("file://"), 403),
        ("evil.example".to_owned(), "-".to_owned(), 403),
        ("evil.example".to_owned(), page("evil.example"), 403),
        (local("localhost.evil.example"), "-".to_owned(), 403),
        ("-".to_owned(), "-".to_owned(), 403),
        ("10.0.0.1".to_owned(), "-".to_owned(), 403),
    ];
    for (host, origin, status) in table {
        let reply = gate.post("/mcp", &[("Host", &host), ("Origin", &origin)], &hello()).await;
        assert_eq!(reply.status, status, "{host} {origin}: {reply:?}");
    }
    // On a socket there is no name to check; a page is still a page.
    let mut wire = Wire::open(&gate.socket()).await;
    let lines =
        [("Host", "x"), ("Origin", "http://evil.example"), ("Content-Type", "application/json")];
    wire.send(&request("POST", "/mcp", &lines, &hello())).await;
    assert_eq!(wire.reply().await.unwrap().status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_one_strict_message_of_bearable_size() {
    let gate = Gate::start().await;
    let args = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"work.do","arguments":{text}}}}}"#
        )
    };
    let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let json = |detail: &str| (400, -32700, detail.to_owned());
    let rpc = |detail: &str| (400, -32600, detail.to_owned());
    let table: Vec<(Vec<u8>, (u16, i64, String))> = vec![
        (args(r#"{"path":"ok","p\u0061th":"/etc"}"#).into(), json("json.duplicate_key")),
        (args(r#"{"n":1,"N":2}"#).into(), json("json.duplicate_key")),
        (args("{}").replace("\"id\":1", "\"id\":1,\"id\":2").into(), json("json.duplicate_key")),
        ((args("{}") + " {\"tool\":\"x\"}").into(), json("json.trailing_data")),
        ((args("{}") + "/*x*/").into(), json("json.trailing_data")),
        (args(&nested(100_000)).into(), json("json.depth")),
        (args(r#"{"n":18446744073709551617}"#).into(), json("json.int_out_of_range")),
        (args(r#"{"s":"\ud800x"}"#).into(), json("json.lone_surrogate")),
        (format!("\u{feff}{}", args("{}")).into(), json("json.bom")),
        (b"{\"a\":\"\xff\"}".to_vec(), json("json.utf8")),
        (b" ".to_vec(), json("json.syntax")),
        (b"{\"jsonrpc\":NaN}".to_vec(), json("json.syntax")),
        (b"[]".to_vec(), rpc("rpc.batch")),
        (format!("[{}]", args("{}")).into(), rpc("rpc.batch")),
        (b"1".to_vec(), rpc("rpc.message")),
        (b"{}".to_vec(), rpc("rpc.version")),
        (br#"{"jsonrpc":"2.0"}"#.to_vec(), rpc("rpc.message")),
        (br#"{"jsonrpc":"2.0","id":1}"#.to_vec(), rpc("rpc.message")),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_vec(), rpc("rpc.id")),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.to_vec(), rpc("rpc.id")),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#.to_vec(), rpc("rpc.params")),
        (
            args("{}").replace("\"id\":1", "\"id\":1,\"approved\":true").into(),
            rpc("rpc.unknown_member"),
        ),
    ];
    for (body, expected) in table {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        for lines in [&[][..], &[("MCP-Protocol-Version", VERSION)][..]] {
            let reply = gate.post("/mcp", lines, &body).await;
            assert_eq!(reply.refusal(), expected, "{shown}: {reply:?}");
            assert_eq!(reply.json()["error"]["data"]["code"], "request.malformed");
        }
    }
    let large = vec![b' '; (4 << 20) + 1];
    assert_eq!(gate.post("/mcp", &[], &large).await.status, 413);
    let mut lines = gate.lines(&[]);
    lines.push(("Transfer-Encoding", "chunked"));
    let mut chunked = request("POST", "/mcp", &lines, b"");
    chunked.extend(format!("{:x}\r\n", large.len()).into_bytes());
    chunked.extend(large);
    assert_eq!(gate.raw(&chunked).await.unwrap().status, 413);
    assert_eq!(gate.tool.count(), 0);
    let summary = gate.checked().await;
    assert!(kinds(&summary, "request.rejected") >= 1, "{summary}");
    assert_eq!(kinds(&summary, "call.authorized"), 0, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_of_content_and_verbs_that_are_not_spoken_are_named() {
    let gate = Gate::start().await;
    for (lines, status) in [
        (&[("Content-Type", "text/plain")][..], 415),
        (&[("Content-Type", "-")][..], 415),
        (&[("Content-Type", "application/json-patch+json")][..], 415),
        (&[("Content-Encoding", "gzip")][..], 415),
        (&[("Content-Type", "application/json; charset=utf-8")][..], 200),
        (&[("Accept", "text/html")][..], 406),
        (&[("Accept", "application/json")][..], 200),
        (&[("Accept", "*/*")][..], 200),
        (&[("Accept", "-")][..], 200),
    ] {
        let reply = gate.post("/mcp", lines, &hello()).await;
        assert_eq!(reply.status, status, "{lines:?}: {reply:?}");
    }
    let modern = ("MCP-Protocol-Version", VERSION);
    for (verb, lines, status, allow) in [
        ("PUT", vec![], 405, "POST, GET, DELETE"),
        ("OPTIONS", vec![], 405, "POST, GET, DELETE"),
        ("GET", vec![modern], 405, "POST"),
        ("DELETE", vec![modern], 405, "POST"),
    ] {
        let lines = gate.lines(&lines);
        let reply = gate.raw(&request(verb, "/mcp", &lines, b"")).await.unwrap();
        assert_eq!(
            (reply.status, reply.header("allow")),
            (status, Some(allow)),
            "{verb}: {reply:?}"
        );
    }
    let many: Vec<(String, String)> = (0..70).map(|n| (format!("X-{n}"), n.to_string())).collect();
    let many: Vec<_> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let reply = gate.post("/mcp", &many, &hello()).await;
    assert_eq!(reply.status, 431, "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_too_slowly_is_disconnected_and_delays_no_other_client() {
    let gate = Gate::start().await;
    let head = async {
        let mut wire = Wire::open(&gate.tcp).await;
        wire.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
        // It hangs up, with or without a word.
        while wire.head().await.is_some() {}
    };
    let body = async {
        let mut lines = gate.lines(&[]);
        lines.push(("Content-Length", "1000"));
        let mut wire = Wire::open(&gate.tcp).await;
        wire.send(&request("POST", "/mcp", &lines, b"")).await;
        wire.send(b"{").await;
        assert_eq!(wire.reply().await.unwrap().status, 408);
    };
    let cut = async {
        let mut lines = gate.lines(&[]);
        lines.push(("Content-Length", "1000"));
        let mut wire = Wire::open(&gate.tcp).await;
        wire.send(&request("POST", "/mcp", &lines, b"")).await;
        wire.end_sending().await;
        assert_eq!(wire.reply().await.map_or(400, |reply| reply.status), 400);
    };
    let others = async {
        for _ in 0..20 {
            let called = gate.call("work.do", json!({"n": 1})).await.result();
            assert_eq!(called["structuredContent"]["body"]["done"], true);
        }
    };
    tokio::join!(head, body, cut, others);
    assert_eq!(gate.tool.count(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_half_closes_its_connection_still_gets_its_answer() {
    let gate = Gate::start().await;
    let params = json!({"name": "work.do", "arguments": {"n": 1}});
    let bytes = gate.alone_bytes("/mcp", "tools/call", with_meta(params), &[]);
    for place in [gate.tcp.clone(), gate.socket()] {
        let mut wire = Wire::open(&place).await;
        gate.tool.hold();
        wire.send(&bytes).await;
        wire.end_sending().await;
        gate.tool.entered(1).await;
        gate.tool.release();
        let reply = wire.reply().await.unwrap();
        assert_eq!(reply.result()["structuredContent"]["body"]["done"], true);
    }
    assert_eq!(gate.tool.count(), 2);
    let summary = gate.checked().await;
    assert_eq!(calls(&summary, "completed"), 2, "{summary}");
}

/// Every method that any version of the specification knows, whoever sends it.
const METHODS: [&str; 24] = [
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
    "admin/keys",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_surface_lists_what_is_answered_and_nothing_of_it_without_a_caller() {
    let gate = Gate::start().await;
    let session = gate.session().await;
    let passed_on = wicketgate::catalog::server::METHODS;
    for method in METHODS {
        let listed = SURFACE.iter().any(|(name, _)| name.strip_prefix("MCP ") == Some(method));
        let params = json!({"protocolVersion": "2025-11-25", "name": "work.do", "uri": "x",
            "level": "info", "notifications": 1});
        let old = session.ask(method, params.clone()).await;
        let lines = [("Mcp-Name", "work.do")];
        let lines = if method == "resources/read" { [("Mcp-Name", "x")] } else { lines };
        let new = gate.alone_at("/mcp", method, params.clone(), &lines).await;
        let known = [&old, &new].iter().any(|reply| reply.json()["error"]["code"] != -32601);
        // No server is bound here, so nothing can be passed on to one.
        assert_eq!(known || passed_on.contains(&method), listed, "{method}: {old:?} {new:?}");
        let lines = [("Authorization", "-"), ("Mcp-Name", "x")];
        let nobody = gate.alone_at("/mcp", method, params, &lines).await;
        assert_eq!(nobody.status, 401, "{method}: {nobody:?}");
    }
    assert_eq!(gate.tool.count(), 2);
}
