//! What a policy wants masked in arguments: the tool gets the call without it, or the call does not run.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::corpus::Seeded;
use crate::kinds::{holds, question, whole};
use crate::world::World;

const ADDRESS: &str = "anna.berg@example.com";

/// The policy masks this in the arguments of every tool.
fn masks(kind: &str) -> String {
    format!(
        "obligations contains {{\"type\": \"redact\", \"kinds\": [\"{kind}\"], \"where\": \"arguments\"}}\n"
    )
}

/// The configuration looks for nothing: what is masked is the policy's own demand.
async fn world(rules: &str) -> World {
    let off = json!({"secret": "off", "personal": "off", "injection": "off", "unicode": "off"});
    World::configured(Vec::new(), rules, json!({"arguments": off, "results": off})).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_gets_arguments_without_what_the_policy_wants_masked_and_no_byte_of_it_is_kept() {
    let world = world(&masks("email")).await;
    let args = json!({"text": format!("write to {ADDRESS} and to 4111111111111111")}).to_string();
    let answer = world.agent.call("http", "same", &args).await.unwrap();
    let masked = "write to [REDACTED:email] and to 4111111111111111";
    assert!(answer.contains(masked), "{answer}");
    assert!(world.told()[0].contains(masked), "{:?}", world.told());
    // The same request again is the same call, after a restart too.
    assert_eq!(world.agent.call("http", "same", &args).await.unwrap(), answer);
    let World { estate, mut gate, agent, .. } = world;
    gate.kill();
    let gate = estate.serve();
    assert_eq!(agent.call("http", "same", &args).await.unwrap(), answer);
    let other = json!({"text": format!("write to {ADDRESS}")}).to_string();
    let refused = agent.call("http", "same", &other).await.unwrap_err();
    assert_eq!(refused.code, "call.conflict", "{refused:?}");
    agent.seal().await.unwrap();
    gate.finish();
    let authorized = &estate.entries("call.authorized")[0];
    let duty = &authorized["obligations"][0];
    assert_eq!((&duty["type"], &duty["where"]), (&json!("redact"), &json!("arguments")), "{duty}");
    assert_eq!(authorized["findings"][0]["action"], "redact", "{authorized}");
    assert_eq!(authorized["args_withheld"], Value::Null, "{authorized}");
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", &agent.run];
    estate.run(&[&export[..], &["--payloads", "--out", "of-run", "--key", "evidence"]].concat());
    for place in ["state", "of-run"] {
        let bytes = whole(&estate, place);
        assert!(!holds(&bytes, ADDRESS) && holds(&bytes, "[REDACTED:email]"), "{place}");
    }
    // A third party makes the same decision from what is recorded.
    let trust = "evidence-key evidence.pub\nmanifest-key manifest.pub\nenrolment-key state/enrolment.key.pub\n";
    std::fs::write(estate.path("trust.txt"), trust).unwrap();
    estate.run(&["evidence", "verify", "--trust", "trust.txt", "--replay", "of-run"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_cannot_be_masked_as_the_policy_wants_does_not_run() {
    let world = world(&(masks("email") + &masks("card"))).await;
    // A number that is masked is a text, and the tool takes none.
    let number = json!({"text": "x", "n": 4_111_111_111_111_111_u64});
    let refused = world.call("http", &number).await.unwrap_err();
    assert_eq!(refused.code, "arguments.invalid", "{refused:?}");
    assert!(!refused.message.contains("4111111111111111"), "{refused:?}");
    // No mask is put into a request to a model: its provider gets what the agent wrote, or nothing.
    let model = question(&format!("write to {ADDRESS}"));
    let refused = world.call("model", &model).await.unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.detail.as_str()),
        ("effect.refused", "dlp.personal")
    );
    assert!(refused.message.contains("the policy wants"), "{refused:?}");
    assert!(!refused.message.contains(ADDRESS), "{refused:?}");
    let harmless = question("write to the office");
    world.call("model", &harmless).await.unwrap();
    assert_eq!(world.told().len(), 1, "{:?}", world.told());
    world.agent.seal().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_the_firewall_does_not_know_is_a_denial() {
    let world = world(&masks("horoscope")).await;
    let refused = world.call("http", &json!({"text": "x"})).await.unwrap_err();
    assert_eq!(refused.code, "effect.refused", "{refused:?}");
    assert!(refused.message.contains("`horoscope`"), "{refused:?}");
    assert_eq!(world.told(), Vec::<String>::new());
    world.agent.seal().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_about_findings_sees_what_is_masked_as_gone_and_the_mask_stays() {
    let rule = "obligations contains {\"type\": \"redact\", \"kinds\": [\"email\"], \"where\": \"arguments\"} if {\n\
        \tsome found in input.findings\n\tfound.kind == \"email\"\n}\n";
    let world = world(rule).await;
    let answer = world.call("http", &json!({"text": format!("to {ADDRESS}")})).await.unwrap();
    assert!(answer.contains("to [REDACTED:email]"), "{answer}");
    let plain = world.call("http", &json!({"text": "to the office"})).await.unwrap();
    assert!(plain.contains("to the office"), "{plain}");
    world.agent.seal().await.unwrap();
    let World { estate, gate, .. } = world;
    gate.finish();
    // The policy's last answer is about the masked call and demands nothing: the entry says what it did demand.
    let [masked, plain] = <[Value; 2]>::try_from(estate.entries("call.authorized")).unwrap();
    assert_eq!(masked["obligations"], json!([]), "{masked}");
    assert_eq!(masked["masked"], json!({"policy": ["email"]}), "{masked}");
    assert_eq!(plain["masked"], Value::Null, "{plain}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_more_masked_kinds_than_findings_in_its_entry_is_the_same_when_it_is_repeated()
{
    // WHY not those with a part that decodes to no text: what is not searched cannot be masked.
    let opaque = ["anthropic", "azure_connection", "jwt", "private_key"];
    let mut keys = Seeded(20).keys();
    keys.retain(|(kind, _)| !opaque.contains(kind));
    for (kind, value) in
        [("email", ADDRESS), ("card", "4111 1111 1111 1111"), ("us_ssn", "536-90-4399")]
    {
        keys.push((kind, value.to_owned()));
    }
    let kinds: BTreeSet<&str> = keys.iter().map(|(kind, _)| *kind).collect();
    assert!(kinds.len() > 16, "{kinds:?}");
    let rule = json!({"type": "redact", "kinds": kinds, "where": "arguments"});
    let world = world(&format!("obligations contains {rule}\n")).await;
    let text: Vec<String> = keys.iter().map(|(_, key)| format!("it is {key}")).collect();
    let args = json!({"text": text.join("\n\n")}).to_string();
    let answer = world.agent.call("http", "same", &args).await.unwrap();
    for kind in &kinds {
        assert!(answer.contains(&format!("[REDACTED:{kind}]")), "{kind}: {answer}");
    }
    assert_eq!(world.agent.call("http", "same", &args).await.unwrap(), answer);
    world.agent.seal().await.unwrap();
    let World { estate, gate, .. } = world;
    gate.finish();
    let authorized = &estate.entries("call.authorized")[0];
    assert_eq!(authorized["findings"].as_array().unwrap().len(), 16, "{authorized}");
    assert_eq!(authorized["masked"], json!({"policy": kinds}), "{authorized}");
}
