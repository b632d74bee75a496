//! What another server is told of a held call.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use wicketgate::clock::{Clock as _, SystemClock, SystemEntropy};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::operator::webhook::{Webhook, WebhookFormat};

use crate::api::{ApiServer, ask, run_id};

/// One request as it came.
struct Came {
    headers: String,
    body: String,
}

impl Came {
    fn header(&self, name: &str) -> String {
        let line = self.headers.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.unwrap()[name.len() + 1..].trim().to_owned()
    }

    /// Verifies as any receiver does, with the public key alone.
    fn verified(&self, key: &[u8; 32]) -> Value {
        let (id, at) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let now = SystemClock::new().now().seconds();
        assert!(now.abs_diff(at.parse().unwrap()) < 300);
        let signature = self.header("webhook-signature");
        let bytes = STANDARD.decode(signature.strip_prefix("v1a,").unwrap()).unwrap();
        let signature = Signature::from_slice(&bytes).unwrap();
        let key = VerifyingKey::from_bytes(key).unwrap();
        let signed = format!("{id}.{at}.{}", self.body);
        key.verify_strict(signed.as_bytes(), &signature).unwrap();
        let other = format!("{id}.{at}.{} ", self.body);
        key.verify_strict(other.as_bytes(), &signature).unwrap_err();
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The arguments of a held call. A notice contains its digest as six random words of small letters: those can spell
/// `iban`, but no `_` and no capital letter.
const ARGUMENTS: &str = r#"{"payee_iban":"DE02120300000000202051"}"#;

/// Nothing of them is in this text.
fn names_no_argument(text: &str) -> bool {
    !text.contains("payee_iban") && !text.contains("DE02")
}

/// The next request, answered with this status.
async fn next(receiver: &TcpListener, status: &str) -> Came {
    let (mut stream, _) = receiver.accept().await.unwrap();
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        text.extend_from_slice(&piece[..read]);
        let so_far = String::from_utf8_lossy(&text);
        let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase();
        let length = length.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
        if body.len() < length.trim().parse().unwrap() {
            continue;
        }
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        return Came { headers: head.to_owned(), body: body.to_owned() };
    }
}

#[tokio::test]
async fn the_webhook_retries_a_signed_notice_without_arguments_until_it_is_accepted() {
    let api = ApiServer::open().await;
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/held", receiver.local_addr().unwrap());
    let key = SecretKey::generate(&SystemEntropy);
    let public = key.public().to_bytes();
    let link = Some("https://desk.example.com/approvals/".to_owned());
    let hook = Webhook::new(&url, None, Arc::new(key), link).unwrap();
    let stop = CancellationToken::new();
    let telling = tokio::spawn(hook.run(Arc::clone(&api.handler), stop.clone()));

    let run = run_id(1);
    api.open_run(run).await;
    let digest = api.hold(ask(run, "c1", ARGUMENTS)).await;
    let failed = next(&receiver, "503 Service Unavailable").await;
    let taken = next(&receiver, "204 No Content").await;
    assert_eq!(failed.header("webhook-id"), taken.header("webhook-id"), "told again as the same");
    let told = taken.verified(&public);
    assert_eq!(told["type"], "call.held");
    let data = &told["data"];
    assert_eq!(
        (&data["run"], &data["call"], &data["tool"], &data["tier"]),
        (&run.to_string().into(), &"c1".into(), &"payments.refund".into(), &"T3".into())
    );
    assert_eq!(data["digest"], digest.hex());
    assert_eq!(data["link"], format!("https://desk.example.com/approvals/{run}/c1"));
    assert!(names_no_argument(&taken.body), "{}", taken.body);

    // The next one that comes is about the next call: the first was taken.
    api.hold(ask(run, "c2", r#"{"amount":1}"#)).await;
    let second = next(&receiver, "200 OK").await;
    assert_eq!(second.verified(&public)["data"]["call"], "c2");
    stop.cancel();
    telling.await.unwrap();
}

#[tokio::test]
async fn the_webhook_does_not_report_a_call_that_is_no_longer_held() {
    let api = ApiServer::open().await;
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", receiver.local_addr().unwrap());
    let key = Arc::new(SecretKey::generate(&SystemEntropy));
    let hook = Webhook::new(&url, None, key, None).unwrap();
    let stop = CancellationToken::new();
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "gone", "{}")).await;
    api.hold(ask(run, "stays", r#"{"a":1}"#)).await;
    api.end_call(run, "gone").await;
    let telling = tokio::spawn(hook.run(Arc::clone(&api.handler), stop.clone()));
    let only = next(&receiver, "200 OK").await;
    assert!(only.body.contains("\"stays\""), "{}", only.body);
    stop.cancel();
    telling.await.unwrap();
}

/// The script on the page about notices, as a reader copies it.
fn script() -> String {
    let page = include_str!("../../docs/operate/notify.md");
    let (_, rest) = page.split_once("cat > verify-notice <<'END'\n").unwrap();
    rest.split_once("\nEND\n").unwrap().0.to_owned()
}

/// Runs the script of the page on this request: its exit code.
fn verified_by_the_page(came: &Came, key: &SecretKey, body: &str) -> Option<i32> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("verify-notice"), script()).unwrap();
    std::fs::write(path("webhook.pem.pub"), key.public().to_pem()).unwrap();
    std::fs::write(path("body"), body).unwrap();
    let header = |name: &str| came.header(name);
    let done = std::process::Command::new("sh")
        .arg("verify-notice")
        .arg("webhook.pem.pub")
        .args([header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")])
        .arg("body")
        .current_dir(dir.path())
        .output()
        .unwrap();
    done.status.code()
}

#[tokio::test]
async fn slack_and_teams_get_bodies_of_their_own_with_the_signature_and_no_argument() {
    for format in [WebhookFormat::Slack, WebhookFormat::Teams] {
        let api = ApiServer::open().await;
        let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // As the URL of a workflow of Teams, whose query is its secret.
        let query = "api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sig=a-B_c";
        let url = format!("http://{}/held?{query}", receiver.local_addr().unwrap());
        let key = SecretKey::generate(&SystemEntropy);
        let public = key.public().to_bytes();
        let link = Some("https://hub.example.com/console/approvals".to_owned());
        let hook = Webhook::new(&url, None, Arc::new(key.clone()), link).unwrap().in_format(format);
        let stop = CancellationToken::new();
        let telling = tokio::spawn(hook.run(Arc::clone(&api.handler), stop.clone()));
        let run = run_id(1);
        api.open_run_of(run, "<!channel> [x](https://evil.example)").await;
        api.hold(ask(run, "c1", ARGUMENTS)).await;
        let came = next(&receiver, "200 OK").await;
        let body = came.verified(&public);
        let begins = format!("POST /held?{query} HTTP/1.1\r\n");
        assert!(came.headers.starts_with(&begins), "{}", came.headers);
        assert!(names_no_argument(&came.body), "{}", came.body);
        let page = format!("https://hub.example.com/console/approvals/{run}/c1");
        match format {
            WebhookFormat::Slack => {
                let text = body["text"].as_str().unwrap();
                assert!(text.starts_with("A call is held: Tool `payments.refund`"), "{text}");
                assert!(body["blocks"].as_array().unwrap().len() >= 2, "{body}");
                assert!(!came.body.contains("<!channel>"), "{}", came.body);
                assert!(came.body.contains("&lt;!channel&gt;"), "{}", came.body);
                assert!(came.body.contains(&format!("<{page}|Open in the console>")), "{body}");
            }
            WebhookFormat::Teams => {
                let card = &body["attachments"][0]["content"];
                assert_eq!(card["type"], "AdaptiveCard", "{body}");
                assert_eq!(card["actions"][0]["url"], page, "{body}");
            }
            WebhookFormat::Standard => unreachable!(),
        }
        assert_eq!(verified_by_the_page(&came, &key, &came.body), Some(0));
        let other = came.body.replace("payments", "payment5");
        assert_eq!(verified_by_the_page(&came, &key, &other), Some(1), "another body");
        let stranger = SecretKey::generate(&SystemEntropy);
        assert_eq!(verified_by_the_page(&came, &stranger, &came.body), Some(1), "another key");
        stop.cancel();
        telling.await.unwrap();
    }
}
