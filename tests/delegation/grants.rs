//! What a child may do: what it is granted, and everybody above it.

use serde_json::json;
use tonic::Request;
use wicketgate::serve::pb;

use crate::agent::Agent;
use crate::control::refused;
use crate::family::{Family, below, member, refusal};

async fn listed(agent: &Agent) -> Vec<(String, String)> {
    let mut request = Request::new(pb::ListToolsRequest::default());
    let token = format!("Bearer {}", agent.token).parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    let tools = agent.gate.clone().list_tools(request).await.unwrap().into_inner().tools;
    tools.into_iter().map(|tool| (tool.name, tool.tier)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_anybody_above_is_not_granted_does_not_exist_for_the_child() {
    let helper = member("helper", &["work.do", "work.large", "work.fail"]);
    let scout = member("scout", &["work.do", "work.large", "work.unbound", "work.held"]);
    let family = Family::of(
        vec![helper, scout],
        |spec| {
            let tools = spec["tools"].as_array_mut().unwrap();
            tools.retain(|tool| tool["name"] != "work.large");
        },
        |_| {},
    )
    .await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let scout = family.child("scout", &helper).await;
    assert_eq!(helper.tools().await, ["work.do", "work.fail"]);
    assert_eq!(scout.tools().await, ["work.do"]);
    // What only the lead lacks, only the helper lacks, or everybody above lacks: told alike.
    let never = |answer: Result<String, _>, tool: &str| {
        let (code, detail, message) = refusal(answer);
        let told = format!("tool `{tool}` is not granted to this agent");
        assert_eq!((code.as_str(), detail.as_str(), message), ("tool.not_granted", "", told));
    };
    for tool in ["work.large", "work.held", "work.unbound", "work.no_such_tool"] {
        never(scout.call(tool, tool, "{}").await, tool);
    }
    never(helper.call("work.large", "l", "{}").await, "work.large");
    scout.call("work.do", "d", "{}").await.unwrap();
    assert_eq!(family.setup.tool.count(), 1);
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_highest_tier_of_all_manifests_counts_and_a_definition_that_one_above_pins_binds() {
    let helper = member("helper", &["work.do", "work.fail"]);
    let family = Family::of(
        vec![helper],
        |spec| {
            let tools = spec["tools"].as_array_mut().unwrap();
            for tool in tools {
                if tool["name"] == "work.do" {
                    tool["tier"] = json!("T2");
                }
                if tool["name"] == "work.fail" {
                    tool["definition"] = json!(format!("sha256:{}", "cd".repeat(32)));
                }
            }
        },
        |_| {},
    )
    .await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    assert_eq!(listed(&helper).await, [("work.do".to_owned(), "T2".to_owned())]);
    helper.call("work.do", "a", "{}").await.unwrap();
    let authorized = &family.of_run(&helper.run, "call.authorized")[0]["data"];
    assert_eq!(authorized["tier"], "T2", "{authorized}");
    let answer = helper.call("work.fail", "b", "{}").await;
    assert_eq!(refused(&answer), ("tool.not_granted", "tool.definition"));
    // By itself the helper is bound by neither.
    let own = family.try_child("helper", crate::family::alone()).await.unwrap();
    let tiers = [("work.do".into(), "T1".into()), ("work.fail".into(), "T1".into())];
    assert_eq!(listed(&own).await, tiers);
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_a_simulated_run_nothing_runs() {
    let family = Family::pair(|_| {}).await;
    let mut ask = crate::agent::claims();
    ask.mode = "simulate".to_owned();
    let lead = family.try_child(crate::family::LEAD, ask).await.unwrap();
    let mut ask = below(&lead);
    ask.mode = "enforce".to_owned();
    let helper = family.try_child("helper", ask).await.unwrap();
    let answer = helper.call("work.do", "a", "{}").await;
    assert_eq!(refused(&answer), ("call.cancelled", "simulated"));
    assert_eq!(family.of_run(&helper.run, "run.opened")[0]["data"]["mode"], "simulate");
    assert_eq!(family.setup.tool.count(), 0);
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_of_an_incognito_run_is_incognito() {
    let allow = |spec: &mut serde_json::Value| spec["incognito"] = "allowed".into();
    let members = vec![member("helper", &["work.do"]).with(allow), member("plain", &["work.do"])];
    let family = Family::of(members, allow, |_| {}).await;
    let mut ask = crate::agent::claims();
    ask.incognito = true;
    let lead = family.try_child(crate::family::LEAD, ask).await.unwrap();
    let helper = family.child("helper", &lead).await;
    // One whose manifest forbids it is no child of such a run.
    let refused = family.try_child("plain", below(&helper)).await.err().unwrap();
    assert_eq!((&*refused.code, &*refused.detail), ("manifest.mismatch", "manifest.incognito"));
    helper.call("work.do", "a", "{}").await.unwrap();
    assert_eq!(family.of_run(&helper.run, "run.opened")[0]["data"]["incognito"], true);
    family.close().await;
}
