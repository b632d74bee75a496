//! A signed word used for something else: for another call, run, tool, agent or manifest, or in other bytes.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::checker::check;
use crate::people::{People, RULES, ask, done};
use crate::sidecar::{Estate, Sidecar, key, run};
use crate::tool::Tool;

const ARGS: &str = r#"{"hold":true,"n":1}"#;

/// What Ada signs of a held call: the statement as she is shown it, and her signature by stock OpenSSH.
async fn signed_approval(people: &People, door: &str, run: &str, call: &str) -> (String, String) {
    let path = format!("GET /v1/approvals/{run}/{call}");
    let (status, _, shown) = ask(door, &people.token("ada"), &path, &json!({})).await;
    assert_eq!(status, 200, "{shown}");
    let statement = shown["statement"].as_str().unwrap().to_owned();
    let signature = signature(&people.path("."), "ada", "wicketgate-approval", &statement);
    (statement, signature)
}

fn signature(dir: &Path, who: &str, namespace: &str, text: &str) -> String {
    std::fs::write(dir.join("said"), text).unwrap();
    drop(std::fs::remove_file(dir.join("said.sig")));
    let args = ["-Y", "sign", "-n", namespace, "-f", who, "said"];
    let done = Command::new("ssh-keygen").args(args).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read_to_string(dir.join("said.sig")).unwrap()
}

/// Ada posts a word about this call: the status, and the finer code.
async fn says(
    people: &People,
    door: &str,
    (run, call): (&str, &str),
    word: (&str, &str),
) -> (u16, Value) {
    let body = json!({"statement": word.0, "signature": word.1});
    let line = format!("POST /v1/approvals/{run}/{call}");
    let (status, _, said) = ask(door, &people.token("ada"), &line, &body).await;
    (status, said)
}

async fn holds(agent: &Agent, tool: &str, id: &str) {
    let held = agent.call(tool, id, ARGS).await;
    assert_eq!(held.unwrap_err().code, "call.held", "{tool} {id}");
}

/// An agent of another manifest, which shows a token of its own.
async fn other_agent(estate: &Estate, sidecar: &Sidecar, token: &str) -> Agent {
    use wicketgate::serve::pb::gate_client::GateClient;
    let mut gate = GateClient::connect(format!("http://{}", sidecar.agents())).await.unwrap();
    let mut request = tonic::Request::new(crate::agent::claims());
    let credential = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", credential);
    let opened = gate.open_run(request).await.unwrap().into_inner();
    let receipts = estate.receipts.clone();
    Agent { gate, token: opened.run_token, run: opened.run_id, receipts }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_approval_counts_for_no_other_call_run_tool_agent_or_manifest() {
    let (people, tool, token) = (People::new(), Tool::start().await, "t".repeat(48));
    let estate = Estate::sqlite(&tool);
    estate.bundle("1.0.1", RULES, "policy");
    let dir = estate.path(".");
    let text = std::fs::read_to_string(dir.join("agent.yaml")).unwrap();
    std::fs::write(dir.join("other.yaml"), text.replace("test-agent", "other-agent")).unwrap();
    run(&dir, &["manifest", "sign", "other.yaml", "--key", &key("manifest")]);
    std::fs::write(dir.join("agent.token"), &token).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(dir.join("agent.token"), mode).unwrap();
    estate.configure(|config| {
        people.configure(config, true);
        config["listen"]["tcp"] = "127.0.0.1:0".into();
        let other = json!({"manifest": "other.yaml", "callers": [{"token_file": "agent.token"}]});
        config["agents"].as_array_mut().unwrap().push(other);
    });
    let mut sidecar = estate.serve().await;
    let (agent, sibling) = (sidecar.open().await, sidecar.open().await);
    let stranger = other_agent(&estate, &sidecar, &token).await;
    holds(&agent, "work.do", "c1").await;
    let (statement, signed) =
        signed_approval(&people, &sidecar.operator_url(), &agent.run, "c1").await;
    let word = (statement.as_str(), signed.as_str());
    for (what, agent, tool, id) in [
        ("another call of the run with the same arguments", &agent, "work.do", "c2"),
        ("another tool with the same arguments", &agent, "work.held", "c3"),
        ("the same call id in another run", &sibling, "work.do", "c1"),
        ("another agent", &stranger, "work.do", "c1"),
    ] {
        holds(agent, tool, id).await;
        let (status, said) = says(&people, &sidecar.operator_url(), (&agent.run, id), word).await;
        assert_eq!((status, said["cause"].as_str()), (400, Some("approval.statement")), "{what}");
        holds(agent, tool, id).await;
    }
    // Under another manifest of the same agent the same call is another one.
    sidecar.stop().await;
    estate.manifest("1.1.0", "manifest", |text| text);
    let mut sidecar = estate.serve().await;
    let newer = sidecar.open().await;
    holds(&newer, "work.do", "c1").await;
    let (status, said) = says(&people, &sidecar.operator_url(), (&newer.run, "c1"), word).await;
    assert_eq!((status, said["cause"].as_str()), (400, Some("approval.statement")), "{said}");
    assert_eq!(tool.count(), 0, "nothing ran");
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_counts_once_for_the_exact_bytes_shown_and_a_refusal_is_final() {
    let (people, tool) = (People::new(), Tool::start().await);
    let estate = Estate::sqlite(&tool);
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| people.configure(config, true));
    let mut sidecar = estate.serve().await;
    let (agent, door, dir) = (sidecar.open().await, sidecar.operator_url(), people.path("."));
    holds(&agent, "work.do", "c1").await;
    let (statement, signed) = signed_approval(&people, &door, &agent.run, "c1").await;
    let value: Value = serde_json::from_str(&statement).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    let cut = &statement[..statement.len() - 1];
    let longer = format!("{statement}\n");
    let at = (agent.run.as_str(), "c1");
    // Signed in other bytes, and the right bytes under a signature over others.
    for text in [pretty.as_str(), cut, &longer] {
        let over_it = signature(&dir, "ada", "wicketgate-approval", text);
        let (status, said) = says(&people, &door, at, (text, &over_it)).await;
        assert_eq!((status, said["cause"].as_str()), (400, Some("approval.statement")), "{text}");
        let (_, told) = says(&people, &door, at, (&statement, &over_it)).await;
        assert_eq!(done(&told).1, "approval.signature", "{told}");
    }
    let elsewhere = signature(&dir, "ada", "file", &statement);
    let (_, told) = says(&people, &door, at, (&statement, &elsewhere)).await;
    assert_eq!(done(&told).1, "approval.namespace", "{told}");
    let (status, said) = says(&people, &door, at, (&statement, "no signature")).await;
    assert_eq!((status, said["cause"].as_str()), (400, Some("approval.signature")), "{said}");
    assert_eq!(tool.count(), 0);
    // As it was shown it counts, once.
    let (status, told) = says(&people, &door, at, (&statement, &signed)).await;
    assert_eq!((status, done(&told).0.as_str()), (200, "authorized"), "{told}");
    agent.wait("c1", 20_000).await.unwrap();
    let (status, _) = says(&people, &door, at, (&statement, &signed)).await;
    assert_eq!((status, tool.count()), (404, 1));
    // What one refused nobody approves any more.
    holds(&agent, "work.do", "c2").await;
    assert_eq!(done(&people.says("ada", "refuse", &door, (&agent.run, "c2")).1).0, "denied");
    assert_eq!(people.says("grace", "approve", &door, (&agent.run, "c2")).0, Some(1));
    let told = agent.call("work.do", "c2", ARGS).await;
    assert_eq!(told.unwrap_err().code, "policy.denied");
    assert_eq!(tool.count(), 1);
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_does_not_count_once_the_configuration_names_no_approvers() {
    let (people, tool) = (People::new(), Tool::start().await);
    let estate = Estate::sqlite(&tool);
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| people.configure(config, true));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    holds(&agent, "work.do", "c1").await;
    estate.configure(|config| {
        config.as_object_mut().unwrap().remove("approvals");
        config["trust"].as_object_mut().unwrap().remove("approver_keys");
    });
    let read = "reloaded the configuration";
    crate::until(read, || async { sidecar.said().contains(read) }).await;
    let (_, told) = people.says("ada", "approve", &sidecar.operator_url(), (&agent.run, "c1"));
    assert_eq!(done(&told), ("held".to_owned(), "approval.signer".to_owned()), "{told}");
    sidecar.stop().await;
    assert_eq!(tool.count(), 0);
    check(&estate.database, &tool, &estate.receipts);
}
