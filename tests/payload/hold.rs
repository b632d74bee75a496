//! Clocks, and holds that stop them.

use crate::keeper::{Keeper, olga, otto};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_neither_erased_nor_expired_until_it_is_released() {
    let keeper = Keeper::sqlite().await;
    let (sidecar, agent) = keeper.served(2).await;
    let other = sidecar.open().await;
    other.call("work.do", "x", r#"{"n":1}"#).await.unwrap();
    let held = |verb: &str, what: [&str; 2]| {
        let who = if verb == "hold" { ["--by", "legal"] } else { ["--operator-key", otto()] };
        keeper.record(&[&["payload", verb, "--reason", "case 4"], &what[..], &who].concat())
    };
    let run = ["--run", agent.run.as_str()];
    assert_eq!(held("release", run).code, 1, "nothing is held yet");
    assert_eq!(held("hold", run).code, 0);
    assert!(held("hold", run).out.contains("already held"));
    assert_eq!(keeper.listed(&[]).iter().filter(|p| p.get("hold").is_some()).count(), 6);
    let refused = keeper.try_erase(olga(), &run);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("case 4") && refused.err.contains("legal"), "{refused:?}");
    // One held payload among others refuses all of them.
    let all: Vec<String> =
        keeper.listed(&[]).iter().map(|p| p["commitment"].as_str().unwrap().to_owned()).collect();
    let some: Vec<&str> =
        ["--commitment"].into_iter().chain(all.iter().map(String::as_str)).collect();
    assert_eq!(keeper.try_erase(olga(), &some).code, 1);
    assert_eq!(keeper.listed(&[]).len(), 9);
    let expire = |more: &[&str]| {
        let keep = ["payload", "expire", "--keep", "args=0d", "--keep", "result=0h"];
        keeper.record(&[&keep, more].concat())
    };
    let told = expire(&["--dry-run"]);
    assert!(told.out.contains("2 payloads due, 4 more on legal hold"), "{told:?}");
    assert_eq!(keeper.listed(&[]).len(), 9);
    assert_eq!(expire(&[]).code, 0);
    assert_eq!(keeper.listed(&[]).len(), 7, "the other run's policy input is young");
    // A hold on the whole log holds what is not of a held run too.
    let origin = keeper.estate.origin().await;
    let log = ["--log", origin.as_str()];
    assert_eq!(held("hold", log).code, 0);
    assert_eq!(held("release", run).code, 0);
    assert_eq!(keeper.try_erase(olga(), &run).code, 1);
    assert_eq!(held("release", log).code, 0);
    let refused = keeper.try_erase(otto(), &run);
    assert!(
        refused.code == 1 && refused.err.contains("the person who lifted a hold"),
        "{refused:?}"
    );
    assert_eq!(keeper.try_erase(olga(), &run).code, 0);
    assert_eq!(keeper.listed(&[]).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_that_is_too_long_for_the_verifier_is_not_recorded() {
    let keeper = Keeper::sqlite().await;
    let (mut sidecar, agent) = keeper.served(1).await;
    let run = ["--run", agent.run.as_str()];
    let hold = |reason: &str| {
        keeper
            .record(&[&["payload", "hold"], &run[..], &["--reason", reason, "--by", "l"]].concat())
    };
    let refused = hold(&"x".repeat(5000));
    assert!(
        refused.code != 0
            && refused.err.contains("--reason")
            && refused.err.contains("longer than 4096 characters"),
        "{refused:?}"
    );
    assert_eq!(hold("case 4").code, 0);
    agent.seal().await.unwrap();
    sidecar.stop().await;
    // Nobody said whom to trust; nothing is wrong beside that.
    let verify = keeper.ask(&["ledger", "verify", "--config", "wicketgate.yaml"]);
    assert!(verify.code == 2 && !verify.out.contains("INVALID"), "{verify:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_expires_is_recorded_as_such_two_hundred_at_a_time() {
    let keeper = Keeper::sqlite().await;
    keeper.estate.configure(|config| {
        config["retention"] =
            serde_json::json!({"payloads": {"args": "0d", "result": "0d", "policy_input": "0d"}});
    });
    let (_sidecar, _agent) = keeper.served(70).await;
    assert_eq!(keeper.listed(&[]).len(), 210);
    let ended = keeper.record(&["payload", "expire"]);
    assert!(ended.code == 0 && ended.out.contains("210 payloads erased"), "{ended:?}");
    let erased = keeper.sql(
        "SELECT count(*) FROM entry WHERE kind = 'payload.erased'
           AND json_extract(CAST(body AS TEXT), '$.data.basis') = 'retention'",
    );
    assert_eq!(erased.await, 2);
    assert!(keeper.listed(&[]).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_payloads_are_not_due_and_an_invalid_retention_is_refused() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, _agent) = keeper.served(1).await;
    let ended = keeper.record(&["payload", "expire"]);
    assert!(ended.code == 0 && ended.out.contains("0 payloads due"), "{ended:?}");
    assert_eq!(keeper.listed(&[]).len(), 3);
    keeper.estate.configure(|c| c["retention"] = serde_json::json!({"payloads": {"args": "soon"}}));
    let ended = keeper.ask(&["config", "check", "wicketgate.yaml"]);
    assert_ne!(ended.code, 0);
    assert!(format!("{ended:?}").contains("retention.payloads.args"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_that_a_policy_has_kept_longer_do_not_expire_with_the_others() {
    let keeper = Keeper::sqlite().await;
    let rules = "package wicketgate.agent\n\nimport rego.v1\n\nallow if input.tool.name == \"work.do\"\n\n\
        obligations contains {\"type\": \"enhanced_audit\", \"days\": 30} if input.args.n == 1\n";
    keeper.estate.bundle("1.0.1", rules, "policy");
    keeper.grant_incognito("allowed");
    let mut sidecar = keeper.estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "kept", r#"{"n":1}"#).await.unwrap();
    agent.call("work.do", "gone", r#"{"n":2}"#).await.unwrap();
    // Of an incognito run nothing else is stored.
    let hidden = keeper.open_incognito().await;
    hidden.call("work.do", "kept", r#"{"n":1}"#).await.unwrap();
    hidden.call("work.do", "gone", r#"{"n":2}"#).await.unwrap();
    sidecar.stop().await;
    assert_eq!(keeper.listed(&[]).len(), 9);
    let keep = ["args=0d", "result=0d", "policy_input=0d"].map(|term| ["--keep", term]);
    let expire = [&["payload", "expire"], keep.concat().as_slice()].concat();
    let dry = keeper.record(&[&expire[..], &["--dry-run"]].concat());
    let line = "3 payloads due, 0 more on legal hold, 6 more kept by `enhanced_audit`";
    assert!(dry.out.contains(line), "{dry:?}");
    assert_eq!(keeper.record(&expire).code, 0);
    assert_eq!(keeper.listed(&[]).len(), 6);
}
