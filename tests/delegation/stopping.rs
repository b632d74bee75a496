//! What becomes of children when their parent is sealed or stopped.

use wicketgate::control::{Action, Target};

use crate::agent::Agent;
use crate::control::{agent, done, refused, spawn, stopped};
use crate::family::{Family, alone, below, member, refusal, the_run};

async fn three() -> (Family, [Agent; 3]) {
    let members = vec![member("helper", &["work.do", "work.held"]), member("scout", &["work.do"])];
    let family = Family::of(members, |_| {}, |_| {}).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let scout = family.child("scout", &helper).await;
    (family, [lead, helper, scout])
}

/// Places of the seals of these runs on the books.
fn seals(family: &Family, runs: &[&Agent]) -> Vec<(u64, String)> {
    let seal = |run: &&Agent| {
        let seal = family.of_run(&run.run, "run.sealed");
        let reason = seal[0]["data"]["reason"].as_str().unwrap().to_owned();
        (seal[0]["seq"].as_u64().unwrap(), reason)
    };
    runs.iter().map(seal).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealing_a_parent_seals_those_below_first_after_their_calls_and_takes_no_more() {
    let (family, [lead, helper, scout]) = three().await;
    assert_eq!(refused(&helper.call("work.held", "h", "{}").await).0, "call.held");
    family.setup.tool.hold();
    let running = spawn(&scout, "work.do", "a");
    family.setup.tool.entered(1).await;
    let sealing = {
        let lead = lead.clone();
        tokio::spawn(async move { lead.seal().await })
    };
    // It waits for the call below; meanwhile nobody below takes another one, nor a child.
    crate::until("the run below takes no more calls", || async {
        let answer = scout.call("work.unbound", "", "{}").await;
        refused(&answer).0 == "run.sealed"
    })
    .await;
    let (code, _, message) = refusal(family.try_child("helper", below(&lead)).await);
    assert_eq!((code.as_str(), message.as_str()), ("run.unknown", "no such run"));
    family.setup.tool.release();
    running.await.unwrap().unwrap();
    sealing.await.unwrap().unwrap();
    for run in [&lead, &helper, &scout] {
        assert_eq!(refused(&run.call("work.do", "c", "{}").await).0, "run.sealed");
    }
    assert_eq!(refused(&helper.get("h").await).0, "call.cancelled");
    let seals = seals(&family, &[&scout, &helper, &lead]);
    assert!(seals.is_sorted(), "{seals:?}");
    let why: Vec<&str> = seals.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(why, ["parent_sealed", "parent_sealed", "requested"]);
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealing_a_child_leaves_its_parent_open() {
    let (family, [lead, helper, scout]) = three().await;
    helper.seal().await.unwrap();
    assert_eq!(refused(&scout.call("work.do", "a", "{}").await).0, "run.sealed");
    lead.call("work.do", "b", "{}").await.unwrap();
    family.child("helper", &lead).await.call("work.do", "c", "{}").await.unwrap();
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_a_run_or_its_agent_reaches_everybody_below_and_the_answer_lists_their_calls() {
    for by_run in [true, false] {
        let (family, [lead, helper, scout]) = three().await;
        let beside = family.try_child("helper", alone()).await.unwrap();
        family.setup.tool.hold();
        let calls = [spawn(&lead, "work.do", "a"), spawn(&scout, "work.do", "b")];
        let spared = spawn(&beside, "work.do", "c");
        family.setup.tool.entered(3).await;
        assert_eq!(refused(&helper.call("work.held", "h", "{}").await).0, "call.held");
        let target = if by_run { the_run(&lead) } else { agent() };
        let told = done(&family.setup.order(Action::Kill, target).await);
        assert_eq!(stopped(&told, "unknown"), ["a", "b"], "{told}");
        assert_eq!(stopped(&told, "unheld"), ["h"], "{told}");
        assert_eq!((&told["runs_sealed"], &told["left"]), (&3.into(), &0.into()), "{told}");
        for call in calls {
            assert_eq!(refused(&call.await.unwrap()).0, "call.unknown");
        }
        for run in [&lead, &helper, &scout] {
            assert_eq!(refused(&run.call("work.do", "d", "{}").await).0, "run.sealed");
        }
        let seals = seals(&family, &[&scout, &helper, &lead]);
        assert!(seals.is_sorted() && seals.iter().all(|(_, why)| why == "killed"), "{seals:?}");
        family.setup.tool.release();
        spared.await.unwrap().unwrap();
        family.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_a_child_leaves_those_above_alone() {
    let (family, [lead, helper, scout]) = three().await;
    let told = done(&family.setup.order(Action::Kill, Target::Agent("helper".into())).await);
    assert_eq!(told["runs_sealed"], 2, "{told}");
    assert_eq!(refused(&helper.call("work.do", "a", "{}").await).0, "run.sealed");
    assert_eq!(refused(&scout.call("work.do", "a", "{}").await).0, "run.sealed");
    lead.call("work.do", "b", "{}").await.unwrap();
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_suspended_above_is_suspended_below_until_it_is_reinstated() {
    let (family, [lead, _, scout]) = three().await;
    for target in [agent(), the_run(&lead)] {
        done(&family.setup.order(Action::Suspend, target.clone()).await);
        let answer = scout.call("work.do", "", "{}").await;
        assert_eq!(refused(&answer), ("policy.denied", "control.suspended"), "{target:?}");
        done(&family.setup.order(Action::Reinstate, target).await);
        scout.call("work.do", "", "{}").await.unwrap();
    }
    std::fs::write(family.setup.estate.path("state/switch"), "agent test-agent\n").unwrap();
    crate::until("the switch file reaches the run below", || async {
        let answer = scout.call("work.do", "", "{}").await;
        answer.is_err_and(|refused| refused.detail == "control.switch_file")
    })
    .await;
    family.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_manifest_takes_those_below_with_it() {
    let (family, [lead, _, scout]) = three().await;
    let digest = family.of_run(&lead.run, "run.opened")[0]["data"]["manifest"].clone();
    let digest = digest.as_str().unwrap();
    let digest = wicketgate::domain::digest::Digest::parse(digest).unwrap();
    let told = done(&family.setup.order(Action::Revoke, Target::Manifest(digest)).await);
    assert_eq!(told["runs_sealed"], 3, "{told}");
    assert_eq!(refused(&scout.call("work.do", "a", "{}").await).0, "run.sealed");
    family.close().await;
}
