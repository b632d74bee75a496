//! Who may open a child, and what the books say of it.

use serde_json::json;
use wicketgate::control::Action;

use crate::control::{agent, done};
use crate::family::{Family, LEAD, alone, below, claimed, member, refusal, sign_lead};
use crate::sidecar::run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_opened_by_its_own_caller_and_its_ancestors_are_recorded() {
    let members = vec![member("helper", &["work.do"]), member("scout", &["work.do"])];
    let family = Family::of(members, |_| {}, |_| {}).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let scout = family.child("scout", &helper).await;
    scout.call("work.do", "a", "{}").await.unwrap();
    let opened = &family.of_run(&scout.run, "run.opened")[0]["data"];
    assert_eq!(opened["parent"], helper.run.as_str());
    assert_eq!(opened["delegate"], "attested");
    let above = opened["delegation"].as_array().unwrap();
    let named: Vec<_> = above.iter().map(|one| (&one["id"], &one["run"])).collect();
    assert_eq!(
        named,
        [(&json!(LEAD), &json!(lead.run)), (&json!("helper"), &json!(helper.run))],
        "{opened}"
    );
    assert_eq!(above[1]["manifest"], family.digests[0].as_str());
    let top = &family.of_run(&lead.run, "run.opened")[0]["data"];
    assert_eq!((&top["parent"], &top["delegates"]), (&json!(null), &json!(1)), "{top}");
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_opened_by_the_parents_caller_is_recorded_as_claimed() {
    let members = vec![member("helper", &["work.do"]), member("scout", &["work.do"])];
    let family = Family::of(members, |_| {}, |_| {}).await;
    let lead = family.lead().await;
    let helper = family.try_child(LEAD, claimed(&lead, &family.digests[0])).await.unwrap();
    assert_eq!(helper.tools().await, ["work.do"]);
    helper.call("work.do", "a", "{}").await.unwrap();
    let opened = &family.of_run(&helper.run, "run.opened")[0]["data"];
    assert_eq!((&opened["agent"], &opened["delegate"]), (&json!("helper"), &json!("claimed")));
    // And one below that one, still in the same process.
    let scout = family.try_child(LEAD, claimed(&helper, &family.digests[1])).await.unwrap();
    scout.call("work.do", "b", "{}").await.unwrap();
    // Nobody else may speak for a child, whatever token it was handed.
    let other = family.try_child("scout", claimed(&lead, &family.digests[0])).await;
    let (code, detail, _) = refusal(other);
    assert_eq!((code.as_str(), detail.as_str()), ("manifest.mismatch", "delegate.caller"));
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_without_the_parents_token_gets_the_answer_for_an_unknown_run() {
    let family = Family::pair(|_| {}).await;
    let (lead, other) = (family.lead().await, family.lead().await);
    let sealed = family.lead().await;
    sealed.seal().await.unwrap();
    let mut asks = vec![below(&sealed)];
    asks.push(below(&lead));
    asks[1].parent_token = other.token.clone();
    asks.push(below(&lead));
    asks[2].parent_token = "wgr_nonsense".to_owned();
    asks.push(below(&lead));
    asks[3].parent_run = "00000000-0000-7000-8000-000000000000".to_owned();
    for ask in asks {
        let (code, detail, message) = refusal(family.try_child("helper", ask.clone()).await);
        let told = (code.as_str(), detail.as_str(), message.as_str());
        assert_eq!(told, ("run.unknown", "", "no such run"), "{ask:?}");
    }
    let mut half = below(&lead);
    half.parent_token.clear();
    let (code, detail, _) = refusal(family.try_child("helper", half).await);
    assert_eq!((code.as_str(), detail.as_str()), ("request.malformed", "opening.parent"));
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_refusal_of_a_child_that_the_parents_manifest_does_not_name_is_recorded() {
    let members = vec![member("helper", &["work.do"]), member("scout", &["work.do"])];
    let family = Family::of(members, |_| {}, |_| {}).await;
    let lead = family.lead().await;
    // The helper delegates to the scout; the lead does not.
    for answer in [
        family.try_child("scout", below(&lead)).await,
        family.try_child(LEAD, claimed(&lead, &family.digests[1])).await,
        family.try_child(LEAD, claimed(&lead, "sha256:nonsense")).await,
        // A manifest cannot name itself.
        family.try_child(LEAD, below(&lead)).await,
    ] {
        let (code, detail, _) = refusal(answer);
        assert_eq!((code.as_str(), detail.as_str()), ("manifest.mismatch", "delegate.not_named"));
    }
    let entries = family.entries();
    let told = entries.iter().filter(|entry| entry["kind"] == "manifest.refused");
    let told: Vec<_> = told.map(|entry| entry["data"].clone()).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[0], json!({"agent": "scout", "code": "delegate.not_named"}));
    // Of itself, without a parent, each agent is what it is.
    family.try_child("scout", alone()).await.unwrap();
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_delegations_deep_is_deep_enough() {
    let names = ["one", "two", "three", "four"];
    let members = names.map(|name| member(name, &["work.do"]));
    let family = Family::of(members.into(), |_| {}, |_| {}).await;
    let mut last = family.lead().await;
    for name in ["one", "two", "three"] {
        last = family.child(name, &last).await;
        last.call("work.do", name, "{}").await.unwrap();
    }
    let (code, detail, _) = refusal(family.try_child("four", below(&last)).await);
    assert_eq!((code.as_str(), detail.as_str()), ("manifest.mismatch", "delegate.depth"));
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delegate_without_a_configured_agent_gets_a_warning_and_cannot_be_opened() {
    let stranger = format!("sha256:{}", "ab".repeat(32));
    let named = stranger.clone();
    let family = Family::pair(move |spec| {
        spec["delegates"].as_array_mut().unwrap().push(json!({"manifest": named}));
    })
    .await;
    let check = ["config", "check", "wicketgate.yaml", "--json"];
    let said = run(&family.setup.estate.path("."), &check);
    assert!(said.contains(&stranger) && said.contains("no configured agent"), "{said}");
    let log = family.setup.sidecar.said();
    assert!(log.contains(&stranger), "{log}");
    let lead = family.lead().await;
    let (code, detail, _) = refusal(family.try_child(LEAD, claimed(&lead, &stranger)).await);
    assert_eq!((code.as_str(), detail.as_str()), ("manifest.mismatch", "delegate.not_configured"));
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_agent_opens_no_children_and_the_child_of_a_stopped_one_is_none() {
    let family = Family::pair(|_| {}).await;
    let lead = family.lead().await;
    done(&family.setup.order(Action::Suspend, agent()).await);
    let (code, detail, _) = refusal(family.try_child("helper", below(&lead)).await);
    assert_eq!((code.as_str(), detail.as_str()), ("manifest.mismatch", "control.suspended"));
    // By itself, the helper is not stopped.
    let own = family.try_child("helper", alone()).await.unwrap();
    own.call("work.do", "a", "{}").await.unwrap();
    done(&family.setup.order(Action::Reinstate, agent()).await);
    family.child("helper", &lead).await.call("work.do", "b", "{}").await.unwrap();
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_says_what_it_runs_and_its_own_manifest_is_held_against_it() {
    let family = Family::pair(|_| {}).await;
    let lead = family.lead().await;
    let mut ask = below(&lead);
    ask.model = "other-model".to_owned();
    let (code, detail, _) = refusal(family.try_child("helper", ask).await);
    assert_eq!((code.as_str(), detail.as_str()), ("manifest.mismatch", "manifest.model"));
    // A new version of the lead is another manifest: what it names counts from then on.
    let mut family = family;
    family.setup.sidecar.stop().await;
    sign_lead(&family.setup.estate, "1.1.0", |_| {});
    family.setup.sidecar = family.setup.estate.serve().await;
    let lead = family.lead().await;
    let (_, detail, _) = refusal(family.try_child("helper", below(&lead)).await);
    assert_eq!(detail, "delegate.not_named");
    family.close().await;
}

#[test]
fn the_example_of_a_delegation_names_the_manifest_beside_it() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/delegation");
    let read = |name: &str| {
        let text = std::fs::read(top.join(name)).unwrap();
        wicketgate::identity::read(&text, name).unwrap()
    };
    let (lead, scout) = (read("lead.yaml"), read("scout.yaml"));
    assert_eq!(lead.delegates, [scout.digest]);
    assert!(scout.delegates.is_empty());
}
