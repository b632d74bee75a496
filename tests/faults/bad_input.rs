//! What cannot be read, is not granted, is not signed, or makes the policy break.

use tonic::Code;
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_client::GateClient;

use crate::agent::{Agent, Refused, channel, claims};
use crate::checker::{calls, check, kinds};
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;

async fn served() -> (Tool, Estate, Sidecar) {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let sidecar = estate.serve().await;
    (tool, estate, sidecar)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_cannot_be_read_are_refused_by_name_and_run_nothing() {
    let (tool, estate, mut sidecar) = served().await;
    let agent = sidecar.open().await;
    let long = format!(r#"{{"s":"{}"}}"#, "x".repeat(1_048_577 - 8));
    assert_eq!(long.len(), 1_048_577);
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let cases: [(&[u8], &str); 10] = [
        (br#"{"n":1,"n":2}"#, "json.duplicate_key"),
        (br#"{"n":1,"\u006e":2}"#, "json.duplicate_key"),
        (br#"{"n":NaN}"#, "json."),
        (br#"{"n":18446744073709551616}"#, "json."),
        (long.as_bytes(), "json."),
        (deep.as_bytes(), "json.depth"),
        (b"\xff\xfe", "json."),
        (b"[]", ""),
        (br#"{"n":1} x"#, "json."),
        (b"", "json."),
    ];
    for (i, (args, detail)) in cases.into_iter().enumerate() {
        let refused = agent.call_bytes("work.do", &format!("bad-{i}"), args).await.unwrap_err();
        let shown = String::from_utf8_lossy(&args[..args.len().min(40)]).into_owned();
        assert_eq!(
            (refused.grpc, refused.code.as_str()),
            (Code::InvalidArgument, "request.malformed"),
            "{shown}: {refused:?}"
        );
        assert!(refused.detail.starts_with(detail), "{shown}: {refused:?}");
    }
    let refused = agent.call("work.do", "no/such id", "{}").await.unwrap_err();
    assert_eq!(refused.code, "request.malformed");
    assert_eq!(tool.count(), 0);
    let good = agent.call("work.do", "good", r#"{"n":1}"#).await.unwrap();
    assert!(good.contains(r#""done":true"#), "{good}");
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert!(kinds(&summary, "request.rejected") >= 1, "{summary}");
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_tool_and_an_ungranted_tool_get_the_same_denial() {
    let (tool, estate, mut sidecar) = served().await;
    let agent = sidecar.open().await;
    let unknown = agent.call("work.nowhere", "a", "{}").await.unwrap_err();
    let ungranted = agent.call("work.unbound", "b", "{}").await.unwrap_err();
    assert_eq!((unknown.grpc, unknown.code.as_str()), (Code::PermissionDenied, "tool.not_granted"));
    let same = |refused: Refused| Refused {
        message: refused.message.replace("work.nowhere", "T").replace("work.unbound", "T"),
        ..refused
    };
    assert_eq!(same(unknown), same(ungranted));
    assert!(!agent.tools().await.contains(&"work.unbound".to_owned()));
    assert_eq!(tool.count(), 0);
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "denied"), 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_and_other_instructions_open_no_run() {
    let (tool, estate, mut sidecar) = served().await;
    let mut gate = GateClient::new(channel(&estate.socket()));
    let wrong = [
        pb::OpenRunRequest { model: "other-model".to_owned(), ..claims() },
        pb::OpenRunRequest { model: "TEST-MODEL".to_owned(), ..claims() },
        pb::OpenRunRequest { instructions_sha256: vec!["cd".repeat(32)], ..claims() },
        pb::OpenRunRequest { instructions_sha256: vec![], ..claims() },
        pb::OpenRunRequest { tools: vec!["work.unbound".to_owned()], ..claims() },
    ];
    for claim in wrong {
        let shown = format!("{claim:?}");
        let refused = Refused::of(&gate.open_run(claim).await.unwrap_err());
        assert_eq!(
            (refused.grpc, refused.code.as_str()),
            (Code::PermissionDenied, "manifest.mismatch"),
            "{shown}: {refused:?}"
        );
    }
    let stranger = Agent { token: "wgr_none".to_owned(), ..sidecar.open().await };
    assert!(stranger.call("work.do", "a", "{}").await.is_err());
    assert_eq!(tool.count(), 0);
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "run.opened"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_breaks_is_a_recorded_denial_and_its_neighbours_keep_being_answered() {
    let (tool, estate, mut sidecar) = served().await;
    let (agent, neighbour) = (sidecar.open().await, sidecar.open().await);
    let big = format!(r#"{{"s":"{}"}}"#, "x".repeat(400_000));
    let cases = [
        ("policy.error", r#"{"n":0}"#, "policy.error"),
        ("policy.undefined", "{}", "policy.denied"),
        ("policy.extra", "{}", "policy.error"),
        ("policy.loop", "{}", "policy.error"),
        ("policy.concat", big.as_str(), "policy.error"),
    ];
    let broken = async {
        for (i, (name, args, code)) in cases.into_iter().enumerate() {
            let refused = agent.call(name, &format!("broken-{i}"), args).await.unwrap_err();
            assert_eq!(
                (refused.grpc, refused.code.as_str()),
                (Code::PermissionDenied, code),
                "{name}: {refused:?}"
            );
            let again = agent.call(name, &format!("broken-{i}"), args).await.unwrap_err();
            assert_eq!(again.code, code, "asked again: {again:?}");
        }
    };
    let simple = async {
        for i in 0..40 {
            neighbour.call("work.do", &format!("n-{i}"), r#"{"n":1}"#).await.unwrap();
        }
    };
    tokio::join!(broken, simple);
    assert_eq!(tool.count(), 40);
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!((calls(&summary, "denied"), calls(&summary, "completed")), (5, 40), "{summary}");
}

/// Starts an estate that must not serve: it ends with 78, or says why it is not ready.
async fn refuses(estate: &Estate, why: &str) {
    let mut sidecar = estate.start();
    crate::until(format!("`{why}`"), || {
        // WHY: readiness is told before the bundle was tried; the reason comes with the trial.
        let said = sidecar.said();
        let unready = said.contains("no bundle is in force\"") && said.contains(why);
        let over = sidecar.ended().is_some() || unready;
        async move { over }
    })
    .await;
    assert!(sidecar.said().contains(why), "`{why}` is not in {}", sidecar.said());
    if let Some(status) = sidecar.ended() {
        assert_eq!(status.code(), Some(78), "{}", sidecar.said());
        return;
    }
    sidecar.not_ready("no bundle is in force").await;
    if let Ok(agent) = Agent::try_open(&estate.socket(), &estate.receipts).await {
        assert!(agent.call("work.do", "a", "{}").await.is_err());
    }
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_is_tampered_with_expired_older_or_unsigned_serves_nothing() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let text = std::fs::read_to_string(estate.path("agent.yaml")).unwrap();
    std::fs::write(estate.path("agent.yaml"), text.replace("test-model", "best-model")).unwrap();
    refuses(&estate, "signatures: they are over other bytes").await;
    estate.manifest("1.0.0", "stranger", |text| text);
    refuses(&estate, "signatures: none is by a trusted key").await;
    std::fs::remove_file(estate.path("agent.yaml.sig.json")).unwrap();
    refuses(&estate, "not signed").await;
    estate.manifest("1.0.0", "manifest", |text| text.replace("2099-", "2021-"));
    refuses(&estate, "expired").await;
    estate.manifest("2.0.0", "manifest", |text| text);
    estate.serve().await.stop().await;
    estate.manifest("1.9.9", "manifest", |text| text);
    refuses(&estate, "`1.9.9` is older than `2.0.0`").await;
    estate.manifest("2.0.0", "manifest", |text| text.replace("tests@", "others@"));
    refuses(&estate, "used before with other content").await;
    estate.manifest("2.0.1", "manifest", |text| text);
    estate.serve().await.stop().await;
    assert_eq!(tool.count(), 0);
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_is_tampered_with_older_or_unsigned_serves_nothing() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let rules =
        "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"work.do\"\n";
    std::fs::write(estate.path("bundle/agent/main.rego"), rules).unwrap();
    refuses(&estate, "the signature is for other bytes").await;
    estate.bundle("1.0.0", rules, "stranger");
    refuses(&estate, "signature").await;
    estate.bundle("1.0.0", rules, "policy");
    std::fs::remove_file(estate.path("bundle/bundle.sig.json")).unwrap();
    refuses(&estate, "signed").await;
    estate.bundle("2.0.0", rules, "policy");
    estate.serve().await.stop().await;
    estate.bundle("1.9.9", rules, "policy");
    refuses(&estate, "policy.downgrade").await;
    estate.bundle(
        "2.0.0",
        "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"work.fail\"\n",
        "policy",
    );
    refuses(&estate, "policy.equivocation").await;
    let meta = r#"{"name":"test","version":"3.0.0","not_before":"2020-01-01T00:00:00Z","not_after":"2021-01-01T00:00:00Z"}"#;
    std::fs::write(estate.path("bundle/bundle.json"), meta).unwrap();
    run(&estate.path("."), &["policy", "sign", "bundle", "--key", &crate::sidecar::key("policy")]);
    refuses(&estate, "until 2021-01-01T00:00:00.000Z, not now").await;
    assert_eq!(tool.count(), 0);
    check(&estate.database, &tool, &estate.receipts);
}
