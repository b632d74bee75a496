//! Suspend and reinstate, keys, manifests, and orders that end by themselves.

use wicketgate::control::{Action, Target, answer};
use wicketgate::crypto::keys::PublicKey;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::time::Timestamp;

use crate::control::{Setup, agent, done, no_run, on_both_stores, put_until, refused, spawn};
use crate::sidecar::key;

on_both_stores!(
    a_suspended_agent_ends_what_it_began_and_begins_nothing_until_it_is_reinstated,
    everything_can_be_suspended_at_once,
    a_manifest_and_the_key_that_signed_it_can_be_revoked,
);

async fn a_suspended_agent_ends_what_it_began_and_begins_nothing_until_it_is_reinstated(
    mut setup: Setup,
) {
    let run = setup.sidecar.open().await;
    setup.tool.hold();
    let call = spawn(&run, "work.do", "a");
    setup.tool.entered(1).await;
    let told = done(&setup.order(Action::Suspend, agent()).await);
    assert_eq!((&told["stopped_count"], &told["left"]), (&0.into(), &1.into()), "{told}");
    setup.tool.release();
    call.await.unwrap().unwrap();
    for restarted in [false, true] {
        if restarted {
            setup.restart().await;
        }
        let answer = run.call("work.do", &format!("b-{restarted}"), "{}").await;
        assert_eq!(refused(&answer), ("policy.denied", "control.suspended"));
        assert_eq!(no_run(&setup).await.detail, "control.suspended");
    }
    assert_eq!(setup.tool.count(), 1);
    done(&setup.order(Action::Reinstate, agent()).await);
    run.call("work.do", "c", "{}").await.unwrap();
    setup.close().await;
}

async fn everything_can_be_suspended_at_once(setup: Setup) {
    let run = setup.sidecar.open().await;
    done(&setup.order(Action::Suspend, Target::All).await);
    let answer = run.call("work.do", "a", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.suspended"));
    // Taking back something else takes nothing back.
    done(&setup.order(Action::Reinstate, agent()).await);
    let answer = run.call("work.do", "b", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.suspended"));
    done(&setup.order(Action::Reinstate, Target::All).await);
    run.call("work.do", "c", "{}").await.unwrap();
    setup.close().await;
}

async fn a_manifest_and_the_key_that_signed_it_can_be_revoked(setup: Setup) {
    let yaml = std::fs::read(setup.estate.path("agent.yaml")).unwrap();
    let public = PublicKey::load_all(key("manifest.pub").as_ref()).unwrap();
    let targets = [Target::Manifest(Digest::of(&[&yaml])), Target::Key(public[0].id())];
    for (n, target) in (0..).zip(targets) {
        let run = setup.sidecar.open().await;
        let told = done(&setup.order(Action::Revoke, target.clone()).await);
        assert_eq!(told["runs_sealed"], 1, "{told}");
        assert_eq!(refused(&run.call("work.do", "a", "{}").await).0, "run.sealed");
        assert_eq!(no_run(&setup).await.detail, "control.revoked", "{n}");
        done(&setup.order(Action::Reinstate, target).await);
    }
    setup.sidecar.open().await.call("work.do", "b", "{}").await.unwrap();
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_falls_with_the_key_that_signed_it() {
    let mut setup = Setup::sqlite().await;
    let run = setup.sidecar.open().await;
    setup.tool.hold();
    let call = spawn(&run, "work.do", "a");
    setup.tool.entered(1).await;
    let public = PublicKey::load_all(key("policy.pub").as_ref()).unwrap();
    let target = || Target::Key(public[0].id());
    let told = done(&setup.order(Action::Revoke, target()).await);
    assert_eq!(told["stopped_count"], 1, "{told}");
    assert_eq!(refused(&call.await.unwrap()).0, "call.unknown");
    setup.tool.release();
    let answer = run.call("work.do", "b", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.revoked"));
    setup.sidecar.kill();
    setup.sidecar = setup.estate.start();
    setup.sidecar.not_ready("policy: no bundle is in force").await;
    setup.put(Action::Reinstate, target()).await;
    setup.restart().await;
    run.call("work.do", "c", "{}").await.unwrap();
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_suspension_and_an_expired_reinstatement_have_no_effect() {
    let setup = Setup::sqlite().await;
    let run = setup.sidecar.open().await;
    let (past, future) = (Timestamp::from_millis(1), Timestamp::from_millis(4_000_000_000_000));
    let until = async |action, expires| {
        let seq = put_until(&*setup.operator, action, agent(), Some(expires)).await;
        // Its own answer: a stop behind it may be obeyed before it.
        let told = answer::wait(&*setup.operator, seq, crate::waiting::PATIENCE).await;
        done(&told.unwrap());
    };
    until(Action::Suspend, past).await;
    run.call("work.do", "a", "{}").await.unwrap();
    until(Action::Suspend, future).await;
    let answer = run.call("work.do", "b", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.suspended"));
    until(Action::Reinstate, past).await;
    let answer = run.call("work.do", "c", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.suspended"));
    until(Action::Reinstate, future).await;
    run.call("work.do", "d", "{}").await.unwrap();
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_says_it_is_not_active_opens_no_run() {
    for status in ["suspended", "retired", "revoked"] {
        let tool = crate::tool::Tool::start().await;
        let estate = crate::sidecar::Estate::sqlite(&tool);
        estate.manifest("1.0.1", "manifest", |text| {
            text.replace("\"status\": \"active\"", &format!("\"status\": \"{status}\""))
        });
        let sidecar = estate.serve().await;
        let opened = crate::agent::Agent::try_open(&estate.socket(), &estate.receipts).await;
        let refused = crate::agent::Refused::of(&opened.err().expect(status));
        assert_eq!(refused.code, "manifest.mismatch", "{status}");
        drop(sidecar);
    }
}
