//! One export at a time, beside everything else that operators do; and none for somebody who has left.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use wicketgate::approval::Approvers;
use wicketgate::clock::{SystemClock, SystemEntropy};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::evidence::artifacts::Artifacts;
use wicketgate::ledger::fleet::FleetParts;
use wicketgate::ledger::retention::PayloadEraser;
use wicketgate::ledger::spool::NoJournal;
use wicketgate::ledger::sqlite::{SqliteEraser, SqliteReader, SqliteStore};
use wicketgate::ledger::store::{LedgerReader, StoreError};
use wicketgate::operator::Cause;
use wicketgate::operator::evidence::{Archive, Evidence};
use wicketgate::record::Kind;

use crate::api::{ApiServer, run_id, token};

/// A ledger that opens when the test says so, and says how often it was asked.
struct Slow {
    path: PathBuf,
    key: SecretKey,
    open: watch::Receiver<bool>,
    asked: watch::Sender<u64>,
}

#[async_trait]
impl Archive for Slow {
    async fn reader(&self) -> Result<Arc<dyn LedgerReader>, StoreError> {
        self.asked.send_modify(|asked| *asked += 1);
        self.open.clone().wait_for(|open| *open).await.unwrap();
        Ok(Arc::new(SqliteReader::open(&self.path).await?))
    }

    async fn eraser(&self) -> Result<Option<Arc<dyn PayloadEraser>>, StoreError> {
        Ok(Some(Arc::new(SqliteEraser::open(&self.path).await?)))
    }

    async fn approvers(&self) -> Result<Approvers, Cause> {
        Err("nobody gives orders here".into())
    }

    async fn fleet(&self) -> Result<FleetParts, Cause> {
        Ok(FleetParts {
            store: Arc::new(SqliteStore::open_fleet(&self.path).await?),
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            enrolment: Arc::new(self.key.clone()),
            key: Arc::new(self.key.clone()),
            previous: None,
            anchor_file: None,
            sights: Vec::new(),
            journal: Box::new(NoJournal),
            tenant: "default".to_owned(),
        })
    }
}

/// An operator API whose ledger opens at a word: the word, and how often it was asked for.
async fn slow() -> (ApiServer, watch::Sender<bool>, watch::Receiver<u64>) {
    let api = ApiServer::open().await;
    api.open_run(run_id(1)).await;
    let (open_in, open) = watch::channel(false);
    let (asked, asked_out) = watch::channel(0);
    let key = SecretKey::generate(&SystemEntropy);
    let scratch = api.path("exports");
    std::fs::DirBuilder::new().mode(0o700).create(&scratch).unwrap();
    api.handler.allow_evidence(Evidence {
        archive: Arc::new(Slow { path: api.path("ledger.sqlite"), key: key.clone(), open, asked }),
        key: Arc::new(key),
        artifacts: Artifacts::at(&api.path("artifacts")),
        scratch,
        backups: Duration::from_secs(60),
        store: "sqlite",
    });
    (api, open_in, asked_out)
}

fn question() -> Value {
    json!({"query": {"scope": "run", "run": run_id(1).to_string()}})
}

/// Asks for the run as Aude: the head of the answer and its body's bytes.
async fn take(address: std::net::SocketAddr) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (token, body) = (token("aude"), question().to_string());
    let request = format!(
        "POST /v1/exports HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer \
         {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
    (head, answer[end + 4..].to_vec())
}

#[tokio::test]
async fn one_export_is_made_at_a_time_and_holds_up_no_order() {
    let (api, open, mut asked) = slow().await;
    let first = tokio::spawn(take(api.address));
    asked.wait_for(|asked| *asked == 1).await.unwrap();
    let (head, body) = take(api.address).await;
    assert!(head.starts_with("http/1.1 429") && head.contains("retry-after: 5"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("export.busy"), "{head}");
    let kill = json!({"action": "kill", "target": "all", "reason": "now"});
    assert_eq!(api.post("otto", "/v1/control", &kill).await.0, 202, "a kill waits for nobody");
    assert!(api.entries(Kind::EvidenceExported).await.is_empty());
    open.send_replace(true);
    let (head, body) = first.await.unwrap();
    assert!(head.starts_with("http/1.1 200") && head.contains("application/zip"), "{head}");
    assert!(head.contains("content-digest: sha-256=:") && body.starts_with(b"PK"), "{head}");
    let (head, _) = take(api.address).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(api.entries(Kind::EvidenceExported).await.len(), 2);
    assert_eq!(std::fs::read_dir(api.path("exports")).unwrap().count(), 0);
}

#[tokio::test]
async fn an_export_whose_client_has_left_is_given_up_and_recorded_nowhere() {
    let (api, open, mut asked) = slow().await;
    let stream = TcpStream::connect(api.address).await.unwrap();
    let shaken =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.unwrap();
    let driving = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{}/v1/exports", api.address))
        .header("authorization", format!("Bearer {}", token("aude")))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(question().to_string())))
        .unwrap();
    let waiting = tokio::spawn(sender.send_request(request));
    asked.wait_for(|asked| *asked == 1).await.unwrap();
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    // Its place is free once the handler has dropped it: a request after that is not refused.
    let second = tokio::spawn({
        let door = api.address;
        async move {
            loop {
                let (head, body) = take(door).await;
                if !head.starts_with("http/1.1 429") {
                    return (head, body);
                }
                tokio::task::yield_now().await;
            }
        }
    });
    asked.wait_for(|asked| *asked == 2).await.unwrap();
    open.send_replace(true);
    let (head, _) = second.await.unwrap();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(api.entries(Kind::EvidenceExported).await.len(), 1, "only what was sent");
    driving.abort();
}

#[tokio::test]
async fn one_verification_of_an_operator_runs_at_a_time_and_holds_up_no_order() {
    let (api, open, mut asked) = slow().await;
    let line = "POST /v1/audit/verify";
    let body = json!({"run": run_id(1).to_string()}).to_string();
    let first = api.ask("aude", line, &body);
    let others = async {
        asked.wait_for(|asked| *asked == 1).await.unwrap();
        let (status, said) = api.ask("aude", line, &body).await;
        assert_eq!((status, said["cause"].as_str()), (429, Some("audit.busy")), "{said}");
        let kill = json!({"action": "kill", "target": "all", "reason": "now"});
        assert_eq!(api.post("otto", "/v1/control", &kill).await.0, 202, "a kill waits for nobody");
        open.send_replace(true);
    };
    let ((status, report), ()) = tokio::join!(first, others);
    assert_eq!((status, report["entries"].as_u64()), (200, Some(1)), "{report}");
    let (status, again) = api.ask("aude", line, &body).await;
    assert_eq!(
        (status, &again["outcome"]),
        (200, &report["outcome"]),
        "its place is free: {again}"
    );
    // Nothing was handed out, so nothing is recorded.
    assert!(api.entries(Kind::EvidenceExported).await.is_empty());
}
