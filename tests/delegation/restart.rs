//! A lineage over a restart.

use wicketgate::control::Action;

use crate::control::{agent, done, refused};
use crate::family::{Family, member, sign_lead};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_still_a_child_after_the_process_was_killed() {
    let mut family = Family::of(
        vec![member("helper", &["work.do", "work.fail"])],
        |spec| {
            let tools = spec["tools"].as_array_mut().unwrap();
            tools.retain(|tool| tool["name"] != "work.fail");
        },
        |_| {},
    )
    .await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let claimed = crate::family::claimed(&lead, &family.digests[0]);
    let inside = family.try_child(crate::family::LEAD, claimed).await.unwrap();
    family.setup.restart().await;
    for child in [&helper, &inside] {
        assert_eq!(child.tools().await, ["work.do"]);
        child.call("work.do", "a", "{}").await.unwrap();
        assert_eq!(refused(&child.call("work.fail", "b", "{}").await).0, "tool.not_granted");
    }
    let told = done(&family.setup.order(Action::Kill, agent()).await);
    assert_eq!(told["runs_sealed"], 3, "{told}");
    assert_eq!(refused(&helper.call("work.do", "c", "{}").await).0, "run.sealed");
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lineage_whose_first_manifest_is_no_longer_in_force_is_sealed_from_below() {
    let members = vec![member("helper", &["work.do"]), member("scout", &["work.do"])];
    let mut family = Family::of(members, |_| {}, |_| {}).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let scout = family.child("scout", &helper).await;
    scout.call("work.do", "a", "{}").await.unwrap();
    family.setup.sidecar.kill();
    sign_lead(&family.setup.estate, "1.1.0", |_| {});
    family.setup.sidecar = family.setup.estate.serve().await;
    let sealed = |run: &str| family.of_run(run, "run.sealed");
    crate::until("the lineage is sealed", || async { !sealed(&lead.run).is_empty() }).await;
    let seals: Vec<_> = [&scout, &helper, &lead].map(|agent| sealed(&agent.run)[0].clone()).into();
    let places: Vec<u64> = seals.iter().map(|seal| seal["seq"].as_u64().unwrap()).collect();
    assert!(places.is_sorted(), "{seals:?}");
    assert!(seals.iter().all(|seal| seal["data"]["reason"] == "orphaned"), "{seals:?}");
    assert_eq!(refused(&scout.call("work.do", "b", "{}").await).0, "run.unknown");
    family.close().await;
}
