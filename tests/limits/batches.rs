//! T0 in batches: results of tools that only read, before their outcome is on the books.

use serde_json::{Value, json};
use wicketgate::serve::pb;

use crate::agent::Agent;
use crate::settings::{bind, bound, entries};
use crate::sidecar::Estate;
use crate::tool::Tool;

fn batched(tool: &Tool) -> Estate {
    let estate = Estate::sqlite(tool);
    bound(&estate, "batch_t0", json!(true));
    estate.manifest("1.0.1", "manifest", |text| text.replace("\"T1\"", "\"T0\""));
    bind(&estate, "tier", &json!("T0"));
    estate.configure(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            let reads = tool["name"] != "work.fail";
            tool["read_only"] = json!(reads);
            tool["tier"] = json!(if tool["name"] == "policy.extra" { "T2" } else { "T0" });
        }
    });
    let rules = "package wicketgate.agent\nimport rego.v1\nallow if startswith(input.tool.name, \"work.\")\nallow if startswith(input.tool.name, \"policy.\")\n";
    estate.bundle("1.0.1", rules, "policy");
    estate
}

async fn execute(agent: &Agent, tool: &str, id: &str) -> pb::ExecuteToolResponse {
    let mut request = tonic::Request::new(pb::ExecuteToolRequest {
        tool: tool.to_owned(),
        arguments: b"{}".to_vec(),
        call_id: id.to_owned(),
        wait_ms: 0,
        ..pb::ExecuteToolRequest::default()
    });
    let token = format!("Bearer {}", agent.token).parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    agent.gate.clone().execute_tool(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_t0_read_is_answered_before_its_outcome_is_booked_and_says_so() {
    let tool = Tool::start().await;
    let estate = batched(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let answer = execute(&agent, "work.do", "a").await;
    assert!(answer.outcome_pending);
    // The receipt is that of the authorisation.
    let receipt = answer.receipt.unwrap();
    // Its outcome follows by itself; whoever asks again is told where it is.
    crate::until("the outcome", || async {
        !execute(&agent, "work.do", "a").await.outcome_pending
    })
    .await;
    let later = execute(&agent, "work.do", "a").await.receipt.unwrap();
    assert!(later.seq > receipt.seq);
    // A T2 tool waits for its outcome.
    let answer = execute(&agent, "policy.extra", "b").await;
    assert!(!answer.outcome_pending);
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let authorized = entries(&estate, "call.authorized");
    assert_eq!(authorized[0]["seq"].as_u64(), Some(receipt.seq), "{authorized:?}");
    let summary = crate::checker::check(&estate.database, &tool, &estate.receipts);
    assert_eq!(crate::checker::calls(&summary, "completed"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pending_outcome_is_recorded_before_the_next_authorisation() {
    let tool = Tool::start().await;
    let estate = batched(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for i in 0..40 {
        execute(&agent, "work.do", &format!("r-{i}")).await;
        if i % 8 == 7 {
            execute(&agent, "policy.extra", &format!("w-{i}")).await;
        }
    }
    sidecar.stop().await;
    let mut open: Vec<String> = Vec::new();
    let mut all: Vec<Value> = entries(&estate, "call.authorized");
    all.extend(entries(&estate, "call.completed"));
    all.sort_by_key(|entry| entry["seq"].as_u64());
    for entry in all {
        let call = entry["call"].as_str().unwrap().to_owned();
        if entry["kind"] == "call.completed" {
            open.retain(|other| *other != call);
            continue;
        }
        assert!(open.is_empty(), "{open:?} before {call}");
        open.push(call);
    }
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_what_was_promised_is_booked_or_closed_as_unknown() {
    let tool = Tool::start().await;
    let estate = batched(&tool);
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    for i in 0..8 {
        assert!(execute(&agent, "work.do", &format!("r-{i}")).await.outcome_pending);
    }
    sidecar.kill();
    let mut sidecar = estate.serve().await;
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let summary = crate::checker::check(&estate.database, &tool, &estate.receipts);
    let ended = ["completed", "unknown"].map(|state| crate::checker::calls(&summary, state));
    assert_eq!(ended.iter().sum::<u64>(), 8, "{summary}");
    // Each call but the last went on the books with the authorisation of the next.
    assert!(ended[1] <= 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_batch_t0_a_result_waits_for_its_outcome() {
    let tool = Tool::start().await;
    let estate = batched(&tool);
    bound(&estate, "batch_t0", json!(false));
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    assert!(!execute(&agent, "work.do", "a").await.outcome_pending);
}
