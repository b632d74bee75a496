use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wicketgate::serve::operator::{self, OperatorSettings, OperatorView, Running};
use wicketgate::serve::{Access, Readiness, SURFACE};

use crate::faces;

struct Served {
    addr: SocketAddr,
    tell: Option<watch::Sender<Readiness>>,
    shutdown: CancellationToken,
    running: Running,
}

fn serve(connections_max: usize) -> Served {
    let (faces, tell, _) = faces();
    let addr = SocketAddr::from(([127, 0, 0, 1], 0));
    let hosts = vec!["gate.example".to_owned()];
    let settings = OperatorSettings { addr, hosts, connections_max, ..OperatorSettings::default() };
    let shutdown = CancellationToken::new();
    let view = OperatorView { readiness: faces.readiness, metrics: faces.metrics };
    let running = operator::serve(settings, view, shutdown.clone()).unwrap();
    Served { addr: running.address(), tell: Some(tell), shutdown, running }
}

impl Served {
    async fn ask(&self, line: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

#[tokio::test]
async fn every_listed_route_answers_and_nothing_else_does() {
    let served = serve(8);
    let open = |access: &Access| *access == Access::Open;
    let here = SURFACE.iter().filter(|(name, access)| name.starts_with("GET ") && open(access));
    for (name, _) in here {
        let answer = served.ask(name, "Host: localhost\r\n").await;
        assert!(!answer.starts_with("HTTP/1.1 40"), "{name}: {answer}");
    }
    for path in ["/", "/debug", "/wicketgate.v1.Gate/OpenRun", "/metrics/x", "/admin"] {
        let answer = served.ask(&format!("GET {path}"), "Host: localhost\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    let answer = served.ask("POST /livez", "Host: localhost\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

#[tokio::test]
async fn a_browser_is_turned_away_whatever_origin_it_names() {
    let served = serve(8);
    for origin in ["https://evil.example", "http://localhost:7301", "null", ""] {
        let headers = format!("Host: localhost\r\nOrigin: {origin}\r\n");
        let answer = served.ask("GET /metrics", &headers).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{origin}: {answer}");
        assert!(!answer.contains("wicketgate_"), "{answer}");
    }
}

#[tokio::test]
async fn only_names_of_this_machine_are_answered() {
    let served = serve(8);
    let named = |host: &'static str| served.ask("GET /livez", host);
    for good in ["Host: localhost\r\n", "Host: 127.0.0.1:7301\r\n", "Host: gate.example\r\n"] {
        assert!(named(good).await.starts_with("HTTP/1.1 200"), "{good}");
    }
    for bad in [
        "Host: evil.example\r\n",
        "Host: localhost.evil.example\r\n",
        "Host: 10.1.2.3\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
        "",
    ] {
        let answer = named(bad).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{bad}: {answer}");
    }
}

#[tokio::test]
async fn readiness_tells_the_truth_and_why() {
    let mut served = serve(8);
    let tell = served.tell.take().unwrap();
    let reasons = vec!["no policy bundle is loaded".to_owned()];
    tell.send(Readiness { reasons, ..Readiness::default() }).unwrap();
    let answer = served.ask("GET /readyz", "Host: localhost\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let body = r#"{"notes":[],"ready":false,"reasons":["no policy bundle is loaded"]}"#;
    assert!(answer.ends_with(body), "{answer}");
    let answer = served.ask("GET /readyz", "Host: localhost\r\nAccept: text/plain\r\n").await;
    assert!(answer.ends_with("not ready\nno policy bundle is loaded\n"), "{answer}");

    let notes = vec!["server `github`: starting again".to_owned()];
    tell.send(Readiness { ready: true, notes, ..Readiness::default() }).unwrap();
    let answer = served.ask("GET /readyz", "Host: localhost\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "a note takes nothing away: {answer}");
    let body = r#"{"notes":["server `github`: starting again"],"ready":true,"reasons":[]}"#;
    assert!(answer.ends_with(body), "{answer}");
    let answer = served.ask("GET /readyz", "Host: localhost\r\nAccept: text/plain\r\n").await;
    assert!(answer.ends_with("ready\nserver `github`: starting again\n"), "{answer}");
    let answer = served.ask("GET /metrics", "Host: localhost\r\n").await;
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    assert!(answer.contains("wicketgate_ready 1"), "{answer}");

    drop(tell);
    let answer = served.ask("GET /readyz", "Host: localhost\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[tokio::test]
async fn a_newcomer_takes_the_place_of_a_silent_one_and_is_served() {
    let served = serve(1);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(served.addr).await.unwrap());
    }
    let answer = served.ask("GET /livez", "Host: localhost\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The first ones went for the last ones.
    let closed = silent[0].read(&mut [0; 16]).await;
    assert!(closed.is_err() || closed.is_ok_and(|read| read == 0));
}

#[tokio::test]
async fn shutdown_closes_the_listener() {
    let served = serve(8);
    served.shutdown.cancel();
    tokio::task::spawn_blocking(|| served.running.join()).await.unwrap();
    assert!(TcpStream::connect(served.addr).await.is_err());
}

#[tokio::test]
async fn startupz_reports_started_and_readyz_reports_ready() {
    let mut served = serve(8);
    let tell = served.tell.take().unwrap();
    for (started, ready) in [(false, false), (true, false), (true, true)] {
        let reasons = if ready { Vec::new() } else { vec!["ledger: failing: away".to_owned()] };
        tell.send(Readiness { started, ready, reasons, ..Readiness::default() }).unwrap();
        for (path, so) in [("/startupz", started), ("/readyz", ready)] {
            let answer = served.ask(&format!("GET {path}"), "Host: localhost\r\n").await;
            let status = if so { "HTTP/1.1 200" } else { "HTTP/1.1 503" };
            assert!(answer.starts_with(status), "{path}: {answer}");
            assert_eq!(answer.contains("ledger: failing: away"), !so, "{path}: {answer}");
        }
        let plain = "Host: localhost\r\nAccept: text/plain\r\n";
        let answer = served.ask("GET /startupz", plain).await;
        assert_eq!(answer.contains("not started"), !started, "{answer}");
    }
    drop(tell);
    let answer = served.ask("GET /startupz", "Host: localhost\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

/// One request on the operators' socket.
async fn on_socket(path: &std::path::Path) -> String {
    let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let request = b"GET /readyz HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Which address is taken makes no difference: one of IPv4, one of IPv6, and every address of the machine.
#[tokio::test]
async fn an_occupied_address_is_reported_and_taken_when_free_while_the_socket_answers() {
    use std::os::unix::fs::PermissionsExt as _;

    for place in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
        let dir = tempfile::tempdir().unwrap();
        let thief = std::net::TcpListener::bind(place).unwrap();
        let addr = thief.local_addr().unwrap();
        let socket = dir.path().join("operator.sock");
        let (faces, tell, _) = faces();
        let view = OperatorView { readiness: faces.readiness, metrics: faces.metrics };
        let settings = OperatorSettings {
            addr,
            socket: Some(socket.clone()),
            patient: true,
            ..OperatorSettings::default()
        };
        let shutdown = CancellationToken::new();
        let impatient = OperatorSettings { patient: false, socket: None, ..settings.clone() };
        let refused = operator::serve(impatient, view.clone(), CancellationToken::new());
        assert!(refused.unwrap_err().to_string().contains("cannot listen on"), "{place}");
        let running = operator::serve(settings, view, shutdown.clone()).unwrap();
        assert_eq!(running.address(), addr);
        let why = running.hindered().reason().unwrap();
        assert!(why.contains(&format!("`{addr}`")) && why.contains("trying again"), "{why}");
        crate::waiting::until("the socket", || async {
            socket.exists() && on_socket(&socket).await.starts_with("HTTP/1.1 503")
        })
        .await;
        let mode = socket.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody but this user connects");
        tell.send(Readiness { ready: true, ..Readiness::default() }).unwrap();
        assert!(on_socket(&socket).await.starts_with("HTTP/1.1 200"));
        drop(thief);
        crate::waiting::until("the address", || async { running.hindered().reason().is_none() })
            .await;
        let port = addr.port();
        let reached =
            if addr.is_ipv6() { format!("[::1]:{port}") } else { format!("127.0.0.1:{port}") };
        assert!(TcpStream::connect(reached).await.is_ok(), "{place}");
        shutdown.cancel();
        tokio::task::spawn_blocking(|| running.join()).await.unwrap();
        assert!(!socket.exists(), "left behind");
    }
}
