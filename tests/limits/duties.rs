//! Obligations of a policy that limit, keep, report and ask for a reason, through the built program.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tonic_types::StatusExt as _;
use wicketgate_support::evidence::{evidence, outcome};
use wicketgate_support::pg::Pg;

use crate::agent::Refused;
use crate::settings::entries;
use crate::sidecar::Estate;
use crate::tool::Tool;

/// A bundle that allows every call, with this obligation on `work.do`.
fn obliged(estate: &Estate, obligation: &str) {
    let rules = format!(
        "package wicketgate.agent\n\nimport rego.v1\n\nallow if input.tool.name in {{\"work.do\", \"work.held\"}}\n\n\
         obligations contains {obligation} if input.tool.name == \"work.do\"\n"
    );
    estate.bundle("1.0.1", &rules, "policy");
}

fn denied(answer: &Result<String, Refused>) -> (&str, &str) {
    let refused = answer.as_ref().expect_err("a refusal");
    (&refused.code, &refused.detail)
}

async fn rated(estate: &Estate) {
    obliged(estate, r#"{"type": "rate_limit", "calls": 2, "seconds": 3600}"#);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.kill();
    let mut sidecar = estate.serve().await;
    agent.call("work.do", "b", r#"{"n":2}"#).await.unwrap();
    for restarted in [false, true] {
        if restarted {
            sidecar.kill();
            sidecar = estate.serve().await;
        }
        let status =
            agent.raw("work.do", &format!("c-{restarted}"), b"{\"n\":3}").await.unwrap_err();
        let refused = Refused::of(&status);
        assert_eq!((&*refused.code, &*refused.detail), ("limit.exceeded", "limit.rate"));
        assert!(
            refused.message.contains("2 calls of `work.do` within 3600 seconds"),
            "{refused:?}"
        );
        let again = status.get_details_retry_info().and_then(|info| info.retry_delay).unwrap();
        assert!((3000..=3600).contains(&again.as_secs()), "{again:?}");
        // Another tool, and another run, have a count of their own.
        agent.call("work.held", &format!("d-{restarted}"), "{}").await.unwrap();
    }
    let other = sidecar.open().await;
    other.call("work.do", "a", "{}").await.unwrap();
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_is_counted_for_one_tool_of_one_run_and_across_restarts_on_sqlite() {
    let tool = Tool::start().await;
    rated(&Estate::sqlite(&tool)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_is_counted_for_one_tool_of_one_run_and_across_restarts_on_postgres() {
    let tool = Tool::start().await;
    let db = Pg::cluster().database().await;
    rated(&Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_the_reason_that_a_policy_demands_is_denied_and_says_how_to_give_one() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    obliged(&estate, r#"{"type": "justify"}"#);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let answer = agent.call("work.do", "a", "{}").await;
    assert_eq!(denied(&answer), ("policy.denied", "obligation.justify"));
    let message = answer.unwrap_err().message;
    for way in ["`justification` of ExecuteTool", "`wicketgate.dev/justification`"] {
        assert!(message.contains(way), "{message}");
    }
    let because = async |text: &str, id: &str| agent.justified("work.do", id, text).await;
    because("ticket 4711 asks for it", "b").await.unwrap();
    // What the ledger must not keep, and what is no sentence, is refused before anything is recorded.
    let key = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5");
    for (id, text) in
        [("c", key.as_str()), ("d", "mail ann@example.com"), ("e", "two\nlines"), ("f", " ")]
    {
        assert_eq!(
            denied(&because(text, id).await),
            ("request.malformed", "call.justification"),
            "{text}"
        );
    }
    sidecar.stop().await;
    let authorized = entries(&estate, "call.authorized");
    assert_eq!(authorized.len(), 1);
    assert_eq!(authorized[0]["data"]["justification"], "ticket 4711 asks for it");
    assert_eq!(authorized[0]["data"]["obligations"], json!([{"type": "justify"}]));
    assert_eq!(entries(&estate, "call.denied").len(), 1);
    let all = serde_json::to_string(&entries(&estate, "call.denied")).unwrap();
    assert!(!all.contains("ghp_") && tool.count() == 1);
}

/// Reads one request and takes it; its body.
async fn taken(receiver: &TcpListener) -> Value {
    let (mut stream, _) = receiver.accept().await.unwrap();
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        text.extend_from_slice(&piece[..read]);
        let so_far = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.trim().parse().unwrap() {
            let answer = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            return serde_json::from_str(body).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_webhook_reports_a_call_that_a_policy_has_reported_without_its_arguments() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    obliged(&estate, r#"{"type": "notify", "to": "owner"}"#);
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    estate.run(&["keygen", "--out", "hook.pem"]);
    let url = format!("http://{}", receiver.local_addr().unwrap());
    estate.configure(|config| {
        config["approvals"]["webhook"] = json!({"url": url, "key": "hook.pem"});
    });
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.held", "a", "{}").await.unwrap();
    agent.call("work.do", "b", r#"{"n":732197321973}"#).await.unwrap();
    let notice = taken(&receiver).await;
    assert_eq!(notice["type"], "call.notify");
    let data = &notice["data"];
    assert_eq!(
        (&data["to"], &data["call"], &data["tool"]),
        (&json!(["owner"]), &"b".into(), &"work.do".into())
    );
    assert_eq!((&data["verdict"], &data["run"]), (&"allow".into(), &agent.run.as_str().into()));
    assert!(data["rule"].as_str().unwrap().contains("main.rego"), "{notice}");
    assert!(!notice.to_string().contains("732197321973"), "{notice}");
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_makes_decisions_with_these_obligations_again() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let duties = [
        r#"{"type": "justify"}"#,
        r#"{"type": "rate_limit", "calls": 1, "seconds": 3600}"#,
        r#"{"type": "notify", "to": "owner"}"#,
        r#"{"type": "enhanced_audit", "days": 400}"#,
    ];
    let rules = duties.map(|duty| format!("obligations contains {duty}\n")).concat();
    let rules = format!(
        "package wicketgate.agent\n\nimport rego.v1\n\nallow if input.tool.name in {{\"work.do\", \"work.held\"}}\n\n{rules}"
    );
    estate.bundle("1.0.1", &rules, "policy");
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    assert_eq!(denied(&agent.call("work.do", "a", "{}").await).1, "obligation.justify");
    agent.justified("work.do", "b", "ticket 4711").await.unwrap();
    assert_eq!(denied(&agent.justified("work.do", "c", "again").await).1, "limit.rate");
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let (verdict, _) = evidence(&estate, &agent.run, "proof");
    let made = outcome(&verdict, "P5");
    assert_eq!(made["outcome"], "VALID", "{verdict}");
    assert!(made.to_string().contains("2 decisions reproduced"), "{made}");
}
