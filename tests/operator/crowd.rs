//! Connections that show no credential, as many as somebody can make, keep nobody from a kill switch.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::api::{ApiServer, GATE, run_id};

const STOPPED: &str = r#"{"left":0,"runs_sealed":1,"stopped":[],"stopped_count":0}"#;

/// What each connection of a crowd says, and then waits for ever. Nothing; less than a request; a request without
/// end; one that is answered, of a probe and of somebody nobody knows; another protocol.
const CROWDS: [(&str, &str); 7] = [
    ("silent", ""),
    ("half a line", "GET /li"),
    ("headers without end", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "),
    ("answered", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("unknown", "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n"),
    (
        "a body that does not come",
        "POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{",
    ),
    ("half of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0"),
];

/// 200 connections that say this, each opened again as soon as it is closed.
fn crowd(api: &ApiServer, says: &'static str) -> tokio::task::JoinSet<()> {
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let address = api.address;
        crowd.spawn(async move {
            loop {
                let Ok(mut stream) = TcpStream::connect(address).await else { continue };
                if stream.write_all(says.as_bytes()).await.is_err() {
                    continue;
                }
                let mut answer = [0; 4096];
                while stream.read(&mut answer).await.is_ok_and(|read| read > 0) {}
            }
        });
    }
    crowd
}

// 7 crowds, of 200 newcomers each, before whom each request waits for about a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_two_hundred_strangers_do_every_kill_order_and_every_probe_comes_through() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let _gate = api.gate(GATE, STOPPED).await;
    let kill = json!({"action": "kill", "target": "run", "name": run.to_string(), "reason": "x"});
    for (name, says) in CROWDS {
        let crowd = crowd(&api, says);
        for n in 0..2 {
            let (status, body) = api.post("otto", "/v1/control", &kill).await;
            assert_eq!(status, 200, "{name} {n}: {body}");
            let (status, _, body) = api.raw("GET /readyz", "", "").await;
            assert!([200, 503].contains(&status), "{name} {n}: {body}");
        }
        drop(crowd);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authenticated_client_stays_connected_when_a_crowd_connects() {
    let api = ApiServer::open().await;
    let mut known = TcpStream::connect(api.address).await.unwrap();
    let token = crate::api::token("otto");
    let request = format!(
        "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut answer = [0; 4096];
    known.write_all(request.as_bytes()).await.unwrap();
    assert!(known.read(&mut answer).await.unwrap() > 0);
    let crowd = crowd(&api, "");
    // A stranger has five seconds and is closed long before by the others; this one is neither.
    let (status, _, _) = api.raw("GET /livez", "", "").await;
    assert_eq!(status, 200);
    tokio::time::sleep(Duration::from_secs(6)).await;
    known.write_all(request.as_bytes()).await.unwrap();
    let read = known.read(&mut answer).await.unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{:?}", &answer[..read]);
    drop(crowd);
}
