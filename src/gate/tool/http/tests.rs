//! Tests against real servers on loopback, with everything real except the permit.

#![expect(clippy::wildcard_enum_match_arm, reason = "tests may stop at the first surprise")]

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::catalog::binding::{Binding, Kind};
use crate::catalog::{Config, Surroundings};
use crate::domain::call::{CallOrigin, CallerAuth};
use crate::domain::facts::ToolFacts;
use crate::domain::id::{CallId, RunId};
use crate::ledger::fuse::Fuse;
use crate::tool::net::System;
use crate::tool::scrub::Scrub;

const TOKEN: &str = "tok-Very/Secret+1234";

fn call(args: &str) -> ToolCall {
    let asking = CallOrigin {
        run: RunId::from_random([7; 16]),
        id: CallId::parse("c1").unwrap(),
        after: 0,
        agent: "agent".into(),
        auth: CallerAuth::default(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    };
    ToolCall::parse(asking, "orders", args.as_bytes()).unwrap()
}

fn binding(port: u16, more: &str) -> Binding {
    let yaml = format!(
        "- name: orders\n  description: orders\n  kind: http\n  result_bytes_max: 10000\n  \
         input_schema: {{type: object, required: [id], properties: {{id: {{type: string}}, q: {{}}}}}}\n  \
         credentials: [{{header: authorization, prefix: 'Bearer ', env: TOKEN}}]\n  http:\n    \
         url: http://127.0.0.1:{port}/v1/orders/{{id}}\n    private_addresses: [127.0.0.1/32]\n{more}"
    );
    let config: Config = serde_saphyr::from_str(&yaml).unwrap();
    let env = |_: &str| Some(TOKEN.to_owned());
    let surroundings =
        Surroundings { base_dir: Path::new("/"), env: &env, forbidden: &[], own: &[] };
    config.check(&surroundings).unwrap().remove(0)
}

struct Fixture {
    http: Http,
    facts: Arc<ToolFacts>,
}

impl Fixture {
    fn new(binding: Binding) -> Self {
        let facts = ToolFacts {
            name: binding.name,
            kind: "http".into(),
            tier: binding.tier,
            read_only: binding.read_only,
            idempotent: false,
            definition: binding.definition,
            timeout: binding.timeout,
            result_bytes_max: binding.result_bytes_max,
            cost_micro_usd: None,
            dedupe: None,
            roles: crate::domain::taint::ToolRoles::default(),
        };
        let Kind::Http(http) = binding.kind else { panic!("an http binding") };
        let http = Http::new(*http, facts.read_only, facts.result_bytes_max, Arc::new(System));
        Self { http: http.unwrap(), facts: Arc::new(facts) }
    }

    fn prepare(&self, args: &str) -> Result<Prepared, Vec<LayerReason>> {
        let call = call(args);
        let (effect, hold) = self.http.prepare(&call)?;
        Ok(Prepared::ready(call, Arc::clone(&self.facts), effect, Vec::new(), hold))
    }

    async fn run(&self, args: &str) -> Unmasked {
        self.http.send(&self.prepare(args).unwrap(), &Fuse::never()).await
    }
}

/// Reads one request: head and as many body bytes as it announces.
async fn request(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    loop {
        let mut chunk = [0_u8; 4096];
        let n = stream.read(&mut chunk).await.unwrap_or(0);
        seen.extend_from_slice(&chunk[..n]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .to_ascii_lowercase()
                .lines()
                .find_map(|l| l.strip_prefix("content-length: ").and_then(|v| v.parse().ok()))
                .unwrap_or(0_usize);
            if body.len() >= length {
                return text;
            }
        }
        if n == 0 {
            return text;
        }
    }
}

/// A server that sends these bytes in response to one request and closes; returns the bytes that it
/// received.
async fn answering(answer: Vec<u8>) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = request(&mut stream).await;
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
        request
    });
    (port, server)
}

const GET: &str = "    method: GET\n";
const READ_ONLY: &str = "    method: GET\n  read_only: true\n";

async fn outcome(more: &str, answer: impl Into<Vec<u8>>) -> Unmasked {
    let (port, _server) = answering(answer.into()).await;
    Fixture::new(binding(port, more)).run(r#"{"id":"1"}"#).await
}

fn class(outcome: &Unmasked) -> (FailureClass, bool) {
    match outcome {
        Unmasked::Failed { class, started, .. } => (*class, *started),
        other => panic!("{other:?}"),
    }
}

fn ok(headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn text(outcome: Unmasked) -> String {
    match outcome {
        Unmasked::Completed { result, .. } => String::from_utf8(result.into_parts().0).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_request_is_what_was_judged_and_carries_the_credential() {
    let (port, server) =
        answering(ok("content-type: application/json\r\n", r#"{"b":1, "a":2}"#)).await;
    let more = "    method: POST\n    query: {q: '{q}', fixed: x y}\n    body: args\n    headers: {accept: application/json}\n";
    let fixture = Fixture::new(binding(port, more));
    let prepared = fixture.prepare(r#"{"q":"a&b=c#d\r\nX: y", "id":"1?x"}"#).unwrap();
    let Effect::Http { path, query, body_bytes, host, port: to, .. } = prepared.effect() else {
        panic!("an http effect")
    };
    assert_eq!((path.as_str(), host.as_str(), *to), ("/v1/orders/1%3Fx", "127.0.0.1", port));
    assert_eq!(query[1], ("q".into(), "a&b=c#d\r\nX: y".into()));
    let body_bytes = *body_bytes;
    let outcome = fixture.http.send(&prepared, &Fuse::never()).await;
    assert_eq!(
        text(outcome),
        r#"{"body":{"a":2,"b":1},"content_type":"application/json","status":200}"#
    );
    let sent = server.await.unwrap();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with(
            "POST /v1/orders/1%3Fx?fixed=x%20y&q=a%26b%3Dc%23d%0D%0AX%3A%20y HTTP/1.1\r\n"
        ),
        "{head}"
    );
    assert_eq!(body.as_bytes(), prepared.call().canonical());
    assert_eq!(u64::try_from(body.len()).unwrap(), body_bytes);
    let id = format!("{}.c1", RunId::from_random([7; 16]));
    for header in [
        format!("authorization: Bearer {TOKEN}"),
        format!("host: 127.0.0.1:{port}"),
        format!("idempotency-key: {id}"),
        format!("x-wicketgate-call: {id}"),
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        "accept-encoding: identity".into(),
        "content-type: application/json".into(),
        "accept: application/json".into(),
    ] {
        assert!(head.lines().any(|line| line == header), "{header} is not in\n{head}");
    }
}

#[tokio::test]
async fn a_secret_in_the_query_is_sent_and_is_no_fact() {
    let (port, server) = answering(ok("", "x")).await;
    let mut binding = binding(port, GET);
    let Kind::Http(http) = &mut binding.kind else { panic!("http") };
    http.credentials[0].place = CredentialTarget::Query("key".into());
    let fixture = Fixture::new(binding);
    let prepared = fixture.prepare(r#"{"id":"1"}"#).unwrap();
    assert!(!canonical::text(&prepared.effect().to_json()).contains("tok-"));
    fixture.http.send(&prepared, &Fuse::never()).await;
    assert!(server.await.unwrap().starts_with("GET /v1/orders/1?key=tok-Very%2FSecret%2B1234 "));
}

#[tokio::test]
async fn an_echoed_credential_never_leaves() {
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("user:{TOKEN}"));
    let body = format!(r#"{{"headers":{{"authorization":"Bearer {TOKEN}","basic":"{basic}"}}}}"#);
    let outcome = outcome(GET, ok("content-type: application/json\r\n", &body)).await;
    assert!(format!("{outcome:?}").len() > 10 && text(outcome.clone()).contains(TOKEN));
    let secret = Secret::parse(TOKEN).unwrap();
    let clean = text(Scrub::new(&[secret]).apply(outcome));
    assert!(
        !clean.contains("Very") && clean.matches("[REDACTED:credential]").count() == 2,
        "{clean}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let inner = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = inner.local_addr().unwrap();
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent", "304 Not Modified"] {
        let answer = format!(
            "HTTP/1.1 {status}\r\nlocation: http://{to}/steal\r\ncontent-length: 0\r\n\r\n"
        );
        assert_eq!(class(&outcome(GET, answer).await), (FailureClass::Protocol, true), "{status}");
    }
    // The listener is the only other way in: a connection made now is the first it ever sees.
    let probe = TcpStream::connect(to).await.unwrap();
    let (_, from) = inner.accept().await.unwrap();
    assert_eq!(from, probe.local_addr().unwrap());
}

#[tokio::test]
async fn a_status_that_is_no_success_is_a_failure_with_its_number() {
    let answer = outcome(GET, "HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\nsecret").await;
    let Unmasked::Failed { class: FailureClass::ToolError, started: true, message } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(message, "the tool answered `404`");
    assert_eq!(
        class(&outcome(GET, "HTTP/1.1 500 X\r\n\r\n").await),
        (FailureClass::ToolError, true)
    );
}

#[tokio::test]
async fn an_answer_over_its_cap_fails_and_is_never_cut() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\nx";
    assert_eq!(class(&outcome(GET, announced).await), (FailureClass::TooLarge, true));
    let mut endless = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
    endless.resize(1 << 20, b'x');
    assert_eq!(class(&outcome(GET, endless).await), (FailureClass::TooLarge, true));
    assert!(text(outcome(GET, ok("", &"x".repeat(10_000))).await).len() > 10_000);
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(64 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(65));
    for unread in [head, many] {
        assert!(matches!(
            class(&outcome(READ_ONLY, unread.clone()).await),
            (FailureClass::TooLarge | FailureClass::Protocol, true)
        ));
        let unknown = outcome(GET, unread).await;
        assert!(matches!(unknown, Unmasked::Unknown { .. }), "{unknown:?}");
    }
}

#[tokio::test]
async fn an_encoded_answer_is_refused() {
    for encoding in ["gzip", "br", "deflate", "identity, gzip"] {
        let answer = ok(&format!("content-encoding: {encoding}\r\n"), "x");
        assert_eq!(
            class(&outcome(GET, answer).await),
            (FailureClass::Protocol, true),
            "{encoding}"
        );
    }
    assert!(text(outcome(GET, ok("content-encoding: identity\r\n", "x")).await).contains("\"x\""));
}

#[tokio::test]
async fn a_lost_connection_is_unknown_unless_reading_changes_nothing() {
    let lost = Unmasked::Unknown { cause: "connection_lost".into() };
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let other = "SSH-2.0-OpenSSH\r\n\r\n";
    assert_eq!(outcome(GET, other).await, lost);
    assert_eq!(class(&outcome(READ_ONLY, other).await), (FailureClass::Protocol, true));
    for answer in ["", cut] {
        assert_eq!(outcome(GET, answer).await, lost, "{answer:?}");
        assert_eq!(
            class(&outcome(READ_ONLY, answer).await),
            (FailureClass::ToolError, true),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_gateway_that_got_no_answer_knows_as_little_as_we_do() {
    for status in [502, 504] {
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        let unknown = Unmasked::Unknown { cause: "gateway".into() };
        assert_eq!(outcome(GET, answer.as_str()).await, unknown, "{status}");
        let read = outcome(READ_ONLY, answer.as_str()).await;
        assert_eq!(class(&read), (FailureClass::ToolError, true), "{status}");
    }
    let busy = "HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(class(&outcome(GET, busy).await), (FailureClass::ToolError, true));
}

#[tokio::test]
async fn a_refused_connection_means_that_nothing_started() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let outcome = Fixture::new(binding(port, GET)).run(r#"{"id":"1"}"#).await;
    assert_eq!(class(&outcome), (FailureClass::Connect, false));
}

#[tokio::test]
async fn an_address_out_of_bounds_is_a_failure_before_anything_is_sent() {
    let mut binding = binding(9, GET);
    let Kind::Http(http) = &mut binding.kind else { panic!("http") };
    http.private_addresses.clear();
    let outcome = Fixture::new(binding).run(r#"{"id":"1"}"#).await;
    let Unmasked::Failed { class: FailureClass::Connect, started: false, message } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(message, "the host has an address that is not allowed");
}

#[tokio::test]
async fn an_answer_that_drips_is_ended_by_the_deadline_above() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n").await;
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        while stream.write_all(b"x").await.is_ok() {
            tick.tick().await;
        }
    });
    let fixture = Fixture::new(binding(port, GET));
    let running = fixture.run(r#"{"id":"1"}"#);
    assert!(tokio::time::timeout(Duration::from_millis(200), running).await.is_err());
}

#[tokio::test]
async fn what_readers_could_read_differently_comes_back_as_text() {
    let json = "content-type: application/json; charset=utf-8\r\n";
    let twice = text(outcome(GET, ok(json, r#"{"a":1,"a":2}"#)).await);
    assert!(twice.contains(r#""body":"{\"a\":1,\"a\":2}""#), "{twice}");
    assert!(text(outcome(GET, ok("", r#"{"a":1}"#)).await).contains(r#""body":"{\"a\":1}""#));
    let mut binary = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n".to_vec();
    binary.extend([0xff, 0xfe]);
    assert!(text(outcome(GET, binary).await).contains(r#""body_base64":"//4=""#));
}

#[tokio::test]
async fn a_second_call_reuses_the_connection_and_survives_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let mut requests = 0;
        for _connection in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            for _ in 0..2 {
                assert!(request(&mut stream).await.starts_with("GET "));
                stream.write_all(&ok("", "x")).await.unwrap();
                requests += 1;
            }
        }
        requests
    });
    let fixture = Fixture::new(binding(port, GET));
    for _ in 0..4 {
        text(fixture.run(r#"{"id":"1"}"#).await);
        // The pool learns of an idle or closed connection on its own task.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(server.await.unwrap(), 4);
}

#[test]
fn values_that_would_change_the_path_are_refused_with_a_code() {
    let fixture = Fixture::new(binding(9, GET));
    for value in ["../../admin", "1%2f..%2fadmin", "..", "a/b"] {
        let reasons = fixture.prepare(&format!(r#"{{"id":"{value}"}}"#)).unwrap_err();
        assert_eq!(reasons[0].detail, "http.path_traversal", "{value}");
    }
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(9000));
    assert_eq!(fixture.prepare(&long).unwrap_err()[0].detail, "http.too_large");
}

/// A server with TLS and the certificate of `localhost` that responds to one request.
fn tls_server() -> u16 {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::io::{Read as _, Write as _};

    let certificate =
        CertificateDer::from_pem_slice(include_bytes!("../../../../tests/data/tls/leaf.pem"));
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../../../tests/data/tls/leaf.key"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.unwrap()], key.unwrap())
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut tls = rustls::StreamOwned::new(connection, stream);
        let mut seen = [0_u8; 4096];
        // A client that does not trust the certificate ends the handshake here.
        if tls.read(&mut seen).is_ok_and(|n| n > 0) {
            let _ = tls.write_all(&ok("", "over tls"));
            let _ = tls.flush();
        }
    });
    port
}

/// Resolves every name to loopback.
#[derive(Debug)]
struct Loopback;

#[async_trait]
impl Resolve for Loopback {
    async fn lookup(&self, _: &str, port: u16) -> std::io::Result<Vec<std::net::SocketAddr>> {
        Ok(vec![std::net::SocketAddr::from(([127, 0, 0, 1], port))])
    }
}

async fn over_tls(host: &str, ca: Option<&[u8]>) -> Unmasked {
    let Kind::Http(mut http) = binding(tls_server(), GET).kind else { panic!("http") };
    http.origin.tls = true;
    http.origin.host = crate::catalog::host::Host::parse(host).unwrap();
    http.ca = ca.map(<[u8]>::to_vec);
    let http = Http::new(*http, false, 10_000, Arc::new(Loopback)).unwrap();
    let facts = Fixture::new(binding(9, GET)).facts;
    Fixture { http, facts }.run(r#"{"id":"1"}"#).await
}

#[tokio::test]
async fn tls_trusts_the_binding_s_authority_for_the_binding_s_name_and_nothing_else() {
    let ca: &[u8] = include_bytes!("../../../../tests/data/tls/ca.pem");
    assert!(text(over_tls("tools.test", Some(ca)).await).contains("over tls"));
    for (host, ca) in [("other.test", Some(ca)), ("tools.test", None), ("127.0.0.1", Some(ca))] {
        assert_eq!(class(&over_tls(host, ca).await), (FailureClass::Connect, false), "{host}");
    }
}
