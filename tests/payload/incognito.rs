//! Runs of which nothing is stored but commitments.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::checker::check;
use crate::keeper::{IBAN, Keeper, args, holds, outcome, whole};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_incognito_run_is_stored_and_its_agent_gets_its_results() {
    let keeper = Keeper::sqlite().await;
    keeper.grant_incognito("allowed");
    let (mut sidecar, open) = keeper.served(0).await;
    let agent = keeper.open_incognito().await;
    let answer = agent.call("work.do", "c1", &args(1)).await.unwrap();
    assert!(answer.contains(IBAN), "{answer}");
    // The gate still knows it, in memory only.
    assert_eq!(agent.call("work.do", "c1", &args(1)).await.unwrap(), answer);
    open.call("work.do", "c1", r#"{"n":1}"#).await.unwrap();
    assert_eq!(keeper.listed(&["--run", &agent.run]).len(), 0);
    assert_eq!(keeper.listed(&[]).len(), 3, "the other run's are stored");
    assert!(!holds(&keeper.raw(), IBAN) && !holds(sidecar.said().as_bytes(), IBAN));
    // It forgot: the call is answered, and not run again.
    sidecar.kill();
    let sidecar_again = keeper.estate.serve().await;
    let ran = keeper.tool.count();
    let refused = agent.call("work.do", "c1", &args(1)).await.unwrap_err();
    assert_eq!(refused.code, "call.result_unavailable", "{refused:?}");
    assert_eq!(keeper.tool.count(), ran);
    // A run that was taken up again is still incognito.
    agent.call("work.do", "c2", &args(2)).await.unwrap();
    assert_eq!(keeper.listed(&["--run", &agent.run]).len(), 0);
    agent.seal().await.unwrap();
    open.seal().await.unwrap();
    let bundle = keeper.export(&agent.run, "shown", &[]);
    let report = keeper.verify(&bundle);
    assert_eq!(outcome(&report, "P1").0, "VALID", "{report}");
    let text = std::fs::read_to_string(bundle.join("payloads/index.json")).unwrap();
    assert_eq!(text.matches(r#"{"why":"incognito","withheld":true}"#).count(), 6, "{text}");
    let lines = std::fs::read_to_string(bundle.join("ledger/entries.jsonl")).unwrap();
    assert!(lines.contains(r#""incognito":true"#));
    assert!(report["not_proven"].to_string().contains("nothing of the run was stored"));
    assert!(!holds(&whole(&bundle), IBAN) && !holds(&keeper.raw(), IBAN));
    drop(sidecar_again);
    check(&keeper.estate.database, &keeper.tool, &keeper.estate.receipts);
}

/// The policy is told whether a run is incognito, and allows calls of such runs only.
const ONLY_INCOGNITO: &str =
    "package wicketgate.agent\nimport rego.v1\nallow if input.run.incognito\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_incognito_only_as_its_manifest_grants_it_and_the_policy_sees_it() {
    // What the manifest says, what the run asks for, and whether it is incognito; `None`: refused.
    let cases = [
        ("", false, Some(false)),
        ("", true, None),
        ("forbidden", false, Some(false)),
        ("forbidden", true, None),
        ("allowed", false, Some(false)),
        ("allowed", true, Some(true)),
        ("required", false, Some(true)),
        ("required", true, Some(true)),
    ];
    for grants in cases.chunks(2) {
        let keeper = Keeper::sqlite().await;
        keeper.estate.bundle("1.0.0", ONLY_INCOGNITO, "policy");
        if !grants[0].0.is_empty() {
            keeper.grant_incognito(grants[0].0);
        }
        let _sidecar = keeper.estate.serve().await;
        for (grant, asked, wanted) in grants {
            let opened = keeper.try_open_incognito(*asked).await;
            let Some(incognito) = wanted else {
                let refused = opened.err().unwrap();
                let said = (refused.code.as_str(), refused.detail.as_str());
                assert_eq!(said, ("manifest.mismatch", "manifest.incognito"), "{grant}");
                assert!(refused.message.contains("spec.incognito"), "{refused:?}");
                continue;
            };
            let agent = opened.unwrap();
            let answer = agent.call("work.do", "c", &args(1)).await;
            assert_eq!(answer.is_ok(), *incognito, "{grant} {asked}: {answer:?}");
            let stored = keeper.listed(&["--run", &agent.run]).len();
            assert_eq!(stored == 0, *incognito, "{grant} {asked}: {stored} payloads");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_requires_what_it_forbids_is_refused_with_its_line() {
    let keeper = Keeper::sqlite().await;
    let sign = |spec: &[(&str, serde_json::Value)]| {
        let text = std::fs::read_to_string(keeper.path("agent.yaml")).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (name, value) in spec {
            manifest["spec"][name] = value.clone();
        }
        std::fs::write(keeper.path("odd.yaml"), serde_json::to_string_pretty(&manifest).unwrap())
            .unwrap();
        keeper.ask(&["manifest", "sign", "odd.yaml", "--key", &crate::sidecar::key("manifest")])
    };
    for word in ["forbiden", "Allowed", "", "yes"] {
        let refused = sign(&[("incognito", word.into())]);
        assert_ne!(refused.code, 0, "{word}");
        assert!(refused.err.contains("`forbidden`, `allowed` or `required`"), "{refused:?}");
    }
    let record = serde_json::json!({"mode": "record"});
    let refused = sign(&[("incognito", "required".into()), ("replay", record.clone())]);
    assert!(refused.code != 0 && refused.err.contains("cannot be recorded"), "{refused:?}");
    assert_eq!(sign(&[("incognito", "allowed".into()), ("replay", record)]).code, 0);
}

type Object = BTreeMap<String, serde_json::Value>;

/// Arguments and others that are not the same: a value, a type, a member, an order, a spelling away.
fn neighbours() -> Vec<(String, Vec<String>)> {
    let value = prop_oneof![
        any::<i32>().prop_map(serde_json::Value::from),
        "[ -~]{0,12}".prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    let object = proptest::collection::btree_map("[a-z]{1,6}", value.clone(), 1..5);
    let pair = (object, value, any::<prop::sample::Index>());
    let mut runner = TestRunner::deterministic();
    let others = |(object, value, at): (Object, serde_json::Value, prop::sample::Index)| {
        let name = object.keys().nth(at.index(object.len())).unwrap().clone();
        let changed = |change: &dyn Fn(&mut Object)| {
            let mut other = object.clone();
            change(&mut other);
            serde_json::to_string(&other).unwrap()
        };
        let text = changed(&|_| {});
        let all = [
            changed(&|o| drop(o.insert(name.clone(), value.clone()))),
            changed(&|o| drop(o.insert(name.clone(), serde_json::json!([o[&name]])))),
            changed(&|o| drop(o.remove(&name))),
            changed(&|o| drop(o.insert(format!("{name}x"), serde_json::Value::Null))),
        ];
        (text.clone(), all.into_iter().filter(|other| *other != text).collect())
    };
    (0..12).map(|_| others(pair.new_tree(&mut runner).unwrap().current())).collect()
}

/// Asks for each call, and then under the same ids for its neighbours, before and after a restart and with what
/// was stored erased.
pub async fn nothing_is_taken_for_another_call(keeper: &Keeper, from: &[&str]) {
    keeper.grant_incognito("allowed");
    let mut sidecar = keeper.estate.serve().await;
    let calls = neighbours();
    let (hidden, plain) = (keeper.open_incognito().await, sidecar.open().await);
    for agent in [&hidden, &plain] {
        for (n, (args, _)) in calls.iter().enumerate() {
            agent.call("work.do", &format!("c{n}"), args).await.unwrap();
        }
    }
    let ran = keeper.tool.count();
    for erased in [false, true] {
        for (n, (args, others)) in calls.iter().enumerate() {
            let id = format!("c{n}");
            for agent in [&hidden, &plain] {
                for other in others {
                    let refused = agent.call("work.do", &id, other).await.unwrap_err();
                    assert_eq!(refused.code, "call.conflict", "{args} is not {other}");
                }
                let refused = agent.call("work.fail", &id, args).await.unwrap_err();
                assert_eq!(refused.code, "call.conflict", "another tool: {args}");
                match agent.call("work.do", &id, args).await {
                    Ok(_) => assert!(!erased, "{args}"),
                    Err(refused) => {
                        assert_eq!(refused.code, "call.result_unavailable", "{args}");
                        assert!(erased, "{refused:?}");
                    }
                }
            }
        }
        if !erased {
            sidecar.kill();
            keeper.erase(&[&["--run", plain.run.as_str()], from].concat());
            sidecar = keeper.estate.serve().await;
        }
    }
    assert_eq!(keeper.tool.count(), ran, "a call ran twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_with_other_bytes_is_a_conflict_whether_or_not_arguments_are_stored() {
    let keeper = Keeper::sqlite().await;
    nothing_is_taken_for_another_call(&keeper, &[]).await;
}
